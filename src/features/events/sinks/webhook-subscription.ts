/**
 * A subscription that is delivered by webhooks: which events of the log it gets, what else its receiver gets, and how
 * the receiver fares. The outbox (`durable/outbox.ts`) has its queue, and `webhook.ts` sends the messages.
 *
 * A message is made for each attempt: rights, masking, and the cursor up to which everything was accepted may have changed.
 */
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { modernError } from '../../../protocol/modern.ts'
import type { Call } from '../../../core/call.ts'
import { world } from '../../../core/world.ts'
import type { Delivery, FailedAttempt, Limit, Sent, Settlement } from '../../../durable/dispatcher.ts'
import type { LogPage } from '../../../durable/log.ts'
import type { Consumer } from '../../../durable/outbox.ts'
import { Queue, type QueueProgress } from '../../../durable/queue.ts'
import { DeadLetters } from '../../../records/dead-letters.ts'
import {
  type EventSubscriptions,
  NEVER,
  type SubscriptionRecord,
  type WebhookState,
} from '../../../records/event-subscriptions.ts'
import type { Services } from '../../feature.ts'
import { occurrence, sealCursor } from '../dialects/extension.ts'
import { callbackEndpointError, type Column, forbidden, inColumn } from '../errors.ts'
import { marksGap, retain, RETAIN_INTERVAL_MS } from '../follower.ts'
import { asEvent, type LoggedEvent } from '../server-events.ts'
import { type EventCatalog, type NamedType, presentType } from '../types.ts'
import type { LogFeeds } from './log-feed.ts'
import type { Receiver } from './receivers.ts'
import { FailureRate, limitsFor, type WebhookSink } from './webhook.ts'

/** How old the knowledge about a type may be at a delivery, and without one, in milliseconds. */
const TYPE_FRESH_MS = 10_000
const TYPE_IDLE_MS = 60_000
/** How long nothing is accepted until a subscription without an expiry ends, in milliseconds. */
const MAX_FAILING_MS = 3 * 86_400_000
/** How many events are read at once. */
const PAGE_EVENTS = 100

/** What is sent: an event, or something about the subscription. */
export type Content =
  | { readonly kind: 'event'; readonly event: LoggedEvent }
  | { readonly kind: 'gap' }
  | { readonly kind: 'terminated'; readonly error: unknown }

/** What all subscriptions of a process are delivered with. */
export interface DeliveryServices {
  readonly deps: Pick<Services, 'log' | 'invoker' | 'identity' | 'metrics'>
  readonly parts: EventCatalog
  readonly subscriptions: EventSubscriptions
  readonly letters: DeadLetters
  readonly sink: WebhookSink
  readonly feeds: LogFeeds
  /** In milliseconds since 1970. */
  now(): number
  /** Where a subscription is delivered; undefined if its secrets cannot be decrypted, or not yet. */
  receiverOf(record: SubscriptionRecord): Receiver | undefined
  wake(subscription: string): void
}

/** What changed since it was written. Times are in milliseconds since 1970. */
interface Health {
  lastDeliveryAt?: number
  lastError?: string
  failedSince?: number
  /** Set by this process; a subscriber may have ended it meanwhile. */
  suspendedAt?: number
}

/** A subscription of which this process is the owner. */
export class WebhookSubscription implements Consumer<SubscriptionRecord, Content> {
  readonly queue: Queue<Content>
  #record: SubscriptionRecord
  /** Where it is delivered; its secrets can change. */
  receiver: Receiver
  /** For checks of the subscriber's rights. */
  readonly #call: Call
  readonly #services: DeliveryServices
  /** What it subscribes to, as it was found last, and when. */
  #type: NamedType | undefined
  #typeFoundAt = 0
  /** When its source was retained last. */
  #retainedAt = 0
  /** The cursor that was made last, and its position: most events have the same as the one before. */
  #cursor: { readonly position: string; readonly text: string } | undefined
  readonly #rate = new FailureRate()
  readonly #health: Health
  #isSuspensionWritten = true
  /** The error that ended its events, before more of the log is read. */
  #ended: GatewayError | undefined

  constructor(record: SubscriptionRecord, receiver: Receiver, call: Call, services: DeliveryServices) {
    this.#record = record
    this.queue = new Queue(record)
    this.receiver = receiver
    this.#call = call
    this.#services = services
    const { lastDeliveryAt, failedSince, suspendedAt } = record.webhook ?? {}
    this.#health = {
      ...(lastDeliveryAt !== undefined && { lastDeliveryAt }),
      ...(failedSince !== undefined && { failedSince }),
      ...(suspendedAt !== undefined && { suspendedAt }),
    }
  }

  get id(): string {
    return this.#record.id
  }

  /** Whether its receiver was verified for as long as it exists. */
  get isVerified(): boolean {
    return this.#record.webhook?.isVerified === true
  }

  /** The server whose log has its events; undefined for those of no server, and while its type is not known. */
  get upstream(): string | undefined {
    return this.#type?.type.upstream
  }

  get limits(): readonly Limit[] | undefined {
    return this.#isSuspended && !this.queue.isEnding ? undefined : limitsFor(this.receiver)
  }

  get #isSuspended(): boolean {
    return this.#health.suspendedAt !== undefined
  }

  /** Whether its last message is on its way, or will be. */
  get isOver(): boolean {
    return this.queue.isEnding || this.endedBy !== undefined
  }

  /** The error that ended its events, once all events before are settled. */
  get endedBy(): GatewayError | undefined {
    return this.#ended && this.queue.open(1).length === 0 ? this.#ended : undefined
  }

  /** The column of codes that its client expects. */
  get #column(): Column {
    return this.#record.delivery.codes === 'sketch' ? 'sketch' : 'sep'
  }

  // The source of its messages

  /** Reads requested events until enough are waiting, or there are no more. */
  async fill(limit: number): Promise<void> {
    const type = (await this.#typeWithin(TYPE_IDLE_MS)) ?? this.#type
    if (type && this.hasCapacity(limit)) {
      const feed = this.#services.feeds.of(type.type.upstream)
      while (this.hasCapacity(limit) && !feed.isEnd(this.queue.next)) {
        const page = await feed.read(this.queue.next, PAGE_EVENTS)
        this.take(page, type)
        if (!page.hasMore) break
      }
    }
    if (this.endedBy) this.terminate(this.endedBy)
  }

  /** Whether another event of the log has a place, before so many are waiting. */
  hasCapacity(limit: number): boolean {
    return !this.#ended && this.queue.hasCapacity(limit)
  }

  /** Takes the requested events of a page of the log, which follows what was read before. */
  take({ entries, start, cursor, isGap }: LogPage, { type }: NamedType): void {
    const { arguments: given } = this.#record
    if (isGap) this.#addGap(start)
    let before = start
    for (const { value, cursor: position } of entries) {
      const event = asEvent(value)
      this.#ended = event && type.endOf?.(given, event)
      if (this.#ended) break
      if (event && marksGap(event, { type, arguments: given })) this.#addGap(position)
      const isRequested = event?.name === type.name && type.isRequested(given, event)
      if (event && isRequested) this.queue.add(event.id, { kind: 'event', event }, { before, position })
      before = position
    }
    // An end stays ahead until its message is accepted: another process finds it again.
    this.queue.advance(this.#ended ? before : cursor, this.#services.now())
  }

  #addGap(position: string): void {
    if (this.queue.last?.kind === 'gap') this.queue.extend(position)
    else this.queue.insert(controlId('gap'), { kind: 'gap' }, position)
  }

  /**
   * What it subscribes to, at most `maxAgeMs` old; undefined if that is not known at present. If it is gone, has other
   * schemas since this process delivers it, or its subscriber lost the right to it, the subscription ends.
   */
  async #typeWithin(maxAgeMs: number): Promise<NamedType | undefined> {
    const now = this.#services.now()
    if (this.queue.isEnding) return undefined
    if (this.#type && now - this.#typeFoundAt <= maxAgeMs) return this.#type
    const record = this.#record
    try {
      const found = await presentType(record.name, this.#type, this.#call, this.#services.parts)
      if (found instanceof GatewayError) return this.terminate(found)
      if (!(await found.type.mayReceive({ data: record.arguments }, this.#call)))
        return this.terminate(forbidden('revoked', 'The right to these events was withdrawn.'))
      this.#type = found
      this.#typeFoundAt = now
      return found
    } catch (error) {
      this.#unknown(error)
      return undefined
    }
  }

  #unknown(error: unknown): void {
    const { id, upstream } = this.#record
    const { message: reason } = asGatewayError(error)
    this.#services.deps.log.debug('webhook.delayed', { subscription: id, upstream, reason })
  }

  /** Ends it, with a last message to its receiver. */
  terminate(error: GatewayError): undefined {
    if (this.queue.isEnding) return undefined
    const { deps, wake } = this.#services
    const { id, principal } = this.#record
    const { code: reason } = error
    deps.log.warn('webhook.terminated', { subscription: id, principal: principal.id, reason })
    const sent = modernError(inColumn(error, this.#column), this.#call.requestId).value
    this.queue.end(controlId('terminated'), { kind: 'terminated', error: sent })
    wake(id)
    return undefined
  }

  // Attempts

  async send(content: Content, { id }: Delivery, signal: AbortSignal): Promise<Sent> {
    const { sink } = this.#services
    const { receiver } = this
    const body = await this.#bodyOf(content, id)
    if (typeof body !== 'object') return body === 'unknown' ? POSTPONED : WITHHELD
    return sink.send(receiver, { kind: kindOf(content), id, body: JSON.stringify(body) }, signal)
  }

  /** `withheld` if the subscriber may not have it, `unknown` if that cannot be found out now. */
  async #bodyOf(content: Content, id: string): Promise<object | 'withheld' | 'unknown'> {
    if (content.kind === 'terminated') return { type: 'terminated', error: content.error }
    const type = await this.#typeWithin(TYPE_FRESH_MS)
    if (!type) return this.queue.isEnding ? 'withheld' : 'unknown'
    if (content.kind === 'gap')
      return { type: 'gap', cursor: this.#cursorAt(this.queue.positionAfter(id), type) }
    try {
      if (!(await type.type.mayReceive(content.event, this.#call))) return 'withheld'
    } catch (error) {
      this.#unknown(error)
      return 'unknown'
    }
    return { ...occurrence(content.event, type), cursor: this.#cursorAt(this.queue.watermark, type) }
  }

  /** A position as a cursor. */
  #cursorAt(position: string, { type }: NamedType): string {
    if (this.#cursor?.position === position) return this.#cursor.text
    const { seal } = this.#services.deps.identity
    const request = { type, arguments: this.#record.arguments }
    const text = sealCursor(position, this.#call, request, seal)
    this.#cursor = { position, text }
    return text
  }

  retried(content: Content, failed: FailedAttempt): void {
    this.#logFailure(content, failed.id, { outcome: 'retry', failure: failed.failure })
    this.#services.deps.metrics.delivered('retried')
    const now = this.#services.now()
    this.#failed(failed.failure, now)
    this.#suspendIfFailing(now)
  }

  settled(content: Content, { id }: Delivery, settlement: Settlement, isAgain: boolean): void {
    const { log, metrics } = this.#services.deps
    const { at } = settlement
    const outcome = settlement.kind === 'dropped' ? settlement.reason : settlement.kind
    if ('failure' in settlement) {
      this.#logFailure(content, id, { outcome, failure: settlement.failure })
      this.#failed(settlement.failure, at)
    }
    if (outcome === 'delivered') this.#accepted(at)
    if (outcome === 'too_large' || outcome === 'no_id')
      log.warn('webhook.not_sendable', {
        subscription: this.#record.id,
        webhook_id: id.slice(0, 100),
        outcome,
      })
    if (content.kind === 'event') {
      const lag = Math.max(0, (at - content.event.at) / 1000)
      metrics.delivered(outcome, outcome === 'delivered' && !isAgain ? lag : undefined)
    }
    if (content.kind !== 'terminated') this.#suspendIfFailing(at)
  }

  #logFailure(content: Content, id: string, result: Readonly<Record<string, string>>): void {
    const { deps, sink } = this.#services
    const subscription = this.#record.id
    const sentId = sink.idOf(subscription, { kind: kindOf(content), id })
    deps.log.info('webhook.failed', { subscription, webhook_id: sentId, ...result })
  }

  async addLetter(content: Content, failure: string, at: number): Promise<void> {
    if (content.kind !== 'event') return
    const { event } = content
    const { id: subscription, name, upstream } = this.#record
    const id = DeadLetters.idOf(subscription, event.id)
    const { owner } = this.receiver
    const server = upstream === undefined ? {} : { upstream }
    const letter = { id, subscription, owner, name, event: { ...event }, ...server, failure, at }
    await this.#services.letters.add([letter])
  }

  // Its record

  renewed(record: SubscriptionRecord): void {
    const { secret, earlier } = this.#record.webhook ?? {}
    const isSame = secret === record.webhook?.secret && earlier?.until === record.webhook?.earlier?.until
    this.#record = record
    if (!isSame) this.receiver = this.#services.receiverOf(record) ?? this.receiver
    const { suspendedAt } = this.#health
    // Its subscriber may have activated it.
    if (suspendedAt === undefined || !this.#isSuspensionWritten || record.webhook?.suspendedAt !== undefined)
      return
    delete this.#health.suspendedAt
    this.#rate.reset()
    this.queue.resume(this.#services.now() - suspendedAt)
  }

  async maintain(now: number): Promise<void> {
    const record = this.#record
    const { failedSince } = this.#health
    if (record.expiresAt === NEVER && failedSince !== undefined && now - failedSince > MAX_FAILING_MS) {
      this.terminate(callbackEndpointError('not_accepting'))
      return
    }
    if (!this.#type || now - this.#typeFoundAt >= TYPE_IDLE_MS) {
      await this.#typeWithin(0)
      this.#services.wake(record.id)
    }
    if (!this.#type || this.queue.isEnding || now - this.#retainedAt < RETAIN_INTERVAL_MS) return
    this.#retainedAt = now
    const request = { type: this.#type.type, arguments: record.arguments }
    const retained = retain([request], this.#call.principal, this.#services.parts)
    retained.catch((error: unknown) => this.#unknown(error))
  }

  async write(owner: string, progress: QueueProgress): Promise<boolean> {
    const webhook = (before: WebhookState): WebhookState => this.#stateAfter(before)
    const { subscriptions } = this.#services
    const record = await subscriptions.advance(this.#record, owner, { ...progress, webhook })
    if (!record) return false
    this.#record = record
    if (record.webhook?.suspendedAt !== undefined) this.#isSuspensionWritten = true
    return true
  }

  remove(): Promise<boolean> {
    const { principal, id } = this.#record
    return this.#services.subscriptions.unsubscribe(principal, id)
  }

  #stateAfter({ lastDeliveryAt: _at, lastError, failedSince: _since, ...rest }: WebhookState): WebhookState {
    const { suspendedAt, ...health } = this.#health
    const isNew = suspendedAt !== undefined && !this.#isSuspensionWritten
    const error = health.failedSince === undefined ? undefined : (health.lastError ?? lastError)
    return {
      ...rest,
      ...health,
      ...(error !== undefined && { lastError: error }),
      ...(isNew && { suspendedAt }),
    }
  }

  #failed(failure: string, now: number): void {
    this.#rate.count(true, now)
    this.#health.lastError = failure
    this.#health.failedSince ??= now
  }

  #accepted(now: number): void {
    this.#rate.count(false, now)
    this.#health.lastDeliveryAt = now
    delete this.#health.lastError
    delete this.#health.failedSince
  }

  #suspendIfFailing(now: number): void {
    if (this.#isSuspended || !this.#rate.isTooHigh) return
    this.#health.suspendedAt = now
    this.#isSuspensionWritten = false
    this.queue.isDirty = true
    const { id, principal } = this.#record
    this.#services.deps.log.warn('webhook.suspended', { subscription: id, principal: principal.id })
  }
}

const POSTPONED: Sent = { kind: 'postponed' }
const WITHHELD: Sent = { kind: 'dropped', reason: 'withheld' }

function kindOf({ kind }: Content): 'event' | 'control' {
  return kind === 'event' ? 'event' : 'control'
}

function controlId(type: string): string {
  return `msg_${type}_${world.randomBytes(12).toString('hex')}`
}
