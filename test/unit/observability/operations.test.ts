import { expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { Durations } from '../../../src/observability/histogram.ts'
import { McpMetrics, sentStatus, servedStatus } from '../../../src/observability/operations.ts'

const relayed = (error: unknown): GatewayError =>
  new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.of(error) })

it.each([
  ['ok', undefined, {}],
  ['ask', undefined, {}],
  ['task', undefined, {}],
  ['tool_error', undefined, { type: 'tool_error' }],
  ['PARSE_ERROR', -32700, { code: '-32700' }],
  ['INVALID_REQUEST', -32600, { code: '-32600' }],
  ['UNSUPPORTED_OPERATION', -32601, { code: '-32601' }],
  ['INVALID_INPUT', -32602, { code: '-32602' }],
  ['RESOURCE_NOT_FOUND', -32002, { code: '-32002' }],
  ['SERVER_ERROR', -32603, { code: '-32603', type: '-32603' }],
  ['OVERLOADED', -32006, { code: '-32006', type: '-32006' }],
  ['UPSTREAM_ERROR', 7, { code: '7', type: '7' }],
] as const)('a request that ends with %s and code %s has the status %j', (outcome, rpc, status) => {
  expect(servedStatus({ outcome, ms: 1, ...(rpc !== undefined && { rpc }) })).toEqual(status)
})

it.each([
  ['an error of the server', relayed({ code: -32602, message: 'no' }), { code: '-32602', type: '-32602' }],
  ['an error without a code', relayed({ message: 'no' }), { type: 'UPSTREAM_ERROR' }],
  ['an error whose code is null', relayed({ code: null }), { type: 'UPSTREAM_ERROR' }],
  ['no response', new GatewayError('OPERATION_TIMEOUT', 'late'), { type: 'OPERATION_TIMEOUT' }],
  ['no error', undefined, {}],
])('%s is the status of a request to a server', (_title, error, status) => {
  expect(sentStatus(error, false)).toEqual(status)
})

const samples = (metrics: McpMetrics, name: string): string[] =>
  metrics.text.split('\n').filter((line) => line.startsWith(`${name}_count{`))

it('the codes, revisions and names that a server chooses are counted under a limited number of labels', () => {
  const metrics = new McpMetrics(() => true)
  const meter = metrics.upstream('one', { transport: 'pipe' })
  for (let at = 0; at < 600; at++) {
    meter.sent({ method: 'tools/call', name: 'a', seconds: 1, error: relayed({ code: at }) }, '2025-11-25')
    meter.sent({ method: 'tools/list', seconds: 1 }, `revision-${at}`)
    meter.sent({ method: 'tools/call', name: `tool-${at}`, seconds: 1, result: Payload.of({}) }, '2025-11-25')
    meter.ended(1, `revision-${at}`)
  }
  const other = metrics.upstream('two', { transport: 'pipe' })
  for (const error of [relayed({ code: -7 }), new GatewayError('SERVER_UNAVAILABLE', 'no')])
    other.sent({ method: 'tools/list', seconds: 1, error }, '2025-11-25')
  const all = samples(metrics, 'mcp_client_operation_duration_seconds')
  expect(all.filter((line) => /error_type="(?:-7|SERVER_UNAVAILABLE)".*"two"/.test(line))).toHaveLength(2)
  const operations = all.filter((line) => line.includes('"one"'))
  expect(operations.filter((line) => line.includes('error_type')).length).toBeLessThanOrEqual(51)
  expect(operations.filter((line) => line.includes('tools/list')).length).toBeLessThanOrEqual(21)
  expect(operations.filter((line) => line.includes('"tool-')).length).toBe(500)
  expect(operations.join('\n')).toContain('gen_ai_tool_name="_OTHER"')
  expect(samples(metrics, 'mcp_client_session_duration_seconds').length).toBeLessThanOrEqual(21)
})

it('a tool is named once a call of it has succeeded', () => {
  const metrics = new McpMetrics(() => true)
  const meter = metrics.upstream('one', { transport: 'tcp', address: 'example.com', port: 443 })
  const failed = Payload.of({ isError: true })
  meter.sent({ method: 'tools/call', name: 'a', seconds: 1, result: failed }, '2025-11-25')
  meter.sent({ method: 'tools/call', name: 'a', seconds: 1, result: Payload.of({}) }, '2025-11-25')
  meter.sent({ method: 'tools/call', name: 'a', seconds: 1, result: failed }, '2025-11-25')
  const labels =
    'mcp_protocol_version="2025-11-25",network_protocol_name="http",network_transport="tcp",gatehouse_upstream="one",server_address="example.com",server_port="443"'
  const of = (tool: string, type = ''): string =>
    `mcp_client_operation_duration_seconds_count{mcp_method_name="tools/call",${type}gen_ai_operation_name="execute_tool",gen_ai_tool_name="${tool}",${labels}} 1`
  expect(samples(metrics, 'mcp_client_operation_duration_seconds')).toEqual([
    of('_OTHER', 'error_type="tool_error",'),
    of('a'),
    of('a', 'error_type="tool_error",'),
  ])
})

it('nothing is counted while metrics are off', () => {
  const metrics = new McpMetrics(() => true)
  metrics.isOn = false
  const meter = metrics.sessions({ transport: 'pipe' })
  meter.sent({ method: 'roots/list', seconds: 1 }, '2025-11-25')
  meter.answered({ method: 'ping', seconds: 1 }, '2025-11-25')
  meter.ended(1, '2025-11-25')
  expect(metrics.text).not.toContain('_count{')
})

it('sets of labels beyond the limit share one, which says so', () => {
  const durations = new Durations({ name: 'd', help: 'D.', labels: ['a.b', 'c'], bounds: [1] })
  for (let at = 0; at < 5002; at++) durations.with(`${at}`, undefined).observe(0.5)
  expect(durations.sets).toHaveLength(5001)
  expect(durations.text).toContain('d_count{a_b="4999"} 1')
  expect(durations.text).toContain('d_bucket{otel_metric_overflow="true",le="1"} 2')
})
