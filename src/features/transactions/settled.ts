import { pause } from '../../core/waiting.ts'
import { pendingOf, stepLost } from '../../records/transaction-moves.ts'
import {
  type Step,
  type Transaction,
  type Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import type { WorkerIdentity } from './worker.ts'

interface StepParts {
  readonly book: Transactions
  readonly worker: WorkerIdentity
}

interface Options {
  readonly signal?: AbortSignal
  /** Whether a step that is not over is let be. */
  isLeft?(transaction: Transaction, step: Step): Promise<boolean>
}

/** How often somebody else's step is looked at, in milliseconds. */
const POLL_INTERVAL_MS = 50

/**
 * The transaction, once nobody works on a step of it; a step whose gateway is gone has no known end.
 * @throws RESOURCE_NOT_FOUND, the signal's reason
 */
export async function quiescent(
  key: string,
  { book, worker }: StepParts,
  { signal, isLeft }: Options = {},
): Promise<Transaction> {
  for (;;) {
    const found = await book.find(key)
    if (!found) throw unknownTransaction()
    const [step] = pendingOf(found)
    if (!step || (await isLeft?.(found, step))) return found
    const isAtWork = !step.isOpen && (await worker.isAtWork(step.runner, stepWork(key, step.id)))
    if (isAtWork) await pause(POLL_INTERVAL_MS, signal)
    else await book.change(key, stepLost(step, Date.now()))
  }
}

/** What a step that is under way is called. */
export function stepWork(key: string, step: string): string {
  return `${key} ${step}`
}
