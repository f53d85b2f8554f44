/**
 * One `events/stream` request (SEP-3415): `active` comes first, then the events in order, and a heartbeat with the last
 * cursor while there are none. A gap is reported by another `active`, and a failure that may pass by `error`. If the
 * caller loses the right, or the events end, `terminated` is the last message.
 */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { repeatedly } from './keeping.ts'
import { untilRead } from './reading.ts'
import type { Batch } from './requests.ts'
import type { LoggedEvent } from './server-events.ts'

/** How long a stream is silent before it sends a heartbeat, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 15_000
/** How often the right of the caller is checked, and the source of the events kept open, in milliseconds. */
const CHECK_INTERVAL_MS = 15_000
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
  /** Keeps the source of the events open for a while. @throws if it cannot be, for now or for good */
  keep(): Promise<void>
  /** Why the caller receives no more events, if that is so. */
  ended(): Promise<GatewayError | undefined>
  /** An error as the client receives it. */
  error(error: GatewayError): Payload
  cursor(position: string): string
  occurrence(event: LoggedEvent): Readonly<Record<string, unknown>>
}

/** A stream of events to one client. */
export class EventStream {
  readonly #options: Options
  #sentAt = 0
  #checkedAt = world.now()
  #isFailing = false
  #isSourceFailing = false

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Sends events after a position, or from the oldest on, until the signal is aborted or they end.
   * @throws SERVER_UNAVAILABLE before the first message
   */
  async run(from: string | undefined): Promise<void> {
    const over = new AbortController()
    const { signal } = this.#options
    repeatedly(() => this.#keep(over.signal), CHECK_INTERVAL_MS, AbortSignal.any([signal, over.signal]))
    try {
      await this.#sendFrom(from)
    } finally {
      over.abort()
    }
  }

  async #sendFrom(from: string | undefined): Promise<void> {
    const { signal, changed, cursor } = this.#options
    let position = from
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const batch = await this.#next(position, isFirst)
      if (!batch) {
        this.#beat(position)
        await changed()
        continue
      }
      const isTruncated = batch.isTruncated || (isFirst && this.#options.isTruncated)
      if (isFirst || isTruncated)
        this.#send('active', { cursor: cursor(batch.start), truncated: isTruncated })
      await this.#sendAll(batch)
      if (batch.ended) return this.#terminate(batch.ended)
      position = batch.position
      if (batch.hasMore || signal.aborted) continue
      this.#beat(position)
      const ended = await this.#check()
      if (ended) return this.#terminate(ended)
      await changed()
    }
  }

  /** The next events; undefined if they cannot be read now, which is sent to the client once. */
  async #next(position: string | undefined, isFirst: boolean): Promise<Batch | undefined> {
    try {
      const batch = await this.#options.next(position, BATCH_EVENTS)
      this.#isFailing = false
      return batch
    } catch (thrown) {
      if (isFirst) throw thrown
      if (!this.#isFailing) this.#send('error', { error: this.#options.error(asGatewayError(thrown)) })
      this.#isFailing = true
      return undefined
    }
  }

  /** Sends a heartbeat if nothing else was sent for a while. */
  #beat(position: string | undefined): void {
    if (position === undefined || world.now() - this.#sentAt < HEARTBEAT_INTERVAL_MS) return
    this.#send('heartbeat', { cursor: this.#options.cursor(position) })
  }

  /** Keeps the source open, whether the client reads or not. One that ends for good says so in the log. */
  async #keep(over: AbortSignal): Promise<void> {
    try {
      await this.#options.keep()
      this.#isSourceFailing = false
    } catch (thrown) {
      // `active` comes first, and nothing follows `terminated`.
      if (this.#isSourceFailing || this.#sentAt === 0 || over.aborted) return
      this.#isSourceFailing = true
      this.#send('error', { error: this.#options.error(asGatewayError(thrown)) })
    }
  }

  /** Looks from time to time whether the caller still has the right to the events; resolves with why not. */
  async #check(): Promise<GatewayError | undefined> {
    if (world.now() - this.#checkedAt < CHECK_INTERVAL_MS) return undefined
    this.#checkedAt = world.now()
    try {
      return await this.#options.ended()
    } catch (thrown) {
      this.#send('error', { error: this.#options.error(asGatewayError(thrown)) })
      return undefined
    }
  }

  #terminate(error: GatewayError): void {
    this.#send('terminated', { error: this.#options.error(error) })
  }

  /** Sends the events of a batch, no faster than the client reads. */
  async #sendAll({ events }: Batch): Promise<void> {
    const { call, signal, cursor, occurrence } = this.#options
    for (const { event, position } of events) {
      if (signal.aborted) return
      this.#send('event', { ...occurrence(event), cursor: cursor(position) })
      await untilRead(call, signal)
    }
  }

  #send(
    what: 'active' | 'event' | 'heartbeat' | 'error' | 'terminated',
    params: Readonly<Record<string, unknown>>,
  ): void {
    this.#sentAt = world.now()
    const method = `notifications/events/${what}`
    this.#options.call.emit({ method, params: Payload.of({}).with(params), mustArrive: true })
  }
}
