/**
 * What must outlive a call, and may be shared by several gateways. Keys begin with the name of their owner:
 * `rate:` the buckets of rate limits, `session:` narrowing session tokens, `oauth:` what was granted by servers.
 */
export interface Store {
  /** The value of a key, if it is there and its time is not over. */
  get(key: string): Promise<string | undefined>
  /** Sets a value that is forgotten after `ttl` milliseconds. */
  put(key: string, value: string, ttl: number): Promise<void>
  /** Tells whether there was one. */
  delete(key: string): Promise<boolean>
  /** Takes one from every bucket, or from none where one of them is empty. At once where the store is in memory. */
  take(buckets: readonly Bucket[]): Taken | Promise<Taken>
  close(): Promise<void>
}

/** So many within a window of time. */
export interface Bucket {
  readonly key: string
  readonly limit: number
  /** In milliseconds. */
  readonly window: number
}

export interface Taken {
  readonly isGranted: boolean
  /** What is left of each bucket, in the order asked. */
  readonly remaining: readonly number[]
  /** How long until one can be taken from each again, in milliseconds; 0 where it can be now. */
  readonly wait: readonly number[]
}
