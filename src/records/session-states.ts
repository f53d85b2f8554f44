/**
 * Session states that are kept in the store, for tokens that are too long, and for models, which copy a short handle. An
 * entry of the collection `states` says how large each one is, so that all can be counted without reading them.
 *
 * Invariant: a state in use is never dropped for another one. Over the quota, new ones are refused, and existing ones do
 * not grow.
 */
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import { hasReachedShare, type Principal, shareOf } from '../core/principal.ts'
import type { Store } from '../store/store.ts'
import { casUpdate } from '../durable/cas-update.ts'
import { callerHash, callerHashIn } from './principal.ts'

/** How many states are kept in all, and how many bytes; one caller may use a quarter of each. */
const MAX_STATES = 4000
const MAX_STATE_BYTES = 64 * 1024 * 1024
/** The size of the largest state, in bytes. */
const MAX_BYTES_PER_STATE = 256 * 1024
/** States are counted in units of so many bytes: within one, a state that grows needs no other look at all of them. */
const UNIT_BYTES = 1024

const HANDLE = /^st_[A-Za-z0-9_-]{22}$/

/** The states of all callers. */
export class SessionStates {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Whether a text is a handle of a state, known or not. */
  static isHandle(text: string): boolean {
    return HANDLE.test(text)
  }

  /** The text of a state; undefined if its caller has none with this handle. */
  find(principal: Principal, handle: string): Promise<string | undefined> {
    return this.#store.get(keyOf(principal, handle))
  }

  /** Keeps a new state for `ttl` milliseconds, and resolves with its handle; undefined over the quota. */
  async add(principal: Principal, text: string, ttl: number): Promise<string | undefined> {
    const bytes = sizeOf(text)
    if (isTooLarge(text) || !(await this.#fits(principal, { bytes, isNew: true }))) return undefined
    const handle = `st_${world.randomBytes(16).toString('base64url')}`
    await this.#store.put(entryOf(principal, handle), String(bytes), ttl)
    await this.#store.put(keyOf(principal, handle), text, ttl)
    return handle
  }

  /**
   * Replaces a state by what `change` makes of its text, and keeps it for `ttl` more milliseconds; resolves with the new
   * text, or undefined if it is too large, or grows over the quota.
   */
  async change(principal: Principal, handle: string, { change, ttl }: Change): Promise<string | undefined> {
    let granted = 0
    for (;;) {
      const changed = await casUpdate<string | Growth | undefined>(
        this.#store,
        keyOf(principal, handle),
        (before) => {
          const text = change(before)
          if (isTooLarge(text)) return { result: undefined }
          const bytes = sizeOf(text) - (before === undefined ? 0 : sizeOf(before))
          if (bytes > granted) return { result: { bytes, isNew: before === undefined } }
          return { result: text, write: { text, ttl } }
        },
        () => undefined,
      )
      if (changed === undefined) return undefined
      if (typeof changed === 'string') {
        await this.#store.put(entryOf(principal, handle), String(sizeOf(changed)), ttl)
        return changed
      }
      if (!(await this.#fits(principal, changed))) return undefined
      granted = changed.bytes
    }
  }

  async #fits(principal: Principal, { bytes, isNew }: Growth): Promise<boolean> {
    const entries = await this.#store.scan(COLLECTION)
    const caller = callerHash(principal.id)
    let [all, own] = [bytes, bytes]
    for (const [key, text] of entries) {
      all += Number(text)
      if (callerHashIn(COLLECTION, key) === caller) own += Number(text)
    }
    if (all > MAX_STATE_BYTES || own > shareOf(principal, MAX_STATE_BYTES)) return false
    if (!isNew) return true
    const owners = new Map([...entries.keys()].map((key) => [key, callerHashIn(COLLECTION, key)]))
    const hasFullShare = hasReachedShare({ ...principal, id: caller }, owners, (id) => id, MAX_STATES)
    return entries.size < MAX_STATES && !hasFullShare
  }
}

interface Change {
  change(text: string | undefined): string
  readonly ttl: number
}

/** What a change adds. */
interface Growth {
  readonly bytes: number
  readonly isNew: boolean
}

/** The size of a state as it is counted, in bytes. */
function sizeOf(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / UNIT_BYTES) * UNIT_BYTES
}

function isTooLarge(text: string): boolean {
  return Buffer.byteLength(text) > MAX_BYTES_PER_STATE
}

const COLLECTION = 'states'

/** The store can be read by operators, who need not learn handles. */
function nameOf({ id }: Principal, handle: string): string {
  return `${callerHash(id)}:${hash('sha256', handle).slice(0, 32)}`
}

function keyOf(principal: Principal, handle: string): string {
  return `state:${nameOf(principal, handle)}`
}

function entryOf(principal: Principal, handle: string): string {
  return `${COLLECTION}/${nameOf(principal, handle)}`
}
