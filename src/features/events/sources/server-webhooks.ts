/**
 * The gateway as the receiver of the webhooks of servers that have events of their own (SEP-3415), at
 * `/hooks/<server>/events/<key>`. Any gateway with the same store can receive for a subscription of another one.
 *
 * Invariants: nothing of a request is used before its signature is verified with the secret of its subscription, which
 * only the gateways and the server know. A message is accepted after its event is in the log, once for its `eventId`, and
 * only for the id that the server gave the subscription. A challenge is answered for whoever knows the secret, also
 * before that id is known.
 */
import { publicUrl } from '../../../core/settings.ts'
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { GatewayError } from '../../../core/error.ts'
import { exactly, asObject, isObject, readJson } from '../../../core/json/json.ts'
import type { SealUse } from '../../../core/seal.ts'
import { Secret } from '../../../core/text/secret.ts'
import { casUpdate } from '../../../durable/cas-update.ts'
import type { Services } from '../../feature.ts'
import type { ArrivingHook, HookAnswer } from '../../../core/http-paths.ts'
import { verifySigned } from '../../../core/standard-webhooks.ts'
import type { Fields } from '../types.ts'
import { acceptOnce, hookOverload, hookRefusal, isSigned, MAX_IN_FLIGHT } from './hook-receiver.ts'

type Deps = Pick<Services, 'store' | 'identity' | 'gateway'>

/** What is subscribed to. */
export interface RelaySubject {
  readonly upstream: string
  readonly name: string
  readonly arguments: Fields
}

/** Identifies a subscription among those of its server. */
export function subscriptionKey({
  name,
  arguments: given,
}: Pick<RelaySubject, 'name' | 'arguments'>): string {
  return hash('sha256', exactly([name, given]), 'base64url').slice(0, 22)
}

/** How long the secret of a subscription is kept after it was requested last, in milliseconds. */
const CALLBACK_TTL_MS = 7 * 86_400_000
const SECRET_BYTES = 32

/** What the gateways know of a subscription at a server. */
interface Callback {
  readonly name: string
  readonly arguments: Fields
  /** Encrypted. */
  readonly secret: string
  /** The id that the server gave it; absent until that is known. */
  readonly id?: string
  /** Until when the server keeps it without another request, in milliseconds since 1970. */
  readonly until?: number
}

/** Takes a verified message of a server. @throws SERVER_UNAVAILABLE if it cannot be stored, INVALID_REQUEST */
type Accept = (subject: RelaySubject, message: Fields) => Promise<void>

/** Receives what servers send to webhooks. */
export class ServerWebhooks {
  readonly #deps: Deps
  readonly #accept: Accept
  #inFlight = 0

  constructor(deps: Deps, accept: Accept) {
    this.#deps = deps
    this.#accept = accept
  }

  /** Whether servers can reach the gateway. */
  get isReachable(): boolean {
    return publicUrl(this.#deps.gateway.settings, '/') !== undefined
  }

  /** Where the server sends to: the same URL and secret until the subscription ends. @throws SERVER_UNAVAILABLE */
  async delivery(subject: RelaySubject): Promise<Fields> {
    const { store, identity } = this.#deps
    const url = this.urlOf(subject)
    const known = await this.#find(subject)
    const opened = known && this.#secretOf(known, subject)
    if (opened) return { mode: 'webhook', url, secret: opened.reveal() }
    if (known && !identity.seal.isShared())
      throw new GatewayError('SERVER_UNAVAILABLE', 'The keys of the gateway are not known yet.')
    const secret = `whsec_${world.randomBytes(SECRET_BYTES).toString('base64')}`
    const { name, arguments: given } = subject
    const sealed = identity.seal.close(secret, useOf(subject), 0)
    const made: Callback = { name, arguments: given, secret: sealed }
    await store.put(storeKey(subject), JSON.stringify(made), CALLBACK_TTL_MS)
    return { mode: 'webhook', url, secret }
  }

  /** The URL of the callback of a subscription. @throws SERVER_UNAVAILABLE without a public one */
  urlOf(subject: RelaySubject): string {
    const path = `/hooks/${encodeURIComponent(subject.upstream)}/events/${subscriptionKey(subject)}`
    const url = publicUrl(this.#deps.gateway.settings, path)
    if (url === undefined)
      throw new GatewayError('SERVER_UNAVAILABLE', 'The gateway has no public URL to receive events at.')
    return url
  }

  /** Keeps what the server answered. @throws SERVER_UNAVAILABLE */
  async bind(subject: RelaySubject, given: Required<Pick<Callback, 'id' | 'until'>>): Promise<void> {
    await this.#update(subject, (known) => ({ ...known, ...given }))
  }

  /** Whether the server has the subscription, as far as the gateways know. @throws SERVER_UNAVAILABLE */
  async isBound(subject: RelaySubject): Promise<boolean> {
    const { id, until = 0 } = (await this.#find(subject)) ?? {}
    return id !== undefined && world.now() < until
  }

  /** Forgets a subscription that ended. @throws SERVER_UNAVAILABLE */
  async forget(subject: RelaySubject): Promise<void> {
    await this.#deps.store.delete(storeKey(subject))
  }

  /**
   * Accepts a message of one of these servers; resolves once it is stored, with the answer to a challenge.
   * @throws UNSUPPORTED_OPERATION for an unknown subscription, AUTHENTICATION_REQUIRED, INVALID_REQUEST, OVERLOADED,
   * SERVER_UNAVAILABLE if it cannot be stored, or its id is not known yet
   */
  async receive(hook: ArrivingHook, upstreams: readonly string[]): Promise<HookAnswer> {
    const { server: upstream, name: key } = hook
    if (upstream === undefined || !upstreams.includes(upstream) || !/^[\w-]{22}$/.test(key))
      throw unknownCallback()
    if (this.#inFlight >= MAX_IN_FLIGHT) throw hookOverload()
    this.#inFlight++
    try {
      return await this.#receive(hook, upstream, key)
    } finally {
      this.#inFlight--
    }
  }

  async #receive({ headers, body: read }: ArrivingHook, upstream: string, key: string): Promise<HookAnswer> {
    const callback = await this.#read(upstream, key)
    if (!callback) throw unknownCallback()
    if (!isSigned('standard', headers)) throw hookRefusal('headers')
    const subject = { upstream, name: callback.name, arguments: callback.arguments }
    const secret = this.#secretOf(callback, subject)
    if (!secret) throw new GatewayError('SERVER_UNAVAILABLE', 'The keys of the gateway are not known yet.')
    const body = await read()
    const check = verifySigned(headers, body, { secrets: [secret], now: world.now() })
    if (check.kind === 'invalid') throw hookRefusal(check.reason)
    const message = readJson(body)
    if (!isObject(message))
      throw new GatewayError('INVALID_REQUEST', 'The body is not a JSON object.', {
        suggestion: 'Send an event, or a control message.',
      })
    const id = headers['x-mcp-subscription-id']
    if (message.type === 'verification') return this.#verified(subject, { message, id })
    if (typeof id !== 'string' || id !== callback.id)
      throw new GatewayError('SERVER_UNAVAILABLE', 'The id of this subscription is not known yet.')
    // Events are recognized by their own ids, which are the same in every attempt; control messages have none.
    const { type = null, eventId } = message
    const identity = type === null && typeof eventId === 'string' ? { eventId } : { message: check.id }
    const digest = hash('sha256', JSON.stringify([upstream, key, identity]), 'base64url')
    await acceptOnce(this.#deps.store, digest, () => this.#accept(subject, message))
    return undefined
  }

  /** The echo of a challenge. The first one says which id the subscription has. */
  async #verified(
    subject: RelaySubject,
    { message, id }: { readonly message: Fields; readonly id: unknown },
  ): Promise<HookAnswer> {
    const { challenge } = message
    if (typeof challenge !== 'string' || challenge === '')
      throw new GatewayError('INVALID_REQUEST', 'The verification has no challenge.')
    if (typeof id === 'string') await this.#update(subject, (known) => ({ id, ...known }))
    return { challenge }
  }

  async #find(subject: RelaySubject): Promise<Callback | undefined> {
    return this.#read(subject.upstream, subscriptionKey(subject))
  }

  async #read(upstream: string, key: string): Promise<Callback | undefined> {
    return asCallback(await this.#deps.store.get(`event-callback:${upstream}:${key}`))
  }

  /** Changes what is known of a subscription, unless it ended. */
  async #update(subject: RelaySubject, change: (known: Callback) => Callback): Promise<void> {
    await casUpdate(
      this.#deps.store,
      storeKey(subject),
      (text) => {
        const known = asCallback(text)
        if (!known) return { result: undefined }
        return { result: undefined, write: { text: JSON.stringify(change(known)), ttl: CALLBACK_TTL_MS } }
      },
      () => {
        throw new GatewayError('SERVER_UNAVAILABLE', 'Too many concurrent changes of one subscription.')
      },
    )
  }

  #secretOf({ secret }: Callback, subject: RelaySubject): Secret | undefined {
    const opened = this.#deps.identity.seal.open(secret, useOf(subject))
    return opened.kind === 'valid' && typeof opened.value === 'string' ? new Secret(opened.value) : undefined
  }
}

function storeKey(subject: RelaySubject): string {
  return `event-callback:${subject.upstream}:${subscriptionKey(subject)}`
}

function useOf(subject: RelaySubject): SealUse {
  return { purpose: 'server-webhook-secret', binding: storeKey(subject) }
}

function asCallback(text: string | undefined): Callback | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value) || typeof value.name !== 'string' || typeof value.secret !== 'string') return undefined
  const { name, arguments: given, secret, id, until } = value
  return {
    name,
    arguments: asObject(given),
    secret,
    ...(typeof id === 'string' && { id }),
    ...(typeof until === 'number' && { until }),
  }
}

function unknownCallback(): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
}
