/**
 * The events of one server: a log in the store that all gateways share. Those who wait for events learn at once of what
 * this process adds, and within a second of what others add.
 */
import { randomBytes } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import { EventLog } from '../../records/event-log.ts'
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

/** What the log of one server holds at most. */
const MAX_EVENTS = 10_000
const MAX_LOG_BYTES = 8 * 1024 * 1024
/** How long others wait at most before they look for events of other processes, in milliseconds. */
const POLL_INTERVAL_MS = 1000

/** The events of a server, kept for `ttl` milliseconds. */
export class ServerEvents {
  readonly log: EventLog
  readonly #waiting = new Set<() => void>()

  /** Those of a server, or those that belong to no server. */
  constructor(store: Store, upstream: string | undefined, ttl: number) {
    this.log = new EventLog(store, upstream === undefined ? 'events' : `events ${upstream}`, {
      maxEvents: MAX_EVENTS,
      maxBytes: MAX_LOG_BYTES,
      ttl,
    })
  }

  /** Adds an event that happened now. @throws SERVER_UNAVAILABLE */
  async add(event: Omit<LoggedEvent, 'id' | 'at'>): Promise<void> {
    const id = `evt_${randomBytes(16).toString('base64url')}`
    const added: LoggedEvent = { id, at: Date.now(), ...event }
    await this.log.append([added])
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
