/**
 * The connections of one server: its route (era, revision, transport) is negotiated once, kept while the server behaves
 * accordingly, and negotiated again after a permanent failure. Connections are pooled by what the isolation setting
 * separates, or belong to one client (`ClientConnection`).
 */
import { type ClientConnection, CONTEXT_LOST, connectionSlot } from '../core/slot.ts'
import { hash } from 'node:crypto'
import { world, type Timer } from '../core/world.ts'
import type { Call, Client } from '../core/call.ts'
import type { Quota } from '../core/descriptor.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import type { ExchangeMeter } from '../core/exchange.ts'
import { canonical } from '../core/json/json.ts'
import { type Log, background } from '../core/log.ts'
import type { FindProxy } from '../core/proxy.ts'
import { exchangesTokens, type UpstreamSettings } from '../core/settings.ts'
import { type MayKeep, withoutReservedKeys } from '../protocol/meta-keys.ts'
import { findRevision } from '../core/revisions.ts'
import { beforeCall, isPassing, Reachability } from './failures.ts'
import { Eras, type OpenRoute, TRIAL_TIMEOUT_MS, negotiateHttp, type Route } from './negotiate.ts'
import { StdioNegotiator } from './negotiate-stdio.ts'
import { type NoteStore, ProbeNotes } from './probe-notes.ts'
import type { Credentials } from './oauth/credentials.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { proofFor } from './protocol/gateway-proof.ts'
import { PlacedConnection } from './placement/connection.ts'
import { isElsewhere, type Place, type Placement, relayedSlot, type There } from './placement/placement.ts'
import { handshakeParams, LegacyConnection } from './protocol/legacy.ts'
import { ModernConnection } from './protocol/modern.ts'
import { isOfCredentials, type Login } from './transport/auth-retry.ts'
import { LastLines, type Variables } from './transport/child.ts'
import { createHttpClient, UpstreamQuota } from './transport/http-client.ts'
import type { MessageRedactor } from './transport/redactor.ts'
import { stdioConnect } from './transport/stdio.ts'
import type { OpenTransport, StepTimeout, TransportInterceptor } from './transport/transport.ts'
import { hasReachedShare, type Principal } from '../core/principal.ts'

/** How a server is reached, as far as known. */
export interface Status {
  /** The era and revision in use, once known. */
  readonly era?: 'legacy' | 'modern'
  readonly revision?: string
  /** The revision of legacy connections, if some clients use (or used) them next to modern ones. */
  readonly olderRevision?: string
  readonly connections: number
  /** The process that runs it, if that is another one. */
  readonly placedIn?: string
  /** Why the last connection attempt failed. */
  readonly problem?: string
  /** The last lines its process wrote to standard error before that. They are for operators, not for callers. */
  readonly stderr?: readonly string[]
}

interface ConnectorOptions {
  /** The environment variables passed to child processes. */
  readonly variables: Variables
  /** The proxies for requests to the server. */
  readonly proxies: FindProxy
  /** Where is remembered how a server is started. */
  readonly store: NoteStore
  readonly credentials: Credentials | undefined
  readonly redactor: MessageRedactor
  /** Applied to each connection; not to the probes that find out the era. */
  readonly intercept?: TransportInterceptor | undefined
  /** Counts what is sent, and the sessions. */
  readonly meter?: ExchangeMeter | undefined
  /** Finds out which process runs the server; absent if this one does. */
  readonly placement?: Placement | undefined
  /** Called when the tools of the server may have changed. */
  onToolsChanged?(): void
  readonly log: Log
}

interface Key {
  readonly route: Route
  readonly call: Call
  readonly login: Login | undefined
  /** Set while it is unknown whether the server accepts this route. */
  readonly isTrial: boolean
  /** Aborted at the end of the start timeout. */
  readonly deadline: AbortSignal
}

/** Opens the connections of one server and knows how it is reached. */
export class Connector {
  readonly reachability = new Reachability()
  readonly #isUrl: boolean
  readonly #credentials: Credentials | undefined
  readonly #redactor: MessageRedactor
  readonly #closed = new AbortController()
  readonly #timeout: StepTimeout
  readonly #quota: UpstreamQuota | undefined
  readonly #stderr: LastLines
  readonly #negotiate: Negotiate
  readonly #pool: Pool<Key>
  readonly #eras: Eras
  readonly #placement: Placement | undefined
  readonly #nameOf: (call: Call, route: Route) => string
  readonly #ownNameOf: (call: Call, id: string) => string
  /** The negotiation in progress or its result, where it is the same for all callers. */
  #negotiated: Promise<Route> | undefined
  #route: Route | undefined
  /** Where the connections are; undefined before the first one, and if the server is not placed. */
  #place: Place | undefined
  #problem: string | undefined
  #hasAnswered = false
  #olderRevision: string | undefined
  /** Set once the server turns out to keep nothing for a connection, so that clients need none of their own. */
  #isStateless = false

  constructor(settings: UpstreamSettings, options: ConnectorOptions) {
    const { credentials, redactor, log } = options
    this.#isUrl = settings.reach.kind === 'url'
    this.#credentials = credentials
    this.#redactor = redactor
    this.#placement = options.placement
    this.#timeout = () => AbortSignal.any([world.timeoutSignal(settings.startTimeout), this.#closed.signal])
    this.#quota = this.#isPersonal ? undefined : new UpstreamQuota()
    this.#stderr = new LastLines(redactor.text)
    this.#negotiate = this.#negotiator(settings, options)
    this.#pool = new Pool<Key>({
      idle: settings.idle,
      open: (key) => this.#openConnection(key, settings, options),
      owner: ({ call }) => call.principal,
      // One caller's credentials, or an era the server does not have, are no problem for other callers.
      failurePause: this.#isUrl ? URL_FAILURE_PAUSE_MS : FAILURE_PAUSE_MS,
      // The other process counts those of a placed server.
      isFailure: (error, { isTrial, route }) => !isTrial && !route.there && !isOfCredentials(error),
      log,
    })
    this.#eras = new Eras(log)
    this.#nameOf = connectionNames(settings)
    this.#ownNameOf = clientConnectionNames(settings)
  }

  /** The open connection for a call, which nearly every call has. */
  ready(call: Call): UpstreamConnection | undefined {
    if (this.#placement && !this.#isPlaceKnown(call)) return undefined
    const route = this.#route && this.#eras.route(call.client, this.#route)
    return route && this.#pool.ready(this.#nameFor(call, route))
  }

  /** The connection for a call, opened where there is none. @throws SERVER_UNAVAILABLE, OVERLOADED, CONFLICT */
  async connect(call: Call): Promise<UpstreamConnection> {
    if (this.#placement) {
      const place = await this.#placement.find().catch((error: unknown) => {
        this.#recordFailure(error)
        throw error
      })
      this.#moveTo(place)
      // The other process opens the connection of a client.
      if (isElsewhere(call, place)) return this.#open(call)
    }
    const own = connectionSlot.of(call)
    return !own || this.#isStateless ? this.#open(call) : this.#openOwn(call, own)
  }

  /** Whether the connections are where the server is. What came to another process is not sent on. */
  #isPlaceKnown(call: Call): boolean {
    const place = this.#placement?.current
    return place !== undefined && place === this.#place && !(place.kind === 'there' && relayedSlot.of(call))
  }

  #moveTo(place: Place): void {
    if (place === this.#place) return
    this.#place = place
    this.#forgetRoute()
    this.#route = place.kind === 'there' ? placedRoute(place) : undefined
  }

  /** The server is not where it was: ends all connections, by force if another process may start it soon. */
  async leave(isByForce: boolean): Promise<void> {
    this.#place = undefined
    this.#forgetRoute()
    if (isByForce) for (const connection of this.#pool.connections) connection.kill?.()
    await this.#pool.empty()
  }

  /** The connection of one client. If it is lost, all its calls get the same new one. @throws CONFLICT */
  async #openOwn(call: Call, own: ClientConnection): Promise<UpstreamConnection> {
    const isLost = own.isKnown && !this.#pool.has(this.#ownNameOf(call, own.id))
    const id = isLost ? hash('sha256', own.id) : own.id
    const opened = await this.#open(connectionSlot.set(call, { ...own, id }))
    this.#isStateless = this.#isUrl && (opened.era === 'modern' || !opened.canAsk)
    if (this.#isStateless) return opened
    if (isLost || !own.isKnown) own.onOpen({ id, isLost })
    if (isLost && !own.mayReplace) throw contextLost()
    return opened
  }

  async #open(call: Call): Promise<UpstreamConnection> {
    const deadline = this.#timeout()
    try {
      const own = this.#credentials?.login(call.principal)
      const login = own && this.#redactor.learning(own)
      const newest = this.#route ?? (await this.#findRoute(call, login, deadline))
      this.#route = newest
      // A process has the whole time, however long another one took before.
      const opening = this.#isUrl ? deadline : this.#timeout()
      const openRoute: OpenRoute = (route, isTrial) =>
        this.#pool.get(this.#nameFor(call, route), { route, call, login, isTrial, deadline: opening })
      const connection = await this.#eras.connect(call, newest, openRoute)
      if (connection.era !== newest.era && !newest.there) this.#olderRevision = connection.revision
      this.#problem = undefined
      this.#hasAnswered = true
      this.reachability.set(true)
      return connection
    } catch (thrown) {
      const error = this.#redactor.error(beforeCall(thrown))
      this.#recordFailure(error)
      throw error
    }
  }

  /** The remaining rate limit the server reports; unknown where it has one for each user. */
  get quota(): Quota | undefined {
    return this.#quota?.last
  }

  /** Whether the server could be reached at least once. */
  get hasAnswered(): boolean {
    return this.#hasAnswered
  }

  get status(): Status {
    const { era, revision } = this.#route ?? {}
    const { connections } = this.#pool
    const current = connections.find((connection) => connection.era === era)?.revision ?? revision
    const { all: stderr } = this.#stderr
    if (this.#place?.kind === 'there') return this.#placedStatus(this.#place)
    return {
      // The revision can be configured, so it may be known before the server has ever answered.
      ...(this.#hasAnswered && era && current !== undefined && { era, revision: current }),
      ...(this.#olderRevision !== undefined && { olderRevision: this.#olderRevision }),
      connections: connections.length,
      ...(this.#problem !== undefined && { problem: this.#problem, ...(stderr.length > 0 && { stderr }) }),
    }
  }

  #placedStatus({ process }: There): Status {
    const [first] = this.#pool.connections
    return {
      ...(first && { era: first.era, revision: first.revision }),
      connections: this.#pool.connections.length,
      ...(this.#problem !== undefined && { problem: this.#problem }),
      placedIn: process,
    }
  }

  /** The last lines that its process wrote to standard error, without secrets. */
  get lastLines(): readonly string[] {
    return this.#stderr.all
  }

  /** The processes of the open connections. */
  get processes(): readonly number[] {
    return this.#pool.connections.flatMap(({ pid }) => pid ?? [])
  }

  /** Ends all connections, and forgets failures and how the server is reached: the next call opens a new one at once. */
  async restart(): Promise<void> {
    this.#problem = undefined
    if (this.#place?.kind === 'there') return this.#place.restart()
    this.#forgetRoute()
    await this.#pool.empty()
  }

  async close(): Promise<void> {
    this.#closed.abort(beingClosed())
    await this.#pool.close()
  }

  #nameFor(call: Call, route: Route): string {
    if (route.there)
      return `placed ${call.client.era} ${connectionSlot.of(call)?.id} ${this.#nameOf(call, route)}`
    const own = connectionSlot.of(call)
    return own && !this.#isStateless ? this.#ownNameOf(call, own.id) : this.#nameOf(call, route)
  }

  get #isPersonal(): boolean {
    return this.#credentials?.isPersonal === true
  }

  #negotiator(
    settings: UpstreamSettings,
    { variables, proxies, store, intercept, log }: ConnectorOptions,
  ): Negotiate {
    const { reach } = settings
    const [quota, stepTimeout] = [this.#quota, this.#timeout]
    if (reach.kind === 'command') {
      const connect = stdioConnect(reach, variables, { log, lastLines: this.#stderr })
      const notes = new ProbeNotes(store, reach, log)
      const isIntercepted = intercept !== undefined
      const stdio = new StdioNegotiator(settings, { connect, notes, isIntercepted, stepTimeout, log })
      const pinned = findRevision(settings.revision)
      return (call) =>
        stdio.negotiate(
          handshakeParams({ ...clientOf(call, settings), ...(pinned && { revision: pinned.name }) }),
          (start) => this.#pool.counted(start),
        )
    }
    const url = new URL(reach.url)
    const headers: Record<string, string> = {}
    for (const [name, value] of Object.entries(reach.headers)) headers[name.toLowerCase()] = value.reveal()
    const client = createHttpClient(url, headers, proxies(url))
    return (_call, login, deadline) =>
      negotiateHttp(settings, { ...client, quota, login }, { stepTimeout, deadline, log })
  }

  #openConnection(
    { route, call, login, isTrial, deadline }: Key,
    settings: UpstreamSettings,
    { redactor, intercept = (open) => open, meter, onToolsChanged, log }: ConnectorOptions,
  ): Promise<UpstreamConnection> {
    const { revision, mirrors, there } = route
    if (there) return PlacedConnection.open(there, call, this.#timeout)
    // The handshake uses the rest of the start timeout; each later step has a timeout of its own.
    let isOpen = false
    let current: UpstreamConnection | undefined
    const starting = isTrial ? AbortSignal.any([world.timeoutSignal(TRIAL_TIMEOUT_MS), deadline]) : deadline
    const stepTimeout = (): AbortSignal => (isOpen ? this.#timeout() : starting)
    const context = { meter, log, stepTimeout, ...(onToolsChanged && { onToolsChanged }) }
    const opened = <Opened extends UpstreamConnection>(connection: Opened): Opened => {
      isOpen = true
      current = connection
      return connection
    }
    const open: OpenTransport = (receiver) => {
      const closed = (error: Error): void => {
        const isLost = current?.isClosed === false
        receiver.closed(error)
        if (isLost) this.#connectionLost()
        // Another process of the server may have others.
        if (isLost) onToolsChanged?.()
      }
      return route.connect({ ...receiver, closed }, login)
    }
    const received = redactor.receiving(intercept(open, { settings, era: route.era }))
    // A server that proved to be the configured gateway may send statements of its own.
    const mayKeep = settings.gatewayKey === undefined ? undefined : () => true
    const connect: OpenTransport = admitting(received, log, mayKeep)
    const { roots } = settings
    if (route.era === 'modern')
      return ModernConnection.open({
        connect,
        revision,
        mirrors,
        proof: proofFor(settings),
        ...context,
      }).then(opened)
    return LegacyConnection.open({
      connect,
      ...clientOf(call, settings),
      revision,
      proof: () => proofFor(settings),
      ...context,
      ...(Array.isArray(roots) && { roots }),
      ...(connectionSlot.of(call) && { keepsContext: true }),
    }).then(opened)
  }

  /** One caller's failed credentials say nothing about another's, so personal negotiations are not shared. */
  #findRoute(call: Call, login: Login | undefined, deadline: AbortSignal): Promise<Route> {
    if (this.#isPersonal) return this.#negotiate(call, login, deadline)
    this.#negotiated ??= this.#negotiate(call, login, deadline)
    return this.#negotiated
  }

  /** A server with other open connections can still be reached. */
  #connectionLost(): void {
    if (!this.#closed.signal.aborted && this.#pool.connections.length === 0) this.reachability.set(false)
  }

  #recordFailure(error: unknown): void {
    const { message, extra } = asGatewayError(error)
    if (!this.#closed.signal.aborted) this.reachability.failed(error)
    this.#problem = this.#redactor.text(extra.forOperator ?? message)
    // A route that turned out to be wrong is negotiated again by the next call.
    if ((!this.#route || !isPassing(error)) && !this.#route?.there) this.#forgetRoute()
  }

  #forgetRoute(): void {
    this.#negotiated = this.#route = undefined
    this.#isStateless = false
    this.#eras.forget()
  }
}

/** How calls reach a server in another process: as they are. */
function placedRoute(there: There): Route {
  const connect = (): Promise<never> => Promise.reject(new TypeError('the other process has the transport'))
  return { era: 'legacy', revision: '', mirrors: false, connect, there }
}

type Negotiate = (call: Call, login: Login | undefined, deadline: AbortSignal) => Promise<Route>

/** The client as legacy servers see it. */
function clientOf(call: Call, settings: UpstreamSettings) {
  const isOwn = settings.isolation === 'per_client' || connectionSlot.of(call) !== undefined
  const { info } = call.client
  return { capabilities: declared(call, settings), ...(isOwn && info && { clientInfo: info }) }
}

// Filters the messages of a server. Members reserved for the gateway are removed here, for every transport and era, so
// that no later code has to check who wrote them. A server trusted as a peer gateway may keep names through `mayKeep`;
// this is the only place with such an exception.

/** The maximum number of logged names per connection, so that a server cannot flood the log. */
const MAX_LOGGED_NAMES = 10

const HINT = 'if the server is one of your own gateways, set its key with gateway_key (or --gateway-key)'

/** Opens connections whose messages arrive without reserved members. */
function admitting(connect: OpenTransport, log: Log, mayKeep?: MayKeep): OpenTransport {
  return (receiver) => {
    const logged = new Set<string>()
    const note = (removed: readonly string[]): void => {
      const unseen = removed.filter((item) => !logged.has(item)).slice(0, MAX_LOGGED_NAMES - logged.size)
      for (const item of unseen) logged.add(item)
      if (unseen.length > 0) log.warn('upstream.reserved_members', { members: unseen, hint: HINT })
    }
    return connect({
      ...receiver,
      receive: (arrived, about, isRedacted) => {
        const { text, removed } = withoutReservedKeys(arrived, mayKeep)
        if (removed.length > 0) note(removed)
        receiver.receive(text, about, isRedacted)
      },
    })
  }
}

/**
 * Connections are shared by name: one era, one caller, in the legacy era one set of capabilities, and one token if it
 * is exchanged for the token of the server.
 */
function connectionNames(settings: UpstreamSettings): (call: Call, route: Route) => string {
  const { isolation, roots } = settings
  // All calls of a session have the same client object.
  const known = new WeakMap<Client, string>()
  const nameFor = (call: Call): string => {
    // A server keeps the roots it received, so those of one client must not serve another.
    const isOwn =
      isolation === 'per_client' || (roots === 'client' && call.client.capabilities.roots !== undefined)
    const client = isOwn ? (call.client.session ?? '') : ''
    return `older ${canonical(declared(call, settings))} ${client} ${call.principal.id}`
  }
  const named = (call: Call, { era }: Route): string => {
    if (isolation === 'shared') return ''
    // The name contains the era before anything a caller chooses, so that it cannot equal a name of the other era.
    if (era === 'modern')
      return isolation === 'auto'
        ? `newer ${call.principal.id}`
        : `newer ${call.principal.id} ${call.client.session}`
    const found = known.get(call.client)
    if (found !== undefined) return found
    const name = nameFor(call)
    known.set(call.client, name)
    return name
  }
  if (!isExchanging(settings)) return named
  return (call, route) => `${call.principal.token?.digest ?? ''} ${named(call, route)}`
}

/** The names of connections of one client. They differ from all others: the id is secret. */
function clientConnectionNames(settings: UpstreamSettings): (call: Call, id: string) => string {
  const isOfToken = isExchanging(settings)
  return ({ principal }, id) => `own ${id} ${isOfToken ? principal.token?.digest : ''} ${principal.id}`
}

/** Whether the token of a caller is exchanged for one of the server, which the connection keeps. */
function isExchanging({ reach }: UpstreamSettings): boolean {
  return reach.kind === 'url' && reach.oauth !== undefined && exchangesTokens(reach.oauth)
}

/** The call was not sent: what it relies on is gone, and what it would do elsewhere is unknown. */
function contextLost(): GatewayError {
  return new GatewayError(
    'CONFLICT',
    'The context of this session on the server was lost, so the call was not made.',
    {
      reason: CONTEXT_LOST,
      suggestion:
        'A new context is open. Do again what this call relies on, then make the call with the new session_state.',
      isUnsent: true,
      isResult: true,
    },
  )
}

/** The client capabilities sent to a legacy server: exactly the client's own, with roots only if configured. */
function declared(call: Call, { isolation, roots }: UpstreamSettings): Readonly<Record<string, unknown>> {
  const { roots: offered, tasks, ...rest } = call.client.capabilities
  const isShared = isolation === 'shared' && !connectionSlot.of(call)
  const own = isShared ? {} : rest
  const clientTasks = tasks !== undefined && call.client.era === 'legacy' && !isShared ? { tasks } : {}
  if (Array.isArray(roots)) return { ...own, ...clientTasks, roots: {} }
  const passed = roots === 'client' && offered !== undefined && !isShared ? { roots: offered } : {}
  return { ...own, ...clientTasks, ...passed }
}

/*
 * The connections of one server by owner: bounded, closed when idle, and not reopened immediately after repeated
 * failures.
 */

interface Options<Key> {
  /** The idle timeout of a connection, in milliseconds. */
  readonly idle: number
  open(key: Key): Promise<UpstreamConnection>
  /** How long no connection is opened after too many failures, in milliseconds. */
  readonly failurePause: number
  /** The owner of a connection. */
  owner(key: Key): Principal
  /** Whether a failure to open a connection counts as a failure of the server. */
  isFailure(error: unknown, key: Key): boolean
  readonly log: Log
}

interface Entry {
  readonly owner: Principal
  readonly connection: Promise<UpstreamConnection>
  settled: UpstreamConnection | undefined
  usedAt: number
}

/** The maximum number of connections of one server. */
const MAX_CONNECTIONS = 64
/** The number of failures within a minute after which starts are paused. */
const MAX_FAILURES = 5
const FAILURE_WINDOW_MS = 60_000
const FAILURE_PAUSE_MS = 30_000
/** The same for a server that is not started by the gateway, in milliseconds. */
const URL_FAILURE_PAUSE_MS = 2000

/** The open connections to one server, by the name that distinguishes them. */
export class Pool<Key> {
  readonly #options: Options<Key>
  readonly #entries = new Map<string, Entry>()
  readonly #reaper: Timer
  #failures: number[] = []
  #isClosed = false

  constructor(options: Options<Key>) {
    this.#options = options
    this.#reaper = world
      .setInterval(() => this.#reap(), Math.max(100, Math.min(options.idle / 2, 30_000)))
      .unref()
  }

  get connections(): UpstreamConnection[] {
    return [...this.#entries.values()].flatMap(({ settled }) =>
      settled && !settled.isClosed ? [settled] : [],
    )
  }

  /** The open connection of a name, which nearly every call has. */
  ready(name: string): UpstreamConnection | undefined {
    const entry = this.#entries.get(name)
    if (!entry?.settled || entry.settled.isClosed) return undefined
    entry.usedAt = world.now()
    return entry.settled
  }

  /** Whether there is an open connection of a name, or one is being opened. */
  has(name: string): boolean {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.settled?.isClosed !== true
  }

  /** The connection for a key, opened if there is none. @throws SERVER_UNAVAILABLE, OVERLOADED */
  get(name: string, key: Key): Promise<UpstreamConnection> {
    const entry = this.#entries.get(name)
    if (entry && entry.settled?.isClosed !== true) {
      entry.usedAt = world.now()
      return entry.connection
    }
    if (entry) {
      this.#entries.delete(name)
      this.#countEnd(entry)
    }
    return this.#open(name, key)
  }

  /** Does something before a connection that starts a server, and counts its failure as one to open a connection. */
  async counted<Value>(start: () => Promise<Value>): Promise<Value> {
    const refusal = this.#refusal()
    if (refusal) throw refusal
    try {
      return await start()
    } catch (error) {
      this.#fail()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    world.clearInterval(this.#reaper)
    await this.empty()
  }

  /** Ends all connections, whatever runs on them. Failures so far delay no new one. */
  async empty(): Promise<void> {
    const entries = [...this.#entries.values()]
    this.#entries.clear()
    this.#failures = []
    await Promise.allSettled(entries.map(async ({ connection }) => (await connection).close()))
  }

  #open(name: string, key: Key): Promise<UpstreamConnection> {
    const refusal = this.#refusal()
    if (refusal) return Promise.reject(refusal)
    const owner = this.#options.owner(key)
    const hasFullShare = hasReachedShare(owner, this.#entries, (item) => item.owner.id, MAX_CONNECTIONS)
    if (hasFullShare && !this.#closeIdlest(owner)) {
      return Promise.reject(
        new GatewayError('OVERLOADED', 'Too many clients of this caller use this server at the same time.'),
      )
    }
    if (this.#entries.size >= MAX_CONNECTIONS && !this.#closeIdlest()) {
      return Promise.reject(
        new GatewayError('OVERLOADED', 'Too many clients use this server at the same time.'),
      )
    }
    const connection = this.#options.open(key)
    const entry: Entry = { owner, connection, settled: undefined, usedAt: world.now() }
    this.#entries.set(name, entry)
    entry.connection.then(
      (connection) => {
        entry.settled = connection
        // The pool was closed while the connection was opening.
        if (this.#isClosed) background(connection.close(), this.#options.log)
      },
      (error: unknown) => {
        if (this.#entries.get(name) === entry) this.#entries.delete(name)
        if (this.#options.isFailure(error, key)) this.#fail()
      },
    )
    return entry.connection
  }

  /** Why nothing is started now. */
  #refusal(): GatewayError | undefined {
    if (this.#isClosed) return beingClosed()
    const pause = this.#pause()
    if (pause === 0) return undefined
    const seconds = Math.ceil(pause / 1000)
    const message = `The server ended or failed ${MAX_FAILURES} times within a minute; it is tried again in ${seconds} s.`
    return new GatewayError('SERVER_UNAVAILABLE', message, { retryAfterSeconds: seconds, isUnsent: true })
  }

  /** A connection that ended by itself is a failure, unless its server only forgot its session. */
  #countEnd({ settled }: Entry): void {
    if (settled?.isClosed === true && settled.hasLostSession !== true) this.#fail()
  }

  #fail(): void {
    const now = world.now()
    this.#failures = [...this.#failures.filter((at) => at > now - FAILURE_WINDOW_MS), now]
  }

  /** The remaining pause before the next start, in milliseconds. */
  #pause(): number {
    const now = world.now()
    const recent = this.#failures.filter((at) => at > now - FAILURE_WINDOW_MS)
    const last = recent.at(-1)
    return last !== undefined && recent.length >= MAX_FAILURES
      ? Math.max(0, last + this.#options.failurePause - now)
      : 0
  }

  /** Closes the connection that was idle the longest, of one caller if given. */
  #closeIdlest(of?: Principal): boolean {
    const unused = [...this.#entries].filter(
      ([, { owner, settled }]) => settled && !settled.isBusy && (of === undefined || owner.id === of.id),
    )
    const [oldest] = unused.toSorted(([, one], [, other]) => one.usedAt - other.usedAt)
    if (!oldest) return false
    this.#drop(...oldest)
    return true
  }

  #reap(): void {
    const before = world.now() - this.#options.idle
    for (const [name, entry] of this.#entries) {
      if (entry.settled?.isClosed || (entry.settled?.isBusy === false && entry.usedAt < before))
        this.#drop(name, entry)
    }
  }

  #drop(name: string, entry: Entry): void {
    this.#entries.delete(name)
    this.#countEnd(entry)
    background(
      entry.connection.then((connection) => connection.close()),
      this.#options.log,
    )
  }
}

/** The error for calls to a server that is being closed. */
function beingClosed(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The connection to this server is being closed.', {
    isUnsent: true,
  })
}
