/**
 * Rolls back what is overdue and takes over what dead workers left. Looks into the store at intervals, as any
 * member may have died.
 */
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { pendingOf, retried, rollingBack } from '../../records/transitions.ts'
import { isOver, type Transaction, type Transactions } from '../../records/transactions.ts'
import { type Rollback, stepWork } from './rollback.ts'
import type { WorkerIdentity } from './worker.ts'

interface Parts {
  readonly repository: Transactions
  readonly rollback: Rollback
  readonly worker: WorkerIdentity
  readonly log: Log
}

/** How often it is looked whose time is over, and what others left, in milliseconds. */
const TICK_MS = 1000
const SCAN_INTERVAL_MS = 2000
/** Looking through the store takes at most this part of the time. */
const SCAN_PAUSE_RATIO = 50

/** Rolls back what was left alone for too long, and goes on with what others left half done. */
export class TransactionReaper {
  readonly #parts: Parts
  /** When each active transaction is rolled back, by its key. What is not over is bounded for each caller. */
  readonly #due = new Map<string, number>()
  readonly #busy = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  #scanAt = 0
  #scanning: Promise<void> | undefined

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Begins; what an earlier process left is taken up at once. */
  async start(): Promise<void> {
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
    await this.#scan().catch(unlessAway)
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** How many of the keys that begin so are active. */
  count(prefix: string): number {
    let count = 0
    for (const key of this.#due.keys()) if (key.startsWith(prefix)) count++
    return count
  }

  /** Counts one that is about to begin; what this gives takes that back, unless it was tracked. */
  expect(key: string): () => void {
    if (this.#due.has(key)) return () => undefined
    this.#due.set(key, Infinity)
    return () => {
      if (this.#due.get(key) === Infinity) this.#due.delete(key)
    }
  }

  /** Keeps in mind what has become of a transaction. */
  track(key: string, transaction: Transaction): void {
    if (transaction.status === 'active') this.#due.set(key, transaction.expiresAt)
    else this.#due.delete(key)
  }

  #tick(): void {
    const now = Date.now()
    for (const [key, due] of this.#due) if (now >= due) this.#work(key, () => this.#expire(key))
    if (now >= this.#scanAt && !this.#scanning) background(this.#scan().catch(unlessAway), this.#parts.log)
  }

  #scan(): Promise<void> {
    this.#scanning ??= this.#look().finally(() => (this.#scanning = undefined))
    return this.#scanning
  }

  async #look(): Promise<void> {
    const { repository } = this.#parts
    const began = Date.now()
    this.#scanAt = began + SCAN_INTERVAL_MS
    const found = await repository.unfinished()
    const seen = new Set(found.map(({ key }) => key))
    for (const { key, transaction } of found) {
      this.track(key, transaction)
      if (isDue(transaction)) this.#work(key, () => this.#retry(key))
      if (transaction.status === 'rolling_back') this.#work(key, () => this.#takeUp(key, transaction))
    }
    // What began meanwhile is not missing.
    for (const key of this.#due.keys())
      if (!seen.has(key) && !(await repository.find(key))) this.#due.delete(key)
    this.#scanAt = Math.max(this.#scanAt, Date.now() + SCAN_PAUSE_RATIO * (Date.now() - began))
  }

  async #takeUp(key: string, { runner }: Transaction): Promise<void> {
    const { worker, rollback } = this.#parts
    const isTaken = runner !== undefined && (await worker.isAtWork(runner, key))
    if (!isTaken) await rollback.run(key)
  }

  /** Tries again what could not be undone: that it is about to be is on record first, so that it outlives this process. */
  async #retry(key: string): Promise<void> {
    const { repository, rollback, worker } = this.#parts
    await worker.register()
    const { status } = await repository.change(key, retried(Date.now()))
    if (status === 'rolling_back') await rollback.run(key)
  }

  async #expire(key: string): Promise<void> {
    const { repository, rollback, worker } = this.#parts
    const found = await repository.find(key)
    if (!found || isOver(found)) return void this.#due.delete(key)
    const now = Date.now()
    if (found.status === 'active') {
      if (now < found.expiresAt) return this.track(key, found)
      if (now < found.endsAt && (await this.#isAtWork(key, found))) return
      await worker.register()
      await repository.change(key, (current) =>
        current.status === 'active' && now >= current.expiresAt ? rollingBack('timeout')(current) : current,
      )
    }
    const after = await repository.find(key)
    if (after) this.track(key, after)
    if (after?.status === 'rolling_back') await rollback.run(key)
  }

  /** A step that is under way is no idleness. */
  async #isAtWork(key: string, transaction: Transaction): Promise<boolean> {
    const [step] = pendingOf(transaction)
    if (!step || step.isOpen) return false
    return this.#parts.worker.isAtWork(step.runner, stepWork(key, step.id))
  }

  #work(key: string, work: () => Promise<void>): void {
    if (this.#busy.has(key)) return
    this.#busy.add(key)
    background(
      work().finally(() => this.#busy.delete(key)),
      this.#parts.log,
    )
  }
}

/** Whether it is time to try again what could not be undone. */
function isDue({ status, retry }: Transaction): boolean {
  return status === 'partially_rolled_back' && retry !== undefined && Date.now() >= retry.at
}

/** The store tells by itself that it is away, once. */
function unlessAway(error: unknown): void {
  if (!(error instanceof GatewayError) || error.code !== 'SERVER_UNAVAILABLE') throw error
}
