import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { startCommand } from '../../support/gateway.ts'
import { until } from '../../support/condition.ts'
import {
  callsOf,
  clientOf,
  gatewayTo,
  httpServer,
  serverJournal,
  stdioServer,
} from '../../support/journey.ts'
import { post } from '../../support/client/raw.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const parent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

const clientInfo = { name: 'host', version: '1' }
const handshake = [
  {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
  },
  { jsonrpc: '2.0', method: 'notifications/initialized' },
]

/** The `_meta` of a request. */
const metaOf = (message: Json | undefined): Json => objectAt(objectAt(message, 'params'), '_meta')

describe('the request id', () => {
  it('C187 C197 C201 C230 is the same in the response, in the log, at the server and in an error', async () => {
    const server = await httpServer()
    const gateway = await gatewayTo({ one: { url: server.url }, two: { url: server.url } })
    const session = await openSession(gateway.url, '2025-11-25')
    const made = await session.post(toolCall(1, 'one_echo', { n: 1 }))
    const id = made.headers['x-request-id']
    expect(id).toMatch(/^\w{8}-\d+$/)
    await gateway.logged((line) => line['request_id'] === id && line['rpc_id'] === '1')
    expect(server.received('tools/call').at(-1)?.headers['x-request-id']).toBe(id)

    const given = { ...session.headers, 'x-request-id': 'mine-7' }
    const failed = await post(gateway.url, JSON.stringify(toolCall(2, 'three_x')), given)
    expect(failed.headers['x-request-id']).toBe('mine-7')
    expect(objectAt(objectAt(JSON.parse(failed.text), 'error'), 'data')['requestId']).toBe('mine-7')
    await gateway.logged((line) => line['request_id'] === 'mine-7')
  })

  it('C230 is on every response, and in the log of a refused request', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    for (const path of ['/health', '/ready', '/metrics', '/nothing', '/', '/mcp', '/sse']) {
      const answer = await fetch(gateway.origin + path, {
        headers: { 'x-request-id': `for${path}`.replace('/', '-') },
      })
      expect(answer.headers.get('x-request-id')).toBe(`for${path}`.replace('/', '-'))
      await answer.body?.cancel()
    }
    const refused = await gateway.logged((line) => line['request_id'] === 'for-mcp')
    expect(refused).toMatchObject({ event: 'refused', request: 'GET /mcp', code: 'METHOD_NOT_ALLOWED' })
  })

  it('C200 is created for each call over stdio', async () => {
    const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
    const process = startCommand(['stdio', '--', command, ...args])
    onTestFinished(() => process.close())
    for (const message of handshake) process.stdin.write(`${JSON.stringify(message)}\n`)
    await until(() => process.stdout().includes('"id":1,'), 'the handshake')
    for (const id of [2, 3]) process.stdin.write(`${JSON.stringify(toolCall(id, 'echo'))}\n`)
    const lines = await until(() => {
      const found = process
        .stderr()
        .split('\n')
        .filter((line) => line.includes('"method":"tools/call"'))
      return found.length === 2 && found
    }, 'two calls')
    const ids = lines.map((line) => (JSON.parse(line) as Json)['request_id'])
    expect(ids[0]).toMatch(/^\w{8}-\d+$/)
    expect(ids[1]).not.toBe(ids[0])
  })
})

describe('the trace of a caller', () => {
  it('C198 C199 is sent to an HTTP server in headers and in _meta, even if the gateway exports no traces', async () => {
    const server = await httpServer()
    const gateway = await gatewayTo({ one: { url: server.url } })
    const session = await openSession(gateway.url, '2025-11-25')
    const trace = { traceparent: parent, tracestate: 'a=1', baggage: 'b=2' }
    await post(gateway.url, JSON.stringify(toolCall(1, 'echo')), { ...session.headers, ...trace })
    const [seen] = server.received('tools/call')
    expect(seen?.headers).toMatchObject(trace)
    expect(metaOf(seen?.message)).toEqual(trace)
    await session.post(toolCall(2, 'echo'))
    expect(callsOf(server, 'echo')).toBe(2)
    expect(objectAt(server.received('tools/call').at(-1)?.message, 'params')['_meta']).toBeUndefined()
  })

  it.each(['2025-11-25', '2026-07-28'] as const)(
    'C198 is sent to a server of %s over stdio in _meta',
    async (revision) => {
      const journal = serverJournal()
      const gateway = await gatewayTo({ one: stdioServer({ revision, seenFile: journal.file }) })
      const client = await clientOf(gateway, { revision: '2026-07-28' })
      const _meta = { traceparent: parent }
      await client.request('tools/call', { name: 'echo', _meta }, { headers: { traceparent: 'nonsense' } })
      const line = await until(
        () =>
          readFileSync(journal.file, 'utf8')
            .split('\n')
            .find((each) => each.includes('tools/call')),
        'the call',
      )
      expect(metaOf(objectAt(JSON.parse(line), 'message'))['traceparent']).toBe(parent)
    },
  )
})
