import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import fc from 'fast-check'
import type { Call } from '../../../../src/core/call.ts'
import type { GatewayError } from '../../../../src/core/error.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import type { PermissionSettings } from '../../../../src/features/settings/authorize.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { type Bench, permissionBench } from '../../../support/permission-bench.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const HOUR = 3_600_000
const HEADER = 'dev.gatehouse/session_token'

beforeEach(() => void vi.useFakeTimers({ now: Date.parse('2026-01-01T00:00:00Z') }))
afterEach(() => void vi.useRealTimers())

const lists = {
  'tools/list': [
    { name: 'get_file', annotations: { readOnlyHint: true } },
    { name: 'create_file' },
    { name: 'delete_file', annotations: { destructiveHint: true } },
  ],
}

function bench(settings: Partial<PermissionSettings> = {}, given: Partial<UpstreamSettings> = {}): Bench {
  const auth = { session: { maxTtl: 8 * HOUR, idle: HOUR / 2 } }
  return permissionBench({ servers: [serverSettings(given)], lists, settings, deps: { auth } })
}

function as(id: string, ...scopes: readonly string[]): Partial<Call> {
  return { principal: { id, scopes: new Set(scopes) } }
}

interface Session {
  readonly token: string
  readonly refresh_token: string
  readonly scopes: readonly string[]
  readonly expires_at: string
}

interface Negotiated {
  readonly granted_scopes?: readonly string[]
  readonly denied_scopes?: readonly { readonly scope: string; readonly reason: string }[]
  readonly session?: Session
  readonly error?: unknown
}

function negotiate(
  { ask }: Bench,
  params: Readonly<Record<string, unknown>>,
  who: Partial<Call> = {},
): Promise<Negotiated> {
  return ask('permissions/negotiate', params, who)
}

async function tokenFor(from: Bench, scopes: readonly string[], who: Partial<Call> = {}): Promise<string> {
  const { session } = await negotiate(from, { requested_scopes: scopes }, who)
  return session?.token ?? ''
}

/** The outcome of a tool call with a session token: `ok`, or the code of the refusal. */
async function outcome(
  { ask }: Bench,
  name: string,
  token: string | undefined,
  who: Partial<Call> = {},
): Promise<unknown> {
  const params = { name, arguments: {}, ...(token !== undefined && { _meta: { [HEADER]: token } }) }
  const { error } = await ask('tools/call', params, who)
  return error === undefined ? 'ok' : (error as { code?: string }).code
}

const alice = as('alice', 'read:files', 'write:files', 'delete:files')

describe('scopes/negotiate', () => {
  it('scopes that are requested and held are granted', async () => {
    const found = await negotiate(bench(), { requested_scopes: ['read:files', 'write:files'] }, alice)
    expect(found).toMatchObject({
      granted_scopes: ['read:files', 'write:files'],
      denied_scopes: [],
      session: {
        scopes: ['read:files', 'write:files'],
        expires_at: '2026-01-01T08:00:00.000Z',
        inactivity_timeout_seconds: 1800,
      },
    })
  })

  it('each denied scope has a reason', async () => {
    const approval = { 'delete:*': 'ask', 'write:*': 'never' } as const
    const requested_scopes = ['read:files', 'admin:files', 'delete:files', 'write:files', 'read:nothing']
    expect(await negotiate(bench({ approval }), { requested_scopes }, alice)).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [
        { scope: 'admin:files', reason: 'not held by the caller' },
        { scope: 'delete:files', reason: expect.stringMatching(/^needs approval: /) },
        { scope: 'write:files', reason: 'not granted by policy' },
        { scope: 'read:nothing', reason: 'unknown scope' },
      ],
    })
  })

  it('the session has the held scopes if none is granted', async () => {
    const found = await negotiate(bench(), { requested_scopes: ['admin:files'] }, as('bob', 'read:files'))
    expect(found).toMatchObject({
      granted_scopes: [],
      denied_scopes: [{ scope: 'admin:files' }],
      session: { scopes: ['read:files'] },
    })
  })

  it('a scope that is never granted or needs approval is not in the session if none is granted', async () => {
    const here = bench({ approval: { 'delete:*': 'ask', 'write:*': 'never' } })
    for (const requested_scopes of [['admin:files'], ['read:nothing'], ['temp:30min'], []]) {
      const found = await negotiate(here, { requested_scopes }, alice)
      expect(found).toMatchObject({ granted_scopes: [], session: { scopes: ['read:files'] } })
      expect(await outcome(here, 'create_file', found.session?.token, alice)).toBe('SCOPE_INSUFFICIENT')
      expect(await outcome(here, 'delete_file', found.session?.token, alice)).toBe('SCOPE_INSUFFICIENT')
    }
    const { session } = await negotiate(here, { requested_scopes: ['read:nothing'] })
    expect(session?.scopes).toEqual(['read:files', 'admin:files', 'execute:files'])
  })

  it('a narrowed session does not regain scopes if none is granted', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'], alice)
    const params = { requested_scopes: ['write:files'], _meta: { [HEADER]: token } }
    const { session } = await negotiate(here, params, alice)
    expect(session?.scopes).toEqual(['read:files'])
  })

  it('the settings of the server of a scope apply, also at the aggregate endpoint', async () => {
    const own = (upstream?: string): PermissionSettings => ({
      hide_unpermitted: false,
      approval: upstream === 'files' ? { 'write:*': 'never' } : {},
    })
    const servers = [serverSettings(), serverSettings({ name: 'other' })]
    const here = permissionBench({ servers, lists, settingsOf: own })
    const found = await negotiate(here, { requested_scopes: ['read:files', 'write:files'] }, alice)
    expect(found).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [{ scope: 'write:files', reason: 'not granted by policy' }],
    })
  })

  it('a pseudo-scope sets the duration and is neither granted nor denied', async () => {
    const found = await negotiate(bench(), { requested_scopes: ['read:files', 'temp:30min'] }, alice)
    expect(found).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [],
      session: { scopes: ['read:files'], expires_at: '2026-01-01T00:30:00.000Z' },
    })
  })

  it.each([
    [{ ttl_seconds: 60 }, '2026-01-01T00:01:00.000Z'],
    [{ ttl_seconds: 999_999 }, '2026-01-01T08:00:00.000Z'],
    [{ ttl_seconds: 60, requested_scopes: ['read:files', 'temp:5s'] }, '2026-01-01T00:00:05.000Z'],
    [{ requested_scopes: ['read:files', 'temp:99h'] }, '2026-01-01T08:00:00.000Z'],
    [{ requested_scopes: ['read:files', 'temp:1d'] }, '2026-01-01T08:00:00.000Z'],
    [{ requested_scopes: ['read:files', 'temp:1d', 'temp:2h'] }, '2026-01-01T02:00:00.000Z'],
  ])('the session has at most the maximum duration: %j until %s', async (params, until) => {
    const found = await negotiate(bench(), { requested_scopes: ['read:files'], ...params }, alice)
    expect(found.session?.expires_at).toBe(until)
  })

  it.each([
    {},
    { requested_scopes: 'read:files' },
    { requested_scopes: [1] },
    { requested_scopes: Array.from({ length: 500 }, () => 'a') },
    { requested_scopes: ['read:files'], ttl_seconds: 0 },
    { requested_scopes: ['read:files'], ttl_seconds: 1.5 },
    { refresh_token: 7 },
  ])('the invalid request %j is refused', async (params) => {
    expect(await negotiate(bench(), params, alice)).toMatchObject({ error: { code: 'INVALID_INPUT' } })
  })

  it.each([
    [{}, 'requested_scopes'],
    [{ requested_scopes: 'read:files' }, 'requested_scopes'],
    [{ requested_scopes: [], ttl_seconds: 0 }, 'ttl_seconds'],
    [{ refresh_token: 7 }, 'refresh_token'],
  ])('an invalid member is refused by name: %j', async (params, field) => {
    expect(await negotiate(bench(), params, alice)).toMatchObject({
      error: { code: 'INVALID_INPUT', extra: { field } },
    })
  })
})

describe('pseudo-scopes for durations', () => {
  it('a pseudo-scope can be in days', async () => {
    const auth = { session: { maxTtl: 100 * HOUR, idle: HOUR / 2 } }
    const here = permissionBench({ servers: [serverSettings()], lists, deps: { auth } })
    expect(await negotiate(here, { requested_scopes: ['read:files', 'temp:2d'] }, alice)).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [],
      session: { expires_at: '2026-01-03T00:00:00.000Z' },
    })
  })

  it.each(['temp:0min', 'temp:30m', 'temp:-1s', 'temp:1.5h', 'temp:', 'temp:1d '])(
    'an invalid pseudo-scope is refused: %j',
    async (temp) => {
      expect(await negotiate(bench(), { requested_scopes: ['read:files', temp] }, alice)).toMatchObject({
        error: { code: 'INVALID_INPUT', extra: { field: 'requested_scopes' } },
      })
    },
  )

  it('a configured scope with such a name is not a pseudo-scope', async () => {
    const here = bench({}, { scopes: { 'temp:worker': ['get_*'] } })
    expect(await negotiate(here, { requested_scopes: ['temp:worker'] })).toMatchObject({
      granted_scopes: ['temp:worker'],
    })
  })
})

describe('a session token', () => {
  it('a session token restricts its caller to its scopes', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'], alice)
    expect(await outcome(here, 'get_file', token, alice)).toBe('ok')
    expect(await outcome(here, 'create_file', token, alice)).toBe('SCOPE_INSUFFICIENT')
    expect(await outcome(here, 'create_file', undefined, alice)).toBe('ok')
  })

  it('a refusal names the session token as the reason only if the caller holds the scope', async () => {
    const here = bench({ elevate_url: 'https://idp.example.com/ask' })
    const token = await tokenFor(here, ['read:files'], alice)
    const create = { name: 'create_file', arguments: {}, _meta: { [HEADER]: token } }
    const { error } = await here.ask('tools/call', create, alice)
    expect(error).toMatchObject({
      code: 'SCOPE_INSUFFICIENT',
      extra: { isOfSession: true, suggestion: expect.stringContaining('negotiate a session') },
    })
    expect((error as GatewayError).extra.details).toEqual({
      required_scopes: ['write:files'],
      missing_scopes: ['write:files'],
    })
    const lesser = as('alice', 'read:files')
    const refused = (await here.ask('tools/call', create, lesser)).error as GatewayError
    expect(refused.extra.isOfSession).toBeUndefined()
    expect(refused.extra.suggestion).toContain('https://idp.example.com/ask')
    expect(here.seen.filter(({ method }) => method === 'tools/call')).toHaveLength(0)
  })

  it('permissions/check names the session token as the reason, without an elevation URL', async () => {
    const here = bench({ elevate_url: 'https://idp.example.com/ask' })
    const token = await tokenFor(here, ['read:files'], alice)
    const check = { tool: 'create_file', _meta: { [HEADER]: token } }
    expect(await here.ask('permissions/check', check, alice)).toEqual({
      allowed: false,
      missing_scopes: ['write:files'],
      missing: ['write:files'],
      reason: 'Missing scope: write:files (excluded by the session only)',
    })
    expect(await here.ask('permissions/check', check, as('alice', 'read:files'))).toEqual({
      allowed: false,
      missing_scopes: ['write:files'],
      missing: ['write:files'],
      elevation_url: 'https://idp.example.com/ask',
      reason: 'Missing scope: write:files',
    })
  })

  it('a session token restricts otherwise unrestricted callers', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'])
    expect(await outcome(here, 'get_file', token)).toBe('ok')
    expect(await outcome(here, 'create_file', token)).toBe('SCOPE_INSUFFICIENT')
    const params = { tool: 'create_file', scopes_held: ['write:files'], _meta: { [HEADER]: token } }
    expect(await here.ask('permissions/check', params)).toMatchObject({ missing_scopes: ['write:files'] })
  })

  it('a session token never adds a scope', async () => {
    const all = ['read:files', 'write:files', 'delete:files', 'admin:files']
    const here = bench()
    const needs = new Map([
      ['get_file', 'read:files'],
      ['create_file', 'write:files'],
      ['delete_file', 'delete:files'],
    ])
    await fc.assert(
      fc.asyncProperty(fc.subarray(all), fc.subarray(all), fc.subarray(all), async (one, wanted, later) => {
        const token = await tokenFor(here, wanted, as('carol', ...one))
        const who = as('carol', ...later)
        for (const [tool, scope] of needs) {
          const became = await outcome(here, tool, token, who)
          if (!later.includes(scope)) expect(became).toBe('SCOPE_INSUFFICIENT')
          if (became === 'ok') expect(one.length === 0 ? [] : one).toContain(scope)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('a session token is not valid for another caller', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'], alice)
    expect(await outcome(here, 'get_file', token, as('bob', 'read:files'))).toBe('TOKEN_EXPIRED')
  })

  it.each(['', 'nonsense', 'a.b', 'x'.repeat(10_000)])(
    'an invalid session token is refused: %j',
    async (token) => {
      expect(await outcome(bench(), 'get_file', token, alice)).toBe('TOKEN_EXPIRED')
    },
  )

  it('a session token expires', async () => {
    const here = bench()
    const { session } = await negotiate(here, { requested_scopes: ['read:files'], ttl_seconds: 600 }, alice)
    vi.setSystemTime(Date.now() + 599_000)
    expect(await outcome(here, 'get_file', session?.token, alice)).toBe('ok')
    vi.setSystemTime(Date.now() + 1000)
    expect(await outcome(here, 'get_file', session?.token, alice)).toBe('TOKEN_EXPIRED')
  })

  it('a session token expires when idle and is extended by use', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'], alice)
    for (const minutes of [25, 25, 25]) {
      vi.setSystemTime(Date.now() + minutes * 60_000)
      expect(await outcome(here, 'get_file', token, alice)).toBe('ok')
    }
    vi.setSystemTime(Date.now() + 30 * 60_000)
    expect(await outcome(here, 'get_file', token, alice)).toBe('TOKEN_EXPIRED')
  })

  it('an expired session token does not prevent negotiating another', async () => {
    const here = bench()
    const params = { requested_scopes: ['read:files'], _meta: { [HEADER]: 'a.b' } }
    expect(await negotiate(here, params, alice)).toMatchObject({ granted_scopes: ['read:files'] })
  })

  it('a session negotiated with a session token has at most its scopes', async () => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'], alice)
    const params = { requested_scopes: ['read:files', 'write:files'], _meta: { [HEADER]: token } }
    expect(await negotiate(here, params, alice)).toMatchObject({
      granted_scopes: ['read:files'],
      denied_scopes: [{ scope: 'write:files', reason: 'not held by the caller' }],
    })
  })

  it.each([
    [
      "_meta under the gateway's key",
      (token: string) => ({ _meta: { [HEADER]: token, other: 1 } }),
      { _meta: { other: 1 } },
    ],
    ['_meta under the bare key', (token: string) => ({ _meta: { session_token: token } }), {}],
    ['params', (token: string) => ({ session_token: token }), {}],
  ])('a session token is read from %s and not forwarded', async (_place, place, left) => {
    const here = bench()
    const token = await tokenFor(here, ['read:files'])
    await here.ask('tools/call', { name: 'get_file', arguments: {}, ...place(token) })
    const [seen] = here.seen
    expect(seen?.params.value).toEqual({ name: 'get_file', arguments: {}, ...left })
    expect(JSON.stringify([seen?.params, seen?.meta])).not.toContain(token)
  })

  it('contradicting session tokens are refused', async () => {
    const here = bench()
    const params = { name: 'get_file', _meta: { [HEADER]: 'a' }, session_token: 'b' }
    expect(await here.ask('tools/call', params)).toMatchObject({
      error: { code: 'INVALID_INPUT', extra: { data: { reason: 'mismatch' } } },
    })
  })

  it('a session token is stored as a hash only', async () => {
    const kept: string[] = []
    class Watching extends MemoryStore {
      override put(key: string, value: string, ttl: number): Promise<void> {
        kept.push(key, value)
        return super.put(key, value, ttl)
      }
    }
    const here = permissionBench({ servers: [serverSettings()], lists, deps: { store: new Watching() } })
    const { session } = await negotiate(here, { requested_scopes: ['read:files'] })
    for (const secret of [session?.token, session?.refresh_token].map((each) => each?.split('.')[1] ?? '')) {
      expect(secret.length).toBeGreaterThan(40)
      expect(kept.join(' ')).not.toContain(secret)
    }
    expect(kept.filter((_, index) => index % 2 === 0).every((key) => key.startsWith('session:'))).toBe(true)
  })
})

describe('a refresh token', () => {
  it('a refresh token continues the session with new tokens and invalidates the old ones', async () => {
    const here = bench()
    const first = await negotiate(here, { requested_scopes: ['read:files'], ttl_seconds: 600 }, alice)
    vi.setSystemTime(Date.now() + 500_000)
    const next = await negotiate(here, { refresh_token: first.session?.refresh_token }, alice)
    expect(next).toMatchObject({
      granted_scopes: ['read:files'],
      session: { expires_at: '2026-01-01T00:18:20.000Z' },
    })
    expect(await outcome(here, 'get_file', first.session?.token, alice)).toBe('TOKEN_EXPIRED')
    expect(await outcome(here, 'get_file', next.session?.token, alice)).toBe('ok')
    expect(await outcome(here, 'create_file', next.session?.token, alice)).toBe('SCOPE_INSUFFICIENT')
  })

  it('a reused refresh token ends the session, because it may be stolen', async () => {
    const here = bench()
    const first = await negotiate(here, { requested_scopes: ['read:files'] }, alice)
    const refresh = { refresh_token: first.session?.refresh_token }
    const next = await negotiate(here, refresh, alice)
    expect(await negotiate(here, refresh, alice)).toMatchObject({ error: { code: 'TOKEN_EXPIRED' } })
    expect(await outcome(here, 'get_file', next.session?.token, alice)).toBe('TOKEN_EXPIRED')
  })

  it('a refresh token is not valid for another caller and not invalidated by the attempt', async () => {
    const here = bench()
    const first = await negotiate(here, { requested_scopes: ['read:files'] }, alice)
    const refresh = { refresh_token: first.session?.refresh_token }
    expect(await negotiate(here, refresh, as('bob'))).toMatchObject({ error: { code: 'TOKEN_EXPIRED' } })
    expect(await negotiate(here, refresh, alice)).toMatchObject({ granted_scopes: ['read:files'] })
  })

  it.each([
    ['the maximum duration', { requested_scopes: ['read:files'] }, 8],
    ['the maximum duration in steps', { requested_scopes: ['read:files'], ttl_seconds: 1500 }, 8],
    ['its requested duration', { requested_scopes: ['read:files', 'temp:2h'] }, 2],
  ])('a refresh token extends a session no longer than %s', async (_what, params, hours) => {
    const here = bench()
    const end = Date.now() + hours * HOUR
    let { session } = await negotiate(here, params, alice)
    while (Date.now() + HOUR / 3 < end) {
      vi.setSystemTime(Date.now() + HOUR / 3)
      ;({ session } = await negotiate(here, { refresh_token: session?.refresh_token }, alice))
      expect(Date.parse(session?.expires_at ?? '')).toBeLessThanOrEqual(end)
    }
    expect(session?.expires_at).toBe(new Date(end).toISOString())
    vi.setSystemTime(end)
    expect(await outcome(here, 'get_file', session?.token, alice)).toBe('TOKEN_EXPIRED')
    expect(await negotiate(here, { refresh_token: session?.refresh_token }, alice)).toMatchObject({
      error: { code: 'TOKEN_EXPIRED', message: 'The refresh token is no longer valid.' },
    })
  })

  it.each([
    ['has expired', { ttl_seconds: 600 }, 600_000],
    ['has been idle too long', {}, HOUR / 2],
  ])('a refresh token does not revive a session that %s', async (_why, params, later) => {
    const here = bench()
    const { session } = await negotiate(here, { requested_scopes: ['read:files'], ...params }, alice)
    vi.setSystemTime(Date.now() + later)
    expect(await outcome(here, 'get_file', session?.token, alice)).toBe('TOKEN_EXPIRED')
    expect(await negotiate(here, { refresh_token: session?.refresh_token }, alice)).toMatchObject({
      error: { code: 'TOKEN_EXPIRED', message: 'The refresh token is no longer valid.' },
    })
  })
})
