import { Generations } from './generations.ts'
import { type RateLimitWindow, collectionOf, type Store, type TokenGrant } from './store.ts'
import { Window } from './window.ts'

interface Value {
  readonly text: string
  readonly until: number
}

/** How much is kept, roughly in bytes: all values together, and all buckets. What was not used for longest goes. */
const MAX_VALUE_BYTES = 64 * 1024 * 1024
const MAX_WINDOW_BYTES = 32 * 1024 * 1024
/** What an entry takes besides its text, and what a bucket takes. */
const ENTRY_OVERHEAD_BYTES = 200
const WINDOW_BYTES = 500

/** A store that is forgotten with the process. `clock` tells the time in milliseconds, from whenever. */
export class MemoryStore implements Store {
  readonly #values = new Generations<Value>(MAX_VALUE_BYTES, ({ text }) => text.length + ENTRY_OVERHEAD_BYTES)
  readonly #windows = new Generations<Window>(MAX_WINDOW_BYTES, () => WINDOW_BYTES)
  readonly #clock: () => number

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock
  }

  async get(key: string): Promise<string | undefined> {
    return this.#find(key)?.text
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    this.#values.set(key, { text: value, until: this.#clock() + ttl })
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
    return this.#find(key)?.text === before && this.#values.delete(key)
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
    return this.#find(key) !== undefined && this.#values.delete(key)
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    const now = this.#clock()
    const isGranted = this.#isLeft(buckets, now)
    // What was refused leaves nothing behind: those who are refused on and on would crowd out the others.
    if (isGranted) for (const bucket of buckets) this.#change(bucket, now)
    return this.#standing(buckets, now, isGranted)
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant {
    const now = this.#clock()
    return this.#standing(buckets, now, this.#isLeft(buckets, now))
  }

  async close(): Promise<void> {
    this.#values.clear()
    this.#windows.clear()
  }

  #find(key: string): Value | undefined {
    const found = this.#values.get(key)
    if (!found || found.until > this.#clock()) return found
    this.#values.delete(key)
    return undefined
  }

  #isLeft(buckets: readonly RateLimitWindow[], now: number): boolean {
    return buckets.every(
      ({ key, limit, isReturn }) => isReturn || (this.#windows.get(key)?.taken(now) ?? 0) < limit,
    )
  }

  #change({ key, window, isReturn }: RateLimitWindow, now: number): void {
    if (!isReturn) return this.#window(key, window, now).add()
    const known = this.#windows.get(key)
    known?.taken(now)
    known?.giveBack()
  }

  #standing(buckets: readonly RateLimitWindow[], now: number, isGranted: boolean): TokenGrant {
    const taken = { isGranted, remaining: [] as number[], wait: [] as number[], reset: [] as number[] }
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
