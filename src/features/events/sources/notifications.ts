/**
 * Changes that a server notifies: of its lists, with one subscription per server, and of its resources, with one for each.
 * A subscription is open while a client retains its events; one gateway of several listens.
 *
 * Invariant: a log says where listening began, because what a server notified before is not in it.
 */
import type { Notification } from '../../../core/call.ts'
import { listenCall } from '../../own-calls.ts'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { background } from '../../../core/log.ts'
import { Payload } from '../../../core/payload.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { exchangesTokens } from '../../../core/settings.ts'
import {
  ACKNOWLEDGED,
  asksFor,
  memberFor,
  type SubscriptionFilter,
  UPDATED,
} from '../../../protocol/subscription-filter.ts'
import { LISTENING_BEGAN } from '../../../records/logged-events.ts'
import type { Services } from '../../feature.ts'
import { resourceExhausted } from '../errors.ts'
import type { ServerEvents } from '../server-events.ts'
import { type EventSource, type EventType, forEveryone, mayCall, type SourceContext } from '../types.ts'
import { type Job, LeasedJobs } from './leased-jobs.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity'>

/** The name of the updates of a resource. */
const RESOURCE_UPDATED = 'resource_updated'

/** The types for changed lists, and the filter member with which a server notifies them. */
const listTypes: Readonly<Record<string, keyof SubscriptionFilter>> = {
  tools_changed: 'toolsListChanged',
  prompts_changed: 'promptsListChanged',
  resources_changed: 'resourcesListChanged',
}

/** How many resources of one server are listened to; one caller may have a quarter of them. */
const MAX_RESOURCES = 100

/** The events that servers notify. The gateway listens while a client retains them. */
export function notifiedEvents({ deps, events }: SourceContext): EventSource {
  const listeners = new Listeners(deps, events)
  const types = (upstream: string | undefined, isTogether: boolean): readonly EventType[] => {
    if (upstream === undefined || hasPersonalCredentials(upstream, deps)) return []
    const lists = Object.keys(listTypes).map((name) => listType(upstream, name, listeners))
    return [...lists, resourceType(upstream, isTogether, listeners, deps)]
  }
  return {
    name: 'notifications',
    types: (upstream, { target }) => types(upstream, target.upstream === undefined),
    described: (upstream) => types(upstream, false),
    close: () => listeners.close(),
  }
}

/** Whether each user has credentials of a server: the gateway itself has none to listen with. */
export function hasPersonalCredentials(upstream: string, { servers }: Pick<Deps, 'servers'>): boolean {
  const reach = servers.settings(upstream)?.reach
  const oauth = reach?.kind === 'url' ? reach.oauth : undefined
  return oauth !== undefined && (oauth.grant === 'authorization_code' || exchangesTokens(oauth))
}

function listType(upstream: string, name: string, listeners: Listeners): EventType {
  const list = name.slice(0, name.indexOf('_'))
  return {
    ...forEveryone,
    upstream,
    name,
    description: `The server's list of ${list} has changed.`,
    inputSchema: { type: 'object', additionalProperties: false },
    payloadSchema: { type: 'object' },
    isGap: (_given, entry) => entry.name === LISTENING_BEGAN && entry.data.uri === undefined,
    retain: (_given, principal) => listeners.retain({ upstream }, principal),
  }
}

function resourceType(upstream: string, isTogether: boolean, listeners: Listeners, deps: Deps): EventType {
  const { servers } = deps
  const uri = { type: 'string', description: 'The URI of the resource.' }
  // At the address of all servers, URIs say which server they are of.
  const ownUri = (given: unknown): string | undefined =>
    isTogether ? servers.ownUri(upstream, String(given)) : String(given)
  return {
    upstream,
    name: RESOURCE_UPDATED,
    description: 'A resource was updated.',
    inputSchema: { type: 'object', properties: { uri }, required: ['uri'], additionalProperties: false },
    payloadSchema: { type: 'object', properties: { uri }, required: ['uri'] },
    ...(isTogether && {
      present: (data) => ({ ...data, uri: servers.exposedUri(upstream, String(data.uri)) }),
    }),
    isRequested: (given, { data }) => {
      const own = ownUri(given.uri)
      if (own === undefined) return false
      return asksFor({ resourceSubscriptions: [own] }, { method: UPDATED, params: Payload.of(data) })
    },
    isGap: (given, entry) => entry.name === LISTENING_BEGAN && entry.data.uri === ownUri(given.uri),
    mayReceive: ({ data }, caller) => {
      if (typeof data.uri !== 'string') return true
      // The data of an event has the URI of the server, and that of a request the one of the client.
      const name = ownUri(data.uri) ?? data.uri
      return mayCall(caller, { upstream, method: 'resources/read', name }, { uri: name }, deps)
    },
    retain: async (given, principal) => {
      const own = ownUri(given.uri)
      if (own === undefined) throw notOfServer(upstream)
      return listeners.retain({ upstream, uri: own }, principal)
    },
  }
}

function notOfServer(upstream: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: arguments.uri is not a URI of ${upstream}.`, {
    field: 'arguments.uri',
    reason: 'unknown',
    suggestion: 'Send the URI as resources/list has it.',
  })
}

// Listening

/** The subscriptions of the gateway to its servers. */
class Listeners {
  readonly #deps: Deps
  readonly #events: (upstream: string) => ServerEvents
  readonly #running: LeasedJobs<Listener>

  constructor(deps: Deps, events: (upstream: string) => ServerEvents) {
    this.#deps = deps
    this.#events = events
    this.#running = new LeasedJobs(deps)
  }

  /**
   * Listens to a resource, or to the lists of a server, for a while; resolves once the server is listened to, or takes
   * too long. @throws QUOTA_EXHAUSTED
   */
  retain(subject: Subject, principal: Principal): Promise<void> {
    return this.#running.keep(JSON.stringify(subject), () => this.#create(subject, principal))
  }

  close(): Promise<void> {
    return this.#running.close()
  }

  #create({ upstream, uri }: Subject, principal: Principal): Listener {
    if (uri !== undefined) this.#checkQuota(upstream, principal)
    const filter =
      uri === undefined
        ? Object.fromEntries(Object.values(listTypes).map((member) => [member, true]))
        : { resourceSubscriptions: [uri] }
    return {
      upstream,
      uri,
      by: principal.id,
      run: (controller, onReady) => this.#listen(upstream, filter, controller, onReady),
    }
  }

  #checkQuota(upstream: string, principal: Principal): void {
    const own = [...this.#running.jobs].filter(
      ([, each]) => each.upstream === upstream && each.uri !== undefined,
    )
    const isFull = own.length >= MAX_RESOURCES
    if (isFull || hasReachedShare(principal, new Map(own), ({ by }) => by, MAX_RESOURCES))
      throw resourceExhausted(
        'resources',
        MAX_RESOURCES,
        'Too many resources of this server are subscribed to.',
      )
  }

  /** One subscription; it ends with its connection. Never rejects. */
  async #listen(
    upstream: string,
    filter: SubscriptionFilter,
    controller: AbortController,
    onReady: () => void,
  ): Promise<void> {
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
      await invoker.relay(listenCall({ upstream, filter, controller, emit }))
    } catch (error) {
      if (controller.signal.aborted) return
      log.debug('events.not_listening', { upstream, reason: asGatewayError(error).code })
    }
  }
}

/** What is listened to: a resource, or the lists of a server. */
interface Subject {
  readonly upstream: string
  readonly uri?: string
}

interface Listener extends Job {
  readonly upstream: string
  readonly uri: string | undefined
  /** The caller that asked first. */
  readonly by: string
}

/** The event that a notification reports, if any. */
function eventOf({ method, params }: Notification) {
  const member = memberFor(method)
  const [name] = Object.entries(listTypes).find(([, each]) => each === member) ?? []
  if (name !== undefined) return { name, data: {} }
  const uri = params?.fields.uri
  return method === UPDATED && typeof uri === 'string' ? { name: RESOURCE_UPDATED, data: { uri } } : undefined
}
