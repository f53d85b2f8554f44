/** The store of one process, bounded: the least recently used values are evicted first. */
import { world } from '../core/world.ts'
import {
  collectionOf,
  type NewValue,
  type RateLimitWindow,
  SLICES,
  type Store,
  type TokenGrant,
} from './store.ts'
import { type ChangeListener, Watches } from './watches.ts'
import {
  type BlobEntry,
  type BlobFacts,
  type Blobs,
  type ByteRange,
  type Bytes,
  Digest,
  partOf,
  WHOLE,
} from './blobs/blobs.ts'

/**
 * An LRU cache of bounded weight in two generations: used entries move to the young one; once that is full, it becomes
 * the old one, and the previous old one is dropped.
 */
class Generations<Value> {
  readonly #half: number
  readonly #weigh: (value: Value) => number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  #weight = 0

  constructor(limit: number, weigh: (value: Value) => number) {
    this.#half = limit / 2
    this.#weigh = weigh
  }

  get(key: string): Value | undefined {
    const found = this.#young.get(key)
    if (found !== undefined) return found
    const older = this.#old.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  set(key: string, value: Value): void {
    const weight = this.#weigh(value) + key.length
    if (this.#weight + weight > this.#half) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#weight += weight
    this.#young.set(key, value)
  }

  delete(key: string): boolean {
    const wasYoung = this.#young.delete(key)
    return this.#old.delete(key) || wasYoung
  }

  /** All keys. Reading their values during iteration is safe. */
  keys(): ReadonlySet<string> {
    return new Set([...this.#young.keys(), ...this.#old.keys()])
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
    this.#weight = 0
  }
}

/** The tokens taken from one rate limit window, counted in slices. */
class Window {
  /** A ring buffer, indexed by slice number modulo its length. */
  readonly #counts = new Uint32Array(SLICES + 1)
  readonly #length: number
  #newest: number
  #total = 0

  constructor(window: number, now: number) {
    // Whole milliseconds, so that tokens are available exactly when reported.
    this.#length = Math.ceil(window / SLICES)
    this.#newest = Math.floor(now / this.#length)
  }

  /** How many tokens were taken within the window that ends at `now`, in milliseconds. */
  taken(now: number): number {
    const slice = Math.floor(now / this.#length)
    const passed = Math.min(slice - this.#newest, this.#counts.length)
    for (let step = 1; step <= passed; step++) {
      const at = (this.#newest + step) % this.#counts.length
      this.#total -= this.#counts[at] ?? 0
      this.#counts[at] = 0
    }
    if (slice > this.#newest) this.#newest = slice
    return this.#total
  }

  /** Takes a token, at the time of the last `taken`. */
  add(): void {
    const at = this.#newest % this.#counts.length
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#total++
  }

  /** Returns the most recently taken token, as of the last `taken`. */
  returnLast(): void {
    if (this.#total === 0) return
    for (let slice = this.#newest; slice > this.#newest - this.#counts.length; slice--) {
      const at = ((slice % this.#counts.length) + this.#counts.length) % this.#counts.length
      const count = this.#counts[at] ?? 0
      if (count === 0) continue
      this.#counts[at] = count - 1
      this.#total--
      return
    }
  }

  /** How long until the oldest taken token is available again, in milliseconds. */
  reset(now: number): number {
    if (this.#total === 0) return 0
    for (let slice = this.#newest - SLICES; slice <= this.#newest; slice++) {
      const at = ((slice % this.#counts.length) + this.#counts.length) % this.#counts.length
      if (this.#counts[at] !== 0) return Math.max(1, Math.ceil((slice + SLICES + 1) * this.#length - now))
    }
    return 0
  }
}

interface Value {
  readonly text: string
  readonly until: number
}

/** The approximate capacity in bytes, for all values and for all windows. Beyond it, the least recently used is evicted. */
const MAX_VALUE_BYTES = 64 * 1024 * 1024
const MAX_WINDOW_BYTES = 32 * 1024 * 1024
/** The overhead of an entry besides its text, and the size of a window. */
const ENTRY_OVERHEAD_BYTES = 200
const WINDOW_BYTES = 500

/** A store in memory. `clock` returns milliseconds from any origin. */
export class MemoryStore implements Store {
  readonly blobs = new MemoryBlobs()
  readonly #values = new Generations<Value>(MAX_VALUE_BYTES, ({ text }) => text.length + ENTRY_OVERHEAD_BYTES)
  readonly #windows = new Generations<Window>(MAX_WINDOW_BYTES, () => WINDOW_BYTES)
  readonly #clock: () => number
  readonly #watches = new Watches()

  constructor(clock: () => number = () => world.monotonic()) {
    this.#clock = clock
  }

  async get(key: string): Promise<string | undefined> {
    return this.#find(key)?.text
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    this.#values.set(key, { text: value, until: this.#clock() + ttl })
    this.#watches.changed(key)
  }

  async putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void> {
    for (const { key, value, ttl } of values) await this.put(key, value, ttl)
    for (const key of removed) this.#delete(key)
  }

  async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    const found = this.#find(key)
    if (found === undefined) await this.put(key, value, ttl)
    return found?.text
  }

  async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    if (this.#find(key)?.text !== before) return false
    await this.put(key, value, ttl)
    return true
  }

  async compareAndDelete(key: string, before: string): Promise<boolean> {
    return this.#find(key)?.text === before && this.#delete(key)
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    for (const key of this.#values.keys()) {
      if (collectionOf(key) !== collection) continue
      const value = this.#find(key)
      if (value) found.set(key, value.text)
    }
    return found
  }

  async delete(key: string): Promise<boolean> {
    return this.#find(key) !== undefined && this.#delete(key)
  }

  watch(key: string, listener: ChangeListener): () => void {
    const remove = this.#watches.add(key, listener)
    listener()
    return remove
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    const now = this.#clock()
    const isGranted = this.#hasTokens(buckets, now)
    // A refused request leaves no window behind; otherwise refused callers would evict the windows of others.
    if (isGranted) for (const bucket of buckets) this.#change(bucket, now)
    return this.#status(buckets, now, isGranted)
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    const now = this.#clock()
    return this.#status(buckets, now, this.#hasTokens(buckets, now))
  }

  async close(): Promise<void> {
    this.#values.clear()
    this.#windows.clear()
  }

  #delete(key: string): boolean {
    const isDeleted = this.#values.delete(key)
    this.#watches.changed(key)
    return isDeleted
  }

  #find(key: string): Value | undefined {
    const found = this.#values.get(key)
    if (!found || found.until > this.#clock()) return found
    this.#values.delete(key)
    return undefined
  }

  #hasTokens(buckets: readonly RateLimitWindow[], now: number): boolean {
    return buckets.every(
      ({ key, limit, isReturn }) => isReturn || (this.#windows.get(key)?.taken(now) ?? 0) < limit,
    )
  }

  #change({ key, window, isReturn }: RateLimitWindow, now: number): void {
    if (!isReturn) return this.#window(key, window, now).add()
    const known = this.#windows.get(key)
    known?.taken(now)
    known?.returnLast()
  }

  #status(buckets: readonly RateLimitWindow[], now: number, isGranted: boolean): TokenGrant {
    const taken = {
      isGranted,
      at: world.now(),
      remaining: [] as number[],
      wait: [] as number[],
      reset: [] as number[],
    }
    for (const { key, limit } of buckets) {
      const found = this.#windows.get(key)
      const left = Math.max(0, limit - (found?.taken(now) ?? 0))
      const reset = found?.reset(now) ?? 0
      taken.remaining.push(left)
      taken.reset.push(reset)
      taken.wait.push(left === 0 ? reset : 0)
    }
    return taken
  }

  #window(key: string, window: number, now: number): Window {
    const known = this.#windows.get(key)
    if (known) return known
    const added = new Window(window, now)
    this.#windows.set(key, added)
    return added
  }
}

interface Kept {
  readonly chunks: readonly Uint8Array[]
  readonly size: number
  readonly writtenAt: number
}

/** Blobs in memory. */
export class MemoryBlobs implements Blobs {
  readonly capacity = 256 * 1024 * 1024
  readonly #kept = new Map<string, Kept>()

  async put(id: string, bytes: Bytes): Promise<BlobFacts> {
    const digest = new Digest()
    const chunks: Uint8Array[] = []
    for await (const chunk of bytes) {
      digest.add(chunk)
      // The caller may use its buffer again.
      chunks.push(Uint8Array.from(chunk))
    }
    const facts = digest.facts()
    this.#kept.set(id, { chunks, size: facts.size, writtenAt: world.now() })
    return facts
  }

  async open(id: string, range: ByteRange = WHOLE): Promise<Bytes | undefined> {
    const kept = this.#kept.get(id)
    return kept && read(kept, range)
  }

  async delete(id: string): Promise<void> {
    this.#kept.delete(id)
  }

  async list(): Promise<readonly BlobEntry[]> {
    return [...this.#kept].map(([id, { size, writtenAt }]) => ({ id, size, writtenAt }))
  }
}

async function* read({ chunks }: Kept, range: ByteRange): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const chunk of chunks) {
    const part = partOf(chunk, at, range)
    if (part.byteLength > 0) yield part
    at += chunk.byteLength
    if (at >= range.end) return
  }
}
