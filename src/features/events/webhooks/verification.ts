/**
 * Verifies that the owner of a URL wants webhooks: a signed request with a challenge, which the receiver has to echo. A
 * receiver that answers something else is verified if its origin publishes that it receives webhooks there. Nothing else
 * is sent to a URL before. What is verified is recorded for a caller and a URL, never for other callers.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { createFailureCounter, type FailureCounter } from '../../../core/failure-counter.ts'
import { isObject, readJson } from '../../../core/json/json.ts'
import type { Secret } from '../../../core/text/secret.ts'
import { categoryOf, type FailureCategory, isAccepted } from './attempts.ts'
import type { Dialer } from '../../dialer.ts'
import { isPublished } from './published-receivers.ts'
import { secretsAt, type SubscriptionSecrets } from './secrets.ts'
import { signedHeaders } from './standard-webhooks.ts'

/** The timeout of a request to a receiver, in milliseconds. */
export const REQUEST_TIMEOUT_MS = 10_000
/** How much of a response is read for the echo, in bytes. */
const MAX_ECHO_BYTES = 4096

/** How many challenges to one host may fail within a minute: subscriptions must not be a way to scan or flood it. */
const MAX_FAILURES_PER_MINUTE = 10

/** Where the events of a subscription are sent. */
export interface Receiver {
  readonly subscription: string
  /** As the subscriber wrote it. */
  readonly url: string
  readonly secrets: SubscriptionSecrets
  /** Identifies the caller who subscribed. */
  readonly owner: string
}

/** Which receivers were verified: for a caller and a URL, for a time. */
export interface VerificationRecords {
  has(receiver: Receiver): Promise<boolean>
  add(receiver: Receiver): Promise<void>
}

/**
 * What verification found. `url`: the URL is not acceptable; `throttled`: too many challenges to this host failed within
 * a minute, and none was sent.
 */
export type ReceiverCheck =
  | { readonly kind: 'verified' }
  | { readonly kind: 'failed'; readonly failure: FailureCategory | 'url' | 'throttled' }

interface Options {
  readonly dialer: Dialer
  readonly records: VerificationRecords
  /** In milliseconds since 1970. */
  now(): number
}

/** Verifies receivers, each once for a time. */
export class ReceiverVerifier {
  readonly #options: Options
  /** Challenges in flight, by receiver. */
  readonly #running = new Map<string, Promise<ReceiverCheck>>()
  readonly #failures: FailureCounter

  constructor(options: Options) {
    this.#options = options
    this.#failures = createFailureCounter(MAX_FAILURES_PER_MINUTE, options.now)
  }

  /** Whether a receiver is verified; sends it a challenge if that is not known. @throws errors of the records */
  async verify(receiver: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const { records } = this.#options
    if (await records.has(receiver)) return { kind: 'verified' }
    const key = `${receiver.owner} ${receiver.url}`
    const running = this.#running.get(key)
    if (running) return running
    const check = this.#challenge(receiver, signal).finally(() => this.#running.delete(key))
    this.#running.set(key, check)
    return check
  }

  async #challenge(receiver: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const host = URL.canParse(receiver.url) ? new URL(receiver.url).host : ''
    try {
      this.#failures.check(host)
    } catch {
      return { kind: 'failed', failure: 'throttled' }
    }
    const check = await this.#check(receiver, signal)
    if (check.kind === 'verified') await this.#options.records.add(receiver)
    else this.#failures.failed(host)
    return check
  }

  async #check(receiver: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const check = await sendChallenge(receiver, this.#options, signal)
    if (check.kind === 'verified' || !hasAnswered(check.failure)) return check
    const { dialer } = this.#options
    return (await isPublished(receiver.url, dialer, signal)) ? { kind: 'verified' } : check
  }
}

/** Whether there was a response, so that the origin may have a file, too. */
function hasAnswered(failure: string): boolean {
  return ['challenge_failed', 'http_4xx', 'http_5xx'].includes(failure)
}

/** Sends the challenge to a receiver, and checks the echo. */
async function sendChallenge(
  { subscription, url, secrets }: Receiver,
  { dialer, now }: Options,
  signal?: AbortSignal,
): Promise<ReceiverCheck> {
  const challenge = world.randomBytes(32).toString('base64url')
  const id = `msg_verification_${world.randomBytes(12).toString('hex')}`
  const body = JSON.stringify({ type: 'verification', challenge })
  const at = now()
  const outcome = await dialer.post({
    url,
    body,
    headers: headersFor(subscription, { id, at, body }, secretsAt(secrets, at)),
    timeoutMs: REQUEST_TIMEOUT_MS,
    maxResponseBytes: MAX_ECHO_BYTES,
    ...(signal && { signal }),
  })
  if (outcome.kind === 'failed')
    return { kind: 'failed', failure: outcome.reason === 'url' ? 'url' : categoryOf(outcome.reason) }
  if (!isAccepted(outcome.status))
    return { kind: 'failed', failure: outcome.status >= 500 ? 'http_5xx' : 'http_4xx' }
  return isEcho(outcome.body, challenge)
    ? { kind: 'verified' }
    : { kind: 'failed', failure: 'challenge_failed' }
}

/** The headers of every request to a receiver. */
export function headersFor(
  subscription: string,
  message: { readonly id: string; readonly at: number; readonly body: string },
  secrets: readonly Secret[],
): Readonly<Record<string, string>> {
  return {
    'content-type': 'application/json',
    ...signedHeaders(message, secrets),
    'x-mcp-subscription-id': subscription,
  }
}

function isEcho(body: string, challenge: string): boolean {
  const value = readJson(body)
  if (!isObject(value) || typeof value.challenge !== 'string') return false
  const [given, right] = [value.challenge, challenge].map((text) => Buffer.from(hash('sha256', text)))
  return given !== undefined && right !== undefined && timingSafeEqual(given, right)
}
