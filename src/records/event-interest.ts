/**
 * Whether clients want the events of a log: without clients nothing is appended, so that events that are on cost nothing.
 * A marker in the store says so to all processes that share it. Readers set it before they hand out a position, and
 * refresh it while they read; it expires when no position that was handed out is of use any more.
 *
 * Invariant: when `declare` resolves, every writer sees the marker. A writer believes that there is none for at most
 * `CACHE_MS` after it began to look, so whoever sets the marker waits longer than that.
 *
 * Where there was no marker, events may be missing. The reader that sets it calls `begin`, which appends an entry that
 * says so, before any reader gets a position.
 *
 *   no marker -- setIfAbsent --> starting -- wait, begin --> ready -- no reader for the TTL --> no marker
 */
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import { pause } from '../core/time/waiting.ts'
import { partOf } from '../durable/process-scope.ts'
import type { Store } from '../store/store.ts'

interface Options {
  /** How long a position stays of use after it was handed out, in milliseconds. */
  readonly keep: number
  /** Whether other processes may use the store; if not, it is read only once clients of this process want events. */
  readonly isShared: boolean
}

/** How long a process believes what it has seen of the marker, and how long a new marker is waited for, in milliseconds. */
const CACHE_MS = 250
const SETTLE_MS = 300
/** How often a marker is looked at that another process sets, and how long that may take, in milliseconds. */
const LOOK_INTERVAL_MS = 25
const START_TIMEOUT_MS = 3000
/** How often the marker is refreshed at least, in milliseconds. */
const MAX_REFRESH_INTERVAL_MS = 3_600_000
/** How much longer the marker lasts than it has to, in milliseconds. */
const SLACK_MS = 60_000

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
  /** What was seen of the marker, and when looking began. */
  #seen = { isThere: false, at: -Infinity }
  #looking: Promise<boolean> | undefined
  #refreshedAt = -Infinity
  #declaring: Promise<void> | undefined

  constructor(store: Store, name: string, { keep, isShared }: Options) {
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
    return (this.#looking ??= this.#look().finally(() => (this.#looking = undefined)))
  }

  /**
   * Resolves once all processes append events, and goes on to do so. `begin` appends the entry that says that events
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

  async #look(): Promise<boolean> {
    const at = world.monotonic()
    const isFound = (await this.#store.get(this.#key)) !== undefined
    // A marker may have been set, and waited for, while a slow store looked.
    const isThere = isFound || (this.#isShared && world.monotonic() - at >= CACHE_MS)
    this.#seen = { isThere, at }
    return isThere
  }

  async #declare(begin: () => Promise<unknown>): Promise<void> {
    this.#ownMarkers.add(this.#key)
    const own = `starting ${world.randomBytes(6).toString('base64url')}`
    let other = { value: own, since: world.monotonic() }
    for (;;) {
      const at = world.monotonic()
      const found = await this.#store.get(this.#key)
      if (found === READY) {
        if (await this.#swap(READY, READY)) return this.#noteReady(at)
        continue
      }
      if (found !== undefined && found !== other.value) other = { value: found, since: at }
      if (await this.#take(found, own, at - other.since)) {
        await this.#start(begin)
        if (await this.#swap(own, READY)) return this.#noteReady(at)
        continue
      }
      await pause(LOOK_INTERVAL_MS)
    }
  }

  /** Sets the marker if there is none, or the process that set it has not finished for a long time. */
  async #take(found: string | undefined, own: string, waited: number): Promise<boolean> {
    if (found === undefined) return (await this.#store.setIfAbsent(this.#key, own, this.#ttl)) === undefined
    return waited >= START_TIMEOUT_MS && (await this.#swap(found, own))
  }

  async #start(begin: () => Promise<unknown>): Promise<void> {
    this.#seen = { isThere: true, at: world.monotonic() }
    if (this.#isShared) await pause(SETTLE_MS)
    await begin()
  }

  #noteReady(at: number): void {
    this.#seen = { isThere: true, at }
    this.#refreshedAt = at
  }

  #swap(before: string, after: string): Promise<boolean> {
    return this.#store.compareAndSwap(this.#key, before, after, this.#ttl)
  }
}
