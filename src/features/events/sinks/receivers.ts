/**
 * Receivers of webhooks: their verification, which is recorded in the store, and what their answers mean.
 *
 * The owner of a URL wants webhooks if it echoes a challenge in a signed request. A receiver that answers something else is
 * verified if its origin publishes that it receives webhooks there (SEP-3415). Nothing else is sent to a URL before. What is
 * verified is recorded for a caller and a URL, never for other callers. Without the record, a receiver is verified again
 * before the next delivery.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { expiryByWorld, world } from '../../../core/world.ts'
import { createFailureCounter, type FailureCounter } from '../../../core/failure-counter.ts'
import { isObject, readJson } from '../../../core/json/json.ts'
import { signedHeaders } from '../../../core/standard-webhooks.ts'
import type { Secret } from '../../../core/text/secret.ts'
import type { Store } from '../../../store/store.ts'
import type { Dialer, DialFailure } from '../../dialer.ts'
import { secretsAt, type SubscriptionSecrets } from './subscription-secrets.ts'

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

/**
 * What verification found. `url`: the URL is not acceptable; `throttled`: too many challenges to this host failed within
 * a minute, and none was sent.
 */
type ReceiverCheck =
  | { readonly kind: 'verified' }
  | { readonly kind: 'failed'; readonly failure: FailureCategory | 'url' | 'throttled' }

const VERIFIED: ReceiverCheck = { kind: 'verified' }

/** How long a receiver is verified, and how long this process remembers it without the store, in milliseconds. */
const VERIFIED_MS = 86_400_000
const CACHE_MS = 60_000
const MAX_CACHED_RECEIVERS = 1000

/** Verifies receivers, each once for a time: it is asked before every attempt. */
export class ReceiverVerifier {
  readonly #dialer: Dialer
  readonly #store: Pick<Store, 'get' | 'put'>
  readonly #now: () => number
  readonly #isKept: (subscription: string) => boolean
  /** The receivers that were found in the store lately, by their keys there. */
  readonly #cache = new LRUCache<string, true>({ max: MAX_CACHED_RECEIVERS, ttl: CACHE_MS, ...expiryByWorld })
  /** Challenges in flight, by receiver. */
  readonly #running = new Map<string, Promise<ReceiverCheck>>()
  readonly #failures: FailureCounter

  /** `now` is in milliseconds since 1970. `isKept`: a subscription says itself that its receiver was verified. */
  constructor(
    dialer: Dialer,
    store: Pick<Store, 'get' | 'put'>,
    now: () => number,
    isKept: (subscription: string) => boolean = () => false,
  ) {
    this.#dialer = dialer
    this.#store = store
    this.#now = now
    this.#isKept = isKept
    this.#failures = createFailureCounter(MAX_FAILURES_PER_MINUTE, now)
  }

  /** Whether a receiver is verified; sends it a challenge if that is not known. @throws SERVER_UNAVAILABLE */
  async verify(receiver: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const key = keyOf(receiver)
    if (this.#isKept(receiver.subscription) || this.#cache.has(key)) return VERIFIED
    if ((await this.#store.get(key)) !== undefined) {
      this.#cache.set(key, true)
      return VERIFIED
    }
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
    if (check.kind === 'failed') {
      this.#failures.failed(host)
      return check
    }
    const key = keyOf(receiver)
    await this.#store.put(key, '1', VERIFIED_MS)
    this.#cache.set(key, true)
    return check
  }

  async #check(receiver: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const check = await this.#send(receiver, signal)
    if (check.kind === 'verified' || !hasAnswered(check.failure)) return check
    return (await isPublished(receiver.url, this.#dialer, signal)) ? VERIFIED : check
  }

  /** Sends the challenge to a receiver, and checks the echo. */
  async #send({ subscription, url, secrets }: Receiver, signal?: AbortSignal): Promise<ReceiverCheck> {
    const challenge = world.randomBytes(32).toString('base64url')
    const id = `msg_verification_${world.randomBytes(12).toString('hex')}`
    const body = JSON.stringify({ type: 'verification', challenge })
    const at = this.#now()
    const outcome = await this.#dialer.post({
      url,
      body,
      headers: headersFor(subscription, { id, at, body }, secretsAt(secrets, at)),
      timeoutMs: REQUEST_TIMEOUT_MS,
      maxResponseBytes: MAX_ECHO_BYTES,
      ...(signal && { signal }),
    })
    if (outcome.kind === 'failed')
      return { kind: 'failed', failure: outcome.reason === 'url' ? 'url' : categoryOf(outcome.reason) }
    if (!isAccepted(outcome.status)) return { kind: 'failed', failure: statusCategory(outcome.status) }
    return isEcho(outcome.body, challenge) ? VERIFIED : { kind: 'failed', failure: 'challenge_failed' }
  }
}

/** The key in the store that says that a receiver was verified, for a caller and a URL. */
function keyOf({ owner, url }: Pick<Receiver, 'owner' | 'url'>): string {
  return `verified:${owner}:${hash('sha256', url).slice(0, 32)}`
}

/** Whether there was a response, so that the origin may have a file, too. */
function hasAnswered(failure: string): boolean {
  return ['challenge_failed', 'http_4xx', 'http_5xx'].includes(failure)
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

// What answers mean

/** The category of a failed delivery, as subscribers see it: without anything that the receiver wrote. */
type FailureCategory =
  | 'connection_refused'
  | 'timeout'
  | 'tls_error'
  | 'http_4xx'
  | 'http_5xx'
  | 'challenge_failed'

/** Whether a receiver accepted what it was sent. */
export function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** The category of a response that is no acceptance. */
export function statusCategory(status: number): FailureCategory {
  return status >= 500 ? 'http_5xx' : 'http_4xx'
}

/** The category of a request without a response. That an address is forbidden is not told: it would map a network. */
export function categoryOf(reason: DialFailure): FailureCategory {
  if (reason === 'timeout') return 'timeout'
  return reason === 'tls' ? 'tls_error' : 'connection_refused'
}

// The file in which an origin says at which of its paths webhooks are received: who serves it there has verified them. The
// gateway serves its own, for its hooks, and reads those of receivers.

/** The path of the file. */
export const RECEIVERS_PATH = '/.well-known/mcp-webhook-receiver.json'

/** How long the file may take, in milliseconds, how much of it is read, in bytes, and how many paths may be in it. */
const FILE_TIMEOUT_MS = 5000
const MAX_FILE_BYTES = 16 * 1024
const MAX_PATHS = 100

/** The text of a file with the paths below which webhooks are received. */
export function receiversFile(paths: readonly string[]): string {
  return JSON.stringify({ receivers: paths })
}

/** Whether the origin of a URL says that webhooks are received there. Only https says whose origin it is. */
async function isPublished(url: string, dialer: Dialer, signal?: AbortSignal): Promise<boolean> {
  const { protocol, origin, pathname } = new URL(url)
  if (protocol !== 'https:') return false
  const outcome = await dialer.get({
    url: `${origin}${RECEIVERS_PATH}`,
    headers: { accept: 'application/json' },
    timeoutMs: FILE_TIMEOUT_MS,
    maxResponseBytes: MAX_FILE_BYTES,
    ...(signal && { signal }),
  })
  if (outcome.kind === 'failed' || !isAccepted(outcome.status)) return false
  const file = readJson(outcome.body)
  const paths: readonly unknown[] = isObject(file) && Array.isArray(file.receivers) ? file.receivers : []
  return paths.slice(0, MAX_PATHS).some((each) => typeof each === 'string' && isBelow(pathname, each))
}

/** Whether a path is another one, or below it: `/hooks` has `/hooks/a`, but not `/hooksy`. */
function isBelow(path: string, prefix: string): boolean {
  if (!prefix.startsWith('/')) return false
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)
}
