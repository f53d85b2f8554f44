import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { undescribed } from '../../support/undescribed.ts'
import { alone } from '../../support/scattered.ts'
import { type Asked, scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const lists = [
  ['tools/list', 'tools', (n: number) => ({ name: `tool_${n}`, inputSchema: { type: 'object' } })],
  ['prompts/list', 'prompts', (n: number) => ({ name: `prompt_${n}` })],
  ['resources/list', 'resources', (n: number) => ({ uri: `it://${n}`, name: `resource_${n}` })],
  [
    'resources/templates/list',
    'resourceTemplates',
    (n: number) => ({ uriTemplate: `it://${n}/{id}`, name: `template_${n}` }),
  ],
] as const

const capabilities = { tools: {}, prompts: {}, resources: {} }
const SIZE = 250
const COUNT = 60

/** Returns all entries at once, in a different order each time. */
let huge: ScriptedServer
/** Returns its entries in pages of 7. */
let paged: ScriptedServer
/** Returns the same cursor every time. */
let endless: ScriptedServer
let gateway: LocalGateway
let strict: LocalGateway
const clients: FakeClient[] = []
beforeAll(async () => {
  let turns = 0
  const scripts = (answer: (asked: Asked, member: string, entries: Json[]) => Json, count: number) =>
    Object.fromEntries(
      lists.map(([method, member, entry]) => {
        const entries = Array.from({ length: count }, (_each, index): Json => entry(index))
        return [method, (asked: Asked) => answer(asked, member, entries)]
      }),
    )
  huge = await scriptedServer(
    capabilities,
    scripts((_asked, member, entries) => {
      const turn = turns++ % entries.length
      return { [member]: [...entries.slice(turn), ...entries.slice(0, turn)] }
    }, SIZE),
  )
  paged = await scriptedServer(
    capabilities,
    scripts(({ params }, member, entries) => {
      const start = Number(params['cursor'] ?? 0)
      const next = start + 7 < entries.length ? { nextCursor: String(start + 7) } : {}
      return { [member]: entries.slice(start, start + 7), ...next }
    }, COUNT),
  )
  endless = await scriptedServer(
    capabilities,
    scripts((_asked, member, entries) => ({ [member]: entries, nextCursor: 'again' }), 3),
  )
  const upstreams = { huge: huge.url, paged: paged.url, endless: endless.url }
  gateway = await localGateway({ upstreams, features: undescribed })
  strict = await localGateway({ ...corporate, limits: { rate: 'off' }, upstreams, features: undescribed })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await Promise.all([gateway.close(), strict.close()])
  await Promise.all([huge.close(), paged.close(), endless.close()])
})

async function clientOf(
  to: LocalGateway,
  path: string,
  revision: '2025-11-25' | '2026-07-28',
): Promise<FakeClient> {
  const client = await connect({ transport: 'http', url: to.url + path, revision, headers: caller })
  clients.push(client)
  return client
}

/** Every page of a list. */
async function pagesOf(client: FakeClient, method: string, member: string): Promise<Json[][]> {
  const pages: Json[][] = []
  let cursor: unknown
  do {
    const { result } = await client.request(method, cursor === undefined ? {} : { cursor })
    const entries = result?.[member]
    pages.push(Array.isArray(entries) ? entries.filter(isObject) : [])
    cursor = result?.['nextCursor']
  } while (cursor !== undefined && pages.length < 100)
  return pages
}

function keysOf(entries: readonly Json[]): string[] {
  return entries.map(({ name, uri, uriTemplate }) => String(uri ?? uriTemplate ?? name))
}

describe.each(['2025-11-25', '2026-07-28'] as const)('to a client of %s', (revision) => {
  it.each(lists)(
    'C102 C105 a large response to %s is paginated, in a stable order',
    async (method, member) => {
      alone('each gateway has a cache of lists, and the order of the server is another one each time')
      const client = await clientOf(strict, '/huge', revision)
      const before = huge.seen.length
      const pages = await pagesOf(client, method, member)
      expect(pages.map(({ length }) => length)).toEqual([100, 100, 50])
      const keys = keysOf(pages.flat())
      expect(new Set(keys).size).toBe(SIZE)
      // The order of the server's one response: the first is followed by the second and the last by the first.
      const asked = huge.seen.slice(before).filter((each) => each['method'] === method)
      // All pages come from one response; the gateway may request the list once itself, to describe it.
      expect([1, 2]).toContain(asked.length)
      const numbers = keys.map((key) => Number(/\d+/.exec(key)?.[0]))
      numbers.forEach((number, index) => {
        if (index > 0) expect(number).toBe((Number(numbers[index - 1]) + 1) % SIZE)
      })
    },
  )

  it("C103 a list takes a cursor and returns the next, the server's own if it has pages", async () => {
    const client = await clientOf(gateway, '/paged', revision)
    const first = await client.request('tools/list')
    expect(first.result).toMatchObject({ nextCursor: '7' })
    const second = await client.request('tools/list', { cursor: '7' })
    expect(second.result).toMatchObject({
      nextCursor: '14',
      tools: [{ name: 'tool_7' }, {}, {}, {}, {}, {}, {}],
    })
    expect((await pagesOf(client, 'tools/list', 'tools')).flat()).toHaveLength(COUNT)
  })

  it('C103 an unknown cursor is refused', async () => {
    const client = await clientOf(strict, '/huge', revision)
    for (const cursor of ['gatehouse.', 'gatehouse.1.x.', `gatehouse.100.${'a'.repeat(22)}.`]) {
      expect((await client.request('tools/list', { cursor })).error).toMatchObject({ code: -32602 })
    }
  })

  it('C104 aggregate lists contain every page of each server, however it paginates', async () => {
    const client = await clientOf(gateway, '', revision)
    for (const [method, member] of lists) {
      const keys = keysOf((await pagesOf(client, method, member)).flat())
      expect(keys.filter((key) => /^paged[_+]/.test(key))).toHaveLength(COUNT)
      expect(new Set(keys.filter((key) => /^endless[_+]/.test(key))).size).toBe(3)
    }
  })
})

it('C102 a list of at most one page is forwarded unchanged', async () => {
  const client = await clientOf(gateway, '/huge', '2025-11-25')
  const pages = await pagesOf(client, 'tools/list', 'tools')
  expect(pages.map(({ length }) => length)).toEqual([SIZE])
})
