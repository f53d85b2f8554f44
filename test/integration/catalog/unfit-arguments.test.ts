// Calls with arguments that do not fit the schema of their tool, through the official clients: a server gets and answers
// them as without a gateway, unless a rule has to know what does not fit, or validation is strict.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type AnsweringServer, answeringServer, withLists } from '../../support/answering-server.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

const named = { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] }
const pattern = String.raw`^[A-Z]+\Z`
const tools: readonly Json[] = [
  { name: 'get_snake', input_schema: named },
  { name: 'get_none', inputSchema: null, parameters: named },
  { name: 'get_closed', inputSchema: { ...named, additionalProperties: false } },
  { name: 'get_open', inputSchema: { type: 'object' } },
  { name: 'get_python', inputSchema: { type: 'object', properties: { name: { type: 'string', pattern } } } },
  { name: 'get_ruled', inputSchema: named },
].map((each) => ({ ...each, annotations: { readOnlyHint: true } }))

const list = withLists({ 'tools/list': { tools } })
let server: AnsweringServer
let gateway: RunningGateway
let strict: RunningGateway
const received: unknown[] = []

beforeAll(async () => {
  server = await answeringServer((method, params) => {
    if (method !== 'tools/call') return list(method, params)
    received.push(params['arguments'])
    return {
      content: [{ type: 'text', text: `${String(params['name'])} ${JSON.stringify(params['arguments'])}` }],
    }
  })
  const upstreams = { odd: { url: server.url, deny: { get_ruled: { id: '7' } } } }
  ;[gateway, strict] = await Promise.all([
    startGateway({ upstreams }),
    startGateway({ upstreams, features: { validate: { input: 'strict' } } }),
  ])
})
afterAll(async () => {
  await Promise.all([gateway.close(), strict.close()])
  await server.close()
})

interface Peer {
  listTools(): Promise<{ tools: { name: string; inputSchema: unknown }[] }>
  callTool(params: { name: string; arguments: Json }): Promise<Record<string, unknown>>
  close(): Promise<void>
}

const peers: Readonly<Record<string, (url: URL) => Promise<Peer>>> = {
  'SDK 1.x': async (url) => {
    const client = new Client({ name: 'peer', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(url))
    return client
  },
  'SDK 2.x': async (url) => {
    const info = { name: 'peer', version: '1.0.0' }
    const client = new Client2(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    await client.connect(new Transport2(url))
    return client
  },
}

const n8n = { toolCallId: 'call_1', action: 'sendMessage', sessionId: 's', chatInput: 'hello' }
const calls: readonly (readonly [string, Json])[] = [
  ['get_snake', { id: '7' }],
  ['get_snake', {}],
  ['get_none', { id: [7], more: null }],
  ['get_closed', { id: 7, ...n8n }],
  ['get_closed', { id: '{"of":7}' }],
  [
    'get_open',
    { transaction_id: 'TX-1', intent: 'refund', idempotency_key: 'k', session_state: 's', ...n8n },
  ],
  ['get_python', { name: 'ABC' }],
  ['get_ruled', { id: 8, amount: '1' }],
]

describe.each(Object.entries(peers))('for a client of %s', (_name, connect) => {
  it('a server answers calls that do not fit as it does without a gateway', async () => {
    const client = await connect(new URL(`${gateway.url}/odd`))
    const listed = (await client.listTools()).tools
    expect(listed.filter(({ name }) => name === 'get_snake' || name === 'get_none')).toMatchObject([
      { inputSchema: named },
      { inputSchema: named },
    ])
    for (const [name, args] of calls) {
      const { content, isError } = await client.callTool({ name, arguments: args })
      expect({ content, isError: isError ?? false }).toEqual({
        content: [{ type: 'text', text: `${name} ${JSON.stringify(args)}` }],
        isError: false,
      })
    }
    await client.close()
  })

  it('a call is refused if a rule has to know what does not fit', async () => {
    const client = await connect(new URL(`${gateway.url}/odd`))
    const reached = received.length
    for (const id of ['7.0', ' 7', [7.0], null]) {
      const result = await client.callTool({ name: 'get_ruled', arguments: { id } })
      expect(result['isError']).toBe(true)
      expect(JSON.stringify(result['content'])).toMatch(
        /upstreams\.odd\.deny\.get_ruled\.id depends on|not permitted here/,
      )
    }
    expect(received).toHaveLength(reached)
    await client.close()
  })

  it('calls that do not fit are refused if validation is strict, and patterns of other dialects never are', async () => {
    const client = await connect(new URL(`${strict.url}/odd`))
    const reached = received.length
    for (const [name, args] of calls.slice(0, 5)) {
      const result = await client.callTool({ name, arguments: args })
      expect([name, result['isError']]).toEqual([name, true])
    }
    expect(received).toHaveLength(reached)
    const python = await client.callTool({ name: 'get_python', arguments: { name: 'ABC' } })
    expect(python['isError'] ?? false).toBe(false)
    await client.close()
  })
})

it('check names the patterns that are not checked, and schemas under other names', async () => {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify({ upstreams: { odd: { url: server.url } } }))
  const { stdout, code } = await runCommand(['check', '--config', path])
  expect(stdout).toContain('  tools/list: get_snake: inputSchema is missing: taken from input_schema\n')
  expect(stdout).toContain('  tools/list: get_python: inputSchema.properties.name.pattern is ')
  expect(stdout).toContain('which is not a regular expression of ECMA-262: it is not checked\n')
  expect(code).toBe(0)
})
