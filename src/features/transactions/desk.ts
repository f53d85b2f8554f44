import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { pause, untilAborted } from '../../core/waiting.ts'
import { Actions } from '../../records/deeds.ts'
import { rollingBack } from '../../records/transaction-moves.ts'
import {
  isOver,
  type Transaction,
  transactionKey,
  Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import type { Deps, SettingsOf } from '../feature.ts'
import { createQueue, type Queue } from './queue.ts'
import { createRollback, type Rollback } from './rollback.ts'
import type { Settings } from './settings.ts'
import { TransactionReaper } from './watch.ts'
import { WorkerIdentity } from './worker.ts'

/** What everything about transactions works with. */
export interface TransactionService {
  readonly deps: Deps
  readonly settings: SettingsOf<Settings>
  /** What holds for all transactions, whichever servers they touch. */
  readonly limits: Settings
  readonly book: Transactions
  readonly deeds: Actions
  readonly worker: WorkerIdentity
  readonly rollback: Rollback
  readonly watch: TransactionReaper
  /** Steps of one transaction wait for each other. */
  readonly queue: Queue
}

/** Puts it together. */
export function createTransactionService(
  given: SettingsOf<Settings | false>,
  deps: Deps,
): TransactionService {
  const limits = [undefined, ...deps.servers()].map((name) => given(name)).find((each) => each !== false)
  if (!limits) throw new TypeError('transactions are off everywhere')
  const settings = (upstream?: string): Settings => given(upstream) || limits
  const { retention } = limits
  const book = new Transactions(deps.store, retention)
  const deeds = new Actions(deps.store)
  const worker = new WorkerIdentity(deps.membership)
  const rollback = createRollback({ deps, book, deeds, worker, retention })
  const watch = new TransactionReaper({ book, rollback, worker, log: deps.log })
  return { deps, settings, limits, book, deeds, worker, rollback, watch, queue: createQueue() }
}

/** Makes sure that a server's tools can be undone under keys of the gateway's own, or those of some. @throws UNSUPPORTED_OPERATION */
export function mustHaveKeys({ isOn, servers }: Deps, upstream?: string): void {
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

/** How often somebody else's rollback is looked at, in milliseconds. */
const POLL_INTERVAL_MS = 250

/** Rolls a transaction back, and waits for the end of it. @throws TRANSACTION_CONFLICT, the signal's reason */
export async function rollBack(
  key: string,
  { reason, caller, signal }: { reason: string | undefined; caller: Principal; signal: AbortSignal },
  { book, worker, rollback, watch }: TransactionService,
): Promise<Transaction> {
  await worker.register()
  const begin = rollingBack(reason)
  // Somebody else may have begun that.
  const isBegun = ({ status }: Transaction): boolean => status !== 'active' && status !== 'committed'
  watch.track(key, await book.change(key, (found) => (isBegun(found) ? found : begin(found))))
  return rolledBackBy(key, { caller, signal }, { book, rollback })
}

/** Waits until a transaction is rolled back, by whom ever. @throws the signal's reason */
async function rolledBackBy(
  key: string,
  { caller, signal }: { readonly caller: Principal; readonly signal: AbortSignal },
  { book, rollback }: Pick<TransactionService, 'book' | 'rollback'>,
): Promise<Transaction> {
  for (;;) {
    const run = rollback.run(key, caller)
    const ended = await untilAborted(run, signal)
    if (ended) return ended
    const found = await book.find(key)
    if (!found) throw unknownTransaction()
    if (isOver(found)) return found
    await pause(POLL_INTERVAL_MS, signal)
  }
}
