import { once } from 'node:events'
import { createServer } from 'node:http'
import { type CryptoKey, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { noProxy } from '../../../../src/core/proxy.ts'
import type { AuthSettings, JwtSettings } from '../../../../src/core/auth-settings.ts'
import { cookieOf } from '../../../../src/core/web.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import type { PageSignIn } from '../../../../src/core/audit-step.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { createPageSignIn } from '../../../../src/upstream/oauth/page-sign-in.ts'
import { createTokenVault } from '../../../../src/upstream/oauth/token-vault.ts'
import { badSubjects } from '../../../support/auth/bad-subjects.ts'

type Claims = Readonly<Record<string, unknown>>

/** The ID token of the issuer. */
interface Statement {
  readonly claims?: Claims
  readonly header?: Claims
  readonly key?: CryptoKey | Uint8Array
  /** No ID token at all. */
  readonly isAbsent?: boolean
}

interface Field {
  readonly signIn: PageSignIn
  /** The values written to the store. */
  readonly writes: readonly string[]
  readonly issuer: string
  /** The current settings. */
  jwt: JwtSettings
  base: string | undefined
  /** Offset of the clock in milliseconds. */
  ahead: number
  /** The requests for the issuer's metadata. */
  readonly asked: readonly string[]
  /** Completes a sign-in; returns the cookies of the browser. */
  pass(given?: {
    readonly statement?: Statement
    readonly next?: string
    readonly state?: string
    readonly cookies?: string
  }): Promise<{ readonly next: string; readonly cookies: string }>
}

const CLIENT = { id: 'pages', secret: new Secret('a secret of the pages, of 32 characters') }

async function field(given: Partial<JwtSettings> = {}): Promise<Field> {
  const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true })
  const jwk = { ...(await exportJWK(publicKey)), kid: 'key-1', alg: 'RS256', use: 'sig' }
  const asked: string[] = []
  let nonce = ''
  let statement: Statement = {}
  const idToken = (): Promise<string> => {
    const now = Math.floor((Date.now() + made.ahead) / 1000)
    const usual = { iss: issuer, aud: CLIENT.id, sub: 'anna', nonce, iat: now, exp: now + 300 }
    const claims = JSON.parse(JSON.stringify({ ...usual, ...statement.claims }))
    return new SignJWT(claims)
      .setProtectedHeader({ alg: 'RS256', kid: 'key-1', ...statement.header })
      .sign(statement.key ?? privateKey)
  }
  const server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? ''
    asked.push(path)
    const answer = async (): Promise<unknown> => {
      if (path === '/jwks') return { keys: [jwk] }
      if (path === '/token')
        return {
          access_token: 'a',
          token_type: 'Bearer',
          expires_in: 60,
          ...(!statement.isAbsent && { id_token: await idToken() }),
        }
      if (path !== '/.well-known/openid-configuration') return undefined
      const at = (name: string): string => `${issuer}/${name}`
      return { issuer, authorization_endpoint: at('auth'), token_endpoint: at('token'), jwks_uri: at('jwks') }
    }
    void answer().then((found) => {
      outgoing.writeHead(found ? 200 : 404, { 'content-type': 'application/json' })
      outgoing.end(JSON.stringify(found ?? {}))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const issuer = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  const store = new MemoryStore(() => Date.now() + made.ahead)
  const writes: string[] = []
  const put = store.put.bind(store)
  store.put = (key, value, ttl) => {
    writes.push(key)
    return put(key, value, ttl)
  }
  const signIn = createPageSignIn({
    auth: (): Pick<AuthSettings, 'jwt'> => ({ jwt: made.jwt }),
    base: () => made.base,
    vault: createTokenVault(store),
    proxies: noProxy,
    now: () => Date.now() + made.ahead,
  })
  onTestFinished(async () => {
    await signIn.close()
    server.close()
    server.closeAllConnections()
  })
  const made: Field = {
    signIn,
    writes,
    issuer,
    asked,
    ahead: 0,
    base: 'https://gateway.example/at',
    jwt: {
      issuer,
      audiences: [],
      algorithms: ['RS256', 'ES256'],
      requiredClaims: [],
      scopeClaim: 'scope',
      client: CLIENT,
      ...given,
    },
    pass: async ({ statement: said = {}, next, state, cookies } = {}) => {
      const { url, cookie } = await signIn.begin(next)
      const asks = new URL(url).searchParams
      nonce = asks.get('nonce') ?? ''
      statement = said
      const params = new URLSearchParams({ code: 'a-code', state: state ?? asks.get('state') ?? '' })
      const sent = `other=1; ${cookies ?? ''}; ${cookie.name}=${cookie.value}`
      const done = await signIn.finish(params, (name) => cookieOf(sent, name))
      const kept = done.cookies.filter(({ lifetime }) => lifetime > 0)
      return { next: done.next, cookies: kept.map(({ name, value }) => `${name}=${value}`).join('; ') }
    },
  }
  return made
}

const identity = ({ signIn }: Field, cookies: string): Promise<Claims | undefined> =>
  signIn.identity((name) => cookieOf(cookies, name))

describe('sign-in to the pages', () => {
  it('the authorization request has PKCE, state and nonce, and the sign-in is bound by a cookie', async () => {
    const { signIn, writes, issuer } = await field()
    const { url, cookie } = await signIn.begin('/confirm/a')
    const { origin, pathname, searchParams } = new URL(url)
    expect(origin + pathname).toBe(`${issuer}/auth`)
    expect(Object.fromEntries(searchParams)).toEqual({
      response_type: 'code',
      client_id: 'pages',
      redirect_uri: 'https://gateway.example/at/sign-in/callback',
      scope: 'openid',
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
    })
    expect(cookie).toMatchObject({ path: '/at/sign-in/callback', lifetime: 600, isSecure: true })
    for (const name of ['state', 'nonce']) expect(cookie.value).not.toContain(String(searchParams.get(name)))
    // Anyone can begin a sign-in without consuming memory.
    expect(writes).toEqual([])
  })

  it('a person stays signed in for an hour in that browser, until signing out', async () => {
    const made = await field()
    const { next, cookies } = await made.pass({ next: '/confirm/a?b=c' })
    expect(next).toBe('https://gateway.example/at/confirm/a?b=c')
    expect(await identity(made, cookies)).toEqual({ iss: made.issuer, sub: 'anna' })
    expect(await identity(made, '')).toBeUndefined()
    expect(
      await identity(
        made,
        cookies.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
      ),
    ).toBeUndefined()
    made.ahead = 3_599_000
    expect(await identity(made, cookies)).toBeDefined()
    made.ahead = 3_601_000
    expect(await identity(made, cookies)).toBeUndefined()
    made.ahead = 0
    const other = await made.pass()
    const ended = await made.signIn.end((name) => cookieOf(other.cookies, name))
    expect(ended).toMatchObject({ next: 'https://gateway.example/at/', cookie: { value: '', lifetime: 0 } })
    expect(await identity(made, other.cookies)).toBeUndefined()
  })

  it('a session contains only identity and scopes, and replaces the previous session', async () => {
    const made = await field({ scopeClaim: 'roles' })
    const claims = { roles: ['read:files'], email: 'anna@example.com' }
    const first = await made.pass({ statement: { claims } })
    expect(await identity(made, first.cookies)).toEqual({
      iss: made.issuer,
      sub: 'anna',
      roles: ['read:files'],
    })
    const second = await made.pass({ cookies: first.cookies })
    expect(await identity(made, first.cookies)).toBeUndefined()
    expect(await identity(made, second.cookies)).toMatchObject({ sub: 'anna' })
  })

  it.each([
    ['another issuer', { issuer: 'https://other.example' }],
    ['another client', { client: { id: 'other' } }],
    ['no sign-in', { client: undefined }],
  ])('sessions end when the configuration has %s', async (_case, { ...change }) => {
    const made = await field()
    const { cookies } = await made.pass()
    const { client: _client, ...rest } = made.jwt
    made.jwt = { ...rest, ...(change as Partial<JwtSettings>) }
    const renamed = cookies.replace(/^[^=]+/, '')
    const known = await made.signIn.identity((name) => cookieOf(cookies, name) ?? renamed.slice(1))
    expect(known).toBeUndefined()
  })

  const ours = new TextEncoder().encode(CLIENT.secret.reveal())
  it.each<[string, Statement]>([
    ['has a different nonce', { claims: { nonce: 'another' } }],
    ['has no nonce', { claims: { nonce: null } }],
    ['is for another client', { claims: { aud: 'other' } }],
    ['is for several clients, with another azp', { claims: { aud: ['pages', 'other'], azp: 'other' } }],
    ['has a different issuer', { claims: { iss: 'https://other.example' } }],
    ['has expired', { claims: { exp: 1000 } }],
    ['has no subject', { claims: { sub: undefined } }],
    ['is signed with the client secret', { header: { alg: 'HS256' }, key: ours }],
    ['is signed with another algorithm', { header: { alg: 'PS256' } }],
    ['is missing', { isAbsent: true }],
  ])('an ID token is refused if it %s', async (_case, statement) => {
    const made = await field()
    const key =
      statement.header?.['alg'] === 'PS256' ? (await generateKeyPair('PS256')).privateKey : statement.key
    await expect(made.pass({ statement: { ...statement, ...(key && { key }) } })).rejects.toThrow(
      'The authorization server issued no token (',
    )
  })

  it.each(badSubjects)('an ID token whose subject %s is refused', async (_what, sub) => {
    await expect((await field()).pass({ statement: { claims: { sub } } })).rejects.toThrow(
      /has no subject that can name a person|issued no token/,
    )
  })

  it('an ID token signed by another key or without required claims is refused', async () => {
    const made = await field({ requiredClaims: ['tenant', 'client_id'] })
    const { privateKey: key } = await generateKeyPair('RS256')
    const claims = { tenant: 'a' }
    await expect(made.pass({ statement: { claims, key } })).rejects.toThrow('issued no token')
    await expect(made.pass()).rejects.toThrow('lacks a claim that the configuration requires')
    expect((await made.pass({ statement: { claims } })).cookies).not.toBe('')
  })

  it('ID tokens are verified with the keys of the issuer even if bearer tokens use a shared key', async () => {
    const made = await field({ secret: CLIENT.secret, algorithms: ['HS256'] })
    expect(await identity(made, (await made.pass()).cookies)).toMatchObject({ sub: 'anna' })
    const statement = { header: { alg: 'HS256' }, key: ours }
    await expect(made.pass({ statement })).rejects.toThrow('issued no token')
  })

  it('a state of another sign-in or browser, and a late callback, are refused', async () => {
    const made = await field()
    const before = made.asked.length
    await expect(made.pass({ state: 'x'.repeat(43) })).rejects.toThrow('another browser')
    const { url } = await made.signIn.begin('/')
    const state = new URL(url).searchParams.get('state') ?? ''
    await expect(
      made.signIn.finish(new URLSearchParams({ code: 'a', state }), () => undefined),
    ).rejects.toThrow('another browser')
    const { cookie } = await made.signIn.begin('/')
    // The cookie of one state under the name of another.
    await expect(
      made.signIn.finish(new URLSearchParams({ code: 'a', state }), () => cookie.value),
    ).rejects.toThrow('another browser')
    expect(made.asked.slice(before)).not.toContain('/token')
    const late = made.signIn.begin('/').then(async ({ url: asks, cookie: way }) => {
      made.ahead = 601_000
      const params = new URLSearchParams({ code: 'a', state: new URL(asks).searchParams.get('state') ?? '' })
      return made.signIn.finish(params, () => way.value)
    })
    await expect(late).rejects.toThrow('has expired')
  })

  it.each([
    ['https://gateway.example', /^__Host-gatehouse-session-/, '/'],
    ['https://gateway.example/at', /^__Secure-gatehouse-session-/, '/at'],
    ['http://127.0.0.1:8900', /^gatehouse-session-/, '/'],
  ])('the session cookie of %s is protected by its prefix and attributes', async (base, name, path) => {
    const made = await field()
    made.base = base
    const { cookies } = await made.pass()
    expect(cookies).toMatch(name)
    expect(await identity(made, cookies)).toBeDefined()
    const ended = await made.signIn.end((each) => cookieOf(cookies, each))
    expect(ended?.cookie).toMatchObject({ path, lifetime: 0, isSecure: base.startsWith('https:') })
    expect(ended?.cookie.name).toMatch(name)
  })

  it('sign-in is not offered without a client or without a reachable callback', async () => {
    const made = await field()
    expect(made.signIn.link('/confirm/a')).toBe('https://gateway.example/at/sign-in?next=%2Fconfirm%2Fa')
    made.base = undefined
    expect(made.signIn.link('/')).toBeUndefined()
    await expect(made.signIn.begin('/')).rejects.toMatchObject({ code: 'UNSUPPORTED_OPERATION' })
    made.base = 'https://gateway.example'
    const { client: _client, ...rest } = made.jwt
    made.jwt = rest
    expect(made.signIn.link('/')).toBeUndefined()
    expect(await made.signIn.end(() => undefined)).toBeUndefined()
  })

  it('an unavailable issuer is requested only once in a while', async () => {
    const made = await field()
    made.jwt = { ...made.jwt, issuer: `${made.issuer}/elsewhere` }
    for (let count = 0; count < 3; count++)
      await expect(made.signIn.begin('/')).rejects.toThrow('Sign-in is not available')
    expect(made.asked).toHaveLength(3)
    made.ahead = 5001
    await expect(made.signIn.begin('/')).rejects.toThrow('Sign-in is not available')
    expect(made.asked).toHaveLength(6)
  })

  it.each([
    [undefined, '/'],
    ['', '/'],
    ['/confirm', '/confirm'],
    ['/confirm/0123?a=b', '/confirm/0123?a=b'],
    ['/a/../confirm', '/confirm'],
    ['confirm', '/'],
    ['https://evil.example/', '/'],
    ['//evil.example/', '/'],
    ['/\\evil.example/', '/'],
    ['\\\\evil.example', '/'],
    ['/\t/evil.example', '/'],
    ['/\n/evil.example', '/'],
    ['/.//evil.example', '/'],
    ['/..//evil.example', '/'],
    ['javascript:alert(1)', '/'],
    ['/sign-in', '/'],
    ['/sign-in/callback?code=a', '/'],
    ['/x/../sign-out', '/'],
    ['/confirm#https://evil.example', '/confirm'],
    [`/${'a'.repeat(3000)}`, '/'],
  ])('the redirect after sign-in from %j goes to %s', async (next, expected) => {
    const made = await field()
    const passed = await made.pass({ ...(next !== undefined && { next }) })
    expect(passed.next).toBe(`https://gateway.example/at${expected}`)
  })
})
