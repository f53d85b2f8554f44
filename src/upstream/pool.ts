/**
 * The connections of one server by owner: bounded, closed when idle, and not reopened immediately after repeated
 * failures.
 */
import { type Timer, world } from '../core/world.ts'
import { GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { hasReachedShare, type Principal } from '../core/principal.ts'
import type { UpstreamConnection } from './protocol/connection.ts'

interface Options<Key> {
  /** The idle timeout of a connection, in milliseconds. */
  readonly idle: number
  open(key: Key): Promise<UpstreamConnection>
  /** The owner of a connection. */
  owner(key: Key): Principal
  /** Whether a failure to open a connection counts as a failure of the server. */
  isFailure(error: unknown, key: Key): boolean
  readonly log: Log
}

interface Entry {
  readonly owner: Principal
  readonly connection: Promise<UpstreamConnection>
  settled: UpstreamConnection | undefined
  usedAt: number
}

/** The maximum number of connections of one server. */
const MAX_CONNECTIONS = 64
/** The number of failures within a minute after which starts are paused. */
const MAX_FAILURES = 5
const FAILURE_WINDOW_MS = 60_000
const FAILURE_PAUSE_MS = 30_000

/** The open connections to one server, by the name that distinguishes them. */
export class Pool<Key> {
  readonly #options: Options<Key>
  readonly #entries = new Map<string, Entry>()
  readonly #reaper: Timer
  #failures: number[] = []
  #isClosed = false

  constructor(options: Options<Key>) {
    this.#options = options
    this.#reaper = world
      .setInterval(() => this.#reap(), Math.max(100, Math.min(options.idle / 2, 30_000)))
      .unref()
  }

  get connections(): UpstreamConnection[] {
    return [...this.#entries.values()].flatMap(({ settled }) =>
      settled && !settled.isClosed ? [settled] : [],
    )
  }

  /** The open connection of a name, which nearly every call has. */
  ready(name: string): UpstreamConnection | undefined {
    const entry = this.#entries.get(name)
    if (!entry?.settled || entry.settled.isClosed) return undefined
    entry.usedAt = world.now()
    return entry.settled
  }

  /** Whether there is an open connection of a name, or one is being opened. */
  has(name: string): boolean {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.settled?.isClosed !== true
  }

  /** The connection for a key, opened if there is none. @throws SERVER_UNAVAILABLE, OVERLOADED */
  get(name: string, key: Key): Promise<UpstreamConnection> {
    const entry = this.#entries.get(name)
    if (entry && entry.settled?.isClosed !== true) {
      entry.usedAt = world.now()
      return entry.connection
    }
    if (entry) {
      this.#entries.delete(name)
      this.#countEnd(entry)
    }
    return this.#open(name, key)
  }

  /** Does something before a connection that starts a server, and counts its failure as one to open a connection. */
  async counted<Value>(start: () => Promise<Value>): Promise<Value> {
    const refusal = this.#refusal()
    if (refusal) throw refusal
    try {
      return await start()
    } catch (error) {
      this.#fail()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    world.clearInterval(this.#reaper)
    const entries = [...this.#entries.values()]
    this.#entries.clear()
    await Promise.allSettled(entries.map(async ({ connection }) => (await connection).close()))
  }

  #open(name: string, key: Key): Promise<UpstreamConnection> {
    const refusal = this.#refusal()
    if (refusal) return Promise.reject(refusal)
    const owner = this.#options.owner(key)
    const hasFullShare = hasReachedShare(owner, this.#entries, (item) => item.owner.id, MAX_CONNECTIONS)
    if (hasFullShare && !this.#makeRoom(owner)) {
      return Promise.reject(
        new GatewayError('OVERLOADED', 'Too many clients of this caller use this server at the same time.'),
      )
    }
    if (this.#entries.size >= MAX_CONNECTIONS && !this.#makeRoom()) {
      return Promise.reject(
        new GatewayError('OVERLOADED', 'Too many clients use this server at the same time.'),
      )
    }
    const connection = this.#options.open(key)
    const entry: Entry = { owner, connection, settled: undefined, usedAt: world.now() }
    this.#entries.set(name, entry)
    entry.connection.then(
      (connection) => {
        entry.settled = connection
        // The pool was closed while the connection was opening.
        if (this.#isClosed) background(connection.close(), this.#options.log)
      },
      (error: unknown) => {
        if (this.#entries.get(name) === entry) this.#entries.delete(name)
        if (this.#options.isFailure(error, key)) this.#fail()
      },
    )
    return entry.connection
  }

  /** Why nothing is started now. */
  #refusal(): GatewayError | undefined {
    if (this.#isClosed) return beingClosed()
    const pause = this.#pause()
    if (pause === 0) return undefined
    const seconds = Math.ceil(pause / 1000)
    const message = `The server ended or failed ${MAX_FAILURES} times within a minute; it is tried again in ${seconds} s.`
    return new GatewayError('SERVER_UNAVAILABLE', message, { retryAfterSeconds: seconds, isUnsent: true })
  }

  /** A connection that ended by itself is a failure, unless its server only forgot its session. */
  #countEnd({ settled }: Entry): void {
    if (settled?.isClosed === true && settled.hasLostSession !== true) this.#fail()
  }

  #fail(): void {
    const now = world.now()
    this.#failures = [...this.#failures.filter((at) => at > now - FAILURE_WINDOW_MS), now]
  }

  /** The remaining pause before the next start, in milliseconds. */
  #pause(): number {
    const now = world.now()
    const recent = this.#failures.filter((at) => at > now - FAILURE_WINDOW_MS)
    const last = recent.at(-1)
    return last !== undefined && recent.length >= MAX_FAILURES
      ? Math.max(0, last + FAILURE_PAUSE_MS - now)
      : 0
  }

  /** Closes the connection that was idle the longest, of one caller if given. */
  #makeRoom(of?: Principal): boolean {
    const unused = [...this.#entries].filter(
      ([, { owner, settled }]) => settled && !settled.isBusy && (of === undefined || owner.id === of.id),
    )
    const [oldest] = unused.toSorted(([, one], [, other]) => one.usedAt - other.usedAt)
    if (!oldest) return false
    this.#drop(...oldest)
    return true
  }

  #reap(): void {
    const before = world.now() - this.#options.idle
    for (const [name, entry] of this.#entries) {
      if (entry.settled?.isClosed || (entry.settled?.isBusy === false && entry.usedAt < before))
        this.#drop(name, entry)
    }
  }

  #drop(name: string, entry: Entry): void {
    this.#entries.delete(name)
    this.#countEnd(entry)
    background(
      entry.connection.then((connection) => connection.close()),
      this.#options.log,
    )
  }
}

/** The error for calls to a server that is being closed. */
export function beingClosed(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The connection to this server is being closed.', {
    isUnsent: true,
  })
}
