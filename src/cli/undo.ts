/**
 * `gatehouse undo`: lists the actions since a time, newest first, and undoes them as one transaction for each
 * caller.
 */
import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../observability/log.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type Action, Actions, type ActionFilter } from '../records/actions.ts'
import { type Transaction, transactionKey, type Transactions, hasEnded } from '../records/transactions.ts'
import { newUndoTransaction } from '../records/transitions.ts'
import type { Store } from '../store/store.ts'
import { readWhole } from './config-file.ts'
import { readSource, serverNamed } from './options.ts'
import { type Io, print } from './io.ts'
import {
  finishRollbacks,
  requireTransactions,
  transactionsIn,
  chosenText,
  chosenView,
  countText,
  type Undone,
  undoneText,
  type Chosen,
} from './tx.ts'
import { parseWords, timeOf, UsageError, userName } from './words.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  since: { type: 'string' },
  until: { type: 'string' },
  session: { type: 'string' },
  upstream: { type: 'string' },
  'dry-run': { type: 'boolean' },
  yes: { type: 'boolean', short: 'y' },
  json: { type: 'boolean' },
} as const

/** `gatehouse undo --since WHEN`: lists actions and how each can be undone, newest first, and then undoes them. */
export async function undo(args: readonly string[], io: Io): Promise<number> {
  const options = parse(args, Date.now())
  const settings = await readWhole(options, io)
  if (options.filter.upstream !== undefined) serverNamed(options.filter.upstream, settings)
  const log = openLog('warn', io)
  const store = await openSharedStore(settings, log)
  try {
    const whole = async (): Promise<Settings> =>
      readSource({ config: options.config, envFile: options.envFile }, io).settings
    return await act(options, { io, settings, whole, store, log })
  } finally {
    await store.close()
  }
}

interface Services {
  readonly io: Io
  readonly settings: Settings
  /** The complete configuration, including the secrets of servers. @throws ConfigError */
  whole(): Promise<Settings>
  readonly store: Store
  readonly log: Log
}

async function act(options: UndoOptions, services: Services): Promise<number> {
  const { io } = services
  const repository = transactionsIn(services.store, services.settings)
  const actions = new Actions(services.store)
  const findActions = async (): Promise<readonly Chosen[]> => {
    const found = await actions.list(options.filter)
    const transactions = await repository.list()
    return choose(
      found,
      transactions.map(({ transaction }) => transaction),
    )
  }
  const chosen = await findActions()
  const open = chosen.filter(canBeUndone)
  if (!options.isJson) print(listing(chosen), io)
  if (open.length === 0 || options.isDry) {
    if (options.isJson) print(json(chosen), io)
    return 0
  }
  requireTransactions(services.settings)
  if (!options.isConfirmed && !(await isConfirmed(open.length, io))) return 1
  const undone = await audited(services.settings, services.log, (audit) =>
    undoReserved(open, { ...services, repository, actions, findActions, audit }),
  )
  print(options.isJson ? json(chosen, undone) : undone.map(undoneText).join('\n'), io)
  return undone.some(({ error }) => error !== undefined) ? 1 : 0
}

function canBeUndone({ how }: Chosen): boolean {
  return how !== 'not at all'
}

function listing(chosen: readonly Chosen[]): string {
  if (chosen.length === 0) return 'No actions to undo in that time.'
  return [...chosen.map(chosenText), '', countText(chosen)].join('\n')
}

function json(chosen: readonly Chosen[], undone: readonly Undone[] = []): string {
  const views = chosen.map((each) => {
    const end = undone.find((other) => other.chosen === each)
    if (!end) return chosenView(each)
    return {
      ...chosenView(each),
      undone: end.error === undefined,
      ...(end.error !== undefined && { error: end.error }),
    }
  })
  return JSON.stringify({ deeds: views }, null, 2)
}

async function isConfirmed(count: number, { stdin, stderr }: Io): Promise<boolean> {
  if (!stdin.isTTY) throw new UsageError('add --yes to undo the actions, or --dry-run to only list them')
  const terminal = createInterface({ input: stdin, output: stderr })
  const answer = await terminal.question(
    `Undo ${count === 1 ? 'this action' : `these ${count} actions`}? [y/N] `,
  )
  terminal.close()
  return /^y(es)?$/i.test(answer.trim())
}

interface UndoContext extends Services {
  readonly repository: Transactions
  readonly actions: Actions
  /** The actions that match, with their current state. */
  findActions(): Promise<readonly Chosen[]>
  /** The audit log, if one is configured. */
  readonly audit: Audit | undefined
}

/** Undoes the actions that no other process is undoing. */
async function undoReserved(open: readonly Chosen[], context: UndoContext): Promise<Undone[]> {
  const { actions } = context
  const keys = open.map(({ action }) => action.key)
  const free = keys.map(async (key) => [key, await actions.reserve(key)] as const)
  const reserved = new Map(await Promise.all(free))
  const isReserved = ({ key }: Action): boolean => reserved.get(key)?.isHeld === true
  try {
    // Read again after the reservation: another process may have undone them just before.
    const left = (await context.findActions()).filter((each) => canBeUndone(each) && isReserved(each.action))
    const ended = await undoAll(left, isReserved, context)
    return open.map((chosen) => {
      const isLeft = left.some(({ action }) => action.key === chosen.action.key)
      const error = isLeft
        ? failureOf(chosen.action, ended)
        : 'another process is undoing it, or has undone it'
      return { chosen, ...(error !== undefined && { error }) }
    })
  } finally {
    await Promise.all([...reserved.values()].map(async (lease) => lease?.release()))
  }
}

/** Undoes actions, newest first: those of each caller once those of the callers before are undone, if still reserved. */
function undoAll(
  left: readonly Chosen[],
  isReserved: (action: Action) => boolean,
  { io, whole, log, repository, audit }: UndoContext,
): Promise<readonly Transaction[]> {
  const parts = partsOf(left.map(({ action }) => action))
  const begins = parts.map((part) => async (): Promise<string | undefined> => {
    const actions = part.filter(isReserved)
    if (actions.length === 0) return undefined
    const id = `undo-${randomBytes(8).toString('hex')}`
    const by = userName()
    const transaction = newUndoTransaction(actions, { id, by: `gatehouse undo by ${by}`, now: Date.now() })
    await repository.open(transaction)
    const { id: caller } = transaction.principal
    audit?.ordered({ order: 'undo', by, transaction: id, caller })
    return transactionKey(caller, id)
  })
  return finishRollbacks(begins, { io, whole, repository, log, audit })
}

/** Why an action was not undone. */
function failureOf({ key }: Action, ended: readonly Transaction[]): string | undefined {
  for (const { steps, compensations } of ended) {
    const step = steps.find(({ deed }) => deed === key)
    if (!step) continue
    const end = compensations.find((each) => each.step === step.id)
    if (end?.status === 'compensated') return undefined
    if (end) return isObject(end.error) ? `${String(end.error['message'])}` : 'the compensation failed'
    return 'it has not finished: see gatehouse tx list'
  }
  return 'it was not started, because the others took too long: run the command again'
}

interface UndoOptions {
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly filter: ActionFilter
  readonly isDry: boolean
  readonly isConfirmed: boolean
  readonly isJson: boolean
}

function parse(args: readonly string[], now: number): UndoOptions {
  const { values, positionals } = parseWords(args, optionTypes)
  const { config, 'env-file': envFile, since, until, session, upstream } = values
  if (positionals.length > 0) throw new UsageError(`unexpected argument "${positionals[0]}"`)
  if (since === undefined) throw new UsageError('--since is required, such as --since 10m')
  const from = timeOf(since, '--since', now)
  const to = until === undefined ? undefined : timeOf(until, '--until', now)
  if (from > now) throw new UsageError('--since is in the future')
  if (to !== undefined && to < from) throw new UsageError('--until is before --since')
  return {
    config,
    envFile,
    filter: {
      since: from,
      ...(to !== undefined && { until: to }),
      ...(session !== undefined && { session }),
      ...(upstream !== undefined && { upstream }),
    },
    isDry: values['dry-run'] ?? false,
    isConfirmed: values.yes ?? false,
    isJson: values.json ?? false,
  }
}

// Selects the actions that `gatehouse undo` can undo, and groups them. Pure functions.

/** How each action can be undone; actions that are already undone, failed or had no effect are left out. */
export function choose(actions: readonly Action[], transactions: readonly Transaction[]): readonly Chosen[] {
  const holders = holdersOf(transactions)
  return actions.flatMap((action): Chosen[] => {
    const { status, way, undoneAt } = action
    if (undoneAt !== undefined || status === 'failed' || way.kind === 'nothing') return []
    const found = holders.get(action.key) ?? []
    if (found.some((each) => isUndone(each, action))) return []
    const why = obstacleOf(action, found)
    if (why !== undefined) return [{ action, how: 'not at all', why }]
    if (way.kind === 'none') return [{ action, how: 'not at all', why: way.reason }]
    const how = way.kind === 'exact' ? 'exactly' : 'approximately'
    return [{ action, how, ...(status !== 'ok' && { why: 'it is unknown whether it took effect' }) }]
  })
}

/**
 * Groups actions, newest first, into runs of one caller each. The groups are undone in order: an action of another
 * caller in between must be undone in between, or a restore would write a state from after it.
 */
export function partsOf(actions: readonly Action[]): readonly (readonly Action[])[] {
  const parts: Action[][] = []
  for (const action of actions) {
    const part = parts.at(-1)
    if (part?.[0]?.principal.id === action.principal.id) part.push(action)
    else parts.push([action])
  }
  return parts
}

/** The transactions each action is a step of: its own, and those that undid it. */
function holdersOf(transactions: readonly Transaction[]): ReadonlyMap<string, readonly Transaction[]> {
  const holders = new Map<string, Transaction[]>()
  for (const transaction of transactions) {
    for (const { deed } of transaction.steps) {
      holders.set(deed, [...(holders.get(deed) ?? []), transaction])
    }
  }
  return holders
}

function isUndone({ steps, compensations }: Transaction, { key }: Action): boolean {
  const step = steps.find(({ deed }) => deed === key)
  return compensations.some((each) => each.step === step?.id && each.status === 'compensated')
}

/** Why an action cannot be undone now. */
function obstacleOf({ status, transaction }: Action, holders: readonly Transaction[]): string | undefined {
  const open = holders.find((each) => !hasEnded(each))
  if (open?.status === 'rolling_back') return 'it is being undone'
  if (open) return `its transaction is still open: see gatehouse tx rollback ${open.id}`
  const origin = holders.find(({ id }) => id === transaction)
  if (origin && origin.status !== 'committed')
    return `its transaction was rolled back: see gatehouse tx show ${origin.id}`
  return status === 'pending' ? 'it has not finished' : undefined
}
