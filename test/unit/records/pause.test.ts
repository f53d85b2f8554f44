import { describe, expect, it } from 'vitest'
import type { OrderStep } from '../../../src/core/audit-step.ts'
import { Pause, pauseOf, type PauseState, pauseView, PROPAGATION_MS } from '../../../src/records/pause.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const KEY = 'pause:writes'
const MINUTE = 60_000
const pass = fakeClock()

interface Field {
  readonly store: MemoryStore
  readonly pauses: Pause
  readonly steps: readonly OrderStep[]
}

function field(): Field {
  const store = new MemoryStore()
  const steps: OrderStep[] = []
  return { store, steps, pauses: new Pause(store, (step) => void steps.push(step)) }
}

describe('the pause of writes', () => {
  it('lasts until it is ended, and each change is a step of the audit log', async () => {
    const { pauses, steps } = field()
    expect(await pauses.state()).toBeUndefined()
    const since = Date.now()
    await pauses.pause({ by: 'ada', reason: ' restoring\nthe database ' })
    await pass(1000 * 24 * 60 * MINUTE)
    const expected = { version: 1, by: 'ada', since, reason: 'restoring\nthe database' }
    expect(await pauses.state()).toEqual(expected)
    expect(await pauses.resume({ by: 'bob', via: 'page' })).toEqual(expected)
    expect(await pauses.state()).toBeUndefined()
    expect(await pauses.resume({ by: 'bob' })).toBeUndefined()
    expect(steps).toEqual([
      { order: 'pause', by: 'ada', reason: 'restoring\nthe database' },
      { order: 'resume', by: 'bob', via: 'page' },
    ])
  })

  it('ends by itself where it has an end, which is no step of a person', async () => {
    const { store, pauses, steps } = field()
    const until = Date.now() + MINUTE
    await pauses.pause({ by: 'ada', until })
    await pass(MINUTE - 1)
    expect(await pauses.state()).toMatchObject({ until })
    await pass(1)
    expect(await pauses.state()).toBeUndefined()
    expect(await store.get(KEY)).toBeUndefined()
    expect(await pauses.resume({ by: 'bob' })).toBeUndefined()
    expect(steps).toEqual([{ order: 'pause', by: 'ada', until }])
  })

  it.each([
    ['a later end counts', 5, 10, 10],
    ['a sooner end does not', 10, 5, 10],
    ['no end counts', 5, undefined, undefined],
    ['an end does not count against none', undefined, 5, undefined],
  ])('a second pause makes it no shorter: %s', async (_what, first, second, last) => {
    const { pauses } = field()
    const since = Date.now()
    const at = (minutes: number | undefined) => minutes && since + minutes * MINUTE
    await pauses.pause({ by: 'ada', reason: 'an incident', until: at(first) })
    await pass(1000)
    const state = await pauses.pause({ by: 'bob', until: at(second) })
    expect(state).toMatchObject({ by: 'bob', since, reason: 'an incident' })
    expect(state.until).toBe(at(last))
    expect(await pauses.state()).toEqual(state)
  })

  it('a pause after one that has ended is a new one', async () => {
    const { store, pauses } = field()
    await store.put(KEY, JSON.stringify({ version: 1, by: 'ada', since: 5, until: 6, reason: 'old' }), MINUTE)
    expect(await pauses.pause({ by: 'bob' })).toEqual({ version: 1, by: 'bob', since: Date.now() })
  })

  it('cuts long reasons, and keeps no part of a character', async () => {
    const { pauses } = field()
    await pauses.pause({ by: 'ada', reason: `\ud800${'x'.repeat(1000)}` })
    const { reason = '' } = (await pauses.state()) ?? {}
    expect([reason.length, reason.isWellFormed()]).toEqual([500, true])
    await pauses.pause({ by: 'ada', reason: '   ' })
    expect((await pauses.state())?.reason).toBe(reason)
  })

  it.each([
    'null',
    '[]',
    '{',
    '{"version":1,"by":null,"since":1}',
    '{"version":1,"by":"ada"}',
    '{"by":"ada","since":1}',
    '{"version":1,"by":"ada","since":9007199254740993}',
    '{"version":1,"by":"ada","since":1e300}',
  ])('a record that cannot be read is none: %s', async (text) => {
    const { store, pauses } = field()
    await store.put(KEY, text, MINUTE)
    expect(await pauses.state()).toBeUndefined()
    await pauses.pause({ by: 'bob' })
    expect(await pauses.state()).toMatchObject({ by: 'bob' })
  })

  it('a record of a later version still pauses, and what cannot be read of it does not end it', async () => {
    const { store, pauses } = field()
    const later = { version: 7, by: 'ada', since: 1, until: 'soon', reason: { en: 'x' }, for: ['files'] }
    await store.put(KEY, JSON.stringify(later), MINUTE)
    expect(await pauses.state()).toEqual({ version: 7, by: 'ada', since: 1 })
  })

  it('is JSON with its times as text', () => {
    expect(pauseView(undefined)).toEqual({ paused: false })
    expect(pauseView({ version: 1, by: 'ada', since: 0, until: 1000, reason: 'x' })).toEqual({
      paused: true,
      by: 'ada',
      reason: 'x',
      since: '1970-01-01T00:00:00.000Z',
      until: '1970-01-01T00:00:01.000Z',
    })
  })
})

/** A store in front of another one, such as each gateway has; its reads can fail, or wait. */
function front(store: Store): Store & { reads: 'answered' | 'refused' | 'unanswered'; count: number } {
  const own: ReturnType<typeof front> = {
    reads: 'answered',
    count: 0,
    get: (key) => {
      own.count++
      if (own.reads === 'answered') return store.get(key)
      return own.reads === 'refused' ? Promise.reject(new Error('away')) : new Promise(() => undefined)
    },
    put: (...given) => store.put(...given),
    putAll: (...given) => store.putAll(...given),
    setIfAbsent: (...given) => store.setIfAbsent(...given),
    compareAndSwap: (...given) => store.compareAndSwap(...given),
    compareAndDelete: (...given) => store.compareAndDelete(...given),
    delete: (...given) => store.delete(...given),
    scan: (...given) => store.scan(...given),
    takeTokens: (...given) => store.takeTokens(...given),
    peekTokens: (...given) => store.peekTokens(...given),
    watch: (...given) => store.watch(...given),
    blobs: store.blobs,
    close: () => store.close(),
  }
  return own
}

describe('what a process knows of the pause', () => {
  it('is read again at least once a second, and at once after a change of its own', async () => {
    const { store, pauses } = field()
    const own = front(store)
    const watch = pauseOf(own)
    const told: (PauseState | undefined)[] = []
    const stop = watch.follow((state) => void told.push(state))
    expect(watch.isKnown).toBe(false)
    expect(await watch.known()).toBe(true)
    expect([watch.isKnown, watch.current, told]).toEqual([true, undefined, []])
    await pauses.pause({ by: 'ada' })
    expect(watch.current).toBeUndefined()
    await pass(1000)
    expect(watch.current).toMatchObject({ by: 'ada' })
    await new Pause(own).resume({ by: 'ada' })
    expect(watch.current).toBeUndefined()
    await new Pause(own).pause({ by: 'bob' })
    expect(watch.current).toMatchObject({ by: 'bob' })
    expect(told.map((state) => state?.by)).toEqual(['ada', undefined, 'bob'])
    stop()
    const { count } = own
    await pass(10_000)
    expect(own.count).toBe(count)
  })

  it('ends with the pause, also if the store does not answer, and its listeners learn it', async () => {
    const own = front(new MemoryStore())
    const watch = pauseOf(own)
    const told: unknown[] = []
    watch.follow((state) => void told.push(state?.by))
    await new Pause(own).pause({ by: 'ada', until: Date.now() + MINUTE })
    own.reads = 'unanswered'
    await pass(MINUTE - 1)
    expect(watch.current?.by).toBe('ada')
    await pass(1)
    expect(watch.current).toBeUndefined()
    await pass(1000)
    expect(told).toEqual(['ada', undefined])
  })

  it.each(['refused', 'unanswered'] as const)(
    'is the last state while the store is away (%s), for which it is asked a bounded number of times',
    async (reads) => {
      const { store, pauses } = field()
      const own = front(store)
      const watch = pauseOf(own)
      watch.follow(() => undefined)
      await pauses.pause({ by: 'ada' })
      await pass(PROPAGATION_MS)
      own.reads = reads
      own.count = 0
      await pauses.resume({ by: 'ada' })
      await pass(60 * MINUTE)
      expect(watch.current?.by).toBe('ada')
      if (reads === 'unanswered') return expect(own.count).toBe(10)
      own.reads = 'answered'
      await pass(PROPAGATION_MS)
      return expect(watch.current).toBeUndefined()
    },
  )

  it('an answer that is older than a change of this process does not undo it', async () => {
    const own = front(new MemoryStore())
    const watch = pauseOf(own)
    const answers: ((text: string | undefined) => void)[] = []
    own.get = () => new Promise((resolve) => answers.push(resolve))
    watch.follow(() => undefined)
    watch.learn({ version: 1, by: 'ada', since: 1 })
    answers[0]?.(undefined)
    await pass(0)
    expect(watch.current?.by).toBe('ada')
    await pass(500)
    answers[1]?.(undefined)
    await pass(0)
    expect(watch.current).toBeUndefined()
  })

  it('a late answer counts, unless a later one came first', async () => {
    const own = front(new MemoryStore())
    const watch = pauseOf(own)
    const answers: ((text: string | undefined) => void)[] = []
    own.get = () => new Promise((resolve) => answers.push(resolve))
    watch.follow(() => undefined)
    await pass(2000)
    const text = (by: string) => JSON.stringify({ version: 1, by, since: 1 })
    answers[1]?.(text('second'))
    await pass(0)
    expect(watch.current?.by).toBe('second')
    answers[0]?.(text('first'))
    await pass(0)
    expect(watch.current?.by).toBe('second')
  })

  it('is not known before the first answer, for which is waited a bounded time in all', async () => {
    const own = front(new MemoryStore())
    own.reads = 'unanswered'
    const watch = pauseOf(own)
    watch.follow(() => undefined)
    const answers: boolean[] = []
    const ask = () => void watch.known().then((is) => answers.push(is))
    ask()
    await pass(2999)
    ask()
    expect(answers).toEqual([])
    await pass(1)
    expect(answers).toEqual([false, false])
    ask()
    await pass(0)
    expect(answers).toEqual([false, false, false])
    own.reads = 'answered'
    await pass(1000)
    expect([watch.isKnown, await watch.known()]).toEqual([true, true])
  })

  it('whoever follows it again reads it first', async () => {
    const { store, pauses } = field()
    const own = front(store)
    const watch = pauseOf(own)
    watch.follow(() => undefined)()
    await pauses.pause({ by: 'ada' })
    const told: unknown[] = []
    watch.follow((state) => void told.push(state?.by))
    expect(watch.isKnown).toBe(false)
    expect(await watch.known()).toBe(true)
    expect([watch.current?.by, told]).toEqual(['ada', ['ada']])
    // A reload follows it before the configuration before it stops.
    watch.follow((state) => void told.push(`again ${state?.by}`))
    expect(told).toEqual(['ada', 'again ada'])
  })

  it('is what was known last, for calls that go on when nobody follows it any more', async () => {
    const own = front(new MemoryStore())
    const watch = pauseOf(own)
    const stop = watch.follow(() => undefined)
    await new Pause(own).pause({ by: 'ada' })
    stop()
    expect([watch.isKnown, watch.current?.by]).toEqual([false, 'ada'])
  })

  it('is read once more when a store has connected', async () => {
    const own = front(new MemoryStore())
    own.reads = 'refused'
    let connect = (): void => undefined
    own.opened = () => new Promise((resolve) => (connect = resolve))
    const watch = pauseOf(own)
    watch.follow(() => undefined)
    await pass(0)
    own.reads = 'answered'
    connect()
    await pass(0)
    expect(watch.isKnown).toBe(true)
  })
})
