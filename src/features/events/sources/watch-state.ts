/**
 * What one poll of a watch knows: the items, and what each was like. It is in the store, so that a gateway that starts,
 * or takes over, finds what changed since the last poll of any gateway.
 *
 * Invariant: the events of a change are in the log before the state that follows it is in the store. If the process ends
 * in between, the next poll finds the change again, and its events have the same ids.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { canonical, exactly, isObject, readJson } from '../../../core/json/json.ts'
import { find, follow, type Path, printPath, type Step } from '../../../core/json/path.ts'
import type { Payload } from '../../../core/payload.ts'
import { resultValue } from '../../../core/undo/expression.ts'
import { isNumber, toDouble } from '../../../core/json/exact-number.ts'

/** How many items one poll may find, and how many are remembered that are not found any more. */
const MAX_ITEMS = 5000
const MAX_ID_LENGTH = 400

/** What is known after a poll. Field names are persisted and do not change. */
export interface WatchState {
  /** Distinguishes it from a state that was lost and begun again. */
  readonly epoch: string
  /** How many polls found changes. */
  readonly round: number
  /** What each item was like, by its id; those that were found last are at the end. */
  readonly items: ReadonlyMap<string, string>
  /** Ids and digests have all digits of numbers; without it, they are those of the nearest doubles. */
  readonly isExact: boolean
}

/** An item of a result. */
export interface Item {
  readonly id: string
  /** The same as long as the item has not changed. */
  readonly digest: string
  readonly value: unknown
  /** Id and digest with doubles, if they are others: a state that is not exact has them. */
  readonly rounded?: { readonly id: string; readonly digest: string }
}

/** What happened to an item between two polls. */
export interface Change {
  readonly kind: 'added' | 'changed' | 'removed'
  readonly id: string
  /** Absent if it was removed. */
  readonly item?: Item
  /** The id of its event: the same if the change is found again. */
  readonly eventId: string
}

/** Where the items of a result are, and what identifies them. */
export interface ItemPaths {
  readonly items: Path
  readonly id: readonly Step[]
  readonly changed?: readonly Step[]
  /** As they are written, for problems. */
  readonly written: { readonly id: string; readonly changed?: string }
}

/** Why a result cannot be read: the message names the setting that does not fit. */
export class UnreadableItems extends Error {
  /** The key of the setting. */
  readonly key: string

  constructor(key: string, message: string) {
    super(message)
    this.key = key
  }
}

/** The items of a result. @throws UnreadableItems */
export function itemsOf(result: Payload, { items: path, id, changed, written }: ItemPaths): readonly Item[] {
  const found = asList(find(path, { args: {}, result: resultValue(result) }))
  if (!found) throw new UnreadableItems('items', `there is no list at ${printPath(path)} of the result`)
  if (found.length > MAX_ITEMS)
    throw new UnreadableItems(
      'items',
      `the result has ${found.length} items, and at most ${MAX_ITEMS} are compared`,
    )
  const known = new Set<string>()
  return found.map((value) => {
    const identity = follow(value, id)
    const own = idOf(identity)
    if (own === undefined)
      throw new UnreadableItems(
        'id',
        `an item has no text or number at ${written.id}, or one of over ${MAX_ID_LENGTH} characters`,
      )
    if (known.has(own)) throw new UnreadableItems('id', `several items have the same value at ${written.id}`)
    known.add(own)
    const compared = changed ? follow(value, changed) : value
    if (compared === undefined)
      throw new UnreadableItems('changed', `an item has nothing at ${written.changed}`)
    const item = { id: own, digest: digestOf(exactly(compared)), value }
    const rounded = { id: String(toDouble(identity) ?? own), digest: digestOf(canonical(compared)) }
    const isOther = rounded.id !== own || rounded.digest !== item.digest
    return isOther ? { ...item, rounded } : item
  })
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url').slice(0, 16)
}

/** A list; a text is JSON with a list, or a list of lines. */
function asList(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return value
  if (typeof value !== 'string') return undefined
  const read = readJson(value)
  if (Array.isArray(read)) return read
  return value.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim()]))
}

function idOf(value: unknown): string | undefined {
  if (typeof value !== 'string' && !isNumber(value)) return undefined
  const text = String(value)
  return text === '' || text.length > MAX_ID_LENGTH ? undefined : text
}

/** What follows from a poll. */
interface Comparison {
  readonly changes: readonly Change[]
  readonly state: WatchState
}

/** Compares the items of a poll with the state before it; without one, they are the baseline. */
export function compare(state: WatchState | undefined, items: readonly Item[], removes: boolean): Comparison {
  const before = state && withDigits(state, items)
  if (!before) {
    const epoch = world.randomBytes(9).toString('base64url')
    return {
      changes: [],
      state: {
        epoch,
        round: 0,
        items: new Map(items.map(({ id, digest }) => [id, digest])),
        isExact: true,
      },
    }
  }
  const { epoch, round } = before
  const found = new Map(items.map(({ id, digest }) => [id, digest]))
  const missing = [...before.items].filter(([id]) => !found.has(id))
  const changes = [
    ...items
      .filter(({ id, digest }) => before.items.get(id) !== digest)
      .map((item) => ({
        kind: before.items.has(item.id) ? ('changed' as const) : ('added' as const),
        id: item.id,
        item,
      })),
    ...(removes ? missing : []).map(([id]) => ({ kind: 'removed' as const, id })),
  ].map((change) => {
    const { kind, id } = change
    const digest = found.get(id) ?? ''
    const eventId = `evt_${hash('sha256', JSON.stringify([epoch, round, kind, id, digest]), 'base64url').slice(0, 22)}`
    return { ...change, eventId }
  })
  // An item that is not on the first page any more is no new one when it comes back.
  const remembered = removes ? [] : missing.slice(Math.max(0, missing.length + found.size - MAX_ITEMS))
  const next = {
    epoch,
    round: changes.length > 0 ? round + 1 : round,
    items: new Map([...remembered, ...found]),
    isExact: true,
  }
  return { changes, state: next }
}

/** A state in which items that were stored with rounded numbers have their digits. */
function withDigits(state: WatchState, items: readonly Item[]): WatchState {
  if (state.isExact) return state
  const known = new Map(state.items)
  const ids = new Set(items.map(({ id }) => id))
  for (const { id, digest, rounded } of items) {
    const before = rounded && state.items.get(rounded.id)
    if (!rounded || before === undefined || (rounded.id !== id && ids.has(rounded.id))) continue
    known.delete(rounded.id)
    known.set(id, before === rounded.digest ? digest : before)
  }
  return { ...state, items: known, isExact: true }
}

/** A state as text. */
export function printState({ epoch, round, items, isExact }: WatchState): string {
  return JSON.stringify({ epoch, round, items: [...items], ...(isExact && { exact: true }) })
}

/** A state from its text; undefined if it is none. */
export function readState(text: string | undefined): WatchState | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value)) return undefined
  const { epoch, round, items, exact } = value
  if (typeof epoch !== 'string' || typeof round !== 'number' || !Array.isArray(items)) return undefined
  const known = items.filter((entry): entry is [string, string] => Array.isArray(entry) && entry.length === 2)
  return { epoch, round, items: new Map(known), isExact: exact === true }
}
