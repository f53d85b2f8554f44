import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { caller, echo, oauthUpstream, textOf } from '../../../support/oauth-upstream.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'
import { protectedServer, unauthorized } from '../../../support/protected-server.ts'

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const client = { clientId: 'gateway', clientSecret: new Secret('a-secret') }

/** A server, its authorization server, and an identity provider that asserts who has a token of the form `id-NAME`. */
async function world(
  answers: { readonly provider?: SiteAnswer; readonly grant?: SiteAnswer } = {},
  options: Parameters<typeof protectedServer>[1] = {},
) {
  const tokens = new Map<string, string>()
  const authority = await httpSite(({ path, body }, own) => {
    if (path === '/token') {
      const form = new URLSearchParams(body)
      const token = `token-${tokens.size + 1}`
      tokens.set(token, form.get('assertion') ?? '')
      return answers.grant ?? { body: { access_token: token, token_type: 'Bearer', expires_in: 3600 } }
    }
    if (!path.startsWith('/.well-known/oauth-authorization-server')) return { status: 404 }
    return { body: { issuer: own, token_endpoint: `${own}/token` } }
  })
  const provider = await httpSite(({ path, body }, own) => {
    if (path === '/exchange') {
      const person = /^id-(\w+)$/.exec(new URLSearchParams(body).get('subject_token') ?? '')?.[1]
      if (answers.provider) return answers.provider
      if (person === undefined) return { status: 400, body: { error: 'invalid_grant' } }
      const type = 'urn:ietf:params:oauth:token-type:id-jag'
      return { body: { access_token: `jag-${person}`, issued_token_type: type, token_type: 'N_A' } }
    }
    if (path !== '/.well-known/openid-configuration') return { status: 404 }
    return { body: { issuer: own, token_endpoint: `${own}/exchange` } }
  })
  const server = await protectedServer(
    (token, url) => (tokens.has(token ?? '') ? undefined : unauthorized(url, 'read')),
    options,
  )
  server.metadata = { resource: server.url, authorization_servers: [authority.origin] }
  const assertions = (): unknown[] => [...server.tokens].map((token) => tokens.get(token))
  const forms = (site: typeof authority) =>
    site.requests
      .filter(({ method }) => method === 'POST')
      .map(({ body }) => Object.fromEntries(new URLSearchParams(body)))
  return { authority, provider, server, assertions, forms }
}

async function fileWith(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'assertion-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'token')
  await writeFile(file, text)
  return file
}

describe('a token for the assertion of the gateway itself', () => {
  it('the assertion is read at each request, because the platform replaces it', async () => {
    const { authority, server, assertions, forms } = await world()
    const assertionFile = await fileWith('workload-1\n')
    const { upstream } = oauthUpstream(server.url, {
      grant: 'jwt_bearer',
      clientId: 'gateway',
      assertionFile,
    })
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(textOf(await upstream.handle(echo(caller('bob'))))).toBeDefined()
    expect(forms(authority)).toEqual([
      {
        grant_type: JWT_BEARER,
        assertion: 'workload-1',
        client_id: 'gateway',
        resource: server.url,
        scope: 'read',
      },
    ])
    await writeFile(assertionFile, 'workload-2')
    const { check } = server
    server.check = (token, url) => (token === 'token-1' ? unauthorized(url) : check(token, url))
    expect(textOf(await upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(assertions()).toEqual(['workload-1', 'workload-2'])
  })

  it.each(['', 'x'.repeat(70_000)])(
    'a file that is empty or too large is named to the operator',
    async (text) => {
      const { server } = await world()
      const assertionFile = await fileWith(text)
      const { upstream } = oauthUpstream(server.url, {
        grant: 'jwt_bearer',
        clientId: 'gateway',
        assertionFile,
      })
      const failed = upstream.handle(echo(caller('alice')))
      await expect(failed).rejects.toThrow('The token that the gateway presents cannot be read.')
      await expect(failed).rejects.toMatchObject({
        category: 'permanent',
        extra: { forOperator: expect.stringContaining(assertionFile) },
      })
    },
  )

  it('a refused assertion is not presented again at once', async () => {
    const { authority, server, forms } = await world({
      grant: { status: 400, body: { error: 'invalid_grant' } },
    })
    const assertionFile = await fileWith('workload')
    const { upstream } = oauthUpstream(server.url, {
      grant: 'jwt_bearer',
      clientId: 'gateway',
      assertionFile,
    })
    await expect(upstream.handle(echo(caller('alice')))).rejects.toMatchObject({ category: 'permanent' })
    expect(forms(authority)).toHaveLength(1)
  })
})

describe('a token for the identity of a caller', () => {
  const provided = (issuer: string) =>
    ({
      issuer,
      clientId: 'gateway-at-idp',
      clientSecret: new Secret('idp-secret'),
      subjectTokenType: 'id_token',
    }) as const

  it('the identity provider asserts each caller to the authorization server of the server', async () => {
    const { authority, provider, server, assertions, forms } = await world()
    const identityProvider = provided(provider.origin)
    const { upstream } = oauthUpstream(server.url, { grant: 'jwt_bearer', ...client, identityProvider })
    for (const name of ['alice', 'bob', 'alice'])
      expect(textOf(await upstream.handle(echo(caller(name, `id-${name}`))))).toBeDefined()
    expect(assertions()).toEqual(['jag-alice', 'jag-bob'])
    const found = provider.requests.filter(({ path }) => path === '/.well-known/openid-configuration')
    expect(found).toHaveLength(1)
    expect(forms(provider)[0]).toEqual({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
      audience: authority.origin,
      resource: server.url,
      scope: 'read',
      subject_token: 'id-alice',
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
    })
    expect(forms(authority)[0]).toEqual({
      grant_type: JWT_BEARER,
      assertion: 'jag-alice',
      resource: server.url,
      scope: 'read',
    })
    const seen = JSON.stringify([server.headers, authority.requests])
    expect(seen).not.toMatch(/id-alice|idp-secret/)
    expect(JSON.stringify(provider.requests)).not.toContain('a-secret')
  })

  it.each(['2026-07-28', '2025-11-25'] as const)(
    'tokens of one caller are not interchangeable, with a %s server',
    async (revision) => {
      const { provider, server, assertions } = await world({}, { revision })
      const oauth = { grant: 'jwt_bearer', ...client, identityProvider: provided(provider.origin) } as const
      const { upstream } = oauthUpstream(server.url, oauth, { settings: { revision } })
      const shown: unknown[] = []
      for (const token of ['id-alice', 'id-bob', 'id-alice', 'id-bob']) {
        const before = server.headers.length
        await upstream.handle(echo(caller('same', token)))
        const sent = server.headers.slice(before).map(({ authorization }) => authorization)
        shown.push([...new Set(sent.filter(Boolean))])
      }
      expect(assertions()).toEqual(['jag-alice', 'jag-bob'])
      expect(shown).toEqual(['1', '2', '1', '2'].map((number) => [`Bearer token-${number}`]))
    },
  )

  it('a caller without a token, or with one that the provider refuses, gets nothing', async () => {
    const { authority, provider, server, forms } = await world()
    const identityProvider = provided(provider.origin)
    const { upstream } = oauthUpstream(server.url, { grant: 'jwt_bearer', ...client, identityProvider })
    await expect(upstream.handle(echo(caller('alice')))).rejects.toThrow('the request has no token')
    await expect(upstream.handle(echo(caller('eve', 'forged')))).rejects.toMatchObject({
      category: 'permanent',
    })
    expect(forms(authority)).toEqual([])
  })

  it('one person who uses the gateway has a token in a file', async () => {
    const { provider, server, assertions } = await world()
    const subjectTokenFile = await fileWith('id-carol')
    const identityProvider = { ...provided(provider.origin), subjectTokenFile }
    const { upstream } = oauthUpstream(server.url, { grant: 'jwt_bearer', ...client, identityProvider })
    expect(textOf(await upstream.handle(echo(caller('any'))))).toBeDefined()
    expect(assertions()).toEqual(['jag-carol'])
  })

  it.each<SiteAnswer>([
    { status: 400, body: { error: 'invalid_target' } },
    { type: 'text/html', body: '<html>' },
    { body: { token_type: 'N_A' } },
    { body: { access_token: 'of-the-provider', token_type: 'Bearer' } },
    {
      body: {
        access_token: 'of-the-provider',
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
      },
    },
  ])('an identity provider that answers %j is a permanent failure', async (answer) => {
    const { authority, provider, server, forms } = await world({ provider: answer })
    const identityProvider = provided(provider.origin)
    const { upstream } = oauthUpstream(server.url, { grant: 'jwt_bearer', ...client, identityProvider })
    await expect(upstream.handle(echo(caller('alice', 'id-alice')))).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'permanent',
    })
    expect(forms(authority)).toEqual([])
  })

  it('an identity provider without metadata is named', async () => {
    const { server } = await world()
    const elsewhere = await httpSite(() => ({ status: 404 }))
    const identityProvider = provided(elsewhere.origin)
    const { upstream } = oauthUpstream(server.url, { grant: 'jwt_bearer', ...client, identityProvider })
    await expect(upstream.handle(echo(caller('alice', 'id-alice')))).rejects.toMatchObject({
      extra: { suggestion: expect.stringContaining('oauth.identity_provider') },
    })
  })
})
