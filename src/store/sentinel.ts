/**
 * Records outside of a store that it contains critical data, so that a lost store is not mistaken for a new one: completed
 * calls would run again. There is one small file for each store in the user's state directory, valid until all of that
 * data has expired. It is best effort: if it cannot be written, calls continue.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isObject, readJson } from '../core/json/json.ts'
import { strangerProblem } from './private-folder.ts'
import type { KeyPrefix } from './store.ts'

/** The record of a store: its id, until when its critical data lives, and when this was written. */
export interface SentinelRecord {
  readonly id: string
  /** In milliseconds since 1970, as is `at`. */
  readonly until: number
  readonly at: number
}

/** How much later than necessary the expiry is recorded, so that not every write updates the file, in milliseconds. */
const AHEAD_MS = 3_600_000

/** What an operator can do about lost data that cannot be restored. */
export const ACCEPT_HINT =
  'run `gatehouse store accept` to continue without it: completed calls with an idempotency key may then run again'

const critical: readonly KeyPrefix[] = ['call:', 'transaction/', 'transaction-steps:']

/** Whether a key must not get lost: it ensures that a call runs once, or that a transaction is finished. */
export function isCriticalKey(key: string): boolean {
  return critical.some((prefix) => key.startsWith(prefix))
}

/**
 * What replicas have to have before a write counts: what was decided once, and would be decided differently, or again, if a failover
 * lost it. Much of it may get lost with the whole store, which is noticed.
 */
const decisive: readonly KeyPrefix[] = [
  ...critical,
  'approval/',
  'approval:nonce:',
  'client-session/',
  'deed/',
  'event-once:',
  'hook:',
  'key:',
  'lease:',
  'lease-alive:',
  'oauth:',
  'operation:',
  'pause:',
  'reference-url:',
  'rewind:',
]

/** Whether a failover must not lose the value of a key: see `decisive`. */
export function mustSurviveFailover(key: string): boolean {
  return decisive.some((prefix) => key.startsWith(prefix))
}

/** Records whose absence callers get as an answer: there is no such task, transaction or approval. */
const stated: readonly KeyPrefix[] = [...critical, 'approval/', 'deed/', 'operation:']

/** Whether a key that is not found must be known not to be there: a server that was replaced lacks what came after. */
export function isAbsenceStated(key: string): boolean {
  return stated.some((prefix) => key.startsWith(prefix))
}

/** The record of one store. */
export class Sentinel {
  readonly #folder: string | undefined
  readonly #file: string
  #written: SentinelRecord | undefined

  /** `folder` is the user's state folder; without one nothing is recorded. `location` identifies the store. */
  constructor(folder: string | undefined, location: string) {
    // Those of another user say nothing about the stores of this one.
    this.#folder = folder !== undefined && strangerProblem(folder) === undefined ? folder : undefined
    this.#file = join(folder ?? '', createHash('sha256').update(location).digest('hex').slice(0, 16))
  }

  /** The record, unless it has expired. */
  read(now: number): SentinelRecord | undefined {
    const found = this.#folder === undefined ? undefined : read(this.#file)
    return found && found.until > now ? found : undefined
  }

  /** Records that the store with this id contains critical data until the given time. */
  note(id: string, until: number, now: number): void {
    if (this.#folder === undefined) return
    if (this.#written?.id === id && until <= this.#written.until) return
    const before = this.#written ?? this.read(now)
    const recordedUntil = before?.id === id ? before.until : 0
    this.#written = { id, until: Math.max(recordedUntil, until + AHEAD_MS), at: now }
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      if (before === undefined) removeExpired(this.#folder, now)
      const draft = `${this.#file}.${process.pid}`
      writeFileSync(draft, `${JSON.stringify(this.#written)}\n`, { mode: 0o600 })
      renameSync(draft, this.#file)
    } catch {
      // Without the record, a completely lost store looks like a new one.
    }
  }

  forget(): void {
    this.#written = undefined
    if (this.#folder !== undefined) rmSync(this.#file, { force: true })
  }
}

/** Removes expired records of other stores, so that the folder does not grow without bound. */
function removeExpired(folder: string, now: number): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name)
    const found = read(file)
    if (found && found.until <= now) rmSync(file, { force: true })
  }
}

function read(file: string): SentinelRecord | undefined {
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
