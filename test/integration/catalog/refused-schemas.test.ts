import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { repairedTool } from '../../../src/protocol/schema-repair.ts'
import { answeringServer, type AnsweringServer, withLists } from '../../support/answering-server.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { brokenLists } from '../../support/broken-lists.ts'
import { refusalsOf, refusedSchemas, subsetRefusals } from '../../support/refused-schemas.ts'
import type { Json } from '../../support/server/json.ts'

const good = { name: 'good', inputSchema: { type: 'object', properties: { n: { type: 'integer' } } } }
const all = Object.entries(refusedSchemas)
const tools = [...all.map(([, { schema }], index) => ({ name: `bad_${index}`, inputSchema: schema })), good]
const listed = all.flatMap(([, { leftOut }], index) => (leftOut ? [] : [`bad_${index}`]))

interface Operation {
  readonly op: string
  readonly path: string
  readonly value?: unknown
}
interface Fix {
  readonly tool: string
  readonly patch?: readonly Operation[]
}

/** Applies an operation of a JSON Patch on objects. */
function apply(entry: Json, { op, path, value }: Operation): void {
  const keys = path
    .slice(1)
    .split('/')
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
  const last = keys.pop() ?? ''
  const parent = keys.reduce<Record<string, unknown>>((at, key) => at[key] as Record<string, unknown>, entry)
  if (op === 'remove') delete parent[last]
  else parent[last] = value
}

/** A server over stdio with the same list. */
const program = `
const results = {
  initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } },
  'tools/list': { tools: ${JSON.stringify(tools)} },
  'tools/call': { content: [{ type: 'text', text: 'done' }] },
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  const body = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'Method not found' } }
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
})`

let remote: AnsweringServer
let gateway: RunningGateway
const local = { command: process.execPath, args: ['-e', program] }

beforeAll(async () => {
  remote = await answeringServer(withLists({ 'tools/list': { tools } }))
  const upstreams = {
    http: { url: remote.url },
    stdio: local,
    kept: { url: remote.url, schemas: 'keep' },
  }
  gateway = await startGateway({ schemas: 'repair', features: { confirm: 'off' }, upstreams })
})
afterAll(async () => {
  await gateway.close()
  await remote.close()
})

async function clientOf(path: string, mode: 'legacy' | 'auto', name = 'client'): Promise<Client> {
  const client = new Client({ name, version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.origin)))
  return client
}

describe.each(['http', 'stdio'])('a server over %s with schemas that providers refuse', (server) => {
  it.each(['legacy', 'auto'] as const)(
    'is listed as every provider takes it, to a client in the mode %s',
    async (mode) => {
      const client = await clientOf(`/mcp/${server}`, mode)
      const found = (await client.listTools()).tools
      const names = found.map(({ name }) => name)
      expect(names.filter((name) => name.startsWith('bad'))).toEqual(listed)
      expect(found.flatMap(({ inputSchema }) => refusalsOf(inputSchema))).toEqual([])
      expect(found.find(({ name }) => name === 'good')?.inputSchema).toEqual(good.inputSchema)
      await client.close()
    },
  )
})

it('all servers together are listed as every provider takes them', async () => {
  const client = await clientOf('/mcp', 'legacy')
  const found = (await client.listTools()).tools.filter(({ name }) => /^(http|stdio)_/.test(name))
  expect(found).toHaveLength(2 * (listed.length + 1))
  expect(found.flatMap(({ inputSchema }) => refusalsOf(inputSchema))).toEqual([])
  await client.close()
})

it('calls are made with the arguments of the original schema', async () => {
  const client = await clientOf('/mcp/stdio', 'legacy')
  const index = Object.keys(refusedSchemas).indexOf('an argument with brackets')
  const { content } = await client.callTool({ name: `bad_${index}`, arguments: { 'filter[id]': 'a' } })
  expect(content).toEqual([{ type: 'text', text: 'done' }])
  await client.close()
})

describe.each(['legacy', 'auto'] as const)(
  'a server with forty broken lists in one, in the mode %s',
  (mode) => {
    const calls: unknown[] = []
    let server: AnsweringServer
    let own: RunningGateway
    const texts = brokenLists.map(([, text], index) => text.replaceAll('"bad"', `"bad_${index}"`))
    const entries: unknown = JSON.parse(`[${texts.join(',')}]`)
    beforeAll(async () => {
      const lists = withLists({ 'tools/list': { tools: [...(entries as unknown[]), good] } })
      server = await answeringServer((method, params) => {
        if (method === 'tools/call') calls.push({ name: params['name'], arguments: params['arguments'] })
        return lists(method, params)
      })
      const upstreams = {
        odd: { url: server.url },
        kept: { url: server.url, schemas: 'keep' },
        fixed: { url: server.url, schemas: { for: 'gemini' } },
      }
      own = await startGateway({
        schemas: 'repair',
        features: { confirm: 'off', validate: 'off' },
        upstreams,
      })
    })
    afterAll(async () => {
      await own.close()
      await server.close()
    })

    const toolsOf = async (
      path: string,
      name: string,
    ): Promise<Awaited<ReturnType<Client['listTools']>>['tools']> => {
      const client = await clientOf(new URL(path, own.origin).href, mode, name)
      const { tools: found } = await client.listTools()
      await client.close()
      return found
    }

    it.each([
      ['claude-code', '/mcp/odd', false],
      ['codex-mcp-client', '/mcp/odd', false],
      ['gemini-cli-mcp-client', '/mcp/odd', 'gemini'],
      ['Visual Studio Code', '/mcp/odd', 'any'],
      ['Visual Studio Code', '/mcp/fixed', 'gemini'],
    ] as const)('%s gets the tools at %s as its provider takes them', async (name, path, subset) => {
      const found = await toolsOf(path, name)
      expect(found.find((each) => each.name === 'good')?.inputSchema).toEqual(good.inputSchema)
      expect(found.length).toBeGreaterThan(30)
      expect(found.filter((each) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(each.name))).toEqual([])
      for (const { inputSchema } of found)
        expect(subset ? subsetRefusals(inputSchema, subset === 'any') : refusalsOf(inputSchema, /^/)).toEqual(
          [],
        )
    })

    it('calls by listed names reach the server with its own name, and the arguments as sent', async () => {
      for (const [path, prefix] of [
        ['/mcp/odd', ''],
        ['/mcp', 'odd_'],
      ] as const) {
        const client = await clientOf(new URL(path, own.origin).href, mode, 'Visual Studio Code')
        const all = (await client.listTools()).tools.map(({ name }) => name)
        const listed = all.filter((name) => path === '/mcp/odd' || name.startsWith('odd_'))
        const given = { 'filter[id]': 'a', deep: [{ n: 1 }] }
        for (const [name, own] of [
          ['my_tool', 'my tool'],
          ['x_2nd_tool', '2nd/tool'],
          ['a_b', 'a_b'],
        ] as const) {
          expect(listed).toContain(`${prefix}${name}`)
          calls.length = 0
          await client.callTool({ name: `${prefix}${name}`, arguments: given })
          expect(calls).toEqual([{ name: own, arguments: given }])
        }
        calls.length = 0
        for (const name of listed) await client.callTool({ name, arguments: given })
        expect(calls).toHaveLength(listed.length)
        expect(calls.every((each) => isDeepStrictEqual((each as Json)['arguments'], given))).toBe(true)
        const twins = listed.filter((each) => /^(?:odd_)?a_b_[0-9a-f]{8}$/.test(each))
        calls.length = 0
        for (const name of twins) await client.callTool({ name, arguments: {} })
        expect(calls.map((each) => (each as Json)['name'])).toEqual(['a.b', 'a b'])
        await client.close()
      }
    })

    it('schemas: keep lists the tools with the names and schemas of the server', async () => {
      const found = await toolsOf('/mcp/kept', 'Visual Studio Code')
      expect(found.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['my tool', '2nd/tool', 'a.b', 'good']),
      )
    })
  },
)

it('schemas: keep lists what the server says', async () => {
  const client = await clientOf('/mcp/kept', 'auto')
  const found = new Map((await client.listTools()).tools.map(({ name, inputSchema }) => [name, inputSchema]))
  expect(found.get('bad_0')).toEqual(tools[0]?.inputSchema)
  await client.close()
})

it('what is left out is in the log and in the output of check, with a pointer to the cause', async () => {
  const lines = gateway
    .log()
    .filter(({ event, upstream }) => event === 'upstream.invalid' && upstream === 'stdio')
  expect(lines).toContainEqual(
    expect.objectContaining({ method: 'tools/list', pointer: '/inputSchema/oneOf' }),
  )
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify({ schemas: 'repair', upstreams: { stdio: local } }))
  const { stdout } = await runCommand(['check', '--config', path])
  expect(stdout).toMatch(/^ {2}tools\/list: bad_\d+: .* the entry is left out \(\/inputSchema\/oneOf\)$/m)
})

it('lint --fix prints for each tool the JSON Patch that makes its schema one that providers take', async () => {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify({ schemas: 'repair', upstreams: { stdio: local } }))
  const { stdout, code } = await runCommand(['lint', 'stdio', '--fix', '--json', '--config', path])
  expect(code).toBe(0)
  const fixes = (JSON.parse(stdout) as { tools: Fix[] }).tools
  expect(fixes.map(({ tool }) => tool)).toEqual(tools.slice(0, -1).map(({ name }) => name))
  expect(fixes.filter(({ patch }) => patch).map(({ tool }) => tool)).toEqual(listed)
  for (const { tool, patch } of fixes.filter((each) => each.patch)) {
    const entry = structuredClone(tools.find(({ name }) => name === tool)) as Json
    for (const each of patch ?? []) apply(entry, each)
    expect(refusalsOf(entry['inputSchema'])).toEqual([])
  }
  const text = await runCommand(['lint', 'stdio', '--fix', '--config', path])
  expect(text.stdout).toContain('"path": "/inputSchema/properties/a/items"')
})

it('lint --for gemini prints the patches by the rules of Gemini', async () => {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify({ upstreams: { stdio: local } }))
  const { stdout, code } = await runCommand(['lint', 'stdio', '--for', 'gemini', '--json', '--config', path])
  expect(code).toBe(0)
  const fixes = (JSON.parse(stdout) as { tools: Fix[] }).tools
  expect(fixes.map(({ tool }) => tool)).toEqual(tools.slice(0, -1).map(({ name }) => name))
  for (const { tool, patch } of fixes.filter((each) => each.patch)) {
    const entry = structuredClone(tools.find(({ name }) => name === tool)) as Json
    for (const each of patch ?? []) apply(entry, each)
    expect(subsetRefusals(entry['inputSchema'], false)).toEqual([])
  }
})

it('of servers with nothing wrong, each entry stays as it is', async () => {
  const command = (name: string, ...more: string[]): object => {
    const [program = '', ...args] = publishedServer(`@modelcontextprotocol/server-${name}`, ...more)
    return { command: program, args, schemas: 'keep' }
  }
  const files = folder()
  const own = await startGateway({
    upstreams: {
      memory: command('memory'),
      everything: command('everything'),
      thinking: command('sequential-thinking'),
      files: command('filesystem', files),
    },
  })
  const client = new Client({ name: 'client', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', own.origin)))
  const found = (await client.listTools()).tools
  await client.close()
  await own.close()
  expect(found.length).toBeGreaterThan(30)
  for (const each of found) {
    const tool = Payload.text(JSON.stringify(each))
    expect(repairedTool(tool)).toEqual({ tool, changes: [] })
    expect(repairedTool(tool).tool).toBe(tool)
  }
})
