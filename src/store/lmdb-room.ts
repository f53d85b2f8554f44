import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'

/** How many pages a tree of a database has. */
interface Tree {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}

/** What a database tells of itself. */
interface Stats extends Tree {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly free: Tree
}

/** The part of a database that is needed to make room in its file. */
interface Growing {
  getStats(): unknown
  transactionSync<T>(work: () => T): T
}

/** There is no room for more, because of the disk or the store's own limit. */
export class NoRoom extends Error {}

/** By how much the file grows at once, in bytes, for which calls wait, and at least where the disk has no more. */
const GROWTH_BYTES = 256 * 1024
const MIN_GROWTH_BYTES = 64 * 1024
/** For how long what is known of the file is believed, in milliseconds, since other processes may write to it. */
const STATS_STALE_MS = 100
/** How many pages may be free, but still be looked at by somebody. */
const MAX_PINNED_PAGES = 1024

/**
 * Makes room in the file of a database before something is written to it. A disk that is full is met here, where
 * it is harmless: the library that writes the database damages the memory of the process when a write fails.
 */
export class Room {
  readonly #file: number
  readonly #limit: number
  readonly #database: Growing
  /** How much can be written until one has to look again, in bytes. */
  #left = 0
  #lookedAt = 0

  /** `limit` is how large everything together may become, in bytes. */
  constructor(path: string, limit: number, database: Growing) {
    this.#file = openSync(path, 'r+')
    this.#limit = limit
    this.#database = database
  }

  /** How many bytes are taken by what is stored. */
  get used(): number {
    const stats = this.#stats()
    return usedPages(stats) * stats.pageSize
  }

  /** Makes sure of room for so many bytes; what only removes something may go beyond the limit. @throws NoRoom */
  make(bytes: number, isRemoval: boolean): void {
    const isKnown = bytes <= this.#left && performance.now() - this.#lookedAt < STATS_STALE_MS
    if (!isKnown) this.#left = this.#look(bytes, isRemoval)
    this.#left -= bytes
  }

  close(): void {
    closeSync(this.#file)
  }

  #look(bytes: number, isRemoval: boolean): number {
    const stats = this.#stats()
    const used = usedPages(stats)
    const allowed = this.#limit - used * stats.pageSize
    if (allowed < bytes && !isRemoval)
      throw new NoRoom(`it holds ${Math.round(this.#limit / 1024 / 1024)} MB, which is as much as it may`)
    this.#lookedAt = performance.now()
    // Others may take of it at the same time.
    const need = 2 * bytes
    const end = (stats.lastPageNumber + 1) * stats.pageSize
    const room = this.#grow(end, need) - end
    if (room >= need) return isRemoval ? bytes : Math.min(room / 2, allowed)
    const free = stats.lastPageNumber + 1 - used - MAX_PINNED_PAGES
    if (free * stats.pageSize < 4 * bytes) throw new NoRoom('the disk is full')
    return bytes
  }

  /** Has the file reach beyond its last page, with zeros. Returns how large it is. */
  #grow(end: number, need: number): number {
    const size = (): number => fstatSync(this.#file).size
    if (size() >= end + need) return size()
    // Nobody else can write within a transaction.
    this.#database.transactionSync(() => {
      let step = Math.max(GROWTH_BYTES, need)
      while (size() < end + need && step >= MIN_GROWTH_BYTES) {
        if (!this.#append(size(), step)) step = Math.floor(step / 4)
      }
    })
    return size()
  }

  #append(position: number, length: number): boolean {
    try {
      return writeSync(this.#file, Buffer.alloc(length), 0, length, position) === length
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined
      if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG') return false
      throw error
    }
  }

  #stats(): Stats {
    // The library declares no type for it.
    return this.#database.getStats() as Stats
  }
}

function usedPages({ free, ...tree }: Stats): number {
  return 2 + pages(tree) + pages(free)
}

function pages({ treeBranchPageCount, treeLeafPageCount, overflowPages }: Tree): number {
  return treeBranchPageCount + treeLeafPageCount + overflowPages
}
