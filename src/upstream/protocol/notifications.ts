/**
 * Determines the recipients of a server's notifications. One that cannot be attributed to a single caller only reaches
 * callers it may concern.
 */
import type { Call, Notification, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import type { Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import type { Registry } from '../../core/registry.ts'
import { excerpt } from '../../core/text/redact.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { levelOf, severity } from '../../protocol/methods.ts'
import {
  ACKNOWLEDGED,
  asksFor,
  type SubscriptionFilter,
  isChange,
  readFilter,
  reportedChanges,
  UPDATED,
} from '../../protocol/subscription-filter.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import { toDouble } from '../../core/json/exact-number.ts'

interface Listener {
  readonly working: UpstreamCall
  readonly filter: SubscriptionFilter
}

type Send = (method: string, params: Payload) => Promise<Payload>

/** Dispatches the notifications of a server with a handshake to subscribers and active calls. */
export class NotificationRouter {
  readonly #send: Send
  readonly #log: Log
  readonly #listeners = new Map<Listener, () => void>()
  /** The number of subscribers of each resource. */
  readonly #uris = new Map<string, number>()
  #level: number | undefined
  /** Whether the server declares subscriptions to resources. */
  #hasSubscriptions = true
  /** The number of notifications without a recipient. */
  #dropped = 0

  constructor(send: Send, log: Log) {
    this.#send = send
    this.#log = log
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  listeners(): UpstreamCall[] {
    return [...this.#listeners.keys()].map((key) => key.working)
  }

  /** A subscription: lasts until it is cancelled or the connection closes. */
  async listen(working: UpstreamCall, discovered: Payload): Promise<Outcome> {
    const filter = await this.#accept(readFilter(working.call.params), discovered)
    const level = working.call.meta[metaKeys.logLevel]
    if (level !== undefined) await this.setLevel(level, discovered)
    const ended = Promise.withResolvers<void>()
    const listener = { working, filter }
    this.#listeners.set(listener, ended.resolve)
    working.signal.addEventListener('abort', () => ended.resolve(), { once: true })
    working.notify({ method: ACKNOWLEDGED, params: Payload.of({ notifications: filter }) })
    if (working.signal.aborted) ended.resolve()
    await ended.promise
    this.#listeners.delete(listener)
    await Promise.all((filter.resourceSubscriptions ?? []).map((uri) => this.#unsubscribe(uri)))
    if (working.signal.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
    return { kind: 'result', result: Payload.of({}) }
  }

  /** Requests log messages of this level and above from the server, unless already requested. */
  async setLevel(level: unknown, discovered: Payload): Promise<void> {
    const rank = severity(level)
    if (rank < 0 || !has(discovered, 'logging') || (this.#level !== undefined && this.#level <= rank)) return
    this.#level = rank
    try {
      await this.#send('logging/setLevel', Payload.of({ level: levelOf(rank) }))
    } catch (error) {
      // Only the amount of logging is affected; the call itself can continue.
      this.#log.warn('upstream.level_refused', { error: excerpt(String(error)) })
    }
  }

  /** Sends a message to the calls it may be about; if there are none, to the subscribers that may receive it. */
  dispatch(note: Notification, calls: readonly UpstreamCall[], mayReceive: (call: Call) => boolean): void {
    if (isChange(note) && !this.#isUnasked(note))
      return this.#broadcast(note, ({ filter }) => asksFor(filter, note))
    const recipients = calls.filter((item) => this.#wants(item, note))
    for (const recipient of recipients) recipient.notify(note)
    if (calls.length > 0) {
      if (recipients.length === 0) this.#drop(note)
      return
    }
    const mayBePrivate = note.method === 'notifications/message' || note.method === UPDATED
    this.#broadcast(note, ({ working }) => {
      // A subscription stream of 2026-07-28 carries only what was subscribed to.
      const isRelevant = working.call.client.era === 'legacy' && (!mayBePrivate || mayReceive(working.call))
      return isRelevant && this.#wants(working, note)
    })
  }

  /** Restores the subscriptions and the log level on a new session. */
  async restore(discovered: Payload): Promise<void> {
    const level = this.#level
    this.#level = undefined
    if (level !== undefined) await this.setLevel(levelOf(level), discovered)
    await Promise.all(
      [...this.#uris.keys()].map((uri) => this.#send('resources/subscribe', Payload.of({ uri }))),
    )
    for (const { working, filter } of this.#listeners.keys())
      for (const method of reportedChanges(filter, asObject(discovered.fields.capabilities)))
        working.notify({ method })
  }

  close(): void {
    for (const end of this.#listeners.values()) end()
  }

  /**
   * The part of a filter that this server accepts. Lists need not be declared: many servers report changes that they do not
   * declare, because their SDK declares none.
   */
  async #accept(requested: SubscriptionFilter, discovered: Payload): Promise<SubscriptionFilter> {
    const { eventsListChanged: _extension, resourceSubscriptions: wanted = [], ...lists } = requested
    this.#hasSubscriptions = subscribes(discovered)
    const uris = this.#hasSubscriptions ? wanted : []
    const accepted = await Promise.all(uris.map((uri) => this.#subscribe(uri)))
    const subscribed = uris.filter((_uri, index) => accepted[index])
    return { ...lists, ...(subscribed.length > 0 && { resourceSubscriptions: subscribed }) }
  }

  async #subscribe(uri: string): Promise<boolean> {
    const count = this.#uris.get(uri) ?? 0
    this.#uris.set(uri, count + 1)
    if (count > 0) return true
    try {
      await this.#send('resources/subscribe', Payload.of({ uri }))
      return true
    } catch (error) {
      this.#uris.delete(uri)
      this.#log.warn('upstream.subscribe_refused', { error: excerpt(String(error)) })
      return false
    }
  }

  async #unsubscribe(uri: string): Promise<void> {
    const count = this.#uris.get(uri) ?? 0
    if (count > 1) {
      this.#uris.set(uri, count - 1)
      return
    }
    this.#uris.delete(uri)
    // The server may be unavailable, and the subscription gone with it.
    await this.#send('resources/unsubscribe', Payload.of({ uri })).catch(() => undefined)
  }

  #broadcast(note: Notification, wants: (listener: Listener) => boolean): void {
    const recipients = [...this.#listeners.keys()].filter(wants)
    for (const { working } of recipients) working.notify(note)
    if (recipients.length === 0) this.#drop(note)
  }

  /** Whether it is about a resource, and from a server without subscriptions: it sends updates as it sends log messages. */
  #isUnasked(note: Notification): boolean {
    return (
      note.method === UPDATED &&
      !this.#hasSubscriptions &&
      ![...this.#listeners.keys()].some(({ filter }) => asksFor(filter, note))
    )
  }

  #drop({ method }: Notification): void {
    this.#log.debug('upstream.note_dropped', { method, dropped: ++this.#dropped })
  }

  /**
   * Log messages are sent to calls that requested their level; legacy clients that named none receive `info` and above.
   */
  #wants(working: UpstreamCall, note: Notification): boolean {
    if (note.method !== 'notifications/message') return true
    const { client, meta } = working.call
    const wanted = severity(meta[metaKeys.logLevel])
    const rank = severity(note.params?.fields.level)
    if (wanted >= 0) return rank >= wanted
    return client.era === 'legacy' && (this.#level === undefined || rank >= severity('info'))
  }
}

function subscribes(discovered: Payload): boolean {
  const { resources } = asObject(discovered.fields.capabilities)
  return isObject(resources) && resources.subscribe === true
}

function has(discovered: Payload, name: string): boolean {
  return isObject(asObject(discovered.fields.capabilities)[name])
}

// Determines the recipients of a notification. Over HTTP the stream of a request identifies it; over stdio many
// requests share one pipe, and most servers mark only progress and subscriptions. Invariant: what may belong to another
// caller has no recipient, and nothing is dropped without a reason in `why`.

/** An active call, by the id of its request. */
export interface ActiveRequest {
  readonly id: number
  readonly working: UpstreamCall
}

/** The recipients of a notification, or the reason if there are none. */
interface Recipients {
  readonly to: readonly UpstreamCall[]
  readonly why?: 'unsubscribed' | 'ended' | 'unasked' | 'ambiguous'
}

/**
 * The recipients of a 2026-07-28 server's notification; `about` is the request whose stream carried it, if the
 * transport knows.
 */
export function recipientsOf(
  note: Notification,
  about: number | undefined,
  activeRequests: Registry<number, ActiveRequest>,
): Recipients {
  const subscription = numberAt(note, metaKeys.subscription)
  const carrier = about === undefined ? undefined : activeRequests.get(about)?.working
  if (subscription !== undefined) return toListener(note, activeRequests.get(subscription)?.working)
  if (isChange(note)) {
    if (carrier && isListening(carrier)) return toListener(note, carrier)
    const to = listeners(activeRequests).filter((listener) => isAskedFor(listener, note))
    return to.length > 0 ? { to } : { to, why: 'unsubscribed' }
  }
  if (about !== undefined) return carrier ? { to: [carrier] } : { to: [], why: 'ended' }
  const named = namedBy(note, activeRequests)
  if (named) return { to: [named] }
  const calls = activeRequests.values().flatMap(({ working }) => (isOfClient(working) ? [working] : []))
  const requested = calls.filter((call) => wants(call, note))
  // Some servers send unrequested logs. Over HTTP these reach the client of the request, so they do on a shared pipe
  // too.
  return amongCalls(requested.length > 0 ? requested : calls.filter((call) => logLevelOf(call) < 0))
}

function toListener(note: Notification, listener: UpstreamCall | undefined): Recipients {
  if (!listener) return { to: [], why: 'ended' }
  const isWanted = !isChange(note) || isAskedFor(listener, note)
  return isWanted ? { to: [listener] } : { to: [], why: 'unsubscribed' }
}

/** The recipients among calls: each client once; several clients only if all belong to the same caller. */
export function amongCalls(calls: readonly UpstreamCall[]): Recipients {
  const [first] = calls
  if (!first) return { to: [], why: 'unasked' }
  const { principal } = first.call
  const clients = new Map(calls.map((item) => [clientOf(item), item]))
  const isOneCaller = calls.every(({ call }) => call.principal.id === principal.id)
  // Sessions of anonymous callers may belong to different people.
  if (!isOneCaller || (clients.size > 1 && principal.isEverybody)) return { to: [], why: 'ambiguous' }
  return { to: calls.filter((item) => item.call.client.session === undefined || isLast(item, clients)) }
}

function isLast(working: UpstreamCall, clients: ReadonlyMap<string, UpstreamCall>): boolean {
  return clients.get(clientOf(working)) === working
}

/** Clients of 2026-07-28 have no sessions, so only callers can be distinguished. */
function clientOf({ call: { client, principal } }: UpstreamCall): string {
  return client.session === undefined ? `caller ${principal.id}` : `session ${client.session}`
}

/** Members of `_meta` in which servers may name the request of a notification. */
const marks = ['io.modelcontextprotocol/requestId', 'requestId', 'progressToken']

/** The request a notification names. The number may also refer to something else. */
function namedBy(
  note: Notification,
  activeRequests: Registry<number, ActiveRequest>,
): UpstreamCall | undefined {
  for (const mark of marks) {
    const id = numberAt(note, mark)
    const found = id === undefined ? undefined : activeRequests.get(id)
    if (found) return found.working
  }
  return undefined
}

function numberAt({ params }: Notification, key: string): number | undefined {
  const meta = params?.fields._meta
  const value = isObject(meta) ? meta[key] : undefined
  return typeof value === 'string' ? Number(value) : toDouble(value)
}

function listeners(activeRequests: Registry<number, ActiveRequest>): UpstreamCall[] {
  return activeRequests.values().flatMap(({ working }) => (isListening(working) ? [working] : []))
}

function isListening({ call }: UpstreamCall): boolean {
  return call.method === 'subscriptions/listen'
}

function isAskedFor({ call }: UpstreamCall, note: Notification): boolean {
  return asksFor(readFilter(call.params), note)
}

/** Whether a client waits for the response of a call, and not the gateway itself. */
export function isOfClient(working: UpstreamCall): boolean {
  return working.call.rpcId !== undefined && !isListening(working)
}

/** A log message is for calls that requested its level (2026-07-28 server/utilities/logging). */
function wants(working: UpstreamCall, { method, params }: Notification): boolean {
  if (method !== 'notifications/message') return true
  const level = logLevelOf(working)
  return level >= 0 && severity(params?.fields.level) >= level
}

/** The rank of the log level a call requested; negative if none. */
function logLevelOf({ call }: UpstreamCall): number {
  return severity(call.meta[metaKeys.logLevel])
}
