import { describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { clientOf, gatewayProcessTo, httpServer, stdioServer } from '../../support/journey.ts'
import { childrenRunning, hasProcessTree } from '../../support/process-tree.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { HttpLink } from '../../support/client/http-link.ts'
import { open, post, whole } from '../../support/client/raw.ts'
import type { Json } from '../../support/server/json.ts'

const answers = {
  'elicitation/create': (params: Json) => ({ action: 'accept', content: { name: params['message'] } }),
}

function servers(): readonly [string, () => Promise<Json>][] {
  return [
    ['over stdio', async () => stdioServer({ askTimeoutMs: 20_000 })],
    ['over HTTP', async () => ({ url: (await httpServer({ askTimeoutMs: 20_000 })).url })],
  ]
}

describe.each(servers())('two clients of one server %s', (_name, server) => {
  test('receive the progress of their own calls only, even with the same token', async () => {
    const gateway = await gatewayProcessTo({ one: await server() })
    const [first, second] = [await clientOf(gateway), await clientOf(gateway)]
    const call = { name: 'slow', arguments: { ms: 200, steps: 4 } }
    const replies = await Promise.all([
      first.request('tools/call', call, { progressToken: 'same' }),
      second.request('tools/call', call, { progressToken: 'same' }),
    ])
    for (const { notes } of replies)
      expect(notes.map(({ params }) => params['progress'])).toEqual([1, 2, 3, 4])
    expectClean(first, second)
  })

  test('receive the log messages of their own calls only', async () => {
    const gateway = await gatewayProcessTo({ one: await server() })
    const [first, second] = [await clientOf(gateway), await clientOf(gateway)]
    // Two calls are in flight, so only the stream could identify the call of a message.
    const busy = second.start('tools/call', { name: 'slow', arguments: { ms: 400, steps: 1 } })
    await first.request('tools/call', { name: 'log', arguments: { levels: ['warning', 'error'] } })
    await busy.reply
    await second.request('ping')
    expect(second.notes.filter(({ method }) => method === 'notifications/message')).toEqual([])
    expectClean(first, second)
  })

  test('receive the questions of their own calls only', async () => {
    const gateway = await gatewayProcessTo({ one: await server() })
    const [first, second] = [await clientOf(gateway, { answers }), await clientOf(gateway, { answers })]
    const ask = (client: FakeClient, message: string) =>
      client.request('tools/call', { name: 'ask_form', arguments: { message } })
    const rounds = Array.from({ length: 5 }, (_each, index) => [
      ask(first, `first ${index}`),
      ask(second, `second ${index}`),
    ])
    await Promise.all(rounds.flat())
    expect(first.asked.map(({ params }) => String(params['message'])).toSorted()).toEqual(numbered('first'))
    expect(second.asked.map(({ params }) => String(params['message'])).toSorted()).toEqual(numbered('second'))
    expectClean(first, second)
  })
})

describe('the session of a client', () => {
  test('ends without ending that of another', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const [first, second] = [await clientOf(gateway), await clientOf(gateway)]
    const id = sessionOf(first)
    expect(id).not.toBe(sessionOf(second))
    await first.close()
    const gone = await post(gateway.url, ping, { 'mcp-session-id': id })
    expect(gone.status).toBe(404)
    expect(JSON.parse(gone.text).error.data.code).toBe('SESSION_NOT_FOUND')
    expect((await second.request('ping')).result).toEqual({})
  })

  test('is unknown at the URL of another server', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer(), two: stdioServer() })
    const client = await clientOf({ url: `${gateway.url}/one` })
    const headers = { 'mcp-session-id': sessionOf(client) }
    expect((await post(`${gateway.url}/one`, ping, headers)).status).toBe(200)
    expect((await post(`${gateway.url}/two`, ping, headers)).status).toBe(404)
    expect((await post(gateway.url, ping, headers)).status).toBe(404)
  })

  test('protects its streams from other callers that know the event ids', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const [first, second] = [await clientOf(gateway), await clientOf(gateway, { getStream: false })]
    const call = { name: 'slow', arguments: { ms: 60, steps: 2 } }
    const { notes } = await first.request('tools/call', call, { progressToken: 'of the first' })
    expect(notes).toHaveLength(2)
    const headers = {
      accept: 'text/event-stream',
      'mcp-session-id': sessionOf(second),
      'last-event-id': '1-0',
    }
    const reply = await open(gateway.url, { method: 'GET', headers })
    await second.close()
    expect((await whole(reply)).text).not.toContain('of the first')
  })
})

describe.skipIf(!hasProcessTree)('a server started as a child process', () => {
  const legacy = { revision: '2025-11-25' } as const
  const asker = { ...legacy, answers }

  test('is shared by clients with the same capabilities, by default', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    await clientOf(gateway)
    await clientOf(gateway)
    expect(count(gateway)).toBe(1)
    await clientOf(gateway, asker)
    await clientOf(gateway, asker)
    expect(count(gateway)).toBe(2)
  })

  test('is one for all clients with isolation shared', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer({}, { isolation: 'shared' }) })
    const clients = [
      await clientOf(gateway),
      await clientOf(gateway, asker),
      await clientOf(gateway, { revision: '2026-07-28' }),
    ]
    for (const client of clients) await client.request('tools/list')
    expect(count(gateway)).toBe(1)
  })

  test('is one for each client with isolation per_client, until it is idle', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer({}, { isolation: 'per_client', idle: '1s' }) })
    const clients = await Promise.all([1, 2, 3].map(() => clientOf(gateway)))
    // The child with which the gateway probed the server is reaped.
    await until(() => count(gateway) === clients.length, 'one child per client')
    await Promise.all(clients.map((client) => client.close()))
    await until(() => count(gateway) === 0, 'no child to be left')
  })
})

const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'

function numbered(word: string): string[] {
  return [0, 1, 2, 3, 4].map((index) => `${word} ${index}`)
}

function count(gateway: { readonly pid: number }): number {
  return childrenRunning(gateway.pid, 'fake-server').length
}

function sessionOf({ link }: FakeClient): string {
  return link instanceof HttpLink ? (link.session ?? '') : ''
}

function expectClean(...clients: readonly FakeClient[]): void {
  expect(clients.flatMap(({ violations }) => violations)).toEqual([])
}
