/**
 * The events that a server of 2026-07-28 has itself (SEP-3415), under the names that it gives them. Clients do not reach
 * its methods: the gateway subscribes with its own credentials, once for all clients that request the same, by
 * `events/stream` where the server offers it, else by `events/poll`, else by a webhook (`server-webhooks.ts`).
 *
 * Invariants: an event is logged once, under the id that the server gave it. The position at the server is stored after
 * the events before it are, so what the server keeps is not missed when the gateway restarts. What may have been missed
 * is a gap in the log.
 */
import type { Finding } from '../../../core/findings.ts'
import { eventsExtension } from '../../../core/revisions.ts'
import { hash } from 'node:crypto'
import type { Notification } from '../../../core/call.ts'
import { serverRequest } from '../../own-calls.ts'
import { asGatewayError, GatewayError, isErrorCode } from '../../../core/error.ts'
import { toDouble } from '../../../core/json/exact-number.ts'
import { exactly, asObject, isObject, readJson } from '../../../core/json/json.ts'
import { hasReachedShare, type Principal } from '../../../core/principal.ts'
import { background } from '../../../core/log.ts'
import { type Backoff, delayBefore } from '../../../core/time/backoff.ts'
import { pause, within } from '../../../core/time/waiting.ts'
import { world } from '../../../core/world.ts'
import type { Lease } from '../../../durable/lease.ts'
import type { Services } from '../../feature.ts'
import { masked } from '../../offers.ts'
import { errorOfServer, isCallbackFailure, isFinal, resourceExhausted, terminationOf } from '../errors.ts'
import { asEvent, type LoggedEvent, newEventId, type ServerEvents } from '../server-events.ts'
import { type EventSource, type EventType, type Fields, mayCall, type SourceContext } from '../types.ts'
import { type Job, LeasedJobs } from './leased-jobs.ts'
import { hasPersonalCredentials } from './notifications.ts'
import { ServerWebhooks, type RelaySubject, subscriptionKey } from './server-webhooks.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'pages'>

/** A type as its server lists it. */
interface ServerType {
  readonly name: string
  readonly description: string
  readonly inputSchema: Fields
  readonly payloadSchema: Fields
  readonly mode: DeliveryMode
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

/** The events that servers have themselves. The gateway subscribes while a client retains them. */
export function relayedEvents({ deps, events, upstreams }: SourceContext): EventSource {
  const jobs = new LeasedJobs<ServerSubscription>(deps)
  const create = (subject: RelaySubject, mode: DeliveryMode, by: string): ServerSubscription =>
    new ServerSubscription({ deps, events: events(subject.upstream), subject, mode, callbacks, by })
  // Messages arrive at any gateway. The one with the lease learns of an end from the store.
  const callbacks: ServerWebhooks = new ServerWebhooks(deps, (subject, message) =>
    create(subject, 'webhook', '').accept(message),
  )
  const listed = new ListedTypes(deps, callbacks.isReachable)
  const retain = async (subject: RelaySubject, mode: DeliveryMode, principal: Principal): Promise<void> => {
    const key = JSON.stringify(['relay', subject.upstream, subscriptionKey(subject)])
    await jobs.keep(key, () => {
      checkQuota(subject, principal, jobs)
      return create(subject, mode, principal.id)
    })
    const refusal = await jobs.jobs.get(key)?.refusal()
    if (refusal) throw refusal
  }
  const typeOf = (upstream: string, { mode, ...type }: ServerType): EventType => ({
    ...type,
    upstream,
    isRequested: (given, { of }) => of === keyOf(type.name, given),
    isGap: (given, entry) => entry.name === RELAY_GAP && entry.of === keyOf(type.name, given),
    endOf: (given, entry) =>
      entry.name === RELAY_ENDED && entry.of === keyOf(type.name, given) ? errorIn(entry.data) : undefined,
    mayReceive: (_event, call) => mayCall(call, { upstream, method: 'events/poll' }, {}, deps),
    retain: (given, principal) => retain({ upstream, name: type.name, arguments: given }, mode, principal),
  })
  return {
    name: 'server',
    types: async (upstream) => {
      if (upstream === undefined || hasPersonalCredentials(upstream, deps)) return []
      const { types } = await listed.of(upstream)
      return types.map((type) => typeOf(upstream, type))
    },
    forget: () => listed.forget(),
    receive: (hook) => {
      if (!hook.isOfServer) return undefined
      return callbacks.receive(hook, upstreams())
    },
    problems: async () => {
      if (callbacks.isReachable) return []
      const relayed = upstreams().filter((upstream) => !hasPersonalCredentials(upstream, deps))
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

/** The problem of a server whose events need webhooks, where the gateway cannot be reached. */
function unreachable(upstream: string, found: Listed | undefined): readonly Finding[] {
  const names = found?.unreachable ?? []
  if (names.length === 0) return []
  const some = names.slice(0, 5).join(', ')
  const message = `delivers ${names.length > 5 ? `${some} and others` : some} to webhooks only, and the gateway has no public URL to receive them: set \`listen.public_url\``
  return [{ path: ['upstreams', upstream], at: 'key', message, isMinor: true }]
}

/** The keys of arguments, which are the same object for each event that is read. */
const keys = new WeakMap<Fields, string>()

function keyOf(name: string, given: Fields): string {
  const known = keys.get(given)
  if (known !== undefined) return known
  const key = subscriptionKey({ name, arguments: given })
  keys.set(given, key)
  return key
}

function checkQuota(
  { upstream }: RelaySubject,
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

/** What is kept of an error with which a subscription ended. */
function fieldsOf({ code, message, rpc, extra: { data } }: GatewayError): Fields {
  return { code, message, rpc, ...(data && { data }) }
}

/** The error that was kept so. */
function errorIn({ code, message, rpc, data }: Fields): GatewayError {
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
    const late = new GatewayError('SERVER_UNAVAILABLE', 'The server did not list its events in time.')
    const outcome = await inTime(LIST_TIMEOUT_MS, late, (controller) =>
      invoker.relay(serverRequest({ upstream, method, params, controller })),
    )
    return outcome.kind === 'result' ? outcome.result.fields : {}
  }
}

/** The result of a request to a server, which is aborted with a reason if it takes too long. @throws GatewayError */
async function inTime<Result>(
  ms: number,
  reason: GatewayError,
  request: (controller: AbortController) => Promise<Result>,
): Promise<Result> {
  const timeout = world.timeoutSignal(ms)
  try {
    return await linked(timeout, request)
  } catch (error) {
    throw timeout.aborted ? reason : asGatewayError(error)
  }
}

/** The result of a request that a signal ends. */
async function linked<Result>(
  signal: AbortSignal,
  request: (controller: AbortController) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController()
  const abort = (): void => controller.abort(signal.reason)
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  try {
    return await request(controller)
  } finally {
    signal.removeEventListener('abort', abort)
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

// One subscription at a server

/** The name under which the log says that events of a subscription may be missing. It is no type of events. */
export const RELAY_GAP = 'relay_gap'
/** The same for the end of a subscription; its data is the error. */
export const RELAY_ENDED = 'relay_ended'

/** How a server delivers the events of a type to the gateway. */
type DeliveryMode = 'stream' | 'poll' | 'webhook'

/** How long a position at a server is kept while no client retains its events, in milliseconds. */
const POSITION_TTL_MS = 7 * 86_400_000
/** How long other gateways take a subscription as refused, in milliseconds: longer than until the next attempt. */
const REFUSAL_TTL_MS = 120_000
/** How long to wait before the next poll, at least and at most, in milliseconds. */
const MIN_POLL_MS = 1000
const MAX_POLL_MS = 3_600_000
/** How often a server is polled again at once at most, because it has more. */
const MAX_IMMEDIATE_POLLS = 100
/** After how much silence a stream counts as lost: heartbeats come every 30 s. */
const SILENCE_TIMEOUT_MS = 90_000
/** For how long the gateway subscribes by a webhook, and after which part of what is granted it does so again. */
const WEBHOOK_TTL_MS = 3_600_000
const RENEWAL_SHARE = 0.8
const MIN_RENEWAL_MS = 1000
/** What counts as granted if the clock of the server is behind, so that the grant seems to be over, in milliseconds. */
const UNKNOWN_GRANT_MS = 60_000
/** How often it checks whether the server ended a subscription by a message to another gateway, in milliseconds. */
const CALLBACK_CHECK_MS = 10_000
/** How long ending a subscription may take, in milliseconds. */
const UNSUBSCRIBE_TIMEOUT_MS = 5000
/** The delays after failures. */
const RETRIES: Backoff = { firstMs: 250, maxMs: 30_000 }
/** How many ids of events are remembered, to recognize events that are sent again. */
const MAX_KNOWN_IDS = 2000
/** How many notifications may wait until they are logged. */
const MAX_WAITING_NOTIFICATIONS = 1000
/** The largest data of an event, in characters of JSON. A larger event is a gap. */
const MAX_DATA_LENGTH = 256 * 1024

/** A subscription, and what its events go to. */
interface ReceivedSubscription {
  readonly deps: Deps
  readonly events: ServerEvents
  readonly subject: RelaySubject
  readonly mode: DeliveryMode
  readonly callbacks: ServerWebhooks
  /** The caller that asked first. */
  readonly by: string
}

/** Receives the events of one subscription while it is retained. */
class ServerSubscription implements Job {
  readonly #given: ReceivedSubscription
  readonly #key: string
  readonly #known = new Set<string>()
  #cursor: string | undefined
  #lease: Lease | undefined
  #refusal: GatewayError | undefined
  /** Whether the other gateways may take it as refused. */
  #isToldRefused = true
  #hasEnded = false

  constructor(given: ReceivedSubscription) {
    this.#given = given
    this.#key = subscriptionKey(given.subject)
  }

  get subject(): RelaySubject {
    return this.#given.subject
  }

  get by(): string {
    return this.#given.by
  }

  /**
   * Why the server does not serve the subscription, or cannot; undefined if it does, or is away. The gateway with the lease
   * tells the others. @throws SERVER_UNAVAILABLE
   */
  async refusal(): Promise<GatewayError | undefined> {
    if (this.#lease?.isHeld === true) return this.#refusal
    const told = readJson((await this.#given.deps.store.get(this.#refusalKey)) ?? '')
    return isObject(told) ? errorIn(told) : undefined
  }

  async run({ signal }: AbortController, onReady: () => void, lease: Lease): Promise<void> {
    this.#lease = lease
    const ready = (): void => {
      background(this.#tell(undefined), this.#given.deps.log)
      this.#hasEnded = false
      onReady()
    }
    const receive = { stream: this.#stream, poll: this.#poll, webhook: this.#subscribe }[this.#given.mode]
    let isRecalled = false
    for (let failures = 0; !signal.aborted; failures++) {
      const startedAt = world.now()
      try {
        // The log is long, and what this run added to it is known.
        if (!isRecalled) await this.#recall()
        isRecalled = true
        this.#cursor = await this.#given.deps.store.get(this.#storeKey)
        await receive.call(this, signal, ready)
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOfServer(thrown)
        this.#logFailure(error)
        // Clients would wait for events that cannot arrive.
        if (isFinal(error) || isCallbackFailure(error)) await this.#tell(error)
        if (isFinal(error)) return this.#end(error).catch(() => undefined)
        onReady()
      }
      if (world.now() - startedAt > RETRIES.maxMs) failures = 0
      await pause(delayBefore(failures, RETRIES), signal).catch(() => undefined)
    }
  }

  /** Ends the subscription at the server, which would send events until it expires. */
  async abandon(): Promise<void> {
    if (this.#given.mode !== 'webhook') return
    try {
      const delivery = { mode: 'webhook', url: this.#given.callbacks.urlOf(this.subject) }
      // Whatever the server answers: who comes back later learns that events may be missing.
      await this.#given.callbacks.forget(this.subject)
      await inTime(UNSUBSCRIBE_TIMEOUT_MS, lost('does not answer'), (controller) =>
        this.#request('events/unsubscribe', controller, { params: { delivery } }),
      )
    } catch (error) {
      this.#logFailure(errorOfServer(error))
    }
  }

  /**
   * Takes a message that the server sent to the webhook of the subscription.
   * @throws INVALID_REQUEST, SERVER_UNAVAILABLE if it cannot be logged
   */
  async accept(message: Fields): Promise<void> {
    const { type, name, data, cursor } = message
    if (type === 'terminated') return this.#end(terminationOf(message.error))
    if (type !== undefined && type !== 'gap') return
    if (type === undefined && (name !== this.subject.name || !isObject(data)))
      throw new GatewayError('INVALID_REQUEST', 'This is no event of the subscription.')
    if (!(await this.#given.events.isRetained())) return
    const entries = type === 'gap' ? [] : [this.#entryFor(message)]
    await this.#append(type === 'gap', entries, cursor)
  }

  #logFailure(error: GatewayError): void {
    const { upstream, name } = this.subject
    // Each outage is worth one warning if it is due to the address of the gateway.
    const isWorthKnowing = isCallbackFailure(error) && this.#refusal === undefined
    this.#given.deps.log[isWorthKnowing ? 'warn' : 'debug']('events.not_relayed', {
      upstream,
      type: name,
      reason: error.code,
      ...(isWorthKnowing && { message: error.message }),
    })
  }

  /** Learns which events an earlier process, or an earlier run, added to the log. */
  async #recall(): Promise<void> {
    this.#known.clear()
    // What a webhook brings is recognized by marks in the store, at whichever gateway it arrives.
    if (this.#given.mode === 'webhook') return
    for (let position: string | undefined; ;) {
      const page = await this.#given.events.log.read(position, 500)
      for (const { value } of page.entries) {
        const event = asEvent(value)
        if (event?.of === this.#key) this.#remember(event.id)
      }
      position = page.cursor
      if (!page.hasMore) return
    }
  }

  async #poll(signal: AbortSignal, ready: () => void): Promise<void> {
    let isNew = this.#cursor === undefined
    for (let immediate = 0; !signal.aborted;) {
      const result = await linked(signal, (controller) =>
        this.#request('events/poll', controller, { params: this.#position }),
      )
      const { events, cursor, truncated, hasMore, nextPollMs } = result
      await this.#keep(truncated === true || isNew, Array.isArray(events) ? events : [], cursor)
      isNew = false
      ready()
      if (hasMore === true && immediate++ < MAX_IMMEDIATE_POLLS) continue
      immediate = 0
      const wait = Math.min(Math.max(toDouble(nextPollMs) ?? 0, MIN_POLL_MS), MAX_POLL_MS)
      await pause(wait, signal).catch(() => undefined)
    }
  }

  /** Keeps the server sending to the webhook. Another gateway may have begun; then the server continues with it. */
  async #subscribe(signal: AbortSignal, ready: () => void): Promise<void> {
    while (!signal.aborted) {
      this.#cursor = await this.#given.deps.store.get(this.#storeKey)
      const isNew = this.#cursor === undefined && !(await this.#given.callbacks.isBound(this.subject))
      const delivery = await this.#given.callbacks.delivery(this.subject)
      const params = { delivery, cursor: this.#cursor ?? null, ttlMs: WEBHOOK_TTL_MS }
      const result = await linked(signal, (controller) =>
        this.#request('events/subscribe', controller, { params }),
      )
      const { id, refreshBefore, truncated, cursor } = result
      if (typeof id !== 'string') throw lost('gave the subscription no id')
      const until = grantedUntil(refreshBefore)
      await this.#given.callbacks.bind(this.subject, { id, until })
      await this.#keep(truncated === true || isNew, [], cursor)
      ready()
      const renewIn = Math.max((until - world.now()) * RENEWAL_SHARE, MIN_RENEWAL_MS)
      await this.#whileBound(world.now() + renewIn, signal)
    }
  }

  /** Waits until a time, or until the subscription ended. */
  async #whileBound(time: number, signal: AbortSignal): Promise<void> {
    for (let left = time - world.now(); left > 0; left = time - world.now()) {
      await pause(Math.min(left, CALLBACK_CHECK_MS), signal).catch(() => undefined)
      if (signal.aborted || !(await this.#given.callbacks.isBound(this.subject))) return
    }
  }

  /** Streams until the stream ends. @throws the error that the server ended it with */
  async #stream(signal: AbortSignal, ready: () => void): Promise<void> {
    await linked(signal, (controller) => this.#streamWith(controller, ready))
  }

  async #streamWith(controller: AbortController, ready: () => void): Promise<void> {
    const fail = (error: unknown): void => controller.abort(error)
    const silence = world.setTimeout(() => fail(lost('is silent')), SILENCE_TIMEOUT_MS).unref()
    const state = { isNew: this.#cursor === undefined, ready }
    let waiting: Notification[] = []
    let working: Promise<void> | undefined
    const work = async (): Promise<void> => {
      while (waiting.length > 0) {
        const batch = waiting
        waiting = []
        await this.#receive(batch, state)
      }
    }
    const emit = (note: Notification): void => {
      silence.refresh()
      if (waiting.length >= MAX_WAITING_NOTIFICATIONS)
        return fail(lost('sends events faster than they are kept'))
      waiting.push(note)
      working ??= work()
        .catch(fail)
        .finally(() => (working = undefined))
    }
    try {
      await this.#request('events/stream', controller, { params: this.#position, emit })
      await working
    } catch (error) {
      await working
      throw controller.signal.aborted ? controller.signal.reason : error
    } finally {
      world.clearTimeout(silence)
    }
    if (controller.signal.aborted) throw controller.signal.reason
  }

  /** Handles notifications of a stream in their order. @throws the error that ends the subscription */
  async #receive(
    notes: readonly Notification[],
    state: { isNew: boolean; readonly ready: () => void },
  ): Promise<void> {
    let events: unknown[] = []
    let cursor: unknown
    const flush = async (): Promise<void> => {
      await this.#keep(false, events, cursor)
      events = []
      cursor = undefined
    }
    for (const { method, params } of notes) {
      const fields = params?.fields ?? {}
      switch (method) {
        case 'notifications/events/active':
          await flush()
          await this.#keep(fields.truncated === true || state.isNew, [], fields.cursor)
          state.isNew = false
          state.ready()
          break
        case 'notifications/events/event':
          events.push(fields)
          cursor = fields.cursor ?? cursor
          break
        case 'notifications/events/heartbeat':
          cursor = fields.cursor ?? cursor
          break
        case 'notifications/events/terminated':
          await flush()
          throw terminationOf(fields.error)
        default:
        // One failure of the server, which continues: `notifications/events/error`.
      }
    }
    await flush()
  }

  /** Where the next request to the server continues. */
  get #position(): Fields {
    return { cursor: this.#cursor ?? null }
  }

  async #request(
    method: `events/${'poll' | 'stream' | 'subscribe' | 'unsubscribe'}`,
    controller: AbortController,
    { params: own, emit }: { readonly params: Fields; readonly emit?: (note: Notification) => void },
  ): Promise<Fields> {
    const { invoker } = this.#given.deps
    const { upstream, name, arguments: given } = this.subject
    const params = { name, arguments: given, ...own }
    const request = { upstream, method, params, controller, ...(emit && { emit }) }
    const outcome = await invoker.relay(serverRequest(request))
    return outcome.kind === 'result' ? outcome.result.fields : {}
  }

  /** Logs a gap and events, then stores the position behind them. @throws SERVER_UNAVAILABLE */
  async #keep(isGap: boolean, given: readonly unknown[], cursor: unknown): Promise<void> {
    const entries = this.#newEntries(given)
    await this.#append(isGap, [...entries.values()], cursor)
    for (const id of entries.keys()) this.#remember(id)
  }

  async #append(isGap: boolean, entries: readonly LoggedEvent[], cursor: unknown): Promise<void> {
    const all = isGap ? [this.#entry(RELAY_GAP, {}), ...entries] : entries
    if (all.length > 0) await this.#given.events.append(all)
    if (typeof cursor !== 'string' || cursor === this.#cursor) return
    await this.#given.deps.store.put(this.#storeKey, cursor, POSITION_TTL_MS)
    this.#cursor = cursor
  }

  /** The events of the server that are not in the log, by id. */
  #newEntries(given: readonly unknown[]): ReadonlyMap<string, LoggedEvent> {
    const entries = new Map<string, LoggedEvent>()
    for (const each of given) {
      if (!isObject(each) || !isObject(each.data)) continue
      const id = idOf(each)
      if (!this.#known.has(id) && !entries.has(id)) entries.set(id, this.#entryFor(each))
    }
    return entries
  }

  #entryFor(given: Fields): LoggedEvent {
    const { upstream, name } = this.subject
    const id = idOf(given)
    if (JSON.stringify(given.data).length > MAX_DATA_LENGTH) return { ...this.#entry(RELAY_GAP, {}), id }
    // The tool that an event is about is unknown: every rule applies.
    const data = masked(this.#given.deps, given.data, { upstream, method: 'subscriptions/listen' })
    const at = typeof given.timestamp === 'string' ? Date.parse(given.timestamp) : Number.NaN
    return { ...this.#entry(name, asObject(data)), id, ...(Number.isFinite(at) && { at }) }
  }

  #entry(name: string, data: Fields): LoggedEvent {
    return { id: newEventId(), name, at: world.now(), of: this.#key, data }
  }

  #remember(id: string): void {
    this.#known.add(id)
    if (this.#known.size <= MAX_KNOWN_IDS) return
    const [oldest] = this.#known
    if (oldest !== undefined) this.#known.delete(oldest)
  }

  /**
   * The server ended the subscription, or never began it. A later one begins anew. Without its store the gateway cannot
   * deliver events either: those who wait for them learn of that. @throws SERVER_UNAVAILABLE
   */
  async #end(error: GatewayError): Promise<void> {
    if (this.#hasEnded) return
    await this.#given.events.append([this.#entry(RELAY_ENDED, fieldsOf(error))])
    this.#hasEnded = true
    await this.#given.deps.store.delete(this.#storeKey)
    if (this.#given.mode === 'webhook') await this.#given.callbacks.forget(this.subject)
  }

  /** Keeps why the server refuses the subscription, also for the other gateways; undefined if it serves it. Never rejects. */
  async #tell(refusal: GatewayError | undefined): Promise<void> {
    this.#refusal = refusal
    if (refusal === undefined && !this.#isToldRefused) return
    this.#isToldRefused = refusal !== undefined
    const { store } = this.#given.deps
    const told = refusal
      ? store.put(this.#refusalKey, JSON.stringify(fieldsOf(refusal)), REFUSAL_TTL_MS)
      : store.delete(this.#refusalKey)
    // Without their store, the others deliver nothing either.
    await Promise.resolve(told).catch(() => undefined)
  }

  get #refusalKey(): string {
    return `event-refusal:${this.subject.upstream}:${this.#key}`
  }

  get #storeKey(): string {
    return `event-position:${this.subject.upstream}:${this.#key}`
  }
}

/** Until when a server keeps a subscription, in milliseconds since 1970; without an end it is renewed all the same. */
function grantedUntil(refreshBefore: unknown): number {
  const now = world.now()
  const granted = typeof refreshBefore === 'string' ? Date.parse(refreshBefore) : Number.NaN
  if (Number.isNaN(granted)) return now + WEBHOOK_TTL_MS
  return granted > now ? granted : now + UNKNOWN_GRANT_MS
}

/** The id of an event: that of the server if it can be sent in a header, else made of it. */
function idOf(event: Fields): string {
  const { eventId } = event
  if (typeof eventId === 'string' && /^[\u0021-\u007e]{1,200}$/.test(eventId)) return eventId
  return `evt_${hash('sha256', exactly(eventId ?? event), 'base64url').slice(0, 22)}`
}

function lost(why: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', `The stream of events was given up: the server ${why}.`)
}
