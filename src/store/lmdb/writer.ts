/** Writes in batches, one commit each, and extends the file before LMDB needs the space. */
import type { Database } from 'lmdb'
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs'
import { GatewayError, messageOf, systemCodeOf } from '../../core/error.ts'
import { FULL } from './files.ts'

/** One write. */
export interface Write {
  readonly key: string
  /** The new value; absent to remove it. */
  readonly value?: string
  /** The version of the new value, which distinguishes it from others. */
  readonly version: number
  /** The required current version; `null` if no value may exist, absent if it does not matter. */
  readonly before?: number | null
}

interface QueuedWrite extends Write {
  resolve(isDone: boolean): void
  reject(error: GatewayError): void
}

/** How long a commit may take, in milliseconds. */
const WRITE_TIMEOUT_MS = 10_000
/** The limits of one batch. */
const MAX_BATCH = { writes: 256, bytes: 4 * 1024 * 1024 }
/**
 * A batch is closed after so many turns of the event loop without a further write, and after at most so many
 * milliseconds. A commit costs as much as twenty of its writes, so calls that are just being read should join.
 */
const GATHER_WAIT = { quietTurns: 5, maxMs: 2 }
const PAGE_BYTES = 4096
/** The space a write needs besides its value: the copied pages on the path to it. */
const WRITE_OVERHEAD_BYTES = 3 * PAGE_BYTES
const BATCH_OVERHEAD_BYTES = 16 * PAGE_BYTES
/** How much free space a store that was full needs before it accepts writes again. */
const MIN_FREE_BYTES = 512 * 1024

/**
 * Commits concurrent writes together, at the disk cost of one write. While one batch is being committed, the next one
 * is collected.
 */
export class Writer {
  readonly #database: Database<string, string>
  readonly #space: FileSpace
  readonly #onProblem: (problem: string | undefined) => void
  #queue: QueuedWrite[] = []
  #running: Promise<void> | undefined
  /** Why writes are refused: the library failed and cannot be trusted any more, or the disk does not respond. */
  #failure: string | undefined
  #isStuck = false

  constructor(
    database: Database<string, string>,
    space: FileSpace,
    onProblem: (problem: string | undefined) => void,
  ) {
    this.#database = database
    this.#space = space
    this.#onProblem = onProblem
  }

  /** Resolves once all are on disk, or with false if the last found another version. @throws SERVER_UNAVAILABLE */
  write(writes: readonly Write[]): Promise<boolean> {
    if (this.#failure !== undefined) return Promise.reject(unavailable(this.#failure))
    if (writes.length === 0) return Promise.resolve(true)
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    let left = writes.length
    const done = (isDone: boolean): void => {
      if (--left === 0) resolve(isDone)
    }
    for (const write of writes) this.#queue.push({ ...write, resolve: done, reject })
    this.#running ??= this.#run()
    return promise
  }

  /** Checks whether there is space again, enough to finish what would be started. */
  checkSpace(): void {
    try {
      this.#space.reserve(MIN_FREE_BYTES, false)
      if (this.#failure === undefined) this.#onProblem(undefined)
    } catch (error) {
      this.#onProblem(this.#failure ?? messageOf(error))
    }
  }

  /** Accepts no more writes. Resolves once the current batch is written. */
  async close(): Promise<void> {
    this.#failure = 'it is closed'
    await this.#running
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      await this.#gather()
      const batch = this.#admit(this.#take())
      if (batch.length > 0) await this.#commit(batch)
    }
    this.#running = undefined
  }

  /** Waits briefly for further writes. */
  async #gather(): Promise<void> {
    const end = performance.now() + GATHER_WAIT.maxMs
    let quiet = 0
    while (quiet < GATHER_WAIT.quietTurns && performance.now() < end) {
      const before = this.#queue.length
      await new Promise(setImmediate)
      quiet = this.#queue.length > before ? 0 : quiet + 1
    }
  }

  #take(): QueuedWrite[] {
    let bytes = 0
    const end = this.#queue.findIndex((each, index) => {
      bytes += sizeOf(each)
      return index > 0 && (index >= MAX_BATCH.writes || bytes > MAX_BATCH.bytes)
    })
    if (end === -1) {
      const all = this.#queue
      this.#queue = []
      return all
    }
    return this.#queue.splice(0, end)
  }

  /** The writes for which there is space. */
  #admit(batch: QueuedWrite[]): QueuedWrite[] {
    const removals = batch.filter(({ value }) => value === undefined)
    try {
      this.#reserve(batch)
      return batch
    } catch (error) {
      const problem = messageOf(error)
      this.#refuse(
        batch.filter(({ value }) => value !== undefined),
        problem,
        error,
      )
      if (!(error instanceof OutOfSpace)) return this.#refuse(removals, problem, error)
    }
    try {
      if (removals.length > 0) this.#reserve(removals)
      return removals
    } catch (error) {
      return this.#refuse(removals, messageOf(error), error)
    }
  }

  #reserve(batch: readonly QueuedWrite[]): void {
    const bytes = batch.reduce((sum, each) => sum + sizeOf(each), BATCH_OVERHEAD_BYTES)
    this.#space.reserve(bytes, batch.length > 0 && batch.every(({ value }) => value === undefined))
  }

  #refuse(batch: readonly QueuedWrite[], problem: string, cause?: unknown): [] {
    if (batch.length === 0) return []
    this.#onProblem(problem)
    for (const { reject } of batch) reject(unavailable(problem, cause))
    return []
  }

  async #commit(batch: readonly QueuedWrite[]): Promise<void> {
    const late = setTimeout(() => {
      this.#isStuck = true
      this.#giveUp(batch, 'the disk does not respond')
    }, WRITE_TIMEOUT_MS).unref()
    try {
      await this.#putAll(batch)
      if (!this.#isStuck) return
      this.#failure = undefined
      this.#isStuck = false
      this.checkSpace()
    } catch (error) {
      this.#giveUp(batch, `writing failed: ${await causeOf(error)}; restart the gateway`)
    } finally {
      clearTimeout(late)
    }
  }

  /** Starts all writes of a batch in one turn, which makes them one transaction: all or nothing. */
  async #putAll(batch: readonly QueuedWrite[]): Promise<void> {
    const done = await Promise.all(batch.map((each) => this.#put(each)))
    for (const [index, { resolve }] of batch.entries()) resolve(done[index] === true)
  }

  #put({ key, value, version, before }: Write): Promise<boolean> {
    const database = this.#database
    // The library accepts null for "must not exist", which its declaration leaves out.
    if (value !== undefined) return database.put(key, value, version, before as number | undefined)
    return typeof before === 'number' ? database.remove(key, before) : database.remove(key)
  }

  #giveUp(batch: readonly QueuedWrite[], problem: string): void {
    this.#failure = problem
    this.#refuse(batch, problem)
    this.#refuse(this.#queue, problem)
    this.#queue = []
  }
}

/** The error for callers; the reason is for operators only. */
export function unavailable(reason: string, cause?: unknown): GatewayError {
  const isFull = cause instanceof OutOfSpace
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    isFull ? 'The store of the gateway is full.' : 'The store of the gateway cannot be used.',
    { cause: cause ?? new Error(reason) },
  )
}

function sizeOf({ value }: Write): number {
  if (value === undefined) return WRITE_OVERHEAD_BYTES
  // A character takes up to three bytes, and a large value has pages of its own.
  const maxBytes = value.length * 3
  return WRITE_OVERHEAD_BYTES + (maxBytes > PAGE_BYTES / 4 ? maxBytes + PAGE_BYTES : 0)
}

/** Why a commit failed; the library reports it in a separate promise. */
async function causeOf(error: unknown): Promise<string> {
  const commitError = error instanceof Error && 'commitError' in error ? error.commitError : undefined
  return messageOf(
    await Promise.resolve(commitError).then(
      () => error,
      (cause: unknown) => cause,
    ),
  )
}

/** The page counts of a tree. */
interface Tree {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}

/** The statistics of a database. */
interface Stats extends Tree {
  readonly pageSize: number
  readonly lastPageNumber: number
  readonly free: Tree
}

/** The part of a database that is needed to extend its file. */
interface GrowableDatabase {
  getStats(): unknown
  transactionSync<T>(work: () => T): T
}

/** There is no space for more: the disk or the store's own limit is exhausted. */
class OutOfSpace extends Error {}

/** By how many bytes the file grows in one step, for which calls wait, and the minimum on a nearly full disk. */
const GROWTH_BYTES = 256 * 1024
const MIN_GROWTH_BYTES = 64 * 1024
/** How long statistics are valid, in milliseconds, because other processes may write. */
const STATS_STALE_MS = 100
/** How many free pages may still be pinned by readers. */
const MAX_PINNED_PAGES = 1024

/**
 * Extends the file of a database before something is written to it. A full disk is detected here, where it is harmless:
 * the library corrupts the memory of the process if a write fails for lack of space.
 */
export class FileSpace {
  readonly #file: number
  readonly #limit: number
  readonly #database: GrowableDatabase
  /** How much can be written before the statistics are read again, in bytes. */
  #remaining = 0
  #checkedAt = 0

  /** `limit` is the maximum size of the stored data, in bytes. */
  constructor(path: string, limit: number, database: GrowableDatabase) {
    this.#file = openSync(path, 'r+')
    this.#limit = limit
    this.#database = database
  }

  /** How many bytes the stored data takes. */
  get used(): number {
    const stats = this.#stats()
    return usedPages(stats) * stats.pageSize
  }

  /** Ensures space for so many bytes; removals may exceed the limit. @throws OutOfSpace */
  reserve(bytes: number, isRemoval: boolean): void {
    const isKnown = bytes <= this.#remaining && performance.now() - this.#checkedAt < STATS_STALE_MS
    if (!isKnown) this.#remaining = this.#ensure(bytes, isRemoval)
    this.#remaining -= bytes
  }

  close(): void {
    closeSync(this.#file)
  }

  #ensure(bytes: number, isRemoval: boolean): number {
    const stats = this.#stats()
    const used = usedPages(stats)
    const allowed = this.#limit - used * stats.pageSize
    if (allowed < bytes && !isRemoval)
      throw new OutOfSpace(`it contains ${Math.round(this.#limit / 1024 / 1024)} MB, its maximum`)
    this.#checkedAt = performance.now()
    // Other processes may use some of the space at the same time.
    const need = 2 * bytes
    const end = (stats.lastPageNumber + 1) * stats.pageSize
    const grown = this.#grow(end, need) - end
    if (grown >= need) return isRemoval ? bytes : Math.min(grown / 2, allowed)
    const free = stats.lastPageNumber + 1 - used - MAX_PINNED_PAGES
    if (free * stats.pageSize < 4 * bytes) throw new OutOfSpace('the disk is full')
    return bytes
  }

  /** Extends the file beyond its last page with zeros. Returns its size. */
  #grow(end: number, need: number): number {
    const size = (): number => fstatSync(this.#file).size
    if (size() >= end + need) return size()
    // Within a transaction no other process writes.
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
      if (FULL.has(String(systemCodeOf(error)))) return false
      throw error
    }
  }

  #stats(): Stats {
    // The library declares no type for the statistics.
    return this.#database.getStats() as Stats
  }
}

function usedPages({ free, ...tree }: Stats): number {
  return 2 + pages(tree) + pages(free)
}

function pages({ treeBranchPageCount, treeLeafPageCount, overflowPages }: Tree): number {
  return treeBranchPageCount + treeLeafPageCount + overflowPages
}
