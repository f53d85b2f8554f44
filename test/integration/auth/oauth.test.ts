import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, newUser, signIn } from '../../support/auth/oauth-client.ts'
import { startAuthorizationServer } from '../../support/auth/authorization-server.ts'
import { startGateway } from '../../support/gateway.ts'
import { type OAuthField, startOAuthField } from '../../support/auth/oauth-field.ts'
import { alone } from '../../support/scattered.ts'

let field: OAuthField
let server: OAuthField['server']
let fake: OAuthField['fake']
let gateway: OAuthField['gateway']

beforeAll(async () => {
  field = await startOAuthField()
  ;({ server, fake, gateway } = field)
})
afterAll(() => field.close())

function call(token: string, name = 'echo', more: Record<string, string> = {}) {
  return fetch(gateway.url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': name,
      ...more,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name,
        arguments: { text: 'hello' },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
  })
}

describe('a client of the official SDK', () => {
  it('C071 discovers the authorization server, signs in with PKCE for this resource, and calls a tool', async () => {
    const user = newUser()
    const client = await connect(gateway.url, user)
    const [sent] = user.sent
    expect(sent?.origin).toBe(server.issuer)
    expect(sent?.searchParams.get('resource')).toBe(gateway.url)
    expect(sent?.searchParams.get('code_challenge_method')).toBe('S256')
    expect(sent?.searchParams.get('scope')).toBe('read:fake')
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain('echo')
    const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } })
    expect(result.isError).not.toBe(true)
    await client.close()
  })

  it('C075 gets a token bound to the server it signed in to', async () => {
    const user = newUser('app')
    const client = await connect(`${gateway.url}/fake`, user)
    expect(decodeJwt(user.tokens?.access_token ?? '').aud).toBe(`${gateway.url}/fake`)
    await client.callTool({ name: 'echo', arguments: { text: 'hello' } })
    const elsewhere = await call(user.tokens?.access_token ?? '')
    expect(elsewhere.status).toBe(401)
    await client.close()
  })

  it('C080 signs in again for a scope that a call requires, and continues its session', async () => {
    const user = newUser('app')
    const first = await connect(gateway.url, user)
    await first.close()
    const transport = new StreamableHTTPClientTransport(new URL(gateway.url), { authProvider: user.provider })
    const client = new Client({ name: 'peer', version: '1.0.0' })
    await client.connect(transport)
    const before = transport.sessionId
    await expect(client.callTool({ name: 'change', arguments: {} })).rejects.toThrow(/Unauthorized/)
    const asked = user.sent.at(-1)
    expect(user.sent).toHaveLength(2)
    expect(asked?.searchParams.get('scope')).toBe('read:fake write:fake')
    await signIn(transport, user)
    const result = await client.callTool({ name: 'change', arguments: {} })
    expect(result.isError).not.toBe(true)
    expect(transport.sessionId).toBe(before)
    expect(decodeJwt(user.tokens?.access_token ?? '').scope).toBe('read:fake write:fake')
    await client.close()
  })
})

describe('a client with its own token', () => {
  it("C076 is refused if the token's audience is another server", async () => {
    const answer = await call(await server.robotToken('https://another.example.com/mcp'))
    expect(answer.status).toBe(401)
    expect(answer.headers.get('www-authenticate')).toContain('error="invalid_token"')
    expect((await call(await server.robotToken(gateway.url))).status).toBe(200)
  })

  it('C222 is refused if the token has expired', async () => {
    const answer = await call(await server.endedToken(gateway.url))
    expect(answer.status).toBe(401)
    expect(await answer.json()).toMatchObject({ error: { data: { code: 'TOKEN_EXPIRED' } } })
  })

  it('C080 receives the scope that a call requires', async () => {
    const answer = await call(await server.robotToken(gateway.url, 'read:fake'), 'vendor')
    expect(answer.status).toBe(403)
    expect(answer.headers.get('www-authenticate')).toContain(
      'error="insufficient_scope", error_description="Missing scope: write:fake", scope="read:fake write:fake"',
    )
    expect(await answer.json()).toMatchObject({
      jsonrpc: '2.0',
      id: 1,
      error: { data: { code: 'SCOPE_INSUFFICIENT', details: { missing_scopes: ['write:fake'] } } },
    })
    expect((await call(await server.robotToken(gateway.url, 'write:fake'), 'vendor')).status).toBe(200)
  })

  it('receives no challenge if only its session token lacks the scope', async () => {
    const token = await server.robotToken(gateway.url, 'read:fake write:fake')
    const negotiated = await fetch(new URL('/permissions/negotiate', gateway.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ requested_scopes: ['read:fake'] }),
    })
    const { session } = (await negotiated.json()) as { session: { token: string } }
    const answer = await call(token, 'vendor', { 'x-mcp-session-token': session.token })
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([200, null])
    expect(await answer.json()).toMatchObject({
      result: {
        isError: true,
        error: { code: 'SCOPE_INSUFFICIENT', suggestion: expect.stringContaining('session') },
      },
    })
    expect((await call(token, 'vendor')).status).toBe(200)
  })

  it('C082 can make the calls that its scopes allow and no others', async () => {
    const token = await server.robotToken(gateway.url, 'read:fake')
    expect((await call(token, 'echo')).status).toBe(200)
    expect((await call(token, 'vendor')).status).toBe(403)
  })

  it('C077 never has its token forwarded to a server', async () => {
    const token = await server.robotToken(gateway.url)
    await call(token)
    const seen = JSON.stringify(fake.seen)
    expect(fake.received('tools/call').length).toBeGreaterThan(0)
    for (const part of token.split('.')) expect(seen).not.toContain(part)
    expect(seen.toLowerCase()).not.toContain('bearer')
  })

  it('C205 never has its token written to a log, whether the token was accepted or refused', async () => {
    const good = await server.robotToken(gateway.url)
    const bad = `${good.slice(0, -9)}AAAAAAAAA`
    expect((await call(good)).status).toBe(200)
    expect((await call(bad)).status).toBe(401)
    expect((await fetch(`${gateway.url}?token=${good}`)).status).toBe(400)
    await gateway.logged(({ reason }) => String(reason).includes('a URL must not contain credentials'))
    for (const part of good.split('.')) expect(gateway.stderr()).not.toContain(part)
  })

  it('C202 finds its refused request in the log, with the reason', async () => {
    const answer = await call('rubbish')
    const id = answer.headers.get('x-request-id')
    const line = await gateway.logged(({ request_id: named }) => named === id)
    expect(line).toMatchObject({
      code: 'AUTHENTICATION_REQUIRED',
      reason: 'malformed',
    })
  })

  it('C221 is accepted with a token signed by new keys after the authorization server restarts', async () => {
    const old = await server.robotToken(gateway.url)
    expect((await call(old)).status).toBe(200)
    await server.restart()
    const next = await server.robotToken(gateway.url)
    expect((await call(next)).status).toBe(200)
  })
})

describe('a gateway reconfigured to require tokens', () => {
  it('C009 requires a token as soon as the configuration is reloaded', async () => {
    const upstreams = { fake: fake.url }
    const told = await startGateway({ upstreams })
    const post = () => fetch(told.url, { method: 'POST' })
    expect((await post()).status).toBe(415)
    told.configure({ auth: { jwt: { issuer: server.issuer } }, upstreams })
    await told.logged(({ event }) => event === 'config.reloaded')
    expect((await post()).status).toBe(401)
    await told.close()
  })
})

describe('an opaque token that only its issuer can read', () => {
  it('C067 is validated at the introspection endpoint', async () => {
    alone('each gateway asks about a token for itself')
    const opaque = await startAuthorizationServer({ format: 'opaque' })
    const { id, secret } = opaque.client
    const guarded = await startGateway({
      auth: {
        opaque: {
          introspect: { url: `${opaque.issuer}/token/introspection`, client_id: id, client_secret: secret },
        },
        oauth: { authorization_servers: opaque.issuer, scopes_supported: 'read:fake' },
      },
      upstreams: { fake: fake.url },
    })
    const user = newUser('app')
    const client = await connect(guarded.url, user)
    expect(user.tokens?.access_token).not.toContain('.')
    expect((await client.listTools()).tools.length).toBeGreaterThan(0)
    const asked = opaque.asked.filter((path) => path === '/token/introspection')
    expect(asked).toHaveLength(1)
    await client.close()
    const other = await opaque.robotToken('https://another.example.com/mcp')
    const refused = await fetch(guarded.url, {
      method: 'POST',
      headers: { authorization: `Bearer ${other}` },
    })
    expect(refused.status).toBe(401)
    await guarded.close()
    await opaque.close()
  })
})
