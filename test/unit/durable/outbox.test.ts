import { expect, it, onTestFinished, vi } from 'vitest'
import type { Clock, Sent } from '../../../src/durable/dispatcher.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { type TestMessage, testOutbox } from '../../support/outbox-world.ts'
import { idle } from '../../support/webhooks.ts'

/** A clock whose time and timers are told apart: a process that is stopped runs no timer, and then all that are due. */
class StoppableClock implements Clock {
  time: number
  #timers: { readonly at: number; readonly run: () => void }[] = []

  constructor(time: number) {
    this.time = time
  }

  now(): number {
    return this.time
  }

  after(milliseconds: number, run: () => void): () => void {
    const timer = { at: this.time + milliseconds, run }
    this.#timers.push(timer)
    return () => void (this.#timers = this.#timers.filter((each) => each !== timer))
  }

  /** Runs what is due, in the order of its times. */
  async runDue(): Promise<void> {
    await idle()
    for (;;) {
      const [next] = this.#timers
        .filter(({ at }) => at <= this.time)
        .toSorted((one, other) => one.at - other.at)
      if (!next) return
      this.#timers = this.#timers.filter((each) => each !== next)
      next.run()
      await idle()
    }
  }
}

/** Processes with one store, whose time is that of all. */
function field() {
  let time = 1_771_516_800_000
  const store = new MemoryStore(() => time)
  const clocks: StoppableClock[] = []
  const sent: string[] = []
  const stopped = new Set<string>()
  const start = async (id: string, answer: (message: TestMessage, attempts: number) => Sent) => {
    const clock = new StoppableClock(time)
    const world = testOutbox({
      store,
      membership: {
        id,
        register: () => Promise.resolve(),
        // The heartbeats of a process that is stopped expire.
        isAlive: (other) => Promise.resolve(!stopped.has(other)),
        hasEnded: () => false,
        hasOthers: () => false,
        term: 1,
        renew: async () => undefined,
        leave: () => undefined,
        close: () => Promise.resolve(),
      },
      clock,
      schedule: { firstMs: 10_000, factor: 4, maxMs: 60_000, giveUpMs: 30_000 },
      atOnce: 16,
      send: (message, attempts) => {
        sent.push(`${id} ${message.n}`)
        return Promise.resolve(answer(message, attempts))
      },
    })
    onTestFinished(() => world.outbox.close())
    clocks.push(clock)
    await world.outbox.start()
    await idle()
    return { ...world, clock }
  }
  /** Lets time pass for the processes that are not stopped. */
  const pass = async (milliseconds: number, but: readonly StoppableClock[] = []) => {
    for (const until = time + milliseconds; time < until;) {
      time = Math.min(time + 500, until)
      for (const clock of clocks.filter((each) => !but.includes(each))) {
        clock.time = time
        await clock.runDue()
      }
    }
  }
  return { store, sent, stopped, start, pass, now: () => time }
}

const done: Sent = { kind: 'done' }
const later: Sent = { kind: 'later', failure: 'busy' }

function message(n: number): TestMessage {
  return { id: `m${n}`, queue: 'one', n }
}

it('messages are sent once each, in their order, and the watermark is behind them', async () => {
  const { sent, start, pass } = field()
  const { outbox, records, log } = await start('a', () => done)
  await records.create('one', await log.end())
  await log.append([message(1), message(2)])
  const end = await log.append([message(3)])
  await pass(7000)
  expect(sent).toEqual(['a 1', 'a 2', 'a 3'])
  expect(await records.all()).toMatchObject([{ watermark: end, settled: [] }])
  await outbox.close()
})

it('a message that fails is sent again, does not hold up the others, and is a dead letter in the end', async () => {
  const { sent, start, pass } = field()
  const { records, letters, log } = await start('a', ({ n }) => (n === 1 ? later : done))
  await records.create('one', await log.end())
  await log.append([message(1), message(2)])
  await pass(16_000)
  expect(sent).toEqual(['a 1', 'a 2', 'a 1'])
  await pass(60_000)
  expect(sent).toEqual(['a 1', 'a 2', 'a 1'])
  expect((await letters.all()).map((letter) => letter.message.n)).toEqual([1])
  await letters.request('letter of m1')
  await pass(3000)
  expect(sent).toEqual(['a 1', 'a 2', 'a 1', 'a 1'])
})

it('a process that was stopped while another one took over sends nothing of that queue any more', async () => {
  const { sent, stopped, start, pass, now } = field()
  const a = await start('a', () => later)
  await a.records.create('one', await a.log.end())
  await a.log.append([message(1), message(2)])
  await pass(7000)
  const b = await start('b', () => done)
  stopped.add('a')
  await pass(12_000, [a.clock])
  await b.log.append([message(3)])
  await pass(3000, [a.clock])
  expect(sent).toEqual(['a 1', 'a 2', 'b 1', 'b 2', 'b 3'])
  // It goes on: both of its messages are due for another attempt before it polls the records.
  a.clock.time = now()
  a.outbox.wake('one')
  await a.clock.runDue()
  await pass(20_000)
  expect(sent).toEqual(['a 1', 'a 2', 'b 1', 'b 2', 'b 3'])
})

it('a process that was stopped goes on where nobody took over', async () => {
  const { sent, start, pass } = field()
  const a = await start('a', () => done)
  await a.records.create('one', await a.log.end())
  await pass(6000)
  await pass(60_000, [a.clock])
  await a.log.append([message(1)])
  await pass(3000)
  expect(sent).toEqual(['a 1'])
})

it('a process whose clock is set back says that it is alive, and goes on', async () => {
  const { store, sent, start, pass } = field()
  const put = vi.spyOn(store, 'put')
  const a = await start('a', () => done)
  await a.records.create('one', await a.log.end())
  await pass(6000)
  put.mockClear()
  const HOUR_MS = 3_600_000
  const before = a.clock.now.bind(a.clock)
  a.clock.now = () => before() - HOUR_MS
  await a.log.append([message(1)])
  await pass(15_000)
  expect(put.mock.calls.filter(([key]) => key.startsWith('queue-owner:')).length).toBeGreaterThan(0)
  expect(sent).toEqual(['a 1'])
})

it('a message that failed is not held back by a clock that is set back', async () => {
  const { sent, start, pass } = field()
  const a = await start('a', (_message, attempts) => (attempts === 0 ? later : done))
  await a.records.create('one', await a.log.end())
  await a.log.append([message(1)])
  await pass(7000)
  expect(sent).toEqual(['a 1'])
  const before = a.clock.now.bind(a.clock)
  a.clock.now = () => before() - 3_600_000
  await pass(15_000)
  expect(sent).toEqual(['a 1', 'a 1'])
})

it('a flush writes a dead letter before the watermark that passes it', async () => {
  const { start, pass } = field()
  const a = await start('a', () => ({ kind: 'never', failure: 'refused' }))
  await a.records.create('one', await a.log.end())
  await pass(6000)
  const end = await a.log.append([message(1)])
  a.outbox.wake('one')
  await idle()
  // The timer that writes what is settled has not run.
  await a.outbox.flush('one')
  expect(await a.records.all()).toMatchObject([{ watermark: end }])
  expect((await a.letters.all()).map((letter) => letter.message.n)).toEqual([1])
})

it('a process that was stopped while it read the source sends nothing until it has read that it is the owner', async () => {
  const { sent, stopped, start, pass, now } = field()
  const a = await start('a', () => done)
  await a.records.create('one', await a.log.end())
  await pass(6000)
  await a.log.append([message(1)])
  const read = a.log.read.bind(a.log)
  const { promise: resumed, resolve: resume } = Promise.withResolvers<undefined>()
  vi.spyOn(a.log, 'read').mockImplementationOnce(async (...request) => {
    await resumed
    return read(...request)
  })
  a.outbox.wake('one')
  await idle()
  await start('b', () => done)
  stopped.add('a')
  await pass(12_000, [a.clock])
  expect(sent).toEqual(['b 1'])
  a.clock.time = now()
  resume(undefined)
  await idle()
  await pass(20_000)
  expect(sent).toEqual(['b 1'])
})

it('a record that cannot be written holds up no other one', async () => {
  const { start, pass } = field()
  const a = await start('a', () => done)
  const begin = await a.log.end()
  const ids = Array.from({ length: 20 }, (_, index) => `queue ${index}`)
  for (const id of ids) await a.records.create(id, begin)
  const advance = a.records.advance.bind(a.records)
  vi.spyOn(a.records, 'advance').mockImplementation((record, ...progress) =>
    record.id === ids[0] ? Promise.reject(new Error('never written')) : advance(record, ...progress),
  )
  await pass(6000)
  const end = await a.log.append(ids.map((queue, n) => ({ id: `m${n}`, queue, n })))
  await pass(7000)
  const behind = (await a.records.all()).filter(({ watermark }) => watermark !== end).map(({ id }) => id)
  expect(behind.toSorted()).toEqual([ids[0]])
})

it('a queue that a process cannot deliver is left to another one', async () => {
  const { sent, start, pass } = field()
  const a = await start('a', () => done)
  a.undeliverable.add('one')
  await a.records.create('one', await a.log.end())
  await a.log.append([message(1)])
  await pass(7000)
  await start('b', () => done)
  await pass(7000)
  expect(sent).toEqual(['b 1'])
})

it('a queue that is added while its outbox closes does not let it look alive afterwards', async () => {
  const { store, start } = field()
  const a = await start('a', () => done)
  await a.records.create('one', await a.log.end())
  const put = store.put.bind(store)
  const { promise: resumed, resolve: resume } = Promise.withResolvers<undefined>()
  vi.spyOn(store, 'put').mockImplementation(async (...write) => {
    await resumed
    return put(...write)
  })
  const [record] = await a.records.all()
  const added = record && a.outbox.added(record)
  await idle()
  const closed = a.outbox.close()
  await idle()
  resume(undefined)
  await Promise.all([added, closed])
  expect([...(await store.scan('queue-owner:a')).keys()]).toEqual([])
  expect(a.outbox.consumers).toEqual([])
})

it('a message that is refused while other records are written is a dead letter before its watermark is written', async () => {
  const { start, pass } = field()
  const a = await start('a', ({ n }) => (n < 20 ? done : { kind: 'never', failure: 'refused' }))
  const begin = await a.log.end()
  const ids = Array.from({ length: 20 }, (_, index) => `queue ${index}`)
  for (const id of ids) await a.records.create(id, begin)
  await pass(6000)
  const advance = a.records.advance.bind(a.records)
  let end = ''
  const lettersAtEnd: number[] = []
  vi.spyOn(a.records, 'advance').mockImplementation(async (record, owner, progress) => {
    if (record.id === ids[0] && end === '') {
      end = await a.log.append([{ id: 'm20', queue: 'queue 19', n: 20 }])
      a.outbox.wake('queue 19')
      await idle()
    }
    if (record.id === 'queue 19' && progress.watermark === end)
      lettersAtEnd.push((await a.letters.all()).length)
    return advance(record, owner, progress)
  })
  await a.log.append(ids.map((queue, n) => ({ id: `m${n}`, queue, n })))
  await pass(7000)
  expect(lettersAtEnd[0]).toBe(1)
})

it('a queue that is added while the records are polled is held, and its message is sent once', async () => {
  const { sent, start, pass } = field()
  const a = await start('a', () => done)
  const all = a.records.all.bind(a.records)
  const { promise: resumed, resolve: resume } = Promise.withResolvers<undefined>()
  vi.spyOn(a.records, 'all').mockImplementationOnce(async () => {
    const before = await all()
    await resumed
    return before
  })
  await pass(6000)
  await a.records.create('one', await a.log.end())
  await a.log.append([message(1)])
  const [record] = await all()
  if (record) await a.outbox.added(record)
  const consumer = a.outbox.find('one')
  resume(undefined)
  await idle()
  expect(consumer).toBeDefined()
  expect(a.outbox.find('one')).toBe(consumer)
  await pass(7000)
  expect(sent).toEqual(['a 1'])
})
