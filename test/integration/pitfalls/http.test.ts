import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { open, post, usual } from '../../support/client/raw.ts'
import { type FaultyServer, send, startFaultyServer } from '../../support/faulty-server.ts'
import { initialize, modern, modernFront, sessionFront, wellAnswered } from '../../support/fronts.ts'
import { clientOf, codeOf, gatewayTo, httpServer } from '../../support/journey.ts'
import type { ServerOptions } from '../../support/server/options.ts'
import { startVariants, type Variants } from '../../support/variants.ts'

const servers: Readonly<Record<string, Partial<ServerOptions>>> = {
  plain: {},
  'notes-200': { notificationStatus: 200, notificationBody: 'null' },
  'notes-text': { notificationStatus: 200, notificationBody: 'ok' },
  'notes-204': { notificationStatus: 204 },
  'expires-404': { expireAfter: 3, expiredStatus: 404 },
  'delete-405': { deleteStatus: 405 },
  'delete-501': { deleteStatus: 501 },
  'no-get': { getStream: false },
  'without-sessions': { sessions: false },
  older: { revision: '2025-03-26' },
  sse: { revision: '2024-11-05', transport: 'sse' },
}

let all: Variants
beforeAll(async () => {
  all = await startVariants(servers)
})
afterAll(() => all.close())

const revisions = ['2025-11-25', '2026-07-28'] as const

describe.each(revisions)('for a client of %s', (revision) => {
  test.each(Object.keys(servers))(
    'notifications, sessions and streams of the server "%s" are accepted',
    async (name) => {
      const client = await all.client(name, { revision })
      for (const bytes of [1, 2, 3, 4, 5, 6]) {
        expect(
          textOf(await client.request('tools/call', { name: 'big', arguments: { bytes } })),
        ).toHaveLength(bytes)
      }
      expect(client.violations).toEqual([])
    },
  )
})

test.each(['delete-405', 'delete-501'])(
  'DELETE refused by the server "%s" still ends the session',
  async (name) => {
    const server = await httpServer(servers[name] ?? {})
    const gateway = await gatewayTo({ fake: { url: server.url, isolation: 'per_client' } })
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'big' })
    gateway.stop()
    expect(await gateway.ended).toMatchObject({ code: 0 })
    expect(server.seen.filter(({ kind }) => kind === 'delete').length).toBeGreaterThan(0)
    expect(server.violations).toEqual([])
  },
)

test('Accept sent to servers names both types, literally', async () => {
  await (await all.client('plain')).request('tools/list')
  const posted = all
    .server('plain')
    .received('tools/list')
    .map(({ headers }) => headers['accept'])
  expect(new Set(posted)).toEqual(new Set(['application/json, text/event-stream']))
})

test.each(['*/*', 'application/json', 'text/event-stream', 'text/event-stream;q=0.5, application/*', ''])(
  'Accept %j is sufficient from clients',
  async (accept) => {
    const { message, headers } = modern('tools/list')
    const reply = await post(`${all.gateway.url}/plain`, JSON.stringify(message), { ...headers, accept })
    expect([reply.status, reply.text.includes('"tools"')]).toEqual([200, true])
    const front = await sessionFront(`${all.gateway.url}/plain`)
    expect(await front.send('{"jsonrpc":"2.0","id":5,"method":"tools/list"}', { accept })).toMatchObject({
      status: 200,
    })
    await front.close()
  },
)

test('C044 a notification is answered with 202 without a body and without a content type', async () => {
  const front = await sessionFront(`${all.gateway.url}/plain`)
  for (const text of [
    '{"jsonrpc":"2.0","method":"notifications/vendor"}',
    '{"jsonrpc":"2.0","id":"none","result":{}}',
  ]) {
    const { status, headers, text: body } = await front.send(text)
    expect([status, body, headers?.['content-type']]).toEqual([202, '', undefined])
  }
  await front.close()
})

test('a second GET for a session replaces the first', async () => {
  const { session, close } = await sessionFront(`${all.gateway.url}/plain`)
  const headers = { ...usual, ...session, accept: 'text/event-stream' }
  const first = await open(`${all.gateway.url}/plain`, { method: 'GET', headers })
  const second = await open(`${all.gateway.url}/plain`, { method: 'GET', headers })
  expect([first.status, second.status]).toEqual([200, 200])
  await expect(first.text()).resolves.toBeTypeOf('string')
  second.destroy()
  await close()
})

test('GET and DELETE without a session are answered with 405', async () => {
  for (const method of ['GET', 'DELETE']) {
    const reply = await open(`${all.gateway.url}/plain`, { method, headers: { accept: 'text/event-stream' } })
    expect([reply.status, reply.headers['allow']]).toEqual([405, 'POST'])
    reply.destroy()
  }
})

test('MCP-Protocol-Version is not sent with initialize, and afterwards is the negotiated one if the revision has the header', async () => {
  const versions = (name: 'plain' | 'older', method: string): unknown[] => {
    const sent = all.server(name).received(method)
    return [...new Set(sent.map(({ headers }) => headers['mcp-protocol-version']))]
  }
  await (await all.client('plain')).request('tools/list')
  expect(versions('plain', 'initialize')).toEqual([undefined])
  expect(versions('plain', 'tools/list')).toEqual(['2025-11-25'])
  await (await all.client('older')).request('tools/list')
  expect(versions('older', 'tools/list')).toEqual([undefined])
  expect(all.server('older').violations).toEqual([])
})

test('MCP-Protocol-Version is ignored in initialize, and can be absent later', async () => {
  const url = `${all.gateway.url}/plain`
  for (const version of ['2025-06-18', '2026-07-28', 'nonsense']) {
    const reply = await post(url, JSON.stringify(initialize()), { 'mcp-protocol-version': version })
    expect([reply.status, reply.text.includes('"protocolVersion":"2025-11-25"')]).toEqual([200, true])
    const session = { 'mcp-session-id': reply.headers['mcp-session-id'] ?? '' }
    const list = await post(url, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}', session)
    expect(list.status).toBe(200)
  }
})

test.each([['2024-11-05'], ['2025-03-26'], ['2025-06-18'], ['2025-11-25']])(
  'a client that requests %s gets that version, whatever the server speaks',
  async (revision) => {
    for (const name of ['plain', 'older', 'sse']) {
      const reply = await post(`${all.gateway.url}/${name}`, JSON.stringify(initialize(revision)))
      expect(JSON.parse(reply.text)).toMatchObject({ result: { protocolVersion: revision } })
    }
  },
)

test('event streams are neither compressed nor buffered', async () => {
  const { message, headers } = modern('tools/call', {
    name: 'slow',
    arguments: { ms: 1, steps: 2 },
    _meta: { progressToken: 1 },
  })
  const reply = await post(`${all.gateway.url}/plain`, JSON.stringify(message), {
    ...headers,
    'accept-encoding': 'gzip, br',
  })
  expect(reply.headers).toMatchObject({ 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' })
  expect(reply.headers['cache-control']).toContain('no-transform')
  expect(reply.headers['content-encoding']).toBeUndefined()
})

describe('a server behind a proxy', () => {
  let moved: FaultyServer
  let redirects = 0

  beforeAll(async () => {
    moved = await startFaultyServer({
      moved: (response, { id }, request) => {
        if (request.url === '/mcp/')
          return send(response, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: 'here' }] } })
        redirects++
        response.writeHead(307, { location: '/mcp/' }).end()
      },
    })
  })
  afterAll(() => moved.close())

  test('redirects that add a slash are followed with the body, and no others', async () => {
    const gateway = await gatewayTo({ moved: { url: moved.url, revision: '2025-11-25' } })
    const client = await clientOf(gateway)
    expect(textOf(await client.request('tools/call', { name: 'moved' }))).toBe('here')
    expect(redirects).toBe(1)
    expect(codeOf(await client.request('tools/call', { name: 'redirect_away' }))).toBe('UPSTREAM_ERROR')
  })
})

test('Mcp-Session-Id on a 2026-07-28 request is ignored and never sent back', async () => {
  const { message, headers } = modern('tools/list')
  const { session, close } = await sessionFront(`${all.gateway.url}/plain`)
  for (const id of [session['mcp-session-id'] ?? '', 'no-such-session']) {
    const reply = await post(`${all.gateway.url}/plain`, JSON.stringify(message), {
      ...headers,
      'mcp-session-id': id,
    })
    expect([reply.status, reply.headers['mcp-session-id']]).toEqual([200, undefined])
  }
  expect(await modernFront(`${all.gateway.url}/plain`).call()).toBe(wellAnswered)
  await close()
})
