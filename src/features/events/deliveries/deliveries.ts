/**
 * Delivers subscriptions by webhooks: connects their records and the logs of events with the worker that makes attempts.
 *
 * Each subscription is delivered by one process, its owner, whose key in the store expires unless it is renewed. Then
 * other processes take its subscriptions over, and go on at what was written last. Processes learn of each other's
 * changes, such as new subscriptions and requests to deliver dead letters, by polling the records.
 */
import { world } from '../../../core/world.ts'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { background } from '../../../core/log.ts'
import { type DeadLetter, DeadLetters } from '../../../records/dead-letters.ts'
import { EventSubscriptions, NEVER, type SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import { callerHash, fromStoredPrincipal } from '../../../records/principal.ts'
import { Instance } from '../../../durable/members.ts'
import type { Services } from '../../feature.ts'
import { occurrence, sealCursor } from '../dialects/extension.ts'
import { callbackEndpointError, forbidden, inColumn } from '../errors.ts'
import { RETAIN_INTERVAL_MS, retain } from '../follower.ts'
import { type EventCatalog, type NamedType, presentType } from '../types.ts'
import { asEvent, type LoggedEvent } from '../server-events.ts'
import type {
  Delivery,
  DeliveryQueue,
  FailedAttempt,
  OutgoingMessage,
  Settlement,
} from '../webhooks/delivery-queue.ts'
import type { Dialer } from '../../dialer.ts'
import { HeldSubscription } from './held-subscription.ts'
import { LogFeeds } from './log-feed.ts'
import { openSecrets } from './sealed-secrets.ts'
import { VerifiedReceivers } from './verified-receivers.ts'
import { type Receiver, type ReceiverCheck, ReceiverVerifier } from '../webhooks/verification.ts'
import { type Clock, systemClock, WebhookWorker } from '../webhooks/worker.ts'

/** How long an owner of subscriptions counts as alive after it last said so, in milliseconds. */
const OWNER_TTL_MS = 30_000
/** How often the records are polled for changes of other processes, in milliseconds. */
const POLL_INTERVAL_MS = 2000
/** How many polls are left out after one that found no subscriptions. */
const IDLE_SKIPS = 2
/** How long settled events wait to be written together, in milliseconds. */
const WRITE_DELAY_MS = 250
/** How long a watermark that passed only events of others waits, and when a failed write is repeated. */
const IDLE_WRITE_DELAY_MS = 30_000
const WRITE_RETRY_MS = 5000
/** How many subscriptions are written at the same time. */
const WRITE_BATCH = 16
/** How old the knowledge about a type may be at a delivery, and without one. */
const TYPE_FRESH_MS = 10_000
const TYPE_IDLE_MS = 60_000
/** How long nothing is accepted until a subscription without an expiry ends. */
const MAX_FAILING_MS = 3 * 86_400_000
/** How many events are read at once. */
const PAGE_EVENTS = 100

interface Options {
  readonly deps: Pick<Services, 'log' | 'store' | 'invoker' | 'identity' | 'metrics'>
  readonly parts: EventCatalog
  readonly dialer: Dialer
  readonly giveUpMs: number
  readonly webhookId: 'event' | 'message'
  readonly clock?: Clock
  random?(): number
}

/** The deliveries of this process. */
export class WebhookDeliveries implements DeliveryQueue {
  readonly subscriptions: EventSubscriptions
  readonly #options: Options
  readonly #clock: Clock
  readonly #letters: DeadLetters
  readonly #verifier: ReceiverVerifier
  readonly #worker: WebhookWorker
  /** Owns the subscriptions that this process delivers. So the lease of any number of them costs one write. */
  readonly #owner: Instance
  readonly #held = new Map<string, HeldSubscription>()
  readonly #feeds: LogFeeds
  /** Changes of dead letters that are written before the watermarks that pass them. */
  #letterWrites: (() => Promise<void>)[] = []
  /** The dead letters whose redelivery has ended, which is not written yet. */
  readonly #settledLetters = new Set<string>()
  #cancelWrite: (() => void) | undefined
  #writing: Promise<void> = Promise.resolve()
  #cancelPoll: (() => void) | undefined
  #polling: Promise<void> | undefined
  #skips = 0
  #isStarted = false
  #isClosed = false

  constructor(options: Options) {
    this.#options = options
    const { deps, dialer, giveUpMs, webhookId, clock = systemClock, random = world.random } = options
    this.#clock = clock
    this.#feeds = new LogFeeds(options.parts.events, deps.log, (upstream) => this.#wakeAll(upstream))
    const now = (): number => clock.now()
    this.subscriptions = new EventSubscriptions(deps.store, now)
    this.#letters = new DeadLetters(deps.store)
    this.#owner = new Instance(deps.identity.membership, '/', {
      store: deps.store,
      keyPrefix: 'event-owner:',
      ttlMs: OWNER_TTL_MS,
    })
    const isKept = (id: string): boolean => this.#held.get(id)?.record.webhook?.isVerified === true
    const records = new VerifiedReceivers(deps.store, isKept)
    this.#verifier = new ReceiverVerifier({ dialer, now, records })
    const { log } = deps
    const verifier = this.#verifier
    this.#worker = new WebhookWorker({
      queue: this,
      verifier,
      dialer,
      clock,
      giveUpMs,
      webhookId,
      log,
      random: () => random(),
    })
  }

  /** Begins to deliver, and takes over what earlier processes left. */
  async start(): Promise<void> {
    this.#isStarted = true
    await this.#poll()
  }

  /** Ends all attempts, writes what is settled, and leaves the rest to other processes. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll?.()
    await this.#polling?.catch(() => undefined)
    await this.#worker.close()
    this.#feeds.endAllBut(new Set())
    this.#cancelWrite?.()
    await this.#write().catch(() => undefined)
    this.#held.clear()
    await this.#owner.end()
  }

  /** Delivers a subscription that was made or renewed here, unless another process does. */
  async added(record: SubscriptionRecord): Promise<void> {
    const held = this.#held.get(record.id)
    if (held) this.#renew(held, record)
    else if (this.#isStarted && !this.#isClosed) await this.#claim([record])
    this.#worker.wake(record.id)
  }

  /** Ends a subscription whose last message is on its way: who subscribes again gets a new one. @throws SERVER_UNAVAILABLE */
  async endIfEnding(id: string): Promise<void> {
    const held = this.#held.get(id)
    if (held?.isEnding || held?.endedBy) await this.#end(held)
  }

  /** Forgets a subscription that ended. */
  removed(id: string): void {
    this.#held.delete(id)
  }

  /** How far a subscription was delivered, as far as this process knows. */
  watermarkOf({ id, watermark }: SubscriptionRecord): string {
    return this.#held.get(id)?.watermark ?? watermark
  }

  /** Writes what this process knows of a subscription. @throws SERVER_UNAVAILABLE */
  async written(id: string): Promise<void> {
    const held = this.#held.get(id)
    if (held?.isDirty) await this.#writeOne(held)
  }

  /** Whether a receiver is verified; it gets a challenge if that is not known. @throws SERVER_UNAVAILABLE */
  verify(receiver: Receiver, signal: AbortSignal): Promise<ReceiverCheck> {
    return this.#verifier.verify(receiver, signal)
  }

  receiver(subscription: string): Receiver | undefined {
    const held = this.#held.get(subscription)
    return held && (!held.isSuspended || held.isEnding) ? held.receiver : undefined
  }

  async open(subscription: string, limit: number): Promise<readonly Delivery[]> {
    const held = this.#held.get(subscription)
    if (!held) return []
    const type = (await this.#typeOf(held, TYPE_IDLE_MS)) ?? held.type
    if (type && held.hasRoom(limit)) await this.#read(held, type, limit)
    if (held.endedBy) this.#terminate(held, held.endedBy)
    return held.open(limit)
  }

  async message(subscription: string, { id }: Delivery): Promise<OutgoingMessage | 'withheld' | 'unknown'> {
    const held = this.#held.get(subscription)
    const content = held?.contentOf(id)
    if (!held || !content) return 'withheld'
    if (content.kind === 'terminated') return control({ type: 'terminated', error: content.error })
    const type = await this.#typeOf(held, TYPE_FRESH_MS)
    if (!type) return held.isEnding ? 'withheld' : 'unknown'
    if (content.kind === 'gap') {
      const cursor = this.#cursor(held, type, held.positionAfterGap(id))
      return control({ type: 'gap', cursor })
    }
    try {
      if (!(await type.type.mayReceive(content.event, held.call))) return 'withheld'
    } catch (error) {
      this.#unknown(held, error)
      return 'unknown'
    }
    const cursor = this.#cursor(held, type, held.watermark)
    const body = { ...occurrence(content.event, type), cursor }
    return { kind: 'event', body: JSON.stringify(body) }
  }

  retry(subscription: string, failed: FailedAttempt): void {
    const held = this.#held.get(subscription)
    if (!held) return
    const now = this.#clock.now()
    this.#options.deps.metrics.delivered('retried')
    held.retry(failed, now)
    this.#suspend(held, now)
  }

  settle(subscription: string, { id }: Delivery, settlement: Settlement): void {
    const { log, metrics } = this.#options.deps
    const held = this.#held.get(subscription)
    const { kind, at } = settlement
    const failure = 'failure' in settlement ? settlement.failure : undefined
    const content = held?.settle(id, failure, at)
    if (!held || !content) return
    if (kind === 'delivered') held.accepted(at)
    if (kind === 'too_large' || kind === 'no_id')
      log.warn('webhook.not_sendable', { subscription, webhook_id: id.slice(0, 100), outcome: kind })
    if (content.kind === 'terminated') return background(this.#end(held), log)
    if (content.kind === 'event') {
      const lag = Math.max(0, (at - content.event.at) / 1000)
      metrics.delivered(kind, kind === 'delivered' && !content.letter ? lag : undefined)
      this.#keepLetter(held, content, settlement)
    }
    this.#suspend(held, at)
    this.#writeLater(WRITE_DELAY_MS)
  }

  /** Reads requested events until enough are waiting, or there are no more. */
  async #read(held: HeldSubscription, type: NamedType, limit: number): Promise<void> {
    const feed = this.#feeds.of(type.type.upstream)
    while (held.hasRoom(limit) && !feed.isEnd(held.next)) {
      const page = await feed.read(held.next, PAGE_EVENTS)
      held.take(page, type, this.#clock.now())
      if (!page.hasMore) return
    }
  }

  #wakeAll(upstream: string | undefined): void {
    for (const [id, { type }] of this.#held) if (type?.type.upstream === upstream) this.#worker.wake(id)
  }

  /**
   * What a subscription subscribes to, at most `maxAgeMs` old; undefined if that is not known at present. If it is gone,
   * has other schemas since this process delivers it, or its subscriber lost the right to it, the subscription ends.
   */
  async #typeOf(held: HeldSubscription, maxAgeMs: number): Promise<NamedType | undefined> {
    const now = this.#clock.now()
    if (held.isEnding) return undefined
    if (held.type && now - held.typeFoundAt <= maxAgeMs) return held.type
    const { call, record } = held
    try {
      const found = await presentType(record.name, held.type, call, this.#options.parts)
      if (found instanceof GatewayError) return this.#terminate(held, found)
      if (!(await found.type.mayReceive({ data: record.arguments }, call)))
        return this.#terminate(held, forbidden('revoked', 'The right to these events was withdrawn.'))
      held.type = found
      held.typeFoundAt = now
      return found
    } catch (error) {
      this.#unknown(held, error)
      return undefined
    }
  }

  #unknown({ record: { id, upstream } }: HeldSubscription, error: unknown): void {
    const { message: reason } = asGatewayError(error)
    this.#options.deps.log.debug('webhook.delayed', { subscription: id, upstream, reason })
  }

  /** Ends a subscription, with a last message to its receiver. */
  #terminate(held: HeldSubscription, error: GatewayError): undefined {
    if (held.isEnding) return undefined
    const { deps } = this.#options
    const { id, principal } = held.record
    const { code: reason } = error
    deps.log.warn('webhook.terminated', { subscription: id, principal: principal.id, reason })
    held.end(deps.invoker.errorAsSent(inColumn(error, held.column), held.call).value)
    this.#worker.wake(id)
    return undefined
  }

  async #end(held: HeldSubscription): Promise<void> {
    const { record } = held
    // Its subscriber may have begun anew meanwhile.
    if (this.#held.get(record.id) !== held) return
    this.#held.delete(record.id)
    await this.subscriptions.unsubscribe(record.principal, record.id)
  }

  #suspend(held: HeldSubscription, now: number): void {
    if (!held.suspendIfFailing(now)) return
    const { id, principal } = held.record
    this.#options.deps.log.warn('webhook.suspended', { subscription: id, principal: principal.id })
    this.#writeLater(WRITE_DELAY_MS)
  }

  /** A position as a cursor; the last one is kept, because most events have the same as the one before. */
  #cursor(held: HeldSubscription, { type }: NamedType, position: string): string {
    if (held.cursor?.position === position) return held.cursor.text
    const { call, record } = held
    const { seal } = this.#options.deps.identity
    const text = sealCursor(position, call, { type, arguments: record.arguments }, seal)
    held.cursor = { position, text }
    return text
  }

  /** What became of an event that is a dead letter, or becomes one. */
  #keepLetter(
    held: HeldSubscription,
    { event, letter }: { readonly event: LoggedEvent; readonly letter?: DeadLetter },
    settlement: Settlement,
  ): void {
    const { kind, at } = settlement
    if (kind === 'refused' || kind === 'abandoned') {
      const added = { ...(letter ?? held.letterOf(event)), failure: settlement.failure, at }
      this.#letterWrites.push(() => this.#letters.add([added]))
    }
    if (!letter) return
    this.#settledLetters.add(letter.id)
    this.#letterWrites.push(async () => {
      if (kind === 'delivered') await this.#letters.remove(letter)
      else await this.#letters.endRedelivery(letter)
      this.#settledLetters.delete(letter.id)
    })
  }

  // Writing

  #writeLater(delayMs: number): void {
    if (this.#isClosed) return
    this.#cancelWrite ??= this.#clock.after(delayMs, () => {
      this.#cancelWrite = undefined
      background(this.#write(), this.#options.deps.log)
    })
  }

  /** Writes what is settled, after an earlier write. */
  #write(): Promise<void> {
    const writing = this.#writing.catch(() => undefined).then(() => this.#writeAll())
    this.#writing = writing
    return writing
  }

  /** Dead letters come first, since nothing repeats what the watermark has passed. */
  async #writeAll(): Promise<void> {
    try {
      for (let write = this.#letterWrites[0]; write; write = this.#letterWrites[0]) {
        await write()
        this.#letterWrites.shift()
      }
      const dirty = [...this.#held.values()].filter(({ isDirty }) => isDirty)
      while (dirty.length > 0)
        await Promise.all(dirty.splice(0, WRITE_BATCH).map((held) => this.#writeOne(held)))
    } catch (error) {
      this.#writeLater(WRITE_RETRY_MS)
      throw error
    }
  }

  async #writeOne(held: HeldSubscription): Promise<void> {
    if (held.isEnding) return
    try {
      const record = await this.subscriptions.advance(held.record, this.#owner.id, held.progress())
      if (record) held.written(record)
      else this.#held.delete(held.record.id)
    } catch (error) {
      held.isDirty = true
      throw error
    }
  }

  // Looking at the records

  async #poll(): Promise<void> {
    if (this.#isClosed) return
    this.#polling = this.#pollOnce()
    try {
      await this.#polling
    } catch (error) {
      const { message: reason } = asGatewayError(error)
      this.#options.deps.log.debug('webhook.records_not_read', { reason })
    } finally {
      if (!this.#isClosed) this.#cancelPoll = this.#clock.after(POLL_INTERVAL_MS, () => void this.#poll())
    }
  }

  async #pollOnce(): Promise<void> {
    if (this.#held.size === 0 && this.#skips-- > 0) return
    const now = this.#clock.now()
    const startedAt = world.monotonic()
    const records = (await this.subscriptions.all()).filter(({ webhook }) => webhook)
    const byId = new Map(records.map((record) => [record.id, record]))
    for (const id of [...this.#held.keys()]) if (!byId.has(id)) this.#held.delete(id)
    if (records.length > 0) await this.#owner.register(now)
    await this.#claim(records.filter(({ id }) => !this.#held.has(id)))
    for (const held of [...this.#held.values()]) {
      const record = byId.get(held.record.id)
      // What was read before the last write of this process says nothing.
      if (record && held.writtenAt < startedAt) this.#renew(held, record)
      await this.#maintain(held, now)
    }
    await this.#redeliver(byId)
    this.#feeds.endAllBut(new Set([...this.#held.values()].map(({ type }) => type?.type.upstream)))
    this.#skips = records.length === 0 ? IDLE_SKIPS : 0
  }

  /** Takes over subscriptions whose owner has ended. */
  async #claim(records: readonly SubscriptionRecord[]): Promise<void> {
    const alive = await this.#othersAlive(records)
    const free = records.filter(({ owner }) => owner === undefined || !alive.has(owner))
    if (free.length > 0) await this.#owner.register(this.#clock.now())
    for (const record of free) {
      if (this.#isClosed) return
      const claimed = await this.subscriptions.claim(record, this.#owner.id, (owner) => alive.has(owner))
      if (claimed && !this.#held.has(claimed.id)) this.#hold(claimed)
    }
  }

  /** The other owners of subscriptions that are alive. @throws SERVER_UNAVAILABLE */
  async #othersAlive(records: readonly SubscriptionRecord[]): Promise<ReadonlySet<string>> {
    const owners = new Set(records.flatMap(({ owner }) => owner ?? []))
    owners.delete(this.#owner.id)
    const alive = new Set<string>()
    for (const owner of owners) if (await this.#owner.isAlive(owner)) alive.add(owner)
    return alive
  }

  #hold(record: SubscriptionRecord): void {
    const { invoker } = this.#options.deps
    const receiver = this.#receiverOf(record)
    // Its secrets are readable once the key of the gateway was read; then it is claimed again.
    if (!receiver) return
    let principal = fromStoredPrincipal(record.principal)
    let gone: GatewayError | undefined
    try {
      principal = invoker.present(principal)
    } catch (error) {
      gone = forbidden('revoked', asGatewayError(error).message)
    }
    const held = new HeldSubscription(record, receiver, invoker.onBehalf(principal, record.upstream))
    this.#held.set(record.id, held)
    // It is held until its receiver knows that it has ended.
    if (gone) this.#terminate(held, gone)
    this.#worker.wake(record.id)
  }

  #receiverOf({ id, address, principal, webhook }: SubscriptionRecord): Receiver | undefined {
    const secrets = webhook && openSecrets(id, webhook, this.#options.deps.identity.seal)
    return secrets && { subscription: id, url: address, secrets, owner: callerHash(principal.id) }
  }

  #renew(held: HeldSubscription, record: SubscriptionRecord): void {
    if (record.owner !== undefined && record.owner !== this.#owner.id) return
    const { secret, earlier } = held.record.webhook ?? {}
    const isSame = secret === record.webhook?.secret && earlier?.until === record.webhook?.earlier?.until
    if (!isSame) held.receiver = this.#receiverOf(record) ?? held.receiver
    const wasSuspended = held.isSuspended
    held.renew(record, this.#clock.now())
    if (wasSuspended && !held.isSuspended) this.#worker.wake(record.id)
  }

  /** What a subscription needs now and then, also without events. */
  async #maintain(held: HeldSubscription, now: number): Promise<void> {
    const { record, failedSince } = held
    if (record.expiresAt === NEVER && failedSince !== undefined && now - failedSince > MAX_FAILING_MS) {
      this.#terminate(held, callbackEndpointError('not_accepting'))
      return
    }
    if (held.movedAt !== undefined && now - held.movedAt > IDLE_WRITE_DELAY_MS) held.isDirty = true
    if (held.isDirty) this.#writeLater(WRITE_DELAY_MS)
    if (!held.type || now - held.typeFoundAt >= TYPE_IDLE_MS) {
      await this.#typeOf(held, 0)
      this.#worker.wake(record.id)
    }
    if (!held.type || held.isEnding || now - held.keptAt < RETAIN_INTERVAL_MS) return
    held.keptAt = now
    const wanted = [{ type: held.type.type, arguments: record.arguments }]
    const kept = retain(wanted, held.call.principal, this.#options.parts)
    kept.catch((error: unknown) => this.#unknown(held, error))
  }

  /** Delivers dead letters again that were requested. */
  async #redeliver(records: ReadonlyMap<string, SubscriptionRecord>): Promise<void> {
    const { log } = this.#options.deps
    for (const letter of await this.#letters.requested()) {
      const { subscription } = letter
      if (this.#settledLetters.has(letter.id)) continue
      const held = this.#held.get(subscription)
      const event = asEvent(letter.event)
      if (held && event) {
        if (held.addLetter(letter, event)) this.#worker.wake(subscription)
      } else if (!records.has(subscription) || !event) {
        log.warn('webhook.redelivery_failed', { dead_letter: letter.id, subscription, reason: 'ended' })
        await this.#letters.endRedelivery(letter)
      }
    }
  }
}

function control(body: Readonly<Record<string, unknown>>): OutgoingMessage {
  return { kind: 'control', body: JSON.stringify(body) }
}
