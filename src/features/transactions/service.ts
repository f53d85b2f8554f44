/**
 * What the parts of the feature share: settings, records, worker, queue, and the rollback of a transaction.
 */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import { durationSchema } from '../../core/time/units.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import { Actions } from '../../records/actions.ts'
import {
  hasEnded,
  type Transaction,
  transactionKey,
  Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import { rollingBack, pendingSteps, retried } from '../../records/transitions.ts'
import type { SettingsOf } from '../feature.ts'
import type { Services } from '../feature.ts'
import { createRollback, type Rollback, stepWork, WorkerIdentity } from './rollback.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway'>

/** What everything about transactions works with. */
export interface TransactionService {
  readonly deps: Deps
  readonly settings: SettingsOf<Settings>
  /** What holds for all transactions, whichever servers they touch. */
  readonly limits: Settings
  readonly repository: Transactions
  readonly deeds: Actions
  readonly worker: WorkerIdentity
  readonly rollback: Rollback
  readonly reaper: TransactionReaper
  /** Steps of one transaction wait for each other. */
  readonly queue: Queue
}

/** Puts it together. */
export function createTransactionService(
  given: SettingsOf<Settings | false>,
  deps: Deps,
): TransactionService {
  const limits = [undefined, ...deps.servers.names()]
    .map((name) => given(name))
    .find((each) => each !== false)
  if (!limits) throw new TypeError('transactions are off everywhere')
  const settings = (upstream?: string): Settings => given(upstream) || limits
  const { retention } = limits
  const repository = new Transactions(deps.store, retention)
  const deeds = new Actions(deps.store)
  const worker = new WorkerIdentity(deps.identity.membership)
  const rollback = createRollback({ deps, repository, deeds, worker, retention })
  const watch = new TransactionReaper({ repository, rollback, worker, log: deps.log })
  return { deps, settings, limits, repository, deeds, worker, rollback, reaper: watch, queue: createQueue() }
}

/** Makes sure that a server's tools can be undone under keys of the gateway's own, or those of some. @throws UNSUPPORTED_OPERATION */
export function mustHaveKeys(
  { features: { isOn }, servers: { names: servers } }: Deps,
  upstream?: string,
): void {
  const meant = upstream === undefined ? [undefined, ...servers()] : [upstream]
  if (meant.some((name) => isOn('idempotency', name))) return
  const where = upstream === undefined ? '' : ` for ${upstream}`
  throw new GatewayError(
    'UNSUPPORTED_OPERATION',
    `Transactions need idempotency, which is switched off${where}.`,
  )
}

/** Where the transaction of an id is kept for who makes the call. */
export function keyFor({ principal }: Call, id: string): string {
  return transactionKey(principal.id, id)
}

/** Interval between looks at another worker's rollback, in milliseconds. */
const POLL_INTERVAL_MS = 250

/** Rolls a transaction back, and waits for the end of it. @throws TRANSACTION_CONFLICT, the signal's reason */
export async function rollBack(
  key: string,
  { reason, caller, signal }: { reason: string | undefined; caller: Principal; signal: AbortSignal },
  { repository, worker, rollback, reaper: watch }: TransactionService,
): Promise<Transaction> {
  await worker.register()
  const begin = rollingBack(reason)
  // Another process may have begun it.
  const isBegun = ({ status }: Transaction): boolean => status !== 'active' && status !== 'committed'
  watch.track(key, await repository.change(key, (found) => (isBegun(found) ? found : begin(found))))
  return rolledBackBy(key, { caller, signal }, { repository, rollback })
}

/** Waits until a transaction is rolled back, by whom ever. @throws the signal's reason */
async function rolledBackBy(
  key: string,
  { caller, signal }: { readonly caller: Principal; readonly signal: AbortSignal },
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

/** The settings of transactions. Times are milliseconds. */
export interface Settings {
  readonly timeout: number
  readonly max_lifetime: number
  readonly uncompensable: 'reject' | 'allow'
  readonly on_step_failure: 'keep' | 'rollback'
  readonly retention: number
  readonly max_active: number
  readonly max_steps: number
  /** Whether undo rules are derived from the schemas of a server's tools. */
  readonly auto_undo?: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  default: {},
  properties: {
    timeout: {
      ...durationSchema,
      default: '5m',
      description: 'How long a transaction may be idle before it is rolled back, unless its caller says.',
    },
    max_lifetime: {
      ...durationSchema,
      default: '1h',
      description: 'How long a transaction may take in all; then it is rolled back.',
    },
    uncompensable: {
      enum: ['reject', 'allow'],
      default: 'reject',
      description:
        'What becomes of a step without a known compensation: it does not run, or it runs and is reported when the others are undone.',
    },
    auto_undo: {
      type: 'boolean',
      default: false,
      description:
        'Undo tools without an undo rule by another tool of their server, where names and schemas leave no doubt: what gatehouse plan calls sure.',
    },
    on_step_failure: {
      enum: ['keep', 'rollback'],
      default: 'keep',
      description: 'What a step that fails does to its transaction: nothing, or it is rolled back at once.',
    },
    retention: {
      ...durationSchema,
      default: '24h',
      description: 'How long a transaction that is over can be asked about, and its id is taken.',
    },
    max_active: count(10_000, 100, 'How many transactions each caller may have at a time.'),
    max_steps: count(1000, 100, 'How many steps a transaction may have.'),
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether what a step is also stands at `transaction` of its result.',
    },
  },
} as const

function count(most: number, usual: number, description: string) {
  const errorMessage = `must be a number from 1 to ${most}`
  return { type: 'integer', minimum: 1, maximum: most, default: usual, errorMessage, description } as const
}

/** Runs what has the same key one after the other, unless the signal is aborted before its turn. */
type Queue = <Value>(key: string, signal: AbortSignal, run: () => Promise<Value>) => Promise<Value>

/** Makes a queue. */
export function createQueue(): Queue {
  const tails = new Map<string, Promise<void>>()
  return async (key, signal, run) => {
    const before = tails.get(key)
    let leave = (): void => undefined
    const left = new Promise<void>((resolve) => (leave = resolve))
    const tail = before ? before.then(() => left) : left
    tails.set(key, tail)
    try {
      if (before) await untilAborted(before, signal)
      return await run()
    } finally {
      leave()
      // The last one takes the key away.
      if (tails.get(key) === tail) void tail.then(() => tails.get(key) === tail && tails.delete(key))
    }
  }
}

// Rolls back what is overdue and takes over what dead workers left. Looks into the store at intervals, as any
// member may have died.

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
class TransactionReaper {
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
    if (!found || hasEnded(found)) return void this.#due.delete(key)
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
    const [step] = pendingSteps(transaction)
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

// Ids of transactions and steps as callers write them.

/** How long an id may be, in characters. */
export const MAX_ID_LENGTH = 128

/** An id a client chose. @throws INVALID_INPUT */
export function readId(value: unknown, field: string): string {
  // Half a surrogate pair has no form in UTF-8.
  const isGood =
    typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH && !/\p{C}/u.test(value)
  if (isGood) return value
  throw new GatewayError(
    'INVALID_INPUT',
    `Invalid params: ${field} must be a text of 1 to ${MAX_ID_LENGTH} characters, without control characters.`,
    { field, reason: 'shape' },
  )
}
