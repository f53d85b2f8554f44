/**
 * A store in a folder, shared by the processes of one machine. Writes are durable before they resolve. If the folder is
 * damaged or replaced, the store notices and refuses further writes.
 */
import type { Database } from 'lmdb'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { Log } from '../../core/log.ts'
import { FolderBlobs } from '../blobs/folder.ts'
import { MemoryStore } from '../memory.ts'
import { isCriticalKey, Sentinel } from '../sentinel.ts'
import {
  type RateLimitWindow,
  type StoreEntry,
  FOREVER,
  type NewValue,
  type PortableStore,
  type TokenGrant,
} from '../store.ts'
import type { ChangeListener } from '../watches.ts'
import { FolderChanges } from './changes.ts'
import {
  LostStore,
  BLOBS,
  DATA,
  FolderWatch,
  generationOf,
  type Loss,
  writeGeneration,
  type Base,
  MAX_STORE_BYTES,
  FORMAT_MARK,
  openDatabase,
  reasonOf,
} from './files.ts'
import { DamagedValue, type StoredValue, newVersion, decodeValue, encodeValue } from './pages.ts'
import { FileSpace, unavailable, type Write, Writer } from './writer.ts'

/**
 * Expired values are swept in batches: values per batch, the delay between batches, the delay if many values had
 * expired, and the pause after a full pass, in milliseconds.
 */
const SWEEP_BATCH_VALUES = 256
const SWEEP_INTERVAL_MS = 500
const BUSY_SWEEP_INTERVAL_MS = 20
const SWEEP_REST_MS = 30_000
/** How often the folder is checked, and the maximum age of a check before a read, in milliseconds. */
const WATCH_MS = 1000
const STALE_MS = 50
/** The key of the store's id. Callers never use it. */
const GENERATION_KEY = 'gatehouse:generation'

/** What other settings and tests determine. */
interface LmdbSettings {
  /** The time in milliseconds since 1970. */
  readonly clock?: () => number
  /** In bytes. */
  readonly limit?: number
  /** The pause after all values were swept, in milliseconds. */
  readonly rest?: number
  /** The folder that records what the stores of this user contain. */
  readonly sentinels?: string | undefined
}

interface OpenStore {
  readonly database: Base
  readonly space: FileSpace
  readonly writer: Writer
  readonly watch: FolderWatch
  readonly id: string
  /** Check whether the folder still exists: before a write, and after it. */
  checkBefore(): Loss | undefined
  checkAfter(): Loss | undefined
}

/**
 * A store in a folder, which several processes of one machine may share. A write that resolved is on disk. Rate limit
 * tokens are counted by each process alone: they matter only within a time window, and a write for each call would
 * cost more than the rest of the call.
 */
export class LmdbStore implements PortableStore {
  readonly blobs: FolderBlobs
  readonly #directory: string
  readonly #log: Log
  readonly #clock: () => number
  readonly #limit: number
  readonly #rest: number
  readonly #local = new MemoryStore()
  /** Opened lazily, because the gateway starts to listen first. */
  #opening: Promise<OpenStore | undefined> | undefined
  #parts: OpenStore | undefined
  readonly #sentinel: Sentinel
  /** Why writes are refused. */
  #reason: string | undefined
  #unusable: string | undefined
  /** What happened to the folder, and which value is damaged. From then on writes are refused. */
  #loss: Loss | undefined
  #damage: string | undefined
  #checkedAt = -Infinity
  #watching: NodeJS.Timeout | undefined
  #sweeping: NodeJS.Timeout | undefined
  #sweptTo: string | undefined
  #isClosed = false
  #closing: Promise<void> | undefined
  readonly #changes = new FolderChanges(() => this.#parts?.database)

  constructor(directory: string, log: Log, options: LmdbSettings = {}) {
    const { clock = Date.now, limit = MAX_STORE_BYTES, rest = SWEEP_REST_MS, sentinels } = options
    this.#directory = directory
    this.blobs = new FolderBlobs(join(directory, BLOBS))
    this.#log = log
    this.#clock = clock
    this.#limit = limit
    this.#rest = rest
    this.#sentinel = new Sentinel(sentinels, directory)
  }

  get unavailableReason(): string | undefined {
    const reason = this.#loss?.reason ?? this.#damage ?? this.#reason
    if (reason === undefined) return this.#unusable
    return `the store in ${this.#directory} accepts no writes: ${reason}`
  }

  async opened(): Promise<void> {
    await (this.#opening ??= this.#open())
  }

  async get(key: string): Promise<string | undefined> {
    const found = this.#find(this.#parts ?? (await this.#requireOpen()), key)
    return found && found.until > this.#clock() ? found.text : undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    const parts = this.#parts ?? (await this.#requireOpen())
    this.#noteCritical(parts, key, ttl)
    await this.#write(parts, [{ key, value: this.#encode(key, value, ttl), version: newVersion() }])
  }

  async putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void> {
    const parts = this.#parts ?? (await this.#requireOpen())
    const writes = values.map(({ key, value, ttl }): Write => {
      this.#noteCritical(parts, key, ttl)
      return { key, value: this.#encode(key, value, ttl), version: newVersion() }
    })
    await this.#write(parts, [...writes, ...removed.map((key) => ({ key, version: 0 }))])
  }

  async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    const parts = this.#parts ?? (await this.#requireOpen())
    for (;;) {
      const found = this.#find(parts, key)
      if (found && found.until > this.#clock()) return found.text
      if (this.#damage !== undefined && isCriticalKey(key)) throw unavailable(this.#damage)
      const before = found?.version ?? null
      this.#noteCritical(parts, key, ttl)
      const write = { key, value: this.#encode(key, value, ttl), version: newVersion(), before }
      if (await this.#write(parts, [write])) return undefined
    }
  }

  async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    const parts = this.#parts ?? (await this.#requireOpen())
    this.#noteCritical(parts, key, ttl)
    return this.#change(parts, key, before, () => ({ value: this.#encode(key, value, ttl) }))
  }

  async compareAndDelete(key: string, before: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#requireOpen())
    return this.#change(parts, key, before, () => ({}))
  }

  async delete(key: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#requireOpen())
    return this.#change(parts, key, undefined, () => ({}))
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    // The upper bound: "0" is the character after "/".
    for await (const { key, value } of this.#walk(`${collection}/`, `${collection}0`)) found.set(key, value)
    return found
  }

  watch(key: string, listener: ChangeListener): () => void {
    return this.#changes.watch(key, listener)
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    return this.#local.takeTokens(buckets)
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    return this.#local.peekTokens(buckets)
  }

  async *entries(): AsyncIterable<StoreEntry> {
    yield* this.#walk(undefined, undefined)
  }

  async describe(): Promise<Readonly<Record<string, string | number>>> {
    const { space } = this.#parts ?? (await this.#requireOpen())
    return { kind: 'LMDB', folder: this.#directory, used: space.used, limit: this.#limit }
  }

  /** Each process counts its own. */
  async windows(): Promise<readonly string[]> {
    return []
  }

  async deleteWindows(): Promise<void> {}

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweeping)
    clearInterval(this.#watching)
    this.#changes.close()
    const parts = await this.#opening
    this.#parts = undefined
    if (!parts) return
    await parts.writer.close()
    parts.space.close()
    await parts.database.close()
  }

  async #open(): Promise<OpenStore | undefined> {
    try {
      const isAwaited = this.#sentinel.read(this.#clock()) !== undefined
      const database = await openDatabase(this.#directory, isAwaited)
      const parts = await this.#prepare(database)
      if (!this.#isClosed) {
        this.#parts = parts
        this.#sweepIn(SWEEP_INTERVAL_MS)
        this.#watching = setInterval(() => this.#checkFolder(parts.watch), WATCH_MS).unref()
      }
      return parts
    } catch (error) {
      this.#unusable = reasonOf(error, this.#directory)
      return undefined
    }
  }

  /** Prepares an opened database; closes it on failure. @throws if it is not the expected one */
  async #prepare(database: Base): Promise<OpenStore> {
    const space = new FileSpace(join(this.#directory, DATA), this.#limit, database)
    const writer = new Writer(database, space, (problem) => this.#reportProblem(problem))
    try {
      if (database.get(FORMAT_MARK.key) === undefined) await writeFormatMark(writer)
      const id = await this.#identify(database, writer)
      const watch = new FolderWatch(this.#directory)
      const check = (): Loss | undefined => this.#checkFolder(watch)
      // Writes of one turn of the event loop are checked together.
      return {
        database,
        space,
        writer,
        id,
        watch,
        checkBefore: oncePerTurn(check),
        checkAfter: oncePerTurn(check),
      }
    } catch (error) {
      await writer.close()
      space.close()
      await database.close()
      throw error
    }
  }

  /** The id of the store, as recorded in the data, beside it and in the sentinel; all must agree. @throws LostStore */
  async #identify(database: Base, writer: Writer): Promise<string> {
    const stored = (): string | undefined => find(database, GENERATION_KEY)?.text
    const inFolder = generationOf(this.#directory)
    const known = [inFolder, this.#sentinel.read(this.#clock())?.id].filter((id) => id !== undefined)
    const actual = stored()
    if (known.some((id) => id !== actual)) throw new LostStore('it contains a different store than before')
    if (actual === undefined) {
      const value = encodeValue(GENERATION_KEY, randomUUID(), this.#clock() + FOREVER)
      await writer.write([{ key: GENERATION_KEY, value, version: newVersion(), before: null }])
    }
    const id = stored() ?? ''
    if (inFolder === undefined) writeGeneration(this.#directory, id)
    return id
  }

  async #requireOpen(): Promise<OpenStore> {
    const parts = this.#isClosed ? undefined : await (this.#opening ??= this.#open())
    if (!parts || this.#isClosed) throw unavailable(this.#unusable ?? 'it is closed')
    return parts
  }

  #reportProblem(problem: string | undefined): void {
    if (problem === this.#reason) return
    this.#reason = problem
    if (problem === undefined) {
      this.#log.info('store.ready')
      return
    }
    this.#log.error('store.away', { reason: this.unavailableReason })
    // Sweep soon, so that a full store recovers as early as possible.
    this.#sweepIn(SWEEP_INTERVAL_MS)
  }

  /** Checks whether the folder is still in place. */
  #checkFolder(watch: FolderWatch): Loss | undefined {
    this.#checkedAt = performance.now()
    const loss = watch.check()
    if (loss?.reason === this.#loss?.reason) return loss
    this.#loss = loss
    if (loss === undefined) this.#log.info('store.ready')
    else this.#log.error('store.away', { reason: this.unavailableReason })
    return loss
  }

  #find(parts: OpenStore, key: string): StoredValue | undefined {
    const loss = performance.now() - this.#checkedAt > STALE_MS ? this.#checkFolder(parts.watch) : this.#loss
    // Removed data can still be read; truncated data cannot.
    if (loss?.isTruncated) throw unavailable(loss.reason)
    try {
      return find(parts.database, key)
    } catch (error) {
      throw this.#damaged(error)
    }
  }

  #damaged(error: unknown): unknown {
    if (!(error instanceof DamagedValue)) return error
    if (this.#damage === undefined) {
      this.#damage = `${error.message}. Restore the folder from a backup`
      this.#log.error('store.away', { reason: this.unavailableReason })
    }
    return unavailable(error.message, error)
  }

  /** Writes only if the folder is in place before and after: writes to a removed folder are lost. */
  async #write(parts: OpenStore, writes: readonly Write[]): Promise<boolean> {
    const before = parts.checkBefore()
    if (before) throw unavailable(before.reason)
    const isDone = await parts.writer.write(writes)
    const after = parts.checkAfter()
    if (after) throw unavailable(after.reason)
    return isDone
  }

  /** Records in the sentinel that critical data is about to be written. */
  #noteCritical({ id }: OpenStore, key: string, ttl: number): void {
    if (isCriticalKey(key)) this.#sentinel.note(id, this.#clock() + ttl, this.#clock())
  }

  /** Changes the current value, if it equals `before` or `before` is undefined. */
  async #change(
    parts: OpenStore,
    key: string,
    before: string | undefined,
    change: () => { readonly value?: string },
  ): Promise<boolean> {
    for (;;) {
      const found = this.#find(parts, key)
      if (!found || found.until <= this.#clock()) return false
      if (before !== undefined && found.text !== before) return false
      const write = { key, ...change(), version: newVersion(), before: found.version }
      if (await this.#write(parts, [write])) return true
    }
  }

  #encode(key: string, value: string, ttl: number): string {
    return encodeValue(key, value, this.#clock() + ttl)
  }

  /** All live values between two keys. Yields to the event loop in between. */
  async *#walk(start: string | undefined, end: string | undefined): AsyncGenerator<StoreEntry> {
    const parts = this.#parts ?? (await this.#requireOpen())
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

  #readPart(parts: OpenStore, from: string | undefined, end: string | undefined): readonly RangeEntry[] {
    const loss = this.#checkFolder(parts.watch)
    if (loss?.isTruncated) throw unavailable(loss.reason)
    try {
      return readPart(parts.database, from, end)
    } catch (error) {
      throw this.#damaged(error)
    }
  }

  /** The next batch to sweep; empty if it cannot be read or changed. */
  #nextBatch(parts: OpenStore): readonly RangeEntry[] {
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

  /** Removes expired values of the next batch. */
  async #sweep(): Promise<void> {
    const parts = this.#parts
    if (!parts) return
    const { writer } = parts
    const part = this.#nextBatch(parts)
    const now = this.#clock()
    const removals = part.flatMap(({ key, found }) =>
      found && found.until <= now ? [{ key, version: 0, before: found.version }] : [],
    )
    await writer.write(removals).catch(() => undefined)
    const isComplete = part.length < SWEEP_BATCH_VALUES
    this.#sweptTo = isComplete ? undefined : part.at(-1)?.key
    if (isComplete && this.#reason !== undefined && this.#parts) writer.checkSpace()
    const pause = removals.length > SWEEP_BATCH_VALUES / 8 ? BUSY_SWEEP_INTERVAL_MS : SWEEP_INTERVAL_MS
    this.#sweepIn(this.#reason === undefined && isComplete ? this.#rest : pause)
  }
}

function find(database: Base, key: string): StoredValue | undefined {
  refresh(database)
  const entry = database.getEntry(key)
  return entry && decodeValue(key, entry.value, entry.version)
}

/** Makes the next read see the writes of other processes up to now. */
function refresh(database: Database<string, string>): void {
  database.resetReadTxn()
}

interface RangeEntry {
  readonly key: string
  readonly found: StoredValue | undefined
}

/** Keys of the store itself. */
const reservedKeys: ReadonlySet<string> = new Set([FORMAT_MARK.key, GENERATION_KEY])

/** @throws DamagedValue */
function readPart(database: Base, from: string | undefined, end: string | undefined): RangeEntry[] {
  const range = {
    ...(from !== undefined && { start: from, exclusiveStart: true }),
    ...(end !== undefined && { end }),
    limit: SWEEP_BATCH_VALUES,
    versions: true,
  }
  refresh(database)
  return [...database.getRange(range)].map(({ key, value, version }) => {
    return { key, found: reservedKeys.has(key) ? undefined : decodeValue(key, value, version) }
  })
}

async function writeFormatMark(writer: Writer): Promise<void> {
  const value = `zzzzzzzz format ${FORMAT_MARK.format}`
  await writer.write([{ key: FORMAT_MARK.key, value, version: newVersion(), before: null }])
}

/** Reads once for all callers within one turn of the event loop. */
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
