import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { OAuthSettings } from '../../../../src/core/settings.ts'
import { findIssuer } from '../../../../src/upstream/oauth/discovery.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'

type Pages = (origin: string) => Readonly<Record<string, unknown>>

/** A server with the given documents by path. */
async function site(pages: Pages, challenge?: (origin: string) => string) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    requests.push(path)
    if (request.method === 'POST') {
      const header = challenge?.(origin)
      return void response.writeHead(401, header === undefined ? {} : { 'www-authenticate': header }).end()
    }
    const page = pages(origin)[path]
    response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(page ?? {}))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const http = createOAuthHttp(true)
  onTestFinished(async () => {
    await http.close()
    server.closeAllConnections()
    server.close()
  })
  const url = `${origin}/at/mcp`
  const oauth = { grant: 'authorization_code', scopes: [], resource: url } as const
  return { origin, requests, url, find: () => findIssuer({ url, headers: {}, oauth, http }) }
}

const prm = '/.well-known/oauth-protected-resource'
const asm = '/.well-known/oauth-authorization-server'

describe('discovery of the authorization server', () => {
  it('the issuer is the one in the metadata that the server points to', async () => {
    const { origin, find, url, requests } = await site(
      (own) => ({
        '/meta': {
          resource: `${own}/at/mcp`,
          authorization_servers: [`${own}/tenant`],
          scopes_supported: ['all'],
        },
        [`${asm}/tenant`]: { issuer: `${own}/tenant`, token_endpoint: `${own}/token` },
      }),
      (own) => `Bearer error="invalid_token", resource_metadata="${own}/meta", scope="a b"`,
    )
    expect(await find()).toMatchObject({
      server: { issuer: `${origin}/tenant` },
      resource: url,
      scopes: ['a', 'b'],
    })
    expect(requests).toEqual(['/at/mcp', '/meta', `${asm}/tenant`])
  })

  it('well-known locations are tried, the one with the path first', async () => {
    const { origin, find, requests } = await site((own) => ({
      [prm]: { resource: own, authorization_servers: [own], scopes_supported: ['all'] },
      '/.well-known/openid-configuration': { issuer: own, token_endpoint: `${own}/token` },
    }))
    expect(await find()).toMatchObject({ server: { issuer: origin }, resource: origin, scopes: ['all'] })
    expect(requests.slice(1)).toEqual([`${prm}/at/mcp`, prm, asm, '/.well-known/openid-configuration'])
  })

  it('the issuer is the server itself without metadata, as in 2025-03-26', async () => {
    const { origin, find } = await site((own) => ({ [asm]: { issuer: own, token_endpoint: `${own}/token` } }))
    expect(await find()).toMatchObject({ server: { issuer: origin } })
  })

  it.each<[string, Pages]>([
    [
      'another resource',
      () => ({
        [prm]: { resource: 'https://other.example/', authorization_servers: ['https://as.example'] },
      }),
    ],
    [
      'a path of itself that differs',
      (own) => ({ [prm]: { resource: `${own}/at/m`, authorization_servers: [own] } }),
    ],
    ['no authorization server', (own) => ({ [prm]: { resource: own, authorization_servers: [] } })],
    [
      'an authorization server over plain HTTP',
      (own) => ({ [prm]: { resource: own, authorization_servers: ['http://as.example'] } }),
    ],
    [
      'an authorization server with another issuer',
      (own) => ({
        [prm]: { resource: own, authorization_servers: [own] },
        [asm]: { issuer: 'https://as.example', token_endpoint: 'https://as.example/token' },
      }),
    ],
  ])('discovery fails if a server names %s', async (_name, pages) => {
    const { find } = await site(pages)
    await expect(find()).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})

type Answers = (origin: string) => Readonly<Record<string, SiteAnswer>>

/** Finds the issuer of a server whose answers are these by path; others are not found. */
async function found(answers: Answers, challenge?: string | string[], oauth: Partial<OAuthSettings> = {}) {
  const { origin, requests } = await httpSite((request, own) => {
    if (request.method === 'POST')
      return { status: 401, headers: challenge === undefined ? {} : { 'www-authenticate': challenge } }
    return answers(own)[request.path] ?? { status: 404, body: { error: 'not found' } }
  })
  const http = createOAuthHttp(true)
  onTestFinished(() => http.close())
  const url = `${origin}/at/mcp`
  const settings: OAuthSettings = { grant: 'authorization_code', scopes: [], resource: url, ...oauth }
  const issuer = findIssuer({ url, headers: {}, oauth: settings, http })
  return { origin, issuer, requests }
}

const metadataOf = (origin: string, path = '') => ({
  issuer: origin + path,
  token_endpoint: `${origin}${path}/token`,
  authorization_endpoint: `${origin}${path}/authorize`,
})

/** What is at a place that has no document. */
const none: Readonly<Record<string, SiteAnswer>> = {
  'a page': { type: 'text/html', body: '<!doctype html><title>app</title>' },
  'a page that calls itself JSON': { body: '<!doctype html>' },
  nothing: { body: '' },
  '{}': { body: {} },
  'a list': { body: [] },
  null: { body: 'null' },
  'an error in JSON': { body: { error: 'not_found', status: 404 } },
  'null for all': {
    body: { issuer: null, token_endpoint: null, resource: null, authorization_servers: null },
  },
  '204': { status: 204 },
  '301 to nowhere': { status: 301, headers: { location: '/nowhere' } },
  '302 in a circle': { status: 302, headers: { location: asm } },
  '302 without a place': { status: 302 },
  '401': { status: 401, body: { error: 'invalid_token' } },
  '403': { status: 403, type: 'text/html', body: '<html>' },
  '404': { status: 404, type: 'text/html', body: '<html>' },
  '405': { status: 405 },
  '500': { status: 500, type: 'text/plain', body: 'x' },
  '503': { status: 503 },
  '429': { status: 429 },
}

describe('metadata that is not at the first place', () => {
  it.each(Object.entries(none))('of an issuer: %s is at the first place', async (_name, answer) => {
    const { origin, issuer } = await found((own) => ({
      [`${prm}/at/mcp`]: { body: { resource: `${own}/at/mcp`, authorization_servers: [`${own}/t`] } },
      [`${asm}/t`]: answer,
      '/.well-known/openid-configuration/t': answer,
      '/t/.well-known/openid-configuration': { body: metadataOf(own, '/t') },
    }))
    expect(await issuer).toMatchObject({ server: metadataOf(origin, '/t') })
  })

  it.each(Object.entries(none))('of a server: %s is where the challenge says', async (_name, answer) => {
    const { origin, issuer } = await found(
      (own) => ({
        '/meta': answer,
        [`${prm}/at/mcp`]: answer,
        [prm]: { body: { resource: own, authorization_servers: [own] } },
        [asm]: { body: metadataOf(own) },
      }),
      'Bearer resource_metadata="/meta"',
    )
    expect(await issuer).toMatchObject({ server: { issuer: origin }, resource: origin })
  })

  it.each<[string, SiteAnswer]>([
    ['under another content type', { type: 'text/plain' }],
    ['with a byte order mark', {}],
    ['after a redirect', { status: 308, headers: { location: '/moved' } }],
  ])('metadata is found %s', async (kind, answer) => {
    const { origin, issuer } = await found((own) => {
      const body = (kind.includes('mark') ? '\u{feff}' : '') + JSON.stringify(metadataOf(own))
      return { [asm]: { body, ...answer }, '/moved': { body } }
    })
    expect(await issuer).toMatchObject({ server: { issuer: origin } })
  })

  it.each<[string, string | string[]]>([
    ['relative', 'Bearer resource_metadata="/meta"'],
    ['relative to the server', 'Bearer resource_metadata="../meta"'],
    ['without quotation marks', 'Bearer resource_metadata=/meta'],
    ['named twice', 'Bearer resource_metadata="/nowhere", resource_metadata="/meta"'],
    ['in another header', ['Basic realm="Bearer"', 'Bearer resource_metadata="/meta"']],
    ['no URL, then one', 'Bearer resource_metadata="http://[", resource_metadata="/meta"'],
  ])('a place that is %s is used', async (_name, challenge) => {
    const { origin, issuer, requests } = await found(
      (own) => ({
        '/meta': { body: { resource: `${own}/at/mcp`, authorization_servers: own } },
        [asm]: { body: metadataOf(own) },
      }),
      challenge,
    )
    expect(await issuer).toMatchObject({ server: { issuer: origin } })
    expect(requests.map(({ path }) => path)).toContain('/meta')
  })

  it('a place that cannot be reached does not end the search', async () => {
    const { origin, issuer } = await found(
      (own) => ({
        [`${prm}/at/mcp`]: {
          body: { resource: own, authorization_servers: [null, 7, 'http://127.0.0.1:1/x', own] },
        },
        [asm]: { body: metadataOf(own) },
      }),
      'Bearer resource_metadata="http://127.0.0.1:1/meta"',
    )
    expect(await issuer).toMatchObject({ server: { issuer: origin } })
  })
})

it('no more than a few places and issuers that a server names are tried', async () => {
  const many = Array.from({ length: 50 }, (_each, at) => `/meta${at}`)
  const { issuer, requests } = await found(
    (own) => ({ [prm]: { body: { resource: own, authorization_servers: many.map((path) => own + path) } } }),
    many.map((path) => `Bearer resource_metadata="${path}"`),
  )
  await expect(issuer).rejects.toMatchObject({ category: 'permanent' })
  // The probe, five places of the server, and three places of each of three issuers.
  expect(requests).toHaveLength(1 + 5 + 9)
})

describe('metadata of an issuer', () => {
  it.each([
    ['/t', '/t/'],
    ['/t/', '/t'],
    ['', '/'],
    ['/', ''],
  ])('the issuer %j may call itself %j', async (named, own) => {
    const { origin, issuer } = await found((site) => ({
      [prm]: { body: { resource: site, authorization_servers: [site + named] } },
      [asm + named.replace(/\/$/, '')]: { body: { ...metadataOf(site), issuer: site + own } },
    }))
    // What the callback must name (RFC 9207), exactly.
    expect((await issuer).server.issuer).toBe(origin + own)
  })

  it.each(['/t//', '/T', '/t/x', '/t?a', '//t'])('the issuer /t may not call itself %s', async (own) => {
    const { issuer } = await found((site) => ({
      [prm]: { body: { resource: site, authorization_servers: [`${site}/t`] } },
      [`${asm}/t`]: { body: { ...metadataOf(site), issuer: site + own } },
    }))
    await expect(issuer).rejects.toMatchObject({
      category: 'permanent',
      message: expect.stringContaining('another one'),
    })
  })

  it('null and wrong types are as good as nothing, and relative endpoints are resolved', async () => {
    const { origin, issuer } = await found((own) => ({
      [asm]: {
        body: {
          ...metadataOf(own),
          token_endpoint: '/token',
          registration_endpoint: null,
          scopes_supported: null,
          token_endpoint_auth_methods_supported: 'client_secret_post',
          code_challenge_methods_supported: ['S256', 7],
          response_types_supported: {},
          token_endpoint_auth_signing_alg_values_supported: true,
          claims_parameter_supported: true,
          jwks_uri: null,
        },
      },
    }))
    expect((await issuer).server).toEqual({
      ...metadataOf(origin),
      token_endpoint_auth_methods_supported: ['client_secret_post'],
      code_challenge_methods_supported: ['S256'],
      claims_parameter_supported: true,
    })
  })

  it.each([
    [
      ['a', null, 'b'],
      ['a', 'b'],
    ],
    ['a b', ['a', 'b']],
    [
      ['a b', 'openid'],
      ['a', 'b'],
    ],
    [null, []],
    [{}, []],
  ])('the scopes %j of a server are %j', async (scopes, expected) => {
    const { issuer } = await found((own) => ({
      [prm]: { body: { resource: own, authorization_servers: [own], scopes_supported: scopes } },
      [asm]: { body: metadataOf(own) },
    }))
    expect((await issuer).scopes).toEqual(expected)
  })

  it('without any metadata the endpoints are where 2025-03-26 says', async () => {
    const { origin, issuer } = await found(() => ({}))
    expect((await issuer).server).toEqual({
      ...metadataOf(origin),
      registration_endpoint: `${origin}/register`,
      code_challenge_methods_supported: ['S256'],
    })
  })

  it.each<[string, Answers]>([
    ['the metadata of the server', () => ({ [prm]: { status: 503 } })],
    ['the metadata of its issuer', () => ({ [asm]: { status: 500 } })],
    [
      'the metadata of the issuer that it names',
      (own) => ({
        [prm]: { body: { resource: own, authorization_servers: [`${own}/t`] } },
        [`${asm}/t`]: { status: 502 },
      }),
    ],
  ])('a failure of %s may pass, and nothing is guessed', async (_name, answers) => {
    const { issuer } = await found(answers)
    await expect(issuer).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE', category: 'transient' })
  })

  it.each<[string, Answers]>([
    [
      'no metadata of the issuer',
      (own) => ({ [prm]: { body: { resource: own, authorization_servers: [`${own}/t`] } } }),
    ],
    [
      'no resource',
      (own) => ({ [prm]: { body: { authorization_servers: [own] } }, [asm]: { body: metadataOf(own) } }),
    ],
    ['no token endpoint', (own) => ({ [asm]: { body: { issuer: own } } })],
    [
      'a forged issuer',
      (own) => ({ [asm]: { body: { ...metadataOf(own), issuer: 'https://evil.example' } } }),
    ],
  ])('%s is permanent and names the fix', async (_name, answers) => {
    const { issuer } = await found(answers)
    await expect(issuer).rejects.toMatchObject({
      category: 'permanent',
      extra: { suggestion: expect.stringContaining('oauth.issuer') },
    })
  })

  it.each<[string | string[], unknown, boolean]>([
    ['DPoP algs="ES256"', {}, true],
    ['Bearer realm="x"', { dpop_bound_access_tokens_required: true }, true],
    ['Bearer realm="x", DPoP algs="ES256"', {}, false],
    ['Bearer', { dpop_bound_access_tokens_required: null }, false],
  ])('after %j and %j a key is needed: %s', async (challenge, metadata, needsDpop) => {
    const { issuer } = await found(
      (own) => ({
        [prm]: { body: { resource: own, authorization_servers: [own], ...Object(metadata) } },
        [asm]: { body: metadataOf(own) },
      }),
      challenge,
    )
    expect(await issuer).toMatchObject({ needsDpop })
  })
})
