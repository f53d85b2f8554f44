/**
 * The contract of stores: small texts with an expiry, compare-and-swap, and rate-limit windows.
 * `test/support/store-contract.ts` checks it for each implementation.
 */

/**
 * What must outlive a call, and may be shared by several gateways. Keys begin with the name of their owner:
 * `rate:` the buckets of rate limits, `session:` narrowing session tokens, `oauth:` what was granted by servers and the sessions of people,
 * `key:` the gateway's own keys, `budget:` what callers spent, `alive:` which gateways there are, `audit:` how far audit logs have got, `call:` calls with an idempotency key,
 * `approval:` what people are asked to approve, `transaction/` and `deed:` what was done and can be undone,
 * `task:` whose the tasks of servers are, `contract/` what servers offer, and what of it changed.
 * A key with a slash is a member of a collection, which is what stands before its first slash.
 * What was written is durable, as far as the store is, once the promise is resolved.
 */
export interface Store {
  /** The value of a key, if it is there and its time is not over. */
  get(key: string): Promise<string | undefined>
  /** Sets a value that is forgotten after `ttl` milliseconds. */
  put(key: string, value: string, ttl: number): Promise<void>
  /** Sets a value where there is none. Resolves with the one that was there, or nothing where it was set. */
  setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined>
  /** Sets a value where the one that is there is `before`; tells whether it was. */
  compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean>
  /** Tells whether there was one. */
  delete(key: string): Promise<boolean>
  /** Removes a value where it is `before`; tells whether it was. */
  compareAndDelete(key: string, before: string): Promise<boolean>
  /** The members of a collection by key, in no order. */
  scan(collection: string): Promise<ReadonlyMap<string, string>>
  /**
   * Takes one from every bucket, or gives one back; does nothing where one to take from is empty. At once where the
   * store is in memory.
   */
  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant>
  /** The same without taking anything: what is left of every bucket, and whether one could be taken from each. */
  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant>
  /** Why it cannot be used just then; absent while it can. */
  readonly unavailableReason?: string | undefined
  /** Resolves once it was first tried to reach it; absent where there is nothing to reach. */
  opened?(): Promise<void>
  close(): Promise<void>
}

/** For how long what must not be lost is kept, in milliseconds: a hundred years. */
export const FOREVER = 100 * 365 * 86_400_000

/** The collection a key is a member of; absent where it is of none. */
export function collectionOf(key: string): string | undefined {
  const end = key.indexOf('/')
  return end === -1 ? undefined : key.slice(0, end)
}

/** A store whose values can be taken elsewhere, all of them. */
export interface Portable extends Store {
  /** Whether what is there can be read, though there is a problem. */
  readonly canRead?: boolean
  /** Every value with its key, and until when it is kept, in milliseconds since 1970. */
  entries(): AsyncIterable<Entry>
  /** What to tell people about where it is, and how large. */
  describe(): Promise<Readonly<Record<string, string | number>>>
}

/** A value in a store. */
export interface Entry {
  readonly key: string
  readonly value: string
  /** In milliseconds since 1970. */
  readonly until: number
}

/**
 * So many within any window of time. It slides: a window is cut into slices, and what was taken in one comes back
 * once that slice has left the window whole. So no stretch of time as long as the window ever holds more than the
 * limit, and what is taken comes back after the window and at most one slice.
 */
export interface RateLimitWindow {
  /** Keys that are taken together share a part in braces, which keeps them together in a Redis cluster. */
  readonly key: string
  readonly limit: number
  /** In milliseconds. */
  readonly window: number
  /** One that was taken is given back instead, whether or not there is room. */
  readonly isReturn?: true
}

export interface TokenGrant {
  readonly isGranted: boolean
  /** What is left of each bucket, in the order asked. */
  readonly remaining: readonly number[]
  /** How long until one can be taken from each again, in milliseconds; 0 where it can be now. */
  readonly wait: readonly number[]
  /** How long until something that was taken comes back to each, in milliseconds; 0 where nothing was. */
  readonly reset: readonly number[]
}

/** Into how many slices the window of a bucket is cut. */
export const SLICES = 30
