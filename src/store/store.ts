/**
 * The contract of stores: small texts with an expiry, compare-and-swap, and rate-limit windows.
 * `test/support/store-contract.ts` checks it for each implementation.
 */
import type { Blobs } from './blobs/blobs.ts'
import type { ChangeListener } from './watches.ts'

/**
 * How keys begin, and what is under them. The part of a key before the first slash, if it has one, names a collection, which
 * can be listed. Each prefix is written in the one file whose keys have it; `test/unit/store/keys.test.ts` checks both.
 * What is of a person under each of them says `records/persons.ts`.
 */
export const keyPrefixes = {
  'alive:': 'gateways that run (members)',
  'approval/': 'approvals',
  'approval:code:': 'the codes with which people approve calls at the command line',
  'approval:of:': 'the open approval of each call, by caller',
  'approval:kept:': 'decisions of people that also apply to later calls',
  'approval:nonce:': 'answered forms of confirmations',
  'audit:': 'positions of audit logs',
  'blob/': 'blobs, where the store keeps their bytes as values',
  'blob-chunk:': 'the bytes of blobs',
  'blob-swept:': 'blobs that are about to be deleted',
  'budget:': 'what callers spent in a period',
  'call:': 'calls with an idempotency key, by caller',
  'circuit:': 'until when calls of a server are refused, because it fails',
  'circuit-probe:': 'gateways that find out whether a server still fails',
  'client-session/': 'sessions of clients of older revisions',
  'conformance:': 'the reports of the conformance suite',
  'context/': 'what sessions set up on servers',
  'contract/': 'contracts of servers and their changes',
  'dead-letter/': 'events that were given up',
  'deed/': 'actions: calls that changed something',
  'event-callback:': 'the webhooks of subscriptions at servers',
  'event-interest:': 'whether clients want the events of a log',
  'event-once:': 'events that are not published again',
  'event-owner:': 'processes that deliver events',
  'event-position:': 'how far the events of a server were read',
  'event-reachable:': 'whether a server was reachable last',
  'event-refusal:': 'why servers refuse subscriptions to their events',
  'forget/': 'orders to forget people in audit logs',
  'hook:': 'accepted webhooks',
  'key:': "the gateway's own keys",
  'last-lists:': 'what servers listed last',
  'lease:': 'the last holder of each lease',
  'lease-alive:': 'holders of leases that are alive',
  'log:': 'logs of events',
  'member/': 'what gateways that run tell of themselves',
  'member-drain:': 'gateways that were told to end',
  'notice/': 'messages to people about calls that wait for approval',
  'notice-owner:': 'processes that send these messages',
  'oauth:': 'grants of servers, and sessions of people',
  'operation:': 'operations, by caller',
  'operations/': 'the callers that have operations',
  'page-code:': 'the codes with which people enter the pages',
  'pause:': 'whether writes are paused',
  'permits:': 'how many calls of a caller each gateway may run',
  'probe:': 'servers that the probe of their era ends',
  'rate:': 'rate limit windows',
  'rate:ticket:': 'granted calls that may return their token',
  'redelivery/': 'dead letters that are to be delivered again',
  'reference/': 'kept data that callers refer to',
  'reference-url:': 'URLs of kept data that were used',
  'rewind:': 'plans of what is to be undone, and what became of them',
  'rewind-due/': 'plans for which a gateway has to do something',
  'server-test:': 'the reports of tests of servers',
  'session:': 'scoped session tokens',
  'state:': 'session states',
  'states/': 'how large session states are',
  'subscription/': 'subscriptions to events',
  'transaction/': 'transactions',
  'transaction-steps:': 'earlier steps of transactions that are open',
  'turn:': 'kinds of work that one gateway did for all lately',
  'upload/': 'requested uploads',
  'verified:': 'verified receivers of webhooks',
  'watch:': 'what polls found last',
} as const

/** How a key begins. */
export type KeyPrefix = keyof typeof keyPrefixes

/**
 * Data that must outlive a call and may be shared by several gateways. Once the promise of a write resolves, the write is as
 * durable as the store is.
 */
export interface Store {
  /** The value of a key, if it exists and has not expired. */
  get(key: string): Promise<string | undefined>
  /** Sets a value that expires after `ttl` milliseconds. */
  put(key: string, value: string, ttl: number): Promise<void>
  /** Sets a value if there is none. Resolves with the existing value, or undefined if it was set. */
  setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined>
  /** Replaces a value if the current one is `before`; resolves with whether it was. */
  compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean>
  /**
   * Sets values, then removes others, whatever is there: many at the cost of few writes. If it fails, any of them may be done.
   */
  putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void>
  /** Resolves with whether there was a value. */
  delete(key: string): Promise<boolean>
  /** Removes a value if it is `before`; resolves with whether it was. */
  compareAndDelete(key: string, before: string): Promise<boolean>
  /** The members of a collection by key, in no particular order. */
  scan(collection: string): Promise<ReadonlyMap<string, string>>
  /**
   * Takes a token from every window, or returns one; does nothing if any window to take from is exhausted. Synchronous if
   * the windows are in memory.
   */
  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant>
  /** The same without taking tokens: what remains in every window, and whether a token could be taken from each. */
  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant>
  /**
   * Calls a listener when the value of a key may have changed, by this or another process: tens of milliseconds later in Redis,
   * about 250 in a folder. It is called once watching has begun, too. Changes that follow each other may be one call; expiry is no
   * change. Only some keys can be watched (`isWatchable` in `watches.ts`). The returned function ends it.
   */
  watch(key: string, listener: ChangeListener): () => void
  /** Why the store cannot be used at present; absent if it can. */
  readonly unavailableReason?: string | undefined
  /** Resolves after the first attempt to connect; absent if there is nothing to connect to. */
  opened?(): Promise<void>
  /** Bytes of any size beside the values. */
  readonly blobs: Blobs
  close(): Promise<void>
}

/** A value to be set, which expires after `ttl` milliseconds. */
export interface NewValue {
  readonly key: string
  readonly value: string
  readonly ttl: number
}

/** The TTL of data that must not get lost, in milliseconds: a hundred years. */
export const FOREVER = 100 * 365 * 86_400_000

/** The collection of a key; undefined if it has none. */
export function collectionOf(key: string): string | undefined {
  const end = key.indexOf('/')
  return end === -1 ? undefined : key.slice(0, end)
}

/** A store whose complete content can be exported. */
export interface PortableStore extends Store {
  /** Whether the content can be read in spite of a problem. */
  readonly canRead?: boolean
  /** Every value with its key and expiry. */
  entries(): AsyncIterable<StoreEntry>
  /** Location and size, for people. */
  describe(): Promise<Readonly<Record<string, string | number>>>
  /** The keys of rate limit windows that begin with a text, of those that processes share; they are no entries. */
  windows(start: string): Promise<readonly string[]>
  deleteWindows(keys: readonly string[]): Promise<void>
  /** Settings outside of this store that can lose data which was accepted, and how to change them; absent if there are none. */
  weaknesses?(): Promise<readonly string[]>
}

/** A value in a store. */
export interface StoreEntry {
  readonly key: string
  readonly value: string
  /** In milliseconds since 1970. */
  readonly until: number
}

/**
 * At most `limit` tokens within any time window of this length. The window slides: it is divided into slices, and a token is
 * available again once its slice has left the window completely. So the limit is never exceeded in any period of the
 * window's length, and a token is available again after the window plus at most one slice.
 */
export interface RateLimitWindow {
  /** Keys that are used together share a part in braces, which keeps them in one slot of a Redis cluster. */
  readonly key: string
  readonly limit: number
  /** In milliseconds. */
  readonly window: number
  /** A token is returned instead of taken, whatever the limit. */
  readonly isReturn?: true
}

export interface TokenGrant {
  readonly isGranted: boolean
  /** When that was so, by the clock that all gateways with the store have in common, in milliseconds since 1970. */
  readonly at: number
  /** Remaining tokens of each window, in the order of the request. */
  readonly remaining: readonly number[]
  /** How long until a token can be taken from each window, in milliseconds; 0 if it can be now. */
  readonly wait: readonly number[]
  /** How long until the next taken token returns to each window, in milliseconds; 0 if none was taken. */
  readonly reset: readonly number[]
}

/** The number of slices of a rate limit window. */
export const SLICES = 30
