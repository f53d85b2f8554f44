/** The deliveries of webhooks of this process: an outbox whose queues are subscriptions, and whose source are the logs of events. */
import { world } from '../../../core/world.ts'
import { callOnBehalf } from '../../own-calls.ts'
import { asGatewayError, type GatewayError } from '../../../core/error.ts'
import { type Clock, systemClock } from '../../../durable/dispatcher.ts'
import { Outbox } from '../../../durable/outbox.ts'
import type { Redelivery } from '../../../durable/queue.ts'
import { type DeadLetter, DeadLetters } from '../../../records/dead-letters.ts'
import { EventSubscriptions, type SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import { callerHash, fromStoredPrincipal } from '../../../records/principal.ts'
import type { Dialer } from '../../dialer.ts'
import type { Services } from '../../feature.ts'
import { forbidden } from '../errors.ts'
import { asEvent } from '../server-events.ts'
import type { EventCatalog } from '../types.ts'
import { LogFeeds } from './log-feed.ts'
import { type Receiver, ReceiverVerifier } from './receivers.ts'
import { openSecrets } from './subscription-secrets.ts'
import { WEBHOOK_RETRIES, WebhookSink } from './webhook.ts'
import { type Content, type DeliveryServices, WebhookSubscription } from './webhook-subscription.ts'

/** What webhooks are delivered with. */
interface DeliverySettings {
  readonly deps: Pick<Services, 'log' | 'store' | 'invoker' | 'identity' | 'metrics'>
  readonly parts: EventCatalog
  readonly dialer: Dialer
  /** How long a delivery is attempted, from its first attempt on, in milliseconds. */
  readonly giveUpMs: number
  /** Whether `webhook-id` is the id of the event, or one of its own for each message. */
  readonly webhookId: 'event' | 'message'
  readonly clock?: Clock
  random?(): number
}

/** The deliveries of this process. */
export class WebhookDeliveries {
  readonly subscriptions: EventSubscriptions
  readonly outbox: Outbox<SubscriptionRecord, Content, WebhookSubscription>
  readonly #deps: DeliverySettings['deps']
  readonly verifier: ReceiverVerifier
  readonly #services: DeliveryServices

  constructor(options: DeliverySettings) {
    const { deps, parts, dialer, giveUpMs, webhookId, clock = systemClock, random = world.random } = options
    const now = (): number => clock.now()
    this.#deps = deps
    this.subscriptions = new EventSubscriptions(deps.store, now)
    const isKept = (id: string): boolean => this.outbox.find(id)?.isVerified === true
    this.verifier = new ReceiverVerifier(dialer, deps.store, now, isKept)
    this.#services = {
      deps,
      parts,
      now,
      subscriptions: this.subscriptions,
      letters: new DeadLetters(deps.store),
      sink: new WebhookSink({ dialer, verifier: this.verifier, webhookId, now }),
      feeds: new LogFeeds(parts.events, deps.log, (upstream) => this.#wakeAll(upstream)),
      receiverOf: (record) => this.#receiverOf(record),
      wake: (id) => this.outbox.wake(id),
    }
    this.outbox = new Outbox<SubscriptionRecord, Content, WebhookSubscription>({
      store: deps.store,
      ownerPrefix: 'event-owner:',
      membership: deps.identity.membership,
      records: async () => (await this.subscriptions.all()).filter(({ webhook }) => webhook),
      claim: (record, owner) => this.subscriptions.claim(record, owner),
      schedule: { ...WEBHOOK_RETRIES, giveUpMs },
      clock,
      random: () => random(),
      log: deps.log,
      // Its secrets are readable once the key of the gateway was read.
      isDeliverable: (record) => this.#receiverOf(record) !== undefined,
      consume: (record) => this.#consume(record),
      redeliveries: async () => {
        const { letters } = this.#services
        return (await letters.requested()).map((letter) => redeliveryOf(letter, letters))
      },
      onUndeliverable: ({ id, queue: subscription }) =>
        deps.log.warn('webhook.redelivery_failed', { dead_letter: id, subscription, reason: 'ended' }),
      onPollFailed: (reason) => deps.log.debug('webhook.records_not_read', { reason }),
      onPolled: () =>
        this.#services.feeds.endAllBut(new Set(this.outbox.consumers.map(({ upstream }) => upstream))),
    })
  }

  /** Begins to deliver, and takes over what earlier processes left. */
  start(): Promise<void> {
    return this.outbox.start()
  }

  /** Ends all attempts, writes what is settled, and leaves the rest to other processes. */
  async close(): Promise<void> {
    await this.outbox.close()
    this.#services.feeds.endAllBut(new Set())
  }

  #consume(record: SubscriptionRecord): WebhookSubscription | undefined {
    const { invoker } = this.#deps
    const receiver = this.#receiverOf(record)
    if (!receiver) return undefined
    let principal = fromStoredPrincipal(record.principal)
    let gone: GatewayError | undefined
    try {
      principal = invoker.present(principal)
    } catch (error) {
      gone = forbidden('revoked', asGatewayError(error).message)
    }
    const call = callOnBehalf(principal, record.upstream)
    const subscription = new WebhookSubscription(record, receiver, call, this.#services)
    // It is delivered until its receiver knows that it has ended.
    if (gone) subscription.terminate(gone)
    return subscription
  }

  #receiverOf({ id, address, principal, webhook }: SubscriptionRecord): Receiver | undefined {
    const secrets = webhook && openSecrets(id, webhook, this.#deps.identity.seal)
    return secrets && { subscription: id, url: address, secrets, owner: callerHash(principal.id) }
  }

  #wakeAll(upstream: string | undefined): void {
    for (const each of this.outbox.consumers) if (each.upstream === upstream) this.outbox.wake(each.id)
  }
}

function redeliveryOf(letter: DeadLetter, letters: DeadLetters): Redelivery<Content> {
  const event = asEvent(letter.event)
  return {
    id: letter.id,
    queue: letter.subscription,
    ...(event && { message: { id: event.id, content: { kind: 'event', event } } }),
    end: (isDelivered) => (isDelivered ? letters.remove(letter) : letters.endRedelivery(letter)),
  }
}
