import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { breaker } from '../../../src/features/breaker.ts'
import { circuits } from '../../../src/features/offers.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { featureDeps } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const settings = { failures: 3, window: 60_000, pause: 10_000 }
const failed = (): GatewayError => new GatewayError('OUTCOME_UNKNOWN', 'broke')
const refused = {
  code: 'SERVER_UNAVAILABLE',
  extra: { isUnsent: true, retryAfterSeconds: expect.any(Number) },
}

interface Server {
  /** The next response. */
  answer: () => Promise<unknown>
  seen: number
  call(upstream?: string, signal?: AbortSignal): Promise<unknown>
}

function server(): Server {
  const policy = breaker.create(() => settings, featureDeps()).calls?.middleware
  const self: Server = {
    answer: async () => ({}),
    seen: 0,
    call: (upstream = 'one', signal = new AbortController().signal) => {
      const target = { method: 'tools/call', upstream, name: 't' }
      const end: Handler = async () => {
        self.seen++
        await self.answer()
        return { kind: 'result', result: Payload.of({}) }
      }
      return (policy?.(target)?.(end) ?? end)(toolCall({ target, signal })).catch((error: unknown) => error)
    },
  }
  return self
}

async function fails(one: Server, times: number, error: () => Error = failed): Promise<void> {
  one.answer = () => Promise.reject(error())
  for (let index = 0; index < times; index++) await one.call()
}

describe('the circuit breaker of a server', () => {
  it('the breaker does not affect built-ins', () => {
    const policy = breaker.create(() => settings, featureDeps()).calls?.middleware
    const target = { method: 'tools/call', upstream: 'one', name: 't' }
    expect(policy?.({ ...target, isBuiltin: true })).toBeUndefined()
    expect(policy?.(target)).toBeDefined()
  })

  it('the breaker opens after consecutive failures, for that server only', async () => {
    const one = server()
    await fails(one, 3)
    expect(await one.call()).toMatchObject(refused)
    expect(one.seen).toBe(3)
    one.answer = async () => ({})
    expect(await one.call('two')).toMatchObject({ kind: 'result' })
  })

  it('says how long calls are still refused, and lets them through on request', async () => {
    const instance = breaker.create(() => settings, featureDeps())
    const target = { method: 'tools/call', upstream: 'one', name: 't' }
    const run = instance.calls?.middleware(target)?.(() => Promise.reject(failed()))
    const [of] = circuits.of(instance.offers ?? [])
    expect(of?.('other')).toBeUndefined()
    for (let index = 0; index < 3; index++) await run?.(toolCall({ target })).catch(() => undefined)
    expect([of?.('one')?.failures, of?.('one')?.wait()]).toEqual([3, 10_000])
    of?.('one')?.succeed()
    expect([of?.('one')?.failures, of?.('one')?.wait()]).toEqual([0, 0])
  })

  it('the half-open breaker allows a single call and closes after its success', async () => {
    const one = server()
    await fails(one, 3)
    vi.advanceTimersByTime(10_001)
    const probe = Promise.withResolvers<object>()
    one.answer = () => probe.promise
    const first = one.call()
    expect(await one.call()).toMatchObject(refused)
    probe.resolve({})
    expect(await first).toMatchObject({ kind: 'result' })
    expect(await one.call()).toMatchObject({ kind: 'result' })
  })

  it('the half-open breaker opens again after a failed call', async () => {
    const one = server()
    await fails(one, 3)
    vi.advanceTimersByTime(10_001)
    await fails(one, 1)
    expect(one.seen).toBe(4)
    expect(await one.call()).toMatchObject(refused)
  })

  it('the success of a call that was made before the breaker opened does not close it', async () => {
    const one = server()
    const slow = Promise.withResolvers<object>()
    one.answer = () => slow.promise
    const early = one.call()
    await fails(one, 3)
    slow.resolve({})
    expect(await early).toMatchObject({ kind: 'result' })
    expect(await one.call()).toMatchObject(refused)
  })

  it('calls of ended sessions do not count as failures', async () => {
    const one = server()
    one.answer = () => Promise.reject(failed())
    for (let index = 0; index < 5; index++) await one.call('one', AbortSignal.abort(failed()))
    one.answer = async () => ({})
    expect(await one.call()).toMatchObject({ kind: 'result' })
  })

  it('failures that are far apart or separated by a success do not open the breaker', async () => {
    const one = server()
    await fails(one, 2)
    one.answer = async () => ({})
    await one.call()
    await fails(one, 2)
    vi.advanceTimersByTime(60_001)
    await fails(one, 2)
    expect(one.seen).toBe(7)
  })

  it.each([
    new GatewayError('UPSTREAM_ERROR', 'refused credentials', { details: { http_status: 401 } }),
    new GatewayError('INVALID_INPUT', 'an answer'),
    new GatewayError('CANCELLED', 'taken back'),
    new GatewayError('SERVER_UNAVAILABLE', 'paused', { retryAfterSeconds: 20 }),
  ])('the breaker ignores %s', async (error) => {
    const one = server()
    await fails(one, 10, () => error)
    expect(one.seen).toBe(10)
  })
})

describe('the breaker of gateways that share a store', () => {
  /** Two gateways, and how often each called the server. */
  function sharing(store: Store = new MemoryStore()) {
    const answering = { answer: (): Promise<unknown> => Promise.reject(failed()) }
    const gateways = [0, 1].map(() => {
      const instance = breaker.create(() => settings, featureDeps({ store, isStoreShared: true }))
      const seen = { count: 0 }
      const target = { method: 'tools/call', upstream: 'one', name: 't' }
      const end: Handler = async () => {
        seen.count++
        await answering.answer()
        return { kind: 'result', result: Payload.of({}) }
      }
      const run = instance.calls?.middleware(target)?.(end) ?? end
      const call = (): Promise<unknown> => run(toolCall({ target })).catch((error: unknown) => error)
      return { instance, seen, call }
    })
    onTestFinished(async () => {
      for (const { instance } of gateways) await instance.close?.()
    })
    const [one, other] = gateways
    if (!one || !other) return expect.unreachable()
    /** Lets the store do what was begun. */
    const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1)
    const open = async (): Promise<void> => {
      await settle()
      for (let index = 0; index < 3; index++) await one.call()
      await settle()
    }
    return { answering, one, other, settle, open }
  }

  it('opens at all of them once it opens at one', async () => {
    const { one, other, open } = sharing()
    await open()
    expect(await other.call()).toMatchObject(refused)
    expect([one.seen.count, other.seen.count]).toEqual([3, 0])
  })

  it('is probed by one of them, and closes at all after its success', async () => {
    const { answering, one, other, settle, open } = sharing()
    await open()
    await vi.advanceTimersByTimeAsync(10_001)
    const probe = Promise.withResolvers<object>()
    answering.answer = () => probe.promise
    const first = other.call()
    await settle()
    expect(await one.call()).toMatchObject(refused)
    expect([one.seen.count, other.seen.count]).toEqual([3, 1])
    probe.resolve({})
    expect(await first).toMatchObject({ kind: 'result' })
    await settle()
    expect(await one.call()).toMatchObject({ kind: 'result' })
  })

  it('opens again at all of them after a probe that failed, and another one may probe then', async () => {
    const { one, other, settle, open } = sharing()
    await open()
    await vi.advanceTimersByTimeAsync(10_001)
    await other.call()
    await settle()
    expect(await one.call()).toMatchObject(refused)
    await vi.advanceTimersByTimeAsync(10_001)
    await one.call()
    expect([one.seen.count, other.seen.count]).toEqual([4, 1])
  })

  it('is probed by another one if the first one ends while it probes', async () => {
    const { answering, one, other, settle, open } = sharing()
    await open()
    await vi.advanceTimersByTimeAsync(10_001)
    answering.answer = () => new Promise(() => undefined)
    void other.call()
    await settle()
    expect(await one.call()).toMatchObject(refused)
    await vi.advanceTimersByTimeAsync(10_001)
    answering.answer = async () => ({})
    expect(await one.call()).toMatchObject({ kind: 'result' })
  })

  it('is that of each gateway while the store does not answer, and ignores what it cannot read', async () => {
    const store = new MemoryStore()
    await store.put('circuit:one', '{"until":"never"}', 60_000)
    const { answering, one, other, settle, open } = sharing(store)
    const never = (): Promise<never> => new Promise(() => undefined)
    vi.spyOn(store, 'put').mockImplementation(never)
    vi.spyOn(store, 'setIfAbsent').mockImplementation(never)
    await open()
    expect(await one.call()).toMatchObject(refused)
    await other.call()
    expect(other.seen.count).toBe(1)
    await vi.advanceTimersByTimeAsync(10_001)
    answering.answer = async () => ({})
    const probe = one.call()
    await vi.advanceTimersByTimeAsync(1001)
    await settle()
    expect(await probe).toMatchObject({ kind: 'result' })
  })

  it('is no longer open at a gateway than its pause, whatever the clock of another one says', async () => {
    const store = new MemoryStore()
    await store.put('circuit:one', JSON.stringify({ until: Date.now() + 3_600_000 }), 3_600_000)
    const { answering, one, settle } = sharing(store)
    await settle()
    expect(await one.call()).toMatchObject(refused)
    answering.answer = async () => ({})
    await vi.advanceTimersByTimeAsync(10_001)
    expect(await one.call()).toMatchObject({ kind: 'result' })
  })
})
