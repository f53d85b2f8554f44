import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { everythingOn, filesOfTheirOwner, memoryOfItsOwner } from '../../support/everything-on.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { sizeOfEach } from '../../support/scattered.ts'
import { pixel } from '../../support/server/content-tools.ts'
import type { Json } from '../../support/server/json.ts'

let folder = ''
let gateway: RunningGateway | undefined
const direct = new Map<Server, Client>()

type Server = 'files' | 'memory'

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'gatehouse-schemas-')))
  await writeFile(join(folder, 'a.txt'), 'text\n')
  await writeFile(join(folder, 'large.txt'), 'a line of text\n'.repeat(20_000))
  await writeFile(join(folder, 'dot.png'), Buffer.from(pixel, 'base64'))
  await mkdir(join(folder, 'inner'))
  const commands: Record<Server, readonly string[]> = {
    files: publishedServer('@modelcontextprotocol/server-filesystem', folder),
    memory: publishedServer('@modelcontextprotocol/server-memory'),
  }
  const env = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }
  gateway = await startGateway({
    store: 'memory',
    ...everythingOn,
    upstreams: {
      files: { command: commands.files, ...filesOfTheirOwner },
      memory: { command: commands.memory, env, ...memoryOfItsOwner },
    },
  })
  for (const name of ['files', 'memory'] as const) {
    const [command = '', ...args] = commands[name]
    const client = new Client({ name: 'direct', version: '1.0.0' })
    await client.connect(new StdioClientTransport({ command, args, env, stderr: 'ignore' }))
    direct.set(name, client)
  }
}, 60_000)
afterAll(async () => {
  for (const client of direct.values()) await client.close()
  await gateway?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Peer {
  listTools(): Promise<{ tools: { name: string; outputSchema?: unknown }[] }>
  callTool(params: { name: string; arguments: Json; _meta?: Json }): Promise<{
    [member: string]: unknown
  }>
  close(): Promise<void>
}

const accept = () => ({ action: 'accept' as const, content: { confirm: true } })

/** The official clients, without any code for the gateway. */
const kinds = [
  {
    title: 'SDK 1.x',
    connect: async (url: URL, capabilities: object): Promise<Peer> => {
      const client = new Client({ name: 'peer', version: '1.0.0' }, { capabilities })
      if ('elicitation' in capabilities) client.setRequestHandler(ElicitRequestSchema, accept)
      await client.connect(new StreamableHTTPClientTransport(url))
      return client
    },
  },
  ...(['legacy', 'auto', { pin: '2026-07-28' }] as const).map((mode) => ({
    title: `SDK 2.x (${JSON.stringify(mode)})`,
    connect: async (url: URL, capabilities: object): Promise<Peer> => {
      const client = new Client2(
        { name: 'peer', version: '1.0.0' },
        { capabilities, versionNegotiation: { mode } },
      )
      if ('elicitation' in capabilities) client.setRequestHandler('elicitation/create', accept)
      await client.connect(new Transport2(url))
      return client
    },
  })),
]

describe.each(kinds)('with all features on, a client of $title', ({ connect }) => {
  async function connected(path: string, capabilities = {}): Promise<Peer> {
    const client = await connect(new URL(`${gateway?.url ?? ''}${path}`), capabilities)
    // From the list the client knows which results to validate against which schema.
    const { tools } = await client.listTools()
    expect(tools.filter(({ outputSchema }) => outputSchema !== undefined).length).toBeGreaterThan(8)
    return client
  }

  test.each(['', '/memory'])('calls every tool of server-memory at /mcp%s', async (path) => {
    const client = await connected(path, { elicitation: {} })
    const prefix = path === '' ? 'memory_' : ''
    for (const [name, args] of memoryCalls) {
      const result = await client.callTool({ name: `${prefix}${name}`, arguments: args })
      expect([name, result['isError'] ?? false, result['structuredContent']]).toEqual([
        name,
        false,
        expect.any(Object),
      ])
    }
    expect(await missing('memory', memoryCalls)).toEqual([])
    const elsewhere = { 'dev.gatehouse/intent': 'find somebody' }
    const redirected = await client.callTool({ name: `${prefix}read_graph`, arguments: {}, _meta: elsewhere })
    expect(redirected).toMatchObject({ isError: true })
    await client.close()
  })

  test.each(['', '/files'])('gets valid results from server-filesystem at /mcp%s', async (path) => {
    const client = await connected(path, { elicitation: {} })
    const prefix = path === '' ? 'files_' : ''
    for (const [name, args] of readCalls()) {
      const result = await client.callTool({ name: `${prefix}${name}`, arguments: args })
      const { structuredContent, content } = Object(
        await direct.get('files')?.callTool({ name, arguments: args }),
      )
      expect([name, result['structuredContent']]).toEqual([name, structuredContent])
      // Additions of the gateway come after the content of the server.
      expect([name, result['content']]).toEqual([name, expect.arrayContaining(content)])
      expect([name, Object(result['content'])[0]]).toEqual([name, content[0]])
    }
    for (const [name, args] of writeCalls()) {
      const result = await client.callTool({ name: `${prefix}${name}`, arguments: args })
      expect([name, result['isError'] ?? false, result['structuredContent']]).toEqual([
        name,
        false,
        expect.any(Object),
      ])
    }
    expect(await missing('files', [...readCalls(), ...writeCalls()])).toEqual(['directory_tree'])
    await client.close()
  })

  test('reads refusals and truncated results as tool results', async () => {
    const client = await connected('/files')
    const call = (name: string, args: Json, _meta?: Json): Promise<Json> =>
      client.callTool({ name, arguments: args, ...(_meta && { _meta }) })
    const large = await call('read_text_file', { path: join(folder, 'large.txt') })
    expect(large).toMatchObject({ _meta: { 'dev.gatehouse/truncated': expect.anything() } })
    // The client has no elicitation.
    const path = join(folder, 'a.txt')
    const moved = await call('move_file', { source: path, destination: `${path}.moved` })
    expect(moved).toMatchObject({ isError: true })
    expect(await call('read_text_file', { path: join(folder, 'none') })).toMatchObject({ isError: true })
    expect(await call('read_text_file', {})).toMatchObject({ isError: true })
    const intent = { 'dev.gatehouse/intent': 'look into a folder', 'dev.gatehouse/receipt': true }
    expect(await call('read_text_file', { path }, intent)).toMatchObject({
      structuredContent: { content: 'text\n' },
      _meta: { 'dev.gatehouse/suggestion': { recommended_tool: 'list_directory' } },
    })
    const key = { 'dev.gatehouse/idempotency_key': 'a-key-of-a-directory' }
    const made = await call('create_directory', { path: join(folder, 'made') }, key)
    expect(
      (await call('create_directory', { path: join(folder, 'made') }, key))['structuredContent'],
    ).toEqual(made['structuredContent'])
    expect(await call('create_directory', { path: folder }, key)).toMatchObject({ isError: true })
    // Each gateway counts rates, with a store folder: one of them gets a second call.
    const tree = (): Promise<unknown> => call('directory_tree', { path: folder }).catch(String)
    const ends = await Promise.all(Array.from({ length: sizeOfEach() + 1 }, tree))
    expect(ends).toContainEqual(expect.stringContaining('RATE_LIMIT_EXCEEDED'))
    await client.close()
  })

  test('calls the built-in tools, which have output schemas too', async () => {
    const client = await connected('')
    const id = `a-transaction-${randomUUID()}`
    for (const [name, args] of [
      ['get_manifest', {}],
      ['ai_help', {}],
      ['recommend_servers', { capability_needed: 'wiki' }],
      ['check_permissions', { tool: 'files_read_text_file' }],
      ['negotiate_scopes', { requested_scopes: ['read:files'] }],
      ['begin_transaction', { transaction_id: id }],
      ['get_transaction', { transaction_id: id }],
      ['commit_transaction', { transaction_id: id }],
    ] as const) {
      const result = await client.callTool({ name, arguments: args })
      expect([name, result['isError'] ?? false]).toEqual([name, false])
    }
    await client.close()
  })
})

type Made = readonly [name: string, args: Json]

const ada = { name: 'Ada', entityType: 'person', observations: ['counts'] }
const relation = { from: 'Ada', to: 'Ada', relationType: 'is' }
const memoryCalls: readonly Made[] = [
  ['create_entities', { entities: [ada] }],
  ['create_relations', { relations: [relation] }],
  ['add_observations', { observations: [{ entityName: 'Ada', contents: ['plays'] }] }],
  ['read_graph', {}],
  ['search_nodes', { query: 'Ada' }],
  ['open_nodes', { names: ['Ada'] }],
  ['delete_observations', { deletions: [{ entityName: 'Ada', observations: ['plays'] }] }],
  ['delete_relations', { relations: [relation] }],
  ['delete_entities', { entityNames: ['Ada'] }],
]

function readCalls(): readonly Made[] {
  const path = join(folder, 'a.txt')
  return [
    ['read_file', { path }],
    ['read_text_file', { path, head: 1 }],
    ['read_media_file', { path: join(folder, 'dot.png') }],
    ['read_multiple_files', { paths: [path] }],
    ['list_directory', { path: folder }],
    ['list_directory_with_sizes', { path: join(folder, 'inner') }],
    ['search_files', { path: folder, pattern: '*.txt' }],
    ['get_file_info', { path }],
    ['list_allowed_directories', {}],
  ]
}

function writeCalls(): readonly Made[] {
  const path = join(folder, 'written.txt')
  return [
    ['create_directory', { path: join(folder, 'inner') }],
    ['write_file', { path, content: 'one\n' }],
    ['edit_file', { path, edits: [{ oldText: 'one', newText: 'two' }] }],
    ['move_file', { source: path, destination: join(folder, `${randomUUID()}.moved`) }],
  ]
}

/** The tools of a server that these calls do not cover. */
async function missing(server: Server, calls: readonly Made[]): Promise<string[]> {
  const { tools } = (await direct.get(server)?.listTools()) ?? { tools: [] }
  const called = new Set(calls.map(([name]) => name))
  return tools.map(({ name }) => name).filter((name) => !called.has(name))
}
