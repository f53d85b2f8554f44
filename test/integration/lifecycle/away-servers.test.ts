import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { type Door, doorTo } from '../../support/door.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import {
  clientOf,
  codeOf,
  folder,
  gatewayTo,
  httpServer,
  serverJournal,
  stdioServer,
} from '../../support/journey.ts'
import { isScattered } from '../../support/scattered.ts'
import { textOf } from '../../support/client/options.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const MARK = 'dev.gatehouse/last_known'
const keys: Readonly<Record<string, string>> = {
  'tools/list': 'tools',
  'prompts/list': 'prompts',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
}
/** Lists are not repeated before the last one is used. */
const settings = {
  revision: '2025-11-25',
  transport: 'streamable',
  reconnect: '400ms',
  features: { retry: 'off' },
}

/** A server that can be shut, with its settings. */
async function shuttable(more: Json = {}): Promise<{ readonly door: Door; readonly one: Json }> {
  const door = await doorTo((await httpServer()).url)
  return { door, one: { url: door.url, ...settings, ...more } }
}

async function listed(client: FakeClient, list: string, params: Json = {}): Promise<readonly Json[]> {
  const { result } = await client.request(list, params)
  return (result?.[keys[list] ?? ''] ?? []) as readonly Json[]
}

function marksOf(entries: readonly Json[]): readonly unknown[] {
  return entries.map((entry) => objectAt(entry, '_meta')[MARK])
}

function bare(entries: readonly Json[]): readonly unknown[] {
  return entries.map(({ _meta: meta, ...entry }) => {
    const { [MARK]: _mark, ...rest } = (meta ?? {}) as Json
    return { ...entry, ...(Object.keys(rest).length > 0 && { _meta: rest }) }
  })
}

const changes = (client: FakeClient, from: number): readonly string[] =>
  client.notes
    .slice(from)
    .map(({ method }) => method)
    .filter((method) => method.endsWith('/list_changed'))
    .toSorted()

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a server that is away, for a client of %s',
  (revision) => {
    it('keeps its last lists, marked, at its own address and at that of all servers, until it is back', async () => {
      const { door, one } = await shuttable()
      const two = await httpServer()
      const gateway = await gatewayTo({ one, two: { url: two.url, ...settings } })
      const clients = [
        await clientOf({ url: `${gateway.url}/one` }, { revision }),
        await clientOf(gateway, { revision }),
      ]
      const before = await Promise.all(
        clients.map((client) => Promise.all(Object.keys(keys).map((list) => listed(client, list)))),
      )
      await door.shut()
      for (const [index, client] of clients.entries())
        for (const [at, list] of Object.keys(keys).entries()) {
          const last = async (): Promise<readonly Json[]> => {
            const found = await listed(client, list)
            expect(bare(found)).toEqual(before[index]?.[at])
            return found
          }
          // A gateway writes what a server listed a moment later: until then, the others do not know it.
          const entries = isScattered()
            ? await until(last, 'the list that another gateway got')
            : await last()
          const marked = marksOf(entries).filter((mark) => mark !== undefined)
          expect(marked).toHaveLength(index === 0 ? entries.length : entries.length / 2)
          for (const mark of marked) expect(Date.parse(String(mark))).toBeLessThanOrEqual(Date.now())
        }
      const from = clients.map(({ notes }) => notes.length)
      await door.open()
      for (const client of clients)
        await until(
          async () => marksOf(await listed(client, 'tools/list')).every((mark) => mark === undefined),
          'the list without marks',
        )
      if (revision === '2025-11-25')
        for (const [index, client] of clients.entries()) {
          await until(() => changes(client, from[index] ?? 0).length >= 3, 'the notifications')
          expect(changes(client, from[index] ?? 0)).toEqual([
            'notifications/prompts/list_changed',
            'notifications/resources/list_changed',
            'notifications/tools/list_changed',
          ])
        }
    })
  },
)

it('a gateway that starts while its server is away lists what it listed before, by the rules of now', async () => {
  const { door, one } = await shuttable()
  const two = { url: (await httpServer()).url, ...settings }
  const config = { store: folder() }
  const first = await gatewayTo({ one, two }, { config })
  const names = async (gateway: { readonly url: string }): Promise<readonly string[]> =>
    (await listed(await clientOf({ url: `${gateway.url}/one` }), 'tools/list')).map(({ name }) =>
      String(name),
    )
  const before = await names(first)
  expect(before).toEqual(expect.arrayContaining(['slow', 'big']))
  await first.close()
  await door.shut()
  const tools = { echo: { hide: true }, slow: { rename: 'wait_for' } }
  const rules = {
    tools,
    deny: { big: 'on' },
    features: { ...settings.features, permissions: { hide_unpermitted: true } },
  }
  const second = await gatewayTo({ one: { ...one, ...rules }, two }, { config })
  expect(await names(second)).toEqual(
    before
      .filter((name) => name !== 'echo' && name !== 'big')
      .map((name) => (name === 'slow' ? 'wait_for' : name)),
  )
  await second.close()
  // Another server of this name never listed anything.
  const third = await gatewayTo({ one: { ...one, url: 'http://127.0.0.1:9/mcp' }, two }, { config })
  const client = await clientOf(third)
  const together = (await listed(client, 'tools/list')).map(({ name }) => String(name))
  expect(together.filter((name) => name.startsWith('one_'))).toEqual([])
  expect(together.length).toBeGreaterThan(2)
})

describe('a call of a server that is away', () => {
  it('waits for it, and is made once', async () => {
    const { door, one } = await shuttable({ reconnect: '5s' })
    const client = await clientOf(await gatewayTo({ one }))
    await listed(client, 'tools/list')
    await door.shut()
    const call = client.request('tools/call', { name: 'echo', arguments: { n: 1 } })
    await listed(client, 'tools/list')
    await door.open()
    expect(textOf(await call)).toBe('{"n":1}')
  })

  it('fails after that with an error that says since when', async () => {
    const { door, one } = await shuttable()
    const client = await clientOf(await gatewayTo({ one, two: { url: (await httpServer()).url } }))
    await listed(client, 'tools/list')
    await door.shut()
    const shutAt = Date.now()
    const reply = await client.request('tools/call', { name: 'one_echo', arguments: { n: 1 } })
    expect(codeOf(reply)).toBe('SERVER_UNAVAILABLE')
    const details = objectAt(objectAt(reply.error, 'data'), 'details')
    expect(Math.abs(Date.parse(String(details['away_since'])) - shutAt)).toBeLessThan(5000)
    expect(objectAt(reply.error, 'data')['category']).toBe('transient')
  })

  it('does not wait for a server that was never there', async () => {
    const one = { url: 'http://127.0.0.1:9/mcp', ...settings, reconnect: '1m' }
    const client = await clientOf(await gatewayTo({ one, two: { url: (await httpServer()).url } }))
    expect(codeOf(await client.request('tools/call', { name: 'one_echo', arguments: {} }))).toBe(
      'SERVER_UNAVAILABLE',
    )
  })
})

/** A server that answers a list as told: with its tools, with null, or never. */
async function oddServer(): Promise<{ readonly url: string; answer: 'tools' | 'null' | 'never' }> {
  const state = { url: '', answer: 'tools' as 'tools' | 'null' | 'never' }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const text = Buffer.concat(parts).toString()
      const message = (text === '' ? {} : JSON.parse(text)) as { id?: number; method?: string }
      if (message.id === undefined)
        return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
      const isList = message.method === 'tools/list'
      if (isList && state.answer === 'never') return
      const tools = state.answer === 'null' ? null : [{ name: 'look', inputSchema: { type: 'object' } }]
      const result = isList
        ? { tools }
        : {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'odd', version: '1' },
          }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
  return state
}

it('a server that does not answer in time is answered for, and one whose list is null does not lose its last list', async () => {
  const odd = await oddServer()
  const gateway = await gatewayTo(
    { one: { url: odd.url, ...settings }, two: { url: (await httpServer()).url } },
    { config: { listen: { aggregate_timeout: '300ms' } } },
  )
  const clients = [await clientOf({ url: `${gateway.url}/one` }), await clientOf(gateway)]
  for (const client of clients) await listed(client, 'tools/list')
  odd.answer = 'null'
  for (const client of clients) await listed(client, 'tools/list')
  odd.answer = 'never'
  for (const [index, client] of clients.entries()) {
    const look = (await listed(client, 'tools/list')).find(({ name }) => String(name).endsWith('look'))
    expect(look?.['name']).toBe(index === 0 ? 'look' : 'one_look')
    expect(objectAt(look, '_meta')[MARK]).toBeDefined()
  }
})

it('a name that two servers have is that of neither while one of them is away', async () => {
  const { door, one } = await shuttable()
  const two = { url: (await httpServer()).url, ...settings }
  const client = await clientOf(await gatewayTo({ one, two }, { config: { prefix: 'never' } }))
  const names = async (): Promise<readonly string[]> =>
    (await listed(client, 'tools/list'))
      .map(({ name }) => String(name))
      .toSorted((a, b) => a.localeCompare(b))
  const before = await names()
  expect(before).toContain('one_echo')
  const call = () => client.request('tools/call', { name: 'echo', arguments: {} })
  expect(codeOf(await call())).toBe('UNKNOWN_TOOL')
  await door.shut()
  expect(await names()).toEqual(before)
  expect(codeOf(await call())).toBe('UNKNOWN_TOOL')
})

it('a process that ended gets its subscriptions to resources again, on the connection that takes its place', async () => {
  const journal = serverJournal()
  const one = stdioServer({ seenFile: journal.file })
  const client = await clientOf(await gatewayTo({ one }))
  await client.subscribe('fake://watched')
  await client.request('tools/call', { name: 'crash', arguments: {} })
  await until(
    () => readFileSync(journal.file, 'utf8').split('"resources/subscribe"').length > 2,
    'the subscription to be made again',
  )
})
