/**
 * Listens to the notifications that servers send: to changes of lists with one subscription per server, and to each
 * resource with another one. A subscription is open as long as somebody asks for its events. Of the gateways that share a
 * store, the one with the lease listens, so that an event is logged once.
 *
 * Invariant: a log says where listening began, because what a server notified before is not in it.
 */
import { hash } from 'node:crypto'
import type { Notification } from '../../../core/call.ts'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { background } from '../../../core/log.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { pause, within } from '../../../core/time/waiting.ts'
import {
  ACKNOWLEDGED,
  memberFor,
  type SubscriptionFilter,
  UPDATED,
} from '../../../protocol/subscription-filter.ts'
import { LISTENING_BEGAN } from '../../../records/logged-events.ts'
import type { Services } from '../../feature.ts'
import { resourceExhausted } from '../errors.ts'
import type { ServerEvents } from '../server-events.ts'

type Deps = Pick<Services, 'log' | 'store' | 'invoker' | 'identity'>

/** The name of the updates of a resource. */
export const RESOURCE_UPDATED = 'resource_updated'

/** The types for changed lists, and the filter member with which a server notifies them. */
export const listTypes: Readonly<Record<string, keyof SubscriptionFilter>> = {
  tools_changed: 'toolsListChanged',
  prompts_changed: 'promptsListChanged',
  resources_changed: 'resourcesListChanged',
}

/** How long a subscription stays open after the last request for its events, in milliseconds. */
const IDLE_TIMEOUT_MS = 600_000
/** How long a lease lasts, how often it is renewed, and the pause after a failure, in milliseconds. */
const LEASE_MS = 30_000
const RENEWAL_INTERVAL_MS = 10_000
/** How long a caller waits until its server is listened to, in milliseconds. */
const ACKNOWLEDGEMENT_TIMEOUT_MS = 2000
/** How many resources of one server are listened to; one caller may have a quarter of them. */
const MAX_RESOURCES = 100

/** The subscriptions of the gateway to its servers. */
export class Listeners {
  readonly #deps: Deps
  readonly #events: (upstream: string) => ServerEvents
  readonly #running = new Map<string, Listener>()
  #isClosed = false

  constructor(deps: Deps, events: (upstream: string) => ServerEvents) {
    this.#deps = deps
    this.#events = events
  }

  /**
   * Listens to a resource, or to the lists of a server, for a while; resolves once the server is listened to, or takes
   * too long. @throws QUOTA_EXHAUSTED
   */
  async keep(subject: Subject, principal: Principal): Promise<void> {
    if (this.#isClosed) return
    const key = JSON.stringify(subject)
    const listener = this.#running.get(key) ?? this.#start(key, subject, principal)
    listener.usedAt = Date.now()
    await within(listener.ready, ACKNOWLEDGEMENT_TIMEOUT_MS, undefined)
  }

  close(): void {
    this.#isClosed = true
    for (const { controller } of this.#running.values()) end(controller)
  }

  #start(key: string, { upstream, uri }: Subject, principal: Principal): Listener {
    if (uri !== undefined) this.#checkQuota(upstream, principal)
    const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
    const controller = new AbortController()
    const listener: Listener = { upstream, uri, by: principal.id, usedAt: Date.now(), controller, ready }
    this.#running.set(key, listener)
    const filter =
      uri === undefined
        ? Object.fromEntries(Object.values(listTypes).map((member) => [member, true]))
        : { resourceSubscriptions: [uri] }
    const lease = `event-lease:${hash('sha256', key).slice(0, 32)}`
    const ended = this.#run(listener, { lease, filter, onReady }).finally(() => this.#running.delete(key))
    background(ended, this.#deps.log)
    return listener
  }

  #checkQuota(upstream: string, principal: Principal): void {
    const own = [...this.#running].filter(([, each]) => each.upstream === upstream && each.uri !== undefined)
    const isFull = own.length >= MAX_RESOURCES
    if (isFull || hasReachedShare(principal, new Map(own), ({ by }) => by, MAX_RESOURCES)) throw tooMany()
  }

  /** Listens while this process has the lease, until nobody asks for the events any more. */
  async #run(listener: Listener, { lease, filter, onReady }: Subscription): Promise<void> {
    const { signal } = listener.controller
    let listening: AbortController | undefined
    while (!signal.aborted && Date.now() - listener.usedAt < IDLE_TIMEOUT_MS) {
      const isHolder = await this.#hasLease(lease)
      if (!isHolder) {
        if (listening) end(listening)
        listening = undefined
        onReady()
      } else if (!listening || listening.signal.aborted) {
        listening = new AbortController()
        void this.#listen(listener.upstream, { filter, onReady, controller: listening })
      }
      await pause(RENEWAL_INTERVAL_MS, signal).catch(() => undefined)
    }
    if (listening) end(listening)
    await this.#deps.store.compareAndDelete(lease, this.#owner).catch(() => false)
  }

  /** One subscription; it ends with its connection. Never rejects. */
  async #listen(upstream: string, { filter, onReady, controller }: Opening): Promise<void> {
    const { invoker, log } = this.#deps
    const events = this.#events(upstream)
    const [uri] = filter.resourceSubscriptions ?? []
    const emit = (note: Notification): void => {
      if (note.method === ACKNOWLEDGED) {
        const began = { name: LISTENING_BEGAN, data: uri === undefined ? {} : { uri } }
        return background(events.add(began).finally(onReady), log)
      }
      const event = eventOf(note)
      if (event) background(events.add(event), log)
    }
    try {
      await invoker.relay(invoker.listening({ upstream, filter, controller, emit }))
    } catch (error) {
      if (controller.signal.aborted) return
      log.debug('events.not_listening', { upstream, reason: asGatewayError(error).code })
    } finally {
      onReady()
      // It is opened again when the lease is renewed.
      end(controller)
    }
  }

  get #owner(): string {
    return this.#deps.identity.membership.id
  }

  /** Whether this process may listen: it has the lease, or nobody has. */
  async #hasLease(key: string): Promise<boolean> {
    const { store } = this.#deps
    try {
      const holder = await store.setIfAbsent(key, this.#owner, LEASE_MS)
      if (holder === undefined) return true
      return holder === this.#owner && (await store.compareAndSwap(key, holder, holder, LEASE_MS))
    } catch {
      // Without its store the gateway cannot keep events either.
      return false
    }
  }
}

/** What is listened to: a resource, or the lists of a server. */
interface Subject {
  readonly upstream: string
  readonly uri?: string
}

interface Listener {
  readonly upstream: string
  readonly uri: string | undefined
  /** The caller that asked first. */
  readonly by: string
  readonly controller: AbortController
  /** Resolves once the server, or another gateway, was asked. */
  readonly ready: Promise<void>
  usedAt: number
}

interface Subscription {
  /** The key of the lease. */
  readonly lease: string
  readonly filter: SubscriptionFilter
  onReady(): void
}

interface Opening extends Omit<Subscription, 'lease'> {
  readonly controller: AbortController
}

/** The event that a notification reports, if any. */
function eventOf({ method, params }: Notification) {
  const member = memberFor(method)
  const [name] = Object.entries(listTypes).find(([, each]) => each === member) ?? []
  if (name !== undefined) return { name, data: {} }
  const uri = params?.fields.uri
  return method === UPDATED && typeof uri === 'string' ? { name: RESOURCE_UPDATED, data: { uri } } : undefined
}

function end(controller: AbortController): void {
  controller.abort(new GatewayError('CANCELLED', 'Nobody subscribes to these events any more.'))
}

function tooMany(): GatewayError {
  return resourceExhausted('resources', MAX_RESOURCES, 'Too many resources of this server are subscribed to.')
}
