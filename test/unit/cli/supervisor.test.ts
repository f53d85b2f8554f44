import { describe, expect, it } from 'vitest'
import { Supervisor, type WorkerEvents } from '../../../src/cli/supervisor.ts'
import type { Place } from '../../../src/cli/io.ts'
import { inPieces, type ToWorker } from '../../../src/cli/worker.ts'
import type { Snapshot } from '../../../src/observability/worker-metrics.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLog } from '../../support/silent-log.ts'

const advance = fakeClock()

/** A process that a supervisor started, as a test plays it. */
interface Played extends WorkerEvents {
  readonly place: Place
  readonly got: ToWorker[]
  isKilled: boolean
  serving(): void
}

const bound = { host: '127.0.0.1', port: 4711 }

function supervised(count: number) {
  const started: Played[] = []
  const supervisor = new Supervisor({
    count,
    log: silentLog,
    fork: (place, events) => {
      const played: Played = {
        ...events,
        place,
        got: [],
        isKilled: false,
        serving: () => events.said({ type: 'serving', bound }),
      }
      started.push(played)
      return {
        pid: started.length,
        send: (message) => void played.got.push(message),
        kill: () => {
          played.isKilled = true
          events.ended(null, 'SIGKILL')
        },
      }
    },
  })
  const code = supervisor.run()
  const numbers = (): number[] => started.map(({ place }) => place.number)
  return { supervisor, started, numbers, code }
}

/** The same, once all workers serve. */
function serving(count: number) {
  const all = supervised(count)
  all.started[0]?.serving()
  for (const worker of all.started.slice(1)) worker.serving()
  return all
}

const snapshot = (calls: number): Snapshot => ({
  sums: `# HELP calls Calls.\n# TYPE calls counter\ncalls{tool="a b"} ${calls}\n`,
  levels: [],
})

describe('the supervisor of workers', () => {
  it('starts the others once the first one serves, and only the first one speaks for all', () => {
    const { started, numbers } = supervised(3)
    expect(numbers()).toEqual([1])
    started[0]?.serving()
    expect(numbers()).toEqual([1, 2, 3])
    expect(started.map(({ place }) => place.isFirst)).toEqual([true, false, false])
    expect(started[2]?.place.bound).toEqual(bound)
  })

  it('ends with the exit code of the first worker if that cannot start', async () => {
    const { started, code, numbers } = supervised(3)
    started[0]?.ended(3, null)
    expect(await code).toBe(3)
    expect(numbers()).toEqual([1])
  })

  it('starts a worker again that ended, after a delay that grows while it ends soon', async () => {
    const { started, numbers } = serving(2)
    started[1]?.ended(null, 'SIGKILL')
    await advance(99)
    expect(numbers()).toEqual([1, 2])
    await advance(1)
    expect(numbers()).toEqual([1, 2, 2])
    started[2]?.ended(1, null)
    await advance(199)
    expect(numbers()).toHaveLength(3)
    await advance(1)
    expect(numbers()).toEqual([1, 2, 2, 2])
    expect(started[3]?.place).toMatchObject({ number: 2, isFirst: false, bound })
    // One that lasted is started at once again.
    await advance(30_000)
    started[3]?.ended(1, null)
    await advance(100)
    expect(numbers()).toHaveLength(5)
  })

  it('has all workers listen where the first one did, also when all of them ended', async () => {
    const { started } = serving(2)
    started[0]?.ended(1, null)
    started[1]?.ended(1, null)
    await advance(100)
    expect(started.slice(1).map(({ place }) => place.bound)).toEqual([bound, bound, bound])
  })

  it('passes a stop on once, waits for the workers, and ends with the code of one that failed', async () => {
    const { supervisor, started, code } = serving(2)
    supervisor.stop()
    supervisor.stop()
    expect(started.map(({ got }) => got)).toEqual([[{ type: 'stop' }], [{ type: 'stop' }]])
    let isDone = false
    void code.then(() => (isDone = true))
    started[0]?.ended(0, null)
    await advance(1000)
    expect(isDone).toBe(false)
    started[1]?.ended(4, null)
    expect(await code).toBe(4)
  })

  it('starts no worker after a stop, neither one that waits for its restart nor the others of one that starts', async () => {
    const { supervisor, started, code, numbers } = serving(2)
    started[1]?.ended(1, null)
    supervisor.stop()
    started[0]?.ended(0, null)
    expect(await code).toBe(0)
    await advance(60_000)
    expect(numbers()).toEqual([1, 2])
    const early = supervised(2)
    early.supervisor.stop()
    early.started[0]?.serving()
    early.started[0]?.ended(0, null)
    expect(await early.code).toBe(0)
    expect(early.numbers()).toEqual([1])
  })

  it('ends workers by force that do not end in time', async () => {
    const { supervisor, started, code } = serving(2)
    supervisor.stop()
    started[0]?.ended(0, null)
    await advance(25_000)
    expect(started.map(({ isKilled }) => isKilled)).toEqual([false, true])
    expect(await code).toBe(1)
  })
})

describe('what workers count', () => {
  /** Collects as the worker of an index does; the others answer with these counts, or do not. */
  async function collected(
    started: readonly Played[],
    asking: number,
    { own, others }: { own: number; others: Readonly<Record<number, number>> },
  ) {
    const asker = started[asking]
    const answers = asker?.got.length ?? 0
    asker?.said({ type: 'collect', id: 7, own: snapshot(own) })
    for (const [index, calls] of Object.entries(others)) {
      const asked = started[Number(index)]?.got.findLast((message) => message.type === 'collect')
      if (asked?.type === 'collect')
        started[Number(index)]?.said({ type: 'snapshot', id: asked.id, snapshot: snapshot(calls) })
    }
    await advance(1000)
    const message = asker?.got[answers]
    if (message?.type !== 'collected') throw new Error('It got no answer.')
    const sums = [...message.answers.map((each) => each.sums), ...message.past].flatMap((text) => [
      ...text.matchAll(/^calls\S* \S* ?(\d+)$/gm),
    ])
    return {
      id: message.id,
      answers: message.answers.length,
      silent: message.silent,
      total: own + sums.reduce((sum, [, calls]) => sum + Number(calls), 0),
    }
  }

  it('is passed on to the one that is asked', async () => {
    const { started } = serving(3)
    const found = await collected(started, 1, { own: 10, others: { 0: 20, 2: 30 } })
    expect(found).toEqual({ id: 7, answers: 2, silent: 0, total: 60 })
  })

  it('is waited for in vain for a second: the last known sums of a silent worker stay', async () => {
    const { started } = serving(2)
    await collected(started, 0, { own: 10, others: { 1: 30 } })
    const found = await collected(started, 0, { own: 11, others: {} })
    expect(found).toEqual({ id: 7, answers: 0, silent: 1, total: 41 })
  })

  it('stays in the sums once after the end of the worker', async () => {
    const { started } = serving(2)
    await collected(started, 0, { own: 10, others: { 1: 30 } })
    started[1]?.ended(null, 'SIGKILL')
    await advance(100)
    expect(await collected(started, 0, { own: 10, others: { 2: 5 } })).toMatchObject({
      answers: 1,
      total: 45,
    })
    started[2]?.ended(null, 'SIGKILL')
    expect(await collected(started, 0, { own: 10, others: {} })).toEqual({
      id: 7,
      answers: 0,
      silent: 0,
      total: 45,
    })
  })

  it('is counted once if the worker ends after it answered', async () => {
    const { started } = serving(3)
    const before = await collected(started, 0, { own: 0, others: { 1: 30, 2: 40 } })
    expect(before.total).toBe(70)
    started[0]?.said({ type: 'collect', id: 8, own: snapshot(0) })
    const asked = started[1]?.got.findLast((message) => message.type === 'collect')
    if (asked?.type !== 'collect') throw new Error('It was not asked.')
    started[1]?.said({ type: 'snapshot', id: asked.id, snapshot: snapshot(31) })
    started[1]?.ended(null, 'SIGKILL')
    await advance(1000)
    const answer = started[0]?.got.findLast((message) => message.type === 'collected')
    expect(answer).toMatchObject({ id: 8, answers: [], silent: 1 })
    expect(JSON.stringify(answer)).not.toContain('31')
  })
})

describe('the log of a worker', () => {
  it('is written in pieces of whole lines that a pipe takes at once', () => {
    const line = `${'ä'.repeat(700)}\n`
    const long = `${'x'.repeat(9000)}\n`
    expect(inPieces(line.repeat(5))).toEqual([line.repeat(2), line.repeat(2), line])
    expect(inPieces(`${line}${long}${line}`)).toEqual([line, long, line])
    expect(inPieces('')).toEqual([])
  })
})
