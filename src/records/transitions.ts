/**
 * The moves of a transaction, as pure functions: active → committed, or active → rolling_back → rolled_back or
 * partially_rolled_back. A move that does not fit the state throws.
 */
import { type Extra, GatewayError } from '../core/error.ts'
import type { Action } from './actions.ts'
import type { KeptPrincipal } from './principal.ts'
import {
  type CompensationStatus,
  isOver,
  type Move,
  needsAttention,
  type Step,
  type Transaction,
} from './transactions.ts'

/** What a transaction is begun with. Times are milliseconds. */
interface Beginning {
  readonly id: string
  readonly principal: KeptPrincipal
  readonly description?: string
  readonly timeout: number
  readonly lifetime: number
  readonly now: number
}

/** A transaction that begins. */
export function begun({ id, principal, description, timeout, lifetime, now }: Beginning): Transaction {
  const endsAt = now + lifetime
  return {
    status: 'active',
    id,
    principal,
    ...(description !== undefined && { description }),
    startedAt: now,
    timeout,
    expiresAt: Math.min(now + timeout, endsAt),
    endsAt,
    steps: [],
    compensations: [],
  }
}

/** A transaction of things that were done outside of one, about to be undone. All are one caller's. */
export function undoing(deeds: readonly Action[], { id, by, now }: Undoing): Transaction {
  const [first] = deeds
  if (!first || deeds.some(({ principal }) => principal.id !== first.principal.id)) {
    throw new TypeError('it takes things that one caller did')
  }
  const done = deeds.toSorted((one, other) => one.startedAt - other.startedAt)
  return {
    ...begun({ id, principal: first.principal, timeout: 0, lifetime: 0, now }),
    status: 'rolling_back',
    reason: by,
    steps: done.map((deed, index) => ({
      id: `step-${index + 1}`,
      deed: deed.key,
      upstream: deed.upstream,
      tool: deed.tool,
      kind: 'write',
      status: deed.status === 'ok' ? 'ok' : 'failed',
      runner: '',
    })),
  }
}

interface Undoing {
  readonly id: string
  /** Why, and who does it. */
  readonly by: string
  readonly now: number
}

/** The reasons for which a step cannot begin as another one did: it has its id, or is under way. */
export const TAKEN = 'taken'
export const UNDER_WAY = 'under_way'

/** A step begins. Its id is free, or that of one that never reached its server. */
export function stepBegun(step: Step, { most, now }: { readonly most: number; readonly now: number }): Move {
  return (transaction) => {
    mustBeActive(transaction, 'takes no more steps')
    const others = transaction.steps.filter(({ id }) => id !== step.id)
    const former = transaction.steps.find(({ id }) => id === step.id)
    if (former && former.isUnsent !== true) {
      throw conflict(`The transaction has a step ${JSON.stringify(step.id)} already.`, {
        field: 'step_id',
        reason: TAKEN,
        suggestion: 'Give each step an id of its own, and use an idempotency key to repeat a call.',
      })
    }
    const [waiting] = pendingOf(transaction)
    if (waiting) throw notDone(waiting)
    if (others.length >= most) throw conflict(`A transaction has at most ${most} steps.`)
    return alive({ ...transaction, steps: [...others, step] }, now)
  }
}

/** A pending step waits for its caller to answer what it was asked, or goes on with the answers. */
export function stepAsked(step: string, runner: string | undefined): Move {
  return (transaction) =>
    withStep(transaction, step, ({ isOpen: _isOpen, ...found }) => {
      return runner === undefined ? { ...found, isOpen: true } : { ...found, runner }
    })
}

/** How a step ended. */
export type StepEnd = Pick<Step, 'isUnsent' | 'error'> & { readonly status: 'ok' | 'failed' }

/** A pending step ends; also while the transaction is rolled back, which waits for it. */
export function stepEnded(step: string, end: StepEnd, now: number): Move {
  return (transaction) =>
    alive(
      withStep(transaction, step, ({ isOpen: _isOpen, ...found }) => ({ ...found, ...end })),
      now,
    )
}

/** Ends a step whose runner is gone; a step that continued or ended meanwhile stays as it is. */
export function stepLost({ id, deed, runner, isOpen }: Step, now: number): Move {
  return (transaction) => {
    const found = pendingOf(transaction).find((each) => each.id === id)
    const isSame = found?.deed === deed && found.runner === runner && found.isOpen === isOpen
    return isSame && !isOver(transaction) ? stepEnded(id, lost, now)(transaction) : transaction
  }
}

/** What is known of a step whose gateway went away. */
const lost = {
  status: 'failed',
  error: new GatewayError('OUTCOME_UNKNOWN', 'It is unknown whether the step was done.').data,
} as const

/** A pending step is taken back: it was not run, and comes again. */
export function stepRemoved(step: string, now: number): Move {
  return (transaction) => {
    mustBePending(transaction, step)
    return alive({ ...transaction, steps: transaction.steps.filter(({ id }) => id !== step) }, now)
  }
}

/** It ends well: nothing can be undone any more. */
export function committed(now: number): Move {
  return (transaction) => {
    mustBeActive(transaction, 'cannot be committed')
    const [waiting] = pendingOf(transaction)
    if (waiting) throw notDone(waiting)
    return { ...transaction, status: 'committed', endedAt: now }
  }
}

/** It will be undone, by whoever takes that up. */
export function rollingBack(reason: string | undefined): Move {
  return (transaction) => {
    mustBeActive(transaction, 'cannot be rolled back')
    return { ...transaction, status: 'rolling_back', ...(reason !== undefined && { reason }) }
  }
}

/** Another worker takes over the rollback, unless a third one was first. */
export function takenUp(runner: string, before: string | undefined): Move {
  return (transaction) => {
    const isFree = transaction.status === 'rolling_back' && transaction.runner === before
    return isFree && before !== runner ? { ...transaction, runner } : transaction
  }
}

/** What became of undoing one of its steps. */
export function compensated(compensation: CompensationStatus, runner: string): Move {
  return (transaction) => {
    mustBeRunning(transaction, runner)
    const isKnown = transaction.steps.some(({ id }) => id === compensation.step)
    const isDone = transaction.compensations.some(({ step }) => step === compensation.step)
    if (!isKnown || isDone) throw taken()
    return { ...transaction, compensations: [...transaction.compensations, compensation] }
  }
}

/** Everything that could be undone is. What failed for a transient reason is tried again later, unless it was acknowledged. */
export function rolledBack(runner: string, now: number): Move {
  return (transaction) => {
    mustBeRunning(transaction, runner)
    if (pendingOf(transaction).length > 0) throw taken()
    const { compensations, acknowledged: seen } = transaction
    const isClean = compensations.every(({ error }) => error === undefined)
    const { runner: _runner, retry: before, ...others } = transaction
    const tries = (before?.tries ?? 0) + 1
    const isTriedAgain = compensations.some(isRetryable) && !seen && tries <= MAX_RETRIES
    return {
      ...others,
      status: isClean ? 'rolled_back' : 'partially_rolled_back',
      ...(isTriedAgain && { retry: { tries, at: now + retryDelay(tries) } }),
      endedAt: now,
    }
  }
}

/** How often what could not be undone is tried again, and how long is waited before, in milliseconds: twice as long each time. */
const MAX_RETRIES = 1000
const FIRST_RETRY_MS = 2000
const LAST_RETRY_MS = 60_000

function retryDelay(tries: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.min(tries - 1, 10), LAST_RETRY_MS)
}

/** Whether something could not be undone for a reason that may pass, such as that its server is away. */
function isRetryable({ status, error }: CompensationStatus): boolean {
  return status === 'compensation_failed' && retryable.has(String(error?.category))
}

const retryable: ReadonlySet<string> = new Set(['transient', 'rate_limited', 'auth_required'])

/** What could not be undone is about to be tried again, once its time has come; whoever takes that up does it. */
export function retried(now: number): Move {
  return (transaction) => {
    const { status, retry, compensations } = transaction
    if (status !== 'partially_rolled_back' || !retry || now < retry.at) return transaction
    const left = compensations.filter((each) => !isRetryable(each))
    return { ...transaction, status: 'rolling_back', compensations: left }
  }
}

/** An operator acknowledged what could not be undone, or what is in doubt: nothing more is tried. */
export function acknowledged(by: string, now: number): Move {
  return (transaction) => {
    if (!needsAttention(transaction)) {
      throw conflict('The transaction does not need an acknowledgement.')
    }
    const { retry: _retry, ...others } = transaction
    return { ...others, acknowledged: { by, at: now } }
  }
}

/** The steps that are not over. */
export function pendingOf({ steps }: Transaction): Step[] {
  return steps.filter(({ status }) => status === 'pending')
}

function notDone({ id, isOpen }: Step): GatewayError {
  const message = `The step ${JSON.stringify(id)} of the transaction is not done yet.`
  // What its caller was asked may not be answered for long.
  return conflict(message, isOpen ? {} : { reason: UNDER_WAY })
}

/** Something happened, so the time it may be idle starts anew. */
function alive(transaction: Transaction, now: number): Transaction {
  if (transaction.status !== 'active') return transaction
  return { ...transaction, expiresAt: Math.min(now + transaction.timeout, transaction.endsAt) }
}

function withStep(transaction: Transaction, step: string, change: (found: Step) => Step): Transaction {
  mustBePending(transaction, step)
  const steps = transaction.steps.map((each) => (each.id === step ? change(each) : each))
  return { ...transaction, steps }
}

function mustBePending(transaction: Transaction, step: string): void {
  const isThere = pendingOf(transaction).some(({ id }) => id === step)
  if (isOver(transaction) || !isThere) throw taken()
}

function mustBeActive({ status }: Transaction, what: string): void {
  if (status === 'active') return
  const is = status === 'rolling_back' ? 'is being rolled back' : `is ${status.replaceAll('_', ' ')}`
  throw conflict(`The transaction ${is}, so it ${what}.`)
}

function mustBeRunning({ status, runner }: Transaction, by: string): void {
  if (status !== 'rolling_back' || runner !== by) throw taken()
}

function taken(): GatewayError {
  return conflict('Another process continued the transaction.')
}

function conflict(message: string, extra: Pick<Extra, 'field' | 'reason' | 'suggestion'> = {}): GatewayError {
  return new GatewayError('TRANSACTION_CONFLICT', message, extra)
}
