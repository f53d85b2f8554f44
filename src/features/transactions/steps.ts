/** A step: written down before its call, checked for a compensation, and ended with its outcome. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { isTaskAccepted } from '../../core/failure.ts'
import type { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { settingOf } from '../../core/settings.ts'
import { evaluate, type Expression } from '../../core/undo/expression.ts'
import { isTrialCall } from '../../core/undo/selectors.ts'
import {
  extensionOf,
  isTask,
  TRANSACTION_ID,
  withoutExtension,
  withoutTasks,
  CONFIRMATION_KEY,
  ERROR_KEY,
} from '../../protocol/meta-keys.ts'
import { newActionKey, type Action } from '../../records/actions.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import type { Step, Transaction } from '../../records/transactions.ts'
import {
  pendingSteps,
  stepWaiting,
  stepStarted,
  ID_TAKEN,
  IN_PROGRESS,
  type StepEnd,
  stepEnded,
  stepRemoved,
} from '../../records/transitions.ts'
import type { Services } from '../feature.ts'
import { howToConfigure, howToPivot, noUndo } from '../missing-undo.ts'
import { readId } from './service.ts'
import { quiescent, stepWork } from './rollback.ts'
import { type TransactionService, keyFor, mustHaveKeys, rollBack } from './service.ts'
import { withStep } from './shapes.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway'>

/** Makes a call as a step of the transaction it names. */
export async function makeStep(call: Call, next: Handler, service: TransactionService): Promise<Outcome> {
  mustHaveKeys(service.deps, call.target.upstream)
  if (isTask(call)) throw noTask()
  const id = readId(extensionOf(call, TRANSACTION_ID), TRANSACTION_ID)
  const stepId = extensionOf(call, 'step_id')
  const wanted = stepId === undefined ? undefined : readId(stepId, 'step_id')
  const bare = withoutTasks(withoutExtension(withoutExtension(call, TRANSACTION_ID), 'step_id'))
  const key = keyFor(call, id)
  call.logFields.set('transaction', id)
  return service.queue(key, call.signal, async () => {
    const begun = await begin(bare, { key, wanted }, service)
    return service.worker.during(stepWork(key, begun.step.id), () =>
      runStep(bare, next, { ...begun, id, key, service }),
    )
  })
}

interface Beginning {
  readonly key: string
  readonly wanted: string | undefined
}

interface Begun {
  readonly step: Step
  readonly isToBeUndoable: boolean
}

/** Writes a step down before its server is called, once none is under way at another gateway. @throws what refuses it */
async function begin(call: Call, beginning: Beginning, service: TransactionService): Promise<Begun> {
  for (;;) {
    try {
      return await tryToBegin(call, beginning, service)
    } catch (error) {
      if (!isOvertaken(error, beginning)) throw error
    }
  }
}

/** Whether another step began between the look at the transaction and the beginning of this one. */
function isOvertaken(error: unknown, { wanted }: Beginning): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'TRANSACTION_CONFLICT') return false
  const { reason } = error.extra
  return reason === IN_PROGRESS || (reason === ID_TAKEN && wanted === undefined)
}

async function tryToBegin(
  call: Call,
  { key, wanted }: Beginning,
  service: TransactionService,
): Promise<Begun> {
  const { repository, worker, deps, limits } = service
  const transaction = await waited(key, call.signal, service)
  await worker.register()
  // What cannot be written down in the end is not begun.
  const { unavailableReason: problem } = deps.store
  if (problem !== undefined && call.requestState[STATE_KEY] === undefined) throw noRoom(problem)
  const kind = kindOf(call, deps)
  const isToBeUndoable = kind === 'write' && service.settings(call.target.upstream).uncompensable === 'reject'
  const open = openStep(call, transaction)
  if (open) {
    await repository.change(key, stepWaiting(open.id, worker.id))
    return { step: open, isToBeUndoable }
  }
  const now = Date.now()
  const { upstream = '', name: tool = '' } = call.target
  const id = wanted ?? freeId(transaction)
  const about = { upstream, tool, kind, runner: worker.id }
  const step: Step = { id, deed: newActionKey(now), ...about, status: 'pending' }
  const move = stepStarted(step, { maxSteps: limits.max_steps, now })
  // A refusal for what the transaction is comes before one for what the tool is.
  move(transaction)
  if (isToBeUndoable) await mustBeUndoable(call, fromStoredPrincipal(transaction.principal), deps)
  service.reaper.track(key, await repository.change(key, move))
  return { step, isToBeUndoable }
}

/** The transaction, once no other worker runs a step of it. @throws RESOURCE_NOT_FOUND, the signal's reason */
export function waited(key: string, signal: AbortSignal, service: TransactionService): Promise<Transaction> {
  return quiescent(key, service, {
    signal,
    // A step that waits for answers of its caller goes on when they come.
    isLeft: async ({ status }, { isOpen = false, runner }) =>
      status !== 'active' || (isOpen && (await service.worker.isAlive(runner))),
  })
}

/** The step a call comes back to with answers. */
function openStep({ requestState: state }: Call, transaction: Transaction): Step | undefined {
  const slot = state[STATE_KEY]
  if (slot === undefined) return undefined
  const found = pendingSteps(transaction).find(({ id, isOpen }) => isOpen && id === slot)
  if (found) return found
  throw new GatewayError('TRANSACTION_CONFLICT', 'The step is over, so its answer came too late.')
}

/** A task is answered when it is accepted, which is no end that a step could be kept or undone by. */
function noTask(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'A step of a transaction cannot be made as a task.', {
    field: 'task',
    reason: 'unsupported',
    suggestion: 'Make the step without "task": the gateway waits for its result. The transaction stays open.',
  })
}

function noRoom(problem: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The step cannot be written down, so it was not done.', {
    cause: new Error(problem),
    isUnsent: true,
  })
}

function freeId({ steps }: Transaction): string {
  const taken = new Set(steps.map(({ id }) => id))
  for (let number = steps.length + 1; ; number++) {
    if (!taken.has(`step-${number}`)) return `step-${number}`
  }
}

/** What kind of step a call is. */
function kindOf(call: Call, deps: Deps): Step['kind'] {
  const { upstream = '', name = '' } = call.target
  // A tool whose server says nothing of it may change something.
  const entry = call.tool
  if (entry && asCalled(entry, call).classification.op === 'read') return 'read'
  if (entry && isTrialCall(entry.definition, call.params.fields.arguments)) return 'read'
  return settingOf(deps.servers.settings(upstream)?.tools ?? {}, name, 'pivot')?.value === true
    ? 'pivot'
    : 'write'
}

/**
 * Sees to it that what a call does can be undone, as far as that is known before it is made: there is a way back,
 * and the caller may go it. @throws COMPENSATION_UNAVAILABLE
 */
async function mustBeUndoable(call: Call, principal: Principal, deps: Deps): Promise<void> {
  const { upstream = '', name = '' } = call.target
  const at = { upstream, tool: name }
  if (!deps.features.isOn('undo', upstream))
    throw noUndo(at, 'undo is switched off', `Switch features.undo on for ${upstream}.`)
  const rule = await deps.servers.undoRule(upstream, name)
  if (!rule) throw noUndo(at, 'it is not known how it is undone', howToConfigure(at))
  if (rule.kind === 'none') throw noUndo(at, 'it is configured to have no undo', howToPivot(at))
  const ways = rule.kind === 'call' ? [rule.call] : [rule.restore, rule.absent]
  for (const way of ways) {
    if (!way) continue
    const { tool } = way
    const order = {
      purpose: 'compensate',
      principal,
      upstream,
      tool,
      arguments: foreseen(way, call),
    } as const
    if (!(await deps.invoker.isPermitted(deps.invoker.internal(order))))
      throw noUndo(at, `you may not call ${tool}, which undoes it`, `Get the rights to call ${tool}.`)
  }
}

/** The arguments of an expression that are known before the call is made. */
function foreseen({ tool, arguments: given }: Expression, { params }: Call): Record<string, unknown> {
  const args = isObject(params.fields.arguments) ? params.fields.arguments : {}
  const known = [...given].flatMap((each) => {
    try {
      return Object.entries(evaluate({ tool, arguments: new Map([each]) }, { args }))
    } catch {
      return []
    }
  })
  return Object.fromEntries(known)
}

/** The slot of a call's state that names the step its server has begun already. */
const STATE_KEY = 'transactions'

/** A step that was written down. */
interface Running {
  /** The transaction's id, and where it is kept. */
  readonly id: string
  readonly key: string
  readonly step: Step
  readonly isToBeUndoable: boolean
  readonly service: TransactionService
}

/** Makes the call of a step, and records how it ended before the outcome is returned. */
async function runStep(call: Call, next: Handler, running: Running): Promise<Outcome> {
  const { id, step, isToBeUndoable, service } = running
  call.logFields.set('step', step.id)
  const stepOf = { transaction: id, step: step.id, deed: step.deed, mustBeUndoable: isToBeUndoable }
  const ended = await next({ ...call, step: stepOf }).catch((thrown: unknown) => asGatewayError(thrown))
  if (ended instanceof GatewayError) return failed(ended, call, running)
  if (ended.kind === 'input_required') return asked(ended, running)
  const { result } = ended
  const deed = await deedOf(running)
  // What a server says of itself does not make what it did undone.
  if (!deed && isInterim(result)) {
    await durable(service.repository.change(running.key, stepRemoved(step.id, Date.now())))
    return ended
  }
  const isFailed = result.member('isError') === true
  const isAccepted = isTaskAccepted(result)
  const end =
    isFailed || isAccepted
      ? failure(isFailed ? result : taskAccepted, { call, step, deed, service })
      : succeeded
  const transaction = await concluded(end, call, running)
  const { upstream = '', name = '' } = call.target
  const rule = deed && (await service.deps.servers.undoRule(upstream, name))
  const told = {
    transaction,
    step: step.id,
    deed: end.status === 'ok' ? deed : undefined,
    description: rule && 'description' in rule ? rule.description : undefined,
    sent: call.params,
    isCompatible: service.settings(upstream).compat,
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
  const { id, key, step, service } = running
  const deed = await deedOf(running)
  if (!deed && refused.has(error.code)) {
    await durable(service.repository.change(key, stepRemoved(step.id, Date.now())))
    throw error
  }
  const end = failure(error, { call, step, deed, service })
  const { status } = await concluded(end, call, running)
  const details = { transaction_id: id, step_id: step.id, transaction_status: status }
  throw error.with({ details: { ...error.extra.details, ...details } })
}

/** Its server has begun, so the step waits with it; otherwise it begins anew with the answers. */
async function asked(
  outcome: Outcome & { kind: 'input_required' },
  { key, step, service }: Running,
): Promise<Outcome> {
  const { repository } = service
  if (!outcome.isOpen) {
    await durable(repository.change(key, stepRemoved(step.id, Date.now())))
    return outcome
  }
  await durable(repository.change(key, stepWaiting(step.id, undefined)))
  return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: step.id } }
}

/** Someone is asked first, outside of the protocol: the call was not made, and comes again. */
function isInterim(result: Payload): boolean {
  if (result.member('isError') !== true) return false
  const error = result.meta(ERROR_KEY)
  return result.meta(CONFIRMATION_KEY) !== undefined || (isObject(error) && refused.has(String(error.code)))
}

/** What a step did; a step that reads does nothing. */
async function deedOf({ step, service }: Running): Promise<Action | undefined> {
  return step.kind === 'read' ? undefined : durable(service.deeds.find(step.deed))
}

interface Failed {
  readonly call: Call
  readonly step: Step
  readonly deed: Action | undefined
  readonly service: TransactionService
}

/** How a step failed. What was not written down as a deed never reached its server. */
function failure(cause: Payload | GatewayError, { call, step, deed, service }: Failed): StepEnd {
  const isUnsent = step.kind === 'read' || deed === undefined
  const isUnknown = deed?.status === 'unknown' || deed?.status === 'pending'
  const reason = reasonOf(cause, call, service)
  return {
    status: 'failed',
    error: isUnknown ? withUnknownOutcome(reason) : reason,
    ...(isUnsent && { isUnsent }),
  }
}

type ErrorData = Readonly<Record<string, unknown>>

/** Why a step failed, in the words its caller gets: those of a server or of the system alone may be anything. */
function reasonOf(cause: Payload | GatewayError, call: Call, { deps }: TransactionService): ErrorData {
  const told = deps.features.explained(cause, call)
  if (told) return told
  if (!(cause instanceof GatewayError)) return new GatewayError('UPSTREAM_ERROR', FAILED).data
  if (!outside.has(cause.code) && !cause.extra.relayed) return cause.data
  const { category } = cause
  return new GatewayError(cause.code, FAILED, { category }).data
}

/** Codes whose message may carry words of a server or of the system. */
const outside: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN'])

/** The same, where it is not known whether the step was done in spite of it. */
function withUnknownOutcome({ code, message }: ErrorData): ErrorData {
  const unknown = new GatewayError('OUTCOME_UNKNOWN', 'It is not known whether the step was done.', {
    suggestion: 'Look at the server what was done, or roll the transaction back.',
    details: { reason: code, message },
  })
  return unknown.data
}

/** Writes the end of a step down; where that is wanted, a failure rolls its transaction back. */
async function concluded(end: StepEnd, call: Call, running: Running): Promise<Transaction> {
  const { key, step, service } = running
  const transaction = await durable(service.repository.change(key, stepEnded(step.id, end, Date.now())))
  service.reaper.track(key, transaction)
  const isRolledBack = service.settings(call.target.upstream).on_step_failure === 'rollback'
  if (end.status === 'ok' || !isRolledBack || transaction.status !== 'active') return transaction
  const reason = `step ${step.id} failed`
  return rollBack(key, { reason, caller: call.principal, signal: call.signal }, service)
}

/** The step was made, and that must not be lost; where it is, success is not reported. */
async function durable<Value>(written: Promise<Value>): Promise<Value> {
  return written.catch((cause: unknown) => {
    throw new GatewayError('OUTCOME_UNKNOWN', 'What became of the step could not be written down.', {
      cause,
      suggestion: 'Ask for the status of the transaction, and roll it back if in doubt.',
    })
  })
}
