// Names of tools and prompts at the address of several servers: their prefix and length, and names from before a server
// was added. Whatever a tool is called, rules and records are those of one tool.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Naming } from '../../../src/catalog/names.ts'
import { closedAtEnd } from '../../support/closed-at-end.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { caller, corporate, type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { namedServer, type NamedServer, type Offered } from '../../support/named-server.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { type Json } from '../../support/server/json.ts'

interface World {
  readonly gateway: LocalGateway
  readonly servers: Readonly<Record<string, NamedServer>>
  client(revision?: '2025-11-25' | '2026-07-28', path?: string): Promise<FakeClient>
}

/** A gateway in front of servers with these tools; `settings` are those of single servers. */
async function world(
  offered: Readonly<Record<string, Offered>>,
  config: Json = {},
  settings: Readonly<Record<string, Json>> = {},
): Promise<World> {
  const entries = await Promise.all(
    Object.entries(offered).map(
      async ([name, each]) => [name, closedAtEnd(await namedServer(name, each))] as const,
    ),
  )
  const upstreams = Object.fromEntries(
    entries.map(([name, { url }]) => [name, { url, trust: true, ...settings[name] }]),
  )
  const gateway = closedAtEnd(await localGateway({ features: { confirm: 'off' }, ...config, upstreams }))
  const headers = config['profile'] === undefined ? {} : { headers: caller }
  return {
    gateway,
    servers: Object.fromEntries(entries),
    client: async (revision = '2025-11-25', path = '/mcp') => {
      const url = `${gateway.origin}${path}`
      return closedAtEnd(await connect({ transport: 'http', url, revision, ...headers }))
    },
  }
}

async function listed(client: FakeClient, list: 'tools' | 'prompts' = 'tools'): Promise<string[]> {
  const { result } = await client.request(`${list}/list`)
  return ((result?.[list] ?? []) as Json[]).map(({ name }) => String(name))
}

const call = async (client: FakeClient, name: string, args: Json = {}, more: Json = {}): Promise<string> =>
  (await client.request('tools/call', { name, arguments: args, ...more })).text

const prompt = async (client: FakeClient, name: string): Promise<string> =>
  (await client.request('prompts/get', { name })).text

const long = (letter: string, length: number): string => letter.repeat(length)
/** What every client accepts as the name of a tool. */
const accepted = /^[a-zA-Z0-9_-]{1,64}$/

describe.each(['2025-11-25', '2026-07-28'] as const)('a client of %s', (revision) => {
  test.each(['open', 'corporate'])(
    'calls tools and prompts whose names exceed 64 characters with their prefix, with the profile %s',
    async (profile) => {
      const own = [
        long('a', 64),
        `${long('a', 63)}b`,
        `get_${long('c', 49)}`,
        `${long('d', 40)}.e/${long('f', 20)}`,
        `${long('q', 60)}🙂`,
        `${long('g', 90)}_1`,
        `${long('g', 90)}_2`,
        'short',
      ]
      const { client } = await world(
        { 'my-server': { tools: own, prompts: own }, other: { tools: ['x'], prompts: ['x'] } },
        profile === 'corporate' ? corporate : {},
      )
      const host = await client(revision)
      for (const list of ['tools', 'prompts'] as const) {
        const names = (await listed(host, list)).filter((name) => /^(my_server|other)_/.test(name))
        expect(names.filter((name) => !accepted.test(name))).toEqual([])
        expect(new Set(names).size).toBe(own.length + 1)
        const ask = list === 'tools' ? call : prompt
        for (const [index, name] of own.entries()) {
          expect(names[index]).toMatch(/^my_server_/)
          expect(await ask(host, names[index] ?? '')).toContain(`${name} of my-server`)
          expect(await ask(host, `my_server_${name}`)).toContain(`${name} of my-server`)
        }
      }
    },
  )

  test('finds names with up to 64 characters as they always were', async () => {
    const own = [`get-${long('c', 57)}`, 'getIt', 'a.b', 'a/b', '1']
    const { client } = await world({ a: { tools: own, prompts: own }, b: { tools: ['x'] } })
    const host = await client(revision)
    expect(await listed(host)).toEqual([...own.map((name) => `a_${name}`), 'b_x'])
    expect(await listed(host, 'prompts')).toEqual(own.map((name) => `a_${name}`))
  })

  test('calls tools and prompts by the names that they had before a server was added', async () => {
    const offered = { tools: ['search', 'linear_get', 'getIssue'], prompts: ['brief', 'linear_note'] }
    const { client, servers } = await world({
      linear: offered,
      other: { tools: ['find', 'search_all'], prompts: ['sum'] },
    })
    const host = await client(revision)
    for (const name of ['search', 'linear_get', 'getIssue', 'linear_search', 'linear_linear_get'])
      expect(await call(host, name)).toContain(`${name.replace(/^linear_(?!get$)/, '')} of linear`)
    expect(await call(host, 'get_issue')).toContain('getIssue of linear')
    expect(await call(host, 'find')).toContain('find of other')
    for (const name of ['brief', 'linear_brief', 'linear_note', 'linear_linear_note'])
      expect(await prompt(host, name)).toContain(`${name.replace(/^linear_(?!note$)/, '')} of linear`)
    expect(await prompt(host, 'sum')).toContain('sum of other')
    const reference = { ref: { type: 'ref/prompt', name: 'sum' }, argument: { name: 'x', value: '' } }
    expect((await host.request('completion/complete', reference)).text).toContain('sum of other')
    for (const name of ['no_such', 'linear_no_such', 'other_search', ''])
      expect(await call(host, name)).toContain('Unknown tool')
    expect(servers['linear']?.requested).toHaveLength(10)
  })

  test('reads, and subscribes to, resources by the URIs that they had before a server was added', async () => {
    const { client, servers } = await world({
      a: { resources: ['note://1'], templates: ['note://{id}/x'] },
      b: { resources: ['task://1', 'task://2'], templates: ['{scheme}://9'] },
      c: { resources: ['task://2'] },
    })
    const host = await client(revision)
    for (const [uri, server] of [
      ['note://1', 'a'],
      ['note://7/x', 'a'],
      ['task://1', 'b'],
      ['x://9', 'b'],
    ] as const) {
      const { result } = await host.request('resources/read', { uri })
      expect(result?.['contents']).toEqual([{ uri, text: `${uri} of ${server}` }])
    }
    const ambiguous = await host.request('resources/read', { uri: 'task://2' })
    expect(JSON.stringify(ambiguous.error)).toContain('b+task://2 or c+task://2')
    expect((await host.request('resources/read', { uri: 'no://such' })).error).toMatchObject({
      message: 'Resource not found: no://such',
    })
    const reference = {
      ref: { type: 'ref/resource', uri: 'note://{id}/x' },
      argument: { name: 'id', value: '' },
    }
    expect((await host.request('completion/complete', reference)).text).toContain('note://{id}/x of a')
    if (revision === '2025-11-25') {
      await host.request('resources/subscribe', { uri: 'note://1' })
      expect(servers['a']?.requested.at(-1)).toBe('note://1')
      expect(servers['a']?.seen.at(-1)).toMatchObject({ method: 'resources/subscribe' })
    }
  })

  test('gets an error with the names that tell tools apart if several servers have a name, and no server is called', async () => {
    const { client, servers } = await world({
      a: { tools: ['search', 'same'], prompts: ['sum'] },
      b: { tools: ['search', 'same'], prompts: ['sum'] },
      c: { tools: ['other'] },
    })
    const host = await client(revision)
    expect(await call(host, 'search')).toMatch(/more than one server has it.*a_search or b_search/s)
    expect(JSON.stringify((await host.request('prompts/get', { name: 'sum' })).error)).toContain(
      'a_sum or b_sum',
    )
    expect(servers['a']?.requested).toEqual([])
    expect(servers['b']?.requested).toEqual([])
  })
})

describe('prefix', () => {
  const offered = { a: { tools: ['get'], prompts: ['sum'], resources: ['x://1'] } }

  test('`auto` lists a single server under its own names, and `always` under those that it keeps with others', async () => {
    for (const [prefix, names, uri] of [
      ['auto', ['get'], 'x://1'],
      ['never', ['get'], 'x://1'],
      ['always', ['a_get'], 'a+x://1'],
    ] as const) {
      const { client } = await world(offered, { prefix })
      const host = await client()
      expect(await listed(host)).toEqual(names)
      expect(await listed(host, 'prompts')).toEqual([names[0].replace('get', 'sum')])
      expect((await host.request('resources/list')).result?.['resources']).toContainEqual(
        expect.objectContaining({ uri }),
      )
      expect(await call(host, names[0])).toContain('get of a')
      expect(await listed(await client('2025-11-25', '/mcp/a'))).toEqual(['get'])
    }
  })

  test('`always` keeps the names without a prefix callable', async () => {
    const { client } = await world(offered, { prefix: 'always' })
    const host = await client()
    expect(await call(host, 'get')).toContain('get of a')
    expect(await prompt(host, 'sum')).toContain('sum of a')
    expect((await host.request('resources/read', { uri: 'x://1' })).result?.['contents']).toMatchObject([
      { uri: 'x://1' },
    ])
  })

  test('`never` lists the own names of servers, and keeps those with a prefix callable', async () => {
    const { client, gateway } = await world(
      {
        linear: { tools: ['linear_get', 'search'], prompts: ['sum'] },
        b: { tools: ['find'], prompts: ['b_sum'] },
      },
      { prefix: 'never' },
    )
    const host = await client()
    expect(await listed(host)).toEqual(['linear_get', 'search', 'find'])
    expect(await listed(host, 'prompts')).toEqual(['sum', 'b_sum'])
    for (const name of ['linear_get', 'linear_linear_get'])
      expect(await call(host, name)).toContain('linear_get of linear')
    for (const name of ['search', 'linear_search'])
      expect(await call(host, name)).toContain('search of linear')
    expect(await call(host, 'find')).toContain('find of b')
    expect(await prompt(host, 'b_sum')).toContain('b_sum of b')
    expect(gateway.collisions).toEqual([])
  })

  test('`never` is a configuration problem where two servers have a name, which is then listed with their prefixes', async () => {
    const { client, gateway, servers } = await world(
      {
        a: { tools: ['search', 'get'], prompts: ['sum'] },
        b: { tools: ['search', 'a_x', 'a_get'], prompts: ['sum'] },
      },
      { prefix: 'never' },
    )
    expect(gateway.collisions).toEqual([
      'search of a is listed as a_search: without a prefix it would also be a name of b',
      'search of b is listed as b_search: without a prefix it would also be a name of a',
      'a_x of b is listed as b_a_x: at /mcp such names belong to a',
      'a_get of b is listed as b_a_get: at /mcp such names belong to a',
      'sum of a is listed as a_sum: without a prefix it would also be a name of b',
      'sum of b is listed as b_sum: without a prefix it would also be a name of a',
    ])
    const host = await client()
    expect(await listed(host)).toEqual(['a_search', 'get', 'b_search', 'b_a_x', 'b_a_get'])
    expect(await call(host, 'b_search')).toContain('search of b')
    expect(await call(host, 'a_get')).toContain('get of a')
    expect(await call(host, 'b_a_get')).toContain('a_get of b')
    expect(await call(host, 'search')).toContain('a_search or b_search')
    expect(await call(host, 'a_x')).toContain('Unknown tool')
    expect(servers['b']?.requested).toEqual(['search', 'a_get'])
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ event: 'config.problem', message: gateway.collisions[0] }),
    )
  })

  test('conflicts of names are problems that `check` finds, and all servers are served', async () => {
    const search = closedAtEnd(await namedServer('a', { tools: ['search', 'b_x'] }))
    const upstreams = { a: { url: search.url }, 'a-b': { url: search.url } }
    const gateway = closedAtEnd(await startGateway({ prefix: 'never', upstreams }))
    const host = closedAtEnd(await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' }))
    expect(await listed(host)).toEqual(['a_search', 'a_b_search', 'a_b_b_x'])
    const { code, stdout, stderr } = await runCommand(['check', '--config', gateway.configFile])
    expect(code).toBe(1)
    expect(stdout + stderr).toMatch(/search of a is listed as a_search.*a-b/)
    expect(stdout + stderr).toMatch(/b_x of a is available at \/mcp\/a only: .*a-b/)
  })

  test('of a server differs from that of all: a name without a prefix in a list is no former name of others', async () => {
    const { client, servers } = await world(
      { a: { tools: ['search', 'get'] }, b: { tools: ['search', 'find'] } },
      {},
      { a: { prefix: 'never' } },
    )
    const host = await client()
    expect(await listed(host)).toEqual(['search', 'get', 'b_search', 'b_find'])
    expect(await call(host, 'search')).toContain('search of a')
    expect(await call(host, 'find')).toContain('find of b')
    expect(servers['b']?.requested).toEqual(['find'])
  })

  test.each(['auto', 'never', 'always'])(
    '`%s` leaves the built-in tools of the gateway their names, unless a list has them',
    async (prefix) => {
      const { client } = await world(
        { a: { tools: ['ai_help', 'get'] }, b: { tools: ['find'] } },
        { prefix, meta_tools: 'listed' },
      )
      const names = await listed(await client())
      expect(names.filter((name) => name.endsWith('ai_help'))).toEqual(
        prefix === 'never' ? ['ai_help', 'gateway_ai_help'] : ['a_ai_help', 'ai_help'],
      )
      expect(await call(await client(), 'ai_help')).toContain(prefix === 'never' ? 'ai_help of a' : '# ')
    },
  )
})

describe('whichever name a tool is called by', () => {
  const name = `drop_${long('x', 57)}`
  const names = (listedName: string): string[] => [name, `a_${name}`, listedName]

  async function tool(
    config: Json,
    settings: Json,
  ): Promise<World & { readonly host: FakeClient; readonly all: string[] }> {
    const found = await world({ a: { tools: [name], prompts: [name] }, b: { tools: ['x'] } }, config, {
      a: settings,
    })
    const host = await found.client()
    return { ...found, host, all: names((await listed(host))[0] ?? '') }
  }

  test.each(['auto', 'never', 'always'])(
    'a rule that denies it applies, with `prefix: %s`',
    async (prefix) => {
      const { host, all, servers } = await tool({ prefix }, { deny: { [name]: { key: 'secret' } } })
      for (const each of all) {
        expect(await call(host, each, { key: 'secret' })).toContain('PERMISSION_DENIED')
        expect(await call(host, each, { key: 'public' })).toContain(`${name} of a`)
      }
      expect(servers['a']?.requested).toEqual([name, name, name])
    },
  )

  test('a rule that denies a prompt or resource applies', async () => {
    const { host, all } = await tool({}, { deny: { [name]: 'on' } })
    for (const each of all)
      expect((await host.request('prompts/get', { name: each })).error).toMatchObject({
        data: { code: 'PERMISSION_DENIED' },
      })
    const found = await world({ a: { resources: ['x://1'] }, b: {} }, {}, { a: { deny: { 'x://1': 'on' } } })
    const reader = await found.client()
    for (const uri of ['x://1', 'a+x://1'])
      expect((await reader.request('resources/read', { uri })).error).toMatchObject({
        data: { code: 'PERMISSION_DENIED' },
      })
    expect(found.servers['a']?.requested).toEqual([])
  })

  test('a hidden tool is unknown, and does not make a name ambiguous', async () => {
    const { client } = await world(
      { a: { tools: ['get', 'put'] }, b: { tools: ['get'] } },
      {},
      { a: { tools: { get: { hide: true } } } },
    )
    const host = await client()
    expect(await call(host, 'get')).toContain('get of b')
    expect(await call(host, 'a_get')).toContain('Unknown tool')
  })

  test('a confirmation is requested', async () => {
    const { host, all, servers } = await tool(
      { features: { confirm: { wait: 'off' } } },
      { tools: { [name]: { confirm: 'Shall it be dropped?' } } },
    )
    for (const each of all) expect(await call(host, each)).toContain('Shall it be dropped?')
    expect(servers['a']?.requested).toEqual([])
  })

  test('a key makes it run once', async () => {
    const { host, all, servers } = await tool({}, {})
    for (const each of all)
      expect(await call(host, each, {}, { _meta: { 'dev.gatehouse/idempotency_key': 'k-1' } })).toContain(
        `${name} of a`,
      )
    expect(servers['a']?.requested).toEqual([name])
  })

  test('`explain` describes it', async () => {
    const { servers } = await tool({}, {})
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-test-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const upstreams = { a: { url: servers['a']?.url, trust: true }, b: servers['b']?.url }
    const file = join(folder, 'gateway.config.yaml')
    await writeFile(file, JSON.stringify({ store: 'memory', upstreams }))
    for (const each of names(new Naming().prefixed('a', name))) {
      const { stdout, code } = await runCommand(['explain', 'a', each, '--config', file])
      expect([code, stdout]).toEqual([0, expect.stringContaining(`a ${name}\n`)])
    }
  })

  test('a rate limit counts it as one, a permission check finds it, and logs have its own name', async () => {
    const { host, all, gateway } = await tool({}, { tools: { [name]: { rate: '2/hour' } } })
    for (const each of all) {
      const { result } = await host.request('permissions/check', { tool: each })
      expect(result).toMatchObject({ allowed: true })
    }
    const texts: string[] = []
    for (const each of all) texts.push(await call(host, each))
    expect(texts.map((text) => text.includes('RATE_LIMIT_EXCEEDED'))).toEqual([false, false, true])
    const logged = gateway.lines.filter(({ event, method }) => event === 'call' && method === 'tools/call')
    expect(logged.map((line) => line['name'])).toEqual([name, name, name])
  })
})

test.each(bothEras)(
  'a client of the $title calls tools by listed, shortened and former names',
  async ({ connect: open }) => {
    const name = `get_${long('y', 60)}`
    const { gateway } = await world({
      'my-a': { tools: [name, 'get'], prompts: ['sum'] },
      b: { tools: ['x'] },
    })
    const client = closedAtEnd(await open({ transport: 'http', url: gateway.url }))
    const [shortened = '', ...others] = await client.tools()
    expect(others).toEqual(['my_a_get', 'b_x'])
    expect(shortened).toMatch(accepted)
    for (const each of [shortened, name, `my_a_${name}`])
      expect((await client.call(each)).text).toBe(`${name} of my-a`)
    for (const each of ['get', 'my_a_get']) expect((await client.call(each)).text).toBe('get of my-a')
    for (const each of ['sum', 'my_a_sum']) expect(await client.prompt(each)).toBe('sum of my-a')
  },
)

test.each([
  ['auto', ['a_get', 'b_get', 'b_find']],
  ['never', ['a_get', 'b_get', 'find']],
] as const)('documents have the names that are listed with `prefix: %s`', async (prefix, expected) => {
  const { gateway, client } = await world(
    { a: { tools: ['get'] }, b: { tools: ['get', 'find'] } },
    { prefix },
  )
  expect(await listed(await client())).toEqual(expected)
  const manifest = (await (await fetch(`${gateway.origin}/capabilities`)).json()) as Json
  expect((manifest['tools'] as Json[]).map(({ name }) => name)).toEqual(expected)
  const guide = await (await fetch(`${gateway.origin}/ai-help`)).text()
  for (const name of expected) expect(guide).toContain(`\`${name}\``)
})

test('documents of a single server at `/mcp` have the names with a prefix where it is always there', async () => {
  const { gateway } = await world({ a: { tools: ['get'] } }, { prefix: 'always' })
  const namesAt = async (path: string): Promise<unknown> =>
    (((await (await fetch(`${gateway.origin}${path}`)).json()) as Json)['tools'] as Json[]).map(
      ({ name }) => name,
    )
  expect(await namesAt('/capabilities')).toEqual(['a_get'])
  expect(await namesAt('/capabilities/a')).toEqual(['get'])
})
