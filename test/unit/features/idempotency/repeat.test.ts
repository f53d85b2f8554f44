// The call of an operation whose process ended is made again by another process, and takes effect once at most.
import { deadlineSlot, acceptsTaskSlot } from '../../../../src/core/slot.ts'
import { describe, expect, it, vi } from 'vitest'
import type { Call, Handler } from '../../../../src/core/call.ts'
import { operationSlot } from '../../../../src/records/operations.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { callCollection } from '../../../../src/records/calls.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { bench, done, failureOf, fieldsOf, keyed, textOf } from '../../../support/idempotency-bench.ts'

const pass = fakeClock()
const hanging: Handler = () => new Promise(() => undefined)
const idempotent = {
  classification: { op: 'write', risk: 'reversible', idempotent: true, evidence: [] },
} as const
const read = { classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] } } as const
const alive = new Set(['b', 'c'])

/** The operation that is gone on with; `lostSince` where its call has no key of its own. */
function operation(lostSince?: number): Pick<Call, 'slots'> {
  return {
    slots: operationSlot.put({
      id: 'op',
      key: 'operation:x/n',
      ...(lostSince !== undefined && { lostSince }),
    }),
  }
}

describe('an operation without a key', () => {
  it('is not made again where that could do something twice: its outcome is unknown', async () => {
    const { make, seen, store } = bench()
    const error = await failureOf(make(operation(1000)))
    expect(error.code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual([])
    // The next process that takes it up finds the same.
    const records = [...(await store.scan(callCollection('anonymous'))).values()]
    expect(records.map((text) => JSON.parse(text))).toMatchObject([
      { state: 'unknown', tool: 't', startedAt: 1000, attemptedAt: 1000 },
    ])
    expect((await failureOf(make(operation(1000)))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual([])
  })

  it.each([
    ['reads', read],
    ['does the same when it is called twice', idempotent],
  ])('is made again where its tool %s', async (_what, entry) => {
    const { make, seen } = bench({ entry })
    expect(textOf(await make(operation(1000)))).toBe('1')
    expect(seen).toHaveLength(1)
    expect(seen[0]).not.toHaveProperty('idempotencyKey')
  })

  it('is made again once, however many processes try', async () => {
    const store = new MemoryStore()
    const [b, c] = [
      bench({ store, me: 'b', alive, entry: idempotent }),
      bench({ store, me: 'c', alive, entry: idempotent }),
    ]
    const results = Promise.all([b.make(operation(1000)), c.make(operation(1000)), b.make(operation(1000))])
    await pass(5000)
    expect((await results).map(textOf)).toEqual(['1', '1', '1'])
    expect(b.seen.length + c.seen.length).toBe(1)
  })

  it('is replayed where an earlier attempt to make it again has ended', async () => {
    const { make, seen } = bench({ entry: idempotent })
    await make(operation(1000))
    expect(textOf(await make(operation(1000)))).toBe('1')
    expect(seen).toHaveLength(1)
  })

  it('is another call than an equal one, and than an equal operation', async () => {
    const { make, seen } = bench({ entry: idempotent })
    await make(operation(1000))
    await make({ slots: operationSlot.put({ id: 'op2', key: 'operation:x/other', lostSince: 1000 }) })
    await make()
    expect(seen).toHaveLength(3)
  })

  it('goes on with the task of its server past the records', async () => {
    const { make, seen, store } = bench()
    const requestState = { upstream_task: { id: 'u1' } }
    expect(textOf(await make({ ...operation(), requestState }))).toBe('1')
    expect(seen[0]?.requestState).toEqual(requestState)
    expect((await store.scan(callCollection('anonymous'))).size).toBe(0)
  })

  it('fails where the store cannot record that it was lost, and is not made', async () => {
    const store = new MemoryStore()
    store.setIfAbsent = () => Promise.reject(new Error('away'))
    const { make, seen } = bench({ store, entry: idempotent })
    await expect(make(operation(1000))).rejects.toBeInstanceOf(GatewayError)
    expect(seen).toEqual([])
  })
})

/** The process `a` ends while it makes the keyed call. */
async function leftBehind(): Promise<MemoryStore> {
  const store = new MemoryStore()
  void bench({ store, me: 'a', server: hanging }).make({}, keyed('k'))
  await pass(10)
  expect((await store.scan(callCollection('anonymous'))).size).toBe(1)
  return store
}

/** A tool that a read verifies, at a server that may be silent for two seconds. */
function finding(items: () => readonly object[]) {
  return {
    tool: { verify: 'list(x=$.args.x) -> $.result.items[0]' },
    deps: {
      callBounds: () => ({ silence: 2000, total: 60_000 }),
      call: async () =>
        ({ kind: 'result', result: Payload.of({ structuredContent: { items: items() } }) }) as const,
    },
  }
}

it('a lost call has the outcome that another process found while the read of this one failed', async () => {
  const store = await leftBehind()
  const { tool, deps } = finding(() => [{ id: 4 }])
  const read = Promise.withResolvers<never>()
  const b = bench({ store, me: 'b', alive, tool, deps: { ...deps, call: () => read.promise } })
  const c = bench({ store, me: 'c', alive, tool, deps })
  const waiting = b.make({}, keyed('k'))
  await pass(10)
  const found = c.make({}, keyed('k'))
  await pass(10)
  expect(fieldsOf(await found)).toMatchObject({ structuredContent: { id: 4 } })
  read.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
  await pass(1000)
  expect(fieldsOf(await waiting)).toMatchObject({ structuredContent: { id: 4 } })
  expect([...b.seen, ...c.seen]).toEqual([])
})

describe('an operation with a key', () => {
  it('is unknown where its tool may do something twice', async () => {
    const { make, seen } = bench({ store: await leftBehind(), me: 'b', alive })
    expect((await failureOf(make(operation(), keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual([])
  })

  it('is made again with its key where its tool does the same when it is called twice', async () => {
    const { make, seen } = bench({ store: await leftBehind(), me: 'b', alive, entry: idempotent })
    expect(textOf(await make(operation(), keyed('k')))).toBe('1')
    expect(seen).toHaveLength(1)
    expect(textOf(await make({}, keyed('k')))).toBe('1')
    expect(seen).toHaveLength(1)
  })

  it('is replayed where its outcome was recorded before the process ended', async () => {
    const store = new MemoryStore()
    await bench({ store, me: 'a', server: async () => done(7) }).make({}, keyed('k'))
    const { make, seen } = bench({ store, me: 'b', alive })
    const outcome = await make(operation(), keyed('k'))
    expect(textOf(outcome)).toBe('7')
    expect(fieldsOf(outcome)['_meta']).toMatchObject({ was_replay: true })
    expect(seen).toEqual([])
  })

  it('is made for the first time where the process ended before it claimed the key', async () => {
    const { make, seen } = bench({ me: 'b', alive })
    expect(textOf(await make(operation(), keyed('k')))).toBe('1')
    expect(seen).toHaveLength(1)
  })

  it('ends with its caller while it waits', async () => {
    const controller = new AbortController()
    const { make, seen } = bench({ store: await leftBehind(), me: 'b', alive, ...finding(() => []) })
    const failed = failureOf(make({ ...operation(), signal: controller.signal }, keyed('k')))
    await pass(100)
    controller.abort(new GatewayError('CANCELLED', 'gone'))
    expect((await failed).code).toBe('CANCELLED')
    await pass(60_000)
    expect(seen).toEqual([])
  })
})

describe('an operation whose tool can be verified', () => {
  it.each([
    ['without a key', async () => new MemoryStore(), operation(1000), {}],
    ['with a key', leftBehind, operation(), keyed('k')],
  ])('%s ends with what the read finds, and is not made again', async (_what, store, given, params) => {
    const { make, seen } = bench({ store: await store(), me: 'b', alive, ...finding(() => [{ id: 4 }]) })
    expect(JSON.stringify(fieldsOf(await make(given, params)))).toContain('"id":4')
    expect(seen).toEqual([])
  })

  it.each([
    ['without a key', async () => new MemoryStore(), operation(1000), {}],
    ['with a key', leftBehind, operation(), keyed('k')],
  ])(
    '%s is made again once the lost request can take no effect any more',
    async (_what, store, given, params) => {
      const read = vi.fn<() => object[]>(() => [])
      const { make, seen } = bench({ store: await store(), me: 'b', alive, ...finding(read) })
      const outcome = make(given, params)
      // That can be as long as a server may be silent.
      await pass(1900)
      expect(seen).toEqual([])
      expect(read).toHaveBeenCalled()
      await pass(2000)
      expect(textOf(await outcome)).toBe('1')
      expect(seen).toHaveLength(1)
    },
  )

  it('ends with what a later read finds', async () => {
    const items: object[] = []
    const { make, seen } = bench({ me: 'b', alive, ...finding(() => items) })
    const outcome = make(operation(1000))
    await pass(1000)
    items.push({ id: 4 })
    await pass(3000)
    expect(JSON.stringify(fieldsOf(await outcome))).toContain('"id":4')
    expect(seen).toEqual([])
  })

  it('is unknown where the read fails', async () => {
    const failing = () => {
      throw new GatewayError('UPSTREAM_ERROR', 'The read failed.')
    }
    const { make, seen } = bench({ me: 'b', alive, ...finding(failing) })
    expect((await failureOf(make(operation(1000)))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual([])
  })
})

describe('a call that can become a task', () => {
  const long = {
    ...finding(() => []),
    deps: { ...finding(() => []).deps, callBounds: () => ({ silence: 2000, total: 30_000 }) },
  }
  const taking = { slots: acceptsTaskSlot.put(true) }

  it('is made again only once its server cannot be at work any more: a task may be silent to its end', async () => {
    const store = new MemoryStore()
    void bench({ store, me: 'a', server: hanging }).make(taking, keyed('k'))
    await pass(1000)
    const { make, seen } = bench({ store, me: 'b', alive, ...long })
    const outcome = make(operation(), keyed('k'))
    await pass(28_000)
    expect(seen).toEqual([])
    await pass(3000)
    expect(textOf(await outcome)).toBe('1')
  })

  it('waits for an attempt that was lost, where other calls get IDEMPOTENCY_IN_PROGRESS', async () => {
    const store = await leftBehind()
    const b = bench({ store, me: 'b', alive, ...finding(() => []) })
    expect((await failureOf(b.make({}, keyed('k')))).code).toBe('IDEMPOTENCY_IN_PROGRESS')
    const paused = vi.fn<() => () => void>(() => () => undefined)
    const outcome = b.make(
      { slots: deadlineSlot.put({ pause: paused, renew: () => undefined }, taking.slots) },
      keyed('k'),
    )
    await pass(5000)
    expect(textOf(await outcome)).toBe('1')
    expect(b.seen).toHaveLength(1)
    // The time that takes is not its own.
    expect(paused).toHaveBeenCalled()
  })
})

describe('a step of a transaction whose first attempt was lost', () => {
  it('is unknown even if its tool has a verify: its transaction holds that step already', async () => {
    const step = keyed('k', { transaction_id: 'tx', step_id: 'one' })
    const store = new MemoryStore()
    void bench({ store, me: 'a', server: hanging }).make({}, step)
    await pass(10)
    const { make, seen } = bench({ store, me: 'b', alive, ...finding(() => []) })
    expect((await failureOf(make({}, step))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual([])
  })
})

describe('what is recorded of lost operations', () => {
  it('counts against the keys of their caller', async () => {
    const { make } = bench({ settings: { max_keys: 3 } })
    // The keys are counted from the first one on.
    await make({}, keyed('k'))
    for (const name of ['one', 'two'])
      await failureOf(
        make({ slots: operationSlot.put({ id: name, key: `operation:x/${name}`, lostSince: 1 }) }),
      )
    expect((await failureOf(make({}, keyed('other')))).code).toBe('QUOTA_EXHAUSTED')
  })
})
