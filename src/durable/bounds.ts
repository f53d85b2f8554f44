/**
 * Bounds on what callers may keep in the store, or hold in this process. One caller may use a quarter of what all may use;
 * callers that are not distinguished may use all of it together (`shareOf`).
 *
 * - `Bounds` limit the records of a collection. They are counted in the store whenever one is added.
 * - `QuotaTracker` follows the records of each caller, for those that are added with each call.
 * - `WrittenRecords` counts those that this process has written, of all callers together and of each.
 * - `withinCapacity` counts bytes that are being written, which have no record yet.
 */
import { LRUCache } from 'lru-cache'
import { Holdings } from '../core/holdings.ts'
import { type Principal, shareOf } from '../core/principal.ts'
import { world } from '../core/world.ts'
import type { Store } from '../store/store.ts'
import { partOf } from './process-scope.ts'

/** Whether a caller stands for all that are not distinguished. */
export type Caller = Pick<Principal, 'isEverybody'>

/** How many records of a collection there may be, and how large they may be together; of one owner, a quarter of both. */
export interface Bounds<Item> {
  readonly count: number
  readonly bytes?: number
  /** The size of a record, undefined if it does not count. Default: the length of its text. */
  sizeOf?(record: Item): number | undefined
  /** The error for a record that is too much; `left` is how many bytes its owner may still add. */
  refuse?(limit: 'count' | 'bytes', left: number): Error
}

/** What may still be added, in records and bytes, of all owners together and of one: fractions of a record permit one. */
export interface Capacity {
  readonly count: number
  readonly all: number
  readonly own: number
}

/** What one of the owners of entries may still add. */
export function capacityOf(
  entries: readonly { readonly owner: string; readonly size: number }[],
  { count, bytes = Infinity }: Pick<Bounds<never>, 'count' | 'bytes'>,
  caller: Caller & { readonly owner: string },
): Capacity {
  const own = entries.filter(({ owner }) => owner === caller.owner)
  return {
    count: Math.min(count - entries.length, shareOf(caller, count) - own.length),
    all: Math.max(0, bytes - sizeOf(entries)),
    own: Math.max(0, shareOf(caller, bytes) - sizeOf(own)),
  }
}

function sizeOf(entries: readonly { readonly size: number }[]): number {
  return entries.reduce((sum, { size }) => sum + size, 0)
}

/** Which limit does not permit another record of this size, if one does not. */
export function limitReached({ count, all, own }: Capacity, size: number): 'count' | 'bytes' | undefined {
  if (count <= 0) return 'count'
  return size > Math.min(all, own) ? 'bytes' : undefined
}

interface CallerRecords {
  /** By key, the oldest first. */
  readonly records: Map<string, { readonly size: number; readonly endsAt: number }>
  size: number
}

/** How often expired records are looked for while the quota is used up, in milliseconds. */
const SWEEP_INTERVAL_MS = 1000

/**
 * The records that this process has written and that have not expired, with their sizes. Either what is too much is not
 * written (`fits`), or older records give way (`replace`). Whoever removes a record takes it out here.
 */
export class WrittenRecords {
  readonly #all: CallerQuota
  readonly #each: CallerQuota
  /** The caller that wrote nothing for longest first. */
  readonly #callers = new Map<string, CallerRecords>()
  #keys = 0
  #bytes = 0
  #sweptAt = 0

  constructor(all: CallerQuota, each: CallerQuota = all) {
    this.#all = all
    this.#each = each
  }

  /** Whether one more record, or so many more bytes, are within the quota of all. */
  fits(bytes = 0): boolean {
    const isBelow = (): boolean => this.#keys < this.#all.keys && this.#bytes + bytes <= this.#all.bytes
    if (isBelow()) return true
    const now = world.now()
    if (now - this.#sweptAt >= SWEEP_INTERVAL_MS) this.dropExpired(now)
    return isBelow()
  }

  /** Adds a record, or replaces the one of its key; `endsAt` is when it expires, in milliseconds since 1970. */
  add(caller: string, key: string, size: number, endsAt: number): void {
    this.delete(caller, key)
    const own = this.#callers.get(caller) ?? { records: new Map(), size: 0 }
    this.#callers.delete(caller)
    this.#callers.set(caller, own)
    own.records.set(key, { size, endsAt })
    own.size += size
    this.#keys++
    this.#bytes += size
  }

  /**
   * The same, in place of older records if it is too much: of the caller, then of those who wrote nothing for longest. Returns
   * the keys of the records that are not counted any more.
   */
  replace(caller: string, key: string, size: number, endsAt: number): readonly string[] {
    this.add(caller, key, size, endsAt)
    const dropped: string[] = []
    const drop = ([from, { records }]: readonly [string, CallerRecords]): void => {
      const [oldest = ''] = records.keys()
      this.delete(from, oldest)
      dropped.push(oldest)
    }
    const own = this.#callers.get(caller)
    while (own && own.records.size > 1 && (own.records.size > this.#each.keys || own.size > this.#each.bytes))
      drop([caller, own])
    for (const idlest of this.#callers) {
      while (this.#keys > this.#all.keys && idlest[1].records.size > 0) drop(idlest)
      if (this.#keys <= this.#all.keys) break
    }
    return dropped
  }

  /** Changes the size of a record that is counted. */
  resize(caller: string, key: string, by: number, endsAt: number): void {
    const known = this.#callers.get(caller)?.records.get(key)
    if (known) this.add(caller, key, known.size + by, endsAt)
  }

  /** Counts a record no longer; returns its size. */
  delete(caller: string, key: string): number {
    const own = this.#callers.get(caller)
    const { size } = own?.records.get(key) ?? {}
    if (!own || size === undefined) return 0
    own.records.delete(key)
    own.size -= size
    this.#keys--
    this.#bytes -= size
    if (own.records.size === 0) this.#callers.delete(caller)
    return size
  }

  dropExpired(now: number): void {
    this.#sweptAt = now
    for (const [caller, { records }] of this.#callers)
      for (const [key, { endsAt }] of records) if (endsAt <= now) this.delete(caller, key)
  }
}

/** The bytes that are being written to one store. */
class Unfinished {
  readonly holdings = new Holdings()
}

/** The same bytes; ends with the error of `refuse` once all that is being written to a store is more than its capacity. */
export async function* withinCapacity(
  store: object,
  caller: string,
  {
    bytes,
    capacity,
    refuse,
  }: {
    readonly bytes: AsyncIterable<Uint8Array>
    readonly capacity: Pick<Capacity, 'all' | 'own'>
    refuse(): Error
  },
): AsyncGenerator<Uint8Array> {
  const { holdings: unfinished } = partOf(store, Unfinished)
  let size = 0
  try {
    for await (const chunk of bytes) {
      size += chunk.byteLength
      unfinished.change({ id: caller }, chunk.byteLength)
      if (unfinished.all > capacity.all || unfinished.of({ id: caller }) > capacity.own) throw refuse()
      yield chunk
    }
  } finally {
    unfinished.change({ id: caller }, -size)
  }
}

/** The limits on records of one caller. */
export interface CallerQuota {
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
  fits(principal: string, quota: CallerQuota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    return isTally(tally) && isBelow(tally, quota) ? true : this.#recount(principal, quota)
  }

  /** Whether a record may grow; true if that cannot be determined. */
  mayGrow(principal: string, by: number, quota: CallerQuota): boolean | Promise<boolean> {
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

  async #recount(principal: string, quota: CallerQuota): Promise<boolean> {
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
    const ends = records.map(expiryIn).filter((each) => each !== undefined)
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

/** When a record expires, read from the start of its text alone. */
export function expiryIn(text: string): number | undefined {
  const found = /^\{"expiresAt":(\d{1,16})/.exec(text)?.[1]
  return found === undefined ? undefined : Number(found)
}

function isTally(tally: Tally | Promise<Tally>): tally is Tally {
  return !(tally instanceof Promise)
}

function isBelow({ keys, bytes }: Tally, quota: CallerQuota): boolean {
  return keys < quota.keys && bytes < quota.bytes
}
