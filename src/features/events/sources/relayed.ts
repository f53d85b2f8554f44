/**
 * The events that a server of 2026-07-28 has itself (SEP-3415), under the names that it gives them. Clients do not reach
 * its methods: the gateway subscribes with its own credentials, once for all clients that want the same, and delivers
 * what it receives.
 */
import { asGatewayError, GatewayError, isErrorCode } from '../../../core/error.ts'
import { isObject } from '../../../core/json/json.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { eventsExtension } from '../../../protocol/meta-keys.ts'
import { resourceExhausted } from '../errors.ts'
import { type EventSource, type EventType, type Fields, isPermitted } from '../event-types.ts'
import type { LoggedEvent, ServerEvents } from '../server-events.ts'
import type { Services } from '../../feature.ts'
import { LeasedJobs } from './leased-jobs.ts'
import { isPersonal } from './notifications.ts'
import {
  RELAY_ENDED,
  RELAY_GAP,
  ServerSubscription,
  type Subject,
  subscriptionKey,
} from './server-subscription.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features'>

/** A type as its server lists it. */
interface ServerType {
  readonly name: string
  readonly description: string
  readonly inputSchema: Fields
  readonly payloadSchema: Fields
  readonly isStreamed: boolean
}

/** The events that servers have themselves. */
export interface RelayedEvents extends EventSource {
  /** Forgets the types of all servers, which may have changed. */
  forget(): void
}

/** How long the types of a server are cached, and how long that it could not be asked, in milliseconds. */
const TYPES_STALE_MS = 60_000
const FAILURE_STALE_MS = 5000
/** How many types of one server are listed, and on how many pages. */
const MAX_TYPES = 1000
const MAX_PAGES = 20
/** How long a server may take to list its types, in milliseconds. */
const LIST_TIMEOUT_MS = 10_000
/** How many subscriptions to one server there are; one caller may have a quarter of them. */
const MAX_SUBSCRIPTIONS = 100

/** The events of servers that have some. The gateway subscribes while a client wants them. */
export function relayedEvents(deps: Deps, events: (upstream: string) => ServerEvents): RelayedEvents {
  const jobs = new LeasedJobs<ServerSubscription>(deps)
  const listed = new ListedTypes(deps)
  const keep = async (subject: Subject, isStreamed: boolean, principal: Principal): Promise<void> => {
    const key = JSON.stringify(['relay', subject.upstream, subscriptionKey(subject)])
    await jobs.keep(key, () => {
      checkQuota(subject, principal, jobs)
      const { id: by } = principal
      return new ServerSubscription({ deps, events: events(subject.upstream), subject, isStreamed, by })
    })
    const refusal = jobs.jobs.get(key)?.refusal
    if (refusal) throw refusal
  }
  const typeOf = (upstream: string, { isStreamed, ...type }: ServerType): EventType => ({
    ...type,
    upstream,
    isRequested: (wanted, { of }) => of === keyOf(type.name, wanted),
    isGap: (wanted, entry) => entry.name === RELAY_GAP && entry.of === keyOf(type.name, wanted),
    endOf: (wanted, entry) =>
      entry.name === RELAY_ENDED && entry.of === keyOf(type.name, wanted) ? loggedError(entry) : undefined,
    mayReceive: (_event, call) => isPermitted(call, { upstream, method: 'events/poll' }, {}, deps),
    keep: (wanted, principal) =>
      keep({ upstream, name: type.name, arguments: wanted }, isStreamed, principal),
  })
  return {
    name: 'server',
    types: async (upstream) => {
      if (upstream === undefined || isPersonal(upstream, deps)) return []
      return (await listed.of(upstream)).map((type) => typeOf(upstream, type))
    },
    forget: () => listed.forget(),
    close: () => jobs.close(),
  }
}

/** The keys of arguments, which are the same object for each event that is looked at. */
const keys = new WeakMap<Fields, string>()

function keyOf(name: string, wanted: Fields): string {
  const known = keys.get(wanted)
  if (known !== undefined) return known
  const key = subscriptionKey({ name, arguments: wanted })
  keys.set(wanted, key)
  return key
}

function checkQuota(
  { upstream }: Subject,
  principal: Principal,
  { jobs }: Pick<LeasedJobs<ServerSubscription>, 'jobs'>,
): void {
  const own = new Map([...jobs].filter(([, { subject }]) => subject.upstream === upstream))
  if (own.size >= MAX_SUBSCRIPTIONS || hasReachedShare(principal, own, ({ by }) => by, MAX_SUBSCRIPTIONS)) {
    throw resourceExhausted(
      'subscriptions',
      MAX_SUBSCRIPTIONS,
      'Too many different events of this server are subscribed to.',
    )
  }
}

/** The error that an entry of the log keeps. */
function loggedError({ data: { code, message, rpc, data } }: LoggedEvent): GatewayError {
  return new GatewayError(isErrorCode(code) ? code : 'UPSTREAM_ERROR', String(message), {
    ...(typeof rpc === 'number' && { rpc }),
    ...(isObject(data) && { data }),
  })
}

/** The types that servers list, cached. */
class ListedTypes {
  readonly #deps: Deps
  readonly #known = new Map<string, { readonly types: Promise<readonly ServerType[]>; until: number }>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** @throws what listing throws */
  of(upstream: string): Promise<readonly ServerType[]> {
    const known = this.#known.get(upstream)
    if (known && Date.now() < known.until) return known.types
    const entry = { types: this.#ask(upstream), until: Date.now() + TYPES_STALE_MS }
    this.#known.set(upstream, entry)
    entry.types.catch(() => {
      entry.until = Math.min(entry.until, Date.now() + FAILURE_STALE_MS)
    })
    return entry.types
  }

  forget(): void {
    this.#known.clear()
  }

  async #ask(upstream: string): Promise<readonly ServerType[]> {
    if (!declaresEvents(await this.#deps.servers.discovered(upstream))) return []
    const types: ServerType[] = []
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES && types.length < MAX_TYPES; page++) {
      const { events, nextCursor } = await this.#request(upstream, 'events/list', {
        ...(cursor !== undefined && { cursor }),
      })
      if (Array.isArray(events)) types.push(...events.flatMap((each) => this.#typeOf(upstream, each) ?? []))
      if (typeof nextCursor !== 'string' || nextCursor === cursor) break
      cursor = nextCursor
    }
    return types.slice(0, MAX_TYPES)
  }

  /** A type that can be received here; a server that only calls webhooks is not subscribed to. */
  #typeOf(upstream: string, given: unknown): ServerType | undefined {
    if (!isObject(given) || typeof given.name !== 'string' || given.name.length > 128) return undefined
    const { name, description, delivery, inputSchema, payloadSchema } = given
    const modes: readonly unknown[] = Array.isArray(delivery) ? delivery : []
    if (!modes.includes('push') && !modes.includes('poll')) {
      this.#deps.log.debug('events.not_relayed', { upstream, event: name, reason: 'webhook only' })
      return undefined
    }
    return {
      name,
      description: typeof description === 'string' ? description : '',
      inputSchema: isObject(inputSchema) ? inputSchema : { type: 'object' },
      payloadSchema: isObject(payloadSchema) ? payloadSchema : { type: 'object' },
      isStreamed: modes.includes('push'),
    }
  }

  async #request(upstream: string, method: string, params: Fields): Promise<Fields> {
    const { invoker } = this.#deps
    const controller = new AbortController()
    const timer = setTimeout(() => controller.abort(timedOut()), LIST_TIMEOUT_MS).unref()
    try {
      const outcome = await invoker.relay(invoker.request({ upstream, method, params, controller }))
      return outcome.kind === 'result' ? outcome.result.fields : {}
    } catch (error) {
      throw controller.signal.aborted ? timedOut() : asGatewayError(error)
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Whether a server declares the extension, under its name or the one of the first drafts; only 2026-07-28 has it. */
function declaresEvents({ supportedVersions, capabilities }: Fields): boolean {
  if (!Array.isArray(supportedVersions) || !isObject(capabilities)) return false
  const { events, extensions } = capabilities
  return isObject(events) || (isObject(extensions) && isObject(extensions[eventsExtension]))
}

function timedOut(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The server did not list its events in time.')
}
