/** The life of a step: recorded before its call, checked for a compensation, and ended with its outcome. */
import { world } from '../../core/world.ts'
import { internalCall, isPermitted } from '../own-calls.ts'
import { type Call, type Handler, type InterimOutcome, isOpen, type Outcome } from '../../core/call.ts'
import { keepsResultSlot } from '../../core/used-reference.ts'
import { withFinding } from '../../core/dry-run.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { hasForeignMessage } from '../../core/failure.ts'
import type { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'
import { pause } from '../../core/time/waiting.ts'
import { evaluate, type Expression } from '../../core/undo/expression.ts'
import { isTrialCall } from '../../core/undo/selectors.ts'
import {
  extensionOf,
  TRANSACTION_ID,
  withoutExtension,
  CONFIRMATION_KEY,
  ERROR_KEY,
} from '../../protocol/meta-keys.ts'
import { newActionKey, type Action } from '../../records/actions.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import { keepUsed } from '../../records/references.ts'
import { type Step, type Transaction, unknownTransaction, stepSlot } from '../../records/transactions.ts'
import {
  pendingSteps,
  stepResumed,
  stepWaiting,
  stepStarted,
  ID_TAKEN,
  IN_PROGRESS,
  type StepEnd,
  stepEnded,
  stepLost,
  stepRemoved,
} from '../../records/transitions.ts'
import { type Services, toolSetting } from '../feature.ts'
import { explained } from '../offers.ts'
import { howToConfigure, howToPivot, noUndo } from '../missing-undo.ts'
import { readId, type TransactionService, keyFor, requireIdempotency, rollBack } from './service.ts'
import { quiescent, stepWork } from './rollback.ts'
import { withStep } from './shapes.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway'>

/** Runs a call as a step of the transaction that it names. */
export async function makeStep(call: Call, next: Handler, service: TransactionService): Promise<Outcome> {
  requireIdempotency(service.deps, call.target.upstream)
  const { id, call: stepCall, key, requestedId } = readStep(call)
  call.logFields.set('transaction', id)
  return service.queue(key, call.signal, async () => {
    const { leave, ...started } = await begin(stepCall, { key, requestedId }, service)
    try {
      return await runStep(stepCall, next, { ...started, id, key, service })
    } finally {
      leave()
    }
  })
}

/**
 * Checks that a call would be accepted as a step of the transaction that it names, and passes it on as that step. Nothing
 * is recorded. @throws why the step is refused
 */
export async function tryStep(given: Call, next: Handler, service: TransactionService): Promise<Outcome> {
  const { deps, repository, limits, worker } = service
  requireIdempotency(deps, given.target.upstream)
  const { id, call, key, requestedId } = readStep(given)
  const transaction = await repository.find(key)
  if (!transaction) throw unknownTransaction()
  const kind = kindOf(call, deps)
  const { upstream = '', name: tool = '' } = call.target
  const stepId = requestedId ?? nextFreeId(transaction)
  const step: Step = { id: stepId, deed: '', upstream, tool, kind, runner: worker.id, status: 'pending' }
  // A call waits for a step in progress, and then starts.
  const steps = transaction.steps.filter((each) => each.status !== 'pending' || each.id === stepId)
  stepStarted(step, { maxSteps: limits.max_steps, now: world.now() })({ ...transaction, steps })
  const mustBe = isToBeUndoable(kind, call, service)
  if (mustBe) await mustBeUndoable(call, fromStoredPrincipal(transaction.principal), deps)
  const stepOf = { transaction: id, step: stepId, deed: step.deed, mustBeUndoable: mustBe }
  return next(withFinding(stepSlot.set(call, stepOf), { transaction: { id, step: stepId, kind } }))
}

interface NamedStep {
  readonly id: string
  /** Without the values of this feature. */
  readonly call: Call
  readonly key: string
  readonly requestedId: string | undefined
}

/** The transaction and the step that a call names. @throws INVALID_INPUT */
function readStep(call: Call): NamedStep {
  const id = readId(extensionOf(call, TRANSACTION_ID), TRANSACTION_ID)
  const stepId = extensionOf(call, 'step_id')
  const requestedId = stepId === undefined ? undefined : readId(stepId, 'step_id')
  const key = keyFor(call, id)
  return { id, call: withoutExtension(call, TRANSACTION_ID, 'step_id'), key, requestedId }
}

/** Whether a step is refused if it could not be undone. */
function isToBeUndoable(kind: Step['kind'], { target }: Call, { settings }: TransactionService): boolean {
  return kind === 'write' && settings(target.upstream).uncompensable === 'reject'
}

interface StepRequest {
  readonly key: string
  readonly requestedId: string | undefined
}

interface StartedStep {
  readonly step: Step
  readonly isToBeUndoable: boolean
  /** When its transaction ends at the latest, in milliseconds since 1970. */
  readonly endsAt: number
}

/** A step that is marked as in progress. */
interface MarkedStep extends StartedStep {
  /** Ends the mark. */
  readonly leave: () => void
}

/** Records a step before its server is called, once no other step is in progress. @throws why the step is refused */
async function begin(call: Call, request: StepRequest, service: TransactionService): Promise<MarkedStep> {
  // What this process saw last says enough while no other process makes steps: the write finds out whether that is so.
  const seen = service.repository.lastSeen(request.key)
  const isQuiet = seen?.status === 'active' && pendingSteps(seen).length === 0
  if (isQuiet && call.requestState[STATE_KEY] === undefined) {
    try {
      return await tryToStart(call, request, seen, service)
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'TRANSACTION_CONFLICT') throw error
    }
  }
  for (;;) {
    try {
      const transaction = await settledTransaction(request.key, call.signal, service)
      return await tryToStart(call, request, transaction, service)
    } catch (error) {
      if (!wasOvertaken(error, request)) throw error
    }
  }
}

/** Whether another step started after the transaction was read. */
function wasOvertaken(error: unknown, { requestedId }: StepRequest): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'TRANSACTION_CONFLICT') return false
  const { reason } = error.extra
  return reason === IN_PROGRESS || (reason === ID_TAKEN && requestedId === undefined)
}

async function tryToStart(
  call: Call,
  { key, requestedId }: StepRequest,
  transaction: Transaction,
  service: TransactionService,
): Promise<MarkedStep> {
  const { worker, deps, limits } = service
  await worker.register()
  // A step whose end could not be recorded is not started.
  const { unavailableReason: problem } = deps.store
  if (problem !== undefined && call.requestState[STATE_KEY] === undefined) throw notRecordable(problem)
  const kind = kindOf(call, deps)
  const mustBe = isToBeUndoable(kind, call, service)
  const open = openStep(call, transaction)
  if (open) {
    const { leave } = await owned({ key, step: open, service }, stepResumed(open.id, worker.id))
    return { step: open, isToBeUndoable: mustBe, endsAt: transaction.endsAt, leave }
  }
  const now = world.now()
  const { upstream = '', name: tool = '' } = call.target
  const id = requestedId ?? nextFreeId(transaction)
  const about = { upstream, tool, kind, runner: worker.id }
  const step: Step = { id, deed: newActionKey(now), ...about, status: 'pending' }
  const transition = stepStarted(step, { maxSteps: limits.max_steps, now })
  // A refusal because of the transaction's state takes precedence over one because of the tool.
  transition(transaction)
  if (mustBe) await mustBeUndoable(call, fromStoredPrincipal(transaction.principal), deps)
  await mustKeepData(call, transaction, deps)
  const { leave, recorded } = await owned({ key, step, service }, transition)
  service.reaper.track(key, recorded)
  return { step, isToBeUndoable: mustBe, endsAt: transaction.endsAt, leave }
}

/**
 * Makes a step ours. It is marked as in progress before it is recorded: a rollback by this worker would take a recorded
 * step without a mark for lost. If the store fails, the step may be recorded in spite of that, and is given up.
 */
async function owned(
  started: OwnStep,
  transition: Parameters<TransactionService['repository']['change']>[1],
): Promise<{ readonly leave: () => void; readonly recorded: Transaction }> {
  const { key, step, service } = started
  const leave = service.worker.enter(stepWork(key, step.id))
  try {
    return { leave, recorded: await service.repository.change(key, transition) }
  } catch (error) {
    leave()
    const isUnwritten = error instanceof GatewayError && error.code !== 'SERVER_UNAVAILABLE'
    if (!isUnwritten) background(giveUp(started), service.deps.log)
    throw error
  }
}

/** Keeps the data that a step uses until its transaction ends, so that the step can be repeated. */
async function mustKeepData(call: Call, { endsAt }: Transaction, { store }: Deps): Promise<void> {
  const isKept = await keepUsed(store, call, endsAt).catch((error: unknown) => {
    throw notRecordable(String(error))
  })
  if (!isKept) throw notRecordable('data that it uses has expired')
}

/** The transaction, once no other worker runs a step of it. @throws RESOURCE_NOT_FOUND, the signal's reason */
export function settledTransaction(
  key: string,
  signal: AbortSignal,
  service: TransactionService,
): Promise<Transaction> {
  // A step that waits for input responses of its caller continues when they arrive.
  const isIgnored = async ({ status }: Transaction, { isOpen, runner }: Step): Promise<boolean> =>
    status !== 'active' || (isOpen === true && (await service.worker.isAlive(runner)))
  return quiescent(key, service, signal, isIgnored)
}

/** The step that a call resumes with input responses. */
function openStep({ requestState: state }: Call, transaction: Transaction): Step | undefined {
  const stepId = state[STATE_KEY]
  if (stepId === undefined) return undefined
  const found = pendingSteps(transaction).find(({ id, isOpen }) => isOpen && id === stepId)
  if (found) return found
  throw new GatewayError('TRANSACTION_CONFLICT', 'The step has already ended, so the response came too late.')
}

function notRecordable(problem: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The step could not be recorded, so it was not executed.', {
    cause: new Error(problem),
    isUnsent: true,
  })
}

function nextFreeId({ steps }: Transaction): string {
  const taken = new Set(steps.map(({ id }) => id))
  for (let number = steps.length + 1; ; number++) {
    if (!taken.has(`step-${number}`)) return `step-${number}`
  }
}

/** The kind of step that a call is. */
function kindOf(call: Call, deps: Deps): Step['kind'] {
  const { upstream = '', name = '' } = call.target
  // A tool without any hints may change something.
  const entry = call.tool
  if (entry && asCalled(entry, call).classification.op === 'read') return 'read'
  if (entry && isTrialCall(entry.definition, call.params.fields.arguments)) return 'read'
  return toolSetting(deps, upstream, name, 'pivot') === true ? 'pivot' : 'write'
}

/**
 * Ensures that a step can be undone, as far as that is known before its call: there is a compensation, and the caller may
 * call it. @throws COMPENSATION_UNAVAILABLE
 */
async function mustBeUndoable(call: Call, principal: Principal, deps: Deps): Promise<void> {
  const { upstream = '', name = '' } = call.target
  const at = { upstream, tool: name }
  if (!deps.features.isOn('undo', upstream))
    throw noUndo(at, 'undo is switched off', `Enable features.undo for ${upstream}.`)
  const rule = await deps.servers.undoRule(upstream, name)
  if (!rule) throw noUndo(at, 'no compensation is known for it', await howToConfigure(at, deps))
  if (rule.kind === 'none') throw noUndo(at, 'its undo is configured as none', howToPivot(at))
  const compensations = rule.kind === 'call' ? [rule.call] : [rule.restore, rule.absent]
  for (const compensation of compensations) {
    if (!compensation) continue
    const { tool } = compensation
    const order = {
      purpose: 'compensate',
      principal,
      upstream,
      tool,
      arguments: knownArguments(compensation, call),
    } as const
    if (!(await isPermitted(deps, internalCall(order))))
      throw noUndo(at, `you may not call ${tool}, which undoes it`, `Get the rights to call ${tool}.`)
  }
}

/** The arguments of an expression that are known before the call. */
function knownArguments({ tool, arguments: given }: Expression, { params }: Call): Record<string, unknown> {
  const args = asObject(params.fields.arguments)
  const known = [...given].flatMap((each) => {
    try {
      return Object.entries(evaluate({ tool, arguments: new Map([each]) }, { args }))
    } catch {
      return []
    }
  })
  return Object.fromEntries(known)
}

/** The request state key of a step whose server already started. */
const STATE_KEY = 'transactions'

/** A recorded step. */
interface Running {
  /** The transaction's id, and its store key. */
  readonly id: string
  readonly key: string
  readonly step: Step
  readonly isToBeUndoable: boolean
  readonly endsAt: number
  readonly service: TransactionService
}

/** Runs the call of a step, and records its end before the outcome is returned. */
async function runStep(call: Call, next: Handler, running: Running): Promise<Outcome> {
  const { id, key, step, isToBeUndoable, endsAt, service } = running
  call.logFields.set('step', step.id)
  const stepOf = { transaction: id, step: step.id, deed: step.deed, mustBeUndoable: isToBeUndoable }
  const keptUntil = Math.max(keepsResultSlot.of(call) ?? 0, endsAt)
  const slots = stepSlot.put(stepOf, keepsResultSlot.put(keptUntil, call.slots))
  const made = service.steps.run(key, { ...call, slots }, next)
  const ended = await made.catch((thrown: unknown) => asGatewayError(thrown))
  if (ended instanceof GatewayError) return failed(ended, call, running)
  if (ended.kind !== 'result') return inputRequested(ended, running)
  const { result } = ended
  const action = await actionOf(running)
  // An action that the server executed remains a step, whatever the error says.
  if (!action && isNotExecuted(result)) {
    await durable(service.repository.change(running.key, stepRemoved(step.id, world.now())), running)
    return ended
  }
  const isFailed = result.member('isError') === true
  const end = isFailed ? failedEnd(result, { call, step, action, service }) : successfulEnd
  const transaction = await finishStep(end, call, running)
  const { upstream = '', name = '' } = call.target
  const rule = action && (await service.deps.servers.undoRule(upstream, name))
  const annotation = {
    transaction,
    step: step.id,
    action: end.status === 'ok' ? action : undefined,
    description: rule && 'description' in rule ? rule.description : undefined,
    sent: call.params,
    isCompatible: service.settings(upstream).compat,
  }
  return { kind: 'result', result: withStep(result, annotation) }
}

const TOOL_FAILED = 'The tool failed.'

/** Codes of calls that were not executed, or not yet: they are not steps. */
const notExecutedCodes: ReadonlySet<string> = new Set(['CONFIRMATION_REQUIRED', 'COMPENSATION_UNAVAILABLE'])

const successfulEnd: StepEnd = { status: 'ok' }

/** Records that the step failed, and adds that to the error. */
async function failed(error: GatewayError, call: Call, running: Running): Promise<never> {
  const { id, key, step, service } = running
  const action = await actionOf(running)
  if ((!action && notExecutedCodes.has(error.code)) || isHeldBack(error)) {
    await durable(service.repository.change(key, stepRemoved(step.id, world.now())), running)
    throw error
  }
  const end = failedEnd(error, { call, step, action, service })
  const { status } = await finishStep(end, call, running)
  const details = { transaction_id: id, step_id: step.id, transaction_status: status }
  throw error.with({ details: { ...error.extra.details, ...details } })
}

/** Whether the gateway held a call back right before it was sent: it is no step, and its transaction goes on. */
function isHeldBack({ code, extra }: GatewayError): boolean {
  return code === 'WRITES_PAUSED' && extra.isUnsent === true
}

/** If its server already started, the step waits for the input responses; otherwise it starts again with them. */
async function inputRequested(outcome: InterimOutcome, running: Running): Promise<Outcome> {
  const { key, step, service } = running
  const { repository } = service
  if (!isOpen(outcome)) {
    await durable(repository.change(key, stepRemoved(step.id, world.now())), running)
    return outcome
  }
  await durable(repository.change(key, stepWaiting(step.id)), running)
  return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: step.id } }
}

/** Whether a failed result says that the call was not executed: it awaits confirmation, or cannot be undone. */
function isNotExecuted(result: Payload): boolean {
  if (result.member('isError') !== true) return false
  const error = result.meta(ERROR_KEY)
  return (
    result.meta(CONFIRMATION_KEY) !== undefined ||
    (isObject(error) && notExecutedCodes.has(String(error.code)))
  )
}

/** The recorded action of a step; undefined for a read. */
async function actionOf(running: Running): Promise<Action | undefined> {
  const { step, service } = running
  return step.kind === 'read' ? undefined : durable(service.actions.find(step.deed), running)
}

interface Failed {
  readonly call: Call
  readonly step: Step
  readonly action: Action | undefined
  readonly service: TransactionService
}

/** How a step failed. A step without a recorded action never reached its server. */
function failedEnd(cause: Payload | GatewayError, { call, step, action, service }: Failed): StepEnd {
  const isUnsent = step.kind === 'read' || action === undefined
  const isUnknown = action?.status === 'unknown' || action?.status === 'pending'
  const reason = reasonOf(cause, call, service)
  return {
    status: 'failed',
    error: isUnknown ? withUnknownOutcome(reason) : reason,
    ...(isUnsent && { isUnsent }),
  }
}

type ErrorData = Readonly<Record<string, unknown>>

/** The error of a step as its caller may see it: messages of servers or of the system are replaced. */
function reasonOf(cause: Payload | GatewayError, call: Call, { deps }: TransactionService): ErrorData {
  const explanation = explained(deps, cause, call)
  if (explanation) return explanation
  if (!(cause instanceof GatewayError)) return new GatewayError('UPSTREAM_ERROR', TOOL_FAILED).data
  if (!hasForeignMessage(cause.code) && !cause.extra.relayed) return cause.data
  const { category } = cause
  return new GatewayError(cause.code, TOOL_FAILED, { category }).data
}

/** The error of a step that may still have taken effect. */
function withUnknownOutcome({ code, message }: ErrorData): ErrorData {
  const unknown = new GatewayError('OUTCOME_UNKNOWN', 'It is unknown whether the step took effect.', {
    suggestion: 'Check on the server what was done, or roll the transaction back.',
    details: { reason: code, message },
  })
  return unknown.data
}

/** Records the end of a step; if configured, a failure rolls its transaction back. */
async function finishStep(end: StepEnd, call: Call, running: Running): Promise<Transaction> {
  const { key, step, service } = running
  const transaction = await durable(
    service.repository.change(key, stepEnded(step.id, end, world.now())),
    running,
  )
  service.reaper.track(key, transaction)
  const isRolledBack = service.settings(call.target.upstream).on_step_failure === 'rollback'
  if (end.status === 'ok' || !isRolledBack || transaction.status !== 'active') return transaction
  const reason = `step ${step.id} failed`
  return rollBack(key, { reason, caller: call.principal, signal: call.signal }, service)
}

/** The step was executed, and that must not get lost: if it cannot be recorded, success is not reported. */
async function durable<Value>(written: Promise<Value>, running: Running): Promise<Value> {
  return written.catch((cause: unknown) => {
    background(giveUp(running), running.service.deps.log)
    throw new GatewayError('OUTCOME_UNKNOWN', 'The outcome of the step could not be recorded.', {
      cause,
      suggestion: 'Check the status of the transaction, and roll it back if in doubt.',
    })
  })
}

/** The delays before the attempts to record that a step is not run any more. */
const GIVE_UP_RETRIES: Backoff = { firstMs: 250, maxMs: 30_000 }
/** How long a write that failed may still arrive at the store, in milliseconds. */
const LATE_WRITE_MS = 60_000

type OwnStep = Pick<Running, 'key' | 'step' | 'service'>

/**
 * Records that a step whose end could not be recorded is not run any more, as soon as the store permits it: until then,
 * other workers wait for its end for as long as this one lives.
 */
async function giveUp({ key, step, service }: OwnStep): Promise<void> {
  const { repository, worker, deps } = service
  const { isOpen: _isOpen, ...own } = { ...step, runner: worker.id }
  const until = world.now() + LATE_WRITE_MS
  for (let repetition = 0; !deps.gateway.closing.aborted; repetition++) {
    await pause(delayBefore(repetition, GIVE_UP_RETRIES))
    try {
      const { steps } = await repository.change(key, stepLost(own, world.now()))
      if (steps.some(({ deed }) => deed === step.deed) || world.now() > until) return
    } catch (error) {
      if (asGatewayError(error).code === 'RESOURCE_NOT_FOUND') return
    }
  }
}
