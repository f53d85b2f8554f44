// Batches of messages, which 2025-03-26 has and no other revision.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { post, whole } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { callsOf, clientOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import type { Json } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

let server: FakeServer
let gateway: LocalGateway

beforeAll(async () => {
  server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await localGateway({ features: plainFeatures({}), upstreams: { one: { url: server.url } } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

const ping = (id: number): Json => ({ jsonrpc: '2.0', id, method: 'ping' })
const initialized: Json = { jsonrpc: '2.0', method: 'notifications/initialized' }

describe('a batch from a client of 2025-03-26', () => {
  test('is answered with an array of the responses to its requests', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    const batch = [
      ping(1),
      initialized,
      toolCall('two', 'echo', { n: 2 }),
      { jsonrpc: '2.0', id: 3, method: 'nothing/known' },
    ]
    const reply = await session.post(batch)
    expect(reply.status).toBe(200)
    expect(reply.headers['content-type']).toBe('application/json')
    const answers = (JSON.parse(reply.text) as Json[]).toSorted((one, other) =>
      String(one['id']).localeCompare(String(other['id'])),
    )
    expect(answers).toMatchObject([
      { id: 1, result: {} },
      { id: 3, error: { code: -32601 } },
      { id: 'two', result: { content: [{ text: '{"n":2}' }] } },
    ])
  })

  test('runs its requests concurrently', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    // None of them ends by itself, so the last one arrives only if it does not wait for another.
    const ids = Array.from({ length: 10 }, (_each, index) => index + 1)
    const reply = session.post(ids.map((id) => toolCall(id, 'hang')))
    await until(() => callsOf(server, 'hang') === ids.length, 'the last call')
    await session.post(
      ids.map((requestId) => ({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId },
      })),
    )
    await reply
  })

  test('is answered with a stream if notifications precede the responses', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    const reply = await session.post([ping(1), toolCall(2, 'slow', { ms: 60, steps: 2 }, 'p')])
    expect(reply.headers['content-type']).toContain('text/event-stream')
    const messages = reply.events.map(messageOf)
    expect(messages.map(({ method, id }) => String(method ?? id)).toSorted()).toEqual([
      '1',
      '2',
      'notifications/progress',
      'notifications/progress',
    ])
    expect(messages.findLastIndex(({ method }) => method !== undefined)).toBeLessThan(
      messages.findIndex(({ id }) => id === 2),
    )
  })

  test('of notifications and responses only is accepted without a body', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    const reply = await session.post([initialized, { jsonrpc: '2.0', id: 7, result: {} }])
    expect([reply.status, reply.text, reply.headers['content-type']]).toEqual([202, '', undefined])
  })

  test('can contain responses to requests of the server', async () => {
    const session = await openSession(gateway.url, '2025-03-26', {
      sampling: {},
    })
    const open = await session.send(toolCall(1, 'ask_sampling'))
    const events = open.events()
    let asked: Json = {}
    while (asked['method'] === undefined) asked = messageOf((await events.next()).value ?? undefined)
    const result = { role: 'assistant', model: 'm', content: { type: 'text', text: 'Paris' } }
    expect((await session.post([{ jsonrpc: '2.0', id: asked['id'], result }, initialized])).status).toBe(202)
    const answered = messageOf((await events.next()).value ?? undefined)
    expect(JSON.stringify(answered)).toContain('Paris')
    open.destroy()
  })

  test('is refused if it is empty, too large or contains initialize, and none of it runs', async () => {
    const calls = callsOf(server, 'echo')
    const session = await openSession(gateway.url, '2025-03-26')
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }
    const many = Array.from({ length: 101 }, (_each, index) => toolCall(index, 'echo'))
    for (const batch of [[], many, [toolCall(5, 'echo'), initialize], [toolCall(6, 'echo'), 7]]) {
      const { status, text } = await session.post(batch)
      expect(status).toBe(400)
      expect(JSON.parse(text)).toMatchObject({ error: { code: -32600 } })
    }
    expect(callsOf(server, 'echo')).toBe(calls)
    expect((await session.post([ping(1)])).status).toBe(200)
  })

  test('with a duplicate id is answered twice, once with an error', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    const { text } = await session.post([toolCall(1, 'echo'), toolCall(1, 'echo')])
    const answers = JSON.parse(text) as Json[]
    expect(answers).toHaveLength(2)
    expect(answers.filter(({ error }) => error !== undefined)).toMatchObject([
      { id: 1, error: { code: -32600 } },
    ])
  })

  test('continues its calls if the client disconnects', async () => {
    const session = await openSession(gateway.url, '2025-03-26')
    const open = await session.send([toolCall(1, 'slow', { ms: 200, steps: 2 }, 'p'), ping(2)])
    const first = await open.events().next()
    open.destroy()
    const id = first.done === true ? undefined : first.value.id
    const rest = await whole(await session.get(id))
    expect(rest.events.map(messageOf).map(({ id: of }) => of)).toEqual(expect.arrayContaining([1, 2]))
  })
})

describe('a batch from any other client', () => {
  test.each(['2024-11-05', '2025-06-18', '2025-11-25'])('C031 C042 is refused at %s', async (revision) => {
    const session = await openSession(gateway.url, revision)
    const { status, text } = await session.post([ping(1)])
    expect(status).toBe(400)
    expect(JSON.parse(text)).toMatchObject({ error: { code: -32600 } })
  })

  test('C031 C042 is refused at 2026-07-28 and without a session', async () => {
    await clientOf(gateway, { revision: '2026-07-28' })
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'ping' }
    for (const reply of [
      await post(gateway.url, JSON.stringify([ping(1)]), headers),
      await post(gateway.url, JSON.stringify([ping(1)])),
    ]) {
      expect(reply.status).toBe(400)
      expect(JSON.parse(reply.text)).toMatchObject({ error: { code: -32600 } })
    }
  })
})
