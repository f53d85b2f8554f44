/**
 * Delivers the events that subscriptions are owed. Each subscription has a lane, which starts attempts in the order of
 * the events; each event is retried on its own, so one that fails does not hold up the others, within a window.
 *
 * Invariants: nothing but a challenge is sent to a receiver that is not verified; every attempt is signed anew, under the
 * same id.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { background, type Log } from '../../../core/log.ts'
import { MAX_TIMER_MS, within } from '../../../core/time/waiting.ts'
import { decide, type Decision, retryOf } from './attempts.ts'
import type { Delivery, DeliveryQueue, OutgoingMessage } from './delivery-queue.ts'
import type { Dialer } from '../../dialer.ts'
import { secretsAt } from './secrets.ts'
import { DeliverySlots } from './slots.ts'
import { isWebhookId } from './standard-webhooks.ts'
import { headersFor, type Receiver, type ReceiverVerifier, REQUEST_TIMEOUT_MS } from './verification.ts'

/** The largest body, in bytes: receivers refuse more. */
const MAX_BODY_BYTES = 256 * 1024
/** How many deliveries of a subscription are looked at: so many may wait for another attempt. */
const WINDOW = 32
/** When a lane tries again after the store failed, or rights could not be checked, in milliseconds. */
const STORE_RETRY_MS = 5000
/** How long attempts in flight may take when the worker closes, in milliseconds. */
const DRAIN_MS = 500

/** The time, and timers; `after` returns what cancels the timer. */
export interface Clock {
  now(): number
  after(milliseconds: number, run: () => void): () => void
}

/** The clock of the system. */
export const systemClock: Clock = {
  now: world.now,
  after: (milliseconds, run) => {
    const timer = world.setTimeout(run, milliseconds).unref()
    return () => world.clearTimeout(timer)
  },
}

interface Options {
  readonly queue: DeliveryQueue
  readonly verifier: ReceiverVerifier
  readonly dialer: Dialer
  readonly clock: Clock
  /** From 0 to 1, for the jitter of back-off. */
  random(): number
  /** How long a delivery is tried, from its first attempt, in milliseconds. */
  readonly giveUpMs: number
  /** Whether `webhook-id` is the id of the event, or one of its own for each message. */
  readonly webhookId: 'event' | 'message'
  readonly log: Log
}

/** The state of one subscription with deliveries. */
interface Lane {
  readonly subscription: string
  /** The ids of deliveries in flight. */
  readonly inFlight: Set<string>
  /** Whether it is being looked at, and whether it changed meanwhile. */
  isBusy: boolean
  isChanged: boolean
  /** Nothing is sent before: the receiver asked for a pause, or the store failed. */
  pausedUntil: number
  cancelTimer?: (() => void) | undefined
}

/** Delivers webhooks until it is closed. */
export class WebhookWorker {
  readonly #options: Options
  readonly #lanes = new Map<string, Lane>()
  readonly #slots = new DeliverySlots()
  readonly #running = new Set<Promise<void>>()
  /** Whether no attempt begins any more, and what ends those in flight. */
  #isClosing = false
  readonly #closing = new AbortController()

  constructor(options: Options) {
    this.#options = options
  }

  /** Looks at a subscription: it has a new delivery, or is active again. */
  wake(subscription: string): void {
    if (this.#isClosing) return
    let lane = this.#lanes.get(subscription)
    if (!lane) {
      lane = { subscription, inFlight: new Set(), isBusy: false, isChanged: false, pausedUntil: 0 }
      this.#lanes.set(subscription, lane)
    }
    lane.isChanged = true
    if (!lane.isBusy) this.#run(this.#look(lane))
  }

  /** Ends the attempts in flight after a moment; what was not accepted stays owed. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const lane of this.#lanes.values()) lane.cancelTimer?.()
    await within(Promise.allSettled(this.#running), DRAIN_MS, undefined)
    this.#closing.abort()
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    this.#lanes.clear()
  }

  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
    background(running, this.#options.log)
  }

  /** Starts every attempt of a lane that is due, and a timer for the next one. */
  async #look(lane: Lane): Promise<void> {
    lane.isBusy = true
    try {
      while (lane.isChanged && !this.#isClosing) {
        lane.isChanged = false
        lane.cancelTimer?.()
        await this.#round(lane)
      }
    } catch (error) {
      this.#wakeAt(lane, this.#options.clock.now() + STORE_RETRY_MS)
      throw error
    } finally {
      lane.isBusy = false
    }
  }

  async #round(lane: Lane): Promise<void> {
    const { queue, clock } = this.#options
    const { subscription, inFlight } = lane
    const receiver = queue.receiver(subscription)
    const open = receiver ? await queue.open(subscription, WINDOW) : []
    if (!receiver || open.length === 0) {
      if (inFlight.size === 0 && !lane.isChanged) this.#lanes.delete(subscription)
      return
    }
    const waiting = open.filter(({ id }) => !inFlight.has(id))
    const dueAt = ({ notBefore }: Delivery): number => Math.max(notBefore, lane.pausedUntil)
    const now = clock.now()
    for (const delivery of waiting) {
      if (dueAt(delivery) > now) continue
      if (!this.#slots.take(receiver, subscription)) break
      inFlight.add(delivery.id)
      this.#run(this.#attempt(lane, receiver, delivery))
    }
    const later = waiting.map(dueAt).filter((at) => at > now)
    if (later.length > 0) this.#wakeAt(lane, Math.min(...later))
  }

  #wakeAt(lane: Lane, at: number): void {
    if (this.#isClosing) return
    const { clock } = this.#options
    const delay = Math.min(Math.max(at - clock.now(), 0), MAX_TIMER_MS)
    lane.cancelTimer?.()
    lane.cancelTimer = clock.after(delay, () => this.wake(lane.subscription))
  }

  async #attempt(lane: Lane, receiver: Receiver, delivery: Delivery): Promise<void> {
    try {
      await this.#deliver(lane, receiver, delivery)
    } catch (error) {
      // A failed store: the delivery is looked at again, not at once.
      lane.pausedUntil = Math.max(lane.pausedUntil, this.#options.clock.now() + STORE_RETRY_MS)
      throw error
    } finally {
      lane.inFlight.delete(delivery.id)
      // This lane comes last, so that the place goes to another one that waits for it.
      const waiting = this.#slots.free(receiver).filter((each) => each !== lane.subscription)
      for (const each of new Set([...waiting, lane.subscription])) this.wake(each)
    }
  }

  async #deliver(lane: Lane, receiver: Receiver, delivery: Delivery): Promise<void> {
    const { queue, clock, log } = this.#options
    const { subscription } = lane
    const message = await queue.message(subscription, delivery)
    const at = clock.now()
    if (message === 'unknown') {
      lane.pausedUntil = Math.max(lane.pausedUntil, at + STORE_RETRY_MS)
      return
    }
    if (message === 'withheld') return queue.settle(subscription, delivery, { kind: 'withheld', at })
    const id = this.#idOf(subscription, delivery, message)
    if (id === undefined) return queue.settle(subscription, delivery, { kind: 'no_id', at })
    if (Buffer.byteLength(message.body) > MAX_BODY_BYTES)
      return queue.settle(subscription, delivery, { kind: 'too_large', at })

    const begun = { ...delivery, attempts: delivery.attempts + 1, firstAt: delivery.firstAt ?? at }
    const decision = await this.#send(receiver, begun, { id, body: message.body })
    if (!decision) return
    const now = clock.now()
    if (decision.kind === 'delivered')
      return queue.settle(subscription, delivery, { kind: 'delivered', at: now })
    const { kind, failure } = decision
    log.info('webhook.failed', { subscription, webhook_id: id, outcome: kind, failure })
    if (kind !== 'retry') return queue.settle(subscription, delivery, { kind, failure, at: now })
    lane.pausedUntil = Math.max(lane.pausedUntil, decision.pausedUntil ?? 0)
    queue.retry(subscription, { ...begun, notBefore: decision.at, failure })
  }

  /** Sends a message to a verified receiver, and decides what follows; undefined if the worker closes. */
  async #send(
    receiver: Receiver,
    { attempts, firstAt }: Delivery & { readonly firstAt: number },
    { id, body }: { readonly id: string; readonly body: string },
  ): Promise<Decision | undefined> {
    const { clock, dialer, verifier, giveUpMs, random } = this.#options
    const { signal } = this.#closing
    const attempt = () => ({ attempts, firstAt, now: clock.now(), random: random(), giveUpMs })
    const check = await verifier.verify(receiver, signal)
    if (check.kind === 'failed') {
      if (signal.aborted) return undefined
      if (check.failure === 'url') return { kind: 'refused', failure: 'connection_refused' }
      return retryOf(check.failure === 'throttled' ? 'challenge_failed' : check.failure, attempt())
    }
    const at = clock.now()
    const outcome = await dialer.post({
      url: receiver.url,
      body,
      headers: headersFor(receiver.subscription, { id, at, body }, secretsAt(receiver.secrets, at)),
      timeoutMs: REQUEST_TIMEOUT_MS,
      maxResponseBytes: 0,
      signal,
    })
    return outcome.kind === 'failed' && signal.aborted ? undefined : decide(outcome, attempt())
  }

  /** The id of a message; undefined if the id of the event cannot be one. */
  #idOf(subscription: string, { id }: Delivery, { kind }: OutgoingMessage): string | undefined {
    if (this.#options.webhookId === 'event' || kind === 'control') return isWebhookId(id) ? id : undefined
    return `msg_${hash('sha256', JSON.stringify([subscription, id]), 'base64url').slice(0, 32)}`
  }
}
