/**
 * State transitions of a transaction, as pure functions: active → committed, or active → rolling_back → rolled_back or
 * partially_rolled_back. A transition that the state does not allow throws.
 */
import { type Extra, GatewayError } from '../core/error.ts'
import { type Backoff, delayBefore } from '../core/time/backoff.ts'
import { type Action, newestFirst } from './actions.ts'
import {
  type CompensationStatus,
  hasEnded,
  type Transition,
  needsAttention,
  type Step,
  type Transaction,
} from './transactions.ts'

/** The parameters of a new transaction. Times are milliseconds. */
interface NewTransaction extends Pick<Transaction, 'id' | 'principal' | 'description' | 'timeout'> {
  readonly lifetime: number
  readonly now: number
}

/** A new transaction. */
export function newTransaction({ lifetime, now, ...given }: NewTransaction): Transaction {
  const endsAt = now + lifetime
  return {
    status: 'active',
    ...given,
    startedAt: now,
    expiresAt: Math.min(now + given.timeout, endsAt),
    endsAt,
    steps: [],
    compensations: [],
  }
}

interface NewUndo {
  readonly id: string
  readonly by: string
  readonly now: number
  /** Whether undoing an action overwrites what others changed since. */
  isForced?(action: Action): boolean
}

/** A transaction that rolls back actions that ran outside of one. All must belong to one caller. */
export function newUndoTransaction(
  actions: readonly Action[],
  { id, by, now, isForced = () => false }: NewUndo,
): Transaction {
  const [first] = actions
  if (!first || actions.some(({ principal }) => principal.id !== first.principal.id)) {
    throw new TypeError('expected one or more actions of a single caller')
  }
  const ordered = actions.toSorted(newestFirst).toReversed()
  return {
    ...newTransaction({ id, principal: first.principal, timeout: 0, lifetime: 0, now }),
    status: 'rolling_back',
    reason: by,
    steps: ordered.map((action, index) => ({
      id: `step-${index + 1}`,
      deed: action.key,
      upstream: action.upstream,
      tool: action.tool,
      kind: 'write',
      status: action.status === 'ok' ? 'ok' : 'failed',
      runner: '',
      ...(isForced(action) && { force: true }),
    })),
  }
}

/** Why a step cannot start: its id is taken, or another step is in progress. */
export const ID_TAKEN = 'taken'
export const IN_PROGRESS = 'under_way'

/** Starts a step. Its id must be unused, or belong to a step that never reached its server. */
export function stepStarted(
  step: Step,
  { maxSteps, now }: { readonly maxSteps: number; readonly now: number },
): Transition {
  return (transaction) => {
    requireActive(transaction, 'accepts no more steps')
    const rest = transaction.steps.filter(({ id }) => id !== step.id)
    const existing = transaction.steps.find(({ id }) => id === step.id)
    if (existing && existing.isUnsent !== true) {
      throw conflict(`The transaction already has a step ${JSON.stringify(step.id)}.`, {
        field: 'step_id',
        reason: ID_TAKEN,
        suggestion: 'Give each step a unique id, and use an idempotency key to repeat a call.',
      })
    }
    const [pending] = pendingSteps(transaction)
    if (pending) throw stepNotFinished(pending)
    if (rest.length >= maxSteps) throw conflict(`A transaction has at most ${maxSteps} steps.`)
    return extendIdleTimeout({ ...transaction, steps: [...rest, step] }, now)
  }
}

/** Marks a pending step as waiting for its caller's input. */
export function stepWaiting(step: string): Transition {
  return (transaction) => withStep(transaction, step, (found) => ({ ...found, isOpen: true }))
}

/** Marks a waiting step as resumed by a runner. */
export function stepResumed(step: string, runner: string): Transition {
  return (transaction) =>
    withStep(transaction, step, ({ isOpen: _isOpen, ...found }) => ({ ...found, runner }))
}

/** How a step ended. */
export type StepEnd = Pick<Step, 'isUnsent' | 'error'> & { readonly status: 'ok' | 'failed' }

/** Ends a pending step, also during a rollback, which waits for it. */
export function stepEnded(step: string, end: StepEnd, now: number): Transition {
  return (transaction) =>
    extendIdleTimeout(
      withStep(transaction, step, ({ isOpen: _isOpen, ...found }) => ({ ...found, ...end })),
      now,
    )
}

/** Ends a step whose runner is gone, unless it was resumed or ended in the meantime. */
export function stepLost({ id, deed, runner, isOpen }: Step, now: number): Transition {
  return (transaction) => {
    const found = pendingSteps(transaction).find((each) => each.id === id)
    const isSame = found?.deed === deed && found.runner === runner && found.isOpen === isOpen
    return isSame && !hasEnded(transaction) ? stepEnded(id, lost, now)(transaction) : transaction
  }
}

/** The result of a step whose gateway is gone. */
const lost = {
  status: 'failed',
  error: new GatewayError('OUTCOME_UNKNOWN', 'It is unknown whether the step took effect.').data,
} as const

/** Removes a pending step that was not executed and will be repeated. */
export function stepRemoved(step: string, now: number): Transition {
  return (transaction) => {
    requirePending(transaction, step)
    return extendIdleTimeout(
      { ...transaction, steps: transaction.steps.filter(({ id }) => id !== step) },
      now,
    )
  }
}

/** Commits the transaction: nothing can be undone any more. */
export function committed(now: number): Transition {
  return (transaction) => {
    requireActive(transaction, 'cannot be committed')
    const [pending] = pendingSteps(transaction)
    if (pending) throw stepNotFinished(pending)
    return { ...transaction, status: 'committed', endedAt: now }
  }
}

/** Starts a rollback; a worker will take it over. */
export function rollingBack(reason: string | undefined): Transition {
  return (transaction) => {
    requireActive(transaction, 'cannot be rolled back')
    return { ...transaction, status: 'rolling_back', ...(reason !== undefined && { reason }) }
  }
}

/**
 * Starts a rollback that overwrites what others changed since, or has one that ended try again what it could not undo. A
 * worker will take it over.
 */
export function rollingBackByForce(reason: string | undefined): Transition {
  return (transaction) => {
    const { status, retry: _retry, acknowledged: _acknowledged, endedAt: _endedAt, ...rest } = transaction
    if (status === 'rolling_back') return { ...transaction, force: true }
    if (status !== 'partially_rolled_back') return { ...rollingBack(reason)(transaction), force: true }
    const compensations = transaction.compensations.filter((each) => each.status === 'compensated')
    return { ...rest, status: 'rolling_back', force: true, compensations }
  }
}

/** Takes over a rollback, unless another worker was faster. */
export function takenOver(runner: string, before: string | undefined): Transition {
  return (transaction) => {
    const isFree = transaction.status === 'rolling_back' && transaction.runner === before
    return isFree && before !== runner ? { ...transaction, runner } : transaction
  }
}

/** Records the result of undoing one step. */
export function compensated(compensation: CompensationStatus, runner: string): Transition {
  return (transaction) => {
    requireRunner(transaction, runner)
    const isKnown = transaction.steps.some(({ id }) => id === compensation.step)
    const isDone = transaction.compensations.some(({ step }) => step === compensation.step)
    if (!isKnown || isDone) throw continuedElsewhere()
    const isLate = compensation.status === 'compensated' && isAfterEarlier(compensation.step, transaction)
    const added = isLate ? { ...compensation, isLate } : compensation
    return { ...transaction, compensations: [...transaction.compensations, added] }
  }
}

/** Whether steps that were made before a step are undone already. */
function isAfterEarlier(step: string, { steps, compensations }: Transaction): boolean {
  const at = steps.findIndex(({ id }) => id === step)
  const undone = new Set(compensations.flatMap((each) => (each.status === 'compensated' ? [each.step] : [])))
  return steps.slice(0, at).some(({ id }) => undone.has(id))
}

/** Ends a rollback. Compensations that failed for a transient reason are retried later, unless acknowledged. */
export function rolledBack(runner: string, now: number): Transition {
  return (transaction) => {
    requireRunner(transaction, runner)
    if (pendingSteps(transaction).length > 0) throw continuedElsewhere()
    const { compensations, acknowledged: acknowledgement } = transaction
    const isClean = compensations.every(({ error }) => error === undefined)
    const { runner: _runner, retry: before, ...rest } = transaction
    const tries = (before?.tries ?? 0) + 1
    const isTriedAgain = compensations.some(isRetryable) && !acknowledgement && tries <= MAX_RETRIES
    return {
      ...rest,
      status: isClean ? 'rolled_back' : 'partially_rolled_back',
      ...(isTriedAgain && { retry: { tries, at: now + delayBefore(tries - 1, RETRIES) } }),
      endedAt: now,
    }
  }
}

/** How often failed compensations are retried, and after which delays. */
const MAX_RETRIES = 1000
const RETRIES: Backoff = { firstMs: 2000, maxMs: 60_000 }

/** Whether a compensation failed for a transient reason, such as an unavailable server. */
function isRetryable({ status, error }: CompensationStatus): boolean {
  return status === 'compensation_failed' && retryable.has(String(error?.category))
}

const retryable: ReadonlySet<string> = new Set(['transient', 'rate_limited', 'auth_required'])

/** Restarts a rollback whose retry is due. */
export function retried(now: number): Transition {
  return (transaction) => {
    const { status, retry, compensations } = transaction
    if (status !== 'partially_rolled_back' || !retry || now < retry.at) return transaction
    const remaining = compensations.filter((compensation) => !isRetryable(compensation))
    return { ...transaction, status: 'rolling_back', compensations: remaining }
  }
}

/** An operator acknowledges failed compensations or unknown outcomes: nothing more is attempted. */
export function acknowledged(by: string, now: number): Transition {
  return (transaction) => {
    if (!needsAttention(transaction)) {
      throw conflict('The transaction does not need an acknowledgement.')
    }
    const { retry: _retry, ...rest } = transaction
    return { ...rest, acknowledged: { by, at: now } }
  }
}

/** The steps that have not ended. */
export function pendingSteps({ steps }: Transaction): Step[] {
  return steps.filter(({ status }) => status === 'pending')
}

function stepNotFinished({ id, isOpen }: Step): GatewayError {
  const message = `Step ${JSON.stringify(id)} of the transaction has not finished yet.`
  // A step that waits for input may do so for long, so waiting for it would not help.
  return conflict(message, isOpen ? {} : { reason: IN_PROGRESS })
}

/** Extends the idle timeout after activity. */
function extendIdleTimeout(transaction: Transaction, now: number): Transaction {
  if (transaction.status !== 'active') return transaction
  return { ...transaction, expiresAt: Math.min(now + transaction.timeout, transaction.endsAt) }
}

function withStep(transaction: Transaction, step: string, change: (found: Step) => Step): Transaction {
  requirePending(transaction, step)
  const steps = transaction.steps.map((each) => (each.id === step ? change(each) : each))
  return { ...transaction, steps }
}

function requirePending(transaction: Transaction, step: string): void {
  const isThere = pendingSteps(transaction).some(({ id }) => id === step)
  if (hasEnded(transaction) || !isThere) throw continuedElsewhere()
}

function requireActive({ status }: Transaction, what: string): void {
  if (status === 'active') return
  const is = status === 'rolling_back' ? 'is being rolled back' : `is ${status.replaceAll('_', ' ')}`
  throw conflict(`The transaction ${is}, so it ${what}.`)
}

function requireRunner({ status, runner }: Transaction, by: string): void {
  if (status !== 'rolling_back' || runner !== by) throw continuedElsewhere()
}

function continuedElsewhere(): GatewayError {
  return conflict('Another process continued the transaction.')
}

function conflict(message: string, extra: Pick<Extra, 'field' | 'reason' | 'suggestion'> = {}): GatewayError {
  return new GatewayError('TRANSACTION_CONFLICT', message, extra)
}
