import { isTaskAccepted } from '../../core/answer.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import type { Payload } from '../../core/payload.ts'
import type { Action } from '../../records/deeds.ts'
import { stepAsked, type StepEnd, stepEnded, stepRemoved } from '../../records/transaction-moves.ts'
import type { Step, Transaction } from '../../records/transactions.ts'
import { CONFIRMATION_KEY, ERROR_KEY } from '../../wire/extensions.ts'
import { type TransactionService, rollBack } from './desk.ts'
import { withStep } from './shapes.ts'

/** The slot of a call's state that names the step its server has begun already. */
export const STATE_KEY = 'transactions'

/** A step that was written down. */
interface Running {
  /** The transaction's id, and where it is kept. */
  readonly id: string
  readonly key: string
  readonly step: Step
  readonly isToBeUndoable: boolean
  readonly desk: TransactionService
}

/** Makes the call of a step, and writes down how it ended before anybody is told. */
export async function runStep(call: Call, next: Handler, running: Running): Promise<Outcome> {
  const { id, step, isToBeUndoable, desk } = running
  call.logFields.set('step', step.id)
  const stepOf = { transaction: id, step: step.id, deed: step.deed, mustBeUndoable: isToBeUndoable }
  const ended = await next({ ...call, step: stepOf }).catch((thrown: unknown) => asGatewayError(thrown))
  if (ended instanceof GatewayError) return failed(ended, call, running)
  if (ended.kind === 'input_required') return asked(ended, running)
  const { result } = ended
  const deed = await deedOf(running)
  // What a server says of itself does not make what it did undone.
  if (!deed && isInterim(result)) {
    await durable(desk.book.change(running.key, stepRemoved(step.id, Date.now())))
    return ended
  }
  const isFailed = result.member('isError') === true
  const isAccepted = isTaskAccepted(result)
  const end =
    isFailed || isAccepted ? failure(isFailed ? result : taskAccepted, { call, step, deed, desk }) : succeeded
  const transaction = await concluded(end, call, running)
  const { upstream = '', name = '' } = call.target
  const rule = deed && (await desk.deps.undoRule(upstream, name))
  const told = {
    transaction,
    step: step.id,
    deed: end.status === 'ok' ? deed : undefined,
    description: rule && 'description' in rule ? rule.description : undefined,
    sent: call.params,
    isCompatible: desk.settings(upstream).compat,
  }
  return { kind: 'result', result: withStep(result, told) }
}

const FAILED = 'The tool failed.'

/** A server that makes a task of a step that was not to be one goes on with it. */
const taskAccepted = new GatewayError('OUTCOME_UNKNOWN', 'The server answered with a task that goes on.')

/** Codes of what is not made, or not yet: that is no step. */
const refused: ReadonlySet<string> = new Set(['CONFIRMATION_REQUIRED', 'COMPENSATION_UNAVAILABLE'])

const succeeded: StepEnd = { status: 'ok' }

/** The step has failed: that is written down, and the error says so. */
async function failed(error: GatewayError, call: Call, running: Running): Promise<never> {
  const { id, key, step, desk } = running
  const deed = await deedOf(running)
  if (!deed && refused.has(error.code)) {
    await durable(desk.book.change(key, stepRemoved(step.id, Date.now())))
    throw error
  }
  const end = failure(error, { call, step, deed, desk })
  const { status } = await concluded(end, call, running)
  const details = { transaction_id: id, step_id: step.id, transaction_status: status }
  throw error.with({ details: { ...error.extra.details, ...details } })
}

/** Its server has begun, so the step waits with it; otherwise it begins anew with the answers. */
async function asked(
  outcome: Outcome & { kind: 'input_required' },
  { key, step, desk }: Running,
): Promise<Outcome> {
  const { book } = desk
  if (!outcome.isOpen) {
    await durable(book.change(key, stepRemoved(step.id, Date.now())))
    return outcome
  }
  await durable(book.change(key, stepAsked(step.id, undefined)))
  return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: step.id } }
}

/** Someone is asked first, outside of the protocol: the call was not made, and comes again. */
function isInterim(result: Payload): boolean {
  if (result.member('isError') !== true) return false
  const error = result.meta(ERROR_KEY)
  return result.meta(CONFIRMATION_KEY) !== undefined || (isObject(error) && refused.has(String(error.code)))
}

/** What a step did; a step that reads does nothing. */
async function deedOf({ step, desk }: Running): Promise<Action | undefined> {
  return step.kind === 'read' ? undefined : durable(desk.deeds.find(step.deed))
}

interface Failed {
  readonly call: Call
  readonly step: Step
  readonly deed: Action | undefined
  readonly desk: TransactionService
}

/** How a step failed. What was not written down as a deed never reached its server. */
function failure(cause: Payload | GatewayError, { call, step, deed, desk }: Failed): StepEnd {
  const isUnsent = step.kind === 'read' || deed === undefined
  const isUnknown = deed?.status === 'unknown' || deed?.status === 'pending'
  const reason = reasonOf(cause, call, desk)
  return { status: 'failed', error: isUnknown ? inDoubt(reason) : reason, ...(isUnsent && { isUnsent }) }
}

type ErrorData = Readonly<Record<string, unknown>>

/** Why a step failed, in the words its caller gets: those of a server or of the system alone may be anything. */
function reasonOf(cause: Payload | GatewayError, call: Call, { deps }: TransactionService): ErrorData {
  const told = deps.explained(cause, call)
  if (told) return told
  if (!(cause instanceof GatewayError)) return new GatewayError('UPSTREAM_ERROR', FAILED).data
  if (!outside.has(cause.code) && !cause.extra.relayed) return cause.data
  const { category } = cause
  return new GatewayError(cause.code, FAILED, { category }).data
}

/** Codes whose message may carry words of a server or of the system. */
const outside: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN'])

/** The same, where it is not known whether the step was done in spite of it. */
function inDoubt({ code, message }: ErrorData): ErrorData {
  const unknown = new GatewayError('OUTCOME_UNKNOWN', 'It is not known whether the step was done.', {
    suggestion: 'Look at the server what was done, or roll the transaction back.',
    details: { reason: code, message },
  })
  return unknown.data
}

/** Writes the end of a step down; where that is wanted, a failure rolls its transaction back. */
async function concluded(end: StepEnd, call: Call, running: Running): Promise<Transaction> {
  const { key, step, desk } = running
  const transaction = await durable(desk.book.change(key, stepEnded(step.id, end, Date.now())))
  desk.watch.track(key, transaction)
  const isRolledBack = desk.settings(call.target.upstream).on_step_failure === 'rollback'
  if (end.status === 'ok' || !isRolledBack || transaction.status !== 'active') return transaction
  const reason = `step ${step.id} failed`
  return rollBack(key, { reason, caller: call.principal, signal: call.signal }, desk)
}

/** The step was made, and that must not be lost; where it is, nobody is told that all is well. */
async function durable<Value>(written: Promise<Value>): Promise<Value> {
  return written.catch((cause: unknown) => {
    throw new GatewayError('OUTCOME_UNKNOWN', 'What became of the step could not be written down.', {
      cause,
      suggestion: 'Ask for the status of the transaction, and roll it back if in doubt.',
    })
  })
}
