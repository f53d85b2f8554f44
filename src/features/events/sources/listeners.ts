/**
 * Listens to the notifications that servers send: to changes of lists with one subscription per server, and to each
 * resource with another one. A subscription is open as long as clients ask for its events; one gateway of several
 * listens.
 *
 * Invariant: a log says where listening began, because what a server notified before is not in it.
 */
import type { Notification } from '../../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../../core/error.ts'
import { background } from '../../../core/log.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
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
import { type Job, LeasedJobs } from './leased-jobs.ts'

type Deps = Pick<Services, 'log' | 'store' | 'invoker' | 'identity'>

/** The name of the updates of a resource. */
export const RESOURCE_UPDATED = 'resource_updated'

/** The types for changed lists, and the filter member with which a server notifies them. */
export const listTypes: Readonly<Record<string, keyof SubscriptionFilter>> = {
  tools_changed: 'toolsListChanged',
  prompts_changed: 'promptsListChanged',
  resources_changed: 'resourcesListChanged',
}

/** How many resources of one server are listened to; one caller may have a quarter of them. */
const MAX_RESOURCES = 100

/** The subscriptions of the gateway to its servers. */
export class Listeners {
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
  keep(subject: Subject, principal: Principal): Promise<void> {
    return this.#running.keep(JSON.stringify(subject), () => this.#create(subject, principal))
  }

  close(): void {
    this.#running.close()
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
      run: (controller, onReady) => this.#listen(upstream, { filter, onReady, controller }),
    }
  }

  #checkQuota(upstream: string, principal: Principal): void {
    const own = [...this.#running.jobs].filter(
      ([, each]) => each.upstream === upstream && each.uri !== undefined,
    )
    const isFull = own.length >= MAX_RESOURCES
    if (isFull || hasReachedShare(principal, new Map(own), ({ by }) => by, MAX_RESOURCES)) throw tooMany()
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

interface Opening {
  readonly filter: SubscriptionFilter
  readonly controller: AbortController
  onReady(): void
}

/** The event that a notification reports, if any. */
function eventOf({ method, params }: Notification) {
  const member = memberFor(method)
  const [name] = Object.entries(listTypes).find(([, each]) => each === member) ?? []
  if (name !== undefined) return { name, data: {} }
  const uri = params?.fields.uri
  return method === UPDATED && typeof uri === 'string' ? { name: RESOURCE_UPDATED, data: { uri } } : undefined
}

function tooMany(): GatewayError {
  return resourceExhausted('resources', MAX_RESOURCES, 'Too many resources of this server are subscribed to.')
}
