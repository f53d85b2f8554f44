/**
 * What undoing actions would do, as pure functions: which can be undone, in which order, and which somebody else changed
 * since.
 *
 * A plan is in the order in which actions are undone, newest first. So when it is an action's turn, a place has the state
 * that the later actions of the plan restored there, if they did, and else its present state. Only where that is neither
 * what the action left nor what was there before it did somebody else change it.
 */
import { exactHash } from '../core/json/canonical-hash.ts'
import { isObject } from '../core/json/json.ts'
import { maskedArguments } from '../core/masked-arguments.ts'
import { oneLine } from '../core/text/escape.ts'
import { timeIn } from '../core/time/units.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { Action, ActionFilter, ActionStates, LeftState } from './actions.ts'
import { hasEnded, type Transaction } from './transactions.ts'

/** An action, and whether it can be undone. */
export interface Chosen {
  readonly action: Action
  /** How precisely it can be undone. */
  readonly how: 'exactly' | 'approximately' | 'not at all'
  /** Why it cannot be undone, or a caveat. */
  readonly why?: string
  /** Whether somebody else changed since what it left; absent if it cannot be undone, or its undo reads no state. */
  readonly present?: Present
}

/** Whether an action's turn will find what the action left, or what was there before it. */
type Present =
  | { readonly kind: 'as_left' }
  /** Something else changed it: the call that shows it, its hash, and the difference in lines, without what is masked. */
  | {
      readonly kind: 'changed'
      readonly read: string
      readonly hash: string
      readonly difference: readonly string[]
    }
  | { readonly kind: 'unknown'; readonly why: string }

/** What a read shows now where an action left a state, or why that is not known. */
export type PresentState =
  | {
      /** The hash of the parts that count for the action. */
      readonly hash: string
      /** The call that read it, for people. */
      readonly read: string
      /** How it differs from what the action left, in lines without what is masked. */
      readonly difference: readonly string[]
    }
  | { readonly unread: string }

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

/** Whether an action is undone: by force, also if somebody else changed since what it left. */
export function isToBeUndone({ how, present }: Pick<Chosen, 'how' | 'present'>, isForced = false): boolean {
  return how !== 'not at all' && (isForced || present?.kind !== 'changed')
}

/** Whether something can be said of the present state of an action that can be undone. */
export function hasLeftState({ how, action: { states } }: Chosen): boolean {
  return how !== 'not at all' && states?.left !== undefined && 'hash' in states.left
}

/**
 * Groups actions, newest first, into runs of one caller each. The groups are undone in order: an action of another
 * caller in between must be undone in between, or a restore would write a state from after it.
 */
export function partsOf<Item extends { readonly principal: { readonly id: string } }>(
  actions: readonly Item[],
): readonly (readonly Item[])[] {
  const parts: Item[][] = []
  for (const action of actions) {
    const part = parts.at(-1)
    if (part?.[0]?.principal.id === action.principal.id && part.length < MAX_ACTIONS_OF_PART)
      part.push(action)
    else parts.push([action])
  }
  return parts
}

/** How many actions a group has at most: the record of its transaction is written for each of them. */
const MAX_ACTIONS_OF_PART = 500

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

// Which actions somebody else changed since.

/** What the later actions of a plan do, which are undone before. */
interface Later {
  /** The state that a place has then; it is not certain where it is not known whether all of them will be undone. */
  readonly restored: Map<string, { readonly hash: string; readonly isCertain: boolean }>
  /** Each of them: what it names, and its place if that is among those. */
  readonly actions: {
    readonly upstream: string
    readonly names: readonly string[]
    readonly place?: string
  }[]
  /** How many names may still be compared. */
  comparisons: number
}

/** The same plan, newest first, with what is known of the present: `presentOf` has what reads show now, by the keys of actions. */
export function withPresent(
  plan: readonly Chosen[],
  presentOf: ReadonlyMap<string, PresentState>,
): readonly Chosen[] {
  const later: Later = { restored: new Map(), actions: [], comparisons: MAX_COMPARISONS }
  let left = MAX_DIFFERENCES_LENGTH
  return plan.map((chosen) => {
    if (chosen.how === 'not at all') return chosen
    const present = judge(chosen.action, presentOf.get(chosen.action.key), later)
    if (present?.kind !== 'changed') return { ...chosen, ...(present && { present }) }
    left -= present.difference.join('').length
    return { ...chosen, present: left < 0 ? { ...present, difference: [TOO_MANY_CHANGES] } : present }
  })
}

/** How many names are compared for a plan; of what is not compared any more, it cannot be told whether it has something in common. */
const MAX_COMPARISONS = 5_000_000
/** How long the differences of a plan are in all, in characters. */
const MAX_DIFFERENCES_LENGTH = 1024 * 1024
const TOO_MANY_CHANGES = 'The difference is not shown, because too much has changed.'

function judge(action: Action, now: PresentState | undefined, later: Later): Present | undefined {
  const { states, upstream } = action
  const names = namesOf(action)
  const left = states?.left
  if (!states || !left || 'unread' in left || !now || 'unread' in now) {
    later.actions.push({ upstream, names })
    return states && { kind: 'unknown', why: whyUnknown(left, now) }
  }
  const place = placeOf(action, now.hash)
  const known = later.restored.get(place)
  const hash = known?.hash ?? now.hash
  const isTouched = (): boolean =>
    later.actions.some((each) => {
      if (each.place === place || each.upstream !== upstream) return false
      later.comparisons -= each.names.length * names.length
      return later.comparisons < 0 || haveCommon(each.names, names)
    })
  const isSame = isAsLeft(hash, states)
  if (!isSame && !isTouched()) {
    const difference = known ? [CHANGED_BETWEEN] : now.difference
    return { kind: 'changed', read: now.read, hash, difference }
  }
  const isCertain = isSame && known?.isCertain !== false
  later.restored.set(place, { hash: states.before, isCertain })
  later.actions.push({ upstream, names, place })
  return isCertain ? { kind: 'as_left' } : { kind: 'unknown', why: CHANGED_LATER }
}

/** Whether a state is what an action left, or what was there before it. */
export function isAsLeft(hash: string, { left, before }: ActionStates): boolean {
  return hash === before || (left !== undefined && 'hash' in left && hash === left.hash)
}

function whyUnknown(left: LeftState | undefined, now: PresentState | undefined): string {
  if (!left) return 'what the call left was not read'
  if ('unread' in left) return left.unread
  return now && 'unread' in now ? now.unread : 'it was not read'
}

const CHANGED_LATER = 'later actions of this plan may have changed it too'
const CHANGED_BETWEEN =
  'It was changed before a later action of this plan, so the difference is not known yet.'

/**
 * A place with its present state: what a read shows of a server, and which parts of it. Callers who see different things have
 * different places.
 */
function placeOf({ upstream, states }: Action, hash: string): string {
  return exactHash([upstream, states?.tool, states?.arguments, states?.parts, hash])
}

/** What an action is about: the texts and numbers with which its state is read, or else those of both calls. */
function namesOf({ states, arguments: given, way }: Action): readonly string[] {
  return namesIn(states ? states.arguments : [given, 'tool' in way && way.arguments])
}

function namesIn(value: unknown, depth = 0): readonly string[] {
  if (typeof value === 'string') return value === '' ? [] : [value]
  if (typeof value === 'number') return [String(value)]
  if (depth > MAX_DEPTH || (!isObject(value) && !Array.isArray(value))) return []
  return Object.values(value).flatMap((each) => namesIn(each, depth + 1))
}

/** Whether undoing one action may change the state of another: both name a thing, or one in the other, or there is no name. */
function haveCommon(one: readonly string[], other: readonly string[]): boolean {
  if (one.length === 0 || other.length === 0) return true
  return one.some((name) => other.some((each) => isWithin(name, each) || isWithin(each, name)))
}

/** Whether a name is the other one, or a path in it. */
function isWithin(name: string, outer: string): boolean {
  return name.startsWith(outer) && !/^\w{2}/.test(`${outer.at(-1)}${name[outer.length] ?? ''}`)
}

const MAX_DEPTH = 16

// What became of a plan in the meantime.

/** What of an action is in a plan that is kept. */
export interface PlannedAction extends Pick<Action, 'key' | 'startedAt' | 'upstream' | 'tool'> {
  /** The caller. */
  readonly principal: { readonly id: string }
  readonly how: Chosen['how']
  readonly why?: string
  readonly present?: Present
}

/** What is kept of a plan. */
export function plannedActions(plan: readonly Chosen[]): readonly PlannedAction[] {
  return plan.map(({ action: { key, startedAt, upstream, tool, principal }, ...verdict }) => ({
    key,
    startedAt,
    upstream,
    tool,
    principal: { id: principal.id },
    ...verdict,
  }))
}

/** A difference of two plans. */
export interface PlanChange {
  readonly key: string
  readonly change: 'new' | 'gone' | 'other'
  /** One line for people. */
  readonly text: string
}

/** How a later plan differs from an earlier one. */
export function planChanges(
  before: readonly PlannedAction[],
  after: readonly PlannedAction[],
): readonly PlanChange[] {
  const [old, now] = [byKey(before), byKey(after)]
  const gone = before.filter(({ key }) => !now.has(key))
  const changes = after.flatMap((action): PlanChange[] => {
    const known = old.get(action.key)
    if (!known) return [changeOf(action, 'new', verdictText(action))]
    if (verdictOf(known) === verdictOf(action)) return []
    return [changeOf(action, 'other', `${verdictText(action)}; before: ${verdictText(known)}`)]
  })
  return [...changes, ...gone.map((action) => changeOf(action, 'gone', 'undone, or not kept any more'))]
}

function byKey(plan: readonly PlannedAction[]): ReadonlyMap<string, PlannedAction> {
  return new Map(plan.map((action) => [action.key, action]))
}

function changeOf(action: PlannedAction, change: PlanChange['change'], what: string): PlanChange {
  const { key, startedAt, principal, upstream, tool } = action
  const text = `${isoTime(startedAt)}  ${principal.id}  ${upstream}  ${tool}: ${what}`
  return { key, change, text: oneLine(text) }
}

/** What has to be the same when a plan is carried out. Why a state could not be read may be another reason each time. */
function verdictOf({ how, why, present }: PlannedAction): string {
  return JSON.stringify([how, why, present?.kind, present?.kind === 'changed' && present.hash])
}

function verdictText({ how, why, present }: PlannedAction): string {
  const known = present ? `, ${presentText[present.kind]}` : ''
  return how === 'not at all' ? `${how}: ${why}` : `${how}${known}`
}

const presentText: Readonly<Record<Present['kind'], string>> = {
  as_left: 'as it was left',
  changed: 'changed by something else since',
  unknown: 'cannot tell whether something else changed it since',
}

/** Why an action is not undone that something else changed since. */
export function changedSince(read: string, tool: string): string {
  return `Something else changed it since: ${read} does not show what ${tool} left, so nothing was undone.`
}

/** An action of a plan as JSON: without its secrets, and with the call that undoes it. */
export interface ChosenView {
  readonly key: string
  readonly at: string
  readonly principal: string
  readonly session: string | undefined
  readonly upstream: string
  readonly tool: string
  readonly arguments: Action['arguments']
  readonly transaction: string | undefined
  readonly status: Action['status']
  readonly undo: 'exactly' | 'approximately' | 'not_at_all'
  readonly reason: string | undefined
  readonly present: Present['kind'] | undefined
  /** Why it cannot be told whether something else changed it since. */
  readonly present_reason: string | undefined
  /** What something else changed since, in lines. */
  readonly difference: readonly string[] | undefined
  readonly call: { readonly tool: string; readonly arguments: unknown } | undefined
}

/**
 * What a person chooses to undo: since a time that is written as a duration or a date, or from an action on. Undefined if the time
 * cannot be read. What is done after now does not change the plan, unless it concerns the same things.
 */
export function rewindFilter(
  {
    since = '',
    from = '',
    upstream = '',
  }: Readonly<Record<'since' | 'from' | 'upstream', string | undefined>>,
  now: number,
): ActionFilter | undefined {
  const chosen = { until: now, ...(upstream !== '' && { upstream }) }
  if (from !== '') return { from, ...chosen }
  const at = timeIn(since, now)
  return at === undefined ? undefined : { since: at, ...chosen }
}

export function chosenView({ action, how, why, present }: Chosen): ChosenView {
  const { key, startedAt, principal, session, upstream, tool, transaction, status, way, secrets } = action
  return {
    key,
    at: isoTime(startedAt),
    principal: principal.id,
    session,
    upstream,
    tool,
    arguments: maskedArguments(action.arguments, secrets),
    transaction,
    status,
    undo: how === 'not at all' ? 'not_at_all' : how,
    reason: why,
    present: present?.kind,
    present_reason: present?.kind === 'unknown' ? present.why : undefined,
    difference: present?.kind === 'changed' ? present.difference : undefined,
    call:
      'tool' in way && how !== 'not at all'
        ? { tool: way.tool, arguments: maskedArguments(way.arguments, secrets) }
        : undefined,
  }
}
