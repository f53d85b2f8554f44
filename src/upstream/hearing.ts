import type { Call, Notification, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { excerpt } from '../core/secret-shapes.ts'
import {
  ACKNOWLEDGED,
  asksFor,
  type SubscriptionFilter,
  isChange,
  readFilter,
  reportedChanges,
} from '../wire/filter.ts'
import type { UpstreamCall } from '../bridge/park.ts'
import { metaKeys } from '../wire/extensions.ts'
import { levelOf, severity } from '../wire/methods.ts'

interface Listener {
  readonly working: UpstreamCall
  readonly filter: SubscriptionFilter
}

type Send = (method: string, params: Payload) => Promise<Payload>

/** What a server with a handshake says outside of answers, brought to those who want to hear it. */
export class NotificationRouter {
  readonly #send: Send
  readonly #log: Log
  readonly #listeners = new Map<Listener, () => void>()
  /** How many listen to each resource. */
  readonly #uris = new Map<string, number>()
  #level: number | undefined
  /** How many notifications had no recipient. */
  #dropped = 0

  constructor(send: Send, log: Log) {
    this.#send = send
    this.#log = log
  }

  get isHeard(): boolean {
    return this.#listeners.size > 0
  }

  listeners(): UpstreamCall[] {
    return [...this.#listeners.keys()].map((each) => each.working)
  }

  /** A listening call: lasts until nobody wants it or the connection closes. */
  async listen(working: UpstreamCall, discovered: Payload): Promise<Outcome> {
    const filter = await this.#honour(readFilter(working.call.params), discovered)
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

  /** Makes the server send log messages of this level and above, where it does not yet. */
  async setLevel(level: unknown, discovered: Payload): Promise<void> {
    const rank = severity(level)
    if (rank < 0 || !has(discovered, 'logging') || (this.#level !== undefined && this.#level <= rank)) return
    this.#level = rank
    try {
      await this.#send('logging/setLevel', Payload.of({ level: levelOf(rank) }))
    } catch (error) {
      // What is asked for is only how much is heard of; the call itself can do without.
      this.#log.warn('upstream.level_refused', { error: excerpt(String(error)) })
    }
  }

  /** Brings a message to the calls it may be about; where there are none, to those who listen and may hear it. */
  dispatch(note: Notification, calls: readonly UpstreamCall[], mayHear: (call: Call) => boolean): void {
    if (isChange(note)) return this.#broadcast(note, ({ filter }) => asksFor(filter, note))
    const told = calls.filter((each) => this.#wants(each, note))
    for (const each of told) each.notify(note)
    if (calls.length > 0) {
      if (told.length === 0) this.#drop(note)
      return
    }
    const isLog = note.method === 'notifications/message'
    this.#broadcast(note, ({ working }) => {
      // A listen stream of 2026-07-28 carries only what was subscribed to.
      const isHeardOf = working.call.client.era === 'legacy' && (!isLog || mayHear(working.call))
      return isHeardOf && this.#wants(working, note)
    })
  }

  /** Tells a server that starts afresh what it was told before. */
  async restore(discovered: Payload): Promise<void> {
    const level = this.#level
    this.#level = undefined
    if (level !== undefined) await this.setLevel(levelOf(level), discovered)
    await Promise.all(
      [...this.#uris.keys()].map((uri) => this.#send('resources/subscribe', Payload.of({ uri }))),
    )
    for (const { working, filter } of this.#listeners.keys())
      for (const method of reportedChanges(filter)) working.notify({ method })
  }

  close(): void {
    for (const end of this.#listeners.values()) end()
  }

  /** The part of a filter this server can fulfil. */
  async #honour(asked: SubscriptionFilter, discovered: Payload): Promise<SubscriptionFilter> {
    const { tools, prompts, resources } = capabilities(discovered)
    const can = (capability: unknown, what: string): boolean =>
      isObject(capability) && capability[what] === true
    const uris = can(resources, 'subscribe') ? (asked.resourceSubscriptions ?? []) : []
    const taken = await Promise.all(uris.map((uri) => this.#subscribe(uri)))
    const kept = uris.filter((_uri, index) => taken[index])
    return {
      ...(asked.toolsListChanged && can(tools, 'listChanged') && { toolsListChanged: true }),
      ...(asked.promptsListChanged && can(prompts, 'listChanged') && { promptsListChanged: true }),
      ...(asked.resourcesListChanged && can(resources, 'listChanged') && { resourcesListChanged: true }),
      ...(kept.length > 0 && { resourceSubscriptions: kept }),
    }
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
    // The server may be gone, and then so is the subscription.
    await this.#send('resources/unsubscribe', Payload.of({ uri })).catch(() => undefined)
  }

  #broadcast(note: Notification, wants: (listener: Listener) => boolean): void {
    const told = [...this.#listeners.keys()].filter(wants)
    for (const { working } of told) working.notify(note)
    if (told.length === 0) this.#drop(note)
  }

  #drop({ method }: Notification): void {
    this.#log.debug('upstream.note_dropped', { method, dropped: ++this.#dropped })
  }

  /** Log messages go to those who asked for their level; older clients that named none get them from `info` up. */
  #wants(working: UpstreamCall, note: Notification): boolean {
    if (note.method !== 'notifications/message') return true
    const { client, meta } = working.call
    const wanted = severity(meta[metaKeys.logLevel])
    const rank = severity(note.params?.fields.level)
    if (wanted >= 0) return rank >= wanted
    return client.era === 'legacy' && (this.#level === undefined || rank >= severity('info'))
  }
}

function capabilities(discovered: Payload): Readonly<Record<string, unknown>> {
  const { capabilities: declared } = discovered.fields
  return isObject(declared) ? declared : {}
}

function has(discovered: Payload, name: string): boolean {
  return isObject(capabilities(discovered)[name])
}
