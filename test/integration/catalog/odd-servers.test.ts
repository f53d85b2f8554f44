import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AnsweringServer, answeringServer, silence, withLists } from '../../support/answering-server.ts'
import { until } from '../../support/condition.ts'
import { connect } from '../../support/fake-client.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { invalidPrompts, invalidResources, invalidTools } from '../../support/invalid-entries.ts'
import { isScattered, sizeOfEach } from '../../support/scattered.ts'
import type { Json } from '../../support/server/json.ts'

const tool = (name: string, more: object = {}): object => ({ name, inputSchema: { type: 'object' }, ...more })
const good = withLists({ 'tools/list': { tools: [tool('read')] } })
const started = Promise.withResolvers<void>()

/** A process that works for half a second. */
const dying = `
const results = {
  initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'd', version: '1' } },
  'tools/list': { tools: [${JSON.stringify(tool('read'))}] },
}
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  const error = { code: -32601, message: 'Method not found' }
  const body = results[method] ? { result: results[method] } : { error }
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
})
setTimeout(() => process.exit(1), 500)`

/** Entries of different names, where they have any. */
function distinct(entries: typeof invalidTools): unknown[] {
  return entries.map(([entry], index) => {
    const text = JSON.stringify(entry).replace('"name":"a"', `"name":"a${index}"`)
    return JSON.parse(text.replace('"uri":"a:b"', `"uri":"a:${index}"`))
  })
}

/** Lists with everything that servers do wrong, beside one good entry of each. */
const garbage = withLists(
  {
    'tools/list': {
      tools: [...distinct(invalidTools), tool('read')],
      nextCursor: 0,
      _meta: null,
    },
    'prompts/list': { prompts: [...distinct(invalidPrompts), { name: 'ask' }] },
    'resources/list': { resources: [...distinct(invalidResources), { uri: 'x:y', name: 'y' }] },
    'resources/templates/list': { resourceTemplates: null },
  },
  { tools: true, prompts: [], resources: { subscribe: 'no' }, logging: null },
)

const servers: AnsweringServer[] = []
const urls = new Map<string, string>()
let gateway: RunningGateway

/** Ten servers, of which five have a fault each. */
async function upstreams(): Promise<Record<string, object>> {
  const answers = {
    one: good,
    two: good,
    three: good,
    four: good,
    mute: () => silence,
    unlisted: (method: string, params: object) =>
      method.endsWith('/list') ? silence : good(method, { ...params }),
    garbage,
    slow: async (method: string, params: object) => {
      await started.promise
      return good(method, { ...params })
    },
    apps: withLists({
      'tools/list': { tools: [tool('show', { _meta: { ui: { resourceUri: 'ui://a/b' } } })] },
    }),
  }
  const made = await Promise.all(
    Object.entries(answers).map(async ([name, answer]) => {
      const server = await answeringServer(answer)
      servers.push(server)
      urls.set(name, server.url)
      return [name, { url: server.url, start_timeout: '30s' }] as const
    }),
  )
  return { ...Object.fromEntries(made), dying: { command: process.execPath, args: ['-e', dying] } }
}

beforeAll(async () => {
  const config = { listen: { aggregate_timeout: '1s' }, upstreams: await upstreams() }
  gateway = await startGateway(config, { warm: false })
  for (const name of ['one', 'two', 'three', 'four', 'garbage', 'apps', 'unlisted'])
    await gateway.logged((line) => line['event'] === 'upstream.ready' && line['upstream'] === name)
})
afterAll(async () => {
  await gateway.close()
  await Promise.all(servers.map((server) => server.close()))
})

interface Peer {
  listTools(): Promise<{ tools: { name: string }[] }>
  listPrompts(): Promise<{ prompts: { name: string }[] }>
  listResources(): Promise<{ resources: { uri: string }[] }>
  listResourceTemplates(): Promise<{ resourceTemplates: { uriTemplate: string }[] }>
  callTool(params: { name: string; arguments: object }): Promise<{ content?: unknown }>
  close(): Promise<void>
}

const connections: Readonly<Record<string, (onChange: () => void) => Promise<Peer>>> = {
  '1.x': async (onChange) => {
    const client = new Client({ name: 'first', version: '1.0.0' })
    client.setNotificationHandler(ToolListChangedNotificationSchema, onChange)
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    return client as Peer
  },
  '2.x': (onChange) => second('legacy', onChange),
  '2.x of 2026-07-28': (onChange) => second('auto', onChange),
}

async function second(mode: 'legacy' | 'auto', onChanged: () => void): Promise<Peer> {
  const listChanged = { tools: { onChanged } }
  const client = new Client2(
    { name: 'second', version: '1.0.0' },
    { versionNegotiation: { mode }, listChanged },
  )
  await client.connect(new Transport2(new URL(gateway.url)))
  return client as Peer
}

const names = (entries: readonly { name: string }[]): string[] => entries.map(({ name }) => name)

const expected = ['one_read', 'two_read', 'three_read', 'four_read', 'apps_show', 'garbage_read']

describe('ten servers together, of which two hang, one lists garbage, one dies and one is slow to start', () => {
  it.each(Object.keys(connections))('serve a client of the SDK %s', async (version) => {
    const start = performance.now()
    const client = await connections[version]?.(() => undefined)
    if (!client) return
    const [tools, prompts, resources, templates] = await Promise.all([
      until(async () => {
        const listed = names((await client.listTools()).tools)
        return expected.every((name) => listed.includes(name)) && listed
      }, 'the tools of the good servers'),
      client.listPrompts(),
      client.listResources(),
      client.listResourceTemplates(),
    ])
    expect(tools.filter((name) => /^(mute|unlisted|slow)_/.test(name))).toEqual([])
    expect(names(prompts.prompts)).toContain('garbage_ask')
    expect(resources.resources.map(({ uri }) => uri)).toContain('garbage+x:y')
    expect(templates.resourceTemplates).toBeInstanceOf(Array)
    for (const name of ['one_read', 'two_read', 'garbage_read']) {
      const { content } = await client.callTool({ name, arguments: {} })
      expect(content).toEqual([{ type: 'text', text: 'done' }])
    }
    // A server that hangs takes up to 30 s for each request.
    expect(performance.now() - start).toBeLessThan(25_000)
    await client.close()
  })

  it('are reported once: in the log, and on the page', async () => {
    // Each gateway reports what its own connections find.
    const reports = sizeOfEach()
    const missing = ({ event, upstream }: Json): boolean =>
      event === 'upstream.missing' && ['mute', 'slow'].includes(String(upstream))
    const client = await connect({ transport: 'http', url: gateway.url, revision: '2026-07-28' })
    await until(async () => {
      if (gateway.log().filter(missing).length >= 2 * reports) return true
      // One that no client has asked yet has nothing to report.
      await client.request('tools/list')
      return false
    }, 'the reports of all')
    await client.close()
    const lines = gateway.log().filter(({ level }) => level === 'warn')
    for (const upstream of ['mute', 'slow'])
      expect(lines.filter((line) => missing(line) && line['upstream'] === upstream)).toHaveLength(reports)
    const invalid = lines
      .filter(({ event }) => event === 'upstream.invalid')
      .map(({ time: _time, worker: _worker, ...line }) => JSON.stringify(line))
    const times = [...Map.groupBy(invalid, (line) => line).values()].map((same) => same.length)
    expect(Math.max(...times)).toBeLessThanOrEqual(reports)
    expect(lines).toContainEqual(
      expect.objectContaining({
        upstream: 'garbage',
        method: 'tools/list',
        problem: 'it is null: the entry is left out',
      }),
    )
    const page = async (): Promise<string> =>
      (await fetch(gateway.origin, { headers: { accept: 'text/html' } })).text()
    for (const line of [
      // Each gateway waits for the first list that it is asked for.
      `${isScattered() ? '' : 'tools'}/list: the server did not answer within 1 s`,
      'prompts/list: a4: arguments is null: removed',
      'initialize: capabilities.prompts is an empty list: read as {}',
    ])
      await until(async () => (await page()).includes(line), `a page of a gateway with “${line}”`)
  })

  it.each(Object.keys(connections).slice(0, 1))(
    'announce a server that comes to a client of the SDK %s',
    async (version) => {
      let changes = 0
      const client = await connections[version]?.(() => void changes++)
      started.resolve()
      await until(() => changes > 0, 'the notification')
      const found = await until(async () => {
        const { tools } = (await client?.listTools()) ?? { tools: [] }
        return names(tools).includes('slow_read')
      }, 'the tools of the server')
      expect(found).toBe(true)
      await client?.close()
    },
  )
})

it('check says what is wrong with lists, and which do not come', async () => {
  const failing = await answeringServer(
    withLists(
      { 'tools/list': { tools: [null, tool('read')] }, 'prompts/list': null },
      { tools: {}, prompts: {} },
    ),
  )
  servers.push(failing)
  const chosen = { garbage: urls.get('garbage'), unlisted: urls.get('unlisted'), failing: failing.url }
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify({ listen: { aggregate_timeout: '2s' }, upstreams: chosen }))
  const { stdout, stderr, code } = await runCommand(['check', '--config', path])
  expect(stdout).toContain('garbage: ready, MCP 2025-06-18\n')
  expect(stdout).toContain('  prompts/list: a4: arguments is null: removed\n')
  expect(stdout).toContain('  tools/list: entry 1: it is null: the entry is left out\n')
  expect(stderr).toContain(
    'failing: the server did not return its lists: The server sent a malformed response.',
  )
  expect(stderr).toContain('the server did not return its lists within 2 s, so /mcp leaves it out')
  expect(code).toBe(1)
})
