/** Actions in the store: calls that changed something, and their compensations. Keys sort by time. */
import { world } from '../core/world.ts'
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import type { Step } from '../core/json/path.ts'
import { Slot } from '../core/slot.ts'
import { type Lease, Leases } from '../durable/lease.ts'
import type { Store } from '../store/store.ts'
import type { KeptArgument } from './kept-arguments.ts'
import type { StoredPrincipal } from './principal.ts'
import { Collection, hasMembers, type RecordKind } from '../durable/collection.ts'

/** A call that changed something, and its compensation. Stored under `deed/…` as JSON; times are milliseconds since 1970. */
export interface Action {
  readonly key: string
  readonly startedAt: number
  /** A clock of its process alone: which of the actions of one millisecond began first. */
  readonly tick?: number
  readonly endedAt?: number
  readonly principal: StoredPrincipal
  /** The client's session, if its revision has sessions. */
  readonly session?: string
  readonly upstream: string
  /** The tool's name on its server, and the arguments of the call, for display: references as the caller wrote them. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The names of arguments, of the call and of the one that undoes it, that are secrets by a schema, and are not shown. */
  readonly secrets?: readonly string[]
  /** The trace of the call (W3C `traceparent`), and its id in logs, errors and the audit log. */
  readonly trace?: string
  readonly request?: string
  /** The transaction and step that the call belongs to. */
  readonly transaction?: string
  readonly step?: string
  /** `pending` while the server processes it. If it stays pending after its gateway ended, the outcome is unknown. */
  readonly status: 'pending' | 'ok' | 'failed' | 'unknown'
  readonly way: Compensation
  /** What a read shows of the state that the undo restores; absent if nothing was read before the call. */
  readonly states?: ActionStates
  /** When it was undone. */
  readonly undoneAt?: number
  /** A person found out what became of it, though the record says that this is unknown. */
  readonly acknowledged?: { readonly by: string; readonly at: number }
}

/** How long a call may be recorded as unknown while it runs, in milliseconds. */
const MAX_RUNNING_MS = 300_000

/**
 * Whether it is unknown what became of an action, and nobody has found out. One that runs is recorded as unknown, so that it is
 * after a crash; a step is a matter of its transaction.
 */
function isInDoubt(
  { status, transaction, undoneAt, acknowledged, endedAt, startedAt }: Action,
  now: number,
): boolean {
  if (status !== 'unknown' || transaction !== undefined) return false
  if (undoneAt !== undefined || acknowledged !== undefined) return false
  return endedAt !== undefined || now - startedAt > MAX_RUNNING_MS
}

/** The states before and after a call, as a read shows them: later ones are compared with them. */
export interface ActionStates {
  /** The call that reads. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** Where in its result the data of the undo is; without any, the whole result counts. */
  readonly parts: readonly (readonly Step[])[]
  /** The hash of the state before the call; `ABSENT` if there was nothing. */
  readonly before: string
  /** The state that the call left; absent if it was not read. */
  readonly left?: LeftState
}

/** The state that a call left: its hash or `ABSENT`, and the result of the read as JSON unless it is too long; or why it is unknown. */
export type LeftState = { readonly hash: string; readonly text?: string } | { readonly unread: string }

/** In place of the hash of a state: there is nothing. */
export const ABSENT = 'absent'

/** Whether the state is the old one after an undo; `unknown` if nothing can be read, or the read failed. */
export type StateAfterUndo = 'old' | 'other' | 'unknown'

/** The action that a compensating call undoes. */
export interface UndoOrder {
  readonly action: Action
  /** Whether it overwrites what others changed since. */
  readonly isForced: boolean
  /** Gets what the state is after the undo. */
  found(state: StateAfterUndo): void
}

/** Set on calls that undo an action. */
export const undoOrderSlot = new Slot<UndoOrder>('undo order')

/** How an action is undone: by a call, exactly or approximately, or not at all. */
export type Compensation =
  | {
      readonly kind: 'exact' | 'approximate'
      readonly tool: string
      readonly arguments: Readonly<Record<string, unknown>>
      /** The arguments whose data is kept beside the record. */
      readonly kept?: readonly KeptArgument[]
      readonly description: string
    }
  /** The call only read. */
  | { readonly kind: 'nothing' }
  | {
      readonly kind: 'none'
      readonly reason: string
      /** Its tool had no rule for that. */
      readonly isUnconfigured?: true
    }

/** Filters a list of actions; all given conditions must match. Times are milliseconds since 1970, both inclusive. */
export interface ActionFilter {
  readonly since?: number
  /** The key or the request id of an action: it matches, and so does what began after it. */
  readonly from?: string
  readonly until?: number
  readonly session?: string
  /** `Principal.id`. */
  readonly principal?: string
  readonly upstream?: string
}

/** The maximum length of an action as JSON text, in characters. */
const MAX_ACTION_LENGTH = 1024 * 1024

/** The compensation of an action whose undo data is too large to be stored. */
export const tooLarge: Compensation = {
  kind: 'none',
  reason: `the data needed to undo it is larger than ${MAX_ACTION_LENGTH / 1024 / 1024} MB`,
}

/** A key for an action that starts now. Keys sort by time and cannot be guessed. */
export function newActionKey(now: number): string {
  return `${now.toString(16).padStart(12, '0')}-${world.randomUUID()}`
}

/** An action as it is stored: marked as having all digits of its numbers, which 0.3.0 rounded. */
export function encodeAction(action: Action): string {
  const text = `${JSON.stringify(action).slice(0, -1)},"exact":true}`
  return text.length <= MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH
    ? text
    : JSON.stringify({ ...withinMaxLength(action), exact: true })
}

/** An action as text, which is kept for `ttl` milliseconds. */
export interface EncodedAction {
  readonly key: string
  readonly text: string
  readonly ttl: number
}

/** The actions in the store. */
export class Actions {
  readonly #store: Store
  readonly #kept: Collection<Action>

  constructor(store: Store) {
    this.#store = store
    this.#kept = new Collection(store, actionKind)
  }

  /**
   * Stores an action; it is durable once this resolves. An action that is too large loses its arguments, which are
   * for display only, and then its compensation. `ttl` is in milliseconds.
   */
  async put(action: Action, ttl: number): Promise<void> {
    await this.#kept.put(action.key, action, ttl)
  }

  /** Stores actions that are encoded already, then removes others. */
  async putAll(actions: readonly EncodedAction[], removed: readonly string[]): Promise<void> {
    const values = actions.map(({ key, text, ttl }) => ({ key: this.#kept.keyOf(key), value: text, ttl }))
    await this.#store.putAll(
      values,
      removed.map((key) => this.#kept.keyOf(key)),
    )
  }

  /** Sets how long an action is still kept, in milliseconds from now. */
  keep(key: string, ttl: number): Promise<void> {
    return this.#kept.extend(key, ttl)
  }

  find(key: string): Promise<Action | undefined> {
    return this.#kept.get(key)
  }

  /** Of several keys, those that are still stored, with their actions. */
  async findAll(keys: readonly string[]): Promise<ReadonlyMap<string, Action>> {
    const found = await Promise.all(keys.map((key) => this.find(key)))
    return new Map(found.flatMap((action) => (action ? [[action.key, action] as const] : [])))
  }

  async remove(key: string): Promise<void> {
    await this.#kept.remove(key)
  }

  /** The actions that match a filter, the newest first. @throws RESOURCE_NOT_FOUND if there is no action `from` */
  async list({ from, ...filter }: ActionFilter = {}): Promise<readonly Action[]> {
    const all = await this.#kept.all()
    const found = all.filter((action) => matchesFilter(action, filter)).toSorted(newestFirst)
    if (from === undefined) return found
    const first = all
      .filter(({ key, request }) => key === from || request === from)
      .toSorted(newestFirst)
      .at(-1)
    if (!first) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such action.')
    return found.filter((each) => newestFirst(each, first) <= 0)
  }

  /** Those whose outcome is unknown, the newest first; `now` is in milliseconds since 1970. */
  async inDoubt(now: number): Promise<readonly Action[]> {
    const found = await this.#kept.list(undefined, (text) => text.includes('"status":"unknown"'))
    return [...found.values()]
      .filter((action) => isInDoubt(action, now))
      .toSorted((one, other) => other.startedAt - one.startedAt)
  }

  /** Records that a person found out what became of an action; false if it is not stored any more. */
  async acknowledge(key: string, by: string, at: number): Promise<boolean> {
    const known = (before: Action | undefined): Action | 'keep' =>
      before ? { ...before, acknowledged: { by, at } } : 'keep'
    return (await this.#kept.update(key, known, ACKNOWLEDGED_TTL_MS)) !== undefined
  }

  /**
   * Reserves an action for undoing; undefined if another process has done so, unless it ended and `isPatient` waits until its
   * reservation is over.
   */
  reserve(key: string, isPatient = false): Promise<Lease | undefined> {
    const timeout = isPatient ? RESERVATION_TTL_MS : 0
    return new Leases(this.#store).acquireWithin(`undo:${key}`, RESERVATION_TTL_MS, timeout)
  }

  /**
   * Records the state that an action left, if the action is still stored. `ttl` is in milliseconds. Resolves with the length
   * of its text, 0 without one.
   */
  async recordLeft(key: string, left: LeftState, ttl: number): Promise<number> {
    let length = 0
    const changed = (before: Action | undefined): Action | 'keep' => {
      length = 0
      if (!before?.states) return 'keep'
      const action = { ...before, states: { ...before.states, left } }
      length = encodeAction(action).length
      return action
    }
    await this.#kept.update(key, changed, ttl)
    return length
  }

  /** Records that an action was undone; false if the action is no longer stored. `ttl` is in milliseconds. */
  async markUndone(key: string, at: number, ttl: number): Promise<boolean> {
    const undone = (before: Action | undefined): Action | 'keep' =>
      before ? { ...before, undoneAt: at } : 'keep'
    const action = await this.#kept.update(key, undone, ttl)
    return action !== undefined
  }
}

const actionKind: RecordKind<Action> = {
  name: 'action',
  prefix: 'deed/',
  encode: encodeAction,
  decode: readAction,
}

/** How long an action stays reserved whose process ended, in milliseconds. */
const RESERVATION_TTL_MS = 30_000

/** How long an action is kept after a person found out what became of it, in milliseconds. */
const ACKNOWLEDGED_TTL_MS = 7 * 86_400_000

/** Whether a compensation is small enough to be stored with its action. */
export function isKeepable(compensation: Compensation): boolean {
  return JSON.stringify(compensation).length <= MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH
}

/** How long an action is besides its arguments and its compensation, at most, in characters. */
const METADATA_MARGIN_LENGTH = 16 * 1024

function withinMaxLength(given: Action): Action {
  const action = withoutLeftText(given)
  if (!isKeepable(action.way)) return withinMaxLength({ ...action, way: tooLarge })
  const left = MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH - JSON.stringify(action.way).length
  return JSON.stringify(action.arguments).length <= left ? action : { ...action, arguments: {} }
}

/** Without the text of the state that it left, which is only needed to show a difference. */
function withoutLeftText(action: Action): Action {
  const { states } = action
  if (!states?.left || !('text' in states.left)) return action
  return { ...action, states: { ...states, left: { hash: states.left.hash } } }
}

function readAction(text: string): Action | undefined {
  const value = readJson(text)
  if (!isAction(value) || !states.includes(value.status) || !isCompensation(value.way)) return undefined
  const { exact, states: known, ...rest } = value
  const action = { ...rest, ...(isStates(known) && { states: known }) }
  return exact !== true && mayBeRounded(action.way) ? { ...action, way: rounded } : action
}

/** The order in which actions are listed and undone. */
export function newestFirst(one: Action, other: Action): number {
  const [tick = 0, otherTick = 0] = [one.tick, other.tick]
  if (one.key === other.key) return 0
  return other.startedAt - one.startedAt || otherTick - tick || (one.key < other.key ? 1 : -1)
}

/** The compensation of an action of 0.3.0 that would name another row than the call did. */
const rounded: Compensation = {
  kind: 'none',
  reason: 'its record has a number of more than 15 digits, which the version that wrote it rounded',
}

/** Whether a value has an integer that may be another one, rounded to a double. */
function mayBeRounded(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value)
  if (isObject(value) || Array.isArray(value)) return Object.values(value).some(mayBeRounded)
  return false
}

const isAction = hasMembers<Action & { readonly exact?: unknown }>({
  string: ['key', 'upstream', 'tool', 'status'],
  number: ['startedAt'],
  object: ['arguments', 'way'],
  principal: ['principal'],
})

const hasStates = hasMembers<ActionStates>({
  string: ['tool', 'before'],
  object: ['arguments'],
  list: ['parts'],
})

function isStates(value: unknown): value is ActionStates {
  if (!hasStates(value) || !value.parts.every(Array.isArray)) return false
  const { left }: { readonly left?: unknown } = value
  return left === undefined || hasHash(left) || hasReason(left)
}

const hasHash = hasMembers<{ readonly hash: string }>({ string: ['hash'] })
const hasReason = hasMembers<{ readonly unread: string }>({ string: ['unread'] })

const isWay = hasMembers<Extract<Compensation, { readonly tool: string }>>({
  string: ['tool', 'description'],
  object: ['arguments'],
})

function isCompensation(way: Compensation): boolean {
  if (way.kind === 'none') return typeof way.reason === 'string'
  return way.kind === 'nothing' || ((way.kind === 'exact' || way.kind === 'approximate') && isWay(way))
}

const states: readonly string[] = ['pending', 'ok', 'failed', 'unknown'] satisfies Action['status'][]

function matchesFilter(
  action: Action,
  { since, until, session, principal, upstream }: ActionFilter,
): boolean {
  if (since !== undefined && action.startedAt < since) return false
  if (until !== undefined && action.startedAt > until) return false
  if (session !== undefined && action.session !== session) return false
  if (principal !== undefined && action.principal.id !== principal) return false
  return upstream === undefined || action.upstream === upstream
}
