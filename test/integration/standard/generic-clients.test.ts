import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import {
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
} from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { post, usual } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { initialize } from '../../support/fronts.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { toolCall } from '../../support/raw-session.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import type { Json } from '../../support/server/json.ts'

const tokens = { reader: 'reader-token-of-32-characters-00', writer: 'writer-token-of-32-characters-00' }
const scopes = { reader: ['read:fake'], writer: ['read:fake', 'write:fake'] }

function holder(id: 'reader' | 'writer'): Json {
  return { id, hash: tokenHash(tokens[id]), scopes: scopes[id] }
}

function bearer(id: 'reader' | 'writer'): Record<string, string> {
  return { authorization: `Bearer ${tokens[id]}` }
}

let fake: FakeServer
let strict: LocalGateway
let open: LocalGateway
beforeAll(async () => {
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  const tools = { echo: { scopes: 'read:fake' }, structured: { scopes: 'write:fake' } }
  const upstreams = { fake: { url: fake.url, tools } }
  const auth = {
    opaque: { tokens: [holder('reader'), holder('writer')] },
    jwt: { issuer: 'http://127.0.0.1:9' },
    oauth: { authorization_servers: 'http://127.0.0.1:9' },
  }
  // Older clients of the SDK do not read errors with a mapped status.
  const features = { errors: { http_status: 'compatible' } }
  strict = await localGateway({ profile: 'corporate', auth, upstreams, features })
  open = await localGateway({ upstreams })
})
afterAll(async () => {
  await Promise.all([strict.close(), open.close()])
  await fake.close()
})

/** The official clients in ordinary use, without any code for the gateway. */
const clients = [
  {
    title: 'SDK 1.x',
    connect: async (url: string, headers: Record<string, string>) => {
      const client = new Client({ name: 'generic', version: '1.0.0' })
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
      return client
    },
  },
  ...(['legacy', 'auto'] as const).map((mode) => ({
    title: `SDK 2.x (${mode})`,
    connect: async (url: string, headers: Record<string, string>) => {
      const client = new Client2({ name: 'generic', version: '1.0.0' }, { versionNegotiation: { mode } })
      await client.connect(new Transport2(new URL(url), { requestInit: { headers } }))
      return client
    },
  })),
]

describe.each(clients)('a client of the official $title', ({ connect }) => {
  it('C010 receives a challenge for a token', async () => {
    const refused = await connect(strict.url, {}).catch((error: unknown) => error)
    expect(String(refused)).toMatch(/AUTHENTICATION_REQUIRED|unauthorized|401/i)
  })

  it('C010 works with a token alone, and gets standard errors', async () => {
    const client = await connect(strict.url, bearer('reader'))
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain('echo')
    expect((await client.callTool({ name: 'echo', arguments: {} })).isError).not.toBe(true)
    const unknown = client.callTool({ name: 'no_such_tool', arguments: {} })
    await expect(unknown).rejects.toMatchObject({
      code: -32602,
      message: expect.stringMatching(/Unknown tool/),
    })
    await expect(client.getPrompt({ name: 'no_such_prompt' })).rejects.toMatchObject({
      code: expect.any(Number),
    })
    const forbidden = await client.callTool({ name: 'structured', arguments: {} }).then(
      ({ isError, content }) => [isError, JSON.stringify(content)],
      (error: unknown) => [true, String(error)],
    )
    expect(forbidden[0]).toBe(true)
    expect(forbidden[1]).toMatch(/scope|403/i)
    await client.close()
  })
})

it('C010 the challenge is readable by the official SDK, and leads to the metadata', async () => {
  const reply = await fetch(strict.url, {
    method: 'POST',
    headers: { ...usual, 'content-type': 'application/json' },
    body: JSON.stringify(initialize()),
  })
  expect(reply.status).toBe(401)
  const { resourceMetadataUrl } = extractWWWAuthenticateParams(reply)
  const metadata = await discoverOAuthProtectedResourceMetadata(strict.url, {
    resourceMetadataUrl: resourceMetadataUrl ?? 'about:blank',
  })
  expect(metadata.resource).toBe(strict.url)
})

const ping = JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'ping' })

async function sessionOf(gateway: LocalGateway, headers: HeaderMap = {}): Promise<HeaderMap> {
  const reply = await post(gateway.url, JSON.stringify(initialize()), headers)
  const session = { 'mcp-session-id': reply.headers['mcp-session-id'] ?? '' }
  await post(gateway.url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', {
    ...headers,
    ...session,
  })
  return session
}

describe('a session id', () => {
  it("C054 is useless with another caller's valid token", async () => {
    const session = await sessionOf(strict, bearer('writer'))
    expect((await post(strict.url, ping, { ...session, ...bearer('writer') })).status).toBe(200)
    const stolen = await post(strict.url, ping, { ...session, ...bearer('reader') })
    expect([stolen.status, JSON.parse(stolen.text)]).toMatchObject([
      404,
      { error: { data: { code: 'SESSION_NOT_FOUND' } } },
    ])
  })

  it('C054 grants its holder no scopes: those of the token apply to every call', async () => {
    const session = await sessionOf(strict, bearer('reader'))
    const call = JSON.stringify(toolCall(2, 'structured'))
    const before = fake.received('tools/call').length
    const refused = await post(strict.url, call, { ...session, ...bearer('reader') })
    expect(refused.text).toContain('SCOPE_INSUFFICIENT')
    expect((await post(strict.url, call, session)).status).toBe(401)
    expect(fake.received('tools/call').length).toBe(before)
  })

  it('C054 identifies no caller on a gateway without authentication', async () => {
    const session = await sessionOf(open)
    const call = (headers: HeaderMap) => post(open.url, JSON.stringify(toolCall(3, 'echo')), headers)
    expect((await call(session)).status).toBe(200)
    // The session of a gateway with tokens does not exist there.
    expect((await call(await sessionOf(strict, bearer('writer')))).status).toBe(404)
    const principals = open.lines.filter(({ event }) => event === 'call').map(({ principal }) => principal)
    expect(new Set(principals)).toEqual(new Set(['anonymous']))
  })
})
