/** Writes in batches, one commit for many, and makes room in the file before LMDB needs it. */
import type { Database } from 'lmdb'
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { GatewayError } from '../../core/error.ts'

/** Something to be written. */
export interface Write {
  readonly key: string
  /** The new value; absent where there is to be none. */
  readonly value?: string
  /** What the new value is told apart from others by. */
  readonly version: number
  /** The version that has to be there; `null` where nothing may be, absent where it does not matter. */
  readonly before?: number | null
}

interface Waiting extends Write {
  resolve(isDone: boolean): void
  reject(error: GatewayError): void
}

/** How long the disk may take, in milliseconds. */
const WRITE_TIMEOUT_MS = 10_000
/** How much is written together at most. */
const MAX_BATCH = { writes: 256, bytes: 4 * 1024 * 1024 }
/**
 * How many turns of the event loop without another write say that none is on its way, and how long that is waited
 * for at most, in milliseconds. A commit costs as much as twenty of its writes: calls that are being read may as well
 * go along.
 */
const GATHER_WAIT = { quiet: 5, most: 2 }
/** What a write may take besides its value: the pages on the way to it, which are written anew. */
const PAGE_BYTES = 4096
const WRITE = 3 * PAGE_BYTES
const BATCH_OVERHEAD_BYTES = 16 * PAGE_BYTES
/** How much room there has to be before a store that was full takes new things. */
const MIN_FREE_BYTES = 512 * 1024

/**
 * Writes what many ask for in one go, which costs the disk as much as one write does. While one batch is on its
 * way to the disk the next one gathers.
 */
export class Writer {
  readonly #database: Database<string, string>
  readonly #room: Room
  readonly #onProblem: (problem: string | undefined) => void
  #waiting: Waiting[] = []
  #running: Promise<void> | undefined
  /** Why nothing is taken: the library failed, after which it cannot be trusted, or the disk does not answer. */
  #failure: string | undefined
  #isStuck = false

  constructor(
    database: Database<string, string>,
    room: Room,
    onProblem: (problem: string | undefined) => void,
  ) {
    this.#database = database
    this.#room = room
    this.#onProblem = onProblem
  }

  /** Resolves once it is on the disk, or with false where something else was there. @throws SERVER_UNAVAILABLE */
  write(write: Write): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(unavailable(this.#failure))
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.#waiting.push({ ...write, resolve, reject })
    this.#running ??= this.#run()
    return promise
  }

  /** Looks whether there is room again: enough for what is begun then to be ended. */
  look(): void {
    try {
      this.#room.make(MIN_FREE_BYTES, false)
      if (this.#failure === undefined) this.#onProblem(undefined)
    } catch (error) {
      this.#onProblem(this.#failure ?? reasonOf(error))
    }
  }

  /** Takes nothing more. Resolves once nothing is being written. */
  async close(): Promise<void> {
    this.#failure = 'it is closed'
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#gather()
      const batch = this.#admit(this.#take())
      if (batch.length > 0) await this.#commit(batch)
    }
    this.#running = undefined
  }

  /** Lets those come along who are about to write as well. */
  async #gather(): Promise<void> {
    const end = performance.now() + GATHER_WAIT.most
    let quiet = 0
    while (quiet < GATHER_WAIT.quiet && performance.now() < end) {
      const before = this.#waiting.length
      await new Promise(setImmediate)
      quiet = this.#waiting.length > before ? 0 : quiet + 1
    }
  }

  #take(): Waiting[] {
    let bytes = 0
    const end = this.#waiting.findIndex((each, index) => {
      bytes += sizeOf(each)
      return index > 0 && (index >= MAX_BATCH.writes || bytes > MAX_BATCH.bytes)
    })
    if (end === -1) {
      const all = this.#waiting
      this.#waiting = []
      return all
    }
    return this.#waiting.splice(0, end)
  }

  /** Those there is room for. */
  #admit(batch: Waiting[]): Waiting[] {
    const removals = batch.filter(({ value }) => value === undefined)
    try {
      this.#makeRoom(batch)
      return batch
    } catch (error) {
      const problem = reasonOf(error)
      this.#refuse(
        batch.filter(({ value }) => value !== undefined),
        problem,
        error,
      )
      if (!(error instanceof NoRoom)) return this.#refuse(removals, problem, error)
    }
    try {
      if (removals.length > 0) this.#makeRoom(removals)
      return removals
    } catch (error) {
      return this.#refuse(removals, reasonOf(error), error)
    }
  }

  #makeRoom(batch: readonly Waiting[]): void {
    const bytes = batch.reduce((sum, each) => sum + sizeOf(each), BATCH_OVERHEAD_BYTES)
    this.#room.make(bytes, batch.length > 0 && batch.every(({ value }) => value === undefined))
  }

  #refuse(batch: readonly Waiting[], problem: string, cause?: unknown): [] {
    if (batch.length === 0) return []
    this.#onProblem(problem)
    for (const { reject } of batch) reject(unavailable(problem, cause))
    return []
  }

  async #commit(batch: readonly Waiting[]): Promise<void> {
    const late = setTimeout(() => {
      this.#isStuck = true
      this.#giveUp(batch, 'the disk does not answer')
    }, WRITE_TIMEOUT_MS).unref()
    try {
      await this.#putAll(batch)
      if (!this.#isStuck) return
      this.#failure = undefined
      this.#isStuck = false
      this.look()
    } catch (error) {
      this.#giveUp(batch, `writing failed: ${await causeOf(error)}; the gateway has to be started again`)
    } finally {
      clearTimeout(late)
    }
  }

  /** Hands a batch over at once, which makes it one transaction: it is written whole, or not at all. */
  #putAll(batch: readonly Waiting[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let left = batch.length
    for (const each of batch) {
      this.#put(each).then((isDone) => {
        each.resolve(isDone)
        if (--left === 0) resolve()
      }, reject)
    }
    return promise
  }

  #put({ key, value, version, before }: Write): Promise<boolean> {
    const database = this.#database
    // The library takes null for "nothing may be there", which its declaration leaves out.
    if (value !== undefined) return database.put(key, value, version, before as number | undefined)
    return typeof before === 'number' ? database.remove(key, before) : database.remove(key)
  }

  #giveUp(batch: readonly Waiting[], problem: string): void {
    this.#failure = problem
    this.#refuse(batch, problem)
    this.#refuse(this.#waiting, problem)
    this.#waiting = []
  }
}

/** The failure for callers; the reason is for operators only. */
export function unavailable(reason: string, cause?: unknown): GatewayError {
  const isFull = cause instanceof NoRoom
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    isFull ? 'The store of the gateway is full.' : 'The store of the gateway cannot be used.',
    { cause: cause ?? new Error(reason) },
  )
}

function sizeOf({ value }: Write): number {
  if (value === undefined) return WRITE
  // A character takes up to three bytes, and a value without room in a page has pages of its own.
  const most = value.length * 3
  return WRITE + (most > PAGE_BYTES / 4 ? most + PAGE_BYTES : 0)
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Why a commit failed; the library reports it by a promise of its own. */
async function causeOf(error: unknown): Promise<string> {
  if (!(error instanceof Error) || !('commitError' in error)) return reasonOf(error)
  try {
    await error.commitError
    return reasonOf(error)
  } catch (cause) {
    return reasonOf(cause)
  }
}

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
class NoRoom extends Error {}

/** By how much the file grows at once, in bytes, for which calls wait, and at least where the disk has no more. */
const GROWTH_BYTES = 256 * 1024
const MIN_GROWTH_BYTES = 64 * 1024
/** For how long what is known of the file is believed, in milliseconds, since other processes may write to it. */
const STATS_STALE_MS = 100
/** How many free pages may still be pinned by readers. */
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
    // No other process writes within a transaction.
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
