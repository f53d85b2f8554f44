// Tools that the configuration renames or hides.
import { describe, expect, test } from 'vitest'
import { startIssuer } from '../../support/auth/issuer.ts'
import { post } from '../../support/client/raw.ts'
import { closedAtEnd } from '../../support/closed-at-end.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { modern } from '../../support/fronts.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { type Asked, type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const listed: string[] = []
const inputSchema = { type: 'object', properties: { key: { type: 'string' } } }
const scripts = {
  'tools/list': () => ({
    tools: listed.map((name) => ({ name, description: 'Returns what it is called', inputSchema })),
  }),
  'tools/call': ({ params }: Asked) => ({
    content: [{ type: 'text', text: `this is ${String(params['name'])}` }],
  }),
}

interface World {
  readonly gateway: LocalGateway
  readonly server: ScriptedServer
  client(revision?: '2025-11-25' | '2026-07-28', path?: string): Promise<FakeClient>
}

/** A gateway in front of a server that lists these tools, with these settings. */
async function world(tools: readonly string[], settings: Json, more: Json = {}): Promise<World> {
  listed.splice(0, listed.length, ...tools)
  const server = closedAtEnd(await scriptedServer({ tools: {} }, scripts))
  const gateway = closedAtEnd(
    await localGateway({ ...more, upstreams: { jira: { url: server.url, ...settings } } }),
  )
  return {
    gateway,
    server,
    client: async (revision = '2025-11-25', path = '/mcp/jira') =>
      closedAtEnd(await connect({ transport: 'http', url: `${gateway.origin}${path}`, revision })),
  }
}

async function namesOf(client: FakeClient): Promise<unknown[]> {
  const { result } = await client.request('tools/list')
  return ((result?.['tools'] ?? []) as Json[]).map(({ name }) => name)
}

const call = async (client: FakeClient, name: string): Promise<string> =>
  (await client.request('tools/call', { name, arguments: {} })).text

const two = ['getJiraIssue', 'get_status', 'get_secret']
const renaming = { tools: { getJiraIssue: { rename: 'get_issue' }, '*_secret': { hide: true } } }

describe.each(['2025-11-25', '2026-07-28'] as const)('a client of %s', (revision) => {
  test('sees a renamed tool under its new name, and calls it by that name', async () => {
    const { client, server } = await world(two, renaming)
    const own = await client(revision)
    expect(await namesOf(own)).toEqual(['get_issue', 'get_status'])
    expect(await call(own, 'get_issue')).toContain('this is getJiraIssue')
    expect(await call(own, 'get_status')).toContain('this is get_status')
    const calls = server.seen.filter(({ method }) => method === 'tools/call')
    expect(calls.map(({ params }) => (params as Json)['name'])).toEqual(['getJiraIssue', 'get_status'])
  })

  test('finds neither a hidden tool nor a renamed tool under its original name', async () => {
    const { client, server } = await world(two, renaming)
    const own = await client(revision)
    for (const name of ['get_secret', 'getJiraIssue', 'no_such_tool'])
      expect(await call(own, name)).toContain('"UNKNOWN_TOOL"')
    expect(server.seen.filter(({ method }) => method === 'tools/call')).toEqual([])
  })

  test('finds neither of them with all features off', async () => {
    const { client, server } = await world(two, renaming, { features: 'none' })
    const own = await client(revision)
    expect(await namesOf(own)).toEqual(['get_issue', 'get_status'])
    expect(await call(own, 'get_issue')).toContain('this is getJiraIssue')
    for (const name of ['get_secret', 'getJiraIssue']) expect(await call(own, name)).toContain('Unknown tool')
    expect(server.seen.filter(({ method }) => method === 'tools/call')).toHaveLength(1)
  })
})

test('on the aggregate endpoint, a renamed tool has its new name after the prefix', async () => {
  const other = closedAtEnd(await scriptedServer({ tools: {} }, scripts))
  const { client } = await world(two, renaming, {})
  const { origin } = closedAtEnd(
    await localGateway({ upstreams: { jira: { url: other.url, ...renaming }, wiki: { url: other.url } } }),
  )
  const own = closedAtEnd(await connect({ transport: 'http', url: `${origin}/mcp`, revision: '2025-11-25' }))
  expect(await namesOf(own)).toEqual([
    'jira_get_issue',
    'jira_get_status',
    'wiki_getJiraIssue',
    'wiki_get_status',
    'wiki_get_secret',
  ])
  expect(await call(own, 'jira_get_issue')).toContain('this is getJiraIssue')
  expect(await call(own, 'jira_get_secret')).toContain('UNKNOWN_TOOL')
  expect(await call(own, 'wiki_get_secret')).toContain('this is get_secret')
  expect(await namesOf(await client())).toEqual(['get_issue', 'get_status'])
})

test('settings beside a rename, rules and logs use the new name', async () => {
  const tools = { getJiraIssue: { rename: 'purge_issue', confirm: 'Shall it be purged?' } }
  const features = { confirm: { wait: 'off' } }
  const { client, gateway } = await world(two, { tools, features, deny: { get_status: true } })
  const own = await client()
  expect(await call(own, 'get_status')).toContain('PERMISSION_DENIED')
  expect(await call(own, 'purge_issue')).toContain('Shall it be purged?')
  expect(gateway.lines).toContainEqual(expect.objectContaining({ event: 'call', name: 'purge_issue' }))
  expect(gateway.collisions).toEqual([])
})

test('a server cannot take the new name of a tool by listing that name itself', async () => {
  const { client, gateway } = await world(['getJiraIssue', 'get_issue'], renaming)
  const own = await client()
  expect(await namesOf(own)).toEqual(['get_issue'])
  expect(await call(own, 'get_issue')).toContain('this is getJiraIssue')
  expect(gateway.lines).toContainEqual(
    expect.objectContaining({ level: 'warn', event: 'upstream.name_taken', name: 'get_issue' }),
  )
  expect(gateway.collisions).toContain(
    'jira lists a tool get_issue itself, which is therefore left out: choose another name',
  )
})

test('renaming or hiding a tool that the server does not list is a configuration problem', async () => {
  const { gateway } = await world(two, {
    tools: { getJiraIsue: { rename: 'get_issue' }, get_secrets: { hide: true } },
  })
  expect(gateway.collisions).toHaveLength(2)
  expect(gateway.collisions[0]).toContain('did you mean getJiraIssue?')
  expect(gateway.collisions[1]).toContain('did you mean get_secret?')
})

test('names that no server has do not make servers list their tools for each new caller', async () => {
  alone('each gateway has a cache of lists')
  listed.splice(0, listed.length, ...two)
  const servers = [closedAtEnd(await scriptedServer({ tools: {} }, scripts))]
  servers.push(
    closedAtEnd(await scriptedServer({ tools: {} }, { ...scripts, 'tools/list': () => ({ tools: [] }) })),
  )
  const [jira, wiki] = servers.map(({ url }) => ({ url, scopes: { all: ['*'] } }))
  const issuer = closedAtEnd(await startIssuer())
  const { origin } = closedAtEnd(
    await localGateway({
      auth: { jwt: { issuer: issuer.url, audience: 'gateway', jwks: issuer.jwks } },
      upstreams: { jira: { ...jira, tools: { getJiraIssue: { rename: 'get_issue' } } }, wiki },
    }),
  )
  const ask = async (caller: string, name: string): Promise<string> => {
    const authorization = `Bearer ${await issuer.sign({ sub: caller, scope: 'all' })}`
    const { message, headers } = modern('tools/call', { name, arguments: {} })
    return (await post(`${origin}/mcp`, JSON.stringify(message), { authorization, ...headers })).text
  }
  const lists = (): number =>
    servers.flatMap(({ seen }) => seen).filter(({ method }) => method === 'tools/list').length
  expect(await ask('first', 'no_such')).toContain('UNKNOWN_TOOL')
  const before = lists()
  for (const caller of ['a', 'b', 'c'])
    expect(await ask(caller, `made_up_by_${caller}`)).toContain('UNKNOWN_TOOL')
  expect(lists()).toBe(before)
  expect(await ask('d', 'getJiraIssue')).toContain('UNKNOWN_TOOL')
  // A name that a server has is called as before.
  expect(await ask('d', 'get_status')).toContain('this is get_status')
  expect(await ask('e', 'get_issue')).toContain('this is getJiraIssue')
})
