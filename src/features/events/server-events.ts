/**
 * The events of one server: a log in the store that all gateways share. Those who wait for events learn at once of what
 * this process adds, and within a second of what others add.
 */
import { randomBytes } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import { EventInterest } from '../../records/event-interest.ts'
import { EventLog, type LogPage } from '../../records/event-log.ts'
import type { Store } from '../../store/store.ts'

/** An event. Field names are persisted and do not change. */
export interface LoggedEvent {
  /** The same in every delivery. */
  readonly id: string
  /** The name of its type, without the server. */
  readonly name: string
  /** When it happened, in milliseconds since 1970. */
  readonly at: number
  /** The hash of the caller that caused it, if one did. */
  readonly by?: string
  readonly data: Readonly<Record<string, unknown>>
}

/**
 * The name under which the log says that clients began to want events: those before may be missing. It is no type of
 * events.
 */
export const LOGGING_BEGAN = 'logging_began'

/** What the log of one server holds at most. */
const MAX_EVENTS = 10_000
const MAX_LOG_BYTES = 8 * 1024 * 1024
/** How many events are read at once. */
const PAGE_EVENTS = 200
/** How long others wait at most before they look for events of other processes, in milliseconds. */
const POLL_INTERVAL_MS = 1000

/** The events of a server, kept for `ttl` milliseconds. */
export class ServerEvents {
  readonly log: EventLog
  readonly #interest: EventInterest
  readonly #waiting = new Set<() => void>()
  /** Reads that have just begun, by position. */
  readonly #reads = new Map<string | undefined, Promise<LogPage>>()

  /** Those of a server, or those that belong to no server. `isShared` says whether other processes use the store. */
  constructor(store: Store, upstream: string | undefined, ttl: number, isShared = true) {
    const name = upstream === undefined ? 'events' : `events ${upstream}`
    this.log = new EventLog(store, name, { maxEvents: MAX_EVENTS, maxBytes: MAX_LOG_BYTES, ttl })
    this.#interest = new EventInterest(store, name, { keep: ttl, isShared })
  }

  /** Whether clients want events; the others are not kept. @throws SERVER_UNAVAILABLE */
  isWanted(): Promise<boolean> {
    return this.#interest.isThere()
  }

  /**
   * Has all gateways with this store keep events from now on, for as long as a position that is handed out now is of
   * use. Must be awaited before one is handed out or read from. @throws SERVER_UNAVAILABLE
   */
  want(): Promise<void> {
    return this.#interest.declare(() => this.#append({ name: LOGGING_BEGAN, data: {} }))
  }

  /** The position that what happens from now on follows. @throws SERVER_UNAVAILABLE */
  async now(): Promise<string> {
    await this.want()
    return this.log.end()
  }

  /**
   * A page of events after a position, from the oldest on without one. Those who wait for events read at once, so they
   * share a page. @throws SERVER_UNAVAILABLE
   */
  read(after: string | undefined): Promise<LogPage> {
    const begun = this.#reads.get(after)
    if (begun) return begun
    const reading = this.log.read(after, PAGE_EVENTS)
    this.#reads.set(after, reading)
    // After all that was resolved together: a later reader must see what others appended meanwhile.
    process.nextTick(() => this.#reads.delete(after))
    return reading
  }

  /** Adds an event that happened now, if clients want events. @throws SERVER_UNAVAILABLE */
  async add(event: Omit<LoggedEvent, 'id' | 'at'>): Promise<void> {
    if (await this.isWanted()) await this.#append(event)
  }

  async #append(event: Omit<LoggedEvent, 'id' | 'at'>): Promise<void> {
    const id = `evt_${randomBytes(16).toString('base64url')}`
    const added: LoggedEvent = { id, at: Date.now(), ...event }
    await this.log.append([added])
    this.#reads.clear()
    this.wake()
  }

  /** Resolves once there may be more events, or the signal is aborted. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', end)
        this.#waiting.delete(end)
        resolve()
      }
      const timer = setTimeout(end, POLL_INTERVAL_MS).unref()
      signal.addEventListener('abort', end)
      this.#waiting.add(end)
      if (signal.aborted) end()
    })
  }

  /** Ends all waits. */
  wake(): void {
    for (const end of [...this.#waiting]) end()
  }
}

/** An event from the log; undefined if another program wrote it. */
export function asEvent(value: unknown): LoggedEvent | undefined {
  if (!isObject(value)) return undefined
  const { id, name, at, by, data } = value
  if (typeof id !== 'string' || typeof name !== 'string' || typeof at !== 'number' || !isObject(data))
    return undefined
  return { id, name, at, data, ...(typeof by === 'string' && { by }) }
}
