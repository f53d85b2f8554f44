import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  createRanking,
  type Ranking,
  type DescribedTool,
  describedTool,
} from '../../../src/core/text/ranking.ts'
import { inRepository } from '../../support/document.ts'
import { foreignFile } from '../../support/foreign.ts'

/** An intent for the tools of all servers, and the right tools for it. */
interface Wish {
  readonly intent: string
  readonly server: string
  readonly tools: readonly string[]
}

const own = (path: string): string => inRepository(`node_modules/@modelcontextprotocol/${path}`)
const servers = {
  everything: [own('server-everything/dist/index.js'), 'stdio'],
  filesystem: [own('server-filesystem/dist/index.js'), '/tmp'],
  memory: [own('server-memory/dist/index.js')],
  playwright: [foreignFile('@playwright/mcp/cli.js')],
  notion: [foreignFile('@notionhq/notion-mcp-server/bin/cli.mjs')],
} as const

// Both halves were written from the tools' documentation; the ranking was only ever fitted to the first.
const tuning = wishes('tuning')
const heldOut = wishes('held-out')
let ranking: Ranking<DescribedTool>
let listed: readonly DescribedTool[]

beforeAll(async () => {
  const all = await Promise.all(Object.keys(servers).map((name) => toolsOf(name as keyof typeof servers)))
  listed = all.flat()
  ranking = createRanking(listed)
}, 120_000)

describe('tool retrieval by intent', () => {
  test('is tested on the tools of five servers, with equally many intents each', () => {
    const both = [...tuning, ...heldOut]
    expect(new Set(both.map(({ intent }) => intent)).size).toBe(60)
    for (const name of Object.keys(servers)) {
      const there = listed.filter(({ entry }) => entry.upstream === name).map((each) => each.name)
      const own = both.filter(({ server }) => server === name)
      expect(own).toHaveLength(12)
      expect(there).toEqual(expect.arrayContaining(own.flatMap(({ tools }) => tools)))
      // No intent contains the name of its tool.
      for (const { intent, tools } of own) {
        const said = tools.filter((tool) => tool.length > 8 && intent.includes(tool))
        expect(said).toEqual([])
      }
    }
  })

  test.each([
    ['all 60 intents', () => [...tuning, ...heldOut]],
    ['the 30 held-out intents', () => heldOut],
  ])('ranks the right tool first for 8 in 10 intents, and in the top three for 19 in 20: %s', (_, select) => {
    const wanted = select()
    const places = wanted.map((wish) => ({ ...wish, place: placeOf(wish) }))
    const first = places.filter(({ place }) => place === 0).length
    const near = places.filter(({ place }) => place < 3).length
    const missed = places
      .filter(({ place }) => place > 0)
      .map(({ intent, place }) => `${place + 1}: ${intent}`)
    expect({ first, near, missed }).toSatisfy(
      () => first / wanted.length >= 0.8 && near / wanted.length >= 0.95,
    )
  })
})

function placeOf({ intent, server, tools }: Wish): number {
  const place = ranking
    .rank(intent)
    .findIndex(({ of }) => of.entry.upstream === server && tools.includes(of.entry.name))
  return place === -1 ? Infinity : place
}

async function toolsOf(server: keyof typeof servers): Promise<DescribedTool[]> {
  const [path, ...args] = servers[server]
  const client = new Client({ name: 'lister', version: '1.0.0' }, { capabilities: {} })
  const env = { PATH: process.env['PATH'] ?? '', NOTION_TOKEN: 'ntn_of_nobody' }
  const command = { command: process.execPath, args: [path, ...args], env, stderr: 'ignore' }
  await client.connect(new StdioClientTransport({ ...command, stderr: 'ignore' }))
  try {
    const { tools } = await client.listTools()
    const classification = { op: 'read', risk: 'safe', idempotent: true, evidence: [] } as const
    return tools.map((definition) =>
      describedTool({
        upstream: server,
        kind: 'tool',
        name: definition.name,
        definition,
        classification: classification,
      }),
    )
  } finally {
    await client.close()
  }
}

function wishes(half: string): readonly Wish[] {
  const file = fileURLToPath(new URL(`../../fixtures/intents/${half}.json`, import.meta.url))
  return JSON.parse(readFileSync(file, 'utf8')) as Wish[]
}
