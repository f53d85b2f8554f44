// Spans and metrics by the MCP semantic conventions of OpenTelemetry, as the official clients cause them.
import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { clientOf, folder, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { enveloped } from '../../support/client/modern-request.ts'
import { post } from '../../support/client/raw.ts'
import { initialize } from '../../support/fronts.ts'
import { connectSdk1 } from '../../support/peers/sdk1.ts'
import { connectSdk2 } from '../../support/peers/sdk2.ts'
import type { PeerClient, Way } from '../../support/peers/client.ts'
import { type Collector, traceCollector } from '../../support/trace-collector.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const SERVER = 2
const CLIENT = 3
const BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

interface Kind {
  readonly title: string
  readonly revision: string
  connect(way: Way): Promise<PeerClient>
}

const kinds: readonly Kind[] = [
  { title: 'SDK 1.x', revision: '2025-11-25', connect: connectSdk1 },
  {
    title: 'SDK 2.x with a handshake',
    revision: '2025-11-25',
    connect: (way) => connectSdk2(way, 'legacy'),
  },
  {
    title: 'SDK 2.x of 2026-07-28',
    revision: '2026-07-28',
    connect: (way) => connectSdk2(way, { pin: '2026-07-28' }),
  },
]

/** The variables that send everything to a collector at once. */
const toCollector = ({ url }: Collector) => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/`,
  OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=blue%20team',
  OTEL_METRIC_EXPORT_INTERVAL: '100',
  OTEL_SERVICE_NAME: 'door',
  OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=lab',
})

/** What every client does. */
async function use(client: PeerClient): Promise<void> {
  await client.tools()
  await client.call('echo', { text: 'argument-value' })
  await client.prompt('greet', { name: 'Ada' }).catch(() => undefined)
  await client.read('fake://static').catch(() => undefined)
  await client.call('no-such-tool').catch(() => undefined)
}

describe.each(kinds)('$title', ({ revision, connect }) => {
  const hasSession = revision === '2025-11-25'

  it('over HTTP has spans with its address, its session and its request, and is counted', async () => {
    const collector = await traceCollector()
    const server = await httpServer()
    const gateway = await gatewayTo({ one: { url: server.url } }, { env: toCollector(collector) })
    const client = await connect({ transport: 'http', url: gateway.url })
    await use(client)
    const received = await collector.span(({ kind, name }) => kind === SERVER && name === 'tools/call echo')
    expect(received.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': revision,
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'echo',
      'jsonrpc.request.id': expect.stringMatching(/^\d+$/),
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'network.protocol.version': '1.1',
      'client.address': '127.0.0.1',
      'client.port': expect.anything(),
    })
    expect(received.status.code ?? 0).toBe(0)
    for (const absent of ['error.type', 'rpc.response.status_code', 'server.address', 'mcp.resource.uri'])
      expect(received.attributes).not.toHaveProperty([absent])
    const sent = await collector.span(({ kind, name }) => kind === CLIENT && name === 'tools/call echo')
    const [seen] = server.received('tools/call')
    expect(sent.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-11-25',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'echo',
      'jsonrpc.request.id': String(seen?.message?.['id']),
      'mcp.session.id': expect.stringMatching(/^[0-9a-f]{32}$/),
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'network.protocol.version': '1.1',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(server.url).port),
    })
    expect(sent.attributes).not.toHaveProperty(['client.address'])
    expect(collector.text()).not.toContain(seen?.headers['mcp-session-id'])
    expect(collector.text()).not.toContain('argument-value')
    if (hasSession) {
      const listed = await collector.span(({ kind, name }) => kind === SERVER && name === 'tools/list')
      expect(received.attributes['mcp.session.id']).toMatch(/^[0-9a-f]{32}$/)
      expect(listed.attributes['mcp.session.id']).toBe(received.attributes['mcp.session.id'])
      expect(sent.attributes['mcp.session.id']).not.toBe(received.attributes['mcp.session.id'])
      const opened = await collector.span(({ kind, name }) => kind === SERVER && name === 'initialize')
      expect(opened.attributes['mcp.session.id']).toBe(received.attributes['mcp.session.id'])
    } else expect(received.attributes).not.toHaveProperty(['mcp.session.id'])
    const read = await collector.span(({ kind, name }) => kind === SERVER && name === 'resources/read')
    expect(read.attributes['mcp.resource.uri']).toBe('fake://static')
    const prompt = await collector.span(({ kind, name }) => kind === SERVER && name === 'prompts/get greet')
    expect(prompt.attributes['gen_ai.prompt.name']).toBe('greet')
    expect(prompt.attributes).not.toHaveProperty(['gen_ai.operation.name'])
    const refused = await collector.span(({ name }) => name === 'tools/call no-such-tool')
    // The caller's fault is no error of the server.
    expect(refused.attributes['rpc.response.status_code']).toBe('-32602')
    expect(refused.attributes).not.toHaveProperty(['error.type'])
    expect(refused.status.code ?? 0).toBe(0)
    expect(collector.headers[0]?.['x-tenant']).toBe('blue team')
    expect(collector.text()).toContain('"deployment.environment.name"')
    await client.close()
    const common = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'echo',
      'mcp.method.name': 'tools/call',
      'network.protocol.name': 'http',
      'network.protocol.version': '1.1',
      'network.transport': 'tcp',
      'gatehouse.upstream': 'one',
    }
    const served = await collector.point(
      'mcp.server.operation.duration',
      ({ attributes }) => attributes['gen_ai.tool.name'] === 'echo',
    )
    expect(served).toMatchObject({ count: 1, bounds: BOUNDS })
    expect(served.attributes).toEqual({ ...common, 'mcp.protocol.version': revision })
    expect(served.sum).toBeGreaterThan(0)
    const asked = await collector.point(
      'mcp.client.operation.duration',
      ({ attributes }) => attributes['gen_ai.tool.name'] === 'echo',
    )
    expect(asked).toMatchObject({ count: 1, bounds: BOUNDS })
    expect(asked.attributes).toEqual({
      ...common,
      'mcp.protocol.version': '2025-11-25',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(server.url).port),
    })
    const greeted = await collector.point(
      'mcp.client.operation.duration',
      ({ attributes }) => attributes['mcp.method.name'] === 'initialize',
    )
    expect(greeted.count).toBeGreaterThan(0)
    const unknown = await collector.point(
      'mcp.server.operation.duration',
      ({ attributes }) => attributes['gen_ai.tool.name'] === '_OTHER',
    )
    expect(unknown.attributes['rpc.response.status_code']).toBe('-32602')
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    expect(metrics).toMatch(
      new RegExp(
        `^mcp_server_operation_duration_seconds_count\\{mcp_method_name="tools/call",gen_ai_operation_name="execute_tool",gen_ai_tool_name="echo",mcp_protocol_version="${revision}",network_protocol_name="http",network_protocol_version="1.1",network_transport="tcp",gatehouse_upstream="one"\\} 1$`,
        'm',
      ),
    )
    expect(metrics).toMatch(
      /^mcp_client_operation_duration_seconds_bucket\{.*gen_ai_tool_name="echo".*le="300"\} 1$/m,
    )
    expect(metrics).toContain('# TYPE mcp_server_session_duration_seconds histogram')
    expect(metrics).toContain('# TYPE mcp_client_session_duration_seconds histogram')
    expect(metrics).not.toContain('no-such-tool')
  })

  it('over stdio has spans and metrics of a pipe, exported when the gateway ends', async () => {
    const collector = await traceCollector()
    const file = join(folder(), 'gateway.config.yaml')
    const config = {
      observe: {
        traces: { endpoint: collector.url },
        metrics_export: { endpoint: collector.url, interval: '1h', service_name: 'pipe' },
      },
      features: plainFeatures(undefined),
      upstreams: { one: stdioServer() },
    }
    writeFileSync(file, JSON.stringify(config))
    const [program = process.execPath, ...args] = gatewayProgram()
    const command = [program, ...args, 'stdio', '--config', file]
    const client = await connect({ transport: 'stdio', command })
    await use(client)
    await client.close()
    const received = await collector.span(({ kind, name }) => kind === SERVER && name === 'tools/call echo')
    expect(received.attributes).toMatchObject({
      'mcp.protocol.version': revision,
      'network.transport': 'pipe',
    })
    const none = ['client.address', 'client.port', 'network.protocol.name', 'network.protocol.version']
    for (const absent of none) expect(received.attributes).not.toHaveProperty([absent])
    const sent = await collector.span(({ kind, name }) => kind === CLIENT && name === 'tools/call echo')
    expect(sent.attributes).toMatchObject({ 'network.transport': 'pipe' })
    for (const absent of ['server.address', 'mcp.session.id', ...none])
      expect(sent.attributes).not.toHaveProperty([absent])
    if (hasSession) expect(received.attributes['mcp.session.id']).toMatch(/^[0-9a-f]{32}$/)
    const served = await collector.point(
      'mcp.server.operation.duration',
      ({ attributes }) => attributes['gen_ai.tool.name'] === 'echo',
    )
    expect(served.attributes).toEqual({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'echo',
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': revision,
      'network.transport': 'pipe',
      'gatehouse.upstream': 'one',
    })
    const closed = collector.points('mcp.client.session.duration')
    expect(closed).toMatchObject([
      {
        count: expect.anything(),
        bounds: BOUNDS,
        attributes: {
          'mcp.protocol.version': '2025-11-25',
          'network.transport': 'pipe',
          'gatehouse.upstream': 'one',
        },
      },
    ])
    const sessions = collector.points('mcp.server.session.duration')
    expect(sessions).toMatchObject(
      hasSession
        ? [{ count: 1, attributes: { 'mcp.protocol.version': revision, 'network.transport': 'pipe' } }]
        : [],
    )
  })
})

describe('metrics of the conventions', () => {
  it('count sessions over HTTP when they end, and requests that concern only them', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const opened = await post(gateway.url, JSON.stringify(initialize()))
    const id = opened.headers['mcp-session-id'] ?? ''
    const session = { 'mcp-session-id': id }
    await post(gateway.url, '{"jsonrpc":"2.0","id":2,"method":"ping"}', session)
    await post(
      gateway.url,
      '{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"loud"}}',
      session,
    )
    await fetch(gateway.url, { method: 'DELETE', headers: session })
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    expect(metrics).toMatch(
      /^mcp_server_session_duration_seconds_count\{mcp_protocol_version="2025-11-25",network_protocol_name="http",network_transport="tcp"\} 1$/m,
    )
    expect(metrics).toMatch(/^mcp_server_operation_duration_seconds_count\{mcp_method_name="ping",.*\} 1$/m)
    expect(metrics).toMatch(
      /^mcp_server_operation_duration_seconds_count\{mcp_method_name="logging\/setLevel",.*rpc_response_status_code="-32602"\} 1$/m,
    )
    expect(metrics).not.toContain(id)
  })

  it('name no method, tool or prompt that a caller invents', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    for (let at = 0; at < 10; at++) {
      for (const [method, params] of [
        [`evil/method-${at}`, {}],
        ['tools/call', { name: `evil-tool-${at}` }],
        ['prompts/get', { name: `evil-prompt-${at}` }],
      ] as const) {
        const message = { jsonrpc: '2.0', id: at, method, params: enveloped(params, '2026-07-28', {}) }
        await post(gateway.url, JSON.stringify(message), {
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': method,
          ...('name' in params && { 'mcp-name': params.name }),
        })
      }
    }
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    expect(metrics).not.toContain('evil')
    expect(metrics).toMatch(
      /mcp_server_operation_duration_seconds_count\{mcp_method_name="_OTHER",[^}]*\} 10/,
    )
    expect(metrics).toMatch(/gen_ai_tool_name="_OTHER"/)
    expect(metrics).toMatch(/gen_ai_prompt_name="_OTHER"/)
  })

  it('tell a failure of a server by its code, and one without a response by what happened', async () => {
    const collector = await traceCollector()
    const gateway = await gatewayTo(
      { one: stdioServer(), gone: { url: 'http://127.0.0.1:9/mcp' } },
      { env: toCollector(collector) },
    )
    const client = await clientOf({ url: new URL('/mcp/one', gateway.url).href })
    await client.request('tools/call', { name: 'fail', arguments: {} }).catch(() => undefined)
    const failed = await collector.point(
      'mcp.server.operation.duration',
      ({ attributes }) => attributes['error.type'] === 'tool_error',
    )
    expect(failed.attributes).not.toHaveProperty(['rpc.response.status_code'])
    const params = enveloped({ name: 'x' }, '2026-07-28', {})
    await post(
      new URL('/mcp/gone', gateway.url).href,
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'prompts/get', params }),
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'prompts/get', 'mcp-name': 'x' },
    )
    const span = await collector.span(({ name, kind }) => kind === CLIENT && name === 'prompts/get x')
    expect(span.attributes['error.type']).toBe('SERVER_UNAVAILABLE')
    expect(span.attributes).not.toHaveProperty(['rpc.response.status_code'])
    expect(span.status).toMatchObject({ code: 2, message: expect.stringContaining('server') })
  })

  it('are sent in the binary form on request, and not at all if OpenTelemetry is off', async () => {
    const types: unknown[] = []
    const receiver = createServer((request, response) => {
      types.push(request.headers['content-type'])
      request.resume().on('end', () => response.end())
    })
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void receiver.close())
    const address = receiver.address()
    const port = typeof address === 'object' ? address?.port : 0
    const variables = {
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `http://127.0.0.1:${port}/own/path`,
      OTEL_METRIC_EXPORT_INTERVAL: '50',
    }
    const off = await gatewayTo({ one: stdioServer() }, { env: { ...variables, OTEL_SDK_DISABLED: 'true' } })
    await (await clientOf(off)).request('tools/call', { name: 'echo' })
    await off.close()
    expect(types).toEqual([])
    const env = { ...variables, OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/protobuf' }
    const gateway = await gatewayTo({ one: stdioServer() }, { env })
    await (await clientOf(gateway)).request('tools/call', { name: 'echo' })
    await expect.poll(() => types[0]).toBe('application/x-protobuf')
    const grpc = { ...variables, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
    const other = await gatewayTo({ one: stdioServer() }, { env: grpc })
    const line = await other.logged(({ event }) => event === 'metrics.failed')
    expect(line['reason']).toContain('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL to http/protobuf')
  })
})
