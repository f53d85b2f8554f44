import { readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { clientOf, folder, gatewayTo, httpServer, serverJournal, stdioServer } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { traceCollector } from '../../support/trace-collector.ts'
import { undoableFiles } from '../../support/undoable-files.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const callerSpan = '00f067aa0ba902b7'
const SERVER = 2
const CLIENT = 3

/** The `_meta` of a request. */
const metaOf = (message: Json | undefined): Json => objectAt(objectAt(message, 'params'), '_meta')

/** Makes a call as part of the caller's trace. */
const traced = (name: string, flags = '01') => ({
  name,
  arguments: { secret: 'argument-value' },
  _meta: { traceparent: `00-${traceId}-${callerSpan}-${flags}` },
})

describe('spans', () => {
  it('C198 form one trace from the client through the gateway to an HTTP server', async () => {
    const collector = await traceCollector()
    const server = await httpServer()
    const traces = {
      endpoint: collector.url,
      headers: { 'x-api-key': 'collector-secret' },
      service_name: 'door',
    }
    const gateway = await gatewayTo({ one: { url: server.url } }, { config: { observe: { traces } } })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await client.request('tools/call', traced('echo'))
    const spans = await collector.spans(traceId, 2)
    const received = spans.find(({ kind }) => kind === SERVER)
    const sent = spans.find(({ kind }) => kind === CLIENT)
    expect(received).toMatchObject({
      name: 'tools/call echo',
      parentSpanId: callerSpan,
      attributes: {
        'mcp.method.name': 'tools/call',
        'mcp.protocol.version': '2026-07-28',
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'echo',
        'network.transport': 'tcp',
      },
    })
    expect(sent).toMatchObject({
      name: 'tools/call echo',
      parentSpanId: received?.spanId,
      attributes: {
        'mcp.protocol.version': '2025-11-25',
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(server.url).port),
        'gatehouse.upstream': 'one',
      },
    })
    const [seen] = server.received('tools/call')
    expect(seen?.headers['traceparent']).toBe(`00-${traceId}-${sent?.spanId}-01`)
    expect(metaOf(seen?.message)['traceparent']).toBe(seen?.headers['traceparent'])
    expect(collector.headers[0]?.['x-api-key']).toBe('collector-secret')
    expect(collector.text()).toContain('"door"')
    expect(collector.text()).not.toContain('argument-value')
  })

  it('C198 form one trace with a stdio server, and record failures', async () => {
    const collector = await traceCollector()
    const journal = serverJournal()
    const gateway = await gatewayTo(
      { one: stdioServer({ seenFile: journal.file }) },
      { config: { observe: { traces: { endpoint: `${collector.url}/v1/traces` } } } },
    )
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await client.request('prompts/get', traced('no-such-prompt')).catch(() => undefined)
    const spans = await collector.spans(traceId, 2)
    const sent = spans.find(({ kind }) => kind === CLIENT)
    expect(sent).toMatchObject({
      name: 'prompts/get no-such-prompt',
      status: { code: 2 },
      attributes: {
        'network.transport': 'pipe',
        'error.type': expect.stringMatching(/^-32\d{3}$/),
        'rpc.response.status_code': expect.stringMatching(/^-32\d{3}$/),
      },
    })
    const line = await until(
      () =>
        readFileSync(journal.file, 'utf8')
          .split('\n')
          .find((each) => each.includes('prompts/get')),
      'the call',
    )
    expect(metaOf(objectAt(JSON.parse(line), 'message'))['traceparent']).toBe(
      `00-${traceId}-${sent?.spanId}-01`,
    )
  })

  it('are sampled as the caller decided, otherwise at the configured rate', async () => {
    const collector = await traceCollector()
    const server = await httpServer()
    const traces = { endpoint: collector.url, sample: 0 }
    const gateway = await gatewayTo({ one: { url: server.url } }, { config: { observe: { traces } } })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await client.request('tools/call', { name: 'echo' })
    await client.request('tools/call', traced('echo', '00'))
    await client.request('tools/call', traced('echo', '01'))
    const spans = await collector.spans(traceId, 2)
    expect(spans).toHaveLength(2)
    expect(collector.text()).not.toContain('server/discover')
    const flags = server.received('tools/call').map(({ headers }) => headers['traceparent']?.slice(-2))
    expect(flags).toEqual(['00', '00', '01'])
  })

  it('of a compensation are linked to the trace of its step', async () => {
    const collector = await traceCollector()
    const root = realpathSync(folder())
    const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
    const gateway = await gatewayTo(
      { files: { command, tools: undoableFiles } },
      { config: { observe: { traces: { endpoint: collector.url } } } },
    )
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const path = join(root, 'a.txt')
    writeFileSync(path, 'before')
    const transaction = { transaction_id: 't-1' }
    await client.request('tools/call', { name: 'begin_transaction', arguments: transaction })
    await client.request('tools/call', {
      name: 'write_file',
      arguments: { path, content: 'after' },
      _meta: { ...transaction, traceparent: `00-${traceId}-${callerSpan}-01` },
    })
    const step = await collector.span((span) => span.kind === SERVER && span.parentSpanId === callerSpan)
    await client.request('tools/call', { name: 'rollback_transaction', arguments: transaction })
    expect(readFileSync(path, 'utf8')).toBe('before')
    const undone = await collector.span(
      ({ kind, name, spanId }) =>
        kind === SERVER && name === 'tools/call write_file' && spanId !== step.spanId,
    )
    expect(undone.traceId).not.toBe(traceId)
    expect(undone.links).toEqual([expect.objectContaining({ traceId, spanId: step.spanId })])
  })

  it('that cannot be exported are reported in the log, and delay nothing', async () => {
    const gateway = await gatewayTo(
      { one: stdioServer() },
      { config: { observe: { traces: { endpoint: 'http://127.0.0.1:9/v1/traces' } } } },
    )
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'echo' })
    await gateway.logged((line) => line['event'] === 'call' && line['trace_id'] !== undefined)
  })
})
