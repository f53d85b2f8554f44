import type { Bucket, Store, Taken } from './store.ts'

/** A store that is forgotten with the process. */
export class MemoryStore implements Store {
  readonly #values = new Map<string, { readonly value: string; readonly until: number }>()

  async get(key: string): Promise<string | undefined> {
    const found = this.#values.get(key)
    return found && found.until > Date.now() ? found.value : undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    this.#values.set(key, { value, until: Date.now() + ttl })
  }

  async delete(key: string): Promise<boolean> {
    return this.#values.delete(key)
  }

  take(buckets: readonly Bucket[]): Taken {
    return {
      isGranted: true,
      remaining: buckets.map(({ limit }) => limit),
      wait: buckets.map(() => 0),
    }
  }

  async close(): Promise<void> {
    this.#values.clear()
  }
}
