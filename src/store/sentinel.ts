/**
 * Remembers outside of a store what was promised there, so that a store that was lost is not taken for one that was
 * never there: calls that were answered would run again. There is one small file for each store, in the user's state
 * directory. It counts until all that was promised is over. It is best effort: if it cannot be written, calls go on.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, readJson } from '../core/json/json.ts'

/** What is remembered of a store: which one it is, until when it promised something, and when that was written. */
export interface Promised {
  readonly id: string
  /** In milliseconds since 1970, as is `at`. */
  readonly until: number
  readonly at: number
}

/** How much longer is written down than was promised, so that not every promise has to be, in milliseconds. */
const AHEAD_MS = 3_600_000

/** What an operator can do about a store that lost what it promised, where the data cannot be restored. */
export const ACCEPT_HINT =
  'run `gatehouse store accept` to go on without it: calls with a key that were answered may run again then'

/** Whether a key is that of a promise: that a call runs once, or that a transaction is ended. */
export function isPromise(key: string): boolean {
  return key.startsWith('call:') || key.startsWith('transaction/')
}

/** What is remembered of one store. */
export class Sentinel {
  readonly #folder: string | undefined
  readonly #file: string
  #written: Promised | undefined

  /** `folder` is where the user's state is kept; nothing is remembered without one. `place` names the store. */
  constructor(folder: string | undefined, place: string) {
    this.#folder = folder
    this.#file = join(folder ?? '', createHash('sha256').update(place).digest('hex').slice(0, 16))
  }

  /** What was promised, and is not over yet. */
  read(now: number): Promised | undefined {
    const found = this.#folder === undefined ? undefined : read(this.#file)
    return found && found.until > now ? found : undefined
  }

  /** Takes note of a promise of the store of a name, which holds until then. */
  note(id: string, until: number, now: number): void {
    if (this.#folder === undefined) return
    if (this.#written?.id === id && until <= this.#written.until) return
    const before = this.#written ?? this.read(now)
    const kept = before?.id === id ? before.until : 0
    this.#written = { id, until: Math.max(kept, until + AHEAD_MS), at: now }
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      if (before === undefined) removeExpired(this.#folder, now)
      const draft = `${this.#file}.${process.pid}`
      writeFileSync(draft, `${JSON.stringify(this.#written)}\n`, { mode: 0o600 })
      renameSync(draft, this.#file)
    } catch {
      // Without it a store that is lost as a whole looks like a new one.
    }
  }

  forget(): void {
    this.#written = undefined
    if (this.#folder !== undefined) rmSync(this.#file, { force: true })
  }
}

/** Removes what is over of other stores, so that the folder does not grow without end. */
function removeExpired(folder: string, now: number): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const found = read(file)
    if (found && found.until <= now) rmSync(file, { force: true })
  }
}

function read(file: string): Promised | undefined {
  try {
    const found = readJson(readFileSync(file, 'utf8'))
    if (!isObject(found)) return undefined
    const { id, until, at } = found
    return typeof id === 'string' && typeof until === 'number' && typeof at === 'number'
      ? { id, until, at }
      : undefined
  } catch {
    return undefined
  }
}
