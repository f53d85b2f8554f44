import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { breaker } from '../../../src/features/breaker.ts'
import { circuits } from '../../../src/features/offers.ts'
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
