// How long a keyed call may run: it always ends, and a lost response is resolved by a read or stays unknown. No call
// runs again while the first attempt may still take effect.
import { deadlineSlot } from '../../../../src/core/slot.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Handler, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { callKey, encodeCall } from '../../../../src/records/calls.ts'
import { fingerprintOf } from '../../../../src/records/fingerprint.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import {
  bench,
  done,
  ending,
  failureOf,
  fieldsOf,
  keyed,
  textOf,
} from '../../../support/idempotency-bench.ts'

const SILENCE = 2000
const TOTAL = 5000
const callBounds = () => ({ silence: SILENCE, total: TOTAL })
const tool = { verify: 'list(x=$.args.x) -> $.result.items[0]' }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds)

const untilAborted: Handler = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
const forEver: Handler = () => new Promise(() => undefined)

const finding =
  (...items: object[]): Handler =>
  async () => ({ kind: 'result', result: Payload.of({ structuredContent: { items } }) })
/** A read that ends by its own deadline. */
const hanging: Handler = (call) => {
  setTimeout(() => call.abort(new GatewayError('OPERATION_TIMEOUT', 'It took too long.')), SILENCE)
  return untilAborted(call)
}

const servers = [
  { server: 'responds to cancellation', handle: untilAborted },
  { server: 'never responds', handle: forEver },
]
const reads = [
  { read: 'no verify read', setup: {}, isFound: false },
  {
    read: 'a read that finds the effect',
    setup: { tool, deps: { call: finding({ id: 4 }) } },
    isFound: true,
  },
  { read: 'a read that hangs', setup: { tool, deps: { call: hanging } }, isFound: false },
]
/** The times at which clients make the call, and how long each waits, in milliseconds. */
const patterns = [
  { pattern: 'continuously', starts: [0, 1, 2, 3, 4, 5, 6].map((at) => at * SILENCE), wait: SILENCE },
  { pattern: 'concurrently', starts: [0, 0, 0, 500, 1000, 1500, 2000, 2500, 3000, 4900], wait: SILENCE },
  { pattern: 'by callers with a short timeout', starts: [0, 300, 600, 4800], wait: 250 },
  { pattern: 'after a long pause', starts: [0, SILENCE + 5500], wait: SILENCE },
  { pattern: 'by no other caller', starts: [0], wait: 60_000 },
]
const rows = servers.flatMap((server) =>
  reads.flatMap((read) => patterns.map((pattern) => ({ ...server, ...read, ...pattern }))),
)

describe('a keyed call that is never answered', () => {
  it.each(rows)('the call ends: its server $server, it is repeated $pattern, with $read', async (row) => {
    const { setup, isFound } = row
    const { make, seen } = bench({ ...setup, server: row.handle, deps: { ...setup.deps, callBounds } })
    const ends: unknown[] = []
    for (const start of row.starts) {
      setTimeout(() => {
        const caller = ending()
        setTimeout(() => caller.end('OPERATION_TIMEOUT'), row.wait)
        make(caller.given, keyed('k')).then(
          (outcome) => ends.push(outcome),
          (error: unknown) => ends.push(error),
        )
      }, start)
    }
    await pass(TOTAL + 100)
    expect(seen[0]?.signal.aborted).toBe(true)
    await pass(15_000)
    expect(ends).toHaveLength(row.starts.length)
    const settled = make({}, keyed('k')).catch((error: unknown) => error)
    await pass(SILENCE)
    const last: unknown = await settled
    if (isFound) expect(fieldsOf(last as Outcome)).toMatchObject({ structuredContent: { id: 4 } })
    else expect(last).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(seen).toHaveLength(1)
  })

  it('waiting callers learn that the outcome is unknown and how to resolve it', async () => {
    const { make } = bench({ server: untilAborted, deps: { callBounds } })
    const first = failureOf(make({}, keyed('k')))
    await pass(TOTAL)
    expect(await first).toMatchObject({ code: 'OUTCOME_UNKNOWN', isResult: true })
    const other = bench({ server: untilAborted, tool, deps: { callBounds, call: finding() } })
    const second = failureOf(other.make({}, keyed('k')))
    await pass(TOTAL)
    expect((await second).data['suggestion']).toContain('with the same key')
  })

  it('the call runs again only if a read finds no effect after the silence limit of its server', async () => {
    const answers: Handler[] = [untilAborted, async () => done(2)]
    const { make, seen } = bench({
      server: (call) => (answers.shift() ?? forEver)(call),
      tool,
      deps: { callBounds, call: finding() },
    })
    const first = failureOf(make({}, keyed('k')))
    await pass(TOTAL)
    expect((await first).code).toBe('OUTCOME_UNKNOWN')
    await pass(SILENCE - 100)
    expect((await failureOf(make({}, keyed('k')))).data).toMatchObject({
      code: 'IDEMPOTENCY_IN_PROGRESS',
      retry_after_seconds: 1,
    })
    expect(seen).toHaveLength(1)
    await pass(100)
    expect(textOf(await make({}, keyed('k')))).toBe('2')
    expect(seen).toHaveLength(2)
  })

  it('the call does not run out of time while the store does not take its end', async () => {
    const store = new MemoryStore()
    const { make } = bench({ store, deps: { callBounds } })
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = () => Promise.reject(new Error('full'))
    let pauses = 0
    const pause = (): (() => void) => {
      pauses++
      return () => void pauses--
    }
    const slots = deadlineSlot.put({ pause, renew: () => undefined })
    const making = make({ slots }, keyed('k'))
    await pass(TOTAL - 1)
    expect(pauses).toBe(1)
    await pass(1000)
    expect(textOf(await making)).toBe('1')
    expect(pauses).toBe(0)
    store.compareAndSwap = swap
    await pass(60_000)
    expect(textOf(await make({}, keyed('k')))).toBe('1')
  })

  it('the call lasts as long as the person it waits for', async () => {
    const { make } = bench({
      deps: { callBounds },
      server: async (call) => {
        const goOn = deadlineSlot.of(call)?.pause()
        await new Promise((resolve) => setTimeout(resolve, 3_600_000))
        goOn?.()
        await new Promise((resolve) => setTimeout(resolve, TOTAL - 1))
        return done(1)
      },
    })
    const outcome = make({}, keyed('k'))
    await pass(3_600_000 + TOTAL)
    expect(textOf(await outcome)).toBe('1')
  })

  it('the call has no time limit if calls are unlimited', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const unlimited = () => ({ silence: 600_000, total: Number.POSITIVE_INFINITY })
    const { make } = bench({ server: () => turn.promise, deps: { callBounds: unlimited } })
    const outcome = make({}, keyed('k'))
    await pass(3_600_000)
    turn.resolve(done(1))
    expect(textOf(await outcome)).toBe('1')
  })
})

describe('a keyed call whose gateway crashed long after it began', () => {
  /** A store with a pending record of a crashed gateway, of the given age. */
  async function left(age: number): Promise<MemoryStore> {
    const store = new MemoryStore()
    const [startedAt, hour] = [Date.now() - age, 3_600_000]
    const record = {
      ...{ expiresAt: startedAt + 24 * hour, fingerprint: fingerprintOf('t', { x: 1 }), tool: 't' },
      ...{ state: 'executing' as const, owner: 'dead', attempt: '1', startedAt, attemptedAt: startedAt },
    }
    await store.put(callKey('anonymous', 'one', 'k'), encodeCall(record), 24 * hour)
    return store
  }

  it('the call does not run again before a full silence limit has passed since the crash was detected', async () => {
    const store = await left(10 * SILENCE)
    const { make, seen } = bench({ store, me: 'b', tool, deps: { callBounds, call: finding() } })
    for (const wait of [SILENCE / 2, SILENCE / 2]) {
      expect((await failureOf(make({}, keyed('k')))).code).toBe('IDEMPOTENCY_IN_PROGRESS')
      await pass(wait)
    }
    expect(seen).toHaveLength(0)
    expect(textOf(await make({}, keyed('k')))).toBe('1')
  })
})

describe('a store that is unavailable for longer than writes are retried', () => {
  it('the result is recorded once the store is available again', async () => {
    class Away extends MemoryStore {
      isAway = false
      override async compareAndSwap(...given: Parameters<MemoryStore['compareAndSwap']>) {
        if (this.isAway) throw new Error('away')
        return super.compareAndSwap(...given)
      }
    }
    const store = new Away()
    const { make, seen } = bench({
      store,
      server: async () => {
        store.isAway = true
        return done(7)
      },
    })
    const first = make({}, keyed('k'))
    await pass(900_000)
    expect(fieldsOf(await first)).toMatchObject({ _meta: { 'dev.gatehouse/unrecorded': true } })
    store.isAway = false
    await pass(60_000)
    const other = bench({ store, me: 'b' })
    expect((await failureOf(other.make({}, keyed('k')))).code).toBe('PAYLOAD_TOO_LARGE')
    expect([...seen, ...other.seen]).toHaveLength(1)
  })
})
