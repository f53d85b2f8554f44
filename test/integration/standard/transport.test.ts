import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open, post, type RawReply, usual, whole } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type FaultyServer, startFaultyServer } from '../../support/faulty-server.ts'
import { initialize, modern } from '../../support/fronts.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

let fake: FakeServer
let faulty: FaultyServer
let gateway: LocalGateway
beforeAll(async () => {
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  faulty = await startFaultyServer()
  gateway = await localGateway({
    listen: { origins: ['https://agents.example.com'] },
    upstreams: { fake: fake.url, faulty: faulty.url },
  })
})
afterAll(async () => {
  await gateway.close()
  await Promise.all([fake.close(), faulty.close()])
})

const ping = { jsonrpc: '2.0', id: 5, method: 'ping' }
const note = { jsonrpc: '2.0', method: 'notifications/vendor' }

async function ask(path: string, method = 'GET', headers: HeaderMap = {}): Promise<RawReply> {
  const body = method === 'POST' ? JSON.stringify(ping) : ''
  return whole(await open(gateway.origin + path, { method, headers: { ...usual, ...headers }, body }))
}

function errorOf(reply: RawReply): Json {
  return objectAt(JSON.parse(reply.text) as Json, 'error')
}

describe('every message', () => {
  it('C001 declares JSON-RPC 2.0: responses, errors, notifications and requests', async () => {
    const url = `${gateway.url}/fake`
    const session = await openSession(url, '2025-11-25', { sampling: {} })
    const replies = [
      await session.post(ping),
      await session.post({ ...ping, method: 'nothing/known' }),
      await session.post(toolCall(6, 'slow', { ms: 30, steps: 2 }, 'p')),
      await post(url, 'no JSON', session.headers),
    ]
    const messages = replies.flatMap(({ events, text }) =>
      events.length > 0 ? events.map(messageOf) : [JSON.parse(text) as Json],
    )
    const asking = await session.send(toolCall(7, 'ask_sampling'))
    const said = await eventsUntil(asking.events(), (event) => messageOf(event)['method'] !== undefined)
    asking.destroy()
    const whatever = [...messages, ...said.map(messageOf)].filter((each) => Object.keys(each).length > 0)
    expect(whatever.length).toBeGreaterThan(6)
    for (const message of whatever) expect(message['jsonrpc']).toBe('2.0')
  })
})

describe('the endpoint', () => {
  it.each(['/mcp', '/mcp/fake', '/mcp/faulty'])('C005 C025 C034 %s accepts POST', async (path) => {
    const { message, headers } = modern('tools/list')
    const reply = await post(gateway.origin + path, JSON.stringify(message), headers)
    expect(reply.status).toBe(200)
    expect(JSON.parse(reply.text)).toMatchObject({ jsonrpc: '2.0', id: 1, result: {} })
  })

  it('C032 C043 answers a request with JSON, or with events if notifications precede the response', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    const plain = await session.post(ping)
    expect(plain.headers['content-type']).toBe('application/json')
    const long = await session.post(toolCall(6, 'slow', { ms: 30, steps: 2 }, 'p'))
    expect(long.headers['content-type']).toMatch(/^text\/event-stream/)
    expect(messageOf(long.events.at(-1))).toMatchObject({ id: 6, result: {} })
  })

  it('C032 C035 C047 opens a stream for GET in a session, and refuses GET without one', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    const stream = await session.get()
    expect([stream.status, stream.headers['content-type']]).toEqual([200, 'text/event-stream'])
    stream.destroy()
    const reply = await ask('/mcp/fake')
    expect([reply.status, errorOf(reply)['code']]).toEqual([405, -32600])
  })

  it('C046 refuses a GET that accepts other types', async () => {
    const { headers } = await openSession(`${gateway.url}/fake`, '2025-11-25')
    const reply = await ask('/mcp/fake', 'GET', { ...headers, accept: 'application/json' })
    expect(reply.status).toBe(406)
  })

  it('C048 sends no response on a stream opened with GET', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    const events = (await session.get()).events()
    await session.post(toolCall(6, 'echo'))
    await session.post(toolCall(7, 'change', { what: ['prompts'] }))
    const read = await eventsUntil(events, (event) => messageOf(event)['method'] !== undefined)
    for (const event of read) expect(messageOf(event)['id']).toBeUndefined()
  })

  it('C042 C031 accepts one message per request', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    const { message, headers } = modern('ping')
    const cases: readonly (readonly [string, HeaderMap])[] = [
      [JSON.stringify([ping]), session.headers],
      [JSON.stringify([ping, note]), session.headers],
      [`${JSON.stringify(ping)}\n${JSON.stringify(note)}`, session.headers],
      [JSON.stringify([message]), headers],
      ['7', session.headers],
      ['"text"', session.headers],
      ['{"jsonrpc":"2.0"}', session.headers],
      ['{"jsonrpc":"2.0","id":null,"method":"ping"}', session.headers],
    ]
    for (const [body, more] of cases) {
      const reply = await post(`${gateway.url}/fake`, body, more)
      expect([body, reply.status]).toEqual([body, 400])
      expect([-32600, -32700]).toContain(errorOf(reply)['code'])
    }
  })

  it('C045 answers in JSON-RPC whatever the server sends', async () => {
    const { message, headers } = modern('tools/call', { name: 'bad_gateway', arguments: {} })
    const reply = await post(`${gateway.url}/faulty`, JSON.stringify(message), headers)
    expect(reply.headers['content-type']).toBe('application/json')
    expect(JSON.parse(reply.text)).toMatchObject({ jsonrpc: '2.0', id: 1 })
    expect(reply.text).not.toContain('<html>')
  })

  it.each([
    ['an unknown server', '/mcp/nothing', 'POST', {}],
    ['an unsupported HTTP method', '/mcp/fake', 'PUT', {}],
    ['an unknown session', '/mcp/fake', 'POST', { 'mcp-session-id': 'nothing' }],
    ['another content type', '/mcp/fake', 'POST', { 'content-type': 'text/plain' }],
    ['another origin', '/mcp/fake', 'POST', { origin: 'https://evil.example' }],
    ['another host', '/mcp/fake', 'POST', { host: 'evil.example' }],
  ] as const)('C045 refuses %s with a JSON-RPC error', async (_what, path, method, headers) => {
    const reply = await ask(path, method, headers)
    expect(reply.status).toBeGreaterThanOrEqual(400)
    expect(reply.headers['content-type']).toBe('application/json')
    expect(JSON.parse(reply.text)).toMatchObject({
      jsonrpc: '2.0',
      error: { code: -32600 + (path === '/mcp/nothing' ? -1 : 0) },
    })
  })
})

describe('a session', () => {
  it('C051 has a unique, unguessable id', async () => {
    const ids = new Set<string>()
    for (let count = 0; count < 20; count++) {
      const { headers } = await post(`${gateway.url}/fake`, JSON.stringify(initialize()))
      const id = headers['mcp-session-id'] ?? ''
      // A random UUID has 122 random bits; an id with more than 20 other digits would be sufficient too.
      expect(id).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$|^[\x21-\x7e]{22,}$/,
      )
      ids.add(id)
    }
    expect(ids.size).toBe(20)
  })

  it('C050 C052 is named by every later request', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    for (const message of [ping, note, toolCall(3, 'echo')]) {
      const reply = await post(`${gateway.url}/fake`, JSON.stringify(message))
      expect([reply.status, errorOf(reply)['code']]).toEqual([400, -32600])
    }
    expect((await session.post(ping)).status).toBe(200)
  })

  it('C053 C036 is not found after its deletion or if it never existed', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    expect((await ask('/mcp/fake', 'DELETE', session.headers)).status).toBe(204)
    for (const headers of [session.headers, { 'mcp-session-id': 'never' }]) {
      for (const method of ['POST', 'GET', 'DELETE']) {
        expect((await ask('/mcp/fake', method, { ...headers, accept: usual['accept'] ?? '' })).status).toBe(
          404,
        )
      }
    }
  })

  it('C015 C006 is refused with another version, and accepted with its own', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    for (const [version, status] of [
      ['2025-11-25', 200],
      ['1999-01-01', 400],
      ['garbage', 400],
    ] as const) {
      const headers = { ...session.headers, 'mcp-protocol-version': version }
      expect((await post(`${gateway.url}/fake`, JSON.stringify(ping), headers)).status).toBe(status)
    }
    const modernish = modern('tools/list')
    const headers = { ...modernish.headers, 'mcp-protocol-version': '2099-01-01' }
    expect((await post(`${gateway.url}/fake`, JSON.stringify(modernish.message), headers)).status).toBe(400)
  })
})

describe('the other paths', () => {
  it('C037 C020 /health reports that the gateway runs, and its version', async () => {
    const reply = await ask('/health')
    expect(reply.status).toBe(200)
    expect(JSON.parse(reply.text)).toMatchObject({
      status: 'ok',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    })
  })

  it('C038 /ready reports whether calls can be served', async () => {
    const reply = await ask('/ready')
    expect([reply.status, (JSON.parse(reply.text) as Json)['status']]).toEqual([200, 'ready'])
    const lost = await localGateway({ upstreams: { gone: 'http://127.0.0.1:9/mcp' } })
    const not = await whole(await open(`${lost.origin}/ready`, { method: 'GET', headers: {} }))
    expect([not.status, (JSON.parse(not.text) as Json)['status']]).toEqual([503, 'not_ready'])
    await lost.close()
  })

  it('C039 / is a page for people', async () => {
    const reply = await ask('/')
    expect([reply.status, reply.headers['content-type']]).toEqual([200, expect.stringMatching(/^text\/html/)])
  })

  it('C026 HTTP+SSE is off by default', async () => {
    expect((await ask('/sse')).status).toBe(404)
    expect((await ask('/messages?session_id=x', 'POST')).status).toBe(404)
  })

  it('C033 C026 HTTP+SSE is never the only transport', async () => {
    const older = await localGateway({ listen: { legacy_sse: true }, upstreams: { fake: fake.url } })
    const stream = await open(`${older.origin}/sse`, {
      method: 'GET',
      headers: { accept: 'text/event-stream' },
    })
    expect(stream.status).toBe(200)
    stream.destroy()
    expect((await post(older.url, JSON.stringify(initialize()))).status).toBe(200)
    await older.close()
  })
})

describe('pages of other origins', () => {
  const paths = ['/mcp', '/mcp/fake', '/', '/health', '/ready', '/metrics', '/sse', '/nothing']

  it.each(paths)('C058 C059 cannot call %s', async (path) => {
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1.evil.example']) {
      for (const method of ['GET', 'POST', 'OPTIONS']) {
        const reply = await ask(path, method, { origin })
        expect([method, origin, reply.status]).toEqual([method, origin, 403])
        expect(reply.headers['access-control-allow-origin']).toBeUndefined()
      }
    }
  })

  it('C055 can call if their exact origin is listed', async () => {
    const { message, headers } = modern('tools/list')
    const statusOf = async (origin: string): Promise<number> =>
      (await post(gateway.url, JSON.stringify(message), { ...headers, origin })).status
    expect(await statusOf('https://agents.example.com')).toBe(200)
    expect(await statusOf('https://AGENTS.example.com.')).toBe(403)
    expect(await statusOf('http://agents.example.com')).toBe(403)
    expect(await statusOf('https://sub.agents.example.com')).toBe(403)
    expect(
      isObject(JSON.parse((await ask('/health', 'GET', { origin: 'https://agents.example.com' })).text)),
    ).toBe(true)
  })
})
