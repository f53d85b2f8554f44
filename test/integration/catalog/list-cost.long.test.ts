import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type AnsweringServer, answeringServer, withLists } from '../../support/answering-server.ts'
import { startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

/**
 * What the tools of real servers cost a model, directly and through the gateway. Hosts give models the name, the description
 * and the input schema of a tool; the other members are for hosts. A token is about four characters of JSON.
 */
const TOKEN_LENGTH = 4
const MAX_COST = 0.05

/** Servers that run here, and lists of published servers, as they were recorded with most words replaced by shorter ones. */
const official = ['memory', 'everything', 'sequential-thinking', 'filesystem']
const recorded = [
  ...['fresh/firecrawl', 'fresh/monday', 'fresh/tavily', 'held-out/airtable', 'held-out/atlassian'],
  ...['held-out/circleci', 'held-out/cloudflare', 'fourth/netlify', 'fourth/kubernetes-manusa'],
]

type Tools = readonly Json[]

function clientOf(mode: 'legacy' | 'auto', name = 'Visual Studio Code'): Client {
  const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }
  return new Client({ name, version: '1.0.0' }, { capabilities, versionNegotiation: { mode } })
}

async function listed(client: Client): Promise<Tools> {
  const { tools } = await client.listTools()
  await client.close()
  return tools
}

function tokens(tools: Tools, members?: readonly string[]): number {
  const shown = tools.map((tool) =>
    Object.fromEntries(
      Object.entries(tool).filter(([key]) => (members ? members.includes(key) : key !== '_meta')),
    ),
  )
  return Math.round(JSON.stringify(shown).length / TOKEN_LENGTH)
}

const FOR_MODELS = ['name', 'description', 'inputSchema']
const percent = (before: number, after: number): string => `${((after / before - 1) * 100).toFixed(1)} %`

const direct = new Map<string, Tools>()
const upstreams: Record<string, Json> = {}
const servers: AnsweringServer[] = []

beforeAll(async () => {
  for (const name of official) {
    const more = name === 'filesystem' ? [import.meta.dirname] : []
    const [command = '', ...args] = publishedServer(`@modelcontextprotocol/server-${name}`, ...more)
    const client = clientOf('legacy')
    await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }))
    direct.set(name, await listed(client))
    upstreams[name] = { command, args }
  }
  for (const path of recorded) {
    const text = readFileSync(join(import.meta.dirname, `../../fixtures/judgement/${path}.json`), 'utf8')
    const { tools: labelled } = JSON.parse(text) as { tools: readonly { definition: Json }[] }
    const tools = labelled.map(({ definition }) => definition)
    const name = path.split('/')[1] ?? ''
    const server = await answeringServer(withLists({ 'tools/list': { tools } }))
    servers.push(server)
    direct.set(name, tools)
    upstreams[name] = { url: server.url }
  }
}, 60_000)
afterAll(async () => {
  for (const server of servers) await server.close()
})

describe.each(['legacy', 'auto'] as const)('what models read, for clients in the mode %s', (mode) => {
  it.each([
    ['the default settings', {}, ['Visual Studio Code']],
    [
      'repaired schemas',
      { schemas: 'repair' },
      ['claude-code', 'codex-mcp-client', 'gemini-cli-mcp-client', 'Visual Studio Code'],
    ],
  ] as const)(
    'grows by at most 5 percent with %s',
    { timeout: 120_000 },
    async (title, settings, clients) => {
      const gateway = await startGateway({ upstreams, ...settings })
      onTestFinished(() => gateway.close())
      for (const name of clients) {
        const listedAt = async (path: string): Promise<Tools> => {
          const client = clientOf(mode, name)
          await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.origin)))
          return listed(client)
        }
        const shared = await listedAt('/mcp')
        const rows: string[] = []
        for (const [server, given] of direct) {
          const own = await listedAt(`/mcp/${server}`)
          const names = new Set(own.map((tool) => tool['name']))
          // A server may have other tools for a gateway than for a client.
          const before = own.length < given.length ? given.filter((tool) => names.has(tool['name'])) : given
          const prefix = prefixOf(server)
          const together = shared.filter((tool) => String(tool['name']).startsWith(prefix))
          expect(together).toHaveLength(own.length)
          const [alone = 0, one = 0, all = 0] = [before, own, together].map((tools) =>
            tokens(tools, FOR_MODELS),
          )
          const costs = [
            percent(alone, one),
            percent(alone, all),
            percent(tokens(before), tokens(own)),
            percent(alone, tokens(own, ['_meta']) - tokens(before, ['_meta']) + alone),
          ]
          rows.push(`| ${[server, own.length, alone, ...costs].join(' | ')} |`)
          expect.soft(one, `${server} alone`).toBeLessThanOrEqual(alone * (1 + MAX_COST))
          expect.soft(all, `${server} at /mcp`).toBeLessThanOrEqual(alone * (1 + MAX_COST))
        }
        // The gateway lists no tools of its own.
        const prefixes = [...direct.keys()].map(prefixOf)
        const isOfServer = (tool: Json): boolean =>
          prefixes.some((each) => String(tool['name']).startsWith(each))
        expect(shared.filter((tool) => !isOfServer(tool))).toEqual([])
        const head =
          '| Server | Tools | Tokens | At `/mcp/NAME` | At `/mcp` | All members but `_meta` | `_meta` |'
        process.stdout.write(
          [`\n${title}, ${name}, ${mode}`, head, '|---|---|---|---|---|---|---|', ...rows, ''].join('\n'),
        )
      }
    },
  )
})

it(
  'with for_models, lists within the budget grow by at most 5 percent, and longer ones shrink',
  {
    timeout: 120_000,
  },
  async () => {
    const gateway = await startGateway({ upstreams, for_models: 'on' })
    onTestFinished(() => gateway.close())
    const paths = ['/mcp', ...[...direct.keys()].map((server) => `/mcp/${server}`)]
    for (const path of paths) {
      const client = clientOf('legacy', 'claude-code')
      await client.connect(new StreamableHTTPClientTransport(new URL(path, gateway.origin)))
      const own = await listed(client)
      const names = new Set(own.map((tool) => tool['name']))
      const isReplaced = names.has('search_tools')
      const alone = direct.get(path.slice('/mcp/'.length)) ?? [...direct.values()].flat()
      const before = isReplaced ? alone : alone.filter((tool) => names.has(tool['name']))
      const [was, is] = [tokens(before, FOR_MODELS), tokens(own, FOR_MODELS)]
      process.stdout.write(
        `for_models ${path}: ${alone.length} tools, ${was} tokens; ${own.length} tools, ${is} tokens\n`,
      )
      expect.soft(is, path).toBeLessThanOrEqual(was * (isReplaced ? MAX_COST : 1 + MAX_COST))
    }
  },
)

function prefixOf(server: string): string {
  return `${server.replaceAll('-', '_')}_`
}
