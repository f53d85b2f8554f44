/**
 * The interest of clients in the events of a log: without clients nothing is appended, so that events that are on cost
 * nothing. A marker in the store says so to all processes that share it. Readers set it before they hand out a position,
 * and refresh it while they read; it expires when no position that was handed out is of use any more. It has no holder, so
 * it is no lease; but one process at a time, which has one, sets it.
 *
 * Invariant: when `declare` resolves, every writer sees the marker. A writer believes that there is none for at most
 * `CACHE_MS` after it began to read it, so whoever sets the marker waits longer than that.
 *
 * Where there was no marker, events may be missing. The reader that sets it calls `begin`, which appends an entry that
 * says so, before any reader gets a position.
 *
 *   no marker -- lease --> starting -- wait, begin --> ready -- no reader for the TTL --> no marker
 */
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import { pause } from '../core/time/waiting.ts'
import { Leases } from '../durable/lease.ts'
import { partOf } from '../durable/process-scope.ts'
import type { Store } from '../store/store.ts'

/** How long a process believes what it has seen of the marker, and how long a new marker is waited for, in milliseconds. */
const CACHE_MS = 250
const SETTLE_MS = 300
/** How often a marker is polled that another process sets, and for how long that one may end before it is set, in milliseconds. */
const POLL_INTERVAL_MS = 25
const START_TTL_MS = 3000
/** How often the marker is refreshed at least, in milliseconds. */
const MAX_REFRESH_INTERVAL_MS = 3_600_000
/** How much longer the marker lasts than it has to, in milliseconds. */
const SLACK_MS = 60_000

const STARTING = 'starting'
const READY = 'ready'

/** The markers that this process has set in a store, whether they have expired or not. */
class OwnMarkers {
  readonly keys = new Set<string>()
}

/** The interest of clients in one log, by the name of the log. */
export class EventInterest {
  readonly #store: Store
  readonly #key: string
  readonly #isShared: boolean
  readonly #refreshInterval: number
  readonly #ttl: number
  /** What was read of the marker, and when the reading began. */
  #seen = { isThere: false, at: -Infinity }
  #reading: Promise<boolean> | undefined
  #refreshedAt = -Infinity
  #declaring: Promise<void> | undefined

  /**
   * `keep` is how long a position stays of use after it was handed out, in milliseconds. If no other process uses the store,
   * it is read only once clients of this process request events.
   */
  constructor(store: Store, name: string, keep: number, isShared: boolean) {
    this.#store = store
    this.#key = `event-interest:${hash('sha256', name).slice(0, 32)}`
    this.#isShared = isShared
    this.#refreshInterval = Math.min(keep / 4, MAX_REFRESH_INTERVAL_MS)
    this.#ttl = Math.ceil(keep + this.#refreshInterval) + SLACK_MS
  }

  /** Whether events have to be appended. Reads the store a few times a second at most. @throws SERVER_UNAVAILABLE */
  isThere(): Promise<boolean> {
    const { isThere, at } = this.#seen
    if (this.#isShared && world.monotonic() - at < CACHE_MS) return Promise.resolve(isThere)
    if (!this.#isShared && !this.#ownMarkers.has(this.#key)) return Promise.resolve(false)
    return (this.#reading ??= this.#read().finally(() => (this.#reading = undefined)))
  }

  /**
   * Resolves once all processes append events, and keeps them appending. `begin` appends the entry that says that events
   * before it may be missing. @throws SERVER_UNAVAILABLE
   */
  async declare(begin: () => Promise<unknown>): Promise<void> {
    // The store may have lost the marker.
    const isFresh = world.monotonic() - this.#refreshedAt < this.#refreshInterval && (await this.isThere())
    if (isFresh) return
    await (this.#declaring ??= this.#declare(begin).finally(() => (this.#declaring = undefined)))
  }

  get #ownMarkers(): Set<string> {
    return partOf(this.#store, OwnMarkers).keys
  }

  async #read(): Promise<boolean> {
    const at = world.monotonic()
    const isFound = (await this.#store.get(this.#key)) !== undefined
    // A marker may have been set, and waited for, while a slow store read it.
    const isThere = isFound || (this.#isShared && world.monotonic() - at >= CACHE_MS)
    this.#seen = { isThere, at }
    return isThere
  }

  async #declare(begin: () => Promise<unknown>): Promise<void> {
    this.#ownMarkers.add(this.#key)
    const leases = new Leases(this.#store)
    while (!(await this.#isReady())) {
      const lease = await leases.acquire(this.#key, START_TTL_MS)
      try {
        // Another process may have set the marker before it released the lease.
        if (lease && !(await this.#isReady())) await this.#start(begin)
      } finally {
        await lease?.release()
      }
      if (!lease) await pause(POLL_INTERVAL_MS)
    }
  }

  /** Whether the marker is set, which is refreshed then. */
  async #isReady(): Promise<boolean> {
    const at = world.monotonic()
    if ((await this.#store.get(this.#key)) !== READY) return false
    if (!(await this.#store.compareAndSwap(this.#key, READY, READY, this.#ttl))) return false
    this.#seen = { isThere: true, at }
    this.#refreshedAt = at
    return true
  }

  async #start(begin: () => Promise<unknown>): Promise<void> {
    await this.#store.put(this.#key, STARTING, this.#ttl)
    this.#seen = { isThere: true, at: world.monotonic() }
    if (this.#isShared) await pause(SETTLE_MS)
    await begin()
    await this.#store.put(this.#key, READY, this.#ttl)
  }
}
