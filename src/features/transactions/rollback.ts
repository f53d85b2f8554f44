/**
 * Compensates the steps of a transaction in reverse order, each under its own idempotency key, and continues where an
 * earlier worker stopped.
 *
 * Compensations that fail are repeated, but are no queue of an outbox (`durable/outbox.ts`): whoever rolls back waits for the
 * outcome of all of them, and the record of the transaction has each outcome and the time of the next attempt.
 */
import { detachedSlot } from '../../core/slot.ts'
import { createHash } from 'node:crypto'
import { world } from '../../core/world.ts'
import { internalCall } from '../own-calls.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import { pause } from '../../core/time/waiting.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import {
  type Action,
  type Actions,
  type Compensation,
  type StateAfterUndo,
  type UndoOrder,
  undoOrderSlot,
} from '../../records/actions.ts'
import { NO_APPROVER_REASON } from '../../records/approvals.ts'
import { withData } from '../../records/kept-arguments.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import {
  type CompensationStatus,
  hasEnded,
  type Step,
  type Transaction,
  type Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import { compensated, rolledBack, takenOver, pendingSteps, stepLost } from '../../records/transitions.ts'
import { Instance, type Membership } from '../../durable/members.ts'
import type { Services } from '../feature.ts'
import { commandThatAdds } from '../missing-undo.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'gateway'>

interface RollbackContext {
  readonly deps: Deps
  readonly repository: Transactions
  readonly actions: Actions
  readonly worker: WorkerIdentity
  readonly steps: RunningSteps
  /** How long undone actions are kept, in milliseconds. */
  readonly retention: number
}

/** Rolls back transactions. */
export interface Rollback {
  /**
   * Resolves once a transaction is rolled back as far as possible; with undefined if another worker does it, the gateway
   * closes, or an approval is pending. `caller` adds the caller's current token and claims to the stored principal.
   */
  run(key: string, caller?: Principal): Promise<Transaction | undefined>
}

/** How many keys the attempts to undo a step may use. */
const MAX_KEYS = 100

/** Creates the rollback service. Each compensation is recorded before the next one starts. */
export function createRollback(context: RollbackContext): Rollback {
  const { repository, worker, deps } = context
  const running = new Map<string, Promise<Transaction | undefined>>()

  const work = async (key: string, caller: Principal | undefined): Promise<Transaction | undefined> => {
    const found = await repository.find(key)
    if (!found) throw unknownTransaction()
    if (found.status !== 'rolling_back' || deps.gateway.closing.aborted)
      return hasEnded(found) ? found : undefined
    if (found.runner !== undefined && found.runner !== worker.id && (await worker.isAlive(found.runner)))
      return undefined
    await worker.register()
    const claimed = await repository.change(key, takenOver(worker.id, found.runner))
    if (claimed.runner !== worker.id) return hasEnded(claimed) ? claimed : undefined
    context.steps.cancel(key)
    const transaction = await quiescent(key, context)
    const principal = callerOf(transaction, caller)
    const done = new Set(transaction.compensations.map(({ step }) => step))
    const actions = await context.actions.findAll(transaction.steps.map(({ deed }) => deed))
    const patience = new Patience(deps.gateway.closing)
    const plan = planOf(transaction, actions).filter(({ step }) => !done.has(step.id))
    for (const [index, { step, action, isBeforePivot }] of plan.entries()) {
      const result = isBeforePivot
        ? pivotPassed(step)
        : await compensateStep(
            {
              step,
              action,
              transaction,
              principal,
              patience,
              isBeforeOthers: plan.slice(index + 1).some(isUndoable),
            },
            context,
          )
      if (!result) return undefined
      await repository.change(key, compensated(result, worker.id))
    }
    const end = await repository.change(key, rolledBack(worker.id, world.now()))
    logResult(end, deps)
    return end
  }

  return {
    run: (key, caller) => {
      const known = running.get(key)
      if (known) return known
      const run = worker.during(key, () => work(key, caller)).finally(() => running.delete(key))
      running.set(key, run)
      // It continues even if no caller awaits it any more.
      background(run, deps.log)
      return run
    },
  }
}

/** The caller with its stored rights, and its current token. */
function callerOf({ principal }: Transaction, caller: Principal | undefined): Principal {
  const stored = fromStoredPrincipal(principal)
  if (caller?.id !== stored.id) return stored
  const { claims, token } = caller
  return { ...stored, ...(claims && { claims }), ...(token && { token }) }
}

interface Planned {
  readonly step: Step
  readonly action: Action | undefined
  /** It is a pivot, or came before one. */
  readonly isBeforePivot: boolean
}

/** The steps that took effect, or may have, the last one first. */
function planOf({ steps }: Transaction, actions: ReadonlyMap<string, Action>): Planned[] {
  const done = steps.flatMap((step) => {
    const action = actions.get(step.deed)
    return isDone(step, action) ? [{ step, action }] : []
  })
  const pivot = done.findLastIndex(({ step }) => step.kind === 'pivot')
  return done.map((each, index) => ({ ...each, isBeforePivot: index <= pivot })).toReversed()
}

/** Whether a compensation is called for a step. */
function isUndoable({ action, isBeforePivot }: Planned): boolean {
  return !isBeforePivot && action !== undefined && action.undoneAt === undefined && 'tool' in action.way
}

/** A step without a recorded action never reached its server, unless it is known to have succeeded. */
function isDone({ kind, status }: Step, action: Action | undefined): boolean {
  if (kind === 'read') return false
  if (!action) return status === 'ok'
  return action.status !== 'failed' && action.way.kind !== 'nothing'
}

function pivotPassed({ id }: Step): CompensationStatus {
  const message = 'A pivot step was executed, after which earlier steps cannot be undone.'
  const error = new GatewayError('COMPENSATION_UNAVAILABLE', message, { reason: 'pivot' })
  return { step: id, status: 'compensation_failed', error: error.data }
}

interface CompensationContext {
  readonly step: Step
  readonly action: Action | undefined
  readonly transaction: Transaction
  readonly principal: Principal
  readonly patience: Patience
  /** Whether other steps are undone after it, and so must wait for it. */
  readonly isBeforeOthers: boolean
}

/** Undoes a step. Undefined if the gateway closes, or an approval is pending: it continues later. */
async function compensateStep(
  { step, action, transaction, principal, patience, isBeforeOthers }: CompensationContext,
  { deps, actions, retention }: RollbackContext,
): Promise<CompensationStatus | undefined> {
  if (action?.undoneAt !== undefined) return { step: step.id, status: 'compensated' }
  const compensation: Compensation = action?.way ?? { kind: 'none', reason: 'its effect is no longer known' }
  if (compensation.kind === 'none') return notUndoable(step, compensation.reason, deps)
  if (compensation.kind === 'nothing') return { step: step.id, status: 'compensated' }
  let state: StateAfterUndo = 'unknown'
  const undoOrder: UndoOrder | undefined = action && {
    action,
    isForced: transaction.force === true || step.force === true,
    found: (after) => (state = after),
  }
  const callUnder = async (idempotencyKey: string): Promise<Outcome> => {
    const { tool } = compensation
    const args = await argumentsOf(compensation, action, deps)
    const order = {
      purpose: 'compensate',
      principal,
      upstream: step.upstream,
      tool,
      arguments: args,
    } as const
    const call = internalCall({ ...order, idempotencyKey, undoes: action?.trace })
    return deps.invoker.call(undoOrder ? undoOrderSlot.set(call, undoOrder) : call)
  }
  // The answer of an earlier attempt is repeated under its key, so a server that only failed for the moment gets another one.
  const compensate = async (first: string): Promise<Outcome> => {
    let outcome = await callUnder(first)
    for (let attempt = 2; attempt <= MAX_KEYS && isRepeatedFailure(outcome); attempt++)
      outcome = await callUnder(hashed(`${first} ${attempt}`))
    return outcome
  }
  const key = keyOf(transaction.id, step.id)
  const attempted = (under: string): Promise<ErrorData | undefined> =>
    patience.attempt(
      () => compensate(under).then((outcome) => failureOf(outcome, transaction.startedAt)),
      isBeforeOthers,
    )
  let error = await attempted(key)
  // A key of an earlier transaction with the same id says nothing about this one.
  if (error?.code === STALE_KEY_CODE) {
    error = await attempted(hashed(`${key} ${step.deed}`))
  }
  const isStepUncertain = action !== undefined && action.status !== 'ok'
  const needsApproval = error?.code === 'CONFIRMATION_REQUIRED' && error.reason !== NO_APPROVER_REASON
  const isPostponed = deps.gateway.closing.aborted || needsApproval
  if (error && isPostponed) return undefined
  if (error)
    return {
      step: step.id,
      status: 'compensation_failed',
      error: isStepUncertain ? withUncertainStep(error) : error,
    }
  await actions.markUndone(step.deed, world.now(), retention)
  if (!isStepUncertain || (await isRestored(action, deps)))
    return { step: step.id, status: 'compensated', state }
  return { step: step.id, status: 'compensated', state, error: outcomeUnknown }
}

/** The arguments of a compensation, with the data that is kept beside its record. @throws RESOURCE_NOT_FOUND, CONFLICT */
async function argumentsOf(
  { arguments: args, kept }: Extract<Compensation, { readonly kind: 'exact' | 'approximate' }>,
  action: Action | undefined,
  { store }: Deps,
): Promise<Action['arguments']> {
  if (!kept || !action) return args
  return withData(args, kept, { principal: fromStoredPrincipal(action.principal), store })
}

/** Whether the previous state is restored in any case: the compensation restores a snapshot. */
async function isRestored({ upstream, tool }: Action, { servers: { undoRule } }: Deps): Promise<boolean> {
  const rule = await Promise.resolve(undoRule(upstream, tool)).catch(() => undefined)
  return rule?.kind === 'restore'
}

/** If the step did not take effect, its compensation may have removed something that existed before. */
const outcomeUnknown = new GatewayError(
  'OUTCOME_UNKNOWN',
  'It is unknown whether the step took effect; it was undone in any case.',
  {
    suggestion: 'Check whether everything is as it was before the step.',
  },
).data

const STALE_KEY_CODE = 'IDEMPOTENCY_CONFLICT'

/** The error of a call, from its result; undefined if it succeeded. */
function failureOf(outcome: Outcome, since: number): ErrorData | undefined {
  if (outcome.kind !== 'result') {
    return new GatewayError(
      'UPSTREAM_ERROR',
      'The server requested input, and no client is connected to answer.',
    ).data
  }
  const { _meta, isError } = outcome.result.fields
  const meta: ErrorData = asObject(_meta)
  if (isError !== true) return isBefore(meta, since) ? { code: STALE_KEY_CODE } : undefined
  const error = meta[ERROR_KEY]
  // It would be repeated again and again.
  if (isObject(error) && isDoubtful(error) && meta.was_replay === true)
    return { ...error, category: 'permanent' }
  return isObject(error) ? error : new GatewayError('UPSTREAM_ERROR', 'The tool failed.').data
}

function isBefore({ was_replay: isReplay, original_timestamp: at }: ErrorData, since: number): boolean {
  return isReplay === true && typeof at === 'string' && Date.parse(at) < since
}

/** Marks that the step may not have taken effect, so there may have been nothing to undo. */
function withUncertainStep(error: ErrorData): ErrorData {
  const details = asObject(error.details)
  return { ...error, details: { ...details, step_outcome: 'unknown' } }
}

/** A step without a compensation, and the command that configures one for later calls. */
async function notUndoable(
  { id, upstream, tool }: Step,
  cause: string,
  deps: Deps,
): Promise<CompensationStatus> {
  const command = await commandThatAdds({ upstream, tool }, deps)
  const error = new GatewayError('COMPENSATION_UNAVAILABLE', `The step cannot be undone: ${cause}.`, {
    reason: 'no_compensation',
    ...(command !== undefined && { suggestion: `For later calls, "${command}" adds an undo of ${tool}.` }),
  })
  return { step: id, status: 'compensation_failed', error: error.data }
}

function keyOf(transaction: string, step: string): string {
  const key = `compensate-${transaction}-${step}`
  return /^[\w\-:.]{1,128}$/.test(key) ? key : hashed(key)
}

function hashed(key: string): string {
  return `compensate-${createHash('sha256').update(key).digest('hex')}`
}

function logResult(transaction: Transaction, { log }: Deps): void {
  const { id, principal, reason, compensations, retry } = transaction
  const fields = { transaction: id, principal: principal.id, ...(reason !== undefined && { reason }) }
  const failedSteps = compensations.filter(({ error }) => error !== undefined)
  if (failedSteps.length === 0) return log.info('transaction.rolled_back', fields)
  const steps = failedSteps.map(({ step, error }) => `${step}: ${String(error?.code)}`)
  // Already reported on the first attempt.
  if (retry && retry.tries > 1)
    return log.debug('transaction.retried', { ...fields, tries: retry.tries, steps })
  log.error('transaction.needs_attention', { ...fields, steps })
}

/** The calls of steps that this process runs, by the key of their transaction: at most one for each. */
export class RunningSteps {
  readonly #calls = new Map<string, Call>()

  /** Makes the call of a step. */
  async run(key: string, call: Call, next: Handler): Promise<Outcome> {
    this.#calls.set(key, call)
    try {
      return await next(call)
    } finally {
      this.#calls.delete(key)
    }
  }

  /** Cancels a step that runs as a task: it has no waiting client, and may take hours. A rollback waits for other steps. */
  cancel(key: string): void {
    const call = this.#calls.get(key)
    if (!call || detachedSlot.of(call)?.() !== true) return
    call.abort(new GatewayError('CANCELLED', 'The transaction of the step is rolled back.'))
  }
}

/** The interval of polling another worker's step, in milliseconds. */
const POLL_INTERVAL_MS = 50

/**
 * The transaction, once no worker runs a step of it, but one that may be ignored; a step whose gateway is gone gets an
 * unknown outcome.
 * @throws RESOURCE_NOT_FOUND, the signal's reason
 */
export async function quiescent(
  key: string,
  { repository, worker }: Pick<RollbackContext, 'repository' | 'worker'>,
  signal?: AbortSignal,
  isIgnored?: (transaction: Transaction, step: Step) => Promise<boolean>,
): Promise<Transaction> {
  for (;;) {
    const found = await repository.find(key)
    if (!found) throw unknownTransaction()
    const [step] = pendingSteps(found)
    if (!step || (await isIgnored?.(found, step))) return found
    if (await isStepRunning(key, step, worker)) await pause(POLL_INTERVAL_MS, signal)
    else await repository.change(key, stepLost(step, world.now()))
  }
}

/** Whether a worker is running a step, which then does not wait for input. */
export async function isStepRunning(key: string, step: Step, worker: WorkerIdentity): Promise<boolean> {
  return !step.isOpen && worker.isWorkingOn(step.runner, stepWork(key, step.id))
}

/** The work key of a step in progress. */
export function stepWork(key: string, step: string): string {
  return `${key} ${step}`
}

// The identity of this process as the runner of steps and rollbacks.

/** The worker of transactions: one for each runtime of each gateway, so that none does another's work. */
export class WorkerIdentity {
  readonly #instance: Instance
  readonly #inProgress = new Set<string>()
  #isClosed = false

  constructor(membership: Membership) {
    this.#instance = new Instance(membership, '#')
  }

  /** Its id in stored records. */
  get id(): string {
    return this.#instance.id
  }

  /** Announces it to other members; has to be awaited before its id is stored. */
  register(): Promise<void> {
    return this.#instance.register()
  }

  /** Does some work that other workers must not take over in the meantime. */
  async during<Value>(work: string, run: () => Promise<Value>): Promise<Value> {
    const leave = this.enter(work)
    try {
      return await run()
    } finally {
      leave()
    }
  }

  /** Marks some work as in progress, which other workers must not take over. Returns the function that ends that. */
  enter(work: string): () => void {
    this.#inProgress.add(work)
    return () => {
      this.#inProgress.delete(work)
      this.#leave()
    }
  }

  /** Whether the worker that took over some work is still doing it. */
  async isWorkingOn(workerId: string, work: string): Promise<boolean> {
    return workerId === this.id ? this.#inProgress.has(work) : this.isAlive(workerId)
  }

  /** Whether a worker is still alive. */
  isAlive(workerId: string): Promise<boolean> {
    return this.#instance.isAlive(workerId)
  }

  /** Closes it once its work in progress is done. */
  close(): void {
    this.#isClosed = true
    this.#leave()
  }

  #leave(): void {
    if (this.#isClosed && this.#inProgress.size === 0) void this.#instance.end()
  }
}

/** An error as results have it. */
type ErrorData = Readonly<Record<string, unknown>>

/** How often a compensation is attempted at least. */
const MIN_ATTEMPTS = 3
/**
 * How long a rollback waits in all, from its first failure on, for compensations that fail for the moment, in
 * milliseconds: the steps before them are undone after that, although it is not their turn.
 */
const MAX_WAIT_MS = 8000
/** A delay that is longer than all the waiting ends it. */
const RETRIES: Backoff = { firstMs: 250, maxMs: Number.POSITIVE_INFINITY }

/** Repeats compensations in their turn, with a pause that doubles, until all the waiting of a rollback takes too long. */
class Patience {
  readonly #closing: AbortSignal
  /** In milliseconds. */
  #waited = 0

  constructor(closing: AbortSignal) {
    this.#closing = closing
  }

  /**
   * Repeats a call until it succeeds, fails for good, or has to wait for too long: a few attempts, and more if other steps
   * wait for it. Resolves with the error, if any.
   */
  async attempt(
    compensate: () => Promise<ErrorData | undefined>,
    isWaitedFor: boolean,
  ): Promise<ErrorData | undefined> {
    for (let tries = 1; ; tries++) {
      const error = await compensate().catch((thrown: unknown) => asGatewayError(thrown).data)
      if (!error || !isPassing(error)) return error
      const delay = Math.max(delayBefore(tries - 1, RETRIES), requestedDelay(error))
      const isEnough = tries >= MIN_ATTEMPTS
      const isOver = !isWaitedFor || this.#closing.aborted || this.#waited + delay > MAX_WAIT_MS
      if (delay > MAX_WAIT_MS || (isEnough && isOver)) return withAttempts(error, tries)
      this.#waited += delay
      await pause(delay, isEnough ? this.#closing : undefined).catch(() => undefined)
    }
  }
}

/** Whether a call may succeed soon without anybody's help. */
function isPassing({ category }: ErrorData): boolean {
  return category === 'transient' || category === 'rate_limited'
}

/** The time after which a rate limit permits another call, in milliseconds. */
function requestedDelay({ category, retry_after_seconds: seconds }: ErrorData): number {
  return category === 'rate_limited' && typeof seconds === 'number' ? seconds * 1000 : 0
}

function withAttempts(error: ErrorData, attempts: number): ErrorData {
  return { ...error, details: { ...(isObject(error.details) && error.details), attempts } }
}

/** Whether a result is that of an earlier attempt, which the server answered without doing anything. */
function isRepeatedFailure(outcome: Outcome): boolean {
  if (outcome.kind !== 'result' || outcome.result.meta('was_replay') !== true) return false
  const error = outcome.result.meta(ERROR_KEY)
  return isObject(error) && isPassing(error) && !isDoubtful(error)
}

/** After a time-out the call may have taken effect, whoever says so. */
function isDoubtful({ code }: ErrorData): boolean {
  return code === 'OPERATION_TIMEOUT'
}
