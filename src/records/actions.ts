/** Actions in the store: what changed something, and what undoes it. Keys sort by time. */
import { randomUUID } from 'node:crypto'
import { isObject, readJson } from '../core/json/json.ts'
import type { Store } from '../store/store.ts'
import type { KeptPrincipal } from './principal.ts'
import { casUpdate, type CasUpdate } from './cas-update.ts'

/** What a tool did for a caller, and how it is undone. Kept under `deed/…` as JSON; times are milliseconds since 1970. */
export interface Action {
  readonly key: string
  readonly startedAt: number
  readonly endedAt?: number
  readonly principal: KeptPrincipal
  /** The client's session, where its revision has sessions. */
  readonly session?: string
  readonly upstream: string
  /** The tool as the server knows it, and what it was called with. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The trace it was done in (W3C `traceparent`). */
  readonly trace?: string
  /** The step of a transaction it is. */
  readonly transaction?: string
  readonly step?: string
  /** `pending` while the server works on it; what stays so after its gateway ended is not known to have happened. */
  readonly status: 'pending' | 'ok' | 'failed' | 'unknown'
  readonly way: Compensation
  /** When it was undone. */
  readonly undoneAt?: number
}

/** How something that was done is undone: by a call, exactly or about, or not at all. */
export type Compensation =
  | {
      readonly kind: 'exact' | 'approximate'
      readonly tool: string
      readonly arguments: Readonly<Record<string, unknown>>
      readonly description: string
    }
  /** It only read. */
  | { readonly kind: 'nothing' }
  | { readonly kind: 'none'; readonly reason: string }

/** Which deeds are meant; all that is said must fit. Times are milliseconds since 1970, and belong to the span. */
export interface Wanted {
  readonly since?: number
  readonly until?: number
  readonly session?: string
  /** `Principal.id`. */
  readonly principal?: string
  readonly upstream?: string
}

/** How large a deed may be as text. */
const MAX_ACTION_LENGTH = 1024 * 1024

/** Why what is too large to be kept cannot be undone. */
export const tooLarge: Compensation = {
  kind: 'none',
  reason: `what it takes to undo it is larger than ${MAX_ACTION_LENGTH / 1024 / 1024} MB`,
}

/** A key for something done just then; keys sort by time and cannot be guessed. */
export function newActionKey(now: number): string {
  return `${oldestKeyAt(now)}${randomUUID()}`
}

/** What every key made at a time begins with, and every later one sorts behind. */
export function oldestKeyAt(now: number): string {
  return `${now.toString(16).padStart(12, '0')}-`
}

/** A deed as it is kept. */
export function encodeAction(deed: Action): string {
  const whole = JSON.stringify(deed)
  return whole.length <= MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH ? whole : JSON.stringify(bounded(deed))
}

/** What was done, in the store. */
export class Actions {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Writes a deed down; it is durable once this resolves. One that is too large loses its arguments, which are
   * only shown, and then its way back. `ttl` is in milliseconds.
   */
  async put(deed: Action, ttl: number): Promise<void> {
    await this.write(deed.key, encodeAction(deed), ttl)
  }

  /** The same of one that is encoded. */
  async write(key: string, text: string, ttl: number): Promise<void> {
    await this.#store.put(place(key), text, ttl)
  }

  /** Has a deed forgotten after so many milliseconds from now. */
  async keep(key: string, ttl: number): Promise<void> {
    const text = await this.#store.get(place(key))
    if (text !== undefined) await this.#store.compareAndSwap(place(key), text, text, ttl)
  }

  async find(key: string): Promise<Action | undefined> {
    return readDeed(await this.#store.get(place(key)))
  }

  /** Those of several keys that are kept still, by their keys. */
  async findAll(keys: readonly string[]): Promise<ReadonlyMap<string, Action>> {
    const found = await Promise.all(keys.map((key) => this.find(key)))
    return new Map(found.flatMap((deed) => (deed ? [[deed.key, deed] as const] : [])))
  }

  async remove(key: string): Promise<void> {
    await this.#store.delete(place(key))
  }

  /** Those that are meant, the one that began last first. */
  async list(wanted: Wanted = {}): Promise<readonly Action[]> {
    const all = await this.#store.scan(COLLECTION)
    const found = [...all.values()].flatMap((text) => readDeed(text) ?? [])
    return found.filter((deed) => isMeant(deed, wanted)).toSorted(lastFirst)
  }

  /** Reserves an action for undoing; false where another process holds it. The reservation ends by itself, or when released. */
  async reserve(key: string): Promise<boolean> {
    return (await this.#store.setIfAbsent(reservation(key), '1', RESERVED)) === undefined
  }

  async release(key: string): Promise<void> {
    await this.#store.delete(reservation(key))
  }

  /** Writes down that a deed was undone. Tells whether it is kept still. `ttl` is in milliseconds. */
  undone(key: string, at: number, ttl: number): Promise<boolean> {
    const look = (text: string | undefined): CasUpdate<boolean> => {
      const deed = readDeed(text)
      if (!deed) return { result: false }
      return { result: true, write: { text: JSON.stringify({ ...deed, undoneAt: at }), ttl } }
    }
    return casUpdate(this.#store, place(key), look, () => false)
  }
}

const COLLECTION = 'deed'

function place(key: string): string {
  return `${COLLECTION}/${key}`
}

/**
 * How long who is about to undo something has it alone, in milliseconds: until that is on record itself, which of
 * many things done by several callers comes to the last only once all others are undone.
 */
const RESERVED = 900_000

function reservation(key: string): string {
  return `deed:undoing:${key}`
}

/** Whether a way back can be kept with its deed. */
export function isKeepable(way: Compensation): boolean {
  return JSON.stringify(way).length <= MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH
}

/** What a deed takes besides its arguments and its way back, at most about. */
const METADATA_MARGIN_LENGTH = 16 * 1024

function bounded(deed: Action): Action {
  if (!isKeepable(deed.way)) return bounded({ ...deed, way: tooLarge })
  const left = MAX_ACTION_LENGTH - METADATA_MARGIN_LENGTH - JSON.stringify(deed.way).length
  return JSON.stringify(deed.arguments).length <= left ? deed : { ...deed, arguments: {} }
}

function readDeed(text: string | undefined): Action | undefined {
  const value = text === undefined ? undefined : readJson(text)
  return isDeed(value) ? value : undefined
}

/** Whether it is one as this version writes them: another version may have written the store. */
function isDeed(value: unknown): value is Action {
  if (!isObject(value)) return false
  const { key, startedAt, principal, upstream, tool, status, way } = value
  const isNamed = [key, upstream, tool].every((each) => typeof each === 'string')
  const isKnown = typeof status === 'string' && ['pending', 'ok', 'failed', 'unknown'].includes(status)
  return isNamed && isKnown && typeof startedAt === 'number' && isObject(principal) && isObject(way)
}

function isMeant(deed: Action, { since, until, session, principal, upstream }: Wanted): boolean {
  if (since !== undefined && deed.startedAt < since) return false
  if (until !== undefined && deed.startedAt > until) return false
  if (session !== undefined && deed.session !== session) return false
  if (principal !== undefined && deed.principal.id !== principal) return false
  return upstream === undefined || deed.upstream === upstream
}

function lastFirst(one: Action, other: Action): number {
  if (one.startedAt !== other.startedAt) return other.startedAt - one.startedAt
  return one.key < other.key ? 1 : -1
}
