import { describe, expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { caller, echo, linkOf, oauthUpstream, startOf, textOf } from '../../../support/oauth-upstream.ts'
import { httpSite, type SiteRequest } from '../../../support/http-site.ts'
import { protectedServer, unauthorized } from '../../../support/protected-server.ts'

const alice = caller('alice')
const callback = 'http://127.0.0.1:8900/oauth/callback'

/** An authorization server whose clients and tokens bear its name. */
async function authority(name: string) {
  let tokens = 0
  const { origin, requests } = await httpSite(({ path }, own) => {
    if (path === '/register')
      return { status: 201, body: { client_id: `client of ${name}`, client_secret: `secret-of-${name}` } }
    if (path === '/token') {
      const body = {
        access_token: `${name}-${++tokens}`,
        token_type: 'Bearer',
        refresh_token: `refresh-of-${name}`,
      }
      return { body }
    }
    if (path !== '/.well-known/oauth-authorization-server') return { status: 404 }
    const body = {
      issuer: own,
      token_endpoint: `${own}/token`,
      authorization_endpoint: `${own}/authorize`,
      registration_endpoint: `${own}/register`,
      code_challenge_methods_supported: ['S256'],
    }
    return { body }
  })
  return { origin, requests }
}

/** A server that trusts the first authorization server until it moves to the second one. */
async function world() {
  const [first, second] = [await authority('first'), await authority('second')]
  let trusted = 'first'
  const server = await protectedServer((token, url) =>
    token?.startsWith(`${trusted}-`) ? undefined : unauthorized(url, 'read'),
  )
  const trust = (name: string, { origin }: { readonly origin: string }): void => {
    trusted = name
    server.metadata = { resource: server.url, authorization_servers: [origin] }
  }
  trust('first', first)
  return { first, second, server, move: () => trust('second', second) }
}

/** What a request says in any place. */
function textOfRequests(requests: readonly SiteRequest[]): string {
  const basic = (value: unknown): string =>
    Buffer.from(/^Basic (.+)$/.exec(String(value))?.[1] ?? '', 'base64').toString()
  return requests
    .map(({ path, body, headers }) => `${path} ${body} ${basic(headers['authorization'])}`)
    .join('\n')
}

describe('a server that moves to another authorization server', () => {
  it('the user is sent to the other one, which gets nothing of the one before', async () => {
    const { first, second, server, move } = await world()
    const { upstream, desk } = oauthUpstream(server.url, {})
    const signIn = async (link: string): Promise<URL> => {
      const { url, cookie } = await startOf(desk, link)
      const state = new URL(url).searchParams.get('state') ?? ''
      await desk.finish(new URLSearchParams({ code: 'code', state }), () => cookie.value)
      return new URL(url)
    }
    const before = await signIn(linkOf(await upstream.handle(echo(alice))))
    expect([before.origin, before.searchParams.get('redirect_uri')]).toEqual([first.origin, callback])
    expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    const known = first.requests.length

    move()
    const after = await signIn(linkOf(await upstream.handle(echo(alice))))
    expect([after.origin, after.searchParams.get('client_id')]).toEqual([second.origin, 'client of second'])
    expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    expect(first.requests).toHaveLength(known)
    expect(textOfRequests(second.requests)).not.toContain('first')
    expect(textOfRequests(second.requests)).toContain('secret-of-second')
  })

  it('a sign-in in progress at the one before is not continued', async () => {
    const { first, second, server, move } = await world()
    const { upstream, desk } = oauthUpstream(server.url, {})
    const begin = async (id: string) => startOf(desk, linkOf(await upstream.handle(echo(caller(id)))))
    const { url, cookie } = await begin('alice')
    const state = new URL(url).searchParams.get('state') ?? ''
    await desk.finish(new URLSearchParams({ code: 'code', state }), () => cookie.value)
    expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    expect(new URL((await begin('bob')).url).origin).toBe(first.origin)
    move()
    // Her refused token shows that the server has moved.
    expect(new URL((await begin('alice')).url).origin).toBe(second.origin)
    expect(new URL((await begin('bob')).url).origin).toBe(second.origin)
  })

  it('concurrent calls of a user get one sign-in and one registration', async () => {
    const { first, server } = await world()
    const { upstream, steps } = oauthUpstream(server.url, {})
    const outcomes = await Promise.all([1, 2, 3, 4].map(() => upstream.handle(echo(alice))))
    expect(new Set(outcomes.map(linkOf)).size).toBe(1)
    expect(first.requests.filter(({ path }) => path === '/register')).toHaveLength(1)
    expect(steps).toHaveLength(1)
  })

  it('the secret of a configured client is not sent to the other one', async () => {
    const { second, server, move } = await world()
    const client = { clientId: 'gateway', clientSecret: new Secret('of-the-first-only') }
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    move()
    await expect(upstream.handle(echo(alice))).rejects.toMatchObject({
      category: 'permanent',
      message: expect.stringContaining('names another authorization server than before'),
      extra: { forOperator: expect.stringContaining('set oauth.issuer') },
    })
    expect(textOfRequests(second.requests)).not.toContain('of-the-first-only')
  })

  it('a server that only refuses a token keeps its authorization server', async () => {
    const { first, second, server } = await world()
    const client = { clientId: 'gateway', clientSecret: new Secret('a-secret') }
    const { upstream } = oauthUpstream(server.url, { grant: 'client_credentials', ...client })
    await upstream.handle(echo(alice))
    const { check } = server
    const revoked = new Set(server.tokens)
    server.check = (token, url) =>
      token !== undefined && revoked.has(token) ? unauthorized(url) : check(token, url)
    expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    expect(first.requests.filter(({ path }) => path === '/token')).toHaveLength(2)
    expect(second.requests).toEqual([])
  })
})
