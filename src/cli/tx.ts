/**
 * `gatehouse tx`: lists transactions, rolls one back, acknowledges one. It works on the store; a running gateway
 * makes the compensating calls.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { StoredSettings } from '../config/load-sections.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { type Settings, featureSettings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { displayCall, maskedArguments } from '../core/masked-arguments.ts'
import { openLog } from '../observability/log.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type Action, Actions, type Compensation } from '../records/actions.ts'
import {
  type StoredTransaction,
  hasEnded,
  type Transaction,
  Transactions,
  urgentFirst,
  type CompensationStatus,
  needsAttention,
  type Step,
} from '../records/transactions.ts'
import { acknowledged, rollingBack } from '../records/transitions.ts'
import type { Store } from '../store/store.ts'
import { readStored, readWhole } from './config-file.ts'
import { didYouMean, parseWords, UsageError, userName } from './words.ts'
import { timeText } from './table.ts'
import { type Io, print } from './io.ts'

/** An action, and whether it can be undone. */
export interface Chosen {
  readonly action: Action
  /** How precisely it can be undone. */
  readonly how: 'exactly' | 'approximately' | 'not at all'
  /** Why it cannot be undone, or a caveat. */
  readonly why?: string
}

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
  reason: { type: 'string' },
  principal: { type: 'string' },
} as const

/** `gatehouse tx list | show | rollback | ack`: lists transactions, rolls them back, and acknowledges them. */
export async function tx(args: readonly string[], io: Io): Promise<number> {
  const options = parse(args)
  const settings = readStored(options, io)
  const log = openLog('warn', io)
  const store = await openSharedStore(settings, log)
  try {
    // Only a change depends on the settings of the feature.
    const { features } = isChange(options) ? await readWhole(options, io) : { features: {} }
    const repository = transactionsIn(store, { features })
    const actions = new Actions(store)
    return await act(options, { io, repository, actions, settings: { ...settings, features }, log })
  } finally {
    await store.close()
  }
}

/** Whether a command changes what is in the store. */
function isChange({ action }: TxOptions): boolean {
  return action === 'rollback' || action === 'ack'
}

interface TxContext {
  readonly io: Io
  readonly repository: Transactions
  readonly actions: Actions
  readonly settings: StoredSettings & Pick<Settings, 'features'>
  readonly log: Log
}

async function act(options: TxOptions, context: TxContext): Promise<number> {
  const { io, repository, actions } = context
  const { isJson, principal } = options
  const all = (await repository.list(principal)).toSorted((one, other) =>
    urgentFirst(one.transaction, other.transaction),
  )
  if (options.action === 'list') {
    const transactions = all.map(({ transaction }) => transaction)
    if (isJson) {
      const views = transactions.map((transaction) => transactionView({ transaction, actions: new Map() }))
      return printed(JSON.stringify({ transactions: views }, null, 2), io)
    }
    return printed(all.length === 0 ? 'No transactions.' : transactionList(transactions), io)
  }
  const found = findTransaction(all, options.id)
  if (options.action === 'rollback') return rollBack(found, options, context)
  const transaction = options.action === 'ack' ? await acknowledge(found, context) : found.transaction
  const whole = { transaction, actions: await actionsOf(transaction, actions) }
  return printed(isJson ? JSON.stringify(transactionView(whole), null, 2) : transactionText(whole), io)
}

function acknowledge(
  { key }: StoredTransaction,
  { repository, settings, log }: TxContext,
): Promise<Transaction> {
  return audited(settings, log, async (audit) => {
    const by = userName()
    const after = await repository.change(key, acknowledged(by, Date.now()))
    audit?.ordered({ order: 'ack', by, transaction: after.id, caller: after.principal.id })
    return after
  })
}

async function rollBack(
  { key, transaction }: StoredTransaction,
  options: TxOptions,
  context: TxContext,
): Promise<number> {
  requireTransactions(context.settings)
  if (transaction.status === 'committed' || hasEnded(transaction))
    throw new Error(
      `${escapeHidden(transaction.id)} cannot be rolled back: it is ${transaction.status.replaceAll('_', ' ')}`,
    )
  const { config, envFile } = options
  const by = userName()
  const reason = ['operator', by].join(' ') + (options.reason === undefined ? '' : `: ${options.reason}`)
  const begin = rollingBack(reason)
  const { id, principal } = transaction
  const [ended] = await audited(context.settings, context.log, async (audit) => {
    await context.repository.change(key, (each) => (each.status === 'rolling_back' ? each : begin(each)))
    audit?.ordered({ order: 'rollback', by, transaction: id, caller: principal.id })
    return finishRollbacks([async () => key], {
      ...context,
      whole: async () => (await import('./options.ts')).readSource({ config, envFile }, context.io).settings,
      audit,
    })
  })
  if (!ended || !hasEnded(ended)) throw new Error('the rollback has not finished: see gatehouse tx show')
  const actions = await actionsOf(ended, context.actions)
  print(
    options.isJson
      ? JSON.stringify(transactionView({ transaction: ended, actions }), null, 2)
      : rollbackText(ended),
    context.io,
  )
  return ended.status === 'rolled_back' ? 0 : 1
}

/** The transaction with an id. Callers choose the ids, so they need not be unique. @throws Error */
function findTransaction(all: readonly StoredTransaction[], id: string): StoredTransaction {
  const found = all.filter(({ transaction }) => transaction.id === id)
  const [first] = found
  if (first && found.length === 1) return first
  if (!first)
    throw new Error(`no such transaction: ${escapeHidden(JSON.stringify(id))}. See gatehouse tx list`)
  const whose = found.map(({ transaction }) => transaction.principal.id).join(', ')
  throw new Error(
    `several callers have a transaction ${escapeHidden(`${id}; choose one with --principal: ${whose}`)}`,
  )
}

function actionsOf({ steps }: Transaction, actions: Actions): Promise<ReadonlyMap<string, Action>> {
  return actions.findAll(steps.map(({ deed }) => deed))
}

function printed(text: string, io: Io): number {
  print(text, io)
  return 0
}

interface TxOptions {
  readonly action: 'list' | 'show' | 'rollback' | 'ack'
  readonly id: string
  readonly principal: string | undefined
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly isJson: boolean
  readonly reason: string | undefined
}

function parse(args: readonly string[]): TxOptions {
  const { values, positionals } = parseWords(args, optionTypes)
  const [word, id, ...more] = positionals
  const actions = ['list', 'show', 'rollback', 'ack'] as const
  const action = actions.find((each) => each === word)
  if (!action)
    throw new UsageError(`use gatehouse tx list, show, rollback or ack${didYouMean(word ?? '', actions)}`)
  if (action !== 'list' && id === undefined) throw new UsageError(`${action} needs the id of a transaction`)
  if (more.length > 0 || (action === 'list' && id !== undefined))
    throw new UsageError('give one transaction at a time')
  const { config, 'env-file': envFile, json = false, reason, principal } = values
  if (reason !== undefined && action !== 'rollback')
    throw new UsageError('--reason is not an option of this command')
  return {
    action,
    id: id ?? '',
    principal,
    config,
    envFile,
    isJson: json,
    reason,
  }
}

// Leaves rollbacks to a running gateway, or starts one in this process, and waits until they finish.

interface RollbackOptions {
  readonly io: Pick<Io, 'env'>
  /** The complete configuration, including the secrets of servers; read on demand. @throws ConfigError */
  whole(): Promise<Settings>
  readonly repository: Transactions
  readonly log: Log
  /** The audit log for calls that this process makes. */
  readonly audit?: Audit | undefined
}

/** How long finished transactions are kept if the feature is not configured, in milliseconds. */
const RETENTION_MS = 86_400_000

/** The transactions in the store of a configuration. */
export function transactionsIn(store: Store, settings: Pick<Settings, 'features'>): Transactions {
  const feature = featureSettings(settings, FEATURE)
  const retention = isObject(feature) ? feature.retention : undefined
  return new Transactions(store, typeof retention === 'number' ? retention : RETENTION_MS)
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
 * returns its store key, or undefined if nothing is left to roll back. A running gateway performs it, because some servers may be reachable only from there; if none
 * is running, this process does.
 */
export async function finishRollbacks(
  begins: readonly (() => Promise<string | undefined>)[],
  options: RollbackOptions,
): Promise<readonly Transaction[]> {
  const { io, log, audit } = options
  const until = performance.now() + ROLLBACK_TIMEOUT_MS
  const found: Transaction[] = []
  let gateway: Gateway | undefined
  const startGateway = async (): Promise<void> => {
    if (gateway) return
    const { Gateway } = await import('../gateway/gateway.ts')
    gateway ??= new Gateway(await options.whole(), { variables: io.env, log, ...(audit && { audit }) })
    await gateway.start()
  }
  try {
    for (const begin of begins) {
      const key = await begin()
      const transaction = key === undefined ? key : await finished(key, { ...options, until, startGateway })
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
  {
    repository,
    until,
    startGateway,
  }: RollbackOptions & { readonly until: number; startGateway(): Promise<void> },
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
  const count = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}`
  const about = description === undefined ? '' : `  ${description}`
  return oneLine(
    `${stateOf(transaction).padEnd(width)}  ${timeText(startedAt)}  ${id}  ${principal.id}  ${count}${about}`,
  )
}

/** The details of a transaction as text. */
export function transactionText({ transaction, actions }: TransactionView): string {
  const { id, principal, description, reason, startedAt, endedAt, expiresAt, acknowledged } = transaction
  const lines = [
    `${id}: ${stateOf(transaction)}`,
    `  of           ${principal.id}`,
    ...(description === undefined ? [] : [`  about        ${description}`]),
    `  began        ${timeText(startedAt)}`,
    ...(transaction.status === 'active' ? [`  expires      ${timeText(expiresAt)}`] : []),
    ...(endedAt === undefined ? [] : [`  ended        ${timeText(endedAt)}`]),
    ...(reason === undefined ? [] : [`  reason       ${reason}`]),
    ...(transaction.retry
      ? [`  next try     ${timeText(transaction.retry.at)} (number ${transaction.retry.tries})`]
      : []),
    ...(acknowledged ? [`  acknowledged ${timeText(acknowledged.at)} by ${acknowledged.by}`] : []),
    ...transaction.steps.flatMap((step) =>
      stepLines(step, transaction.compensations, actions.get(step.deed)),
    ),
  ]
  return lines.map(oneLine).join('\n')
}

/** The result of a rollback as text: what was undone and what was not. */
export function rollbackText(transaction: Transaction): string {
  const { id, compensations } = transaction
  const lines = compensations.map((each) => `  ${each.step.padEnd(12)} ${endOf(each)}`)
  const again = transaction.retry
    ? [
        `Steps that failed with a transient error are retried at ${timeText(transaction.retry.at)}, and later.`,
      ]
    : []
  const next = needsAttention(transaction)
    ? [...again, `After you have handled it: gatehouse tx ack ${id}`]
    : []
  return [`${id}: ${stateOf(transaction)}`, ...lines, ...next].map(oneLine).join('\n')
}

/** The same as JSON. */
function transactionView({ transaction, actions }: TransactionView): Readonly<Record<string, unknown>> {
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
      const action = actions.get(step.deed)
      return {
        step_id: step.id,
        status: step.status,
        server_id: step.upstream,
        tool: step.tool,
        ...(action && { arguments: maskedArguments(action.arguments, action.secrets) }),
        ...(step.error && { error: step.error }),
        ...(action &&
          'tool' in action.way && {
            compensation: shownCall(action.way, action),
          }),
      }
    }),
    steps_compensated: transaction.compensations.map(({ step, status: how, error, isLate }) => {
      return { step_id: step, status: how, ...(error && { error }), ...(isLate && { out_of_order: true }) }
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
  action: Action | undefined,
): string[] {
  const end = compensations.find((each) => each.step === step.id)
  const call = action ? displayCall(action.tool, action.arguments, action) : step.tool
  const way = action && 'tool' in action.way ? descriptionOf(action.way, action) : undefined
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

function endOf({ status, error, isLate }: CompensationStatus): string {
  const why = error ? `: ${String(error.code)}: ${String(error.message)}` : ''
  const late = isLate ? ', after steps before it' : ''
  return status === 'compensated' ? `undone${late}${why}` : `not undone${why}`
}

function stateOf(transaction: Transaction): string {
  return needsAttention(transaction) ? 'needs attention' : transaction.status.replaceAll('_', ' ')
}

/** The result of undoing an action. */
export interface Undone {
  readonly chosen: Chosen
  /** Why it was not undone; absent on success. */
  readonly error?: string
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
export function countText(chosen: readonly Chosen[]): string {
  const count = (how: Chosen['how']): number => chosen.filter((each) => each.how === how).length
  return `Of ${chosen.length}, ${count('exactly')} can be undone exactly, ${count('approximately')} approximately, ${count('not at all')} not at all.`
}

/** The result of undoing an action as text. */
export function undoneText({ chosen: { action }, error }: Undone): string {
  const { startedAt, upstream, tool } = action
  const what = `${timeText(startedAt)}  ${upstream}  ${tool}`
  return oneLine(error === undefined ? `undone      ${what}` : `not undone  ${what}: ${error}`)
}

/** The same as JSON. */
export function chosenView({ action, how, why }: Chosen): Readonly<Record<string, unknown>> {
  const { key, startedAt, principal, session, upstream, tool, transaction, status, way } = action
  const isThere = way.kind === 'exact' || way.kind === 'approximate'
  return {
    key,
    at: new Date(startedAt).toISOString(),
    principal: principal.id,
    ...(session !== undefined && { session }),
    upstream,
    tool,
    arguments: maskedArguments(action.arguments, action.secrets),
    ...(transaction !== undefined && { transaction }),
    status,
    undo: how.replaceAll(' ', '_'),
    ...(why !== undefined && { reason: why }),
    ...(isThere && how !== 'not at all' && { call: shownCall(way, action) }),
  }
}
