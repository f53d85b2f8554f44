import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterEach, describe, expect, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { post } from '../../support/client/raw.ts'
import { modern } from '../../support/fronts.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import type { Json } from '../../support/server/json.ts'

const closers: (() => Promise<void>)[] = []

afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()))
})

const memory = { command: publishedServer('@modelcontextprotocol/server-memory') }
const files = { command: publishedServer('@modelcontextprotocol/server-filesystem', '/tmp') }

async function started(config: Json): Promise<LocalGateway> {
  const gateway = await localGateway(config)
  closers.push(() => gateway.close())
  return gateway
}

async function posted(url: string, method: string, params: Json, who: HeaderMap = {}): Promise<Json> {
  const { message, headers } = modern(method, params)
  const { text, events } = await post(url, JSON.stringify(message), { ...headers, ...who })
  return JSON.parse(events[0]?.data ?? text) as Json
}

const searching = { name: 'search_nodes', arguments: { query: 'x' } }
const wish = 'show me the entire knowledge graph'

describe("a caller's intent at the memory server", () => {
  test('is answered with a better tool, in both client eras, whose clients validate the output', async () => {
    const gateway = await started({ upstreams: { memory } })
    const one = new Client({ name: 'one', version: '1.0.0' })
    const two = new Client2({ name: 'two', version: '1.0.0' })
    await one.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
    await two.connect(new Transport2(new URL(gateway.url)))
    closers.push(
      () => one.close(),
      () => two.close(),
    )
    for (const client of [one, two]) {
      await client.listTools()
      const plain = await client.callTool(searching)
      const hinted = await client.callTool({ ...searching, _meta: { 'dev.gatehouse/intent': wish } })
      expect(hinted.structuredContent).toEqual(plain.structuredContent)
      expect(hinted._meta?.['dev.gatehouse/suggestion']).toMatchObject({ recommended_tool: 'read_graph' })
      expect(JSON.stringify(hinted.content)).toContain('Hint: read_graph may fit better.')
      expect(JSON.stringify(plain)).not.toContain('Hint')
      const fitting = await client.callTool({ ...searching, _meta: { intent: 'search for nodes' } })
      expect(JSON.stringify(fitting)).not.toContain('suggestion')
    }
  })

  test('changes no byte of the response if it is absent, with the feature on or off', async () => {
    const [on, off] = await Promise.all([
      started({ features: { provenance: 'off' }, upstreams: { memory } }),
      started({ features: { provenance: 'off', intent: 'off', discovery: 'off' }, upstreams: { memory } }),
    ])
    const call = (gateway: LocalGateway): Promise<Json> => posted(gateway.url, 'tools/call', searching)
    expect(JSON.stringify(await call(on))).toBe(JSON.stringify(await call(off)))
  })

  test('replaces the call in mode redirect, with aggregate tool names on the aggregate endpoint', async () => {
    const features = { intent: { mode: 'redirect' } }
    const gateway = await started({ features, upstreams: { memory, files } })
    const params = { ...searching, name: 'memory_search_nodes', _meta: { intent: wish } }
    expect(await posted(gateway.url, 'tools/call', params)).toMatchObject({
      result: { isError: true, result: null, suggestion: { recommended_tool: 'memory_read_graph' } },
    })
    expect(await posted(`${gateway.url}/memory`, 'tools/call', { ...searching, intent: wish })).toMatchObject(
      {
        result: { isError: true, suggestion: { recommended_tool: 'read_graph' } },
      },
    )
  })
})

describe('server recommendations', () => {
  test('are available as a method, a tool and a path, and unknown names get the nearest name', async () => {
    const gateway = await started({ upstreams: { memory, files } })
    const wanted = { capability_needed: 'remember entities in a knowledge graph' }
    const expected = { server: 'memory', server_name: 'memory', registry_url: `${gateway.origin}/mcp/memory` }
    const asked = await posted(gateway.url, 'servers/recommend', wanted)
    expect(asked).toMatchObject({ result: { recommendations: [expected] } })
    const tool = { name: 'recommend_servers', arguments: wanted }
    expect(await posted(`${gateway.url}/files`, 'tools/call', tool)).toMatchObject({
      result: { structuredContent: { recommendations: [expected] } },
    })
    const nothing = await posted(gateway.url, 'servers/recommend', { capability_needed: 'zymurgy' })
    expect(nothing).toMatchObject({ result: { recommendations: [] } })
    const unknown = await posted(`${gateway.url}/files`, 'tools/call', {
      name: 'raed_text_file',
      arguments: {},
    })
    expect(unknown).toMatchObject({
      error: { code: -32602, data: { suggestion: expect.stringContaining('read_text_file') } },
    })
    const together = await posted(gateway.url, 'tools/call', { name: 'memory_make_entities', arguments: {} })
    expect(together).toMatchObject({
      error: { data: { suggestion: expect.stringMatching(/^Did you mean memory_create_entities/) } },
    })
    const page = await fetch(`${gateway.origin}/recommend_servers?capability=knowledge%20graph`)
    expect(await page.json()).toMatchObject({ recommendations: [expected] })
  })

  test('hide servers and tools from callers without permission, as if they did not exist', async () => {
    const token = 'reader-token-of-the-test'
    const reader = { authorization: `Bearer ${token}` }
    const gateway = await started({
      auth: {
        opaque: { tokens: [{ id: 'reader', hash: tokenHash(token), scopes: ['read:files', 'read:memory'] }] },
      },
      features: { permissions: { hide_unpermitted: true } },
      upstreams: { files, memory },
    })
    const ask = (url: string, method: string, params: Json): Promise<Json> =>
      posted(url, method, params, reader)
    const wanted = { capability_needed: 'write a file, read a file' }
    const found = JSON.stringify(await ask(gateway.url, 'servers/recommend', wanted))
    expect(found).toContain('read_file')
    expect(found).not.toContain('write_file')
    const own = `${gateway.url}/files`
    for (const name of ['write_fil', 'write_file']) {
      const text = JSON.stringify(await ask(own, 'tools/call', { name, arguments: {} }))
      expect(text).toContain('UNKNOWN_TOOL')
      expect(
        text.replaceAll(`"Unknown tool: ${name}"`, '').replaceAll(`"capability":"${name}"`, ''),
      ).not.toContain('write_file')
    }
    const hinted = { name: 'list_allowed_directories', arguments: {}, intent: 'write text to a new file' }
    expect(JSON.stringify(await ask(own, 'tools/call', hinted))).not.toContain('write_file')
  })

  test('query a registry only if one is configured', async () => {
    const seen: string[] = []
    const registry = createServer((request, response) => {
      seen.push(request.url ?? '')
      const servers = [{ server: { name: 'io.github.good/weather', description: 'Tells the weather' } }]
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ servers }))
    })
    await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
    closers.push(async () => void registry.close())
    const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`
    const wanted = { capability_needed: 'the weather of Berlin' }
    const off = await started({ upstreams: { memory } })
    await posted(off.url, 'servers/recommend', wanted)
    expect(seen).toEqual([])
    const discovery = { registry: url, publishers: ['io.github.good'] }
    const on = await started({ features: { discovery }, upstreams: { memory } })
    expect(await posted(on.url, 'servers/recommend', wanted)).toMatchObject({
      result: { recommendations: [{ server: 'io.github.good/weather' }] },
    })
    expect(seen).toHaveLength(2)
  })
})
