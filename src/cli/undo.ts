/**
 * `gatehouse undo`: lists the actions since a time, newest first, and undoes them as one transaction for each
 * caller.
 */
import { randomBytes } from 'node:crypto'
import { isObject } from '../core/json/json.ts'
import { oneLine } from '../core/text/escape.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type Action, Actions } from '../records/actions.ts'
import {
  type Transaction,
  transactionKey,
  type Transactions,
  transactionsIn,
  hasEnded,
} from '../records/transactions.ts'
import { newUndoTransaction } from '../records/transitions.ts'
import { confirmed } from './ask.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readWhole, unknownServer, userName, withAudit, withStore } from './config-file.ts'
import { type Io, print } from './io.ts'
import { type Output } from './output.ts'
import {
  finishRollbacks,
  requireTransactions,
  chosenText,
  chosenView,
  differenceOf,
  sumText,
  type Undone,
  undoneText,
  type Chosen,
} from './tx.ts'

type UndoOptions = Given<typeof commands.undo>

/** `gatehouse undo --since WHEN`: lists actions and how each can be undone, newest first, and then undoes them. */
export async function undo(given: UndoOptions, io: Io): Promise<Output> {
  const { since, until, session, upstream, json: isJson } = given
  if (since > Date.now()) throw new UsageError('--since is in the future')
  if (until !== undefined && until < since) throw new UsageError('--until is before --since')
  const settings = await readWhole(given, io)
  const servers = settings.upstreams.map(({ name }) => name)
  if (upstream !== undefined && !servers.includes(upstream)) throw unknownServer(upstream, servers)
  return withStore(settings, io, async (store) => {
    const repository = transactionsIn(store, settings)
    const actions = new Actions(store)
    const findActions = async (): Promise<readonly Chosen[]> => {
      const found = await actions.list({
        since,
        ...(until !== undefined && { until }),
        ...(session !== undefined && { session }),
        ...(upstream !== undefined && { upstream }),
      })
      const transactions = await repository.list()
      return choose(
        found,
        transactions.map(({ transaction }) => transaction),
      )
    }
    const chosen = await findActions()
    const open = chosen.filter(canBeUndone)
    const text = listing(chosen, given)
    if (open.length === 0 || given.dryRun) return { json: views(chosen), text }
    if (!isJson) print(text, io)
    requireTransactions(settings)
    const question = `Undo ${open.length === 1 ? 'this action' : `these ${open.length} actions`}?`
    const advice = 'add --yes to undo the actions, or --dry-run to only list them'
    if (!given.yes && !(await confirmed(question, advice, io))) return 1
    const undone = await withAudit(settings, io, (audit) =>
      undoReserved(open, { given, io, repository, actions, findActions, audit }),
    )
    return {
      json: views(chosen, undone),
      text: [...undone.map(undoneText), ...forceAdvice(undone)].join('\n'),
      code: undone.some(({ error }) => error !== undefined) ? 1 : 0,
    }
  })
}

/** What to do about actions that were not undone because something else changed the state since. */
function forceAdvice(undone: readonly Undone[]): string[] {
  if (!undone.some(({ difference }) => difference)) return []
  return ['To undo them anyway, which overwrites those changes, repeat the command with --force.']
}

function canBeUndone({ how }: Chosen): boolean {
  return how !== 'not at all'
}

function listing(chosen: readonly Chosen[], given: UndoOptions): string {
  if (chosen.length === 0) return 'No actions to undo in that time.'
  return [...chosen.map(chosenText), '', sumText(chosen), ...planAdvice(chosen, given)].join('\n')
}

/** The command for each server that shows how to undo the tools of actions that have no undo. */
export function planAdvice(
  chosen: readonly Chosen[],
  { config }: Pick<UndoOptions, 'config'>,
): readonly string[] {
  const without = chosen.filter(({ how, action: { way } }) => {
    return how === 'not at all' && way.kind === 'none' && way.isUnconfigured === true
  })
  const option = config === undefined ? '' : ` --config ${config}`
  return [...Map.groupBy(without, ({ action }) => action.upstream)].map(([upstream, each]) => {
    const tools = [...new Set(each.map(({ action }) => action.tool))].join(', ')
    return oneLine(
      `${upstream}: gatehouse plan ${upstream}${option} shows whether other tools undo ${tools}. With --write, it adds what is certain, for later calls.`,
    )
  })
}

function views(chosen: readonly Chosen[], undone: readonly Undone[] = []): object {
  const deeds = chosen.map((each) => {
    const end = undone.find((other) => other.chosen === each)
    if (!end) return chosenView(each)
    const { error, state, difference } = end
    return { ...chosenView(each), undone: error === undefined, state, error, difference }
  })
  return { deeds }
}

interface Undoing {
  readonly given: UndoOptions
  readonly io: Io
  readonly repository: Transactions
  readonly actions: Actions
  /** The actions that match, with their current state. */
  findActions(): Promise<readonly Chosen[]>
  /** The audit log, if one is configured. */
  readonly audit: Audit | undefined
}

/** Undoes the actions that no other process is undoing. */
async function undoReserved(open: readonly Chosen[], context: Undoing): Promise<Undone[]> {
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
      return isLeft
        ? { chosen, ...endOf(chosen.action, ended) }
        : { chosen, error: 'another process is undoing it, or has undone it' }
    })
  } finally {
    await Promise.all([...reserved.values()].map(async (lease) => lease?.release()))
  }
}

/** Undoes actions, newest first: those of each caller once those of the callers before are undone, if still reserved. */
function undoAll(
  left: readonly Chosen[],
  isReserved: (action: Action) => boolean,
  { given: { config, envFile, force }, io, repository, audit }: Undoing,
): Promise<readonly Transaction[]> {
  const parts = partsOf(left.map(({ action }) => action))
  const begins = parts.map((part) => async (): Promise<string | undefined> => {
    const actions = part.filter(isReserved)
    if (actions.length === 0) return undefined
    const id = `undo-${randomBytes(8).toString('hex')}`
    const by = userName()
    const transaction = newUndoTransaction(actions, {
      id,
      by: `gatehouse undo by ${by}`,
      now: Date.now(),
      isForced: force,
    })
    await repository.open(transaction)
    const { id: caller } = transaction.principal
    audit?.ordered({ order: 'undo', by, ...(force && { force }), transaction: id, caller })
    return transactionKey(caller, id)
  })
  return finishRollbacks(begins, { config, envFile, io, repository, audit })
}

/** What became of an action: why it was not undone, or what the state is after it was. */
function endOf({ key }: Action, ended: readonly Transaction[]): Omit<Undone, 'chosen'> {
  for (const { steps, compensations } of ended) {
    const step = steps.find(({ deed }) => deed === key)
    if (!step) continue
    const end = compensations.find((each) => each.step === step.id)
    if (!end) return { error: 'it has not finished: see gatehouse tx list' }
    if (end.status === 'compensated') return { ...(end.state && { state: end.state }) }
    const error = isObject(end.error) ? `${String(end.error['message'])}` : 'the compensation failed'
    const difference = differenceOf(end)
    return { error, ...(difference.length > 0 && { difference }) }
  }
  return { error: 'it was not started, because the others took too long: run the command again' }
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
