import { oneLine } from '../core/one-line.ts'
import { displayCall } from '../core/shown-call.ts'
import type { Action } from '../records/deeds.ts'
import {
  type CompensationStatus,
  needsAttention,
  type Step,
  type Transaction,
} from '../records/transactions.ts'
import { timeText } from './time-text.ts'

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
