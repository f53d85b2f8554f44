/**
 * Decides what follows an attempt to deliver a webhook: delivered, refused, another attempt later, or given up. Pure:
 * the clock and the random number are arguments.
 *
 * A receiver accepts with 2xx. It refuses one delivery for good with 410 or 413; unlike in Standard Webhooks, a 410 does
 * not end the subscription (MCP events). Everything else is tried again, with exponential back-off and jitter, or when
 * `Retry-After` says so, until `giveUpMs` after the first attempt.
 */
import { retryAfterSeconds } from '../../../core/time/units.ts'
import type { DialFailure, DialOutcome } from '../../dialer.ts'

/** The delay before the second attempt, in milliseconds, and its growth from attempt to attempt. */
const FIRST_DELAY_MS = 10_000
const DELAY_FACTOR = 4
/** The longest delay of back-off, and the longest `Retry-After` that is honoured, in milliseconds. */
const MAX_DELAY_MS = 60 * 60_000

/** The category of a failed delivery, as subscribers see it: without anything that the receiver wrote. */
export type FailureCategory =
  | 'connection_refused'
  | 'timeout'
  | 'tls_error'
  | 'http_4xx'
  | 'http_5xx'
  | 'challenge_failed'

/** What follows an attempt. Times are in milliseconds since 1970. */
export type Decision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused'; readonly failure: FailureCategory }
  | { readonly kind: 'abandoned'; readonly failure: FailureCategory }
  /** `pausedUntil`: when the receiver wants the next request of any kind. */
  | {
      readonly kind: 'retry'
      readonly at: number
      readonly failure: FailureCategory
      readonly pausedUntil?: number
    }

/** An attempt that ended. */
interface Attempt {
  /** The number of attempts, with this one, and the time of the first one. */
  readonly attempts: number
  readonly firstAt: number
  readonly now: number
  /** From 0 to 1. */
  readonly random: number
  readonly giveUpMs: number
}

/** Decides what follows an attempt with this outcome. */
export function decide(outcome: DialOutcome, attempt: Attempt): Decision {
  if (outcome.kind === 'failed') {
    const failure = categoryOf(outcome.reason)
    // Nothing but another configuration makes this URL acceptable.
    return outcome.reason === 'url' ? { kind: 'refused', failure } : retryOf(failure, attempt)
  }
  const { status, retryAfter } = outcome
  if (isAccepted(status)) return { kind: 'delivered' }
  const failure = status >= 500 ? 'http_5xx' : 'http_4xx'
  if (status === 410 || status === 413) return { kind: 'refused', failure }
  return retryOf(failure, attempt, retryAfterSeconds(retryAfter, attempt.now))
}

/** Whether a receiver accepted what it was sent. A redirect is not followed, so it is a failure. */
export function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** The category of a request without a response. That an address is forbidden is not told: it would map a network. */
export function categoryOf(reason: DialFailure): FailureCategory {
  if (reason === 'timeout') return 'timeout'
  return reason === 'tls' ? 'tls_error' : 'connection_refused'
}

/** Another attempt, unless that would be too late. */
export function retryOf(
  failure: FailureCategory,
  { attempts, firstAt, now, random, giveUpMs }: Attempt,
  afterSeconds?: number,
): Decision {
  const backoff = Math.min(FIRST_DELAY_MS * DELAY_FACTOR ** (attempts - 1), MAX_DELAY_MS)
  const requested = Math.min((afterSeconds ?? 0) * 1000, MAX_DELAY_MS)
  // Half of the delay is fixed: receivers that fail together are not tried again together, nor at once.
  const at = Math.round(now + Math.max(backoff * (0.5 + random / 2), requested))
  if (at > firstAt + giveUpMs) return { kind: 'abandoned', failure }
  return { kind: 'retry', at, failure, ...(requested > 0 && { pausedUntil: now + requested }) }
}
