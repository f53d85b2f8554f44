/**
 * Sends the events of one subscription to one stream, in order. One loop reads the logs, the other one sends no faster
 * than the client reads; in between is a bounded queue.
 *
 * Invariant: the rights of the caller are checked when an event is sent, with its present scopes and the present
 * configuration. A subscription that has ended is reported before its delivery stops.
 */
import { world } from '../../../core/world.ts'
import type { Call } from '../../../core/call.ts'
import { asGatewayError } from '../../../core/error.ts'
import { exactly } from '../../../core/json/json.ts'
import { Payload } from '../../../core/payload.ts'
import { pause } from '../../../core/time/waiting.ts'
import type { EventSubscriptions } from '../../../records/event-subscriptions.ts'
import { untilRead } from '../reading.ts'
import type { EventRequest, Parts } from '../requests.ts'
import { type FoundRequests, findRequests } from './filter.ts'
import { byLog, PendingEvents, type Positions, readPending } from './pending.ts'
import type { Push, Pushes } from './pushes.ts'
import { advance, eventOf, findOwn, requestFor, sealPositions, type Subscription } from './subscription.ts'

/** What the subscriptions of clients are served from. */
export interface ClientParts {
  readonly events: Parts
  readonly subscriptions: EventSubscriptions
  readonly pushes: Pushes
  /** How long a subscription lasts at most, in milliseconds. */
  readonly maxTtlMs: number
}

/** Why a subscription ended, for its client. */
export type Ending = 'expired' | 'revoked' | 'upstream_gone' | 'shutdown'

/** After how many events the position is stored, at the latest. */
const MAX_UNSTORED_EVENTS = 50
/** How often the position is stored, and the types are read again, in milliseconds. */
const RENEWAL_INTERVAL_MS = 60_000
/** How often to look whether the client reads its stream again, and to try again after a failure, in milliseconds. */
const CLOSED_STREAM_INTERVAL_MS = 250
const RETRY_DELAY_MS = 1000

/** How much earlier than its time a store can forget a subscription, in milliseconds. */
const EXPIRY_SLACK_MS = 1000

/** The delivery of one subscription to one stream, in one runtime. */
export class Delivery {
  readonly #push: Push
  readonly #parts: ClientParts
  readonly #signal: AbortSignal
  readonly #pending = new PendingEvents()
  #subscription: Subscription | undefined
  #requests: readonly EventRequest[] = []
  #call: Call
  /** The selection and the caller for which the requests are, and until when. */
  #selected = ''
  #renewAt = 0
  /** Up to where the logs were read. */
  #read: Positions
  #unstored = 0
  #wake: () => void = () => undefined

  /** `signal` is aborted when the runtime ends. */
  constructor(push: Push, parts: ClientParts, signal: AbortSignal) {
    this.#push = push
    this.#parts = parts
    this.#signal = AbortSignal.any([signal, push.over.signal])
    this.#call = push.call
    this.#read = push.positions
  }

  /** Delivers until the subscription, its stream or the runtime ends. Never rejects. */
  async run(): Promise<void> {
    const sending = this.#repeat(() => this.#sendAll())
    await this.#repeat(() => this.#readNext())
    this.#wake()
    await sending
  }

  async #repeat(step: () => Promise<void>): Promise<void> {
    while (!this.#signal.aborted) {
      try {
        await step()
      } catch (error) {
        if (this.#signal.aborted) return
        const { message: reason } = asGatewayError(error)
        this.#parts.events.deps.log.debug('events.delivery_failed', { subscription: this.#push.id, reason })
        await pause(RETRY_DELAY_MS, this.#signal).catch(() => undefined)
      }
    }
  }

  /** Reads what happened, and waits until there may be more. @throws SERVER_UNAVAILABLE */
  async #readNext(): Promise<void> {
    if (!(await this.#renew())) return
    const { events: parts } = this.#parts
    const { found, positions, isOver } = await readPending(this.#requests, this.#read, this.#call, parts)
    // Together, so that no position is taken for one behind events that are still pending.
    this.#pending.take(found)
    this.#read = positions
    this.#wake()
    if (isOver) return void (await this.#end('upstream_gone'))
    await changed([...byLog(this.#requests).keys()], parts, this.#signal)
  }

  /** Reads the subscription and the rights of its caller again; false if it has ended. */
  async #renew(): Promise<boolean> {
    const { subscriptions, events: parts } = this.#parts
    const call = await this.#present()
    if (!call) return this.#end('revoked')
    const found = await findOwn(call, subscriptions, this.#push.id)
    // Its client ended it, unless it is the time.
    if (!found)
      return this.#end(this.#push.expiresAt <= world.now() + EXPIRY_SLACK_MS ? 'expired' : undefined)
    this.#push.expiresAt = found.record.expiresAt
    this.#subscription = found
    const { events, filter } = found
    const selected = exactly([events, filter, [...(call.principal.scopes ?? [])]])
    this.#call = call
    if (selected === this.#selected && world.now() < this.#renewAt) return true
    const { upstream } = call.target
    if (upstream !== undefined && !parts.upstreams().includes(upstream)) return this.#end('upstream_gone')
    const { requests, isGone } = await requestsOf(found, call, parts)
    if (requests.length === 0) return this.#end(isGone ? 'upstream_gone' : 'revoked')
    this.#requests = requests
    this.#selected = selected
    this.#renewAt = world.now() + RENEWAL_INTERVAL_MS
    if (this.#pending.size === 0 && this.#unstored === 0)
      await advance(found, this.#push.positions, subscriptions)
    return true
  }

  /** The call of the subscriber with its present rights; undefined if it is not authenticated any more. */
  async #present(): Promise<Call | undefined> {
    const { call } = this.#push
    try {
      const principal = (await call.presentCaller?.()) ?? call.principal
      if (principal.id !== call.principal.id) return undefined
      return { ...call, principal, signal: this.#signal, emit: () => undefined, logFields: new Map() }
    } catch (error) {
      // An issuer that cannot be reached says nothing about the caller.
      if (asGatewayError(error).code === 'SERVER_UNAVAILABLE') throw error
      return undefined
    }
  }

  /** Sends what is pending, and waits for more. */
  async #sendAll(): Promise<void> {
    const { stream } = this.#push
    const arrived = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    while (this.#pending.size > 0) {
      while (!stream.isOpen()) await pause(CLOSED_STREAM_INTERVAL_MS, this.#signal)
      await this.#sendFirst()
      await untilRead(stream, this.#signal)
      if (this.#signal.aborted) return
      if (this.#unstored >= MAX_UNSTORED_EVENTS) await this.#store()
    }
    // Events that were not requested are behind, too.
    this.#push.positions = this.#read
    if (this.#unstored > 0) await this.#store()
    if (this.#pending.size === 0) await arrived
  }

  async #sendFirst(): Promise<void> {
    const { id, stream, positions } = this.#push
    const first = this.#pending.shift()
    if (!first || !this.#subscription) return
    const after = { ...positions, [first.log]: first.position }
    const request = await requestFor(first, this.#requests, this.#call).catch((error: unknown) => {
      this.#pending.putBack(first)
      throw error
    })
    if (this.#signal.aborted) return
    this.#push.positions = after
    if (!request) return this.#pending.add(first.loss)
    const cursor = sealPositions(after, this.#subscription, this.#parts.events.deps.identity.seal)
    const params = Payload.of(eventOf(first, request, { id, cursor }))
    stream.emit({ method: 'notifications/event', params, mustArrive: true }, cursor)
    this.#unstored++
  }

  async #store(): Promise<void> {
    this.#unstored = 0
    if (this.#subscription) await advance(this.#subscription, this.#push.positions, this.#parts.subscriptions)
  }

  async #end(reason: Ending | undefined): Promise<false> {
    await endPush(this.#push, reason, this.#parts)
    return false
  }
}

/** The requests that a subscription has now. Types whose events its filter does not fit any more are gone. */
async function requestsOf(
  subscription: Subscription,
  call: Call,
  parts: Parts,
): Promise<Pick<FoundRequests, 'requests' | 'isGone'>> {
  try {
    return await findRequests(subscription, call, parts)
  } catch (error) {
    if (asGatewayError(error).code === 'INVALID_INPUT') return { requests: [], isGone: true }
    throw error
  }
}

/** Ends a subscription that is sent to a stream; without a reason its client has ended it. @throws SERVER_UNAVAILABLE */
export async function endPush(
  push: Push,
  reason: Ending | undefined,
  { subscriptions, pushes }: Pick<ClientParts, 'subscriptions' | 'pushes'>,
): Promise<void> {
  if (reason === 'revoked' || reason === 'upstream_gone')
    await subscriptions.unsubscribe(push.call.principal, push.id)
  if (reason !== undefined) sendEnding(push, reason)
  pushes.end(push)
}

/** Tells the client of a subscription that it gets no more events. */
export function sendEnding({ id, stream }: Push, reason: Ending): void {
  const params = Payload.of({ subscription_id: id, reason })
  stream.emit({ method: 'notifications/subscription_terminated', params, mustArrive: true })
}

/** Resolves once there may be more events in one of the logs, and after a second at the latest. */
async function changed(logs: readonly string[], parts: Parts, signal: AbortSignal): Promise<void> {
  const waiting = new AbortController()
  const stop = (): void => waiting.abort()
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  await Promise.race(logs.map((log) => parts.events(log === '' ? undefined : log).changed(waiting.signal)))
  signal.removeEventListener('abort', stop)
  stop()
}
