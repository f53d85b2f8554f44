/**
 * The webhook sink of events: when deliveries are repeated, what a receiver's answers mean, and the request that is made.
 * Which events a subscription gets is decided by `webhook-subscription.ts`.
 *
 * A receiver accepts with 2xx. It refuses one delivery for good with 410 or 413; unlike in Standard Webhooks, a 410 does
 * not end the subscription (MCP events). Everything else is repeated, also a redirect, which is not followed.
 *
 * Invariants: nothing but a challenge is sent to a receiver that is not verified; every attempt is signed anew, under the
 * same id.
 */
import { hash } from 'node:crypto'
import { isWebhookId } from '../../../core/standard-webhooks.ts'
import { retryAfterSeconds } from '../../../core/time/units.ts'
import type { Limit, RetrySchedule, Sent } from '../../../durable/dispatcher.ts'
import type { Dialer, DialOutcome } from '../../dialer.ts'
import {
  categoryOf,
  headersFor,
  isAccepted,
  type Receiver,
  type ReceiverVerifier,
  REQUEST_TIMEOUT_MS,
  statusCategory,
} from './receivers.ts'
import { secretsAt } from './subscription-secrets.ts'

/**
 * When a failed delivery is repeated: after 10 s, 40 s, 160 s and 640 s, of which up to half is left out at random, or when
 * `Retry-After` asks for it, at most an hour later. The setting `give_up` says until when, from the first attempt on.
 * `maxMs` is three bounds in one: the longest delay, the cap of `Retry-After`, and how far ahead an attempt can be before the
 * dispatcher concludes that the clock was set back. `docs/events-reference.md` ("Retries") repeats these numbers.
 */
export const WEBHOOK_RETRIES: Omit<RetrySchedule, 'giveUpMs'> = {
  firstMs: 10_000,
  factor: 4,
  maxMs: 3_600_000,
}

/** How many requests may be in flight to one receiver, to the receivers of one caller, and in all. */
const MAX_PER_RECEIVER = 16
const MAX_PER_OWNER = 64
const MAX_IN_FLIGHT = 256

/** The bounds on requests: a slow receiver, or a caller with many of them, costs the others nothing. */
export function limitsFor({ owner, url }: Receiver): readonly Limit[] {
  return [
    [`receiver ${owner} ${url}`, MAX_PER_RECEIVER],
    [`owner ${owner}`, MAX_PER_OWNER],
    ['all', MAX_IN_FLIGHT],
  ]
}

/** The largest body, in bytes: receivers refuse more. */
const MAX_BODY_BYTES = 256 * 1024

/** What came of a request. `now` is in milliseconds since 1970. */
export function sentOf(
  outcome: DialOutcome,
  now: number,
): Extract<Sent, { kind: 'done' | 'later' | 'never' }> {
  if (outcome.kind === 'failed') {
    const failure = categoryOf(outcome.reason)
    // Nothing but another configuration makes this URL acceptable.
    return { kind: outcome.reason === 'url' ? 'never' : 'later', failure }
  }
  const { status, retryAfter } = outcome
  if (isAccepted(status)) return { kind: 'done' }
  const failure = statusCategory(status)
  if (status === 410 || status === 413) return { kind: 'never', failure }
  const seconds = retryAfterSeconds(retryAfter, now)
  return { kind: 'later', failure, ...(seconds !== undefined && { afterMs: seconds * 1000 }) }
}

/** A message as it is sent. */
export interface WebhookMessage {
  /** An event, or something about the subscription, such as a gap in it. */
  readonly kind: 'event' | 'control'
  /** The same for all attempts; unique in its subscription. */
  readonly id: string
  readonly body: string
}

interface WebhookSinkOptions {
  readonly dialer: Dialer
  readonly verifier: ReceiverVerifier
  /** Whether `webhook-id` is the id of the event, or one of its own for each message. */
  readonly webhookId: 'event' | 'message'
  /** In milliseconds since 1970. */
  now(): number
}

/** Sends messages to receivers. */
export class WebhookSink {
  readonly #options: WebhookSinkOptions

  constructor(options: WebhookSinkOptions) {
    this.#options = options
  }

  /** Sends a message to a receiver, which is verified first. @throws SERVER_UNAVAILABLE */
  async send(receiver: Receiver, message: WebhookMessage, signal: AbortSignal): Promise<Sent> {
    const { verifier, dialer, now } = this.#options
    const { body } = message
    const id = this.idOf(receiver.subscription, message)
    if (!isWebhookId(id)) return { kind: 'dropped', reason: 'no_id' }
    if (Buffer.byteLength(body) > MAX_BODY_BYTES) return { kind: 'dropped', reason: 'too_large' }
    const check = await verifier.verify(receiver, signal)
    if (check.kind === 'failed') {
      if (check.failure === 'url') return { kind: 'never', failure: 'connection_refused' }
      return { kind: 'later', failure: check.failure === 'throttled' ? 'challenge_failed' : check.failure }
    }
    const at = now()
    const outcome = await dialer.post({
      url: receiver.url,
      body,
      headers: headersFor(receiver.subscription, { id, at, body }, secretsAt(receiver.secrets, at)),
      timeoutMs: REQUEST_TIMEOUT_MS,
      maxResponseBytes: 0,
      signal,
    })
    return sentOf(outcome, now())
  }

  /** The `webhook-id` of a message. The id of an event may not be one. */
  idOf(subscription: string, { kind, id }: Pick<WebhookMessage, 'kind' | 'id'>): string {
    if (this.#options.webhookId === 'event' || kind === 'control') return id
    return `msg_${hash('sha256', JSON.stringify([subscription, id]), 'base64url').slice(0, 32)}`
  }
}

// Suspension: a receiver at which almost all attempts fail is left alone until its subscriber subscribes again.

/** The period, in minutes, and how many attempts there are at least before the rate says anything. */
const PERIOD_MINUTES = 60
const MIN_ATTEMPTS = 100
/** The part of failures above which a subscription is suspended. */
const MAX_FAILED_PART = 0.95

const MINUTE_MS = 60_000

interface Minute {
  readonly number: number
  attempts: number
  failed: number
}

/** How many of the attempts to deliver a subscription failed within the last hour. */
export class FailureRate {
  #minutes: Minute[] = []

  /** Counts an attempt. */
  count(isFailed: boolean, now: number): void {
    const number = Math.floor(now / MINUTE_MS)
    let last = this.#minutes.at(-1)
    if (!last || last.number !== number) {
      last = { number, attempts: 0, failed: 0 }
      this.#minutes = [...this.#minutes.filter((each) => number - each.number < PERIOD_MINUTES), last]
    }
    last.attempts++
    if (isFailed) last.failed++
  }

  /** Whether almost all attempts failed. */
  get isTooHigh(): boolean {
    const attempts = this.#minutes.reduce((sum, each) => sum + each.attempts, 0)
    const failed = this.#minutes.reduce((sum, each) => sum + each.failed, 0)
    return attempts >= MIN_ATTEMPTS && failed > attempts * MAX_FAILED_PART
  }

  /** Forgets all attempts. */
  reset(): void {
    this.#minutes = []
  }
}
