import type { Call, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { keepPrincipal } from '../../records/principal.ts'
import { begun, committed } from '../../records/transaction-moves.ts'
import {
  inDoubt,
  isOver,
  type Transaction,
  unknownTransaction,
  urgentFirst,
} from '../../records/transactions.ts'
import type { Deps } from '../feature.ts'
import { type TransactionService, keyFor, mustHaveKeys, rollBack } from './desk.ts'
import { readId } from './ids.ts'
import { answer, commitShape, rollbackShape, statusShape, summaryShape } from './shapes.ts'
import { waited } from './steps.ts'

/** Answers `transaction/begin`. */
export function answerBegin(desk: TransactionService): Handler {
  const { deps, limits, book, worker, watch } = desk
  return async (call) => {
    mustHaveKeys(deps)
    const id = idOf(call)
    const description = textOf(call, 'description')
    const timeout = Math.min(timeoutOf(call) ?? limits.timeout, limits.max_lifetime)
    if (watch.count(keyFor(call, '')) >= limits.max_active) throw tooMany(limits.max_active)
    const key = keyFor(call, id)
    const forget = watch.expect(key)
    const transaction = begun({
      id,
      principal: keepPrincipal(call.principal),
      ...(description !== undefined && { description }),
      timeout,
      lifetime: limits.max_lifetime,
      now: Date.now(),
    })
    const isOpened = await worker
      .register()
      .then(() => book.open(transaction))
      .finally(forget)
    if (!isOpened) {
      throw new GatewayError('TRANSACTION_CONFLICT', 'There was a transaction of this id already.', {
        field: 'transaction_id',
        suggestion: 'Begin it with an id that was not used before.',
      })
    }
    watch.track(key, transaction)
    return answer({
      status: 'begun',
      transaction_id: id,
      expires_at: new Date(transaction.expiresAt).toISOString(),
      timeout_seconds: Math.floor(timeout / 1000),
    })
  }
}

/** Answers `transaction/commit`. */
export function answerCommit(desk: TransactionService): Handler {
  const { book, queue, watch, deeds, deps, limits } = desk
  return async (call) => {
    const key = keyFor(call, idOf(call))
    return queue(key, call.signal, async () => {
      const before = await waited(key, call.signal, desk)
      if (before.status === 'committed') return answer({ ...commitShape(before), was_replay: true })
      const transaction = await book.change(key, committed(Date.now()))
      watch.track(key, transaction)
      reportInDoubt(transaction, deps)
      const kept = transaction.steps.map(({ deed }) => deeds.keep(deed, limits.retention))
      background(Promise.all(kept), deps.log)
      return answer(commitShape(transaction))
    })
  }
}

/** Logs the steps of a committed transaction that may not have been done: an operator has to look at them. */
function reportInDoubt(transaction: Transaction, { log }: Deps): void {
  const { id, principal } = transaction
  const steps = inDoubt(transaction).map((step) => `${step.id}: OUTCOME_UNKNOWN`)
  if (steps.length > 0)
    log.error('transaction.needs_attention', { transaction: id, principal: principal.id, steps })
}

/** Answers `transaction/rollback`, once everything is undone as far as that can be. */
export function answerRollback(desk: TransactionService): Handler {
  return async (call) => {
    const key = keyFor(call, idOf(call))
    const reason = textOf(call, 'reason')
    const { principal: caller, signal } = call
    const before = await desk.book.find(key)
    if (!before) throw unknownTransaction()
    if (isOver(before) && before.status !== 'committed') {
      return answer({ ...rollbackShape(before), was_replay: true })
    }
    return answer(rollbackShape(await rollBack(key, { reason, caller, signal }, desk)))
  }
}

/** How many transactions a list has at most. */
const LISTED = 100

/** Answers `transaction/status`: of one transaction, or in few words of all its caller has. */
export function answerStatus({ book, deeds }: TransactionService): Handler {
  return async (call) => {
    if (call.params.fields.transaction_id === undefined) {
      const all = (await book.list(call.principal.id)).map(({ transaction }) => transaction)
      return answer({ transactions: all.toSorted(urgentFirst).slice(0, LISTED).map(summaryShape) })
    }
    const transaction = await book.find(keyFor(call, idOf(call)))
    if (!transaction) throw unknownTransaction()
    const known = await deeds.findAll(transaction.steps.map(({ deed }) => deed))
    return answer(statusShape(transaction, known))
  }
}

function idOf({ params }: Call): string {
  return readId(params.fields.transaction_id, 'transaction_id')
}

/** How long a text for people may be; the rest is left out. */
const MAX_TEXT_LENGTH = 1000

function textOf({ params }: Call, field: string): string | undefined {
  const value = params.fields[field]
  if (value === undefined) return undefined
  if (typeof value !== 'string') throw invalid(field, 'a text')
  return value.slice(0, MAX_TEXT_LENGTH).toWellFormed()
}

/** In milliseconds. */
function timeoutOf({ params }: Call): number | undefined {
  const { timeout_seconds: seconds } = params.fields
  if (seconds === undefined) return undefined
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds > 0) return seconds * 1000
  throw invalid('timeout_seconds', 'a whole number above 0')
}

function invalid(field: string, what: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} must be ${what}.`, {
    field,
    reason: 'type',
  })
}

function tooMany(most: number): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `You have ${most} transactions under way, which is the most.`, {
    suggestion: 'Commit or roll back one of them first.',
  })
}
