/**
 * `gatehouse tx`: lists transactions, rolls one back, acknowledges one. It works on the store; a running gateway
 * makes the compensating calls.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { asObject } from '../core/json/json.ts'
import type { Settings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { displayCall, maskedArguments } from '../core/masked-arguments.ts'
import { isoTime } from '../core/time/waiting.ts'
import { openLog } from '../observability/log.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type Action, Actions, type Compensation, type StateAfterUndo } from '../records/actions.ts'
import {
  type StoredTransaction,
  hasEnded,
  type Transaction,
  type Transactions,
  urgentFirst,
  type CompensationStatus,
  needsAttention,
  type Step,
  transactionsIn,
} from '../records/transactions.ts'
import { acknowledged, rollingBack, rollingBackByForce } from '../records/transitions.ts'
import type { Store } from '../store/store.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { type ConfigOptions, readStored, readWhole, userName, withAudit, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { countText } from '../core/text/words.ts'
import { detailLines, type Output, quoted, timeText } from './output.ts'

type Commands = typeof commands

/** An action, and whether it can be undone. */
export interface Chosen {
  readonly action: Action
  /** How precisely it can be undone. */
  readonly how: 'exactly' | 'approximately' | 'not at all'
  /** Why it cannot be undone, or a caveat. */
  readonly why?: string
}

/** `gatehouse tx list`. */
export function list(given: Given<Commands['tx list']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const all = await transactionsOf(given.principal, transactionsIn(store, { features: {} }))
    const transactions = all.map(({ transaction }) => transaction)
    const json = transactions.map((transaction) => transactionView({ transaction, actions: new Map() }))
    const text = all.length === 0 ? 'No transactions.' : transactionList(transactions)
    return { json: { transactions: json }, text }
  })
}

/** `gatehouse tx show ID`. */
export function show(given: Given<Commands['tx show']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const all = await transactionsOf(given.principal, transactionsIn(store, { features: {} }))
    return printed(findTransaction(all, given.id).transaction, store)
  })
}

/** `gatehouse tx ack ID`. */
export async function ack(given: Given<Commands['tx ack']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const repository = transactionsIn(store, await readWhole(given, io))
    const { key } = findTransaction(await transactionsOf(given.principal, repository), given.id)
    const after = await withAudit(settings, io, async (audit) => {
      const by = userName()
      const changed = await repository.change(key, acknowledged(by, Date.now()))
      audit?.ordered({ order: 'ack', by, transaction: changed.id, caller: changed.principal.id })
      return changed
    })
    return printed(after, store)
  })
}

/** `gatehouse tx rollback ID`: exit code 1 if not everything was undone. */
export async function rollback(given: Given<Commands['tx rollback']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    // Only a change depends on the settings of the feature.
    const { features } = await readWhole(given, io)
    const repository = transactionsIn(store, { features })
    const { key, transaction } = findTransaction(await transactionsOf(given.principal, repository), given.id)
    requireTransactions({ features })
    const { id, principal, status } = transaction
    const isTriedAgain = given.force && status === 'partially_rolled_back'
    if (status === 'committed' || (hasEnded(transaction) && !isTriedAgain))
      throw new Error(`${escapeHidden(id)} cannot be rolled back: it is ${status.replaceAll('_', ' ')}`)
    const by = userName()
    const why = `operator ${by}${given.reason === undefined ? '' : `: ${given.reason}`}`
    const begin = given.force ? rollingBackByForce(why) : rollingBack(why)
    const [ended] = await withAudit(settings, io, async (audit) => {
      await repository.change(key, (each) =>
        each.status === 'rolling_back' && !given.force ? each : begin(each),
      )
      const force = given.force && { force: given.force }
      audit?.ordered({ order: 'rollback', by, ...force, transaction: id, caller: principal.id })
      return finishRollbacks([async () => key], { ...given, io, repository, audit })
    })
    if (!ended || !hasEnded(ended)) throw new Error('the rollback has not finished: see gatehouse tx show')
    const { json } = await printed(ended, store)
    return { json, text: rollbackText(ended), code: ended.status === 'rolled_back' ? 0 : 1 }
  })
}

/** The transactions of a caller, or of all, those that need attention first. */
async function transactionsOf(
  principal: string | undefined,
  repository: Transactions,
): Promise<readonly StoredTransaction[]> {
  return (await repository.list(principal)).toSorted((one, other) =>
    urgentFirst(one.transaction, other.transaction),
  )
}

async function printed(transaction: Transaction, store: Store) {
  const actions = await new Actions(store).findAll(transaction.steps.map(({ deed }) => deed))
  const whole = { transaction, actions }
  return { json: transactionView(whole), text: transactionText(whole) }
}

/** The transaction with an id. Callers choose the ids, so they need not be unique. @throws Error */
function findTransaction(all: readonly StoredTransaction[], id: string): StoredTransaction {
  const found = all.filter(({ transaction }) => transaction.id === id)
  const [first] = found
  if (first && found.length === 1) return first
  if (!first) throw new Error(`no such transaction: ${quoted(id)}. See gatehouse tx list`)
  const whose = found.map(({ transaction }) => transaction.principal.id).join(', ')
  throw new Error(
    `several callers have a transaction ${escapeHidden(`${id}; choose one with --principal: ${whose}`)}`,
  )
}

// Leaves rollbacks to a running gateway, or starts one in this process, and waits until they finish.

/** What rollbacks need, with the options that name the whole configuration, which is read on demand. */
interface Rollback extends ConfigOptions {
  readonly io: Io
  readonly repository: Transactions
  /** The audit log for calls that this process makes. */
  readonly audit?: Audit | undefined
}

/** Checks that the transactions feature is on: it performs rollbacks. @throws Error */
export function requireTransactions({ features }: Pick<Settings, 'features'>): void {
  if (features[FEATURE] === undefined)
    throw new Error(`features.${FEATURE} is off, so nothing can be undone: turn it on`)
}

const FEATURE = 'transactions'

/** How long to wait for a running gateway to take over a rollback; gateways poll every two seconds. */
const TAKEOVER_TIMEOUT_MS = 5000
/** The total time for all rollbacks, and the polling interval, in milliseconds. */
const ROLLBACK_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 100

/**
 * Rolls back transactions as far as possible, one after the other: each of `begins` starts the rollback of one and
 * returns its store key, or undefined if nothing is left to roll back. A running gateway performs it, because some servers may
 * be reachable only from there; if none is running, this process does.
 */
export async function finishRollbacks(
  begins: readonly (() => Promise<string | undefined>)[],
  rolling: Rollback,
): Promise<readonly Transaction[]> {
  const { io, audit, config, envFile } = rolling
  const until = performance.now() + ROLLBACK_TIMEOUT_MS
  const found: Transaction[] = []
  let gateway: Gateway | undefined
  const startGateway = async (): Promise<void> => {
    if (gateway) return
    const { openGateway, readSource } = await import('./source.ts')
    const { settings } = readSource({ config, envFile }, io)
    gateway = openGateway(settings, { io, log: openLog('warn', io), ...(audit && { audit }) })
    await gateway.start()
  }
  try {
    for (const begin of begins) {
      const key = await begin()
      const transaction = key === undefined ? key : await finished(key, { ...rolling, until, startGateway })
      if (transaction) found.push(transaction)
      if (performance.now() > until) break
    }
    return found
  } finally {
    await gateway?.close()
  }
}

/** Waits until a transaction is rolled back; returns its last state at the timeout. */
async function finished(
  key: string,
  { repository, until, startGateway }: Rollback & { readonly until: number; startGateway(): Promise<void> },
): Promise<Transaction | undefined> {
  const began = performance.now()
  for (;;) {
    const found = await repository.find(key)
    const now = performance.now()
    if (!found || hasEnded(found) || now > until) return found
    // The gateway that took over may be gone: a gateway in this process detects that.
    if (now - began > (found.runner === undefined ? TAKEOVER_TIMEOUT_MS : 3 * TAKEOVER_TIMEOUT_MS))
      await startGateway()
    await pause(POLL_INTERVAL_MS)
  }
}

// Transactions and undone actions as text for a terminal.

/** A transaction, and the actions of its steps by their keys. */
interface TransactionView {
  readonly transaction: Transaction
  readonly actions: ReadonlyMap<string, Action>
}

/** Transactions as text, one line each. */
export function transactionList(transactions: readonly Transaction[]): string {
  const width = Math.max(...transactions.map((each) => stateOf(each).length))
  return transactions.map((each) => transactionLine(each, width)).join('\n')
}

function transactionLine(transaction: Transaction, width: number): string {
  const { id, principal, startedAt, steps, description } = transaction
  const count = countText(steps.length, 'step')
  const about = description === undefined ? '' : `  ${description}`
  return oneLine(
    `${stateOf(transaction).padEnd(width)}  ${timeText(startedAt)}  ${id}  ${principal.id}  ${count}${about}`,
  )
}

/** The details of a transaction as text. */
export function transactionText({ transaction, actions }: TransactionView): string {
  const { id, principal, description, reason, startedAt, endedAt, expiresAt, acknowledged } = transaction
  const { status, retry, steps, compensations } = transaction
  const details = detailLines(`${id}: ${stateOf(transaction)}`, [
    ['of', principal.id],
    ['about', description],
    ['began', timeText(startedAt)],
    ['expires', status === 'active' ? timeText(expiresAt) : undefined],
    ['ended', endedAt === undefined ? undefined : timeText(endedAt)],
    ['reason', reason],
    ['next try', retry && `${timeText(retry.at)} (number ${retry.tries})`],
    ['acknowledged', acknowledged && `${timeText(acknowledged.at)} by ${acknowledged.by}`],
  ])
  const lines = steps.flatMap((step) => stepLines(step, compensations, actions.get(step.deed)))
  return [...details, ...lines.map(oneLine)].join('\n')
}

/** The result of a rollback as text: what was undone and what was not. */
export function rollbackText(transaction: Transaction): string {
  const { id, compensations } = transaction
  const lines = compensations.flatMap((each) => [
    `  ${each.step.padEnd(12)} ${endOf(each)}`,
    ...differenceOf(each).map((line) => `${' '.repeat(15)}${line}`),
  ])
  const again = transaction.retry
    ? [
        `Steps that failed with a transient error are retried at ${timeText(transaction.retry.at)}, and later.`,
      ]
    : []
  const forced = compensations.some((each) => differenceOf(each).length > 0)
    ? [`To undo those steps anyway, which overwrites those changes: gatehouse tx rollback ${id} --force`]
    : []
  const next = needsAttention(transaction)
    ? [...forced, ...again, `After you have handled it: gatehouse tx ack ${id}`]
    : []
  return [`${id}: ${stateOf(transaction)}`, ...lines, ...next].map(oneLine).join('\n')
}

/** The same as JSON. */
function transactionView({ transaction, actions }: TransactionView): Readonly<Record<string, unknown>> {
  const { id, principal, status, startedAt, endedAt, description, reason, acknowledged, retry } = transaction
  return {
    transaction_id: id,
    principal: principal.id,
    status,
    needs_attention: needsAttention(transaction),
    description,
    reason,
    started_at: isoTime(startedAt),
    ended_at: endedAt === undefined ? undefined : isoTime(endedAt),
    steps: transaction.steps.map((step) => {
      const action = actions.get(step.deed)
      return {
        step_id: step.id,
        status: step.status,
        server_id: step.upstream,
        tool: step.tool,
        arguments: action && maskedArguments(action.arguments, action.secrets),
        error: step.error,
        compensation: action && 'tool' in action.way ? shownCall(action.way, action) : undefined,
      }
    }),
    steps_compensated: transaction.compensations.map(({ step, status: how, error, isLate, state }) => {
      return { step_id: step, status: how, state, error, out_of_order: isLate || undefined }
    }),
    retry: retry && { tries: retry.tries, at: isoTime(retry.at) },
    acknowledged: acknowledged && { by: acknowledged.by, at: isoTime(acknowledged.at) },
  }
}

function stepLines(
  step: Step,
  compensations: readonly CompensationStatus[],
  action: Action | undefined,
): string[] {
  const end = compensations.find((each) => each.step === step.id)
  const call = action ? displayCall(action.tool, action.arguments, action) : step.tool
  const way = action && 'tool' in action.way ? descriptionOf(action.way, action) : undefined
  return [
    `  ${step.id.padEnd(12)} ${step.status.padEnd(8)} ${step.upstream}  ${call}`,
    ...(step.error ? [`               ${String(step.error.code)}`] : []),
    ...(end
      ? [endOf(end), ...differenceOf(end)].map((line) => `               ${line}`)
      : way === undefined
        ? []
        : [`               undone by ${way}`]),
  ]
}

function endOf({ status, error, isLate, state }: CompensationStatus): string {
  const why = error ? `: ${String(error.code)}: ${String(error.message)}` : ''
  const late = isLate ? ', after steps before it' : ''
  const after = state === undefined ? '' : `; ${stateText[state]}`
  return status === 'compensated' ? `undone${late}${after}${why}` : `not undone${why}`
}

const stateText: Readonly<Record<StateAfterUndo, string>> = {
  old: 'the state is the old one again',
  other: 'the state is not the old one',
  unknown: 'cannot tell whether the state is the old one',
}

/** What something else changed since, of a step that was not undone because of it. */
export function differenceOf({ error }: CompensationStatus): readonly string[] {
  const { difference } = asObject(error?.details)
  return Array.isArray(difference) ? difference.map(String) : []
}

function stateOf(transaction: Transaction): string {
  return needsAttention(transaction) ? 'needs attention' : transaction.status.replaceAll('_', ' ')
}

/** The result of undoing an action. */
export interface Undone {
  readonly chosen: Chosen
  /** Why it was not undone; absent on success. */
  readonly error?: string
  /** What something else changed since, if it was not undone because of that. */
  readonly difference?: readonly string[]
  /** What the state is after it was undone. */
  readonly state?: StateAfterUndo
}

/** An action as text. */
export function chosenText({ action, how, why }: Chosen): string {
  const { startedAt, principal, upstream, tool, way } = action
  const call = displayCall(tool, action.arguments, action)
  const back = way.kind === 'exact' || way.kind === 'approximate' ? `: ${descriptionOf(way, action)}` : ''
  const detail = how === 'not at all' ? `: ${why}` : `${back}${why === undefined ? '' : ` (${why})`}`
  const lines = [`${timeText(startedAt)}  ${principal.id}  ${upstream}  ${call}`, `    ${how}${detail}`]
  return lines.map(oneLine).join('\n')
}

type Way = Extract<Compensation, { readonly kind: 'exact' | 'approximate' }>

/** The call that undoes an action, without its secrets. */
function shownCall(
  { tool, arguments: given }: Way,
  { secrets }: Action,
): Readonly<Record<'tool' | 'arguments', unknown>> {
  return { tool, arguments: maskedArguments(given, secrets) }
}

/** Records of earlier versions may describe a call with its secrets. */
function descriptionOf({ tool, arguments: given, description }: Way, { secrets }: Action): string {
  const isOfCall = description.startsWith(`${tool}(`) && maskedArguments(given, secrets) !== given
  return isOfCall ? displayCall(tool, given, { secrets }) : description
}

/** How many actions can be undone exactly, approximately and not at all. */
export function sumText(chosen: readonly Chosen[]): string {
  const count = (how: Chosen['how']): number => chosen.filter((each) => each.how === how).length
  return `Of ${chosen.length}, ${count('exactly')} can be undone exactly, ${count('approximately')} approximately, ${count('not at all')} not at all.`
}

/** The result of undoing an action as text. */
export function undoneText({ chosen: { action }, error, difference = [], state }: Undone): string {
  const { startedAt, upstream, tool } = action
  const what = `${timeText(startedAt)}  ${upstream}  ${tool}`
  const after = state === undefined ? '' : `: ${stateText[state]}`
  const line = error === undefined ? `undone      ${what}${after}` : `not undone  ${what}: ${error}`
  return [line, ...difference.map((each) => `    ${each}`)].map(oneLine).join('\n')
}

/** The same as JSON. */
export function chosenView({ action, how, why }: Chosen): Readonly<Record<string, unknown>> {
  const { key, startedAt, principal, session, upstream, tool, transaction, status, way } = action
  const isThere = way.kind === 'exact' || way.kind === 'approximate'
  return {
    key,
    at: isoTime(startedAt),
    principal: principal.id,
    session,
    upstream,
    tool,
    arguments: maskedArguments(action.arguments, action.secrets),
    transaction,
    status,
    undo: how.replaceAll(' ', '_'),
    reason: why,
    call: isThere && how !== 'not at all' ? shownCall(way, action) : undefined,
  }
}
