import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { requestInputInline } from '../../../../src/downstream/session/input-requests.ts'
import type { Call, Notification, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { authorizationServer, signIn } from '../../../support/authorization-server.ts'
import {
  caller,
  clients,
  echo,
  linkOf,
  type OAuthUpstream,
  oauthUpstream,
  startOf,
  textOf,
} from '../../../support/oauth-upstream.ts'
import {
  type ProtectedServer,
  protectedServer,
  type Refusal,
  unauthorized,
} from '../../../support/protected-server.ts'

const alice = caller('alice', 'the-token-alice-came-with')

async function world(options: Parameters<typeof authorizationServer>[0] = {}, scope = 'read') {
  const authority = await authorizationServer(options)
  const server = await protectedServer(async (token, url) => {
    if (token === undefined) return unauthorized(url, scope)
    const claims = await authority.verify(token, url).catch(() => undefined)
    return claims ? undefined : unauthorized(url, scope)
  })
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  return { authority, server, ...oauthUpstream(server.url, {}) }
}

/** Completes the sign-in as `user` and returns to the gateway. */
async function visit({ desk }: OAuthUpstream, link: string, user: string): Promise<string> {
  const { url, cookie } = await startOf(desk, link)
  const back = await signIn(url, user, (place) => place.startsWith('http://127.0.0.1:8900/oauth/callback'))
  return desk.finish(new URL(back).searchParams, (name) => (name === cookie.name ? cookie.value : undefined))
}

function retry(call: Call, outcome: Outcome, action = 'accept'): Call {
  if (outcome.kind !== 'input_required') throw new Error('There is no question.')
  return {
    ...call,
    requestState: outcome.requestState,
    inputResponses: { sign_in: { result: Payload.of({ action }) } },
  }
}

async function subjects({ tokens, url }: ProtectedServer, authority: { verify: Verify }): Promise<unknown[]> {
  return Promise.all([...tokens].map(async (token) => (await authority.verify(token, url)).sub))
}
type Verify = Awaited<ReturnType<typeof authorizationServer>>['verify']

describe('a user who has not signed in', () => {
  it('the user receives a link, and the call continues after the sign-in', async () => {
    const here = await world()
    const call = echo(alice)
    const outcome = await here.upstream.handle(call)
    const start = await startOf(here.desk, linkOf(outcome))
    expect(start).toMatchObject({ upstream: 'one', principal: 'alice' })
    const link = new URL(start.url)
    expect(link.origin).toBe(here.authority.issuer)
    expect(Object.fromEntries(link.searchParams)).toMatchObject({
      response_type: 'code',
      code_challenge_method: 'S256',
      resource: here.server.url,
      redirect_uri: 'http://127.0.0.1:8900/oauth/callback',
      scope: 'read offline_access',
    })
    await expect(visit(here, linkOf(outcome), 'alice')).resolves.toBe('one')
    expect(textOf(await here.upstream.handle(retry(call, outcome)))).toBeDefined()
    expect(await subjects(here.server, here.authority)).toEqual(['alice'])
  })

  it.each(['a token signed with a shared key', 'no token at all'])(
    'no identity is requested, and an ID token is not evaluated: %s',
    async (kind) => {
      const header = Buffer.from('{"alg":"HS256","typ":"JWT"}').toString('base64url')
      const idToken = kind === 'no token at all' ? 'x' : `${header}.e30.c2lnbmF0dXJl`
      const here = await world({ idToken }, 'openid read')
      const call = echo(alice)
      const outcome = await here.upstream.handle(call)
      const { url } = await startOf(here.desk, linkOf(outcome))
      expect(new URL(url).searchParams.get('scope')).toBe('read offline_access')
      await visit(here, linkOf(outcome), 'alice')
      expect(textOf(await here.upstream.handle(retry(call, outcome)))).toBeDefined()
    },
  )

  it('the call waits after the user agrees to open the link', async () => {
    const here = await world()
    const call = echo(alice, { client: clients.legacy })
    const outcome = await here.upstream.handle(call)
    const going = here.upstream.handle(retry(call, outcome))
    await visit(here, linkOf(outcome), 'alice')
    expect(textOf(await going)).toBeDefined()
  })

  it('a legacy client is notified once per call that the sign-in is complete', async () => {
    const here = await world()
    const [asked, over]: [unknown[], unknown[]] = [[], []]
    const visited = Promise.withResolvers<unknown>()
    const handle = requestInputInline(here.upstream.handle, async (questions) => {
      const { elicitationId, url } = questions['sign_in']?.params?.fields ?? {}
      if (asked.push(elicitationId) === 2) visited.resolve(visit(here, String(url), 'alice'))
      await visited.promise
      return { sign_in: { result: Payload.of({ action: 'accept' }) } }
    })
    const emit = ({ method, params }: Notification): void => {
      if (method === 'notifications/elicitation/complete') over.push(params?.fields['elicitationId'])
    }
    const call = echo(alice, { client: clients.legacy, emit })
    await Promise.all([handle(call), handle(call)])
    expect(new Set(asked).size).toBe(2)
    expect(new Set(over)).toEqual(new Set(asked))
  })

  it('a user who declines receives that as the reason', async () => {
    const here = await world()
    const call = echo(alice)
    const outcome = await here.upstream.handle(call)
    await expect(here.upstream.handle(retry(call, outcome, 'decline'))).rejects.toMatchObject({
      code: 'AUTHENTICATION_REQUIRED',
    })
  })

  it('the link is in the error if no input can be requested', async () => {
    const here = await world()
    for (const client of [clients.modernPlain, clients.legacyPlain]) {
      const failed: unknown = await here.upstream
        .handle(echo(alice, { client }))
        .catch((error: unknown) => error)
      expect(failed).toMatchObject({
        code: 'AUTHENTICATION_REQUIRED',
        message: expect.stringContaining('http://127.0.0.1:8900/oauth/start/'),
      })
      expect(failed).not.toHaveProperty('extra.relayed')
    }
  })

  it('a 2025-11-25 client without input requests receives the URL elicitation error', async () => {
    const here = await world()
    await expect(here.upstream.handle(echo(alice, { client: clients.legacyMute }))).rejects.toMatchObject({
      rpc: -32042,
      extra: { relayed: { fields: { data: { elicitations: [{ mode: 'url' }] } } } },
    })
  })

  it('the link stays the same until it is used, without another registration', async () => {
    const here = await world()
    const first = await here.upstream.handle(echo(alice))
    const second = await here.upstream.handle(echo(alice))
    expect(linkOf(second)).toBe(linkOf(first))
    await here.upstream.handle(echo(caller('bob')))
    expect(here.authority.requests.filter((each) => each === 'POST /reg')).toHaveLength(1)
  })

  it('C202 each step of the sign-in is recorded without codes or tokens', async () => {
    const here = await world()
    const link = linkOf(await here.upstream.handle(echo(alice)))
    await here.upstream.handle(echo(alice))
    await visit(here, link, 'alice')
    const who = { upstream: 'one', principal: 'alice' }
    expect(here.steps).toEqual([
      { step: 'begun', ...who },
      { step: 'finished', ...who },
    ])
  })

  it('C202 failed sign-ins are recorded with the reason', async () => {
    const here = await world()
    const begin = async (): Promise<URL> =>
      new URL((await startOf(here.desk, linkOf(await here.upstream.handle(echo(alice))))).url)
    const refused = new URLSearchParams({ state: (await begin()).searchParams.get('state') ?? '' })
    refused.set('error', 'access_denied')
    await expect(here.desk.finish(refused, () => 'another browser')).rejects.toThrow('another browser')
    const who = { upstream: 'one', principal: 'alice' }
    expect(here.steps).toEqual([
      { step: 'begun', ...who },
      { step: 'failed', ...who, code: 'STATE_INVALID' },
    ])
  })

  it('a subscription receives changes from the sign-in on', async () => {
    const here = await world()
    const notes: string[] = []
    const controller = new AbortController()
    const target = { method: 'subscriptions/listen', upstream: 'one' }
    const { params } = echo(alice)
    const listening = here.upstream.handle(
      echo(alice, {
        method: 'subscriptions/listen',
        target,
        params: params.with({
          name: undefined,
          arguments: undefined,
          notifications: { toolsListChanged: true },
        }),
        signal: controller.signal,
        emit: ({ method }) => void notes.push(method),
      }),
    )
    await vi.waitFor(() => expect(notes).toEqual(['notifications/subscriptions/acknowledged']), 10_000)
    await visit(here, linkOf(await here.upstream.handle(echo(alice))), 'alice')
    await vi.waitFor(() => expect(notes[1]).toBe('notifications/tools/list_changed'), 10_000)
    controller.abort()
    await expect(listening).rejects.toMatchObject({ code: 'CANCELLED' })
  })

  it('a subscription that ends before the sign-in is released', async () => {
    const here = await world()
    const controller = new AbortController()
    const target = { method: 'subscriptions/listen', upstream: 'one' }
    const { signal } = controller
    const emit = (): void => controller.abort()
    const listening = here.upstream.handle(echo(alice, { method: target.method, target, signal, emit }))
    await expect(listening).rejects.toMatchObject({ code: 'CANCELLED' })
  })

  it('a session can be opened before the sign-in', async () => {
    const here = await world()
    const target = { method: 'server/discover', upstream: 'one' }
    const params = echo(alice).params.with({ name: undefined, arguments: undefined })
    const call = echo(alice, { method: 'server/discover', target, params })
    const outcome = await here.upstream.handle(call)
    expect(outcome).toMatchObject({ result: { fields: { capabilities: { tools: {} } } } })
    await visit(here, linkOf(await here.upstream.handle(echo(alice))), 'alice')
    await here.upstream.handle(call)
    const other = await here.upstream.handle({ ...call, principal: caller('bob') })
    expect(other.kind === 'result' && Object.keys(other.result.fields)).toEqual(['capabilities'])
  })
})

describe('a user who comes back to another gateway with the same store', () => {
  async function two() {
    const here = await world()
    const key = Buffer.alloc(32, 7)
    const shared = { store: here.store, key: async () => key }
    const [one, other] = [
      oauthUpstream(here.server.url, {}, shared),
      oauthUpstream(here.server.url, {}, shared),
    ]
    return { ...here, one, other }
  }

  it('the call that waits for that continues, at either gateway', async () => {
    const { one, other } = await two()
    const call = echo(alice)
    const outcome = await one.upstream.handle(call)
    const going = [one, other].map(({ upstream }) => upstream.handle(retry(call, outcome)))
    await visit(other, linkOf(outcome), 'alice')
    for (const each of going) expect(textOf(await each)).toBeDefined()
  })

  it('the call continues also if the user followed another link', async () => {
    const { one, other } = await two()
    const call = echo(alice)
    const outcome = await one.upstream.handle(call)
    const going = one.upstream.handle(retry(call, outcome))
    await visit(other, linkOf(await other.upstream.handle(call)), 'alice')
    expect(textOf(await going)).toBeDefined()
  })

  it('a subscription receives changes from then on', async () => {
    const { one, other } = await two()
    const notes: string[] = []
    const controller = new AbortController()
    const target = { method: 'subscriptions/listen', upstream: 'one' }
    const params = echo(alice).params.with({
      name: undefined,
      arguments: undefined,
      notifications: { toolsListChanged: true },
    })
    const emit = ({ method }: Notification): void => void notes.push(method)
    const given = { method: target.method, target, params, signal: controller.signal, emit }
    const listening = one.upstream.handle(echo(alice, given))
    await vi.waitFor(() => expect(notes).toEqual(['notifications/subscriptions/acknowledged']), 10_000)
    await visit(other, linkOf(await other.upstream.handle(echo(alice))), 'alice')
    await vi.waitFor(() => expect(notes[1]).toBe('notifications/tools/list_changed'), 10_000)
    controller.abort()
    await expect(listening).rejects.toMatchObject({ code: 'CANCELLED' })
  })

  it('the scopes that were granted there are used', async () => {
    const { one, other, server, authority } = await two()
    await visit(one, linkOf(await one.upstream.handle(echo(alice))), 'alice')
    for (const { upstream } of [one, other]) expect(textOf(await upstream.handle(echo(alice)))).toBeDefined()
    const { check } = server
    server.check = async (token, url): Promise<Refusal | undefined> => {
      const refusal = await check(token, url)
      if (refusal || token === undefined) return refusal
      const { scope } = await authority.verify(token, url)
      if (String(scope).includes('write')) return undefined
      return { status: 403, challenge: 'Bearer error="insufficient_scope", scope="write"' }
    }
    await visit(one, linkOf(await one.upstream.handle(echo(alice))), 'alice')
    expect(textOf(await other.upstream.handle(echo(alice)))).toBeDefined()
  })
})

describe('a call that may have run', () => {
  it('the call is not retried after a sign-in, whatever its error suggests', async () => {
    const here = await world()
    await visit(here, linkOf(await here.upstream.handle(echo(alice))), 'alice')
    const failure = new GatewayError(
      'AUTHENTICATION_REQUIRED',
      'The token of the service behind has expired.',
    )
    const guarded = here.upstream.guard?.(() => Promise.reject(failure))
    await expect(guarded?.(echo(alice))).rejects.toBe(failure)
  })
})

describe('a grant of a user', () => {
  async function signedIn(options: Parameters<typeof authorizationServer>[0] = {}) {
    const here = await world(options)
    const outcome = await here.upstream.handle(echo(alice))
    await visit(here, linkOf(outcome), 'alice')
    return here
  }

  it('a grant is used for its user only', async () => {
    const here = await signedIn()
    expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
    const outcome = await here.upstream.handle(echo(caller('bob')))
    await visit(here, linkOf(outcome), 'bob')
    expect(textOf(await here.upstream.handle(echo(caller('bob'))))).toBeDefined()
    expect(await subjects(here.server, here.authority)).toEqual(['alice', 'bob'])
  })

  it("C077 the server receives the granted token only, without the client's token or cookies", async () => {
    const here = await signedIn()
    await here.upstream.handle(echo(alice))
    expect(JSON.stringify(here.server.headers)).not.toContain('the-token-alice-came-with')
    expect(JSON.stringify(here.server.inner.seen)).not.toContain('the-token-alice-came-with')
    for (const { cookie } of here.server.headers) expect(cookie).toBeUndefined()
  })

  it('C228 a grant is renewed with the refresh token, which is then rotated', async () => {
    const here = await signedIn()
    await here.upstream.handle(echo(alice))
    for (const round of [1, 2]) {
      const used = [...here.server.tokens].at(-1)
      const { check } = here.server
      here.server.check = (token, url) => (token === used ? unauthorized(url) : check(token, url))
      expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
      expect(here.server.tokens.size).toBe(round + 1)
    }
    const refreshes = here.authority.grants.filter((grant) => grant.get('grant_type') === 'refresh_token')
    expect(refreshes.map((grant) => grant.get('resource'))).toEqual([here.server.url, here.server.url])
  })

  it('C228 a grant is stored encrypted', async () => {
    const here = await world()
    const kept: string[] = []
    const put = here.store.put.bind(here.store)
    here.store.put = async (key, value, ttl) => {
      kept.push(key, value)
      await put(key, value, ttl)
    }
    await visit(here, linkOf(await here.upstream.handle(echo(alice))), 'alice')
    await here.upstream.handle(echo(alice))
    const [token = ''] = here.server.tokens
    expect(kept.length).toBeGreaterThan(4)
    for (const each of kept) {
      expect(each).not.toContain(token)
      expect(each).not.toContain('alice')
      expect(Buffer.from(each, 'base64url').toString('latin1')).not.toContain(token)
    }
    expect(kept.filter((_each, index) => index % 2 === 0).every((key) => key.startsWith('oauth:'))).toBe(true)
  })

  it('an expired grant that cannot be renewed is requested again', async () => {
    const here = await signedIn({ refreshTokens: false, ttl: 300 })
    expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 301_000 })
    onTestFinished(() => void vi.useRealTimers())
    await expect(here.upstream.handle(echo(alice))).resolves.toMatchObject({ kind: 'input_required' })
  })

  it.each([true, false])(
    'a grant that is refused immediately is not requested again',
    async (refreshTokens) => {
      const here = await signedIn({ refreshTokens })
      here.server.check = (_token, url) => unauthorized(url)
      await expect(here.upstream.handle(echo(alice))).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    },
  )

  it('a grant is extended when the server requires more scopes', async () => {
    const here = await signedIn()
    const { check } = here.server
    here.server.check = async (token, url): Promise<Refusal | undefined> => {
      const refusal = await check(token, url)
      if (refusal || token === undefined) return refusal
      const { scope } = await here.authority.verify(token, url)
      if (String(scope).includes('write')) return undefined
      return { status: 403, challenge: 'Bearer error="insufficient_scope", scope="write"' }
    }
    const call = echo(alice)
    const outcome = await here.upstream.handle(call)
    const { url } = await startOf(here.desk, linkOf(outcome))
    expect(new URL(url).searchParams.get('scope')?.split(' ').toSorted()).toEqual([
      'offline_access',
      'read',
      'write',
    ])
    await visit(here, linkOf(outcome), 'alice')
    expect(textOf(await here.upstream.handle(retry(call, outcome)))).toBeDefined()
  })

  it('a 403 for another reason does not request a grant', async () => {
    const here = await signedIn()
    here.server.check = () => ({ status: 403, challenge: 'Bearer error="insufficient_scope", scope="read"' })
    await expect(here.upstream.handle(echo(alice))).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})

describe('the sign-in callback', () => {
  it('a callback is accepted once, in the browser that began the sign-in', async () => {
    const here = await world()
    const link = linkOf(await here.upstream.handle(echo(alice)))
    const { url, cookie } = await startOf(here.desk, link)
    const back = await signIn(url, 'alice', (place) => place.includes('/oauth/callback'))
    const { searchParams } = new URL(back)
    await expect(here.desk.finish(searchParams, () => cookie.value)).resolves.toBe('one')
    await expect(here.desk.finish(searchParams, () => cookie.value)).rejects.toMatchObject(unknown)
    await expect(startOf(here.desk, link)).rejects.toMatchObject(unknown)
  })

  it.each([
    ['another', 'x'.repeat(43)],
    ['no', undefined],
  ])(
    'a callback in %s browser is refused, because the link may have been forwarded',
    async (_name, value) => {
      const here = await world()
      const { url } = await startOf(here.desk, linkOf(await here.upstream.handle(echo(alice))))
      const back = await signIn(url, 'mallory', (place) => place.includes('/oauth/callback'))
      const finished = here.desk.finish(new URL(back).searchParams, () => value)
      await expect(finished).rejects.toMatchObject(unknown)
      const next = await here.upstream.handle(echo(alice))
      expect(here.authority.grants).toEqual([])
      // The first link is no longer valid.
      await visit(here, linkOf(next), 'alice')
      expect(textOf(await here.upstream.handle(echo(alice)))).toBeDefined()
    },
  )

  it.each([
    ['without a state', {}],
    ['with an unknown state', { state: 'guessed' }],
    ['with a very long state', { state: 'x'.repeat(10_000) }],
  ])('a callback %s is unknown', async (_name, given) => {
    const here = await world()
    await here.upstream.handle(echo(alice))
    const params = new URLSearchParams({ code: 'any', ...given })
    await expect(here.desk.finish(params, () => undefined)).rejects.toMatchObject(unknown)
  })

  it.each([
    ['a different issuer (RFC 9207)', { code: 'any', iss: 'https://evil.example' }],
    ['no issuer where it is required', { code: 'any' }],
    ['an error', { error: 'access_denied' }],
  ])('a callback with %s grants nothing', async (_name, given) => {
    const here = await world()
    const { url, cookie } = await startOf(here.desk, linkOf(await here.upstream.handle(echo(alice))))
    const state = new URL(url).searchParams.get('state') ?? ''
    const iss = 'error' in given ? { iss: here.authority.issuer } : {}
    const params = new URLSearchParams({ state, ...iss, ...given })
    const finished = here.desk.finish(params, () => cookie.value)
    await expect(finished).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    await expect(here.upstream.handle(echo(alice))).resolves.toMatchObject({ kind: 'input_required' })
    expect(here.authority.grants).toEqual([])
  })
})

const unknown = { code: 'STATE_INVALID' }
