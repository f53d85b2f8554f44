/**
 * The number and the size of the records of each caller. They are counted in the store once, and followed from then on;
 * what other processes write is seen when a caller seems to have reached its limit.
 */
import { LRUCache } from 'lru-cache'
import { world } from '../core/world.ts'
import type { Store } from '../store/store.ts'
import { expiryOf } from './calls.ts'

/** The limits on records of one caller. */
export interface Quota {
  readonly keys: number
  readonly bytes: number
}

/** The records of one caller: their number, and their total length. */
interface Tally {
  keys: number
  bytes: number
  /** When it was last counted in the store, and when the first record expires. */
  countedAt: number
  firstExpiry: number | undefined
}

/** How many callers are tracked, and how often a caller's records are recounted, in milliseconds. */
const MAX_CALLERS = 10_000
const RECOUNT_INTERVAL_MS = 10_000

/** Tracks the usage of each caller. Nearly every question is answered synchronously. */
export class QuotaTracker {
  readonly #store: Store
  readonly #collectionOf: (principal: string) => string
  readonly #tallies = new LRUCache<string, Tally | Promise<Tally>>({ max: MAX_CALLERS })

  /** `collectionOf` names the collection with the records of a caller. */
  constructor(store: Store, collectionOf: (principal: string) => string) {
    this.#store = store
    this.#collectionOf = collectionOf
  }

  /** Whether a caller may have one more key. @throws errors of the store */
  hasRoom(principal: string, quota: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    return isTally(tally) && isBelow(tally, quota) ? true : this.#verifyRoom(principal, quota)
  }

  /** Whether a record may grow; true if that cannot be determined. */
  mayGrow(principal: string, by: number, quota: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    const fits = ({ bytes }: Tally): boolean => bytes + by <= quota.bytes
    return isTally(tally) ? fits(tally) : tally.then(fits, () => true)
  }

  /**
   * Adjusts the tally after records were added, removed or resized; `endsAt` is when an added one expires, in
   * milliseconds since 1970.
   */
  add(principal: string, keys: number, bytes: number, endsAt?: number): void {
    const grow = (tally: Tally): void => {
      tally.keys += keys
      tally.bytes += bytes
      if (endsAt !== undefined) tally.firstExpiry = Math.min(tally.firstExpiry ?? endsAt, endsAt)
    }
    const tally = this.#tallies.get(principal)
    // Callers that are not counted yet will be counted including this change.
    if (tally === undefined) return
    if (isTally(tally)) grow(tally)
    else tally.then(grow, () => undefined)
  }

  /** What a caller has, and when the first of its records expires, in milliseconds since 1970. */
  async usage(principal: string): Promise<Pick<Tally, 'keys' | 'bytes' | 'firstExpiry'>> {
    return this.#tally(principal)
  }

  async #verifyRoom(principal: string, quota: Quota): Promise<boolean> {
    const tally = await this.#tally(principal)
    if (isBelow(tally, quota)) return true
    if (world.now() - tally.countedAt < RECOUNT_INTERVAL_MS) return false
    this.#tallies.delete(principal)
    return isBelow(await this.#tally(principal), quota)
  }

  #tally(principal: string): Tally | Promise<Tally> {
    const known = this.#tallies.get(principal)
    if (known) return known
    const counting = this.#count(principal)
    this.#tallies.set(principal, counting)
    counting.then(
      (tally) => {
        if (this.#tallies.get(principal) === counting) this.#tallies.set(principal, tally)
      },
      () => this.#tallies.delete(principal),
    )
    return counting
  }

  async #count(principal: string): Promise<Tally> {
    const records = [...(await this.#store.scan(this.#collectionOf(principal))).values()]
    const ends = records.map(expiryOf).filter((each) => each !== undefined)
    return {
      keys: records.length,
      bytes: records.reduce((sum, { length }) => sum + length, 0),
      countedAt: world.now(),
      firstExpiry: ends.reduce<number | undefined>(
        (earliest, end) => Math.min(earliest ?? end, end),
        undefined,
      ),
    }
  }
}

function isTally(tally: Tally | Promise<Tally>): tally is Tally {
  return !(tally instanceof Promise)
}

function isBelow({ keys, bytes }: Tally, quota: Quota): boolean {
  return keys < quota.keys && bytes < quota.bytes
}
