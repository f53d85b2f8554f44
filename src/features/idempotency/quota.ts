import { LRUCache } from 'lru-cache'
import { callsOf, expiryOf } from '../../records/calls.ts'
import type { Store } from '../../store/store.ts'
import { exhausted } from './refusals.ts'

/** How much may be remembered for one caller. */
export interface Quota {
  readonly keys: number
  readonly bytes: number
}

/** What is remembered for one caller: how many records, and how long they are together. */
interface Tally {
  keys: number
  bytes: number
  /** When it was counted in the store last, and when the first of them is over. */
  countedAt: number
  firstOver: number | undefined
}

/** How many callers are kept count of, and how often the store is counted anew for one of them, in milliseconds. */
const MAX_CALLERS = 10_000
const RECOUNT_INTERVAL_MS = 10_000

/** Keeps count of what is remembered for each caller. Nearly every question is answered at once. */
export class QuotaTracker {
  readonly #store: Store
  readonly #tallies = new LRUCache<string, Tally | Promise<Tally>>({ max: MAX_CALLERS })

  constructor(store: Store) {
    this.#store = store
  }

  /** Whether there is room for one more key of a caller. @throws what the store throws */
  hasRoom(principal: string, most: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    return isTally(tally) && isBelow(tally, most) ? true : this.#makeSure(principal, most)
  }

  /** Whether a record may become so much longer; it may where that can not be known. */
  mayGrow(principal: string, by: number, most: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    const fits = ({ bytes }: Tally): boolean => bytes + by <= most.bytes
    return isTally(tally) ? fits(tally) : tally.then(fits, () => true)
  }

  /**
   * Takes note of records that came or went, of how much longer they are, and of when one that came is over, in
   * milliseconds since 1970.
   */
  add(principal: string, keys: number, bytes: number, endsAt?: number): void {
    const grow = (tally: Tally): void => {
      tally.keys += keys
      tally.bytes += bytes
      if (endsAt !== undefined) tally.firstOver = Math.min(tally.firstOver ?? endsAt, endsAt)
    }
    const tally = this.#tallies.get(principal)
    // Who is not counted will be, with these.
    if (tally === undefined) return
    if (isTally(tally)) grow(tally)
    else tally.then(grow, () => undefined)
  }

  /** Why a key is refused. */
  async refusal(principal: string, most: Quota): Promise<Error> {
    const { keys, firstOver } = await this.#tally(principal)
    const wait = firstOver === undefined ? undefined : Math.max(1, (firstOver - Date.now()) / 1000)
    return exhausted(keys >= most.keys ? `${most.keys} calls` : `${most.bytes} bytes`, wait)
  }

  async #makeSure(principal: string, most: Quota): Promise<boolean> {
    const tally = await this.#tally(principal)
    if (isBelow(tally, most)) return true
    if (Date.now() - tally.countedAt < RECOUNT_INTERVAL_MS) return false
    this.#tallies.delete(principal)
    return isBelow(await this.#tally(principal), most)
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
    const records = [...(await this.#store.scan(callsOf(principal))).values()]
    const ends = records.map(expiryOf).filter((each) => each !== undefined)
    return {
      keys: records.length,
      bytes: records.reduce((sum, { length }) => sum + length, 0),
      countedAt: Date.now(),
      firstOver: ends.reduce<number | undefined>((least, end) => Math.min(least ?? end, end), undefined),
    }
  }
}

function isTally(tally: Tally | Promise<Tally>): tally is Tally {
  return !(tally instanceof Promise)
}

function isBelow({ keys, bytes }: Tally, most: Quota): boolean {
  return keys < most.keys && bytes < most.bytes
}
