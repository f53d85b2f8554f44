/** Transactions as callers see them in results. */
import type { Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { resultValue } from '../../core/undo/expression.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Action } from '../../records/actions.ts'
import { stepsInDoubt, needsAttention, type Step, type Transaction } from '../../records/transactions.ts'
import { NS } from '../../protocol/meta-keys.ts'

type Json = Readonly<Record<string, unknown>>
type Result = Outcome & { readonly kind: 'result' }

/** A result made here. */
export function answer(value: Json): Result {
  return { kind: 'result', result: Payload.of(value) }
}

/** What is said of a transaction that was rolled back. */
export function rollbackShape(transaction: Transaction): Json {
  const { id, status, reason, compensations } = transaction
  return {
    transaction_id: id,
    status,
    ...(reason !== undefined && { reason }),
    steps_compensated: compensations.map(({ step, status: how, error }) => {
      return { step_id: step, status: how, ...(error && { error }) }
    }),
    ...(needsAttention(transaction) && { needs_attention: true }),
    ...(transaction.retry && { next_retry_at: time(transaction.retry.at) }),
  }
}

/** What is said of a transaction that was committed. */
export function commitShape(transaction: Transaction): Json {
  const { id, steps } = transaction
  const done = steps.filter(({ status }) => status === 'ok')
  const doubtful = stepsInDoubt(transaction)
  return {
    status: 'committed',
    transaction_id: id,
    steps_completed: done.length,
    ...(doubtful.length > 0 && {
      steps_in_doubt: doubtful.map(stepShape),
      message: `${doubtful.length === 1 ? 'One step' : `${doubtful.length} steps`} may have been done though no answer came: look at the server what is there.`,
    }),
    ...(needsAttention(transaction) && { needs_attention: true }),
  }
}

/** A transaction in few words. */
export function summaryShape(transaction: Transaction): Json {
  const { id, status, description, startedAt, steps } = transaction
  return {
    transaction_id: id,
    status,
    ...(description !== undefined && { description }),
    started_at: time(startedAt),
    steps: steps.length,
    ...(status === 'active' && { expires_at: time(transaction.expiresAt) }),
    needs_attention: needsAttention(transaction),
  }
}

/** All that is known of a transaction; `deeds` are those of its steps, by key. */
export function statusShape(transaction: Transaction, deeds: ReadonlyMap<string, Action>): Json {
  const { endedAt, endsAt, acknowledged, steps } = transaction
  return {
    ...summaryShape(transaction),
    ...rollbackShape(transaction),
    ends_at: time(endsAt),
    ...(endedAt !== undefined && { ended_at: time(endedAt) }),
    steps: steps.map((step) => {
      const way = deeds.get(step.deed)?.way
      const undo = way && 'tool' in way && { tool: way.tool, server_id: step.upstream }
      return { ...stepShape(step), ...(undo && { compensation: undo }), ...unavailable(deeds.get(step.deed)) }
    }),
    needs_attention: needsAttention(transaction),
    ...(acknowledged && { acknowledged_at: time(acknowledged.at) }),
  }
}

function stepShape({ id, status, upstream, tool, error }: Step): Json {
  return { step_id: id, status, server_id: upstream, tool, ...(error && { error }) }
}

/** What is said of a step in the answer to its call. */
interface Told {
  readonly transaction: Transaction
  readonly step: string
  readonly deed: Action | undefined
  /** What undoing it does, in the words of the configuration. */
  readonly description: string | undefined
  /** What the caller sent: it sees no more of the arguments that undo the step than that and the result. */
  readonly sent: Payload
  readonly isCompatible: boolean
}

/** A result of a step that says so. */
export function withStep(
  result: Payload,
  { transaction, step, deed, isCompatible, ...about }: Told,
): Payload {
  const found = transaction.steps.find(({ id }) => id === step)
  const compensation = compensationShape(
    deed,
    leavesOf([about.sent.value, result.value, resultValue(result)]),
    about.description,
  )
  const record = {
    transaction_id: transaction.id,
    step_id: step,
    status: found?.status === 'ok' ? 'ok' : 'failed',
    ...(compensation && { compensation }),
    ...unavailable(deed),
    ...(found?.error && { error: found.error }),
  }
  const whole = { ...record, transaction_status: transaction.status }
  return result
    .with(isCompatible && !isObject(result.member('transaction')) ? { transaction: record } : {})
    .withMeta({
      [`${NS}/transaction`]:
        transaction.compensations.length > 0 ? { ...whole, rollback: rollbackShape(transaction) } : whole,
      transaction_id: transaction.id,
      step_id: step,
      ...(compensation && { compensation }),
    })
}

/** Why what a step did cannot be undone, where that turned out once it was done. */
function unavailable(deed: Action | undefined): Json {
  if (deed?.status !== 'ok' || deed.way.kind !== 'none') return {}
  const message = `The step cannot be undone: ${deed.way.reason}.`
  const error = new GatewayError('COMPENSATION_UNAVAILABLE', message, { reason: 'no_compensation' })
  return { compensation_error: error.data }
}

function compensationShape(
  deed: Action | undefined,
  known: ReadonlySet<unknown>,
  description: string | undefined,
): Json | undefined {
  if (!deed || !('tool' in deed.way)) return undefined
  const { tool, arguments: args } = deed.way
  const parameters = shown(args, known)
  return {
    server_id: deed.upstream,
    tool,
    arguments: parameters,
    parameters,
    description: description ?? `Undoes ${deed.tool} with ${tool}.`,
  }
}

/** How long a text may be that is shown. */
const MAX_TEXT_LENGTH = 1000
/** In place of what the caller has not seen, or is long: what was there before may be anything. */
const OMITTED_TEXT = '[kept by the gateway]'

/** The texts and numbers in what the caller sent and got, each of which it has seen whole. */
function leavesOf(values: readonly unknown[]): ReadonlySet<unknown> {
  const leaves = new Set<unknown>()
  const waiting = [...values]
  while (waiting.length > 0) {
    const value = waiting.pop()
    if (!isObject(value) && !Array.isArray(value)) leaves.add(value)
    else for (const each of Object.values(value)) waiting.push(each)
  }
  return leaves
}

function shown(value: unknown, known: ReadonlySet<unknown>): unknown {
  if (typeof value === 'string')
    return value.length <= MAX_TEXT_LENGTH && known.has(value) ? value : OMITTED_TEXT
  if (Array.isArray(value)) return value.map((each) => shown(each, known))
  if (!isObject(value)) return typeof value === 'number' && !known.has(value) ? OMITTED_TEXT : value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shown(member, known)]))
}

function time(at: number): string {
  return new Date(at).toISOString()
}
