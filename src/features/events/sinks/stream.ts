/**
 * Sends the events of one request on its own stream: `active` comes first, then the events in order, and a heartbeat with
 * the last cursor while there are none. A gap is reported by another `active`, and a failure that may pass by `error`. If
 * the caller loses the right, or the events end, `terminated` is the last message.
 */
import type { Call, ClientStream } from '../../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../../core/error.ts'
import { untilAborted } from '../../../core/time/waiting.ts'
import { world } from '../../../core/world.ts'
import { type Follower, type Found, type Positions, repeatedly, type TakenEvent } from '../follower.ts'

/** How long a stream is silent before it sends a heartbeat, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 15_000
/** How often the right of the caller is checked, and the source of the events retained, in milliseconds. */
const CHECK_INTERVAL_MS = 15_000
/** How many events are read at once. */
const BATCH_EVENTS = 50

/** What a stream can say. */
export type StreamMessage =
  | { readonly kind: 'active'; readonly position: Positions; readonly isTruncated: boolean }
  | { readonly kind: 'event'; readonly taken: TakenEvent }
  | { readonly kind: 'heartbeat'; readonly position: Positions }
  | { readonly kind: 'error' | 'terminated'; readonly error: GatewayError }

/** What is sent, and to whom. */
interface StreamOrder {
  readonly follower: Pick<Follower, 'read' | 'take' | 'changed' | 'retain' | 'positions'>
  readonly client: Pick<Call, 'drained'>
  /** Ends the stream. */
  readonly signal: AbortSignal
  /** Whether the requested position is not known any more. */
  readonly isTruncated: boolean
  send(message: StreamMessage): void
  /** Why the caller receives no more events, if that is so. */
  ended(): Promise<GatewayError | undefined>
}

/** Sends the events of a request. */
export class EventStream {
  readonly #order: StreamOrder
  #sentAt = 0
  #checkedAt = world.now()
  #isFailing = false
  #isSourceFailing = false

  constructor(order: StreamOrder) {
    this.#order = order
  }

  /** Sends events until the signal is aborted or they end. @throws SERVER_UNAVAILABLE before the first message */
  async run(): Promise<void> {
    const over = new AbortController()
    const { signal } = this.#order
    repeatedly(() => this.#retain(over.signal), CHECK_INTERVAL_MS, AbortSignal.any([signal, over.signal]))
    try {
      await this.#sendAll()
    } finally {
      over.abort()
    }
  }

  async #sendAll(): Promise<void> {
    const { follower, signal, isTruncated } = this.#order
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const found = await this.#read(isFirst)
      if (found) {
        const isGap = found.isGap || (isFirst && isTruncated)
        if (isFirst || isGap) this.#send({ kind: 'active', position: found.start, isTruncated: isGap })
        await this.#sendQueued()
        if (found.ended) return this.#send({ kind: 'terminated', error: found.ended })
        if (found.hasMore || signal.aborted) continue
      }
      this.#beat()
      const ended = found && (await this.#check())
      if (ended) return this.#send({ kind: 'terminated', error: ended })
      await follower.changed(signal)
    }
  }

  /** Reads the next events; undefined if they cannot be read now, which is sent to the client once. */
  async #read(isFirst: boolean): Promise<Found | undefined> {
    try {
      const found = await this.#order.follower.read(BATCH_EVENTS)
      this.#isFailing = false
      return found
    } catch (thrown) {
      if (isFirst) throw thrown
      if (!this.#isFailing) this.#send({ kind: 'error', error: asGatewayError(thrown) })
      this.#isFailing = true
      return undefined
    }
  }

  /** Sends what was read, no faster than the client reads. */
  async #sendQueued(): Promise<void> {
    const { follower, client, signal } = this.#order
    for (let taken = follower.take(); taken && !signal.aborted; taken = follower.take()) {
      this.#send({ kind: 'event', taken })
      await untilRead(client, signal)
    }
  }

  /** Sends a heartbeat if nothing else was sent for a while. */
  #beat(): void {
    if (world.now() - this.#sentAt >= HEARTBEAT_INTERVAL_MS)
      this.#send({ kind: 'heartbeat', position: this.#order.follower.positions })
  }

  /** Retains the source, whether the client reads or not. One that ends for good says so in the log. */
  async #retain(over: AbortSignal): Promise<void> {
    try {
      await this.#order.follower.retain()
      this.#isSourceFailing = false
    } catch (thrown) {
      // `active` comes first, and nothing follows `terminated`.
      if (this.#isSourceFailing || this.#sentAt === 0 || over.aborted) return
      this.#isSourceFailing = true
      this.#send({ kind: 'error', error: asGatewayError(thrown) })
    }
  }

  /** Checks from time to time whether the caller still has the right to the events; resolves with why not. */
  async #check(): Promise<GatewayError | undefined> {
    if (world.now() - this.#checkedAt < CHECK_INTERVAL_MS) return undefined
    this.#checkedAt = world.now()
    try {
      return await this.#order.ended()
    } catch (thrown) {
      this.#send({ kind: 'error', error: asGatewayError(thrown) })
      return undefined
    }
  }

  #send(message: StreamMessage): void {
    this.#sentAt = world.now()
    this.#order.send(message)
  }
}

/** Resolves once a client has read what was sent, is gone, or the signal is aborted. Never rejects. */
export async function untilRead(
  stream: Pick<Call, 'drained'> | Pick<ClientStream, 'drained'>,
  signal: AbortSignal,
): Promise<void> {
  const read = stream.drained?.()
  // A client that reads nothing must not hold up the end of its stream.
  if (read) await untilAborted(read, signal).catch(() => undefined)
}
