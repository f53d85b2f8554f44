import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open, post, type RawReply, usual, whole } from '../../support/client/raw.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { initialize, modern } from '../../support/fronts.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { undescribed } from '../../support/undescribed.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const png = 'iVBORw0KGgoAAAANSUhEUg=='
const long = `a-${'very-'.repeat(20)}long-name`
const names = ['getItem', 'delete-item', 'plain_name', long]
const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} }

let odd: ScriptedServer
let fake: FakeServer
let strict: LocalGateway
let open_: LocalGateway
/** These tests are about names: no confirmation, and no descriptions besides those of the servers. */
const features = { ...undescribed, confirm: 'off', provenance: 'off' }

beforeAll(async () => {
  odd = await scriptedServer(capabilities, {
    'tools/list': () => ({ tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) }),
    'tools/call': ({ params }) => ({
      content: [
        { type: 'text', text: String(params['name']) },
        { type: 'resource_link', uri: 'urn:isbn:123', name: 'book' },
        { type: 'resource', resource: { uri: 'file:///srv/a.png', blob: png } },
      ],
    }),
    'prompts/list': () => ({ prompts: [{ name: 'write-poem', arguments: [{ name: 'topic' }] }] }),
    'prompts/get': ({ params }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: String(params['name']) } }],
    }),
    'resources/list': () => ({
      resources: [{ uri: 'file:///srv/notes.md' }, { uri: 'urn:isbn:123', name: 'book' }],
    }),
    'resources/templates/list': () => ({ resourceTemplates: [{ uriTemplate: 'file:///srv/{path}' }] }),
    'resources/read': ({ params }) => ({ contents: [{ uri: params['uri'], text: String(params['uri']) }] }),
    'resources/subscribe': () => ({}),
    'resources/unsubscribe': () => ({}),
    'completion/complete': ({ params }) => ({
      completion: { values: [JSON.stringify(params['ref'])], total: 1, hasMore: false },
    }),
  })
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  const upstreams = { odd: odd.url, fake: fake.url }
  strict = await localGateway({ ...corporate, upstreams, features })
  open_ = await localGateway({ upstreams, features })
})
afterAll(async () => {
  await Promise.all([strict.close(), open_.close()])
  await Promise.all([odd.close(), fake.close()])
})

const clients: FakeClient[] = []
afterAll(() => Promise.all(clients.map((client) => client.close().catch(() => undefined))))

async function clientOf(gateway: LocalGateway, path = '', revision = '2025-11-25'): Promise<FakeClient> {
  const client = await connect({
    transport: 'http',
    url: gateway.url + path,
    revision: revision === '2026-07-28' ? revision : '2025-11-25',
    headers: caller,
  })
  clients.push(client)
  return client
}

async function listOf(client: FakeClient, method: string, member: string, field: string): Promise<unknown[]> {
  const { result } = await client.request(method)
  const list = result?.[member]
  return Array.isArray(list) ? list.map((each) => objectAt({ each }, 'each')[field]) : []
}

function contentOf(result: Json | undefined): Json[] {
  const content = result?.['content'] ?? result?.['contents']
  return Array.isArray(content) ? content.filter(isObject) : []
}

describe.each(['2025-11-25', '2026-07-28'])('to a client of %s the corporate profile', (revision) => {
  it('C119 lists tools and prompts in snake case, and accepts calls by these names', async () => {
    const client = await clientOf(strict, '/odd', revision)
    const tools = await listOf(client, 'tools/list', 'tools', 'name')
    expect(tools.slice(0, 3)).toEqual(['get_item', 'delete_item', 'plain_name'])
    for (const name of tools) expect(name).toMatch(/^[a-z][a-z0-9_]{1,63}$/)
    const answered = await Promise.all(
      tools.map((name) => client.request('tools/call', { name, arguments: {} })),
    )
    expect(answered.map(({ result }) => contentOf(result)[0]?.['text'])).toEqual(names)
    expect(await listOf(client, 'prompts/list', 'prompts', 'name')).toEqual(['write_poem'])
    expect((await client.request('prompts/get', { name: 'write_poem' })).result).toMatchObject({
      messages: [{ content: { text: 'write-poem' } }],
    })
  })

  it('C119 does the same on the aggregate endpoint', async () => {
    const client = await clientOf(strict, '', revision)
    const tools = await listOf(client, 'tools/list', 'tools', 'name')
    for (const name of tools) expect(name).toMatch(/^[a-z][a-z0-9_]{1,63}$/)
    const own = tools.filter((name) => String(name).startsWith('odd_'))
    const answered = await Promise.all(
      own.map((name) => client.request('tools/call', { name, arguments: {} })),
    )
    expect(answered.map(({ result }) => contentOf(result)[0]?.['text'])).toEqual(names)
  })

  it.each(['/odd', ''])('lists resources in the scheme of their server, at /mcp%s', async (path) => {
    const client = await clientOf(strict, path, revision)
    const uris = await listOf(client, 'resources/list', 'resources', 'uri')
    expect(uris).toEqual(expect.arrayContaining(['odd://file//srv/notes.md', 'odd://urn~/isbn:123']))
    const { result } = await client.request('resources/read', { uri: 'odd://file//srv/notes.md' })
    expect(contentOf(result)).toEqual([
      { uri: 'odd://file//srv/notes.md', mimeType: 'text/markdown', text: 'file:///srv/notes.md' },
    ])
    const templates = await listOf(client, 'resources/templates/list', 'resourceTemplates', 'uriTemplate')
    expect(templates).toContain('odd://file//srv/{path}')
    const filled = await client.request('resources/read', { uri: 'odd://file//srv/b.txt' })
    expect(contentOf(filled.result)[0]?.['text']).toBe('file:///srv/b.txt')
    const ref = { type: 'ref/resource', uri: 'odd://file//srv/{path}' }
    const completed = await client.request('completion/complete', {
      ref,
      argument: { name: 'path', value: '' },
    })
    expect(completed.result).toMatchObject({
      completion: { values: ['{"type":"ref/resource","uri":"file:///srv/{path}"}'] },
    })
  })

  it('C177 gives the resources in a result their own URIs and types', async () => {
    const client = await clientOf(strict, '/odd', revision)
    const { result } = await client.request('tools/call', { name: 'get_item', arguments: {} })
    expect(contentOf(result).slice(1)).toEqual([
      { type: 'resource_link', uri: 'odd://urn~/isbn:123', name: 'book' },
      { type: 'resource', resource: { uri: 'odd://file//srv/a.png', blob: png, mimeType: 'image/png' } },
    ])
  })

  it('C170 C172 names resources and templates that have no name', async () => {
    const client = await clientOf(strict, '/odd', revision)
    expect(await listOf(client, 'resources/list', 'resources', 'name')).toEqual(['notes.md', 'book'])
    expect(await listOf(client, 'resources/templates/list', 'resourceTemplates', 'name')).toEqual(['{path}'])
  })

  it('C158 describes the arguments of prompts', async () => {
    const client = await clientOf(strict, '/odd', revision)
    expect(await listOf(client, 'prompts/list', 'prompts', 'arguments')).toEqual([
      [{ name: 'topic', description: 'topic', required: false }],
    ])
  })

  it.each(['/fake', ''])(
    'C173 sends updates under the URI that was subscribed to, at /mcp%s',
    async (path) => {
      const client = await clientOf(strict, path, revision)
      const uri = 'fake://fake/watched'
      const listening = await client.subscribe(uri)
      fake.change('watched')
      const isIt = ({ method, params }: { method: string; params: Json }): boolean =>
        method === 'notifications/resources/updated' && params['uri'] === uri
      await (listening ? listening.until(isIt) : client.until(isIt))
      await listening?.close()
    },
  )
})

describe('the open profile', () => {
  it.each(['2025-11-25', '2026-07-28'])(
    'lists names and URIs unchanged, and accepts aliases in calls (%s)',
    async (revision) => {
      const client = await clientOf(open_, '/odd', revision)
      // The alias is resolved even though no client listed tools before.
      const alias = await client.request('tools/call', { name: 'delete_item', arguments: {} })
      expect(contentOf(alias.result)[0]?.['text']).toBe('delete-item')
      const prompt = await client.request('prompts/get', { name: 'write_poem' })
      expect(prompt.result).toMatchObject({ messages: [{ content: { text: 'write-poem' } }] })
      const ref = { type: 'ref/prompt', name: 'write_poem' }
      const completed = await client.request('completion/complete', {
        ref,
        argument: { name: 'topic', value: '' },
      })
      expect(completed.result).toMatchObject({
        completion: { values: ['{"type":"ref/prompt","name":"write-poem"}'] },
      })
      expect(await listOf(client, 'tools/list', 'tools', 'name')).toEqual(names)
      expect(await listOf(client, 'resources/list', 'resources', 'uri')).toEqual([
        'file:///srv/notes.md',
        'urn:isbn:123',
      ])
    },
  )

  it('accepts aliases in calls to the aggregate endpoint', async () => {
    const client = await clientOf(open_)
    const { result } = await client.request('tools/call', { name: 'odd_delete_item', arguments: {} })
    expect(contentOf(result)[0]?.['text']).toBe('delete-item')
  })
})

describe('names with the same alias', () => {
  const twins = (): Promise<ScriptedServer> =>
    scriptedServer(
      { tools: {} },
      {
        'tools/list': () => ({
          tools: ['get-it', 'getIt', 'get_it'].map((name) => ({ name, inputSchema: { type: 'object' } })),
        }),
        'tools/call': ({ params }) => ({ content: [{ type: 'text', text: String(params['name']) }] }),
      },
    )

  it('C119 keep the corporate profile from starting, and the error contains both', async () => {
    const server = await twins()
    const gateway = await localGateway({ ...corporate, upstreams: { twin: server.url } })
    expect(gateway.collisions).toEqual([
      'two tools or prompts have the same name: get_it is the name of get-it and of getIt and of get_it of twin',
    ])
    await gateway.close()
    await server.close()
  })

  it('are accepted in the open profile, where a name takes precedence over an alias', async () => {
    const server = await twins()
    const gateway = await localGateway({ upstreams: { twin: server.url } })
    expect(gateway.collisions).toEqual([])
    const client = await clientOf(gateway)
    const texts: unknown[] = []
    for (const name of ['get-it', 'getIt', 'get_it']) {
      texts.push(contentOf((await client.request('tools/call', { name, arguments: {} })).result)[0]?.['text'])
    }
    expect(texts).toEqual(['get-it', 'getIt', 'get_it'])
    await gateway.close()
    await server.close()
  })
})

describe('in the corporate profile', () => {
  it('C021 C020 a server has the version that /health reports', async () => {
    const { version } = JSON.parse((await get(strict, caller, '/health')).text) as Json
    const client = await clientOf(strict, '/fake')
    expect(version).toMatch(/^\d+\.\d+\.\d+/)
    expect(client.initialized['serverInfo']).toEqual({ name: 'gatehouse', title: 'Fake server', version })
  })

  it('C089 logging is declared, and a level is accepted even if the server does not log', async () => {
    const client = await clientOf(strict, '/odd')
    expect(client.initialized['capabilities']).toMatchObject({ logging: {} })
    expect((await client.request('logging/setLevel', { level: 'info' })).result).toEqual({})
    expect(odd.seen.filter(({ method }) => method === 'logging/setLevel')).toEqual([])
  })

  const insufficient = ['*/*', 'application/json', 'text/event-stream', 'application/*, text/*', '']

  it.each(insufficient)('C041 a POST that accepts %j is refused in both eras', async (accept) => {
    const { message, headers } = modern('tools/list')
    for (const [body, more] of [
      [message, headers],
      [initialize(), {}],
      [{ jsonrpc: '2.0', method: 'notifications/initialized' }, {}],
    ] as const) {
      const reply = await post(strict.url, JSON.stringify(body), { ...caller, ...more, accept })
      expect([reply.status, objectAt(JSON.parse(reply.text), 'error')['code']]).toEqual([406, -32600])
    }
  })

  it.each(['application/json, text/event-stream', 'Text/Event-Stream;q=0.5,application/json;charset=utf-8'])(
    'C041 a POST that accepts %j is accepted',
    async (accept) => {
      const { message, headers } = modern('tools/list')
      const reply = await post(strict.url, JSON.stringify(message), { ...caller, ...headers, accept })
      expect(reply.status).toBe(200)
    },
  )

  it.each(['*/*', 'application/json', ''])('C046 a GET that accepts %j is refused', async (accept) => {
    const session = await sessionOf(strict)
    const reply = await get(strict, { ...session, accept })
    expect(reply.status).toBe(406)
  })

  it('C054 a session is no substitute for a token', async () => {
    const { authorization: _token, ...session } = await sessionOf(strict)
    const ping = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'ping' })
    expect((await post(strict.url, ping, session)).status).toBe(401)
    expect((await post(strict.url, ping, { ...session, ...caller })).status).toBe(200)
    expect((await post(strict.url, ping, { ...session, authorization: 'Bearer other' })).status).toBe(401)
  })

  it('C031 C042 batches are refused, even in a session of the revision that has them', async () => {
    const ping = { jsonrpc: '2.0', id: 7, method: 'ping' }
    for (const [gateway, status] of [
      [strict, 400],
      [open_, 200],
    ] as const) {
      const session = await sessionOf(gateway, '2025-03-26')
      const reply = await post(gateway.url, JSON.stringify([ping]), session)
      expect(reply.status).toBe(status)
      if (status === 400) expect(JSON.parse(reply.text)).toMatchObject({ error: { code: -32600 } })
    }
  })
})

async function sessionOf(gateway: LocalGateway, revision = '2025-11-25'): Promise<HeaderMap> {
  const reply = await post(gateway.url, JSON.stringify(initialize(revision)), caller)
  return { ...caller, 'mcp-session-id': reply.headers['mcp-session-id'] ?? '' }
}

async function get(gateway: LocalGateway, headers: HeaderMap, path = '/mcp'): Promise<RawReply> {
  return whole(await open(gateway.origin + path, { method: 'GET', headers: { ...usual, ...headers } }))
}
