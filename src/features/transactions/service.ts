/**
 * The shared parts of the feature: settings, records, worker, queue, and the rollback of a transaction.
 */
import { type Timer, world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import { takeTurn } from '../../durable/lease.ts'
import { Actions } from '../../records/actions.ts'
import {
  hasEnded,
  type Transaction,
  transactionKey,
  Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import { rollingBack, rollingBackByForce, pendingSteps, retried } from '../../records/transitions.ts'
import type { SettingsOf, Services } from '../feature.ts'
import { publish } from '../offers.ts'
import { createRollback, isStepRunning, type Rollback, RunningSteps, WorkerIdentity } from './rollback.ts'
import type { TransactionSettings } from '../settings/effect.ts'

type Deps = Pick<
  Services,
  'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway' | 'audit'
>

/** The dependencies of all parts of the feature. */
export interface TransactionService {
  readonly deps: Deps
  readonly settings: SettingsOf<TransactionSettings>
  /** The settings of all transactions, whichever servers they involve. */
  readonly limits: TransactionSettings
  readonly repository: Transactions
  readonly actions: Actions
  readonly worker: WorkerIdentity
  readonly steps: RunningSteps
  readonly rollback: Rollback
  readonly reaper: TransactionReaper
  /** Runs the steps of one transaction one after the other. */
  readonly queue: Queue
}

/** Creates the service. */
export function createTransactionService(
  given: SettingsOf<TransactionSettings | false>,
  deps: Deps,
): TransactionService {
  const limits = [undefined, ...deps.servers.names()]
    .map((name) => given(name))
    .find((each) => each !== false)
  if (!limits) throw new TypeError('transactions are off everywhere')
  const settings = (upstream?: string): TransactionSettings => given(upstream) || limits
  const { retention } = limits
  const repository = new Transactions(deps.store, retention)
  const actions = new Actions(deps.store)
  const worker = new WorkerIdentity(deps.identity.membership)
  const steps = new RunningSteps()
  const rollback = createRollback({ deps, repository, actions, worker, steps, retention })
  const parts = { deps, repository, worker, steps, rollback }
  const reaper = new TransactionReaper(parts)
  return { ...parts, settings, limits, actions, reaper, queue: createQueue() }
}

/** Ensures that compensations can run under idempotency keys, on one server or on any. @throws UNSUPPORTED_OPERATION */
export function requireIdempotency(
  { features: { isOn }, servers: { names } }: Deps,
  upstream?: string,
): void {
  const servers = upstream === undefined ? [undefined, ...names()] : [upstream]
  if (servers.some((name) => isOn('idempotency', name))) return
  const where = upstream === undefined ? '' : ` for ${upstream}`
  throw new GatewayError(
    'UNSUPPORTED_OPERATION',
    `Transactions need idempotency, which is switched off${where}.`,
  )
}

/** The store key of a transaction of the caller. */
export function keyFor({ principal }: Call, id: string): string {
  return transactionKey(principal.id, id)
}

/** The interval of polling another worker's rollback, in milliseconds. */
const POLL_INTERVAL_MS = 250

interface RollbackOrder {
  readonly reason: string | undefined
  readonly caller: Principal
  readonly signal: AbortSignal
  /** Whether it overwrites what others changed since. */
  readonly isForced?: boolean
}

/** Rolls a transaction back, and waits until that is finished. @throws TRANSACTION_CONFLICT, the signal's reason */
export async function rollBack(
  key: string,
  { reason, caller, signal, isForced = false }: RollbackOrder,
  { repository, worker, rollback, reaper }: TransactionService,
): Promise<Transaction> {
  await worker.register()
  const begin = isForced ? rollingBackByForce(reason) : rollingBack(reason)
  // Another process may have started the rollback.
  const isBegun = ({ status }: Transaction): boolean =>
    isForced ? status === 'rolled_back' : status !== 'active' && status !== 'committed'
  reaper.track(key, await repository.change(key, (found) => (isBegun(found) ? found : begin(found))))
  return waitForRollback(key, caller, signal, { repository, rollback })
}

/** Waits until a transaction is rolled back, by any worker. @throws the signal's reason */
export async function waitForRollback(
  key: string,
  caller: Principal | undefined,
  signal: AbortSignal,
  { repository, rollback }: Pick<TransactionService, 'repository' | 'rollback'>,
): Promise<Transaction> {
  for (;;) {
    const run = rollback.run(key, caller)
    const ended = await untilAborted(run, signal)
    if (ended) return ended
    const found = await repository.find(key)
    if (!found) throw unknownTransaction()
    if (hasEnded(found)) return found
    await pause(POLL_INTERVAL_MS, signal)
  }
}

/** Runs functions with the same key one after the other, unless the signal is aborted first. */
type Queue = <Value>(key: string, signal: AbortSignal, run: () => Promise<Value>) => Promise<Value>

/** Creates a queue. */
export function createQueue(): Queue {
  const tails = new Map<string, Promise<void>>()
  return async (key, signal, run) => {
    const before = tails.get(key)
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    const tail = before ? before.then(() => released) : released
    tails.set(key, tail)
    try {
      if (before) await untilAborted(before, signal)
      return await run()
    } finally {
      release()
      // The last one removes the key.
      if (tails.get(key) === tail) void tail.then(() => tails.get(key) === tail && tails.delete(key))
    }
  }
}

// Rolls back expired transactions and takes over those of dead workers. The store is scanned periodically, because any member
// may have died; one gateway does that for all.

type ReaperContext = Pick<TransactionService, 'deps' | 'repository' | 'rollback' | 'worker' | 'steps'>

/** How often deadlines are checked, and how often the store is scanned, in milliseconds. */
const TICK_MS = 1000
const SCAN_INTERVAL_MS = 2000
/** The pause after a scan is at least this many times as long as the scan. */
const SCAN_PAUSE_RATIO = 50

/** Rolls back transactions that were idle too long, and continues what others left unfinished. */
class TransactionReaper {
  readonly #context: ReaperContext
  /** When each active transaction expires, by its key. Unfinished transactions are bounded for each caller. */
  readonly #due = new Map<string, number>()
  readonly #busy = new Set<string>()
  #timer: Timer | undefined
  #scanAt = 0
  #scanning: Promise<void> | undefined

  constructor(context: ReaperContext) {
    this.#context = context
  }

  /** Starts; the work of earlier processes is taken over immediately. */
  async start(): Promise<void> {
    this.#timer ??= world.setInterval(() => this.#tick(), TICK_MS).unref()
    await this.#scan().catch(unlessUnavailable)
  }

  stop(): void {
    world.clearInterval(this.#timer)
  }

  /** How many active keys have this prefix. */
  count(prefix: string): number {
    let count = 0
    for (const key of this.#due.keys()) if (key.startsWith(prefix)) count++
    return count
  }

  /** Counts a transaction that is about to start; the returned function reverts that, unless it was tracked. */
  reserve(key: string): () => void {
    if (this.#due.has(key)) return () => undefined
    this.#due.set(key, Infinity)
    return () => {
      if (this.#due.get(key) === Infinity) this.#due.delete(key)
    }
  }

  /** Records the current state of a transaction. */
  track(key: string, transaction: Transaction): void {
    if (transaction.status === 'active') this.#due.set(key, transaction.expiresAt)
    else this.#due.delete(key)
  }

  #tick(): void {
    const now = world.now()
    for (const [key, due] of this.#due) if (now >= due) this.#work(key, () => this.#expire(key))
    if (now < this.#scanAt || this.#scanning) return
    this.#scanAt = now + SCAN_INTERVAL_MS
    background(this.#scanInTurn().catch(unlessUnavailable), this.#context.deps.log)
  }

  async #scanInTurn(): Promise<void> {
    if (await takeTurn(this.#context.deps.store, 'transactions', SCAN_INTERVAL_MS)) await this.#scan()
  }

  #scan(): Promise<void> {
    this.#scanning ??= this.#scanStore().finally(() => (this.#scanning = undefined))
    return this.#scanning
  }

  async #scanStore(): Promise<void> {
    const { repository } = this.#context
    const startedAt = world.now()
    this.#scanAt = startedAt + SCAN_INTERVAL_MS
    const found = await repository.unfinished()
    const seen = new Set(found.map(({ key }) => key))
    for (const { key, transaction } of found) {
      this.track(key, transaction)
      if (isDue(transaction)) this.#work(key, () => this.#retry(key))
      if (transaction.status === 'rolling_back') this.#work(key, () => this.#takeOver(key, transaction))
    }
    // Transactions that started in the meantime are not missing.
    for (const key of this.#due.keys())
      if (!seen.has(key) && !(await repository.find(key))) this.#due.delete(key)
    this.#scanAt = Math.max(this.#scanAt, world.now() + SCAN_PAUSE_RATIO * (world.now() - startedAt))
  }

  async #takeOver(key: string, { runner }: Transaction): Promise<void> {
    const { worker, rollback, steps } = this.#context
    // Another process rolls the transaction back, and waits for a step of this one.
    steps.cancel(key)
    const isTaken = runner !== undefined && (await worker.isWorkingOn(runner, key))
    if (!isTaken) await rollback.run(key)
  }

  /** Retries failed compensations; that is recorded first, so that it survives this process. */
  async #retry(key: string): Promise<void> {
    const { repository, rollback, worker } = this.#context
    await worker.register()
    const { status } = await repository.change(key, retried(world.now()))
    if (status === 'rolling_back') await rollback.run(key)
  }

  async #expire(key: string): Promise<void> {
    const { repository, rollback, worker } = this.#context
    const found = await repository.find(key)
    if (!found || hasEnded(found)) return void this.#due.delete(key)
    const now = world.now()
    if (found.status === 'active') {
      if (now < found.expiresAt) return this.track(key, found)
      if (now < found.endsAt && (await this.#hasRunningStep(key, found))) return
      await worker.register()
      let isTimedOut = false
      const changed = await repository.change(key, (current) => {
        isTimedOut = current.status === 'active' && now >= current.expiresAt
        return isTimedOut ? rollingBack('timeout')(current) : current
      })
      if (isTimedOut) this.#publishTimeout(changed)
    }
    const after = await repository.find(key)
    if (after) this.track(key, after)
    if (after?.status === 'rolling_back') await rollback.run(key)
  }

  #publishTimeout({ id, principal, steps }: Transaction): void {
    const data = { transaction_id: id, steps: steps.length }
    // Its steps may be of several servers.
    publish(this.#context.deps, undefined, { name: 'transaction_timed_out', caller: principal.id, data })
  }

  /** A transaction with a step in progress is not idle. */
  async #hasRunningStep(key: string, transaction: Transaction): Promise<boolean> {
    const [step] = pendingSteps(transaction)
    return step !== undefined && isStepRunning(key, step, this.#context.worker)
  }

  #work(key: string, work: () => Promise<void>): void {
    if (this.#busy.has(key)) return
    this.#busy.add(key)
    background(
      work().finally(() => this.#busy.delete(key)),
      this.#context.deps.log,
    )
  }
}

/** Whether a retry is due. */
function isDue({ status, retry }: Transaction): boolean {
  return status === 'partially_rolled_back' && retry !== undefined && world.now() >= retry.at
}

/** The store itself reports that it is unavailable, once. */
function unlessUnavailable(error: unknown): void {
  if (!(error instanceof GatewayError) || error.code !== 'SERVER_UNAVAILABLE') throw error
}

// Ids of transactions and steps, as sent by callers.

/** The maximum length of an id, in characters. */
export const MAX_ID_LENGTH = 128

/** An id chosen by a client. @throws INVALID_INPUT */
export function readId(value: unknown, field: string): string {
  // An unpaired surrogate has no encoding in UTF-8.
  const isValid =
    typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH && !/\p{C}/u.test(value)
  if (isValid) return value
  throw new GatewayError(
    'INVALID_INPUT',
    `Invalid params: ${field} must be a text of 1 to ${MAX_ID_LENGTH} characters, without control characters.`,
    { field, reason: 'shape' },
  )
}
