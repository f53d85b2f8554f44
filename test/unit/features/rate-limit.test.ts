import type { Call, Handler, Outcome, Target } from '../../../src/core/call.ts'
import { type RateLimitStatus, rateLimitSlot } from '../../../src/core/exchange.ts'
import { limitHeaders } from '../../../src/protocol/headers.ts'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { UpstreamSettings } from '../../../src/core/settings.ts'
import type { SettingsOf } from '../../../src/features/feature.ts'
import { remainingQuotas } from '../../../src/features/offers.ts'
import { rateLimit } from '../../../src/features/rate-limit.ts'
import { callKey, type CallRecord, encodeCall } from '../../../src/records/calls.ts'
import { fingerprintOf, inexactNumbers } from '../../../src/records/fingerprint.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { TokenGrant } from '../../../src/store/store.ts'
import { featureDeps, type ServiceStubs } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

type Rate = string | readonly string[] | undefined
interface Given {
  readonly common?: Rate
  /** The rate limits of servers by name. */
  readonly own?: Readonly<Record<string, Rate>>
  readonly tools?: Readonly<Record<string, { rate: string | readonly string[] }>>
  readonly deps?: ServiceStubs
  readonly end?: Handler
}

const done: Handler = async () => ({ kind: 'result', result: Payload.of({ content: [] }) })

/** The handler of any target behind the rate limits, compiled like in the gateway. */
function limited({ common, own = {}, tools = {}, deps, end = done }: Given): Handler {
  const settings: SettingsOf<object> = (upstream) => {
    const rate = upstream !== undefined && upstream in own ? own[upstream] : common
    return rate === undefined ? {} : { rate }
  }
  const server = (): UpstreamSettings => ({ tools }) as unknown as UpstreamSettings
  const policy = rateLimit.create(settings, featureDeps({ server, ...deps })).calls?.middleware
  return (call) => (policy?.(call.target)?.(end) ?? end)(call)
}

function to(name: string, given: Partial<Call> = {}, upstream = 'one'): Call {
  const target: Target = { method: given.method ?? 'tools/call', upstream, name }
  return { ...toolCall(), method: target.method, ...given, target }
}

const as = (id: string, session?: string): Partial<Call> => ({
  principal: { id },
  client: { ...toolCall().client, ...(session !== undefined && { session }) },
})

async function granted(handle: Handler, calls: readonly Call[]): Promise<boolean[]> {
  const found: boolean[] = []
  for (const call of calls) {
    found.push(
      await handle(call).then(
        () => true,
        (error: unknown) => {
          expect(error).toMatchObject({ code: 'RATE_LIMIT_EXCEEDED' })
          return false
        },
      ),
    )
  }
  return found
}

function metaOf(outcome: Outcome): unknown {
  return outcome.kind === 'result'
    ? outcome.result.at('_meta')?.fields['dev.gatehouse/rate_limit']
    : undefined
}

describe('rate limits', () => {
  it('C191 calls are counted per caller across sessions', async () => {
    const handle = limited({ common: '2/minute' })
    const calls = [
      to('t', as('a', 's1')),
      to('t', as('a', 's2')),
      to('t', as('a', 's3')),
      to('t', as('b', 's1')),
    ]
    expect(await granted(handle, calls)).toEqual([true, true, false, true])
  })

  it('C195 a refusal has code -32003, the delay and the exceeded limit', async () => {
    const handle = limited({ common: '1/minute' })
    await handle(to('t'))
    const error = await handle(to('t')).catch((thrown: unknown) => thrown)
    if (!(error instanceof GatewayError)) throw error
    expect([error.code, error.rpc, error.extra.status]).toEqual(['RATE_LIMIT_EXCEEDED', -32003, 429])
    const { data } = error
    expect(data).toMatchObject({
      category: 'rate_limited',
      details: { limit: 1, window: 60, remaining: 0, scope: 'principal' },
    })
    expect(data['retryAfter']).toBe(data['retry_after_seconds'])
    expect(Number.isInteger(data['retryAfter'])).toBe(true)
    expect(data['retryAfter']).toBeGreaterThan(55)
  })

  it('a refusal has the longest delay of the exceeded limits', async () => {
    for (const common of [
      ['1/minute', '1/hour'],
      ['1/hour', '1/minute'],
    ]) {
      const handle = limited({ common })
      await handle(to('t'))
      await expect(handle(to('t'))).rejects.toMatchObject({ extra: { details: { window: 3600 } } })
    }
  })

  it('each server and each tool can have a limit in addition to the common one', async () => {
    const handle = limited({
      common: '5/minute',
      own: { one: '3/minute' },
      tools: { 'delete_*': { rate: '1/minute' } },
    })
    const calls = [
      to('delete_a'),
      to('delete_a'),
      to('delete_b'),
      to('other'),
      to('other'),
      to('other', {}, 'two'),
      to('other', {}, 'two'),
      to('other', {}, 'two'),
    ]
    expect(await granted(handle, calls)).toEqual([true, false, true, true, false, true, true, false])
  })

  it('a refused call takes no token from any bucket', async () => {
    const handle = limited({ common: '3/minute', tools: { strict: { rate: '1/minute' } } })
    const calls = [...Array.from({ length: 6 }, () => to('strict')), to('free'), to('free'), to('free')]
    expect(await granted(handle, calls)).toEqual([true, ...Array(5).fill(false), true, true, false])
  })

  it('a limit can have several windows, and the most specific tool glob applies', async () => {
    const handle = limited({ tools: { '*': { rate: '9/minute' }, get: { rate: ['2/second', '3/hour'] } } })
    expect(await granted(handle, [to('get'), to('get'), to('get')])).toEqual([true, true, false])
    const outcome = await limited({ common: ['5/s', '7/day'] })(to('x'))
    expect(metaOf(outcome)).toMatchObject({ limit: 5, remaining: 4 })
  })

  it('the remaining calls are stated in the result and in headers', async () => {
    const headers = new Map<string, string>()
    const tellHeaders = (standing: RateLimitStatus): void => {
      for (const [name, value] of Object.entries(limitHeaders(standing))) headers.set(name, value)
    }
    const envelope = { reportRateLimit: tellHeaders }
    const store = new MemoryStore(() => 2_000_000)
    const handle = limited({ common: ['10/second', '2/minute'], deps: { store } })
    expect(metaOf(await handle(to('t', { slots: rateLimitSlot.put(envelope) })))).toEqual({
      limit: 2,
      remaining: 1,
      reset_seconds: 62,
    })
    expect(headers.get('ratelimit-policy')).toBe('"principal-60s";q=2;w=60')
    expect(headers.get('ratelimit')).toBe('"principal-60s";r=1;t=62')
    await handle(to('t', { slots: rateLimitSlot.put(envelope) }))
    await expect(handle(to('t', { slots: rateLimitSlot.put(envelope) }))).rejects.toMatchObject({
      code: 'RATE_LIMIT_EXCEEDED',
    })
    expect(headers.get('ratelimit')).toMatch(/^"principal-60s";r=0;t=\d+$/)
  })

  it('the response to an input request is not charged, once per request state', async () => {
    let rounds = 0
    const asking: Handler = async ({ requestState: state }) =>
      state['confirm'] === undefined || rounds++ === 0
        ? { kind: 'input_required', inputRequests: {}, requestState: { confirm: 'asked' } }
        : { kind: 'result', result: Payload.of({}) }
    const handle = limited({ common: '1/minute', end: asking })
    const first = await handle(to('t'))
    if (first.kind !== 'input_required') throw new Error('it did not ask')
    const second = await handle(to('t', { requestState: first.requestState, inputResponses: {} }))
    if (second.kind !== 'input_required') throw new Error('it did not ask again')
    expect(await handle(to('t', { requestState: second.requestState, inputResponses: {} }))).toMatchObject({
      kind: 'result',
    })
    const replays = [
      to('t', { requestState: first.requestState, inputResponses: {} }),
      to('t', { requestState: { rate: 'x' }, inputResponses: {} }),
    ]
    expect(await granted(handle, [...replays, to('t', { inputResponses: {} })])).toEqual([
      false,
      false,
      false,
    ])
  })

  it('the default limit applies to authenticated callers only', async () => {
    const calls = Array.from({ length: 61 }, () => to('t'))
    expect(await granted(limited({}), calls)).not.toContain(false)
    const guarded = limited({ deps: { isGuarded: true } })
    expect((await granted(guarded, calls)).filter(Boolean)).toHaveLength(60)
    expect(await granted(limited({ common: 'off', deps: { isGuarded: true } }), calls)).not.toContain(false)
  })

  it('the limit of a server replaces the default and can be off', async () => {
    const calls = Array.from({ length: 70 }, () => to('t'))
    const own = limited({ own: { one: '65/minute' }, deps: { isGuarded: true } })
    expect((await granted(own, calls)).filter(Boolean)).toHaveLength(65)
    expect(await granted(limited({ common: '1/minute', own: { one: 'off' } }), calls)).not.toContain(false)
  })

  it('an aggregated list is charged once', async () => {
    const handle = limited({ common: '2/minute', own: { one: '1/minute' } })
    const list = { method: 'tools/list', logFields: new Map() }
    const calls = [
      to('', list),
      to('', list, 'two'),
      to('', { method: 'tools/list' }),
      to('', { method: 'tools/list' }),
    ]
    expect(await granted(handle, calls)).toEqual([true, true, true, false])
  })

  it('an aggregated list is refused as a whole', async () => {
    const handle = limited({ common: '1/minute' })
    const list = (): Call[] => {
      const logFields = new Map()
      return ['one', 'two', 'three'].map((upstream) => to('', { method: 'tools/list', logFields }, upstream))
    }
    expect(await granted(handle, list())).toEqual([true, true, true])
    expect(await granted(handle, list())).toEqual([false, false, false])
  })

  it('C191 vendor methods are charged and their results are unchanged', async () => {
    const handle = limited({ common: '1/minute' })
    const asked = (): Call => ({
      ...to('', { method: 'vendor/run' }),
      target: { method: 'vendor/run', upstream: 'one' },
    })
    expect(await handle(asked())).toEqual({ kind: 'result', result: Payload.of({ content: [] }) })
    await expect(handle(asked())).rejects.toMatchObject({ code: 'RATE_LIMIT_EXCEEDED' })
  })

  it('methods that are not calls are not charged', () => {
    const policy = rateLimit.create(() => ({ rate: '1/s' }), featureDeps()).calls?.middleware
    for (const method of ['server/discover', 'subscriptions/listen', 'notifications/x', 'tasks/get']) {
      expect(policy?.({ method, upstream: 'one' })).toBeUndefined()
    }
  })

  it('callers whose names contain key separators have separate buckets', async () => {
    const keys = new Set<string>()
    const memory = new MemoryStore()
    const store = Object.assign(Object.create(memory), {
      takeTokens: (buckets: { key: string; limit: number; window: number }[]): TokenGrant => {
        for (const { key } of buckets) keys.add(key)
        return memory.takeTokens(buckets)
      },
    })
    const handle = limited({ common: '1/minute', deps: { store } })
    for (const id of ['a', 'a}', '{a', 'a%7D', 'a:all']) await handle(to('t', as(id)))
    expect(keys.size).toBe(5)
    for (const key of keys) expect(key).toMatch(/^rate:\{[^{}]+\}:principal:60000:all$/)
  })
})

it('the time at which more is left is the same however long the store takes to answer', async () => {
  vi.useFakeTimers({ now: Date.parse('2026-01-01T10:00:00Z') })
  onTestFinished(() => void vi.useRealTimers())
  const store = new MemoryStore(() => Date.now())
  const peek = store.peekTokens.bind(store)
  let latency = 0
  vi.spyOn(store, 'peekTokens').mockImplementation((buckets) => {
    const found = peek(buckets)
    vi.setSystemTime(Date.now() + latency)
    return found
  })
  const deps = featureDeps({ store })
  const { calls, offers = [] } = rateLimit.create(() => ({ rate: '5/minute' }), deps)
  const [left] = remainingQuotas.of(offers)
  const { target, principal } = to('t')
  await calls?.middleware(target)?.(done)(to('t'))
  for (latency of [0, 3, 1200, 3]) {
    const found = await left?.(target, principal)
    expect(found).toEqual({ remaining: 4, resetsAt: Date.parse('2026-01-01T10:01:02Z'), of: 'limit' })
  }
})

describe('charging of calls that never reach the server', () => {
  const refusing = (...error: ConstructorParameters<typeof GatewayError>): Handler => {
    return () => Promise.reject(new GatewayError(...error))
  }
  const denied = refusing('SCOPE_INSUFFICIENT', 'No.')
  const tools = { t: { rate: '2/day' } }

  it.each([
    ['a missing scope', denied],
    ['a rule', refusing('PERMISSION_DENIED', 'No.')],
    ['its arguments', refusing('INVALID_INPUT', 'No.', { isResult: true })],
    ['its name', refusing('UNKNOWN_TOOL', 'No.')],
    ['its session', refusing('TOKEN_EXPIRED', 'No.')],
    ['its budget', refusing('QUOTA_EXHAUSTED', 'No.')],
    ['its key', refusing('IDEMPOTENCY_CONFLICT', 'No.')],
    ['its transaction', refusing('TRANSACTION_CONFLICT', 'No.')],
    ['a pending confirmation', refusing('CONFIRMATION_REQUIRED', 'No.')],
  ])('a call refused for %s is not charged', async (_why, end) => {
    const ends = [end, end, end, end]
    const handle = limited({ common: '3/minute', tools, end: (call) => (ends.shift() ?? done)(call) })
    const headers: RateLimitStatus[] = []
    const envelope = { reportRateLimit: (standing: RateLimitStatus): void => void headers.push(standing) }
    for (let index = 0; index < 4; index++) {
      await expect(handle(to('t', { slots: rateLimitSlot.put(envelope) }))).rejects.toMatchObject({
        message: 'No.',
      })
    }
    expect(headers.at(-1)).toMatchObject({ limit: 2, remaining: 2 })
    expect(await granted(handle, [to('t'), to('t'), to('t')])).toEqual([true, true, false])
  })

  it.each([
    ['returns an error', refusing('UPSTREAM_ERROR', 'No.', { relayed: Payload.of({ code: 1 }) })],
    ['refuses by status', refusing('PERMISSION_DENIED', 'No.', { details: { http_status: 403 } })],
    ['is unreachable', refusing('SERVER_UNAVAILABLE', 'No.', { isUnsent: true })],
    ['does not respond', refusing('OPERATION_TIMEOUT', 'No.')],
  ])('a call whose server %s is charged', async (_why, end) => {
    const handle = limited({ common: '2/minute', end })
    for (let index = 0; index < 2; index++)
      await expect(handle(to('t'))).rejects.toMatchObject({ message: 'No.' })
    expect(await granted(handle, [to('t')])).toEqual([false])
  })

  it('refused calls are charged beyond a limit of their own', async () => {
    const handle = limited({ tools, end: denied })
    const codes: unknown[] = []
    for (let index = 0; index < 70; index++)
      await handle(to('t')).catch((error: unknown) => codes.push((error as GatewayError).code))
    const bounded = codes.indexOf('RATE_LIMIT_EXCEEDED')
    expect([bounded, new Set(codes.slice(bounded)).size]).toEqual([62, 1])
    expect(await granted(limited({ tools }), [to('t', as('other'))])).toEqual([true])
  })

  it('a call that is declined is not charged, however confirmation was requested', async () => {
    const asking: Handler = async ({ inputResponses: answers }) =>
      answers ? declined() : { kind: 'input_required', inputRequests: {}, requestState: { confirm: 'asked' } }
    const declined = () => Promise.reject(new GatewayError('CONFIRMATION_DECLINED', 'No.'))
    const handle = limited({ common: '1/minute', end: asking })
    for (let index = 0; index < 2; index++) {
      const first = await handle(to('t'))
      if (first.kind !== 'input_required') throw new Error('it did not ask')
      await expect(
        handle(to('t', { requestState: first.requestState, inputResponses: {} })),
      ).rejects.toMatchObject({
        code: 'CONFIRMATION_DECLINED',
      })
    }
  })
})

describe('charging of calls repeated under their key', () => {
  const key = (name: string, x = 1): Partial<Call> => ({
    params: Payload.of({ name: 't', arguments: { x }, idempotency_key: name }),
  })
  const kept = async (
    state: CallRecord['state'],
    fingerprint = fingerprintOf('t', { x: 1 }),
  ): Promise<MemoryStore> => {
    const store = new MemoryStore()
    const times = { expiresAt: Date.now() + 60_000, startedAt: 1, attemptedAt: 1 }
    const record = { ...times, fingerprint, tool: 't', state, owner: 'o', attempt: 'a' }
    const text = encodeCall({ ...record, ...(state === 'done' && { result: Payload.of({}) }) })
    await store.put(callKey('anonymous', 'one', 'k'), text, 60_000)
    return store
  }

  it('a replay is not charged', async () => {
    for (const state of ['done', 'executing'] as const) {
      const handle = limited({ common: '1/minute', deps: { store: await kept(state) } })
      const calls = [to('t', key('k')), to('t', key('k')), to('t'), to('t', key('k')), to('t')]
      expect(await granted(handle, calls)).toEqual([true, true, true, true, false])
    }
  })

  it('a replay with long numbers is not charged, and their neighbours are', async () => {
    const by = (digits: string) =>
      to('t', {
        params: Payload.text(`{"name":"t","arguments":{"x":${digits}},"idempotency_key":"k"}`),
      })
    for (const one of ['725653563933458433', '31415926.535897000013', '18446744073709551615']) {
      const given = Payload.text(`{"x":${one}}`)
      const store = await kept('done', fingerprintOf('t', given.value, inexactNumbers(given)))
      const handle = limited({ common: '1/minute', deps: { store } })
      const other = by(one.slice(0, -1) + '4')
      expect(await granted(handle, [by(one), by(one), other, by(one), other])).toEqual([
        true,
        true,
        true,
        true,
        false,
      ])
    }
  })

  it('a replay with a reference is not charged, and other arguments are where references are off', async () => {
    const by = (value: unknown, name = 't') =>
      to(name, { params: Payload.of({ name, arguments: { x: value }, idempotency_key: 'k' }) })
    for (const value of ['ref://ref_1', { $ref_id: 'ref_1' }]) {
      const handle = limited({ common: '1/minute', deps: { store: await kept('done') } })
      expect(await granted(handle, [by(value), by(value), to('t'), by(value), to('t')])).toEqual([
        true,
        true,
        true,
        true,
        false,
      ])
      const isOn = (feature: string): boolean => feature !== 'references'
      const off = limited({ common: '1/minute', deps: { store: await kept('done'), isOn } })
      expect(await granted(off, [by(value), by(value)])).toEqual([true, false])
      const other = limited({ common: '1/minute', deps: { store: await kept('done') } })
      expect(await granted(other, [by(value, 'u'), by(value, 'u')])).toEqual([true, false])
    }
  })

  it('a conflicting key and a call that may run again are charged', async () => {
    const other = limited({ common: '1/minute', deps: { store: await kept('done') } })
    expect(await granted(other, [to('t', key('k', 2)), to('t', key('k', 2))])).toEqual([true, false])
    const lost = limited({ common: '1/minute', deps: { store: await kept('unknown') } })
    expect(await granted(lost, [to('t', key('k')), to('t', key('k'))])).toEqual([true, false])
    const bad = limited({ common: '1/minute' })
    expect(await granted(bad, [to('t', key('no key')), to('t', key('no key'))])).toEqual([true, false])
  })
})
