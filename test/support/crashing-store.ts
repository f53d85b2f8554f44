import { MemoryBlobs } from '../../src/store/memory.ts'
import type { NewValue, RateLimitWindow, Store, TokenGrant } from '../../src/store/store.ts'
import type { ChangeListener } from '../../src/store/watches.ts'

/** A store whose process ends at a write: that one is done or not, and nothing is heard from the store again. */
export class CrashingStore implements Store {
  /** How many writes were asked for. */
  writes = 0
  isDown = false
  readonly blobs = new MemoryBlobs()
  readonly #inner: Store
  readonly #at: number
  readonly #isDone: boolean

  /** `at` counts from one; `isDone` where the write itself still reaches the disk. */
  constructor(inner: Store, at: number, isDone: boolean) {
    this.#inner = inner
    this.#at = at
    this.#isDone = isDone
  }

  get(key: string): Promise<string | undefined> {
    return this.#read(() => this.#inner.get(key))
  }

  scan(collection: string): Promise<ReadonlyMap<string, string>> {
    return this.#read(() => this.#inner.scan(collection))
  }

  put(key: string, value: string, ttl: number): Promise<void> {
    return this.#write(() => this.#inner.put(key, value, ttl))
  }

  putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void> {
    return this.#write(() => this.#inner.putAll(values, removed))
  }

  setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    return this.#write(() => this.#inner.setIfAbsent(key, value, ttl))
  }

  compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    return this.#write(() => this.#inner.compareAndSwap(key, before, value, ttl))
  }

  delete(key: string): Promise<boolean> {
    return this.#write(() => this.#inner.delete(key))
  }

  compareAndDelete(key: string, before: string): Promise<boolean> {
    return this.#write(() => this.#inner.compareAndDelete(key, before))
  }

  watch(key: string, listener: ChangeListener): () => void {
    return this.#inner.watch(key, listener)
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#inner.takeTokens(buckets)
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#inner.peekTokens(buckets)
  }

  async close(): Promise<void> {
    this.isDown = true
  }

  async #read<Value>(run: () => Promise<Value>): Promise<Value> {
    this.#mustBeUp()
    return run()
  }

  async #write<Value>(run: () => Promise<Value>): Promise<Value> {
    this.#mustBeUp()
    this.writes++
    if (this.writes < this.#at) return run()
    this.isDown = true
    if (this.#isDone) await run()
    this.#mustBeUp()
    throw new TypeError('unreachable')
  }

  #mustBeUp(): void {
    if (this.isDown) throw new Error('the process has ended')
  }
}
