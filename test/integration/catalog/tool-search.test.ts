// Lists of tools over their budget, which clients get as `search_tools` and `call_tool`.
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type AnsweringServer, answeringServer, withLists } from '../../support/answering-server.ts'
import { connect } from '../../support/fake-client.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

const home = realpathSync(mkdtempSync(join(tmpdir(), 'tool-search-')))
const folder = join(home, 'files')
/** The calls that the large server got. */
const called: Json[] = []
let large: AnsweringServer
let odd: AnsweringServer
let gateway: LocalGateway

const inputSchema = {
  type: 'object',
  properties: { id: { type: 'integer' }, text: { type: ['string', 'null'] } },
}
const kinds = ['invoice', 'ticket', 'customer', 'shipment', 'contract']
const fiveHundred = Array.from({ length: 500 }, (_, index) => ({
  name: `tool_${index}_${kinds[index % 5]}`,
  description: `Works with ${kinds[index % 5]} number ${index} of the archive.`,
  inputSchema,
  annotations: { readOnlyHint: index !== 7, destructiveHint: index === 7 },
}))

beforeAll(async () => {
  mkdirSync(folder)
  writeFileSync(join(folder, 'a.txt'), 'hello')
  large = await answeringServer((method, params) => {
    if (method === 'initialize')
      return {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'large', version: '1' },
      }
    if (method === 'tools/list') return { tools: fiveHundred }
    if (method !== 'tools/call') return undefined
    called.push(params)
    return { content: [{ type: 'text', text: `ran ${String(params['name'])}` }] }
  })
  const list = { type: 'object', properties: { all: { type: 'array' } } }
  odd = await answeringServer(withLists({ 'tools/list': { tools: [{ name: 'take', inputSchema: list }] } }))
  gateway = await localGateway({
    profiles: {
      all: { budget: 2000, always: ['files_read_text_file'] },
      large: { servers: 'large', budget: 2000 },
      small: { servers: 'files', budget: 100_000 },
      searched: {
        servers: ['files', 'graph'],
        search: 'always',
        hide: ['files_write_file'],
        rename: { files_edit_file: 'edit' },
      },
      off: { servers: 'large', search: 'off' },
      models: { servers: ['large', 'odd'], for_models: true },
    },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', folder),
        trust: true,
        tools: { move_file: { confirm: 'Move {source}?' } },
      },
      graph: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
      },
      everything: { command: publishedServer('@modelcontextprotocol/server-everything') },
      large: { url: large.url, trust: true },
      odd: { url: odd.url },
    },
  })
})

afterAll(async () => {
  await Promise.all([gateway.close(), large.close(), odd.close()])
  rmSync(home, { recursive: true })
})

async function sdk1(profile: string, options: Json = {}): Promise<Client> {
  const client = new Client({ name: 'one', version: '1' }, options)
  await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway.origin}/mcp/p/${profile}`)))
  onTestFinished(() => client.close())
  return client
}

async function sdk2(profile: string): Promise<Client2> {
  const client = new Client2({ name: 'two', version: '1' }, { versionNegotiation: { mode: 'auto' } })
  await client.connect(new Transport2(new URL(`${gateway.origin}/mcp/p/${profile}`)))
  onTestFinished(() => client.close())
  return client
}

async function raw(profile: string, revision: '2025-11-25' | '2026-07-28' = '2025-11-25') {
  const url = `${gateway.origin}/mcp/p/${profile}`
  const client = await connect({ transport: 'http', url, revision })
  onTestFinished(() => client.close())
  return client
}

const textIn = (result: unknown): string => {
  const { content } = result as { content: { text: string }[] }
  return content.map(({ text }) => text).join('')
}

test.each([
  ['SDK 1', sdk1],
  ['SDK 2', sdk2],
] as const)('a client with %s finds one of hundreds of tools, and calls it', async (_name, open) => {
  const client = await open('all')
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toEqual(['search_tools', 'call_tool', 'files_read_text_file'])
  expect(tools[0]?.description).toMatch(/There are 5\d\d tools to find/)
  expect(tools[1]?.annotations).toMatchObject({ destructiveHint: true, openWorldHint: true })
  const found = JSON.parse(
    textIn(await client.callTool({ name: 'search_tools', arguments: { query: 'invoice number 45' } })),
  ) as { tools: Json[] }
  expect(found.tools).toHaveLength(5)
  expect(found.tools[0]).toEqual({
    name: 'large_tool_45_invoice',
    description: fiveHundred[45]?.description,
    inputSchema,
  })
  const exact = textIn(
    await client.callTool({ name: 'search_tools', arguments: { query: 'Files_Get_File_Info', limit: 1 } }),
  )
  expect(exact).toContain('"name":"files_get_file_info"')
  const args = { name: 'large_tool_45_invoice', arguments: { id: 1 } }
  expect(textIn(await client.callTool({ name: 'call_tool', arguments: args }))).toBe('ran tool_45_invoice')
  const line = gateway.lines.findLast(({ method }) => method === 'tools/call')
  expect(line).toMatchObject({ upstream: 'large', name: 'tool_45_invoice', profile: 'all' })
  const path = join(folder, 'a.txt')
  expect(textIn(await client.callTool({ name: 'files_read_text_file', arguments: { path } }))).toBe('hello')
})

test('lists all tools within the budget, and where the search is off', async () => {
  const names = async (profile: string): Promise<string[]> =>
    (await (await sdk1(profile)).listTools()).tools.map(({ name }) => name)
  expect(await names('small')).toContain('read_text_file')
  expect(await names('small')).not.toContain('search_tools')
  expect(await names('off')).toHaveLength(500)
  const { text } = await (await raw('off')).request('tools/call', { name: 'call_tool', arguments: {} })
  expect(text).toContain('Unknown tool')
})

test('lists a profile for models within its budget, with schemas that providers take', async () => {
  const client = await raw('models')
  const { result = {} } = await client.request('tools/list')
  expect((result['tools'] as Json[]).map(({ name }) => name)).toEqual(['search_tools', 'call_tool'])
  const found = await client.request('tools/call', {
    name: 'search_tools',
    arguments: { query: 'odd_take' },
  })
  expect(textIn(found.result)).toContain('"all":{"type":"array","items":{}}')
  const all = await raw('all')
  const kept = await all.request('tools/call', { name: 'search_tools', arguments: { query: 'odd_take' } })
  expect(textIn(kept.result)).toContain('"all":{"type":"array"}')
})

test('keeps the arguments of a call as they were sent', async () => {
  const client = await raw('large')
  const exact = '{"id":9007199254740993,"text":null}'
  const params = { name: 'call_tool', arguments: { name: 'tool_1_ticket', arguments: null } }
  called.length = 0
  const url = `${gateway.origin}/mcp/p/large`
  const session = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
    }),
  })
  const id = session.headers.get('mcp-session-id') ?? ''
  await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-session-id': id,
    },
    body: `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"call_tool","arguments":{"name":"tool_1_ticket","arguments":${exact}}}}`,
  }).then((response) => response.text())
  const sent = Object(called[0]?.['arguments']) as Json
  expect(String(sent['id'])).toBe('9007199254740993')
  expect(sent['text']).toBeNull()
  const direct = await client.request('tools/call', { name: 'tool_1_ticket', arguments: null })
  expect((await client.request('tools/call', params)).result).toEqual(direct.result)
})

test('says what is wrong with a call of call_tool, and which tool is unknown', async () => {
  const client = await raw('large')
  const call = async (args: unknown): Promise<string> =>
    (await client.request('tools/call', { name: 'call_tool', arguments: args })).text
  called.length = 0
  expect(await call({ name: 'call_tool', arguments: { name: 'tool_1_ticket' } })).toContain('another tool')
  expect(await call({ name: 'gateway_call_tool' })).toContain('another tool')
  expect(await call({ name: 'no_such_tool', arguments: {} })).toContain('Unknown tool: no_such_tool')
  expect(await call({ name: 'tool_1_ticket', id: 1 })).toContain('put the arguments of the tool')
  for (const args of [{}, null, [], 'x', { name: null }, { name: 7 }, { name: '' }])
    expect(await call(args)).toMatch(/must be|name/)
  expect(called).toEqual([])
  const search = async (args: unknown): Promise<string> =>
    (await client.request('tools/call', { name: 'search_tools', arguments: args })).text
  expect(await search({ query: 'zzz \ud800 <b>\u202e' })).toContain('No tool matches')
  for (const args of [
    {},
    null,
    { query: null },
    { query: ' ' },
    { query: 'x', limit: null },
    { query: 'x', limit: 0 },
  ])
    expect(await search(args)).toMatch(/must|required/)
})

test('confirms the tool that call_tool calls, and names it in the question', async () => {
  const from = join(folder, 'from.txt')
  writeFileSync(from, 'x')
  const client = await sdk1('searched', { capabilities: { elicitation: {} } })
  const questions: string[] = []
  let answer: 'accept' | 'decline' = 'decline'
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    questions.push(params.message)
    return answer === 'accept' ? { action: 'accept', content: { confirm: true } } : { action: 'decline' }
  })
  const args = { name: 'files_move_file', arguments: { source: from, destination: join(folder, 'to.txt') } }
  const call = (): Promise<string> =>
    client.callTool({ name: 'call_tool', arguments: args }).then(textIn, String)
  expect(await call()).not.toContain('Successfully')
  expect(existsSync(from)).toBe(true)
  answer = 'accept'
  expect(await call()).toContain('Successfully')
  expect(existsSync(from)).toBe(false)
  expect(questions).toHaveLength(2)
  expect(questions[0]).toContain(`Move ${from}?`)
  expect(questions[0]).not.toContain('call_tool')
})

test('keeps keys and dry runs of a call, and calls nothing that the profile hides', async () => {
  const client = await raw('searched', '2026-07-28')
  const call = async (name: string, args: Json, meta: Json = {}): Promise<string> =>
    (
      await client.request('tools/call', {
        name: 'call_tool',
        arguments: { name, arguments: args },
        _meta: meta,
      })
    ).text
  const entities = [{ name: 'Ada', entityType: 'person', observations: [] }]
  const key = { 'dev.gatehouse/idempotency_key': 'keyed-through-call-tool' }
  expect(await call('graph_create_entities', { entities }, key)).toContain('Ada')
  expect(await call('graph_create_entities', { entities }, key)).toContain('Ada')
  expect(await call('graph_create_entities', { entities: [] }, key)).toMatch(/key/i)
  const dry = { 'dev.gatehouse/dry_run': true }
  const path = join(folder, 'dry.txt')
  expect(await call('files_create_directory', { path }, dry)).toContain('create_directory')
  expect(existsSync(path)).toBe(false)
  for (const name of ['files_write_file', 'write_file', 'files_edit_file', 'everything_echo'])
    expect(await call(name, { path, content: 'x' })).toContain('Unknown tool')
  const { result } = await client.request('tools/call', {
    name: 'search_tools',
    arguments: { query: 'write edit file', limit: 20 },
  })
  expect(textIn(result)).toContain('"name":"edit"')
  expect(textIn(result)).not.toMatch(/files_write_file"|files_edit_file"/)
})
