import { generateKeyPairSync } from 'node:crypto'
import { createLocalJWKSet, exportJWK, jwtVerify } from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { type OAuthClient, requestToken } from '../../../../src/upstream/oauth/token-endpoint.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import { configured } from '../../../../src/upstream/oauth/registration.ts'
import { httpSite, type SiteRequest } from '../../../support/http-site.ts'

type Pair = readonly [id: string, secret: string] | undefined

/** How servers read HTTP Basic, and which of them read the form. */
const servers = {
  decoding: (request: SiteRequest): Pair => {
    const pair = basicOf(request)?.map((part) => decodeURIComponent(part.replaceAll('+', ' ')))
    return pair && [pair[0] ?? '', pair[1] ?? '']
  },
  literal: (request: SiteRequest): Pair => basicOf(request),
  form: ({ body }: SiteRequest): Pair => {
    const form = new URLSearchParams(body)
    return [form.get('client_id') ?? '', form.get('client_secret') ?? '']
  },
}

function basicOf({ headers }: SiteRequest): Pair {
  const [, value] = /^Basic (.+)$/.exec(String(headers['authorization'])) ?? []
  const [, id, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(value ?? '', 'base64').toString()) ?? []
  return id === undefined || secret === undefined ? undefined : [id, secret]
}

async function conversation(accepts: (request: SiteRequest) => boolean) {
  const { origin, requests } = await httpSite((request) =>
    accepts(request)
      ? { body: { access_token: 'abc', token_type: 'Bearer' } }
      : { status: 401, body: { error: 'invalid_client' }, headers: { 'www-authenticate': 'Basic' } },
  )
  const http = createOAuthHttp(true)
  onTestFinished(() => http.close())
  const server = { issuer: origin, token_endpoint: `${origin}/token` }
  const request = (client: OAuthClient, metadata = {}): Promise<unknown> =>
    requestToken({ server: { ...server, ...metadata }, client, http }, 'client_credentials', {})
  return { request, requests, server }
}

const basic = ['client_secret_basic']
const post = ['client_secret_post']

describe('a client with a secret', () => {
  const secrets = [
    'plain-secret_1.~',
    'a+b/c=%d',
    '100%',
    'a b&c',
    'pässwörd',
    '%41',
    ':',
    'x\u{d800}y',
    'a==',
  ] as const
  const cases = secrets.flatMap((secret) =>
    (['decoding', 'literal', 'form'] as const).flatMap((kind) =>
      [undefined, basic, post, [...basic, ...post]].map((methods) => [secret, kind, methods] as const),
    ),
  )

  it.each(cases)('%j authenticates at a server that is %s and lists %j', async (secret, kind, methods) => {
    const read = servers[kind]
    const expected = secret.toWellFormed()
    const { request, requests, server } = await conversation((each) => {
      try {
        const [id, given] = read(each) ?? []
        return id === 'gate-way' && given === expected
      } catch {
        return false
      }
    })
    const metadata = methods && { token_endpoint_auth_methods_supported: methods }
    const client = configured({ clientSecret: new Secret(secret) }, 'gate-way', { ...server, ...metadata })
    await expect(request(client, metadata)).resolves.toMatchObject({ value: 'abc' })
    expect(requests.length).toBeLessThanOrEqual(3)
    const before = requests.length
    await request(client, metadata)
    expect(requests).toHaveLength(before + 1)
  })

  it('no more is encoded than servers that decode require', async () => {
    const { request, requests } = await conversation(() => true)
    await request({ id: 'conformance-test', secret: 'a-b/c=d~', auth: 'client_secret_basic' })
    expect(requests.map(basicOf)).toEqual([['conformance-test', 'a-b/c=d~']])
  })

  it('a wrong secret is refused once in each way', async () => {
    const { request, requests } = await conversation(() => false)
    const client = { id: 'gw', secret: 'plain', auth: 'client_secret_basic' } as const
    await expect(request(client)).rejects.toMatchObject({
      extra: { details: { oauth_error: 'invalid_client' } },
    })
    expect(requests).toHaveLength(2)
  })
})

describe('a client with a private key', () => {
  it.each([
    ['ES256', 'PEM', () => generateKeyPairSync('ec', { namedCurve: 'P-256' })],
    ['ES384', 'JWK', () => generateKeyPairSync('ec', { namedCurve: 'P-384' })],
    ['RS256', 'PEM', () => generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['PS256', 'JWK', () => generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['Ed25519', 'PEM', () => generateKeyPairSync('ed25519')],
    ['EdDSA', 'JWK', () => generateKeyPairSync('ed25519')],
  ])('an assertion is signed with %s, with a key as %s', async (algorithm, form, generate) => {
    const { publicKey, privateKey } = generate()
    const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'one' }
    const text =
      form === 'JWK' ? JSON.stringify(jwk) : String(privateKey.export({ type: 'pkcs8', format: 'pem' }))
    const { request, requests, server } = await conversation(() => true)
    const metadata = { token_endpoint_auth_signing_alg_values_supported: [algorithm] }
    await request(configured({ privateKey: new Secret(text) }, 'gw', server), metadata)
    const form1 = new URLSearchParams(requests[0]?.body)
    const keys = createLocalJWKSet({
      keys: [{ ...(await exportJWK(publicKey)), ...(form === 'JWK' && { kid: 'one' }) }],
    })
    const { payload, protectedHeader } = await jwtVerify(form1.get('client_assertion') ?? '', keys)
    expect(payload).toMatchObject({ iss: 'gw', sub: 'gw', aud: server.issuer })
    expect(protectedHeader).toMatchObject({ alg: algorithm, ...(form === 'JWK' && { kid: 'one' }) })
  })

  it.each([
    '',
    'nonsense',
    '{}',
    '{"kty":"oct","k":"AAAA"}',
    '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----',
  ])('what is no key is named: %j', async (text) => {
    const { request, requests } = await conversation(() => true)
    const client = { id: 'gw', key: new Secret(text), auth: 'private_key_jwt' } as const
    await expect(request(client)).rejects.toMatchObject({
      category: 'permanent',
      extra: { suggestion: expect.stringContaining('oauth.private_key') },
    })
    expect(requests).toEqual([])
  })
})
