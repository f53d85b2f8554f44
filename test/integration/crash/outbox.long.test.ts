import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { type Seeded, seeded } from '../../simulate/random.ts'
import { until } from '../../support/condition.ts'
import {
  LetterStore,
  messageLog,
  openTestStore,
  outcomeOf,
  QueueStore,
  type TestMessage,
  type TestStore,
} from '../../support/outbox-world.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import { repetitions, seedOf, variantsOf } from '../../support/soak.ts'

/** OUTBOX_SEED reproduces which processes fail, how, and when. */
const SEED = seedOf('OUTBOX_SEED', 1971)
const QUEUES = ['one', 'two', 'three', 'four'] as const
/** How often each fault happens. */
const ROUNDS = repetitions(1, 4)
/** Longer than the heartbeats of a process are valid, so others take over what it owns, in milliseconds. */
const STOPPED_MS = 12_000
const HOUR_MS = 3_600_000
const program = fileURLToPath(new URL('../../support/outbox-child.ts', import.meta.url))

/** An attempt, as the process that made it wrote it down. */
interface Line extends TestMessage {
  readonly by: number
  readonly outcome: string
}

/** Processes that deliver from one store. */
class Deliverers {
  readonly #place: TestStore
  readonly #file: string
  readonly #children: ChildProcess[] = []

  constructor(place: TestStore, file: string) {
    this.#place = place
    this.#file = file
  }

  async start(index: number): Promise<void> {
    const child = spawn(process.execPath, [program, JSON.stringify(this.#place), this.#file], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#children[index] = child
    await once(child.stdout, 'data')
  }

  async kill(index: number): Promise<void> {
    const child = this.#children[index]
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  async stopFor(index: number, milliseconds: number): Promise<void> {
    this.#children[index]?.kill('SIGSTOP')
    await pause(milliseconds)
    this.#children[index]?.kill('SIGCONT')
  }

  setClock(index: number, byMs: number): void {
    this.#children[index]?.stdin?.write(String(byMs))
  }

  /** The process whose id, as the outbox has it, is that of an owner; -1 for none that runs. */
  indexOf(owner: string): number {
    return this.#children.findIndex(({ pid, exitCode, signalCode }) => {
      return exitCode === null && signalCode === null && owner.includes(`.${pid}.`)
    })
  }

  /** Whether a process, as it runs now, has made an attempt. */
  hasAttempted(index: number): boolean {
    const written = `"by":${this.#children[index]?.pid},`
    return existsSync(this.#file) && readFileSync(this.#file, 'utf8').includes(written)
  }

  get indexes(): readonly number[] {
    return [...this.#children.keys()]
  }
}

/** Every kind of fault. What owns a queue is stopped, and what takes it over is killed; a third fault is a wrong clock. */
async function makeFaults(deliverers: Deliverers, records: QueueStore, random: Seeded): Promise<void> {
  const ownerOf = async (queue: string): Promise<number> => {
    const record = (await records.all()).find(({ id }) => id === queue)
    return deliverers.indexOf(record?.owner ?? '')
  }
  const stopped = await until(async () => found(await ownerOf(random.pick(QUEUES))), 'an owner')
  const stopping = deliverers.stopFor(stopped.index, STOPPED_MS)
  const other = await until(async () => {
    const index = await ownerOf(random.pick(QUEUES))
    return index !== stopped.index && deliverers.hasAttempted(index) && found(index)
  }, 'an attempt by another owner')
  await pause(500 + random.below(1000))
  await deliverers.kill(other.index)
  await deliverers.start(other.index)
  await stopping
  const jumping = random.below(deliverers.indexes.length)
  deliverers.setClock(jumping, HOUR_MS)
  await pause(3000)
  deliverers.setClock(jumping, -2 * HOUR_MS)
  await pause(3000)
  deliverers.setClock(jumping, HOUR_MS)
}

/** A process that was found. */
function found(index: number): { readonly index: number } | false {
  return index !== -1 && { index }
}

const runs = (['LMDB', 'Redis'] as const).flatMap((store) => [2, 5].map((count) => ({ store, count })))

describe('an outbox whose processes are killed, stopped, and have wrong clocks', { concurrent: true }, () => {
  it.for(variantsOf(runs, ({ store, count }) => (count === 2) === (store === 'LMDB')))(
    'loses no message, keeps the order of each queue, and repeats under the same ids, with $count processes on $store',
    { timeout: repetitions(120_000, 600_000) },
    async ({ store: kind, count }, { skip, onTestFinished }) => {
      if (kind === 'Redis' && needsRedis.skip) skip()
      const folder = mkdtempSync(join(tmpdir(), 'gatehouse-outbox-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const redis = kind === 'Redis' ? await startRedis() : undefined
      onTestFinished(() => redis?.stop())
      const place = redis ? { url: redis.url } : { folder: join(folder, 'store') }
      const file = join(folder, 'attempts')
      const store = await openTestStore(place)
      onTestFinished(() => store.close())
      const log = messageLog(store)
      const records = new QueueStore(store)
      const start = await log.end()
      for (const queue of QUEUES) await records.create(queue, start)

      const deliverers = new Deliverers(place, file)
      onTestFinished(async () => {
        for (const index of deliverers.indexes) await deliverers.kill(index)
      })
      await Promise.all(Array.from({ length: count }, (_each, index) => deliverers.start(index)))
      const published: TestMessage[] = []
      let isOver = false
      const publishing = (async () => {
        for (let n = 0; !isOver; n++) {
          const messages = QUEUES.map((queue) => ({ id: randomUUID(), queue, n }))
          // The store of a busy machine may not answer: the same messages may then be there twice.
          await until(() => log.append(messages), 'the log')
          published.push(...messages)
          await pause(15)
        }
      })()
      const random = seeded(SEED + count)
      for (let round = 0; round < ROUNDS; round++) await makeFaults(deliverers, records, random)
      isOver = true
      await publishing

      const end = await log.end()
      const isDone = async (): Promise<boolean> => {
        const all = await records.all()
        return all.every(({ watermark, settled }) => watermark === end && settled.length === 0)
      }
      await until(isDone, 'all messages to be settled', 90_000)
      const lines = readFileSync(file, 'utf8').trim().split('\n')
      const attempts = lines.map((line) => JSON.parse(line) as Line)
      const letters = await new LetterStore(store).all()
      process.stdout.write(
        `${count} processes on ${kind}: ${published.length} messages, ${attempts.length} attempts\n`,
      )

      const arrived = new Set(attempts.flatMap(({ id, outcome }) => (outcome === 'done' ? id : [])))
      const refused = new Set(letters.map(({ message }) => message.id))
      const isRefused = (message: TestMessage): boolean => outcomeOf(message, 0).kind === 'never'
      expect(published.filter((each) => !(isRefused(each) ? refused : arrived).has(each.id))).toEqual([])
      const known = new Map(published.map((each) => [each.id, each]))
      expect(
        attempts.filter(({ id, queue, n }) => known.get(id)?.queue !== queue || known.get(id)?.n !== n),
      ).toEqual([])
      for (const queue of QUEUES) {
        const first = [...new Set(attempts.flatMap((each) => (each.queue === queue ? each.n : [])))]
        expect(first).toEqual(first.toSorted((one, other) => one - other))
      }
      expect(new Set(attempts.map(({ by }) => by)).size).toBeGreaterThan(1)
    },
  )
})
