import { describe, expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { authorizationServer, CLIENT } from '../../../support/authorization-server.ts'
import { caller, echo, oauthUpstream, textOf } from '../../../support/oauth-upstream.ts'
import { protectedServer, unauthorized } from '../../../support/protected-server.ts'

const client = { clientId: CLIENT.id, clientSecret: new Secret(CLIENT.secret) }

/** A server that trusts an authorization server and accepts only tokens for its own audience. */
async function world(options: Parameters<typeof authorizationServer>[0] = {}, server = {}) {
  const authority = await authorizationServer(options)
  const protectedOne = await protectedServer(async (token, url) => {
    if (token === undefined) return unauthorized(url)
    const claims = await authority.verify(token, url).catch(() => undefined)
    return claims ? undefined : unauthorized(url)
  }, server)
  protectedOne.metadata = {
    resource: protectedOne.url,
    authorization_servers: [authority.issuer],
    scopes_supported: ['read'],
  }
  return { authority, server: protectedOne }
}

describe('upstream client credentials', () => {
  it('a token is obtained through discovery from the server', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(textOf(await upstream.handle(echo(caller('bob'))))).toBeDefined()
    expect(authority.grants.map((grant) => Object.fromEntries(grant))).toEqual([
      { grant_type: 'client_credentials', resource: server.url, scope: 'read' },
    ])
    expect(server.tokens.size).toBe(1)
  })

  it('an unverifiable id_token in the response is ignored', async () => {
    const { server } = await world({ idToken: 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl' })
    server.metadata = { ...Object(server.metadata), scopes_supported: ['openid', 'read'] }
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
  })

  it('refused credentials are reported to callers and operators', async () => {
    const { server } = await world()
    const oauth = { grant: 'client_credentials', ...client, clientSecret: new Secret('another one') } as const
    const { upstream } = oauthUpstream(server.url, oauth)
    await expect(upstream.handle(echo(caller('alice')))).rejects.toMatchObject({
      message: 'The authorization server issued no token (invalid_client).',
      category: 'permanent',
      extra: { suggestion: expect.stringContaining('oauth.client_id') },
    })
    expect(upstream.status.problem).toContain('(invalid_client). To mend it, correct oauth.client_id')
  })

  it.each(['2025-11-25', '2024-11-05'] as const)('a token is sent to a %s server', async (revision) => {
    const transport = revision === '2024-11-05' ? 'sse' : 'http'
    const { server } = await world({}, { revision, transport })
    const settings = { revision: 'auto', transport: 'auto' } as const
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client }, { settings })
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
  })

  it('a configured issuer or token endpoint, resource, audience and scopes are used', async () => {
    const { authority, server } = await world()
    for (const where of [{ issuer: authority.issuer }, { tokenEndpoint: `${authority.issuer}/token` }]) {
      const asked = { ...client, ...where, scopes: ['read', 'write'], audience: 'some' }
      const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...asked })
      expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
    }
    expect(authority.grants).toHaveLength(2)
    for (const grant of authority.grants) {
      expect(Object.fromEntries(grant)).toMatchObject({
        scope: 'read write',
        resource: server.url,
        audience: 'some',
      })
    }
  })

  it('concurrent calls share one token request', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    await Promise.all(['a', 'b', 'c', 'd'].map((id) => upstream.handle(echo(caller(id)))))
    expect(authority.grants).toHaveLength(1)
  })

  it('a call refused with 401 is retried with a fresh token', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    await upstream.handle(echo(caller('alice')))
    const [revoked] = server.tokens
    const { check } = server
    server.check = (token, url) => (token === revoked ? unauthorized(url) : check(token, url))
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(authority.grants).toHaveLength(2)
    expect(server.inner.received('tools/call')).toHaveLength(2)
  })

  it('if every token is refused the server is unavailable, without a sign-in hint', async () => {
    const { server } = await world()
    server.check = (_token, url) => unauthorized(url)
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    const failed = upstream.handle(echo(caller('alice')))
    await expect(failed).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      extra: { details: { http_status: 401 } },
    })
    await expect(failed).rejects.not.toMatchObject({ message: expect.stringMatching(/log ?in|sign/i) })
  })

  it('the error code of the authorization server is reported, without secrets', async () => {
    const { server } = await world()
    const wrong = { clientId: CLIENT.id, clientSecret: new Secret('wrong-secret') }
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...wrong })
    const error: unknown = await upstream.handle(echo(caller('alice'))).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      message: expect.stringContaining('invalid_client'),
    })
    expect(JSON.stringify(error)).not.toContain('wrong-secret')
  })
})

describe('upstream token exchange', () => {
  it('C077 the server receives a token for its own audience and never that of the caller', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client })
    const own = await authority.tokenFor('alice', 'http://gateway.example/mcp')
    expect(textOf(await upstream.handle(echo(caller('alice', own))))).toBeDefined()
    const [token = ''] = server.tokens
    expect(await authority.verify(token, server.url)).toMatchObject({ sub: 'alice', aud: server.url })
    expect(JSON.stringify(server.headers)).not.toContain(own)
    expect(JSON.stringify(server.inner.seen)).not.toContain(own)
  })

  it('exchanged tokens are separate per caller and per token', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client })
    const [alice, bob] = [
      await authority.tokenFor('alice', 'gateway'),
      await authority.tokenFor('bob', 'gateway'),
    ]
    const other = await authority.tokenFor('alice', 'another')
    for (const [id, token] of [
      ['alice', alice],
      ['bob', bob],
      ['alice', other],
      ['alice', alice],
    ] as const) {
      await upstream.handle(echo(caller(id, token)))
    }
    const subjects = await Promise.all([...server.tokens].map((token) => authority.verify(token, server.url)))
    expect(subjects.map(({ sub }) => sub)).toEqual(['alice', 'bob', 'alice'])
    expect(authority.grants).toHaveLength(3)
  })

  it.each(['2026-07-28', '2025-11-25'] as const)(
    'C077 an exchanged token is used only for the caller token it was exchanged for, with a %s server',
    async (revision) => {
      const { authority, server } = await world({}, { revision })
      const settings = { revision } as const
      const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client }, { settings })
      const [broad, narrow] = [
        await authority.tokenFor('alice', 'gateway'),
        await authority.tokenFor('alice', 'another'),
      ]
      const shown = new Map<string, Set<unknown>>()
      const call = async (token: string): Promise<void> => {
        const before = server.headers.length
        await upstream.handle(echo(caller('alice', token)))
        const sent = server.headers.slice(before).map(({ authorization }) => authorization)
        shown.set(token, new Set([...(shown.get(token) ?? []), ...sent.filter(Boolean)]))
      }
      for (const token of [broad, narrow, broad, narrow]) await call(token)
      expect([shown.get(broad)?.size, shown.get(narrow)?.size]).toEqual([1, 1])
      expect(shown.get(broad)).not.toEqual(shown.get(narrow))
      // Concurrent requests use the two tokens in equal parts.
      const before = server.headers.length
      await Promise.all(
        [broad, narrow, broad, narrow].map((token) => upstream.handle(echo(caller('alice', token)))),
      )
      const sent = server.headers.slice(before).map(({ authorization }) => authorization)
      const [ofBroad] = shown.get(broad) ?? []
      expect(sent.filter((each) => each === ofBroad)).toHaveLength(2)
      expect(sent).toHaveLength(4)
    },
  )

  it('an exchanged token is valid no longer than the token of the caller', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client })
    const token = await authority.tokenFor('alice', 'gateway')
    const spent = { ...caller('alice', token), claims: { exp: Math.floor(Date.now() / 1000) - 1 } }
    await upstream.handle(echo(spent))
    const before = authority.grants.length
    await upstream.handle(echo(spent))
    expect(authority.grants.length).toBeGreaterThan(before)
  })

  it('a caller without a token receives an error that says so', async () => {
    const { server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client })
    await expect(upstream.handle(echo(caller('alice')))).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      message: expect.stringContaining('the request has no token'),
    })
  })

  it('invalid caller tokens fail any number of times without effect on other callers', async () => {
    const { authority, server } = await world()
    const { upstream } = oauthUpstream(server.url, { grant: 'token_exchange', ...client })
    for (let attempt = 0; attempt < 8; attempt++) {
      await expect(upstream.handle(echo(caller('mallory', `forged-${attempt}`)))).rejects.toMatchObject({
        code: 'SERVER_UNAVAILABLE',
        extra: { details: { http_status: 401, oauth_error: 'invalid_grant' } },
      })
    }
    const token = await authority.tokenFor('alice', 'gateway')
    expect(textOf(await upstream.handle(echo(caller('alice', token))))).toBeDefined()
  })
})
