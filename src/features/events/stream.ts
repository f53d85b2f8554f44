/**
 * One `events/stream` request (SEP-3415): `active` comes first, then the events in order, and a heartbeat with the last
 * cursor while there are none. A gap is reported by another `active`.
 */
import type { Call } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import type { Batch } from './requests.ts'
import type { LoggedEvent } from './server-events.ts'

/** How long a stream is silent before it sends a heartbeat, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 15_000
/** How many events are read at once. */
const BATCH_EVENTS = 50

interface Options {
  readonly call: Pick<Call, 'emit' | 'drained'>
  /** Ends the stream. */
  readonly signal: AbortSignal
  /** Whether the requested position is not known any more. */
  readonly isTruncated: boolean
  next(position: string | undefined, limit: number): Promise<Batch>
  /** Resolves once there may be more events, and after a second at the latest. */
  changed(): Promise<void>
  /** Keeps the source of the events open. */
  keep(): Promise<void>
  cursor(position: string): string
  occurrence(event: LoggedEvent): Readonly<Record<string, unknown>>
}

/** A stream of events to one client. */
export class EventStream {
  readonly #options: Options
  #sentAt = 0

  constructor(options: Options) {
    this.#options = options
  }

  /** Sends events after a position, or from the oldest on, until the signal is aborted. @throws SERVER_UNAVAILABLE */
  async run(from: string | undefined): Promise<void> {
    const { signal, next, changed, keep, cursor } = this.#options
    let isFirst = true
    for (let position = from; !signal.aborted; isFirst = false) {
      const batch = await next(position, BATCH_EVENTS)
      const isTruncated = batch.isTruncated || (isFirst && this.#options.isTruncated)
      if (isFirst || isTruncated)
        this.#send('active', { cursor: cursor(batch.start), truncated: isTruncated })
      await this.#sendAll(batch)
      position = batch.position
      if (batch.hasMore || signal.aborted) continue
      if (Date.now() - this.#sentAt >= HEARTBEAT_INTERVAL_MS) {
        this.#send('heartbeat', { cursor: cursor(position) })
        await keep()
      }
      await changed()
    }
  }

  /** Sends the events of a batch, no faster than the client reads. */
  async #sendAll({ events }: Batch): Promise<void> {
    const { call, signal, cursor, occurrence } = this.#options
    for (const { event, position } of events) {
      if (signal.aborted) return
      this.#send('event', { ...occurrence(event), cursor: cursor(position) })
      await call.drained?.()
    }
  }

  #send(what: 'active' | 'event' | 'heartbeat', params: Readonly<Record<string, unknown>>): void {
    this.#sentAt = Date.now()
    const method = `notifications/events/${what}`
    this.#options.call.emit({ method, params: Payload.of(params), mustArrive: true })
  }
}
