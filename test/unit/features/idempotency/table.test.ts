import { describe, expect, it, vi } from 'vitest'
import type { Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
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

const outcomeUnknown = new GatewayError('OUTCOME_UNKNOWN', 'The connection broke.')

describe('idempotency: a keyed call', () => {
  it('a keyed call runs once and is replayed with the time of its first run', async () => {
    const { make, seen } = bench()
    const first = fieldsOf(await make({}, keyed('k')))
    const again = fieldsOf(await make({}, keyed('k')))
    expect(seen).toHaveLength(1)
    const said = { idempotency_key: 'k', was_replay: false, original_timestamp: expect.any(String) }
    expect(first).toMatchObject({ idempotency: said, _meta: { ...said, 'dev.gatehouse/idempotency': said } })
    expect(again).toMatchObject({ content: first.content, idempotency: { was_replay: true } })
    const at = (fields: Readonly<Record<string, unknown>>) =>
      (fields['idempotency'] as Record<string, unknown>)['original_timestamp']
    expect(at(again)).toBe(at(first))
  })

  it('the result has no idempotency member if compat is off', async () => {
    const { make } = bench({ settings: { compat: false } })
    expect(fieldsOf(await make({}, keyed('k')))).not.toHaveProperty('idempotency')
  })

  it('a replay preserves digits beyond double precision', async () => {
    const text = '{"content":[],"structuredContent":{"id":12345678901234567890,"n":1.0}}'
    const { make } = bench({ server: async () => ({ kind: 'result', result: Payload.text(text) }) })
    await make({}, keyed('k'))
    const again = await make({}, keyed('k'))
    expect(again.kind === 'result' && again.result.text).toContain('{"id":12345678901234567890,"n":1.0}')
  })

  it('a key with other arguments or another tool is a conflict', async () => {
    const { make, seen } = bench()
    await make({}, keyed('k'))
    const changed = await failureOf(make({}, keyed('k', { arguments: { x: 2 } })))
    expect(changed).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT', isResult: true })
    expect((await failureOf(make({}, keyed('k', { name: 'u' })))).code).toBe('IDEMPOTENCY_CONFLICT')
    expect(seen).toHaveLength(1)
  })

  it('a key with reordered arguments is a replay', async () => {
    const { make, seen } = bench()
    await make({}, keyed('k', { arguments: { a: 1, b: { c: 2, d: 3 } } }))
    await make({}, keyed('k', { arguments: { b: { d: 3, c: 2 }, a: 1 } }))
    expect(seen).toHaveLength(1)
  })

  it('a key is scoped to its principal', async () => {
    const { make, seen } = bench()
    await make({ principal: { id: 'ann' } }, keyed('k'))
    const other = await make({ principal: { id: 'bob' } }, keyed('k', { arguments: { x: 2 } }))
    expect(fieldsOf(other)).toMatchObject({ idempotency: { was_replay: false } })
    expect(seen).toHaveLength(2)
  })

  it('a key can be used again after its retention', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench()
      const params = keyed('k', { idempotency_ttl_seconds: 1 })
      await make({}, params)
      vi.advanceTimersByTime(59_000)
      await make({}, params)
      expect(seen).toHaveLength(1)
      vi.advanceTimersByTime(2000)
      await make({}, params)
      expect(seen).toHaveLength(2)
    } finally {
      vi.useRealTimers()
    }
  })

  it('a replay survives a restart of the gateway', async () => {
    const store = new MemoryStore()
    await bench({ store, me: 'a' }).make({}, keyed('k'))
    const after = bench({ store, me: 'b', alive: new Set(['b']) })
    expect(textOf(await after.make({}, keyed('k')))).toBe('1')
    expect(after.seen).toHaveLength(0)
  })

  it('an outcome that a gateway records just before it ends is replayed where its record was read before that', async () => {
    const store = new MemoryStore()
    const turn = Promise.withResolvers<Outcome>()
    const before = bench({ store, me: 'a', server: () => turn.promise })
    const first = before.make({}, keyed('k'))
    await vi.waitUntil(() => before.seen.length > 0)
    const alive = {
      has: async (): Promise<boolean> => {
        turn.resolve(done(7))
        await first
        return false
      },
    }
    const after = bench({ store, me: 'b', alive })
    expect(textOf(await after.make({}, keyed('k')))).toBe('7')
    expect(after.seen).toHaveLength(0)
  })
})

describe('idempotency: concurrent calls with one key', () => {
  it('concurrent calls cause one upstream call, and each receives its result', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make, seen } = bench({ server: () => turn.promise })
    const all = Array.from({ length: 100 }, () => make({}, keyed('k')))
    await vi.waitUntil(() => seen.length > 0)
    turn.resolve(done(7))
    const outcomes = (await Promise.all(all)).map(fieldsOf)
    expect(seen).toHaveLength(1)
    const replayed = outcomes.map(({ idempotency }) => (idempotency as { was_replay: boolean }).was_replay)
    expect(replayed.filter((each) => !each)).toHaveLength(1)
    expect(new Set(outcomes.map(({ content }) => JSON.stringify(content))).size).toBe(1)
  })

  it('concurrent calls on three gateways with a shared store cause one upstream call', async () => {
    const store = new MemoryStore()
    const turn = Promise.withResolvers<Outcome>()
    const gateways = ['a', 'b', 'c'].map((me) => bench({ store, me, server: () => turn.promise }))
    const all = Array.from({ length: 99 }, async (_, index) => gateways[index % 3]?.make({}, keyed('k')))
    await vi.waitUntil(() => gateways.some(({ seen }) => seen.length > 0))
    turn.resolve(done(7))
    const outcomes = await Promise.all(all)
    expect(outcomes.map((each) => each && textOf(each))).toEqual(Array.from({ length: 99 }, () => '7'))
    expect(gateways.map(({ seen }) => seen.length).reduce((sum, each) => sum + each)).toBe(1)
  })

  it('a concurrent call with other arguments is refused', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make } = bench({ server: () => turn.promise })
    const first = make({}, keyed('k'))
    const other = await failureOf(make({}, keyed('k', { arguments: { x: 2 } })))
    expect(other.code).toBe('IDEMPOTENCY_CONFLICT')
    turn.resolve(done(1))
    await first
  })

  it('the upstream call continues for the remaining callers when the first disconnects', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make, seen } = bench({ server: () => turn.promise })
    const leaving = ending()
    const first = failureOf(make(leaving.given, keyed('k')))
    const second = make({}, keyed('k'))
    await vi.waitUntil(() => seen.length > 0)
    leaving.end('CANCELLED')
    expect((await first).code).toBe('CANCELLED')
    expect(seen[0]?.signal.aborted).toBe(false)
    turn.resolve(done(7))
    expect(textOf(await second)).toBe('7')
  })

  it('a caller whose deadline passes is answered in progress, and the first caller with a timeout', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make, seen } = bench({ server: () => turn.promise })
    const [one, two] = [ending(), ending()]
    const first = failureOf(make(one.given, keyed('k')))
    const second = failureOf(make(two.given, keyed('k')))
    await vi.waitUntil(() => seen.length > 0)
    two.end('OPERATION_TIMEOUT')
    one.end('OPERATION_TIMEOUT')
    expect((await first).code).toBe('OPERATION_TIMEOUT')
    const told = await second
    expect(told.code).toBe('IDEMPOTENCY_IN_PROGRESS')
    expect(told.data).toMatchObject({ category: 'transient', retry_after_seconds: expect.any(Number) })
    turn.resolve(done(7))
    expect(textOf(await make({}, keyed('k')))).toBe('7')
    expect(seen).toHaveLength(1)
  })

  it('a call waits for another gateway no longer than its deadline', async () => {
    const store = new MemoryStore()
    const turn = Promise.withResolvers<Outcome>()
    const other = bench({ store, me: 'b', server: () => turn.promise })
    const running = other.make({}, keyed('k'))
    await vi.waitUntil(() => other.seen.length > 0)
    const caller = ending()
    const waiting = failureOf(bench({ store, me: 'a' }).make(caller.given, keyed('k')))
    setTimeout(() => caller.end('OPERATION_TIMEOUT'), 30)
    expect((await waiting).code).toBe('IDEMPOTENCY_IN_PROGRESS')
    turn.resolve(done(1))
    await running
  })
})

describe('idempotency: a closing gateway', () => {
  it('a closing gateway waits a limited time for running calls to be recorded', async () => {
    vi.useFakeTimers()
    try {
      const turn = Promise.withResolvers<Outcome>()
      const { make, seen, store, close } = bench({ server: () => turn.promise })
      void make({}, keyed('k'))
      await vi.waitUntil(() => seen.length > 0)
      const ends: string[] = []
      const closing = close().then(() => ends.push('closed'))
      await vi.advanceTimersByTimeAsync(1000)
      expect(ends).toEqual([])
      turn.resolve(done(1))
      await closing
      expect(textOf(await bench({ store, me: 'b', alive: new Set(['b']) }).make({}, keyed('k')))).toBe('1')
      const stuck = bench({ server: () => new Promise(() => undefined) })
      void stuck.make({}, keyed('k'))
      await vi.waitUntil(() => stuck.seen.length > 0)
      const end = stuck.close().then(() => ends.push('given up'))
      await vi.advanceTimersByTimeAsync(2001)
      await end
      expect(ends).toEqual(['closed', 'given up'])
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('idempotency: a disconnected caller', () => {
  it('a caller that disconnects before its call is sent releases the key', async () => {
    const store = new MemoryStore()
    const claim = store.setIfAbsent.bind(store)
    const turn = Promise.withResolvers<void>()
    store.setIfAbsent = async (...given) => {
      await turn.promise
      return claim(...given)
    }
    const { make, seen } = bench({ store })
    const leaving = ending()
    const first = failureOf(make(leaving.given, keyed('k')))
    leaving.end('CANCELLED')
    expect((await first).code).toBe('CANCELLED')
    turn.resolve()
    const other = bench({ store, me: 'b' })
    const next = fieldsOf(await other.make({}, keyed('k')))
    expect(next).toMatchObject({ idempotency: { was_replay: false } })
    expect([seen.length, other.seen.length]).toEqual([0, 1])
  })

  it('a caller that comes back receives the late result', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make, seen } = bench({ server: () => turn.promise })
    const leaving = ending()
    const first = failureOf(make(leaving.given, keyed('k')))
    await vi.waitUntil(() => seen.length > 0)
    leaving.end('CANCELLED')
    await first
    turn.resolve(done(7))
    expect(textOf(await make({}, keyed('k')))).toBe('7')
    expect(seen).toHaveLength(1)
  })

  it('an outcome is unknown if the caller does not come back in time', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({
        server: ({ signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      })
      const leaving = ending()
      const first = failureOf(make(leaving.given, keyed('k')))
      await vi.advanceTimersByTimeAsync(1)
      leaving.end('CANCELLED')
      await first
      expect(seen[0]?.signal.aborted).toBe(false)
      await vi.advanceTimersByTimeAsync(5001)
      expect(seen[0]?.signal.aborted).toBe(true)
      expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
      expect(seen).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('idempotency: an unknown outcome', () => {
  it('a call with an unknown outcome is not retried blindly', async () => {
    const { make, seen } = bench({ server: () => Promise.reject(outcomeUnknown) })
    expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    const again = await failureOf(make({}, keyed('k')))
    expect(again).toMatchObject({ code: 'OUTCOME_UNKNOWN', isResult: true })
    expect(again.data).toMatchObject({ user_actionable: true, suggestion: expect.stringMatching('new key') })
    expect(seen).toHaveLength(1)
  })

  it('a key with an unknown outcome and other arguments is a conflict', async () => {
    const { make } = bench({ server: () => Promise.reject(outcomeUnknown) })
    await failureOf(make({}, keyed('k')))
    const other = await failureOf(make({}, keyed('k', { arguments: { x: 2 } })))
    expect(other.code).toBe('IDEMPOTENCY_CONFLICT')
  })

  it('an idempotent tool is retried after a lost response', async () => {
    let tries = 0
    const { make } = bench({
      entry: { classification: { op: 'write', risk: 'reversible', idempotent: true, evidence: [] } },
      server: () => (++tries === 1 ? Promise.reject(outcomeUnknown) : Promise.resolve(done(tries))),
    })
    await failureOf(make({}, keyed('k')))
    expect(textOf(await make({}, keyed('k')))).toBe('2')
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ idempotency: { was_replay: true } })
  })

  it('the outcome of a call is unknown if its gateway crashed while it ran', async () => {
    const store = new MemoryStore()
    const dying = bench({ store, me: 'dead', server: () => new Promise(() => undefined) })
    dying.make({}, keyed('k')).catch(() => undefined)
    await vi.waitUntil(() => dying.seen.length > 0)
    const next = bench({ store, me: 'b' })
    expect((await failureOf(next.make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(next.seen).toHaveLength(0)
  })
})
