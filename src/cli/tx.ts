/**
 * `gatehouse tx`: lists transactions, rolls one back, acknowledges what is left. Works on the store; a running
 * gateway does the calls.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { environment } from '../config/secrets.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { type Settings, featureSettings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { displayCall } from '../core/tool-call.ts'
import { openLog, Gateway } from '../gateway/gateway.ts'
import { audited, openSharedStore, type Audit } from '../gateway/offline.ts'
import { type Action, Actions } from '../records/actions.ts'
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
import { didYouMean, parseWords, readSource, UsageError, userName } from './options.ts'

/** Something that was done, and what can be done about it. */
export interface Chosen {
  readonly deed: Action
  /** How well it can be undone. */
  readonly how: 'exactly' | 'approximately' | 'not at all'
  /** Why it cannot be, or what to keep in mind. */
  readonly why?: string
}

/** What the command can be told. */
const known = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
  reason: { type: 'string' },
  principal: { type: 'string' },
} as const

/** `gatehouse tx list | show | rollback | ack`: shows transactions, undoes them, and acknowledges what is left. */
export async function tx(args: readonly string[]): Promise<number> {
  const told = read(args)
  const { settings } = readSource({ ...told, isForStore: true })
  const log = openLog('warn', process.stderr.isTTY)
  const store = await openSharedStore(settings, log)
  try {
    const repository = transactionsIn(store, settings)
    return await act(told, { repository, deeds: new Actions(store), settings, log })
  } finally {
    await store.close()
  }
}

interface Around {
  readonly repository: Transactions
  readonly deeds: Actions
  readonly settings: Settings
  readonly log: Log
}

async function act(told: Told, around: Around): Promise<number> {
  const { repository, deeds } = around
  const { isJson, principal } = told
  const all = (await repository.list(principal)).toSorted((one, other) =>
    urgentFirst(one.transaction, other.transaction),
  )
  if (told.action === 'list') {
    const transactions = all.map(({ transaction }) => transaction)
    if (isJson) {
      const views = transactions.map((transaction) => transactionView({ transaction, deeds: new Map() }))
      return print(JSON.stringify({ transactions: views }, null, 2))
    }
    return print(all.length === 0 ? 'There are no transactions.' : transactionList(transactions))
  }
  const found = named(all, told.id)
  if (told.action === 'rollback') return rollBack(found, told, around)
  const transaction = told.action === 'ack' ? await acknowledge(found, around) : found.transaction
  const whole = { transaction, deeds: await deedsOf(transaction, deeds) }
  return print(isJson ? JSON.stringify(transactionView(whole), null, 2) : transactionText(whole))
}

function acknowledge(
  { key }: StoredTransaction,
  { repository, settings, log }: Around,
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
  told: Told,
  around: Around,
): Promise<number> {
  mustRollBack(around.settings)
  if (transaction.status === 'committed' || hasEnded(transaction))
    throw new Error(
      `${escapeHidden(transaction.id)} is over: it is ${transaction.status.replaceAll('_', ' ')}`,
    )
  const { config, envFile } = told
  const by = userName()
  const reason = ['operator', by].join(' ') + (told.reason === undefined ? '' : `: ${told.reason}`)
  const begin = rollingBack(reason)
  const { id, principal } = transaction
  const [ended] = await audited(around.settings, around.log, async (audit) => {
    await around.repository.change(key, (each) => (each.status === 'rolling_back' ? each : begin(each)))
    audit?.ordered({ order: 'rollback', by, transaction: id, caller: principal.id })
    return finishRollbacks([async () => key], {
      ...around,
      whole: () => readSource({ config, envFile }).settings,
      audit,
    })
  })
  if (!ended || !hasEnded(ended)) throw new Error('it is not rolled back yet: see gatehouse tx show')
  const deeds = await deedsOf(ended, around.deeds)
  print(
    told.isJson
      ? JSON.stringify(transactionView({ transaction: ended, deeds }), null, 2)
      : rollbackText(ended),
  )
  return ended.status === 'rolled_back' ? 0 : 1
}

/** The transaction of an id. Callers choose ids, so several may have chosen the same. @throws Error */
function named(all: readonly StoredTransaction[], id: string): StoredTransaction {
  const found = all.filter(({ transaction }) => transaction.id === id)
  const [first] = found
  if (first && found.length === 1) return first
  if (!first)
    throw new Error(`there is no transaction ${escapeHidden(JSON.stringify(id))}. See gatehouse tx list`)
  const whose = found.map(({ transaction }) => transaction.principal.id).join(', ')
  throw new Error(
    `several callers have a transaction ${escapeHidden(`${id}; name one with --principal: ${whose}`)}`,
  )
}

function deedsOf({ steps }: Transaction, deeds: Actions): Promise<ReadonlyMap<string, Action>> {
  return deeds.findAll(steps.map(({ deed }) => deed))
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

interface Told {
  readonly action: 'list' | 'show' | 'rollback' | 'ack'
  readonly id: string
  readonly principal: string | undefined
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly isJson: boolean
  readonly reason: string | undefined
}

function read(args: readonly string[]): Told {
  const { values, positionals } = parseWords(args, known)
  const [word, id, ...more] = positionals
  const actions = ['list', 'show', 'rollback', 'ack'] as const
  const action = actions.find((each) => each === word)
  if (!action)
    throw new UsageError(`write gatehouse tx list, show, rollback or ack${didYouMean(word ?? '', actions)}`)
  if (action !== 'list' && id === undefined) throw new UsageError(`name what to ${action}: an id`)
  if (more.length > 0 || (action === 'list' && id !== undefined))
    throw new UsageError('name one transaction at a time')
  const { config, 'env-file': envFile, json = false, reason, principal } = values
  if (reason !== undefined && action !== 'rollback') throw new UsageError('--reason has no meaning here')
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

// Hands rollbacks to a running gateway, or builds one for the purpose, and waits for their end.

interface Options {
  /** The whole configuration, with what servers need; read once it is needed. @throws ConfigError */
  whole(): Settings
  readonly repository: Transactions
  readonly log: Log
  /** Where the calls are recorded that this process makes itself. */
  readonly audit?: Audit | undefined
}

/** How long what is over can be asked about where no gateway has transactions, in milliseconds. */
const RETENTION = 86_400_000

/** The transactions in a store, as the gateways of a configuration keep them. */
export function transactionsIn(store: Store, settings: Settings): Transactions {
  const own = featureSettings(settings, FEATURE)
  const retention = isObject(own) ? own.retention : undefined
  return new Transactions(store, typeof retention === 'number' ? retention : RETENTION)
}

/** Sees to it that there is a gateway that rolls back. @throws Error */
export function mustRollBack({ features }: Settings): void {
  if (features[FEATURE] === undefined)
    throw new Error(`features.${FEATURE} is off, so no gateway undoes anything: switch it on`)
}

const FEATURE = 'transactions'

/** How long running gateways have to take up what is left to them, at most; they look every two seconds. */
const TAKEOVER_TIMEOUT_MS = 5000
/** How long rolling back may take in all, and how often it is looked how far it is, in milliseconds. */
const ROLLBACK_TIMEOUT_MS = 600_000
const POLL_INTERVAL_MS = 100

/**
 * Has transactions rolled back as far as they can be, one after the other: each of `begins` leaves one to be rolled
 * back, and tells where it is kept. A gateway that runs does it, for it may have servers that only it can reach; where
 * none does, this process does it itself.
 */
export async function finishRollbacks(
  begins: readonly (() => Promise<string>)[],
  options: Options,
): Promise<readonly Transaction[]> {
  const { log, audit } = options
  const until = performance.now() + ROLLBACK_TIMEOUT_MS
  const found: Transaction[] = []
  let own: Gateway | undefined
  const help = async (): Promise<void> => {
    if (own) return
    own = new Gateway(options.whole(), { variables: environment(), log, ...(audit && { audit }) })
    await own.start()
  }
  try {
    for (const begin of begins) {
      const transaction = await finished(await begin(), { ...options, until, help })
      if (transaction) found.push(transaction)
      if (performance.now() > until) break
    }
    return found
  } finally {
    await own?.close()
  }
}

/** A transaction once it is rolled back, or as it is when it takes too long. */
async function finished(
  key: string,
  { repository, until, help }: Options & { readonly until: number; help(): Promise<void> },
): Promise<Transaction | undefined> {
  const began = performance.now()
  for (;;) {
    const found = await repository.find(key)
    const now = performance.now()
    if (!found || hasEnded(found) || now > until) return found
    // Whoever took it up may be gone: an own gateway finds out.
    if (now - began > (found.runner === undefined ? TAKEOVER_TIMEOUT_MS : 3 * TAKEOVER_TIMEOUT_MS))
      await help()
    await pause(POLL_INTERVAL_MS)
  }
}

// Transactions and undone actions as text for a terminal.

/** A transaction, and what its steps did, by the keys of their deeds. */
interface TransactionView {
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
export function transactionText({ transaction, deeds }: TransactionView): string {
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
function transactionView({ transaction, deeds }: TransactionView): Readonly<Record<string, unknown>> {
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
