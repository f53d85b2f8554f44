/**
 * One server of the configuration: runs its calls, keeps its subscriptions open across reconnects, reports its status, and
 * closes gracefully.
 */
import { ServerFindings } from '../core/findings.ts'
import { connectionSlot, contextSlot, lastKnownSlot, type ServerContext } from '../core/slot.ts'
import { LRUCache } from 'lru-cache'
import { isDeepStrictEqual } from 'node:util'
import { isoTime, pause } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import {
  type Call,
  compose,
  type Handler,
  type Notification,
  type Outcome,
  type Middleware,
} from '../core/call.ts'
import type { Quota } from '../core/descriptor.ts'
import { asGatewayError, GatewayError, isUnanswered } from '../core/error.ts'
import type { ExchangeMeter } from '../core/exchange.ts'
import type { HeldMemory } from '../core/holdings.ts'
import { type Log, background } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { type FindProxy, noProxy, proxyOf } from '../core/proxy.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { Redactor, secretsOf } from '../core/text/redactor.ts'
import { revealed } from '../core/text/secret.ts'
import { method } from '../protocol/methods.ts'
import { common } from '../protocol/dialects.ts'
import { ownCall } from '../protocol/lift.ts'
import { checkedDeclaration, checkedPage, entriesOf } from '../protocol/server-shapes.ts'
import { Connector, type Status } from './connector.ts'
import { LastLists, type ListStore } from './last-lists.ts'
import {
  asOurs,
  isAway,
  isSessionLost,
  requireContext,
  NegativeCache,
  relayedFrom,
  isPassing,
  type Reachability,
} from './failures.ts'
import { createCredentials, type Credentials, type OAuthSite, type UserSignIns } from './oauth/credentials.ts'
import { isMoved, type PlacedServer, type Placement, relayedSlot } from './placement/placement.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { expired, isWaiting, suspendable, type UpstreamCall } from './suspended-calls.ts'
import type { ListedTool } from '../protocol/found-tool.ts'
import { boundedPage, type FindTool, toolNames, unlistedTool } from './tool-index.ts'
import { isOfCredentials } from './transport/auth-retry.ts'
import type { Variables } from './transport/child.ts'
import { type MessageRedactor, createMessageRedactor } from './transport/redactor.ts'
import type { TransportInterceptor } from './transport/transport.ts'
import { type AttemptResult, type Backoff, delayBefore, ReopenDelays, retry } from '../core/time/backoff.ts'
import { isObject } from '../core/json/json.ts'
import { excerpt } from '../core/text/redact.ts'
import { ACKNOWLEDGED, asksFor, readFilter, reportedChanges } from '../protocol/subscription-filter.ts'

/** An upstream server. */
export interface Upstream {
  readonly name: string
  readonly settings: UpstreamSettings
  /** Runs a call at the server. */
  readonly handle: Handler
  /** The same including hidden tools, to check the configuration that refers to them. */
  readonly handleWithHidden: Handler
  /** Tools whose new name the server also lists itself, with that name. */
  readonly takenNames: ReadonlyMap<string, string>
  /** The list entry of the tool a call names. @throws the error of listing */
  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined>
  /**
   * Whether the tool a call names is in none of its lists, as another caller learned a moment ago. Always false for a
   * caller who is connected, or has credentials of their own: their list may be another one.
   */
  lacks(call: Call): boolean
  /** Connects once, so that the first call need not wait. @throws the connection error */
  start(call: Call): Promise<void>
  readonly status: Status
  /** What was wrong in what it listed and declared. */
  readonly findings: ServerFindings
  readonly reachability: Pick<Reachability, 'onChange'>
  /** Tells those who listen that its tools may be other ones now, because the gateway offers others of them. */
  toolsChanged(): void
  /** The revision used for a call, if known. */
  revisionFor(call: Call): string | undefined
  /** The context of the open connection for a call, if its server keeps one. */
  contextOf(call: Call): ServerContext | undefined
  /** The remaining rate limit it reports; unknown if it has one per user. */
  quota(): Quota | undefined
  /** The number of suspended calls that wait for input responses. */
  readonly suspended: number
  /** Requests sign-in from callers if necessary; the outermost middleware of their calls. */
  readonly guard?: Middleware | undefined
  /** Completes the sign-in of a returning user. @throws SERVER_UNAVAILABLE */
  readonly finishSignIn?: Credentials['finish']
  /** More of its state, for operators. */
  readonly details: UpstreamDetails
  /** Whether it is drained: then it takes no calls until it is not any more. Calls in progress finish. */
  isDrained: boolean
  /** Ends all connections to it, and opens a new one. Calls in progress end with an unknown outcome. Never throws. */
  restart(call: Call): Promise<void>
  /** The sign-in of users to it, where each has an own one. */
  readonly signIns?: UserSignIns | undefined
  /** Accepts no new calls, and closes when the active ones have ended, or the gateway closes. */
  retire(closing: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** What only operators want to know of a server. */
interface UpstreamDetails {
  /** Since when it can be reached, or cannot, in milliseconds since 1970; undefined before the first attempt. */
  readonly since: number | undefined
  /** The last lines that its process wrote to standard error, without secrets. */
  readonly lastLines: readonly string[]
  /** The ids of its processes. */
  readonly processes: readonly number[]
  /** How many calls it works on. */
  readonly inFlight: number
}

interface Environment {
  /** The environment variables passed to child processes. */
  readonly variables: Variables
  /** The proxies of the environment. */
  readonly proxies: FindProxy
  /** Where is remembered how a server is started. */
  readonly store: ListStore
  /** The storage of users' grants, and the gateway's OAuth URLs. */
  readonly oauth: OAuthSite
  /** Knows the secrets of the gateway, and learns the tokens it gets. Default: one that knows those of the server. */
  readonly redactor?: Redactor | undefined
  /** What suspended calls take of the memory of the gateway. */
  readonly held?: HeldMemory | undefined
  /** Applied to each connection. */
  readonly intercept?: TransportInterceptor | undefined
  /** Set where lists and declarations are relayed as the server sends them, by commands that judge it. */
  readonly isUnchecked?: boolean | undefined
  /** Counts what is sent to the server, and the sessions with it. */
  readonly meter?: ExchangeMeter | undefined
  /** Finds out which process runs the server; absent if this one does. */
  readonly placement?: Placement | undefined
  readonly log: Log
}

/** How long calls in progress keep a retired server alive, in milliseconds. */
const RETIREMENT_TIMEOUT_MS = 600_000
/** How often a truncated or failed list is logged, in milliseconds. */
const REPORT_INTERVAL_MS = 60_000

/** Creates the upstream of one configured server. */
export function createUpstream(settings: UpstreamSettings, environment: Environment): Upstream {
  return new ConfiguredUpstream(settings, environment)
}

class ConfiguredUpstream implements Upstream {
  readonly settings: UpstreamSettings
  readonly handle: Handler
  readonly handleWithHidden: Handler
  readonly takenNames: ReadonlyMap<string, string>
  readonly guard: Middleware | undefined
  readonly finishSignIn: Credentials['finish']
  readonly signIns: UserSignIns | undefined
  isDrained = false
  readonly tool: FindTool
  readonly lacks: (call: Call) => boolean
  readonly findings: ServerFindings
  readonly #log: Log
  readonly #isUnchecked: boolean
  readonly #credentials: Credentials | undefined
  readonly #redactor: MessageRedactor
  readonly #connector: Connector
  readonly #lastLists: LastLists
  readonly #placement: Placement | undefined
  /** Lets go of the server, if other processes may run it. */
  readonly #release: (() => Promise<void>) | undefined
  /** Those who wait for other tools. */
  readonly #toolWatchers = new Set<() => void>()
  /** Until when the calls of a request wait for the server, on the monotonic clock. */
  readonly #waits = new LRUCache<string, number>({ max: MAX_WAITING_REQUESTS })
  readonly #negativeCache = new NegativeCache<UpstreamConnection>()
  readonly #retired = new AbortController()
  /** The subscriptions that were acknowledged. */
  readonly #listening = new Map<UpstreamCall, Subscription>()
  /** Whether a server that is away is asked again, so that those who have its last lists learn of its return. */
  #isWatching = false
  /** The connection on which tools were listed last. */
  #lastListed: UpstreamConnection | undefined
  #inFlight = 0
  #suspended = 0
  #listFailedAt = Number.NEGATIVE_INFINITY
  #listCutAt = 0

  constructor(settings: UpstreamSettings, environment: Environment) {
    const {
      variables,
      proxies,
      store,
      oauth,
      intercept,
      isUnchecked = false,
      held,
      meter,
      placement,
      log,
    } = environment
    const { redactor = redactorOf(settings) } = environment
    this.settings = settings
    this.#isUnchecked = isUnchecked
    this.#log = log
    const { reach } = settings
    const ownProxies = reach.kind === 'url' ? proxyOf(reach.proxy, proxies) : noProxy
    const credentials = createCredentials(settings, oauth, ownProxies)
    this.#credentials = credentials
    this.#redactor = createMessageRedactor(redactor)
    this.findings = new ServerFindings(log, this.#redactor.text)
    this.#connector = new Connector(settings, {
      variables,
      proxies: ownProxies,
      store,
      credentials,
      redactor: this.#redactor,
      intercept,
      meter,
      placement,
      onToolsChanged: () => {
        for (const watcher of this.#toolWatchers) watcher()
      },
      log,
    })
    this.#placement = placement
    this.#lastLists = new LastLists(store, settings, credentials?.isPersonal === true, log)
    this.guard = credentials?.guard
    this.finishSignIn = credentials?.finish
    this.signIns = credentials?.signIns
    const onCount = (count: number): void => {
      this.#suspended = count
    }
    const isElsewhere = (): boolean => placement !== undefined && placement.current?.kind !== 'here'
    const run = suspendable((working) => this.#open(working), { held, isElsewhere, onCount })
    const handle = compose([credentials?.guard], run)
    this.#release = placement?.serve(this.#placed(run))
    const find: FindTool = (call) => this.#find(call)
    const names = toolNames(settings, log)
    this.handle = names ? names.handle(handle) : handle
    this.handleWithHidden = names ? names.handle(handle, true) : handle
    this.takenNames = names?.taken ?? new Map()
    this.tool = names ? names.find(find) : find
    this.reachability.onChange((isReachable) => isReachable && this.#reportReturn(), this.#retired.signal)
    this.lacks = (call) => {
      const original = names ? names.original(call) : call
      return !original || this.#isKnownToLack(original)
    }
  }

  get name(): string {
    return this.settings.name
  }

  get suspended(): number {
    return this.#suspended
  }

  get status(): Status {
    return this.#connector.status
  }

  get details(): UpstreamDetails {
    const { lastLines, processes } = this.#connector
    return { since: this.reachability.changedAt, lastLines, processes, inFlight: this.#inFlight }
  }

  async restart(call: Call): Promise<void> {
    await this.#connector.restart()
    await this.start(call).catch(() => undefined)
  }

  get reachability(): Reachability {
    return this.#connector.reachability
  }

  quota(): Quota | undefined {
    return this.#connector.quota
  }

  toolsChanged(): void {
    for (const working of this.#listening.keys())
      if (readFilter(working.call.params).toolsListChanged === true)
        working.notify({ method: 'notifications/tools/list_changed' })
  }

  revisionFor(call: Call): string | undefined {
    return this.#connector.ready(call)?.revision
  }

  contextOf(call: Call): ServerContext | undefined {
    return this.#connector.ready(call)?.context
  }

  async start(call: Call): Promise<void> {
    // Personal credentials need a caller, and there is none at startup.
    if (this.#credentials?.isPersonal !== true) await this.#connector.connect(call)
  }

  async retire(closing: AbortSignal): Promise<void> {
    this.#retired.abort()
    const until = world.now() + RETIREMENT_TIMEOUT_MS
    while (this.#inFlight > 0 && world.now() < until && !closing.aborted)
      await pause(100, closing).catch(() => undefined)
    await this.close()
  }

  async close(): Promise<void> {
    this.#retired.abort()
    await this.#connector.close()
    await this.#release?.()
    await this.#lastLists.close()
    await this.#credentials?.close()
  }

  /** The server as the processes know it that share the store. Names are those of the server: each process has its own. */
  #placed(relayed: Handler): PlacedServer {
    const inFlight = (): number => this.#inFlight
    return {
      relayed,
      get inFlight() {
        return inFlight()
      },
      leave: (isByForce) => this.#connector.leave(isByForce),
      follow: () => this.start(ownCall()),
      restart: () => this.restart(ownCall()),
      onChanged: (listener, signal) => {
        this.#toolWatchers.add(listener)
        signal.addEventListener('abort', () => this.#toolWatchers.delete(listener), { once: true })
      },
    }
  }

  async #open(working: UpstreamCall): Promise<Outcome> {
    const { call } = working
    if (call.method === 'subscriptions/listen') return this.#listen(working)
    if (call.method !== 'tools/call' && lastKnownSlot.of(call) === true) return this.#lastAnswer(call)
    if (this.isDrained && method(call.method).list === undefined && call.method !== 'server/discover')
      throw drained()
    this.#inFlight++
    try {
      const { outcome, era } = await this.#reached(working)
      this.reachability.set(true)
      return this.#checked(outcome, call, era)
    } catch (error) {
      if (!this.#retired.signal.aborted) this.reachability.failed(error)
      throw this.#redactor.error(
        relayedFrom(this.#asAway(asOurs(error, call.method)), this.#connector.ready(working.call)?.era),
      )
    } finally {
      this.#inFlight--
    }
  }

  /** Makes a call, once the server can be reached if that takes no longer than calls wait. A call that was sent is not repeated. */
  async #reached(working: UpstreamCall): Promise<Reached> {
    for (let failures = 0; ; failures++) {
      const start = world.monotonic()
      try {
        return await this.#attempt(working)
      } catch (error) {
        // It was not made. Nobody has to wait for what has moved already.
        if (isMoved(error) && failures < MAX_MOVES && !relayedSlot.of(working.call)) continue
        const delay = await this.#delayAfter(error, { working, start, failures })
        if (delay === undefined) throw error
        await this.reachability.untilReturn(delay, working.signal)
        if (working.signal.aborted) throw error
      }
    }
  }

  async #attempt(working: UpstreamCall): Promise<Reached> {
    const { call } = working
    const connection = this.#connector.ready(call) ?? (await this.#connector.connect(call))
    if (connection.isPlaced !== true) {
      // What waits in another process, or waited there, was begun.
      if (this.#placement && isWaiting(call)) throw expired()
      requireContext(call, connection.context)
    }
    relayedSlot.of(call)?.(connection)
    const outcome = await connection.open(working).catch(async (error: unknown) => {
      // The server forgot the session of one client, and did nothing.
      if (!connectionSlot.of(call) || connection.hasLostSession !== true || !isSessionLost(error)) throw error
      return (await this.#connector.connect(call)).open(working)
    })
    if (connection.context) contextSlot.of(call)?.onUse(connection.context)
    return { outcome, era: connection.era }
  }

  /** How long a call waits before it is attempted again, in milliseconds; undefined if it fails. */
  async #delayAfter(error: unknown, { working, start, failures }: Attempt): Promise<number | undefined> {
    const { call, signal } = working
    const { code, extra } = asGatewayError(error)
    const isWaiting = code === 'SERVER_UNAVAILABLE' && extra.isUnsent === true && isUnanswered(error)
    // A rollback has a schedule of its own for servers that are away.
    const isOfClient = method(call.method).nameIn !== undefined && call.internal !== 'compensate'
    if (!isWaiting || !isOfClient || this.#retired.signal.aborted) return undefined
    if (!(await this.#wasReached()) || signal.aborted) return undefined
    const key = `${call.principal.id} ${call.requestId}`
    const known = this.#waits.get(key) ?? Number.NEGATIVE_INFINITY
    const until = start < known + WAIT_RETENTION_MS ? known : start + this.settings.reconnect
    this.#waits.set(key, until)
    const { retryAfterSeconds } = extra
    const backoff = this.settings.reach.kind === 'url' ? URL_RECONNECTS : COMMAND_RECONNECTS
    const delay = retryAfterSeconds === undefined ? delayBefore(failures, backoff) : retryAfterSeconds * 1000
    return world.monotonic() + delay < until ? delay : undefined
  }

  /** Whether the server was ever reached, so that it is away, and not wrongly configured. */
  async #wasReached(): Promise<boolean> {
    if (this.settings.reconnect === 0 || this.#connector.hasAnswered) return this.settings.reconnect > 0
    await this.#lastLists.load()
    return !this.#lastLists.isEmpty
  }

  /** An error that says since when the server is away. */
  #asAway(error: unknown): unknown {
    const { awaySince } = this.reachability
    if (awaySince === undefined || !(error instanceof GatewayError) || error.code !== 'SERVER_UNAVAILABLE')
      return error
    if (!isUnanswered(error)) return error
    return error.with({ details: { ...error.extra.details, away_since: isoTime(awaySince) } })
  }

  /** What the server listed last. Those who get it learn when it can be reached again. @throws SERVER_UNAVAILABLE */
  async #lastAnswer(call: Call): Promise<Outcome> {
    const result = await this.#lastLists.answer(call)
    const changed = changeOf(call.method)
    if (changed !== undefined) for (const { marked } of this.#listening.values()) marked.add(changed)
    if (!this.#isWatching) background(this.#watch(call), this.#log)
    return { kind: 'result', result }
  }

  /** Asks again until the server answers. */
  async #watch(call: Call): Promise<void> {
    this.#isWatching = true
    const attempt = async (): Promise<AttemptResult> => {
      const signal = AbortSignal.any([world.timeoutSignal(this.settings.startTimeout), this.#retired.signal])
      const asked = lastKnownSlot.set({ ...call, signal, emit: () => undefined }, undefined)
      return this.handle(asked).then(
        () => 'done',
        (error: unknown) => (isUnanswered(error) ? 'later' : 'done'),
      )
    }
    const ended = AbortSignal.any([world.timeoutSignal(WATCH_MS), this.#retired.signal])
    await pause(WATCH_DELAYS.firstMs, ended).catch(() => undefined)
    await retry(attempt, WATCH_DELAYS, ended)
    this.#isWatching = false
  }

  /** The server answers again: whoever has its last lists can have others. Whoever connects again learns it then. */
  #reportReturn(): void {
    for (const [working, { marked, isOpen }] of this.#listening)
      for (const changed of isOpen ? marked : []) {
        marked.delete(changed)
        if (asksFor(readFilter(working.call.params), { method: changed })) working.notify({ method: changed })
      }
  }

  async #listen(working: UpstreamCall): Promise<Outcome> {
    const connect = (call: Call): Promise<UpstreamConnection> => this.#connector.connect(call)
    const subscription: Subscription = { marked: new Set(), isOpen: true }
    try {
      return await listenOn(working, connect, {
        retired: this.#retired.signal,
        log: this.#log,
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        acknowledged: () => void this.#listening.set(working, subscription),
        opened: (isOpen) => void (subscription.isOpen = isOpen),
        notified: (name) => void subscription.marked.delete(name),
        wait: (milliseconds, signal) => this.reachability.untilReturn(milliseconds, signal),
      })
    } finally {
      this.#listening.delete(working)
    }
  }

  #find(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    const connection = this.#connector.ready(call)
    const found = connection
      ? this.#toolOf(connection, call)
      : this.#negativeCache
          .try(`${call.principal.id} ${call.requestId}`, () => this.#connector.connect(call))
          .then((opened) => this.#toolOf(opened, call))
    return found instanceof Promise ? found.catch((error: unknown) => this.#lastTool(call, error)) : found
  }

  /** The tool in the last list of a server that is away. @throws the error of listing */
  async #lastTool(call: Call, error: unknown): Promise<ListedTool> {
    const found = isUnanswered(error) ? await this.#lastLists.tool(call).catch(() => undefined) : undefined
    if (!found) throw error
    return found
  }

  #isKnownToLack(call: Call): boolean {
    if (this.#credentials?.isPersonal === true || this.#connector.ready(call)) return false
    return this.#lastListed?.lacks(call) === true
  }

  #toolOf(
    connection: UpstreamConnection,
    call: Call,
  ): ListedTool | undefined | Promise<ListedTool | undefined> {
    const found = connection.tool(call)
    if (!(found instanceof Promise)) return found
    const listed = (tool: ListedTool | undefined): ListedTool | undefined => {
      this.#lastListed = connection
      return tool
    }
    return found.then(listed, (error: unknown) => {
      const { message, extra, rpc } = asGatewayError(error)
      // An unreachable server, or refused credentials, would fail the call as well.
      if (extra.isUnsent || isOfCredentials(error) || isAway(error) || call.signal.aborted) throw error
      if (rpc === -32601 && !declaresTools(connection)) return undefined
      if (world.now() - this.#listFailedAt > REPORT_INTERVAL_MS) {
        this.#listFailedAt = world.now()
        const reason = this.#redactor.text(extra.forOperator ?? message)
        this.#log.warn('upstream.list_failed', { reason })
      }
      return unlistedTool(String(call.params.fields.name))
    })
  }

  /** What the server lists and declares, in the form that clients accept. */
  #checked(outcome: Outcome, call: Call, era: UpstreamConnection['era']): Outcome {
    const { method: name, params } = call
    const { list } = method(name)
    const isChecked = (list !== undefined || name === 'server/discover') && !this.#isUnchecked
    if (outcome.kind !== 'result' || !isChecked) return outcome
    const { result } = outcome
    const { payload, found } =
      list === undefined
        ? checkedDeclaration(result)
        : checkedPage(this.#bounded(result, name, list), list, {
            ...((this.settings.repairsSchemas ?? 'off') !== 'off' && { dialect: common }),
          })
    const asked = list === undefined && era === 'legacy' ? 'initialize' : name
    this.findings.set(asked, found, params.fields.cursor !== undefined)
    // What is no list is no reason to forget the last one.
    if (list === undefined || entriesOf(result, list)) this.#lastLists.remember(call, payload)
    this.#reportReturn()
    return payload === result ? outcome : { kind: 'result', result: payload }
  }

  #bounded(page: Payload, name: string, list: string): Payload {
    return boundedPage(page, list, ({ entries, oversized }) => {
      if (world.now() - this.#listCutAt < REPORT_INTERVAL_MS) return
      this.#listCutAt = world.now()
      this.#log.warn('upstream.list_cut', { method: name, left_out: entries, oversized })
    })
  }
}

/** The refusal of a server that is drained. */
function drained(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The operator of the gateway lets this server take no calls now.',
    {
      isUnsent: true,
      reason: 'drained',
      suggestion: 'Try again later. The operator ends it on the page of the server.',
    },
  )
}

/** A subscription of a client, while it lasts. */
interface Subscription {
  /** The notifications to send on return: its client may have lists from the time when the server was away. */
  readonly marked: Set<string>
  /** Whether it has a connection. */
  isOpen: boolean
}

/** The notification that a list changed; undefined for other methods. */
function changeOf(name: string): string | undefined {
  return method(name).list === undefined ? undefined : `notifications/${name.split('/')[0]}/list_changed`
}

/** The delays before a server that is away is asked again, and for how long it is, in milliseconds. */
const WATCH_DELAYS = { firstMs: 1000, maxMs: 5000 } as const
const WATCH_MS = 600_000

/** What a server answered, and its era. */
interface Reached {
  readonly outcome: Outcome
  readonly era: UpstreamConnection['era']
}

/** An attempt of a call that failed; `start` is on the monotonic clock. */
interface Attempt {
  readonly working: UpstreamCall
  readonly start: number
  readonly failures: number
}

/** How often a call is sent to where its server is now, without waiting. */
const MAX_MOVES = 2
/** The delays before a call that waits for its server is attempted again. A process is not started often. */
const URL_RECONNECTS: Backoff = { firstMs: 100, maxMs: 1000 }
const COMMAND_RECONNECTS: Backoff = { firstMs: 500, maxMs: 2000 }
/**
 * The maximum number of requests of which is known how long they still wait, and how long that is known, in milliseconds: a client
 * may give several the same id.
 */
const MAX_WAITING_REQUESTS = 1000
const WAIT_RETENTION_MS = 30_000

function declaresTools({ discovered }: UpstreamConnection): boolean {
  return discovered.at('capabilities')?.at('tools') !== undefined
}

/** Knows the secrets in the settings of a server. */
function redactorOf(settings: UpstreamSettings): Redactor {
  const redactor = new Redactor()
  redactor.learn(secretsOf(settings))
  return redactor
}

/** Whether two servers have equal settings, including secrets. */
export function settingsEqual(one: UpstreamSettings, other: UpstreamSettings): boolean {
  return isDeepStrictEqual(comparable(one), comparable(other))
}

function comparable(settings: UpstreamSettings): unknown {
  const { reach } = settings
  const secrets = reach.kind === 'command' ? reach.env : reach.headers
  const { oauth, proxy } = reach.kind === 'url' ? reach : {}
  return {
    ...settings,
    reach: { ...reach, env: undefined, headers: undefined },
    secrets: revealed(secrets),
    clientSecret: oauth?.clientSecret?.reveal(),
    proxyCredentials: proxy === 'off' ? undefined : proxy?.authorization?.reveal(),
  }
}

interface Listening {
  readonly retired: AbortSignal
  readonly log: Log
  /** Called once the client has the acknowledgement. */
  acknowledged(): void
  /** Called with whether there is a connection, when that changes. */
  opened?(isOpen: boolean): void
  /** Called with each notification for the client. */
  notified?(name: string): void
  /** Waits before another connection is opened. */
  wait?(milliseconds: number, signal: AbortSignal): Promise<void>
}

/** Runs a subscription over successive connections. */
export async function listenOn(
  working: UpstreamCall,
  connect: (call: Call) => Promise<UpstreamConnection>,
  { retired, log, acknowledged, opened, notified, wait = pause }: Listening,
): Promise<Outcome> {
  const controller = new AbortController()
  const stop = (): void => controller.abort()
  for (const signal of [working.signal, retired]) signal.addEventListener('abort', stop)
  let isAcknowledged = false
  let discovered: Payload | undefined
  const connected = async (call: Call): Promise<UpstreamConnection> => {
    const connection = await connect(call)
    discovered = connection.discovered
    return connection
  }
  const notify = (note: Notification): void => {
    notified?.(note.method)
    working.notify(note)
  }
  const reconnecting: UpstreamCall = {
    get call() {
      return working.call
    },
    get signal() {
      return controller.signal
    },
    progress: working.progress,
    requestInput: (question, options) => working.requestInput(question, options),
    notify: (note) => {
      if (note.method !== ACKNOWLEDGED) return notify(note)
      opened?.(true)
      if (isAcknowledged) return notifyChanges(working.call, notify, discovered)
      isAcknowledged = true
      working.notify(note)
      acknowledged()
    },
  }
  // A subscriber to several servers does not wait for one that is unavailable.
  const onLost = (): void => {
    const { resourceSubscriptions: _uris, ...lists } = readFilter(working.call.params)
    if (!isAcknowledged)
      reconnecting.notify({ method: ACKNOWLEDGED, params: Payload.of({ notifications: lists }) })
    opened?.(false)
  }
  try {
    return await keepListening(
      reconnecting,
      connected,
      { cancelled: working.signal, retired, log, wait },
      onLost,
    )
  } finally {
    for (const signal of [working.signal, retired]) signal.removeEventListener('abort', stop)
  }
}

/** The delay before the first reconnect, in milliseconds. */
const FIRST_RETRY_MS = 250

interface ListenContext {
  /** Aborted when the last subscriber is gone. */
  readonly cancelled: AbortSignal
  /** Aborted when the server is to be closed. */
  readonly retired: AbortSignal
  readonly log: Log
  wait(milliseconds: number, signal: AbortSignal): Promise<void>
}

async function keepListening(
  working: UpstreamCall,
  connect: (call: Call) => Promise<UpstreamConnection>,
  { cancelled, retired, log, wait }: ListenContext,
  onLost: () => void,
): Promise<Outcome> {
  const delays = new ReopenDelays(FIRST_RETRY_MS)
  for (;;) {
    const start = world.monotonic()
    try {
      if (retired.aborted) return { kind: 'result', result: Payload.of({}) }
      const connection = await connect(working.call)
      const outcome = await connection.open(working)
      if (!connection.isClosed) return outcome
    } catch (error) {
      if (retired.aborted && !cancelled.aborted) return { kind: 'result', result: Payload.of({}) }
      if (cancelled.aborted || !isPassing(error)) throw error
      log.debug('upstream.listen_again', { error: excerpt(String(error)) })
    }
    onLost()
    await wait(delays.after(start), working.signal).catch(() => undefined)
    if (cancelled.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
  }
}

/** Anything may have changed while the server was unavailable. */
function notifyChanges(
  { params }: Call,
  notify: (note: Notification) => void,
  discovered: Payload | undefined,
): void {
  const capabilities = discovered?.fields.capabilities
  for (const name of reportedChanges(readFilter(params), isObject(capabilities) ? capabilities : undefined))
    notify({ method: name })
}
