import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open, post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { initialize } from '../../support/fronts.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { undescribed } from '../../support/undescribed.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const revisions = ['2025-11-25', '2026-07-28'] as const

let fake: FakeServer
/** Declares only tools, but would answer other requests. */
let tools: ScriptedServer
let gateway: LocalGateway
let strict: LocalGateway
const clients: FakeClient[] = []
beforeAll(async () => {
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  tools = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [{ name: 'it', inputSchema: { type: 'object' } }] }),
      'tools/call': () => ({ content: [] }),
      'prompts/list': () => ({ prompts: [] }),
      'resources/list': () => ({ resources: [] }),
      'resources/templates/list': () => ({ resourceTemplates: [] }),
      'completion/complete': () => ({ completion: { values: [] } }),
    },
  )
  const upstreams = { fake: fake.url, tools: tools.url }
  gateway = await localGateway({ upstreams, features: undescribed })
  strict = await localGateway({ ...corporate, limits: { rate: 'off' }, upstreams, features: undescribed })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await Promise.all([gateway.close(), strict.close()])
  await Promise.all([fake.close(), tools.close()])
})

interface Opening {
  readonly to?: LocalGateway
  readonly capabilities?: Json
}

async function clientOf(
  path: string,
  revision: (typeof revisions)[number],
  { to = gateway, capabilities }: Opening = {},
): Promise<FakeClient> {
  const url = to.url + path
  const more = { headers: caller, ...(capabilities && { capabilities }) }
  const client = await connect({ transport: 'http', url, revision, ...more })
  clients.push(client)
  return client
}

const ping = { jsonrpc: '2.0', id: 5, method: 'ping' }

/** The HTTP+SSE revision has no `Mcp-Session-Id`, but can be requested over Streamable HTTP too. */
const known = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']

describe('a handshake', () => {
  it.each(known)('C012 C013 C092 for %s is answered with this version', async (revision) => {
    const reply = await post(`${gateway.url}/fake`, JSON.stringify(initialize(revision)))
    expect(reply.status).toBe(200)
    expect(JSON.parse(reply.text)).toMatchObject({
      result: { protocolVersion: revision, capabilities: {}, serverInfo: { name: 'fake-server' } },
    })
  })

  it.each(['1.0.0', '2099-01-01', '', 'x'.repeat(10_000)])(
    'C014 for an unknown version is answered with a known one, and other clients are not affected',
    async (version) => {
      const reply = await post(`${gateway.url}/fake`, JSON.stringify(initialize(version)))
      const { result } = JSON.parse(reply.text) as { result: Json }
      expect(known).toContain(result['protocolVersion'])
      expect((await post(`${gateway.url}/fake`, JSON.stringify(initialize()))).status).toBe(200)
    },
  )

  it.each([7, null, undefined])(
    'C014 without a version, or with %o, is refused with a JSON-RPC error',
    async (version) => {
      const message = initialize()
      const params = { ...objectAt(message, 'params'), protocolVersion: version }
      const reply = await post(`${gateway.url}/fake`, JSON.stringify({ ...message, params }))
      expect(JSON.parse(reply.text)).toMatchObject({ error: { code: -32602 } })
      expect(reply.headers['mcp-session-id']).toBeUndefined()
    },
  )

  it('C002 C085 precedes everything else but pings', async () => {
    for (const method of ['tools/list', 'tools/call', 'resources/read', 'logging/setLevel', 'vendor/ping']) {
      const before = fake.seen.length
      const reply = await post(
        `${gateway.url}/fake`,
        JSON.stringify({ ...ping, method, params: { name: 'echo' } }),
      )
      expect([method, reply.status]).toEqual([method, 400])
      expect(JSON.parse(reply.text)).toMatchObject({ error: { code: -32600 } })
      expect(fake.seen.length).toBe(before)
    }
  })

  it('C002 C093 is followed by initialized, which is accepted, and by calls', async () => {
    const reply = await post(`${gateway.url}/fake`, JSON.stringify(initialize()))
    const session = { 'mcp-session-id': reply.headers['mcp-session-id'] ?? '' }
    const ready = await post(
      `${gateway.url}/fake`,
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      session,
    )
    expect([ready.status, ready.text]).toEqual([202, ''])
    const called = await post(`${gateway.url}/fake`, JSON.stringify(toolCall(2, 'echo')), session)
    expect(JSON.parse(called.text)).toMatchObject({ id: 2, result: { content: [{ text: '{}' }] } })
    const again = await post(`${gateway.url}/fake`, JSON.stringify(initialize()), session)
    expect(JSON.parse(again.text)).toBeTypeOf('object')
  })

  it('C086 is followed by nothing but pings and log messages until initialized is received', async () => {
    const url = `${gateway.url}/fake`
    const reply = await post(url, JSON.stringify(initialize()))
    const headers = { 'mcp-session-id': reply.headers['mcp-session-id'] ?? '' }
    const other = await openSession(url, '2025-11-25')
    const heard = (await other.get()).events()
    fake.change('tools')
    await eventsUntil(heard, (event) => messageOf(event)['method'] === 'notifications/tools/list_changed')
    await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', headers)
    const stream = await open(url, { method: 'GET', headers: { accept: 'text/event-stream', ...headers } })
    const events = stream.events()
    const first = eventsUntil(events, (event) => messageOf(event)['method'] !== undefined)
    // Received once it listens; if it had listened before, the first notification would be that of the tools.
    const told = setInterval(() => fake.change('prompts'), 50)
    const said = (await first).map(messageOf).filter(({ method }) => method !== undefined)
    clearInterval(told)
    expect(said.map(({ method }) => method)).toEqual(['notifications/prompts/list_changed'])
  })

  it('C098 can be accompanied by pings, which are answered', async () => {
    const session = await openSession(`${gateway.url}/fake`, '2025-11-25')
    expect(JSON.parse((await session.post(ping)).text)).toEqual({ jsonrpc: '2.0', id: 5, result: {} })
  })
})

/** What belongs to each capability. */
const probes: Readonly<Record<string, readonly (readonly [string, Json])[]>> = {
  tools: [
    ['tools/list', {}],
    ['tools/call', { name: 'echo', arguments: {} }],
  ],
  prompts: [
    ['prompts/list', {}],
    ['prompts/get', { name: 'plain' }],
  ],
  resources: [
    ['resources/list', {}],
    ['resources/templates/list', {}],
    ['resources/read', { uri: 'fake://static' }],
  ],
  completions: [
    [
      'completion/complete',
      { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: '' } },
    ],
  ],
}

const legacyProbes: Readonly<Record<string, readonly (readonly [string, Json])[]>> = {
  logging: [['logging/setLevel', { level: 'info' }]],
  resources: [
    ['resources/subscribe', { uri: 'fake://static' }],
    ['resources/unsubscribe', { uri: 'fake://static' }],
  ],
}

function probesOf(revision: (typeof revisions)[number]): readonly (readonly [string, string, Json])[] {
  const groups = [
    ...Object.entries(probes),
    ...(revision === '2025-11-25' ? Object.entries(legacyProbes) : []),
  ]
  return groups.flatMap(([capability, methods]) =>
    methods.map(([method, params]) => [capability, method, params] as const),
  )
}

describe.each(revisions)('to a client of %s', (revision) => {
  it.each(probesOf(revision))(
    'C003 C008 C087 C088 C090 C094 C095 C096 C097 C152 %s is declared, and %s is answered',
    async (capability, method, params) => {
      const client = await clientOf('/fake', revision)
      expect(client.initialized['capabilities']).toMatchObject({ [capability]: {} })
      const reply = await client.request(method, params)
      expect([method, reply.error]).toEqual([method, undefined])
    },
  )

  it.each(probesOf(revision).filter(([capability]) => !['tools', 'logging'].includes(capability)))(
    'C008 C101 %s is not declared, and %s is refused without a request to the server',
    async (capability, method, params) => {
      alone('each gateway has connections of its own')
      const client = await clientOf('/tools', revision, { to: strict })
      expect(Object.keys(objectAt(client.initialized, 'capabilities'))).not.toContain(capability)
      const before = tools.seen.length
      const reply = await client.request(method, params)
      expect([method, objectAt(reply, 'error')['code']]).toEqual([method, -32601])
      expect(tools.seen.slice(before).map((each) => each['method'])).toEqual([])
    },
  )

  it('C101 a capability that no server declared is refused on the aggregate endpoint', async () => {
    const one = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
    const other = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools: [] }) })
    const both = await localGateway({ upstreams: { one: one.url, other: other.url }, features: undescribed })
    const client = await clientOf('', revision, { to: both })
    expect((await client.request('prompts/list')).error).toMatchObject({ code: -32601 })
    expect((await client.request('tools/list')).result).toMatchObject({ tools: [] })
    await client.close()
    await both.close()
    await Promise.all([one.close(), other.close()])
  })

  it('C087 C089 a capability of several servers is declared once, and works', async () => {
    const client = await clientOf('', revision)
    const capabilities = objectAt(client.initialized, 'capabilities')
    expect(Object.keys(capabilities).toSorted()).toEqual([
      'completions',
      ...(revision === '2026-07-28' ? ['events'] : []),
      'extensions',
      'logging',
      'prompts',
      'resources',
      ...(revision === '2025-11-25' ? ['tasks'] : []),
      'tools',
    ])
    for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
      expect((await client.request(method)).error).toBeUndefined()
    }
  })

  it('C100 an unknown method is refused, never left without a response', async () => {
    for (const path of ['', '/fake', '/tools']) {
      const client = await clientOf(path, revision)
      for (const method of ['nothing/known', 'tools/nothing', 'x', 'rpc.discover']) {
        expect((await client.request(method)).error).toMatchObject({ code: -32601 })
      }
    }
  })

  it('C091 a client without capabilities gets no input request, and receives the missing capability', async () => {
    const client = await clientOf('/fake', revision, { capabilities: {} })
    for (const name of ['ask_form', 'ask_sampling', 'ask_roots']) {
      const { result, error } = await client.request('tools/call', { name, arguments: {} })
      expect([name, result?.['isError'] === true || error !== undefined]).toEqual([name, true])
    }
    expect(client.asked).toEqual([])
    expect((await client.request('tools/call', { name: 'echo', arguments: {} })).error).toBeUndefined()
  })

  it('C118 tasks are declared as the revision has them, and a call can be one', async () => {
    const plain = { name: 'echo', arguments: {} }
    for (const path of ['', '/fake', '/tools']) {
      const client = await clientOf(path, revision)
      const capabilities = objectAt(client.initialized, 'capabilities')
      const core = { list: {}, cancel: {}, requests: { tools: { call: {} } } }
      expect(capabilities['tasks']).toEqual(revision === '2025-11-25' ? core : undefined)
      const extensions = JSON.stringify(capabilities['extensions'] ?? {})
      expect(extensions.includes('io.modelcontextprotocol/tasks')).toBe(revision === '2026-07-28')
      if (revision === '2025-11-25' && path === '/fake') {
        const { result } = await client.request('tools/call', { ...plain, task: { ttl: 60_000 } })
        expect(result?.['task']).toMatchObject({ taskId: expect.any(String) as string })
      }
    }
  })
})

it('C086 C093 a server receives initialized once, before any other request', async () => {
  const server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  const own = await localGateway({ upstreams: { one: server.url } })
  const client = await connect({ transport: 'http', url: own.url, revision: '2025-11-25' })
  await client.request('tools/call', { name: 'echo', arguments: {} })
  const received = (method: string): number => server.received(method).length
  await until(() => received('notifications/initialized') > 0, 'the notification')
  expect(received('notifications/initialized')).toBeLessThanOrEqual(received('initialize'))
  expect(server.violations).toEqual([])
  await client.close()
  await own.close()
  await server.close()
})
