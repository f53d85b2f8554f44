/**
 * The events that a server of 2026-07-28 has itself (SEP-3415), under the names that it gives them. Clients do not reach
 * its methods: the gateway subscribes with its own credentials, once for all clients that want the same, and delivers
 * what it receives. From servers that deliver to webhooks only, it receives events at its public URL.
 */
import { world } from '../../../core/world.ts'
import { asGatewayError, GatewayError, isErrorCode } from '../../../core/error.ts'
import type { Finding } from '../../../core/finding.ts'
import { isObject } from '../../../core/json/json.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { within } from '../../../core/time/waiting.ts'
import { eventsExtension } from '../../../protocol/meta-keys.ts'
import { resourceExhausted } from '../errors.ts'
import { type EventSource, type EventType, type Fields, isPermitted } from '../types.ts'
import type { LoggedEvent, ServerEvents } from '../server-events.ts'
import type { ArrivingHook, HookAnswer, Services } from '../../feature.ts'
import { LeasedJobs } from './leased-jobs.ts'
import { isPersonal } from './notifications.ts'
import {
  type DeliveryMode,
  RELAY_ENDED,
  RELAY_GAP,
  ServerSubscription,
  type Subject,
  subscriptionKey,
} from './server-subscription.ts'
import { ServerWebhooks } from './server-webhooks.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'pages'>

/** A type as its server lists it. */
interface ServerType {
  readonly name: string
  readonly description: string
  readonly inputSchema: Fields
  readonly payloadSchema: Fields
  readonly mode: DeliveryMode
}

/** The events that servers have themselves. */
export interface RelayedEvents extends EventSource {
  /** Forgets the types of all servers, which may have changed. */
  forget(): void
  /** Accepts an event that a server sent to a webhook of the gateway. @throws what `ServerWebhooks.receive` throws */
  receive(hook: ArrivingHook): Promise<HookAnswer>
  /** The servers of these whose events cannot be received, for want of a public URL. */
  problems(upstreams: readonly string[]): Promise<readonly Finding[]>
}

/** How long the types of a server are cached, and how long that it could not be asked, in milliseconds. */
const TYPES_STALE_MS = 60_000
const FAILURE_STALE_MS = 5000
/** How many types of one server are listed, and on how many pages. */
const MAX_TYPES = 1000
const MAX_PAGES = 20
/** How long a server may take to list its types, in milliseconds. */
const LIST_TIMEOUT_MS = 10_000
/** How long the start of the gateway waits for the types of servers to check them, in milliseconds. */
const CHECK_TIMEOUT_MS = 3000
/** How many subscriptions to one server there are; one caller may have a quarter of them. */
const MAX_SUBSCRIPTIONS = 100

/** The events of servers that have some. The gateway subscribes while a client wants them. */
export function relayedEvents(deps: Deps, events: (upstream: string) => ServerEvents): RelayedEvents {
  const jobs = new LeasedJobs<ServerSubscription>(deps)
  const create = (subject: Subject, mode: DeliveryMode, by: string): ServerSubscription =>
    new ServerSubscription({ deps, events: events(subject.upstream), subject, mode, callbacks, by })
  // Messages arrive at any gateway. The one with the lease learns of an end from the store.
  const callbacks: ServerWebhooks = new ServerWebhooks(deps, (subject, message) =>
    create(subject, 'webhook', '').accept(message),
  )
  const listed = new ListedTypes(deps, callbacks.isReachable)
  const keep = async (subject: Subject, mode: DeliveryMode, principal: Principal): Promise<void> => {
    const key = jobKey(subject)
    await jobs.keep(key, () => {
      checkQuota(subject, principal, jobs)
      return create(subject, mode, principal.id)
    })
    const refusal = jobs.jobs.get(key)?.refusal
    if (refusal) throw refusal
  }
  const typeOf = (upstream: string, { mode, ...type }: ServerType): EventType => ({
    ...type,
    upstream,
    isRequested: (wanted, { of }) => of === keyOf(type.name, wanted),
    isGap: (wanted, entry) => entry.name === RELAY_GAP && entry.of === keyOf(type.name, wanted),
    endOf: (wanted, entry) =>
      entry.name === RELAY_ENDED && entry.of === keyOf(type.name, wanted) ? loggedError(entry) : undefined,
    mayReceive: (_event, call) => isPermitted(call, { upstream, method: 'events/poll' }, {}, deps),
    keep: (wanted, principal) => keep({ upstream, name: type.name, arguments: wanted }, mode, principal),
  })
  return {
    name: 'server',
    types: async (upstream) => {
      if (upstream === undefined || isPersonal(upstream, deps)) return []
      const { types } = await listed.of(upstream)
      return types.map((type) => typeOf(upstream, type))
    },
    forget: () => listed.forget(),
    receive: (hook) => callbacks.receive(hook),
    problems: async (upstreams) => {
      if (callbacks.isReachable) return []
      const relayed = upstreams.filter((upstream) => !isPersonal(upstream, deps))
      const found = await Promise.all(
        relayed.map(async (upstream) => {
          const types = listed.of(upstream).catch(() => undefined)
          return unreachable(upstream, await within(types, CHECK_TIMEOUT_MS, undefined))
        }),
      )
      return found.flat()
    },
    close: () => jobs.close(),
  }
}

function jobKey(subject: Subject): string {
  return JSON.stringify(['relay', subject.upstream, subscriptionKey(subject)])
}

/** The problem of a server whose events need webhooks, where the gateway cannot be reached. */
function unreachable(upstream: string, found: Listed | undefined): readonly Finding[] {
  const names = found?.unreachable ?? []
  if (names.length === 0) return []
  const some = names.slice(0, 5).join(', ')
  const message = `delivers ${names.length > 5 ? `${some} and others` : some} to webhooks only, and the gateway has no public URL to receive them: set \`listen.public_url\``
  return [{ path: ['upstreams', upstream], at: 'key', message, isMinor: true }]
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

/** What a server lists. */
interface Listed {
  readonly types: readonly ServerType[]
  /** The names of types that it delivers to webhooks only, where the gateway cannot be reached. */
  readonly unreachable: readonly string[]
}

/** The types that servers list, cached. */
class ListedTypes {
  readonly #deps: Deps
  readonly #canReceive: boolean
  readonly #known = new Map<string, { readonly listed: Promise<Listed>; until: number }>()

  /** `canReceive` says whether servers can call webhooks of the gateway. */
  constructor(deps: Deps, canReceive: boolean) {
    this.#deps = deps
    this.#canReceive = canReceive
  }

  /** @throws what listing throws */
  of(upstream: string): Promise<Listed> {
    const known = this.#known.get(upstream)
    if (known && world.now() < known.until) return known.listed
    const entry = { listed: this.#ask(upstream), until: world.now() + TYPES_STALE_MS }
    this.#known.set(upstream, entry)
    entry.listed.catch(() => {
      entry.until = Math.min(entry.until, world.now() + FAILURE_STALE_MS)
    })
    return entry.listed
  }

  forget(): void {
    this.#known.clear()
  }

  async #ask(upstream: string): Promise<Listed> {
    if (!declaresEvents(await this.#deps.servers.discovered(upstream))) return { types: [], unreachable: [] }
    const types: ServerType[] = []
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES && types.length < MAX_TYPES; page++) {
      const { events, nextCursor } = await this.#request(upstream, 'events/list', {
        ...(cursor !== undefined && { cursor }),
      })
      if (Array.isArray(events)) types.push(...events.flatMap((each) => typeIn(each) ?? []))
      if (typeof nextCursor !== 'string' || nextCursor === cursor) break
      cursor = nextCursor
    }
    const all = types.slice(0, MAX_TYPES)
    const isHere = ({ mode }: ServerType): boolean => this.#canReceive || mode !== 'webhook'
    return {
      types: all.filter(isHere),
      unreachable: all.filter((type) => !isHere(type)).map(({ name }) => name),
    }
  }

  async #request(upstream: string, method: string, params: Fields): Promise<Fields> {
    const { invoker } = this.#deps
    const controller = new AbortController()
    const timer = world.setTimeout(() => controller.abort(timedOut()), LIST_TIMEOUT_MS).unref()
    try {
      const outcome = await invoker.relay(invoker.request({ upstream, method, params, controller }))
      return outcome.kind === 'result' ? outcome.result.fields : {}
    } catch (error) {
      throw controller.signal.aborted ? timedOut() : asGatewayError(error)
    } finally {
      world.clearTimeout(timer)
    }
  }
}

/** A type of a list; undefined if it is malformed, or delivered in no known way. */
function typeIn(given: unknown): ServerType | undefined {
  if (!isObject(given) || typeof given.name !== 'string' || given.name.length > 128) return undefined
  const { name, description, delivery, inputSchema, payloadSchema } = given
  const mode = modeIn(Array.isArray(delivery) ? delivery : [])
  return (
    mode && {
      name,
      description: typeof description === 'string' ? description : '',
      inputSchema: isObject(inputSchema) ? inputSchema : { type: 'object' },
      payloadSchema: isObject(payloadSchema) ? payloadSchema : { type: 'object' },
      mode,
    }
  )
}

function modeIn(offered: readonly unknown[]): DeliveryMode | undefined {
  if (offered.includes('push')) return 'stream'
  if (offered.includes('poll')) return 'poll'
  return offered.includes('webhook') ? 'webhook' : undefined
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
