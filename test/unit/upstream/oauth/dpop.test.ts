import { createHash, randomBytes } from 'node:crypto'
import { calculateJwkThumbprint, decodeProtectedHeader, type JWK, jwtVerify } from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { DpopKey } from '../../../../src/upstream/oauth/dpop.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import { requestToken, RenewingLogin } from '../../../../src/upstream/oauth/token-endpoint.ts'
import type { HttpAnswer } from '../../../../src/upstream/transport/auth-retry.ts'
import { httpSite } from '../../../support/http-site.ts'
import { caller, echo, linkOf, oauthUpstream, startOf, textOf } from '../../../support/oauth-upstream.ts'
import { protectedServer } from '../../../support/protected-server.ts'

const target = { method: 'POST', url: 'https://mcp.example.com/at/mcp?key=1' }

function answer(status: number, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { status, isEventStream: false, isComplete: true, body: '', header: (name) => headers[name] }
}

/** The claims and the key of a proof, whose signature is right. */
async function read(proof: string | undefined) {
  const { alg, typ, jwk } = decodeProtectedHeader(proof ?? '')
  const { payload } = await jwtVerify(proof ?? '', jwk as JWK)
  return { alg, typ, jwk, claims: payload }
}

async function login() {
  const dpop = await DpopKey.generate()
  const refused: (string | undefined)[] = []
  const own = new RenewingLogin(async (token) => {
    refused.push(token)
    return { value: `token-${refused.length}`, expiresAt: Date.now() + 600_000, dpop }
  })
  return { own, dpop, refused }
}

describe('a token that is bound to a key', () => {
  it('each request has a proof of its own, for the method and URL without query', async () => {
    const { own, dpop } = await login()
    const [first, second] = [await own.headers(target), await own.headers(target)]
    expect(first.authorization).toBe('DPoP token-1')
    const { alg, typ, jwk, claims } = await read(first.dpop)
    expect({ alg, typ }).toEqual({ alg: 'ES256', typ: 'dpop+jwt' })
    expect(jwk).not.toHaveProperty('d')
    expect(await calculateJwkThumbprint(jwk as JWK)).toBe(await dpop.handle.calculateThumbprint())
    const ath = createHash('sha256').update('token-1').digest('base64url')
    expect(claims).toMatchObject({ htm: 'POST', htu: 'https://mcp.example.com/at/mcp', ath })
    expect((await read(second.dpop)).claims.jti).not.toBe(claims.jti)
  })

  it('a request for a nonce repeats the request with it, and with the same token', async () => {
    const { own, refused } = await login()
    const sent = await own.headers(target)
    const refusal = answer(401, { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'one' })
    own.answered(refusal)
    expect(await own.refused(refusal, sent)).toBe(true)
    const again = await own.headers(target)
    expect((await read(again.dpop)).claims.nonce).toBe('one')
    expect(again.authorization).toBe('DPoP token-1')
    expect(refused).toHaveLength(1)
  })

  it('the latest nonce of any response is used, unless it is none', async () => {
    const { own } = await login()
    await own.headers(target)
    for (const nonce of ['one', 'two', 'no nonce', '', 'x'.repeat(600)])
      own.answered(answer(200, { 'dpop-nonce': nonce }))
    expect((await read((await own.headers(target)).dpop)).claims.nonce).toBe('two')
  })

  it('a refused token is replaced', async () => {
    const { own, refused } = await login()
    const sent = await own.headers(target)
    const refusal = answer(401, { 'www-authenticate': 'DPoP error="invalid_token"' })
    expect(await own.refused(refusal, sent)).toBe(true)
    expect((await own.headers(target)).authorization).toBe('DPoP token-2')
    expect(refused).toEqual([undefined, 'token-1'])
  })

  it('a stored key makes the same proofs', async () => {
    const dpop = await DpopKey.generate()
    const stored = await DpopKey.of(JSON.parse(JSON.stringify(dpop.jwk)) as JWK)
    expect((await read(await stored.prove('a', target))).jwk).toEqual(
      (await read(await dpop.prove('a', target))).jwk,
    )
  })
})

describe('a request for such a token', () => {
  const bound = { access_token: 'abc', token_type: 'DPoP', expires_in: 60 }

  async function requested(body: object, nonce?: string) {
    const { origin, requests } = await httpSite(async ({ headers }) => {
      const { claims } = await read(String(headers['dpop']))
      if (claims.nonce === nonce) return { body }
      return { status: 400, body: { error: 'use_dpop_nonce' }, headers: { 'dpop-nonce': nonce ?? '' } }
    })
    const http = createOAuthHttp(true)
    onTestFinished(() => http.close())
    const server = { issuer: origin, token_endpoint: `${origin}/token` }
    const dpop = await DpopKey.generate()
    const grant = await requestToken(
      { server, client: { id: 'gw', auth: 'none' }, http, dpop },
      'client_credentials',
      {},
    )
    return { grant, requests, dpop }
  }

  it.each([undefined, 'nonce-of-the-server'])(
    'is repeated with the nonce %s if there is one',
    async (nonce) => {
      const { grant, requests, dpop } = await requested(bound, nonce)
      expect(grant).toMatchObject({ value: 'abc', dpop })
      expect(requests).toHaveLength(nonce === undefined ? 1 : 2)
    },
  )

  it('a token that is bound to nothing is refused', async () => {
    await expect(requested({ ...bound, token_type: 'Bearer' })).rejects.toMatchObject({
      category: 'permanent',
      message: expect.stringContaining('bound to no key'),
    })
  })

  it('a nonce that is never the right one ends it', async () => {
    const { origin, requests } = await httpSite(() => ({
      status: 400,
      body: { error: 'use_dpop_nonce' },
      headers: { 'dpop-nonce': 'another' },
    }))
    const http = createOAuthHttp(true)
    onTestFinished(() => http.close())
    const server = { issuer: origin, token_endpoint: `${origin}/token` }
    const conversation = {
      server,
      client: { id: 'gw', auth: 'none' },
      http,
      dpop: await DpopKey.generate(),
    } as const
    await expect(requestToken(conversation, 'client_credentials', {})).rejects.toThrow('use_dpop_nonce')
    expect(requests).toHaveLength(2)
  })
})

describe('the grant of a user that is bound to a key', () => {
  /** A server that takes only such tokens, and an authorization server that binds them to the key of the proof. */
  async function world() {
    const bound = new Map<string, string>()
    const authority = await httpSite(async ({ path, headers }, own) => {
      if (path === '/token') {
        const { jwk } = await read(String(headers['dpop']))
        const token = `token-${bound.size + 1}`
        bound.set(token, await calculateJwkThumbprint(jwk as JWK))
        return { body: { access_token: token, token_type: 'DPoP', refresh_token: 'again', expires_in: 3600 } }
      }
      if (path !== '/.well-known/oauth-authorization-server') return { status: 404 }
      const endpoints = { token_endpoint: `${own}/token`, authorization_endpoint: `${own}/authorize` }
      return { body: { issuer: own, ...endpoints, code_challenge_methods_supported: ['S256'] } }
    })
    const ended = new Set<string>()
    const used: string[] = []
    const server = await protectedServer(async () => {
      const { authorization, dpop } = server.headers.at(-1) ?? {}
      const [, token = ''] = /^DPoP (.+)$/.exec(authorization ?? '') ?? []
      if (!bound.has(token) || ended.has(token)) return { status: 401, challenge: 'DPoP algs="ES256"' }
      const { jwk } = await read(String(dpop))
      if ((await calculateJwkThumbprint(jwk as JWK)) !== bound.get(token)) return { status: 403 }
      used.push(token)
      return undefined
    })
    server.metadata = { resource: server.url, authorization_servers: [authority.origin] }
    return { server, bound, ended, used }
  }

  it('the key is stored with it, also for its renewals', async () => {
    const { server, bound, ended, used } = await world()
    const key = randomBytes(32)
    const shared = { store: new MemoryStore(), key: async () => key }
    const oauth = { clientId: 'gateway' }
    const first = oauthUpstream(server.url, oauth, shared)
    const { url, cookie } = await startOf(
      first.desk,
      linkOf(await first.upstream.handle(echo(caller('alice')))),
    )
    const state = new URL(url).searchParams.get('state') ?? ''
    await first.desk.finish(new URLSearchParams({ code: 'code', state }), () => cookie.value)
    expect(textOf(await first.upstream.handle(echo(caller('alice'))))).toBeDefined()
    const second = oauthUpstream(server.url, oauth, shared)
    expect(textOf(await second.upstream.handle(echo(caller('alice'))))).toBeDefined()
    ended.add('token-1')
    expect(textOf(await second.upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(new Set(used)).toEqual(new Set(['token-1', 'token-2']))
    expect(new Set(bound.values()).size).toBe(1)
  })
})
