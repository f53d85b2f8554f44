/**
 * Session states that are kept in the store, for tokens that are too long, and for models, which copy a short handle. An
 * entry of the collection `states` says how large each one is, so that all can be counted without reading them.
 *
 * Invariant: a state in use is never dropped for another one. Over the quota, new ones are refused, and existing ones do
 * not grow.
 */
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import type { Principal } from '../core/principal.ts'
import type { Store } from '../store/store.ts'
import { Collection, type RecordDecision, type RecordKind } from '../durable/collection.ts'
import { ownedId } from './principal.ts'

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
  readonly #states: Collection<State>
  readonly #sizes: Collection<Size>

  constructor(store: Store) {
    this.#states = new Collection(store, stateKind)
    this.#sizes = new Collection(store, sizeKind)
  }

  /** Whether a text is a handle of a state, known or not. */
  static isHandle(text: string): boolean {
    return HANDLE.test(text)
  }

  /** The text of a state; undefined if its caller has none with this handle. */
  async find(principal: Principal, handle: string): Promise<string | undefined> {
    return (await this.#states.get(idIn(principal, handle)))?.text
  }

  /** Keeps a new state for `ttl` milliseconds, and resolves with its handle; undefined over the quota. */
  async add(principal: Principal, text: string, ttl: number): Promise<string | undefined> {
    const handle = `st_${world.randomBytes(16).toString('base64url')}`
    const id = idIn(principal, handle)
    const bytes = sizeOf(text)
    if (isTooLarge(text) || !(await this.#fits(principal, id, { bytes, isNew: true }))) return undefined
    await this.#sizes.put(id, { bytes }, ttl)
    await this.#states.put(id, { text }, ttl)
    return handle
  }

  /**
   * Replaces a state by what `change` makes of its text, and keeps it for `ttl` more milliseconds; resolves with the new
   * text, or undefined if it is too large, or grows over the quota.
   */
  async change(
    principal: Principal,
    handle: string,
    change: (text: string | undefined) => string,
    ttl: number,
  ): Promise<string | undefined> {
    const id = idIn(principal, handle)
    let granted = 0
    const decide = (
      before: State | undefined,
    ): readonly [RecordDecision<State>, string | Growth | undefined] => {
      const text = change(before?.text)
      if (isTooLarge(text)) return ['keep', undefined]
      const bytes = sizeOf(text)
      const isGranted = bytes <= Math.max(granted, before ? sizeOf(before.text) : 0)
      return isGranted ? [{ text }, text] : ['keep', { bytes, isNew: before === undefined }]
    }
    for (;;) {
      const changed = await this.#states.change(id, decide, ttl)
      if (changed === undefined) return undefined
      if (typeof changed === 'string') {
        await this.#sizes.put(id, { bytes: sizeOf(changed) }, ttl)
        return changed
      }
      if (!(await this.#fits(principal, id, changed))) return undefined
      granted = changed.bytes
    }
  }

  async #fits(principal: Principal, id: string, { bytes, isNew }: Growth): Promise<boolean> {
    const { count, all, own } = await this.#sizes.capacity(id, principal)
    return bytes <= Math.min(all, own) && (!isNew || count > 0)
  }
}

interface State {
  readonly text: string
}

const stateKind: RecordKind<State> = {
  name: 'state',
  prefix: 'state:',
  encode: ({ text }) => text,
  decode: (text) => ({ text }),
}

/** How large a state is, so that all can be counted without reading them. */
interface Size {
  readonly bytes: number
}

const sizeKind: RecordKind<Size> = {
  name: 'state',
  prefix: 'states/',
  encode: ({ bytes }) => String(bytes),
  decode: (text) => ({ bytes: Number(text) }),
  bounds: [{ count: MAX_STATES, bytes: MAX_STATE_BYTES, sizeOf: ({ bytes }) => bytes }],
}

/** What a state needs. */
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

/** The store can be read by operators, who need not learn handles. */
function idIn(principal: Principal, handle: string): string {
  return ownedId(principal, hash('sha256', handle).slice(0, 32))
}
