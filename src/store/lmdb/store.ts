/**
 * A store in a folder, shared by the processes of one machine. Writes are durable before they resolve. A
 * damaged or replaced folder is noticed and refuses keyed calls.
 */
import type { Database } from 'lmdb'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Log } from '../../core/log.ts'
import { MemoryStore } from '../memory.ts'
import { isPromise, Sentinel } from '../sentinel.ts'
import { type RateLimitWindow, type Entry, FOREVER, type Portable, type TokenGrant } from '../store.ts'
import { LostStore, DATA, FolderWatch, generationOf, type Loss, writeGeneration } from './files.ts'
import { type Base, MAX_STORE_BYTES, FORMAT_MARK, openDatabase, reasonOf } from './open.ts'
import { DamagedValue, type Found, newVersion, readValue, storedValue } from './pages.ts'
import { Room, unavailable, type Write, Writer } from './writer.ts'

/**
 * How many values are looked at in one go; how long after that the next ones are, and where many of them were over;
 * and how long to rest after all were, in milliseconds.
 */
const SWEEP_BATCH_VALUES = 256
const SWEEP_INTERVAL_MS = 500
const BUSY_SWEEP_INTERVAL_MS = 20
const SWEEP_REST_MS = 30_000
/** How often it is looked whether the folder is still there, and at least how often before something is read. */
const WATCH_MS = 1000
const STALE_MS = 50
/** Which store it is. The key is none that others use. */
const GENERATION_KEY = 'gatehouse:generation'

/** What is left to other settings, and to tests. */
interface Options {
  /** The time in milliseconds since 1970. */
  readonly clock?: () => number
  /** In bytes. */
  readonly limit?: number
  /** How long to rest after all values were looked at, in milliseconds. */
  readonly rest?: number
  /** Where it is remembered what stores of this user promised. */
  readonly sentinels?: string | undefined
}

interface Parts {
  readonly database: Base
  readonly room: Room
  readonly writer: Writer
  readonly watch: FolderWatch
  readonly id: string
  /** Whether the folder is there still: before what is written then, and after it. */
  lookBefore(): Loss | undefined
  lookAfter(): Loss | undefined
}

/**
 * A store in a folder, which several processes of one machine may share. What was written has reached the disk.
 * What is taken from buckets is counted by each process alone: the count is needed for a window of time only, and
 * a write for each call would cost more than the rest of the call.
 */
export class LmdbStore implements Portable {
  readonly #directory: string
  readonly #log: Log
  readonly #clock: () => number
  readonly #limit: number
  readonly #rest: number
  readonly #local = new MemoryStore()
  /** It is opened at the first use: a gateway listens before. */
  #opening: Promise<Parts | undefined> | undefined
  #parts: Parts | undefined
  readonly #sentinel: Sentinel
  /** Why nothing is taken. */
  #reason: string | undefined
  #unusable: string | undefined
  /** What became of its folder, and what of its values is damaged. Nothing is promised from then on. */
  #loss: Loss | undefined
  #damage: string | undefined
  #lookedAt = -Infinity
  #watching: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined
  #sweptTo: string | undefined
  #isClosed = false

  constructor(directory: string, log: Log, options: Options = {}) {
    const { clock = Date.now, limit = MAX_STORE_BYTES, rest = SWEEP_REST_MS, sentinels } = options
    this.#directory = directory
    this.#log = log
    this.#clock = clock
    this.#limit = limit
    this.#rest = rest
    this.#sentinel = new Sentinel(sentinels, directory)
  }

  get unavailableReason(): string | undefined {
    const reason = this.#loss?.reason ?? this.#damage ?? this.#reason
    if (reason === undefined) return this.#unusable
    return `the store in ${this.#directory} takes nothing more: ${reason}`
  }

  async opened(): Promise<void> {
    await (this.#opening ??= this.#open())
  }

  async get(key: string): Promise<string | undefined> {
    const found = this.#find(this.#parts ?? (await this.#must()), key)
    return found && found.until > this.#clock() ? found.text : undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    const parts = this.#parts ?? (await this.#must())
    this.#promise(parts, key, ttl)
    await this.#write(parts, { key, value: this.#wrap(key, value, ttl), version: newVersion() })
  }

  async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    const parts = this.#parts ?? (await this.#must())
    for (;;) {
      const found = this.#find(parts, key)
      if (found && found.until > this.#clock()) return found.text
      if (this.#damage !== undefined && isPromise(key)) throw unavailable(this.#damage)
      const before = found?.version ?? null
      this.#promise(parts, key, ttl)
      const write = { key, value: this.#wrap(key, value, ttl), version: newVersion(), before }
      if (await this.#write(parts, write)) return undefined
    }
  }

  async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    this.#promise(parts, key, ttl)
    return this.#change(parts, key, before, () => ({ value: this.#wrap(key, value, ttl) }))
  }

  async compareAndDelete(key: string, before: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    return this.#change(parts, key, before, () => ({}))
  }

  async delete(key: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    return this.#change(parts, key, undefined, () => ({}))
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    // The character after the slash is the zero.
    for await (const { key, value } of this.#walk(`${collection}/`, `${collection}0`)) found.set(key, value)
    return found
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    return this.#local.takeTokens(buckets)
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    return this.#local.peekTokens(buckets)
  }

  async *entries(): AsyncIterable<Entry> {
    yield* this.#walk(undefined, undefined)
  }

  async describe(): Promise<Readonly<Record<string, string | number>>> {
    const { room } = this.#parts ?? (await this.#must())
    return { kind: 'LMDB', folder: this.#directory, used: room.used, limit: this.#limit }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweeping)
    clearInterval(this.#watching)
    const parts = await this.#opening
    this.#parts = undefined
    if (!parts) return
    await parts.writer.close()
    parts.room.close()
    await parts.database.close()
  }

  async #open(): Promise<Parts | undefined> {
    try {
      const isAwaited = this.#sentinel.read(this.#clock()) !== undefined
      const database = await openDatabase(this.#directory, isAwaited)
      const parts = await this.#begin(database)
      if (!this.#isClosed) {
        this.#parts = parts
        this.#sweepIn(SWEEP_INTERVAL_MS)
        this.#watching = setInterval(() => this.#look(parts.watch), WATCH_MS).unref()
      }
      return parts
    } catch (error) {
      this.#unusable = reasonOf(error, this.#directory)
      return undefined
    }
  }

  /** Goes on with a database that is open. @throws where it is not the one that belongs there; it is closed then */
  async #begin(database: Base): Promise<Parts> {
    const room = new Room(join(this.#directory, DATA), this.#limit, database)
    const writer = new Writer(database, room, (problem) => this.#tell(problem))
    try {
      if (database.get(FORMAT_MARK.key) === undefined) await mark(writer)
      const id = await this.#identify(database, writer)
      const watch = new FolderWatch(this.#directory)
      const look = (): Loss | undefined => this.#look(watch)
      // What is written together is asked for in one turn, and is done in one.
      return {
        database,
        room,
        writer,
        id,
        watch,
        lookBefore: oncePerTurn(look),
        lookAfter: oncePerTurn(look),
      }
    } catch (error) {
      await writer.close()
      room.close()
      await database.close()
      throw error
    }
  }

  /** Which store it is: it says so in the data, beside it, and elsewhere, once it promised something. @throws LostStore */
  async #identify(database: Base, writer: Writer): Promise<string> {
    const kept = (): string | undefined => find(database, GENERATION_KEY)?.text
    const beside = generationOf(this.#directory)
    const known = [beside, this.#sentinel.read(this.#clock())?.id].filter((each) => each !== undefined)
    const there = kept()
    if (known.some((each) => each !== there)) throw new LostStore('it holds another store than before')
    if (there === undefined) {
      const value = storedValue(GENERATION_KEY, randomUUID(), this.#clock() + FOREVER)
      await writer.write({ key: GENERATION_KEY, value, version: newVersion(), before: null })
    }
    const id = kept() ?? ''
    if (beside === undefined) writeGeneration(this.#directory, id)
    return id
  }

  async #must(): Promise<Parts> {
    const parts = this.#isClosed ? undefined : await (this.#opening ??= this.#open())
    if (!parts || this.#isClosed) throw unavailable(this.#unusable ?? 'it is closed')
    return parts
  }

  #tell(problem: string | undefined): void {
    if (problem === this.#reason) return
    this.#reason = problem
    if (problem === undefined) {
      this.#log.info('store.ready')
      return
    }
    this.#log.error('store.away', { reason: this.unavailableReason })
    // What is full is not left full for longer than it has to be.
    this.#sweepIn(SWEEP_INTERVAL_MS)
  }

  /** Looks whether the folder is still there. */
  #look(watch: FolderWatch): Loss | undefined {
    this.#lookedAt = performance.now()
    const loss = watch.look()
    if (loss?.reason === this.#loss?.reason) return loss
    this.#loss = loss
    if (loss === undefined) this.#log.info('store.ready')
    else this.#log.error('store.away', { reason: this.unavailableReason })
    return loss
  }

  #find(parts: Parts, key: string): Found | undefined {
    const loss = performance.now() - this.#lookedAt > STALE_MS ? this.#look(parts.watch) : this.#loss
    // What was removed can still be read, what was cut cannot.
    if (loss?.isCut) throw unavailable(loss.reason)
    try {
      return find(parts.database, key)
    } catch (error) {
      throw this.#damaged(error)
    }
  }

  #damaged(error: unknown): unknown {
    if (!(error instanceof DamagedValue)) return error
    if (this.#damage === undefined) {
      this.#damage = `${error.message}. Put a copy of the folder in its place`
      this.#log.error('store.away', { reason: this.unavailableReason })
    }
    return unavailable(error.message, error)
  }

  /** Writes where the folder is there before and after: what is written to a removed one is lost. */
  async #write(parts: Parts, write: Write): Promise<boolean> {
    const before = parts.lookBefore()
    if (before) throw unavailable(before.reason)
    const isDone = await parts.writer.write(write)
    const after = parts.lookAfter()
    if (after) throw unavailable(after.reason)
    return isDone
  }

  /** Takes note of what is promised, before it is. */
  #promise({ id }: Parts, key: string, ttl: number): void {
    if (isPromise(key)) this.#sentinel.note(id, this.#clock() + ttl, this.#clock())
  }

  /** Changes what is there, if it is `before`, or whatever it is. */
  async #change(
    parts: Parts,
    key: string,
    before: string | undefined,
    change: () => { readonly value?: string },
  ): Promise<boolean> {
    for (;;) {
      const found = this.#find(parts, key)
      if (!found || found.until <= this.#clock()) return false
      if (before !== undefined && found.text !== before) return false
      const write = { key, ...change(), version: newVersion(), before: found.version }
      if (await this.#write(parts, write)) return true
    }
  }

  #wrap(key: string, value: string, ttl: number): string {
    return storedValue(key, value, this.#clock() + ttl)
  }

  /** All that lives between two keys. Others get their turn meanwhile. */
  async *#walk(start: string | undefined, end: string | undefined): AsyncGenerator<Entry> {
    const parts = this.#parts ?? (await this.#must())
    for (let from = start; ; await new Promise(setImmediate)) {
      if (this.#isClosed) throw unavailable('it is closed')
      const part = this.#readPart(parts, from, end)
      const now = this.#clock()
      for (const { key, found } of part)
        if (found && found.until > now) yield { key, value: found.text, until: found.until }
      from = part.at(-1)?.key
      if (part.length < SWEEP_BATCH_VALUES || from === undefined) return
    }
  }

  #readPart(parts: Parts, from: string | undefined, end: string | undefined): readonly Kept[] {
    const loss = this.#look(parts.watch)
    if (loss?.isCut) throw unavailable(loss.reason)
    try {
      return readPart(parts.database, from, end)
    } catch (error) {
      throw this.#damaged(error)
    }
  }

  /** The next few values; none where they cannot be read, or cannot be removed. */
  #swept(parts: Parts): readonly Kept[] {
    try {
      const part = this.#readPart(parts, this.#sweptTo, undefined)
      return this.#loss ? [] : part
    } catch {
      return []
    }
  }

  #sweepIn(delay: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#sweeping)
    this.#sweeping = setTimeout(() => void this.#sweep(), delay).unref()
  }

  /** Removes what is over, among the next few values. */
  async #sweep(): Promise<void> {
    const parts = this.#parts
    if (!parts) return
    const { writer } = parts
    const part = this.#swept(parts)
    const now = this.#clock()
    const removals = part.flatMap(({ key, found }) =>
      found && found.until <= now ? [writer.write({ key, version: 0, before: found.version })] : [],
    )
    await Promise.allSettled(removals)
    const isWhole = part.length < SWEEP_BATCH_VALUES
    this.#sweptTo = isWhole ? undefined : part.at(-1)?.key
    if (isWhole && this.#reason !== undefined && this.#parts) writer.look()
    const pause = removals.length > SWEEP_BATCH_VALUES / 8 ? BUSY_SWEEP_INTERVAL_MS : SWEEP_INTERVAL_MS
    this.#sweepIn(this.#reason === undefined && isWhole ? this.#rest : pause)
  }
}

function find(database: Base, key: string): Found | undefined {
  refresh(database)
  const entry = database.getEntry(key)
  return entry && readValue(key, entry.value, entry.version)
}

/** Has the next read see what other processes have written by then, instead of since a while ago. */
function refresh(database: Database<string, string>): void {
  database.resetReadTxn()
}

interface Kept {
  readonly key: string
  readonly found: Found | undefined
}

/** Values of the store's own, which are none of those who use it. */
const own: ReadonlySet<string> = new Set([FORMAT_MARK.key, GENERATION_KEY])

/** @throws DamagedValue */
function readPart(database: Base, from: string | undefined, end: string | undefined): Kept[] {
  const range = {
    ...(from !== undefined && { start: from, exclusiveStart: true }),
    ...(end !== undefined && { end }),
    limit: SWEEP_BATCH_VALUES,
    versions: true,
  }
  refresh(database)
  return [...database.getRange(range)].map(({ key, value, version }) => {
    return { key, found: own.has(key) ? undefined : readValue(key, value, version) }
  })
}

async function mark(writer: Writer): Promise<void> {
  const value = `zzzzzzzz format ${FORMAT_MARK.format}`
  await writer.write({ key: FORMAT_MARK.key, value, version: newVersion(), before: null })
}

/** Reads once for all who ask within one turn of the event loop. */
function oncePerTurn<Value>(read: () => Value): () => Value {
  let kept: { readonly value: Value } | undefined
  return () => {
    if (!kept) {
      kept = { value: read() }
      setImmediate(() => {
        kept = undefined
      })
    }
    return kept.value
  }
}
