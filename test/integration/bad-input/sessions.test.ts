import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { open, post, usual } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { initialize, sessionFront, wellAnswered } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import type { Json } from '../../support/server/json.ts'
import { expectError } from '../../support/structured-error.ts'

let server: FakeServer
let gateway: RunningGateway

beforeAll(async () => {
  server = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
  gateway = await startGateway({ upstreams: { fake: server.url } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

describe('a client of an older revision', () => {
  const list = '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'

  test.each<[string, HeaderMap, number, string]>([
    ['no session', {}, 400, 'SESSION_REQUIRED'],
    ['an unknown session id', { 'mcp-session-id': 'none' }, 404, 'SESSION_NOT_FOUND'],
    ['an empty session id', { 'mcp-session-id': '' }, 404, 'SESSION_NOT_FOUND'],
    ['a session id with unusual bytes', { 'mcp-session-id': '\u00ff\u00fe' }, 404, 'SESSION_NOT_FOUND'],
    ['a very long session id', { 'mcp-session-id': 'x'.repeat(8000) }, 404, 'SESSION_NOT_FOUND'],
  ])('with %s is refused', async (_name, headers, status, error) => {
    const reply = await post(gateway.url, list, headers)
    expectError(reply.status, reply.text, { status, code: -32600, error })
  })

  test('cannot use a session through the URL of another server', async () => {
    const { session, close } = await sessionFront(gateway.url)
    const reply = await post(`${gateway.url}/fake`, list, session)
    expectError(reply.status, reply.text, { status: 404, code: -32600, error: 'SESSION_NOT_FOUND' })
    await close()
  })

  test.each(['1999-01-01', 'latest', '2025-11-25 '.repeat(20)])(
    'with the version header %j is refused',
    async (header) => {
      const front = await sessionFront(gateway.url)
      const { status, text } = await front.send(list, { 'mcp-protocol-version': header })
      expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
      expect(await front.call()).toBe(wellAnswered)
      await front.close()
    },
  )

  test.each<[string, Json]>([
    ['no version', { capabilities: {} }],
    ['a version that is a number', { protocolVersion: 1, capabilities: {} }],
    ['no capabilities', { protocolVersion: '2025-11-25' }],
    ['capabilities that are null', { protocolVersion: '2025-11-25', capabilities: null }],
  ])('whose initialize has %s gets no session', async (_name, given) => {
    const reply = await post(gateway.url, JSON.stringify({ ...initialize(), params: given }))
    expect(reply.headers['mcp-session-id']).toBeUndefined()
    expectError(reply.status, reply.text, { status: 200, code: -32602, error: 'INVALID_INPUT' })
  })

  test.each(['server/discover', 'subscriptions/listen'])('cannot use the method %s', async (method) => {
    const front = await sessionFront(gateway.url)
    const { status, text } = await front.send(JSON.stringify({ jsonrpc: '2.0', id: 3, method }))
    expectError(status, text, { status: 200, code: -32601, error: 'UNSUPPORTED_OPERATION' })
    await front.close()
  })

  test.each<[string, string]>([
    ['an empty batch', '[]'],
    ['a batch of too many requests', `[${Array.from({ length: 101 }, () => list).join(',')}]`],
    ['a batch with initialize', `[${list},${JSON.stringify(initialize('2025-03-26', 4))}]`],
    ['a batch of invalid messages', '[1,{"jsonrpc":"2.0"}]'],
  ])('of 2025-03-26 that sends %s is refused', async (_name, batch) => {
    const front = await sessionFront(gateway.url, '2025-03-26')
    const { status, text } = await front.send(batch)
    expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test.each(['2025-06-18', '2025-11-25'])('of %s cannot send a batch', async (revision) => {
    const front = await sessionFront(gateway.url, revision)
    const { status, text } = await front.send(`[${list}]`)
    expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
    await front.close()
  })

  test.each(['tools/call', 'initialize', 'server/discover', 'no/such'])(
    'that sends %s as a notification reaches no server',
    async (method) => {
      const front = await sessionFront(gateway.url)
      const before = server.seen.length
      const body = {
        jsonrpc: '2.0',
        method,
        params: { name: 'echo', protocolVersion: '2025-11-25', capabilities: {} },
      }
      for (const headers of [{}, { 'mcp-protocol-version': '2026-07-28' }]) {
        expect(await front.send(JSON.stringify(body), headers)).toMatchObject({ status: 202, text: '' })
      }
      expect(await front.call()).toBe(wellAnswered)
      const passed = server.seen.slice(before).flatMap(({ message }) => (message ? [message] : []))
      expect(passed.filter((each) => each['id'] === undefined)).toEqual([])
      const isCall = method === 'tools/call'
      expect(passed.filter((each) => each['method'] === method)).toHaveLength(isCall ? 1 : 0)
      await front.close()
    },
  )

  test('with an unknown Last-Event-ID gets the stream of its session', async () => {
    const { session, close } = await sessionFront(gateway.url)
    for (const lastEventId of ['nonsense', '99-99', '0-999999999999999999999', '-']) {
      const headers = { ...usual, ...session, 'last-event-id': lastEventId }
      const stream = await open(gateway.url, { method: 'GET', headers })
      expect(stream.status).toBe(200)
      stream.destroy()
    }
    await close()
  })
})
