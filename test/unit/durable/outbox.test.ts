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
