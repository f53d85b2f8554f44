// Lists of tools with a URL of their own, in front of the published servers, for clients with both major versions of the SDK.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect } from '../../support/fake-client.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

/** What both SDKs' clients have in common. */
interface Caller {
  listTools(): Promise<{ tools: { name: string; description?: string | undefined }[] }>
  callTool(call: {
    name: string
    arguments?: Record<string, unknown>
    _meta?: Record<string, unknown>
  }): Promise<object>
  close(): Promise<void>
}

const home = realpathSync(mkdtempSync(join(tmpdir(), 'profiles-')))
const folder = join(home, 'files')
let gateway: LocalGateway

const config = {
  listen: { legacy_sse: true },
  upstreams: {
    files: { command: publishedServer('@modelcontextprotocol/server-filesystem', folder), trust: true },
    graph: {
      command: publishedServer('@modelcontextprotocol/server-memory'),
      env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
    },
    everything: { command: publishedServer('@modelcontextprotocol/server-everything') },
  },
  profiles: {
    coding: {
      servers: ['files', 'graph'],
      show: ['files_*', 'read', 'remember', 'ai_help'],
      hide: ['files_write_*', 'files_move_file'],
      rename: { files_read_text_file: 'read', graph_create_entities: 'remember' },
      describe: { read: 'Reads a text.' },
    },
    notes: { servers: 'graph', hide: ['graph_delete_*', 'ai_*'] },
    seldom: { servers: 'graph', rate: '2/hour' },
  },
}

beforeAll(async () => {
  mkdirSync(folder)
  writeFileSync(join(folder, 'a.txt'), 'hello')
  gateway = await localGateway(config)
})

afterAll(async () => {
  await gateway.close()
  rmSync(home, { recursive: true })
})

async function sdk1(path: string): Promise<Client> {
  const client = new Client({ name: 'one', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.origin + path)))
  onTestFinished(() => client.close())
  return client
}

async function sdk2(path: string): Promise<Client2> {
  const client = new Client2({ name: 'two', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new Transport2(new URL(gateway.origin + path)))
  onTestFinished(() => client.close())
  return client
}

async function sse(path: string): Promise<Client> {
  const client = new Client({ name: 'sse', version: '1' })
  await client.connect(new SSEClientTransport(new URL(gateway.origin + path.replace('/mcp', '/sse'))))
  onTestFinished(() => client.close())
  return client
}

const namesOf = async (client: Caller): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name)

/** The text of a result, or of the error in place of one. */
async function textOf(client: Caller, name: string, args: Json = {}, meta?: Json): Promise<string> {
  try {
    return JSON.stringify(
      await client.callTool({ name, arguments: { ...args }, ...(meta && { _meta: { ...meta } }) }),
    )
  } catch (error) {
    return String(error)
  }
}

const clients: [string, (path: string) => Promise<Caller>][] = [
  ['SDK 1 over Streamable HTTP', sdk1],
  ['SDK 1 over HTTP+SSE', sse],
  ['SDK 2 over Streamable HTTP', sdk2],
]

describe.each(clients)('a client with %s', (_name, open) => {
  test('finds the tools of a profile under their names there', async () => {
    const client = await open('/mcp/p/coding')
    const { tools } = await client.listTools()
    const names = tools.map(({ name }) => name)
    expect(names).toContain('read')
    expect(names).toContain('remember')
    expect(names).toContain('files_list_directory')
    expect(names.filter((name) => /write|move|read_text|graph|everything/.test(name))).toEqual([])
    expect(tools.find(({ name }) => name === 'read')?.description).toBe('Reads a text.')
    expect(await textOf(client, 'read', { path: join(folder, 'a.txt') })).toContain('hello')
    expect(await textOf(client, 'files_read_text_file', { path: join(folder, 'a.txt') })).toContain(
      'Unknown tool',
    )
  })

  test('cannot call what a profile does not list, whatever it calls it', async () => {
    const client = await open('/mcp/p/coding')
    const path = join(folder, 'b.txt')
    const names = [
      'files_write_file',
      'write_file',
      'gateway_write_file',
      'read_text_file',
      'graph_read_graph',
    ]
    for (const name of [...names, 'read_graph', 'everything_echo', 'echo', '', 'constructor'])
      expect(await textOf(client, name, { path, content: 'x', message: 'x' })).toMatch(/Unknown tool|-32602/)
    expect(existsSync(path)).toBe(false)
    const whole = await open('/mcp')
    expect(await textOf(whole, 'files_write_file', { path, content: 'x' })).not.toContain('Unknown tool')
    rmSync(path, { force: true })
  })

  test('finds a server that is alone in a profile under its own names', async () => {
    const client = await open('/mcp/p/notes')
    const names = await namesOf(client)
    expect(names).toContain('read_graph')
    expect(names.filter((name) => name.startsWith('delete_'))).toEqual([])
    expect(await textOf(client, 'delete_entities', { entityNames: ['x'] })).toContain('Unknown tool')
    expect(await textOf(client, 'graph_delete_entities', { entityNames: ['x'] })).toContain('Unknown tool')
    expect(await textOf(client, 'ai_help')).toContain('Unknown tool')
    expect(await textOf(client, 'read_graph')).toContain('entities')
  })
})

test('runs a call with one key once, by whichever profile and name it comes', async () => {
  const entities = [{ name: 'Ada', entityType: 'person', observations: ['keyed'] }]
  const meta = { 'dev.gatehouse/idempotency_key': 'one-effect-in-two-profiles' }
  const first = await textOf(await sdk1('/mcp/p/coding'), 'remember', { entities }, meta)
  const other = await textOf(await sdk2('/mcp/p/notes'), 'create_entities', { entities }, meta)
  expect(first).toContain('Ada')
  expect(other).toContain('Ada')
  expect(other).toMatch(/was_replay"?:true|replay/)
  expect(readFileSync(join(home, 'graph.jsonl'), 'utf8').match(/"Ada"/g)).toHaveLength(1)
})

test('logs a call with its profile, and with the name on its server', async () => {
  await textOf(await sdk1('/mcp/p/coding'), 'read', { path: join(folder, 'a.txt') })
  const line = gateway.lines.findLast(({ event, method }) => event === 'call' && method === 'tools/call')
  expect(line).toMatchObject({ profile: 'coding', upstream: 'files', name: 'read_text_file' })
})

test('limits the rate of calls by the URL of a profile alone', async () => {
  const client = await sdk1('/mcp/p/seldom')
  for (const expected of ['entities', 'entities', 'calls by this URL'])
    expect(await textOf(client, 'read_graph')).toContain(expected)
  expect(await textOf(await sdk1('/mcp/p/notes'), 'read_graph')).toContain('entities')
  expect(await textOf(await sdk1('/mcp'), 'graph_read_graph')).toContain('entities')
})

test('answers for a profile that does not exist as for such a server, and keeps sessions apart', async () => {
  for (const path of ['/mcp/p/none', '/mcp/p/', '/mcp/p/coding/x', '/mcp/p'])
    expect((await fetch(gateway.origin + path, { method: 'POST', body: '{}' })).status).toBe(404)
  const client = await connect({
    transport: 'http',
    url: `${gateway.origin}/mcp/p/coding`,
    revision: '2025-11-25',
  })
  onTestFinished(() => client.close())
  const { result } = await client.request('tools/list')
  expect(JSON.stringify(result)).toContain('"read"')
})

test('tells clients that the list has changed when another configuration is loaded', async () => {
  const client = await sdk1('/mcp/p/notes')
  let changes = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++)
  expect(await namesOf(client)).toContain('read_graph')
  onTestFinished(() => gateway.reload(config))
  await gateway.reload({ ...config, profiles: { notes: { servers: 'graph', show: ['search_nodes'] } } })
  await until(() => changes > 0, 'the list has changed')
  expect(await namesOf(client)).toEqual(['search_nodes'])
  expect(await textOf(client, 'read_graph')).toContain('Unknown tool')
  await gateway.reload({ ...config, profiles: {} })
  await expect(client.listTools()).rejects.toThrow(/no server|404/i)
})

test('does not call a tool that a profile hides by the short name that its server does not list', async () => {
  const ran: unknown[] = []
  const tools = ['deleteRepo', 'getRepo'].map((name) => ({ name, inputSchema: { type: 'object' } }))
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        ran.push(params['name'])
        return { content: [] }
      },
    },
  )
  onTestFinished(() => server.close())
  const local = await localGateway({
    upstreams: { github: server.url, other: server.url },
    profiles: { reading: { servers: ['github', 'other'], hide: ['github_deleteRepo'] } },
  })
  onTestFinished(() => local.close())
  const client = await connect({ transport: 'http', url: `${local.url}/p/reading`, revision: '2025-11-25' })
  onTestFinished(() => client.close())
  const names = ['github_deleteRepo', 'github_delete_repo', 'delete_repo']
  for (const name of names) {
    const { error } = await client.request('tools/call', { name, arguments: {} })
    expect(error?.message).toContain('Unknown tool')
  }
  await client.request('tools/call', { name: 'github_get_repo', arguments: {} })
  expect(ran).toEqual(['getRepo'])
})

test('finds the tools of a profile also where a provider gets other names of them', async () => {
  const tools = ['repo.delete', 'repo.get'].map((name) => ({ name, inputSchema: { type: 'object' } }))
  const server = await scriptedServer(
    { tools: {} },
    { 'tools/list': () => ({ tools }), 'tools/call': () => ({ content: [] }) },
  )
  onTestFinished(() => server.close())
  const github = { url: server.url, schemas: { for: 'openai' } }
  const servers = ['github', 'other']
  const local = await localGateway({
    upstreams: { github, other: server.url },
    profiles: {
      hiding: { servers, hide: ['github_repo.delete', 'other_*'] },
      showing: { servers, show: 'github_repo_get' },
      renaming: { servers, show: 'fetch', rename: { 'github_repo.get': 'fetch' } },
    },
  })
  onTestFinished(() => local.close())
  for (const [profile, name] of [
    ['hiding', 'github_repo_get'],
    ['showing', 'github_repo_get'],
    ['renaming', 'fetch'],
  ]) {
    const url = `${local.url}/p/${profile}`
    const client = await connect({ transport: 'http', url, revision: '2025-11-25' })
    onTestFinished(() => client.close())
    const { result } = await client.request('tools/list')
    expect(result?.['tools']).toMatchObject([{ name }])
    const called = await client.request('tools/call', { name, arguments: {} })
    expect(called.result).toEqual({ content: [] })
    const hidden = await client.request('tools/call', { name: 'github_repo_delete', arguments: {} })
    expect(JSON.stringify(hidden.error)).not.toContain('repo.delete')
  }
})
