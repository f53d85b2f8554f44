/** Transactions as callers see them in results. */
import { isoTime } from '../../core/time/waiting.ts'
import { NS } from '../../core/identity.ts'
import type { Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { resultValue } from '../../core/undo/expression.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Action } from '../../records/actions.ts'
import { stepsInDoubt, needsAttention, type Step, type Transaction } from '../../records/transactions.ts'
import { ExactNumber, isNumber } from '../../core/json/exact-number.ts'

type Json = Readonly<Record<string, unknown>>
type Result = Outcome & { readonly kind: 'result' }

/** A result of the gateway itself. */
export function answer(value: Json): Result {
  return { kind: 'result', result: Payload.of(value) }
}

/** The result of a rollback. */
export function rollbackShape(transaction: Transaction): Json {
  const { id, status, reason, compensations } = transaction
  return {
    transaction_id: id,
    status,
    ...(reason !== undefined && { reason }),
    steps_compensated: compensations.map(({ step, status: compensationStatus, error, isLate, state }) => {
      const late = isLate && { out_of_order: true }
      const after = state !== undefined && { state }
      return { step_id: step, status: compensationStatus, ...after, ...(error && { error }), ...late }
    }),
    ...outOfOrder(transaction),
    ...(needsAttention(transaction) && { needs_attention: true }),
    ...(transaction.retry && { next_retry_at: isoTime(transaction.retry.at) }),
  }
}

/** Says that steps were undone although later ones could not be, and that those are undone after them. */
function outOfOrder({ steps, compensations, retry }: Transaction): Json {
  const undone = new Set(
    compensations.flatMap(({ step, status }) => (status === 'compensated' ? [step] : [])),
  )
  const first = steps.findIndex(({ id }) => undone.has(id))
  const places = new Map(steps.map(({ id }, index) => [id, index]))
  const passed = compensations.filter(
    ({ step, status }) => status === 'compensation_failed' && first !== -1 && (places.get(step) ?? 0) > first,
  )
  if (passed.length === 0 || !retry) return {}
  const names = passed.map(({ step }) => step).join(', ')
  return {
    message: `Not undone in its turn, although it was tried again: ${names}. Steps before were undone after that, so a later attempt is out of order.`,
  }
}

/** The result of a commit. */
export function commitShape(transaction: Transaction): Json {
  const { id, steps } = transaction
  const done = steps.filter(({ status }) => status === 'ok')
  const uncertain = stepsInDoubt(transaction)
  return {
    status: 'committed',
    transaction_id: id,
    steps_completed: done.length,
    ...(uncertain.length > 0 && {
      steps_in_doubt: uncertain.map(stepShape),
      message: `${uncertain.length === 1 ? 'One step' : `${uncertain.length} steps`} may have taken effect although the response was lost: check the state on the server.`,
    }),
    ...(needsAttention(transaction) && { needs_attention: true }),
  }
}

/** A transaction in brief. */
export function summaryShape(transaction: Transaction): Json {
  const { id, status, description, startedAt, steps } = transaction
  return {
    transaction_id: id,
    status,
    ...(description !== undefined && { description }),
    started_at: isoTime(startedAt),
    steps: steps.length,
    ...(status === 'active' && { expires_at: isoTime(transaction.expiresAt) }),
    needs_attention: needsAttention(transaction),
  }
}

/** The complete status of a transaction; `actions` are the actions of its steps, by key. */
export function statusShape(transaction: Transaction, actions: ReadonlyMap<string, Action>): Json {
  const { endedAt, endsAt, acknowledged, steps } = transaction
  return {
    ...summaryShape(transaction),
    ...rollbackShape(transaction),
    ends_at: isoTime(endsAt),
    ...(endedAt !== undefined && { ended_at: isoTime(endedAt) }),
    steps: steps.map((step) => {
      const way = actions.get(step.deed)?.way
      const undo = way && 'tool' in way && { tool: way.tool, server_id: step.upstream }
      return {
        ...stepShape(step),
        ...(undo && { compensation: undo }),
        ...unavailable(actions.get(step.deed)),
      }
    }),
    needs_attention: needsAttention(transaction),
    ...(acknowledged && { acknowledged_at: isoTime(acknowledged.at) }),
  }
}

function stepShape({ id, status, upstream, tool, error }: Step): Json {
  return { step_id: id, status, server_id: upstream, tool, ...(error && { error }) }
}

/** The facts about a step in the result of its call. */
interface StepAnnotation {
  readonly transaction: Transaction
  readonly step: string
  readonly action: Action | undefined
  /** The configured description of its compensation. */
  readonly description: string | undefined
  /** What the caller sent: of the compensation's arguments, it only sees values that it sent or received. */
  readonly sent: Payload
  readonly isCompatible: boolean
}

/** A step's result, annotated with the step. */
export function withStep(
  result: Payload,
  { transaction, step, action, isCompatible, ...annotation }: StepAnnotation,
): Payload {
  const found = transaction.steps.find(({ id }) => id === step)
  const compensation = compensationShape(
    action,
    leavesOf([annotation.sent.value, result.value, resultValue(result)]),
    annotation.description,
  )
  const record = {
    transaction_id: transaction.id,
    step_id: step,
    status: found?.status === 'ok' ? 'ok' : 'failed',
    ...(compensation && { compensation }),
    ...unavailable(action),
    ...(found?.error && { error: found.error }),
  }
  const metaRecord = { ...record, transaction_status: transaction.status }
  return result
    .with(isCompatible && !isObject(result.member('transaction')) ? { transaction: record } : {})
    .withMeta({
      [`${NS}/transaction`]:
        transaction.compensations.length > 0
          ? { ...metaRecord, rollback: rollbackShape(transaction) }
          : metaRecord,
      transaction_id: transaction.id,
      step_id: step,
      ...(compensation && { compensation }),
    })
}

/** Why an executed step cannot be undone, if that only became known after its call. */
function unavailable(action: Action | undefined): Json {
  if (action?.status !== 'ok' || action.way.kind !== 'none') return {}
  const message = `The step cannot be undone: ${action.way.reason}.`
  const error = new GatewayError('COMPENSATION_UNAVAILABLE', message, { reason: 'no_compensation' })
  return { compensation_error: error.data }
}

function compensationShape(
  action: Action | undefined,
  known: ReadonlySet<unknown>,
  description: string | undefined,
): Json | undefined {
  if (!action || !('tool' in action.way)) return undefined
  const { tool, arguments: args } = action.way
  const parameters = redactUnseen(args, known)
  return {
    server_id: action.upstream,
    tool,
    arguments: parameters,
    parameters,
    description: description ?? `Undoes ${action.tool} with ${tool}.`,
  }
}

/** The maximum length of a displayed text. */
const MAX_TEXT_LENGTH = 1000
/** Replaces values that the caller has not seen, and long texts: a snapshot may contain anything. */
const OMITTED_TEXT = '[kept by the gateway]'

/** The texts and numbers that the caller sent and received, each of which it has seen completely. */
function leavesOf(values: readonly unknown[]): ReadonlySet<unknown> {
  const leaves = new Set<unknown>()
  const queue = [...values]
  while (queue.length > 0) {
    const value = queue.pop()
    if (!isObject(value) && !Array.isArray(value))
      leaves.add(value instanceof ExactNumber ? value.text : value)
    else for (const each of Object.values(value)) queue.push(each)
  }
  return leaves
}

function redactUnseen(value: unknown, known: ReadonlySet<unknown>): unknown {
  if (typeof value === 'string')
    return value.length <= MAX_TEXT_LENGTH && known.has(value) ? value : OMITTED_TEXT
  if (Array.isArray(value)) return value.map((each) => redactUnseen(each, known))
  if (!isObject(value)) {
    const leaf = value instanceof ExactNumber ? value.text : value
    return isNumber(value) && !known.has(leaf) ? OMITTED_TEXT : value
  }
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, redactUnseen(member, known)]))
}
