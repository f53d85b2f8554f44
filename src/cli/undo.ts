/**
 * `gatehouse undo`: lists the actions since a time, newest first, and undoes them as one transaction for each
 * caller.
 */
import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline/promises'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { milliseconds } from '../core/time/units.ts'
import { openLog } from '../gateway/gateway.ts'
import { type Audit, audited, openSharedStore } from '../gateway/offline.ts'
import { type Action, Actions, type ActionFilter } from '../records/actions.ts'
import { type Transaction, transactionKey, type Transactions, hasEnded } from '../records/transactions.ts'
import { newUndoTransaction } from '../records/transitions.ts'
import type { Store } from '../store/store.ts'
import { parseWords, readSource, serverNamed, UsageError, userName } from './options.ts'
import {
  finishRollbacks,
  mustRollBack,
  transactionsIn,
  chosenText,
  chosenView,
  countText,
  type Undone,
  undoneText,
  type Chosen,
} from './tx.ts'

/** What the command can be told. */
const known = {
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

/** `gatehouse undo --since WHEN`: shows what was done and how it can be undone, the last thing first; then undoes it. */
export async function undo(args: readonly string[]): Promise<number> {
  const told = read(args, Date.now())
  const { settings } = readSource({ ...told, isForStore: true })
  if (told.wanted.upstream !== undefined) serverNamed(told.wanted.upstream, settings)
  const log = openLog('warn', process.stderr.isTTY)
  const store = await openSharedStore(settings, log)
  try {
    const whole = (): Settings => readSource({ config: told.config, envFile: told.envFile }).settings
    return await act(told, { settings, whole, store, log })
  } finally {
    await store.close()
  }
}

interface Around {
  readonly settings: Settings
  /** With what servers need. @throws ConfigError */
  whole(): Settings
  readonly store: Store
  readonly log: Log
}

async function act(told: Told, around: Around): Promise<number> {
  const repository = transactionsIn(around.store, around.settings)
  const deeds = new Actions(around.store)
  const look = async (): Promise<readonly Chosen[]> => {
    const found = await deeds.list(told.wanted)
    const transactions = await repository.list()
    return choose(
      found,
      transactions.map(({ transaction }) => transaction),
    )
  }
  const chosen = await look()
  const open = chosen.filter(canBeUndone)
  if (!told.isJson) print(listing(chosen))
  if (open.length === 0 || told.isDry) return told.isJson ? print(json(chosen)) : 0
  mustRollBack(around.settings)
  if (!told.isSure && !(await isAgreed(open.length))) return 1
  const undone = await audited(around.settings, around.log, (audit) =>
    undoReserved(open, { ...around, repository, deeds, look, audit }),
  )
  print(told.isJson ? json(chosen, undone) : undone.map(undoneText).join('\n'))
  return undone.some(({ error }) => error !== undefined) ? 1 : 0
}

function canBeUndone({ how }: Chosen): boolean {
  return how !== 'not at all'
}

function listing(chosen: readonly Chosen[]): string {
  if (chosen.length === 0) return 'Nothing was done in that time that is not undone.'
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

async function isAgreed(count: number): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UsageError('add --yes to undo what can be undone, or --dry-run to only see what that is')
  const asking = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await asking.question(`Undo ${count === 1 ? 'it' : `these ${count}`}? [y/N] `)
  asking.close()
  return /^y(es)?$/i.test(answer.trim())
}

interface UndoContext extends Around {
  readonly repository: Transactions
  readonly deeds: Actions
  /** What there is to undo just then. */
  look(): Promise<readonly Chosen[]>
  /** Where one is kept. */
  readonly audit: Audit | undefined
}

/** Undoes actions that no other process has begun to undo meanwhile. */
async function undoReserved(open: readonly Chosen[], context: UndoContext): Promise<Undone[]> {
  const { deeds } = context
  const keys = open.map(({ deed }) => deed.key)
  const free = await Promise.all(keys.map(async (key) => ((await deeds.reserve(key)) ? [key] : [])))
  const reserved = new Set(free.flat())
  try {
    // Looked at again once it is reserved: it may have been undone just before.
    const left = (await context.look()).filter((each) => canBeUndone(each) && reserved.has(each.deed.key))
    const ended = await undoAll(left, context)
    return open.map((chosen) => {
      const isLeft = left.some(({ deed }) => deed.key === chosen.deed.key)
      const error = isLeft ? failureOf(chosen.deed, ended) : 'another process undoes it, or has done so'
      return { chosen, ...(error !== undefined && { error }) }
    })
  } finally {
    await Promise.all([...reserved].map((key) => deeds.release(key)))
  }
}

/** Undoes things, the last one first. */
function undoAll(
  left: readonly Chosen[],
  { whole, log, repository, audit }: UndoContext,
): Promise<readonly Transaction[]> {
  const parts = partsOf(left.map(({ deed }) => deed))
  const begins = parts.map((deeds) => async (): Promise<string> => {
    const id = `undo-${randomBytes(8).toString('hex')}`
    const by = userName()
    const transaction = newUndoTransaction(deeds, { id, by: `gatehouse undo by ${by}`, now: Date.now() })
    await repository.open(transaction)
    const { id: caller } = transaction.principal
    audit?.ordered({ order: 'undo', by, transaction: id, caller })
    return transactionKey(caller, id)
  })
  return finishRollbacks(begins, { whole, repository, log, audit })
}

/** Why something was not undone. */
function failureOf({ key }: Action, ended: readonly Transaction[]): string | undefined {
  for (const { steps, compensations } of ended) {
    const step = steps.find(({ deed }) => deed === key)
    if (!step) continue
    const end = compensations.find((each) => each.step === step.id)
    if (end?.status === 'compensated') return undefined
    if (end) return isObject(end.error) ? `${String(end.error['message'])}` : 'it failed'
    return 'it is not done yet: see gatehouse tx list'
  }
  return 'it was not begun, as the others took too long: run it again'
}

interface Told {
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly wanted: ActionFilter
  readonly isDry: boolean
  readonly isSure: boolean
  readonly isJson: boolean
}

function read(args: readonly string[], now: number): Told {
  const { values, positionals } = parseWords(args, known)
  const { config, 'env-file': envFile, since, until, session, upstream } = values
  if (positionals.length > 0) throw new UsageError(`"${positionals[0]}" has no meaning here`)
  if (since === undefined) throw new UsageError('say since when, such as --since 10m')
  const from = timeOf(since, '--since', now)
  const to = until === undefined ? undefined : timeOf(until, '--until', now)
  if (from > now) throw new UsageError('--since is in the future')
  if (to !== undefined && to < from) throw new UsageError('--until is before --since')
  return {
    config,
    envFile,
    wanted: {
      since: from,
      ...(to !== undefined && { until: to }),
      ...(session !== undefined && { session }),
      ...(upstream !== undefined && { upstream }),
    },
    isDry: values['dry-run'] ?? false,
    isSure: values.yes ?? false,
    isJson: values.json ?? false,
  }
}

/** A time ago such as `10m`, or a time such as `2026-11-21T10:00Z`, in milliseconds since 1970. */
function timeOf(text: string, option: string, now: number): number {
  if (/^\d{4}-\d\d-\d\d/.test(text)) {
    const at = Date.parse(text)
    if (!Number.isNaN(at)) return at
  }
  try {
    return now - milliseconds(text)
  } catch {
    throw new UsageError(`${option} is a time ago such as 10m or 2h, or a time such as 2026-11-21T10:00Z`)
  }
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

// Decides which actions `gatehouse undo` can undo and in which parts. Pure.

/** What can be undone of some deeds; what is undone already, or came to nothing, is left out. */
export function choose(deeds: readonly Action[], transactions: readonly Transaction[]): readonly Chosen[] {
  const holders = holdersOf(transactions)
  return deeds.flatMap((deed): Chosen[] => {
    const { status, way, undoneAt } = deed
    if (undoneAt !== undefined || status === 'failed' || way.kind === 'nothing') return []
    const found = holders.get(deed.key) ?? []
    if (found.some((each) => isUndone(each, deed))) return []
    const why = hindrance(deed, found)
    if (why !== undefined) return [{ deed, how: 'not at all', why }]
    if (way.kind === 'none') return [{ deed, how: 'not at all', why: way.reason }]
    const how = way.kind === 'exact' ? 'exactly' : 'approximately'
    return [{ deed, how, ...(status !== 'ok' && { why: 'it is unknown whether it was done' }) }]
  })
}

/**
 * Deeds, the last one first, in parts of one caller each, to be undone one part after the other: what another caller
 * did in between is undone in between, else what is put back would be what was there later.
 */
export function partsOf(deeds: readonly Action[]): readonly (readonly Action[])[] {
  const parts: Action[][] = []
  for (const deed of deeds) {
    const part = parts.at(-1)
    if (part?.[0]?.principal.id === deed.principal.id) part.push(deed)
    else parts.push([deed])
  }
  return parts
}

/** The transactions each deed is a step of: the one it was done in, and those that undid it. */
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

/** Why something must be left alone. */
function hindrance({ status, transaction }: Action, holders: readonly Transaction[]): string | undefined {
  const open = holders.find((each) => !hasEnded(each))
  if (open?.status === 'rolling_back') return 'it is being undone'
  if (open) return `its transaction is still open: see gatehouse tx rollback ${open.id}`
  const own = holders.find(({ id }) => id === transaction)
  if (own && own.status !== 'committed')
    return `its transaction was rolled back: see gatehouse tx show ${own.id}`
  return status === 'pending' ? 'it has not ended' : undefined
}
