/**
 * Sends the events of kept subscriptions to streams of their clients, as they happen. One loop reads the logs, the other
 * one sends no faster than the client reads.
 *
 * Invariant: the rights of the caller are checked when an event is sent, with its present scopes and the present
 * configuration. A subscription that has ended is reported before its delivery stops.
 */
import type { Call, ClientStream, Notification } from '../../../core/call.ts'
import { callOnBehalf } from '../../own-calls.ts'
import { asGatewayError } from '../../../core/error.ts'
import { exactly } from '../../../core/json/json.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { pause } from '../../../core/time/waiting.ts'
import { world } from '../../../core/world.ts'
import type { EventSubscriptions, SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import { fromStoredPrincipal } from '../../../records/principal.ts'
import {
  Follower,
  type Positions,
  RETAIN_INTERVAL_MS,
  repeatedly,
  retain,
  type TakenEvent,
} from '../follower.ts'
import {
  advance,
  asSubscription,
  findOwn,
  findRequests,
  type FoundRequests,
  isClientSubscription,
  sealPositions,
  type Subscription,
} from '../subscriptions.ts'
import type { EventCatalog } from '../types.ts'
import { untilRead } from './stream.ts'

/** A subscription that is sent to a stream. */
export interface Push {
  readonly id: string
  readonly stream: ClientStream
  /** The call of the subscriber: its address, client and rights. */
  readonly call: Call
  /** Aborted when it ends. */
  readonly over: AbortController
  /** Up to where its events were sent. */
  positions: Positions
  /** When the subscription ends unless it is renewed, as far as this process knows, in milliseconds since 1970. */
  expiresAt: number
}

/** How many pushes there are at most; one caller may have a quarter of them. */
const MAX_PUSHES = 4000

/** Those of a gateway. */
export class Pushes {
  readonly #all = new Set<Push>()
  /** The runtime that sends them: the last one with events. */
  #sender: object | undefined

  /** Makes a runtime the one that sends them. */
  takeOver(runtime: object): void {
    this.#sender = runtime
  }

  /** Whether no later runtime sends them. */
  isSender(runtime: object): boolean {
    return this.#sender === runtime
  }

  /** Adds one; undefined if there are too many. One of the same subscription and stream ends. */
  add(opened: Omit<Push, 'over'>): Push | undefined {
    const { id, stream, call } = opened
    for (const each of this.#all)
      if (each.stream === stream && isOf(each, call.principal, id)) this.#drop(each)
    const holders = new Map([...this.#all].entries())
    const hasShare = hasReachedShare(call.principal, holders, (each) => each.call.principal.id, MAX_PUSHES)
    if (hasShare || this.#all.size >= MAX_PUSHES || stream.closed.aborted) return undefined
    const push = { ...opened, over: new AbortController() }
    this.#all.add(push)
    stream.closed.addEventListener('abort', () => this.#drop(push), { signal: push.over.signal })
    return push
  }

  /** Ends one, and its stream if that belongs to it. */
  end(push: Push): void {
    this.#drop(push)
    push.stream.end?.()
  }

  /** Ends those of a subscription. */
  endAll(principal: Pick<Principal, 'id'>, id: string): void {
    for (const each of this.#all) if (isOf(each, principal, id)) this.end(each)
  }

  /** Ends those of a stream. */
  leave(stream: ClientStream): void {
    for (const each of this.#all) if (each.stream === stream) this.#drop(each)
  }

  values(): readonly Push[] {
    return [...this.#all]
  }

  close(): void {
    for (const each of this.#all) this.end(each)
  }

  #drop(push: Push): void {
    this.#all.delete(push)
    push.over.abort()
  }
}

function isOf({ id, call }: Push, principal: Pick<Principal, 'id'>, subscription: string): boolean {
  return id === subscription && call.principal.id === principal.id
}

// Sending

/** What kept subscriptions are served from. */
export interface KeptSubscriptions {
  readonly catalog: EventCatalog
  readonly subscriptions: EventSubscriptions
  readonly pushes: Pushes
  /** How long a subscription lasts at most, in milliseconds. */
  readonly maxTtlMs: number
  /** What clients receive: an event, with the cursor behind it, and the end of their subscription. */
  readonly form: {
    event(taken: TakenEvent, id: string, cursor: string): Notification
    ended(id: string, reason: Ending): Notification
  }
}

/** Why a subscription ended, for its client. */
type Ending = 'expired' | 'revoked' | 'upstream_gone' | 'shutdown'

/** After how many events the position is stored, at the latest. */
const MAX_UNSTORED_EVENTS = 50
/** How often the position is stored, and the types are read again, in milliseconds. */
const RENEWAL_INTERVAL_MS = 60_000
/** How often a stream is checked that its client does not read, and the pause after a failure, in milliseconds. */
const CLOSED_STREAM_INTERVAL_MS = 250
const RETRY_DELAY_MS = 1000
/** How much earlier than its time a store can forget a subscription, in milliseconds. */
const EXPIRY_SLACK_MS = 1000

/** Sends one subscription to one stream, in one runtime. */
export class StreamDelivery {
  readonly #push: Push
  readonly #kept: KeptSubscriptions
  readonly #signal: AbortSignal
  readonly #follower: Follower
  #subscription: Subscription | undefined
  /** The selection and the caller for which the requests are, and until when. */
  #selected = ''
  #renewAt = 0
  #unstored = 0
  #wake: () => void = () => undefined

  /** `signal` is aborted when the runtime ends. */
  constructor(push: Push, kept: KeptSubscriptions, signal: AbortSignal) {
    this.#push = push
    this.#kept = kept
    this.#signal = AbortSignal.any([signal, push.over.signal])
    this.#follower = new Follower(kept.catalog, push.call, [], push.positions)
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
        this.#kept.catalog.deps.log.debug('events.delivery_failed', { subscription: this.#push.id, reason })
        await pause(RETRY_DELAY_MS, this.#signal).catch(() => undefined)
      }
    }
  }

  /** Reads what happened, and waits until there may be more. @throws SERVER_UNAVAILABLE */
  async #readNext(): Promise<void> {
    if (!(await this.#renew())) return
    const { ended } = await this.#follower.read()
    this.#wake()
    if (ended) return void (await this.#end('upstream_gone'))
    await this.#follower.changed(this.#signal)
  }

  /** Reads the subscription and the rights of its caller again; false if it has ended. */
  async #renew(): Promise<boolean> {
    const { subscriptions, catalog } = this.#kept
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
    this.#follower.follow(call)
    if (selected === this.#selected && world.now() < this.#renewAt) return true
    const { upstream } = call.target
    if (upstream !== undefined && !catalog.upstreams().includes(upstream)) return this.#end('upstream_gone')
    const { requests, isGone } = await requestsOf(found, call, catalog)
    if (requests.length === 0) return this.#end(isGone ? 'upstream_gone' : 'revoked')
    this.#follower.follow(call, requests)
    this.#selected = selected
    this.#renewAt = world.now() + RENEWAL_INTERVAL_MS
    if (this.#follower.size === 0 && this.#unstored === 0)
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

  /** Sends what is queued, and waits for more. */
  async #sendAll(): Promise<void> {
    const { stream } = this.#push
    const arrived = new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    while (this.#follower.size > 0) {
      while (!stream.isOpen()) await pause(CLOSED_STREAM_INTERVAL_MS, this.#signal)
      await this.#sendFirst()
      await untilRead(stream, this.#signal)
      if (this.#signal.aborted) return
      if (this.#unstored >= MAX_UNSTORED_EVENTS) await this.#store()
    }
    // Events that were not requested are behind, too.
    this.#push.positions = this.#follower.positions
    if (this.#unstored > 0) await this.#store()
    if (this.#follower.size === 0) await arrived
  }

  async #sendFirst(): Promise<void> {
    const { id, stream } = this.#push
    const taken = await this.#follower.takePermitted()
    if (!taken || !this.#subscription || this.#signal.aborted) return
    this.#push.positions = taken.positions
    const cursor = sealPositions(taken.positions, this.#subscription, this.#kept.catalog.deps.identity.seal)
    stream.emit(this.#kept.form.event(taken, id, cursor), cursor)
    this.#unstored++
  }

  async #store(): Promise<void> {
    this.#unstored = 0
    if (this.#subscription) await advance(this.#subscription, this.#push.positions, this.#kept.subscriptions)
  }

  async #end(reason: Ending | undefined): Promise<false> {
    await endPush(this.#push, reason, this.#kept)
    return false
  }
}

/** The requests that a subscription has now. Types whose events its filter does not fit any more are gone. */
async function requestsOf(
  subscription: Subscription,
  call: Call,
  catalog: EventCatalog,
): Promise<Pick<FoundRequests, 'requests' | 'isGone'>> {
  try {
    return await findRequests(subscription, call, catalog)
  } catch (error) {
    if (asGatewayError(error).code === 'INVALID_INPUT') return { requests: [], isGone: true }
    throw error
  }
}

/** Ends a subscription that is sent to a stream; without a reason its client has ended it. @throws SERVER_UNAVAILABLE */
export async function endPush(
  push: Push,
  reason: Ending | undefined,
  kept: KeptSubscriptions,
): Promise<void> {
  const { subscriptions, pushes, form } = kept
  if (reason === 'revoked' || reason === 'upstream_gone')
    await subscriptions.unsubscribe(push.call.principal, push.id)
  if (reason !== undefined) push.stream.emit(form.ended(push.id, reason))
  pushes.end(push)
}

// Sources

/** How many subscriptions are retained together: one whose server takes long to list its tools holds up few others. */
const BATCH_SIZE = 50

/**
 * Retains the sources of all kept subscriptions until they end, whether their events are sent to a stream or polled now
 * and then, and also after a restart. Every gateway with the store does so; of those, one has the lease of a source.
 * Never rejects.
 */
export async function retainSubscriptions(kept: KeptSubscriptions, signal: AbortSignal): Promise<void> {
  const retainThem = (): Promise<void> => retainAll(kept, signal)
  repeatedly(retainThem, RETAIN_INTERVAL_MS, signal)
  await retainThem()
}

async function retainAll({ catalog, subscriptions }: KeptSubscriptions, signal: AbortSignal): Promise<void> {
  const failed = (error: unknown, subscription?: string): void => {
    catalog.deps.log.debug('events.not_kept_open', { subscription, reason: asGatewayError(error).message })
  }
  const retainOne = async (record: SubscriptionRecord): Promise<void> => {
    const { invoker } = catalog.deps
    const principal = invoker.present(fromStoredPrincipal(record.principal))
    const call = callOnBehalf(principal, record.upstream)
    const { requests } = await findRequests(asSubscription(record), call, catalog)
    // A source can take a while to be ready, which is not awaited here.
    retain(requests, call.principal, catalog).catch((error: unknown) => failed(error, record.id))
  }
  try {
    const records = (await subscriptions.all()).filter(isClientSubscription)
    while (records.length > 0 && !signal.aborted) {
      const batch = records.splice(0, BATCH_SIZE)
      await Promise.all(
        batch.map((each) => retainOne(each).catch((error: unknown) => failed(error, each.id))),
      )
    }
  } catch (error) {
    failed(error)
  }
}
