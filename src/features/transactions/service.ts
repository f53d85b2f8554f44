/**
 * What the parts of the feature share: settings, records, worker, queue, and the rollback of a transaction.
 */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { durationSchema } from '../../core/time/units.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import { Actions } from '../../records/actions.ts'
import {
  isOver,
  type Transaction,
  transactionKey,
  Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import { rollingBack } from '../../records/transitions.ts'
import type { SettingsOf } from '../feature.ts'
import type { Services } from '../services.ts'
import { TransactionReaper } from './reaper.ts'
import { createRollback, type Rollback } from './rollback.ts'
import { WorkerIdentity } from './worker.ts'

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
    if (isOver(found)) return found
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
