/** Transactions and undone actions as text for a terminal. */
import { oneLine } from '../../core/text/escape.ts'
import { displayCall } from '../../core/tool-call.ts'
import type { Action } from '../../records/actions.ts'
import {
  type CompensationStatus,
  needsAttention,
  type Step,
  type Transaction,
} from '../../records/transactions.ts'
import type { Chosen } from '../undo-choice.ts'

/** A transaction, and what its steps did, by the keys of their deeds. */
interface Told {
  readonly transaction: Transaction
  readonly deeds: ReadonlyMap<string, Action>
}

/** Transactions for people, each in one line. */
export function transactionList(transactions: readonly Transaction[]): string {
  const width = Math.max(...transactions.map((each) => stateOf(each).length))
  return transactions.map((each) => transactionLine(each, width)).join('\n')
}

function transactionLine(transaction: Transaction, width: number): string {
  const { id, principal, startedAt, steps, description } = transaction
  const count = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}`
  const about = description === undefined ? '' : `  ${description}`
  return oneLine(
    `${stateOf(transaction).padEnd(width)}  ${timeText(startedAt)}  ${id}  ${principal.id}  ${count}${about}`,
  )
}

/** All that is known of a transaction, for people. */
export function transactionText({ transaction, deeds }: Told): string {
  const { id, principal, description, reason, startedAt, endedAt, expiresAt, acknowledged } = transaction
  const lines = [
    `${id}: ${stateOf(transaction)}`,
    `  of           ${principal.id}`,
    ...(description === undefined ? [] : [`  about        ${description}`]),
    `  began        ${timeText(startedAt)}`,
    ...(transaction.status === 'active' ? [`  expires      ${timeText(expiresAt)}`] : []),
    ...(endedAt === undefined ? [] : [`  ended        ${timeText(endedAt)}`]),
    ...(reason === undefined ? [] : [`  undone for   ${reason}`]),
    ...(transaction.retry
      ? [`  next try     ${timeText(transaction.retry.at)} (number ${transaction.retry.tries})`]
      : []),
    ...(acknowledged ? [`  acknowledged ${timeText(acknowledged.at)} by ${acknowledged.by}`] : []),
    ...transaction.steps.flatMap((step) => stepLines(step, transaction.compensations, deeds.get(step.deed))),
  ]
  return lines.map(oneLine).join('\n')
}

/** What became of rolling one back, for people: what was undone and what is left. */
export function rollbackText(transaction: Transaction): string {
  const { id, compensations } = transaction
  const lines = compensations.map((each) => `  ${each.step.padEnd(12)} ${endOf(each)}`)
  const again = transaction.retry
    ? [
        `What failed for a reason that may pass is tried again at ${timeText(transaction.retry.at)}, and then on.`,
      ]
    : []
  const next = needsAttention(transaction)
    ? [...again, `When you have seen to it: gatehouse tx ack ${id}`]
    : []
  return [`${id}: ${stateOf(transaction)}`, ...lines, ...next].map(oneLine).join('\n')
}

/** The same for programs. */
export function transactionView({ transaction, deeds }: Told): Readonly<Record<string, unknown>> {
  const { id, principal, status, startedAt, endedAt, description, reason, acknowledged } = transaction
  return {
    transaction_id: id,
    principal: principal.id,
    status,
    needs_attention: needsAttention(transaction),
    ...(description !== undefined && { description }),
    ...(reason !== undefined && { reason }),
    started_at: new Date(startedAt).toISOString(),
    ...(endedAt !== undefined && { ended_at: new Date(endedAt).toISOString() }),
    steps: transaction.steps.map((step) => {
      const deed = deeds.get(step.deed)
      return {
        step_id: step.id,
        status: step.status,
        server_id: step.upstream,
        tool: step.tool,
        ...(deed && { arguments: deed.arguments }),
        ...(step.error && { error: step.error }),
        ...(deed &&
          'tool' in deed.way && { compensation: { tool: deed.way.tool, arguments: deed.way.arguments } }),
      }
    }),
    steps_compensated: transaction.compensations.map(({ step, status: how, error }) => {
      return { step_id: step, status: how, ...(error && { error }) }
    }),
    ...(transaction.retry && {
      retry: { tries: transaction.retry.tries, at: new Date(transaction.retry.at).toISOString() },
    }),
    ...(acknowledged && {
      acknowledged: { by: acknowledged.by, at: new Date(acknowledged.at).toISOString() },
    }),
  }
}

function stepLines(
  step: Step,
  compensations: readonly CompensationStatus[],
  deed: Action | undefined,
): string[] {
  const end = compensations.find((each) => each.step === step.id)
  const call = deed ? displayCall(deed.tool, deed.arguments) : step.tool
  const way = deed && 'tool' in deed.way ? deed.way.description : undefined
  return [
    `  ${step.id.padEnd(12)} ${step.status.padEnd(8)} ${step.upstream}  ${call}`,
    ...(step.error ? [`               ${String(step.error.code)}`] : []),
    ...(end
      ? [`               ${endOf(end)}`]
      : way === undefined
        ? []
        : [`               undone by ${way}`]),
  ]
}

function endOf({ status, error }: CompensationStatus): string {
  const why = error ? `: ${String(error.code)}: ${String(error.message)}` : ''
  return status === 'compensated' ? `undone${why}` : `not undone${why}`
}

function stateOf(transaction: Transaction): string {
  return needsAttention(transaction) ? 'needs attention' : transaction.status.replaceAll('_', ' ')
}

/** What became of something that was to be undone. */
export interface Undone {
  readonly chosen: Chosen
  /** Why it was not; absent where it was. */
  readonly error?: string
}

/** Something that was done, for people. */
export function chosenText({ deed, how, why }: Chosen): string {
  const { startedAt, principal, upstream, tool, way } = deed
  const call = displayCall(tool, deed.arguments)
  const back = way.kind === 'exact' || way.kind === 'approximate' ? `: ${way.description}` : ''
  const said = how === 'not at all' ? `: ${why}` : `${back}${why === undefined ? '' : ` (${why})`}`
  const lines = [`${timeText(startedAt)}  ${principal.id}  ${upstream}  ${call}`, `    ${how}${said}`]
  return lines.map(oneLine).join('\n')
}

/** How many of them can be undone how well, in one sentence. */
export function countText(chosen: readonly Chosen[]): string {
  const count = (how: Chosen['how']): number => chosen.filter((each) => each.how === how).length
  return `Of ${chosen.length}, ${count('exactly')} can be undone exactly, ${count('approximately')} approximately, ${count('not at all')} not at all.`
}

/** What became of it, for people. */
export function undoneText({ chosen: { deed }, error }: Undone): string {
  const { startedAt, upstream, tool } = deed
  const what = `${timeText(startedAt)}  ${upstream}  ${tool}`
  return oneLine(error === undefined ? `undone      ${what}` : `not undone  ${what}: ${error}`)
}

/** The same for programs. */
export function chosenView({ deed, how, why }: Chosen): Readonly<Record<string, unknown>> {
  const { key, startedAt, principal, session, upstream, tool, transaction, status, way } = deed
  const isThere = way.kind === 'exact' || way.kind === 'approximate'
  return {
    key,
    at: new Date(startedAt).toISOString(),
    principal: principal.id,
    ...(session !== undefined && { session }),
    upstream,
    tool,
    arguments: deed.arguments,
    ...(transaction !== undefined && { transaction }),
    status,
    undo: how.replaceAll(' ', '_'),
    ...(why !== undefined && { reason: why }),
    ...(isThere && how !== 'not at all' && { call: { tool: way.tool, arguments: way.arguments } }),
  }
}

/** A time, in milliseconds since 1970, for people and for sorting. */
function timeText(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z')
}
