/**
 * One server: which connection a call takes, how failures become errors, and what is known of its state.
 * Connections belong to callers as the isolation says.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Call, compose, type Handler, type Outcome, type Middleware, type Client } from '../core/call.ts'
import type { Quota } from '../core/descriptor.ts'
import { asGatewayError } from '../core/error.ts'
import { canonical } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import type { Secret } from '../core/text/secret.ts'
import { type MayKeep, withoutReservedKeys } from '../protocol/meta-keys.ts'
import { method } from '../protocol/methods.ts'
import { asOurs, beforeCall, isAway, isPassing, NegativeCache } from './failures.ts'
import {
  Eras,
  type OpenRoute,
  TRIAL_TIMEOUT_MS,
  negotiateHttp,
  negotiateStdio,
  type Route,
} from './negotiate.ts'
import { createCredentials, type Credentials, type OAuthSite } from './oauth/credentials.ts'
import { beingClosed, Pool } from './pool.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { proofFor } from './protocol/gateway-proof.ts'
import { LegacyConnection } from './protocol/legacy.ts'
import { ModernConnection } from './protocol/modern.ts'
import { listenOn } from './subscriptions.ts'
import { suspendable, type UpstreamCall } from './suspended-calls.ts'
import { boundedPage, toolNames, type IndexedTool, unlistedTool } from './tool-index.ts'
import { isOfCredentials, type Login } from './transport/auth-retry.ts'
import { type Variables, LastLines } from './transport/child.ts'
import { createHttpClient, UpstreamQuota } from './transport/http-client.ts'
import { type MessageRedactor, createMessageRedactor } from './transport/redactor.ts'
import { stdioConnect } from './transport/child.ts'
import type { OpenTransport, StepTimeout } from './transport/transport.ts'

/** A server behind the gateway. */
export interface Upstream {
  readonly name: string
  readonly settings: UpstreamSettings
  /** Does any call the server should do. */
  readonly handle: Handler
  /** The same, with the tools that are not offered: for what the configuration says of them. */
  readonly handleWithHidden: Handler
  /** Tools whose new name the server lists itself, with that name. */
  readonly takenNames: ReadonlyMap<string, string>
  /** What the server's list says of the tool a call names. @throws what hinders listing */
  tool(call: Call): IndexedTool | undefined | Promise<IndexedTool | undefined>
  /** Connects once, so that the first call need not wait. @throws what hinders it */
  start(call: Call): Promise<void>
  readonly status: Status
  /** The revision a call travels in, where that is known. */
  revisionFor(call: Call): string | undefined
  /** What it says is left of its own limit; unknown where it has one for each user. */
  quota(): Quota | undefined
  /** How many of its calls wait for an answer of their caller. */
  readonly parked: number
  /** Asks callers to sign in where they have to; the outermost of what wraps their calls. */
  readonly guard?: Middleware | undefined
  /** Takes in a user who comes back from signing in. @throws SERVER_UNAVAILABLE */
  readonly finishSignIn?: Credentials['finish']
  /** Takes no new calls, and closes when those under way have ended, or the gateway does. */
  retire(closing: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface Status {
  /** How it is spoken to, once that is known. */
  readonly era?: 'legacy' | 'modern'
  readonly revision?: string
  /** The revision of older clients' own connections, where there are or were some beside those of the newer era. */
  readonly olderRevision?: string
  readonly connections: number
  /** Why the last attempt to reach it failed. */
  readonly problem?: string
  /** The last lines its process wrote to standard error before that. They are for operators, not for callers. */
  readonly stderr?: readonly string[]
}

interface Environment {
  /** The environment variables every child process gets. */
  readonly variables: Variables
  /** Where what users grant is kept, and how they reach the gateway. */
  readonly oauth: OAuthSite
  readonly log: Log
}

/** How long calls under way keep a retired server alive, in milliseconds. */
const RETIREMENT_TIMEOUT_MS = 600_000
/** How often it is said that a list was cut or failed, in milliseconds. */
const REPORT_INTERVAL_MS = 60_000

interface Key {
  readonly route: Route
  readonly call: Call
  readonly login: Login | undefined
  /** Whether it is not known that the server takes this way. */
  readonly isTrial: boolean
  /** Ends the time to start in. */
  readonly deadline: AbortSignal
}

/** Makes the handler of one configured server. */
export function createUpstream(settings: UpstreamSettings, { variables, oauth, log }: Environment): Upstream {
  const credentials = createCredentials(settings, oauth)
  const isPersonal = credentials?.isPersonal === true
  const closed = new AbortController()
  const patience = (): AbortSignal =>
    AbortSignal.any([AbortSignal.timeout(settings.startTimeout), closed.signal])
  const around = { discretion: createMessageRedactor(settings), patience, log }
  const quota = isPersonal ? undefined : new UpstreamQuota()
  const lastLines = new LastLines(around.discretion.text)
  const negotiate = negotiator(settings, { variables, quota, patience, log, lastLines })
  let route: Promise<Route> | undefined
  let known: Route | undefined
  let problem: string | undefined
  let hasAnswered = false
  let running = 0
  const retired = new AbortController()
  const dial = (key: Key): Promise<UpstreamConnection> => openConnection(key, settings, around)
  const pool = new Pool<Key>({
    idle: settings.idle,
    open: dial,
    owner: ({ call }) => call.principal,
    // Neither one caller's credentials nor an era the server does not have are trouble of the others.
    isFailure: (error, { isTrial }) => !isTrial && !isOfCredentials(error),
    log,
  })
  const eras = new Eras(log)
  let olderRevision: string | undefined

  const nameOf = connectionNames(settings)
  const dialled = new NegativeCache<UpstreamConnection>()
  const connect = async (call: Call): Promise<UpstreamConnection> => {
    const deadline = patience()
    try {
      const login = credentials?.login(call.principal)
      // What one caller's credentials fail at says nothing of another's.
      const found =
        known ?? (await (isPersonal ? negotiate(login, deadline) : (route ??= negotiate(login, deadline))))
      known = found
      const openRoute: OpenRoute = (way, isTrial) =>
        pool.get(nameOf(call, way), { route: way, call, login, isTrial, deadline })
      const connection = await eras.connect(call, found, openRoute)
      if (connection.era !== found.era) olderRevision = connection.revision
      problem = undefined
      hasAnswered = true
      return connection
    } catch (thrown) {
      const error = beforeCall(thrown)
      const { message, extra } = asGatewayError(error)
      problem = around.discretion.text(extra.forOperator ?? message)
      // A verdict that did not hold is reached anew by the next call.
      if (!known || !isPassing(error)) {
        route = known = undefined
        eras.forget()
      }
      throw error
    }
  }

  /** The open connection for a call: the way of nearly every one. */
  const ready = (call: Call): UpstreamConnection | undefined => {
    const way = known && eras.route(call.client, known)
    return way && pool.ready(nameOf(call, way))
  }

  const open = async (working: UpstreamCall): Promise<Outcome> => {
    if (working.call.method === 'subscriptions/listen') return listenOn(working, connect, retired.signal, log)
    running++
    try {
      const { call } = working
      const connection = ready(call) ?? (await connect(call))
      return bounded(await connection.open(working), call.method)
    } catch (error) {
      throw asOurs(error)
    } finally {
      running--
    }
  }

  let listFailedAt = Number.NEGATIVE_INFINITY
  const toolOf = (
    connection: UpstreamConnection,
    call: Call,
  ): IndexedTool | undefined | Promise<IndexedTool | undefined> => {
    const found = connection.tool(call)
    if (!(found instanceof Promise)) return found
    return found.catch((error: unknown) => {
      const { message, extra } = asGatewayError(error)
      // What says that the server is away, or refuses the caller, says it of the call as well.
      if (extra.isUnsent || isOfCredentials(error) || isAway(error) || call.signal.aborted) throw error
      if (Date.now() - listFailedAt > REPORT_INTERVAL_MS) {
        listFailedAt = Date.now()
        log.warn('upstream.list_failed', { reason: around.discretion.text(extra.forOperator ?? message) })
      }
      return unlistedTool(String(call.params.fields.name))
    })
  }

  let reported = 0
  const bounded = (outcome: Outcome, name: string): Outcome => {
    const { list } = method(name)
    if (list === undefined || outcome.kind !== 'result') return outcome
    const result = boundedPage(outcome.result, list, (cut) => {
      if (Date.now() - reported < REPORT_INTERVAL_MS) return
      reported = Date.now()
      log.warn('upstream.list_cut', { method: name, left_out: cut.entries, oversized: cut.oversized })
    })
    return result === outcome.result ? outcome : { kind: 'result', result }
  }

  const close = async (): Promise<void> => {
    closed.abort(beingClosed())
    await pool.close()
    await credentials?.close()
  }

  let parked = 0
  const whole = compose(
    [credentials?.guard],
    suspendable(open, { onCount: (count) => void (parked = count) }),
  )
  const find = (call: Call): IndexedTool | undefined | Promise<IndexedTool | undefined> => {
    const connection = ready(call)
    if (connection) return toolOf(connection, call)
    return dialled
      .try(`${call.principal.id} ${call.requestId}`, () => connect(call))
      .then((opened) => toolOf(opened, call))
  }
  const names = toolNames(settings, log)
  return {
    name: settings.name,
    settings,
    handle: names ? names.handle(whole) : whole,
    handleWithHidden: names ? names.handle(whole, true) : whole,
    takenNames: names?.taken ?? new Map(),
    get parked() {
      return parked
    },
    guard: credentials?.guard,
    quota: () => quota?.last,
    ...(credentials?.finish && { finishSignIn: credentials.finish }),
    tool: names ? names.find(find) : find,
    start: async (call) => {
      // Without a caller there is nothing to show to the server.
      if (!isPersonal) await connect(call)
    },
    get status() {
      const { era, revision } = known ?? {}
      const spoken = pool.connections.find((each) => each.era === era)?.revision ?? revision
      return {
        // Its revision may be known before it ever answered.
        ...(hasAnswered && era && spoken !== undefined && { era, revision: spoken }),
        ...(olderRevision !== undefined && { olderRevision }),
        connections: pool.connections.length,
        ...(problem !== undefined && { problem, ...(lastLines.all.length > 0 && { stderr: lastLines.all }) }),
      }
    },
    revisionFor: (call) => ready(call)?.revision,
    retire: async (closing) => {
      retired.abort()
      const until = Date.now() + RETIREMENT_TIMEOUT_MS
      while (running > 0 && Date.now() < until && !closing.aborted)
        await wait(100, undefined, { signal: closing }).catch(() => undefined)
      await close()
    },
    close: async () => {
      retired.abort()
      await close()
    },
  }
}

function negotiator(
  settings: UpstreamSettings,
  {
    variables,
    quota,
    patience,
    log,
    lastLines,
  }: Pick<Environment, 'variables' | 'log'> & {
    lastLines: LastLines
    quota: UpstreamQuota | undefined
    patience: StepTimeout
  },
): (login: Login | undefined, deadline: AbortSignal) => Promise<Route> {
  const { reach } = settings
  if (reach.kind === 'command') {
    const connect = stdioConnect(reach, variables, { log, lastLines })
    return (_login, deadline) => negotiateStdio(settings, connect, { deadline, log })
  }
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(reach.headers)) headers[name.toLowerCase()] = value.reveal()
  const client = createHttpClient(new URL(reach.url), headers)
  return (login, deadline) =>
    negotiateHttp(settings, { ...client, quota, login }, { patience, deadline, log })
}

function openConnection(
  { route, call, login, isTrial, deadline }: Key,
  settings: UpstreamSettings,
  given: { readonly discretion: MessageRedactor; readonly patience: StepTimeout; readonly log: Log },
): Promise<UpstreamConnection> {
  const { revision, mirrors } = route
  // The opening exchange has what is left of the time to start in; each later one has its own time.
  let isOpen = false
  const starting = isTrial ? AbortSignal.any([AbortSignal.timeout(TRIAL_TIMEOUT_MS), deadline]) : deadline
  const around = { ...given, patience: () => (isOpen ? given.patience() : starting) }
  const opened = <Opened extends UpstreamConnection>(connection: Opened): Opened => {
    isOpen = true
    return connection
  }
  const connect: OpenTransport = admitting((receiver) => route.connect(receiver, login), {
    log: around.log,
    // The gateway behind speaks in its own name, once it proved that it is the one that is meant.
    ...(settings.gatewayKey !== undefined && { mayKeep: () => true }),
  })
  const { isolation, roots } = settings
  if (route.era === 'modern')
    return ModernConnection.open({ connect, revision, mirrors, proof: proofFor(settings), ...around }).then(
      opened,
    )
  return LegacyConnection.open({
    connect,
    capabilities: declared(call, settings),
    revision,
    proof: () => proofFor(settings),
    ...around,
    ...(Array.isArray(roots) && { roots }),
    ...(isolation === 'per_client' && call.client.info && { clientInfo: call.client.info }),
  }).then(opened)
}

// What of a server's messages is let in. Members that are the gateway's own word are cut out here, for every transport
// and era, so that no code behind this place has to ask who wrote them. A server that is trusted as a peer of the
// gateway is let keep names by `mayKeep`; that is the one place where such an exception is made.

interface Options {
  readonly mayKeep?: MayKeep
  readonly log: Log
}

/** How many names of a connection are logged, so that a server cannot fill the log. */
const MAX_LOGGED = 10

const HINT = 'if the server is a Gatehouse of yours, name its key with gateway_key (or --gateway-key)'

/** Opens connections whose messages arrive without what would speak in the gateway's name. */
function admitting(connect: OpenTransport, { mayKeep, log }: Options): OpenTransport {
  return (receiver) => {
    const logged = new Set<string>()
    const note = (removed: readonly string[]): void => {
      const unseen = removed.filter((each) => !logged.has(each)).slice(0, MAX_LOGGED - logged.size)
      for (const each of unseen) logged.add(each)
      if (unseen.length > 0) log.warn('upstream.reserved_members', { members: unseen, hint: HINT })
    }
    return connect({
      ...receiver,
      receive: (arrived, about) => {
        const { text, removed } = withoutReservedKeys(arrived, mayKeep)
        if (removed.length > 0) note(removed)
        receiver.receive(text, about)
      },
    })
  }
}

/**
 * Calls with the same name share a connection: one era, one caller, in the older era one set of capabilities, and one
 * token where that is exchanged for the one the server gets.
 */
function connectionNames(settings: UpstreamSettings): (call: Call, route: Route) => string {
  const { isolation, roots, reach } = settings
  // A session's client is the same object for all its calls.
  const known = new WeakMap<Client, string>()
  const nameFor = (call: Call): string => {
    // A server keeps the roots it received, so those of one client are not for another.
    const isOwn =
      isolation === 'per_client' || (roots === 'client' && call.client.capabilities.roots !== undefined)
    const client = isOwn ? (call.client.session ?? '') : ''
    return `older ${canonical(declared(call, settings))} ${client} ${call.principal.id}`
  }
  const named = (call: Call, { era }: Route): string => {
    if (isolation === 'shared') return ''
    // The era stands in front, so that no name of a caller can be that of a connection of the other era.
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
  const isExchanged = reach.kind === 'url' && reach.oauth?.grant === 'token_exchange'
  if (!isExchanged) return named
  return (call, route) => `${call.principal.token?.digest ?? ''} ${named(call, route)}`
}

/** The client capabilities for an older server: exactly the client's own, roots only where configured. */
function declared(call: Call, { isolation, roots }: UpstreamSettings): Readonly<Record<string, unknown>> {
  const { roots: offered, tasks, ...rest } = call.client.capabilities
  const own = isolation === 'shared' ? {} : rest
  const clientTasks =
    tasks !== undefined && call.client.era === 'legacy' && isolation !== 'shared' ? { tasks } : {}
  if (Array.isArray(roots)) return { ...own, ...clientTasks, roots: {} }
  const passed =
    roots === 'client' && offered !== undefined && isolation !== 'shared' ? { roots: offered } : {}
  return { ...own, ...clientTasks, ...passed }
}

/** Whether two servers are configured alike, secrets included. */
export function settingsEqual(one: UpstreamSettings, other: UpstreamSettings): boolean {
  return isDeepStrictEqual(revealed(one), revealed(other))
}

function revealed(settings: UpstreamSettings): unknown {
  const { reach } = settings
  const secrets = reach.kind === 'command' ? reach.env : reach.headers
  const oauth = reach.kind === 'url' ? reach.oauth?.clientSecret : undefined
  return {
    ...settings,
    reach: { ...reach, env: undefined, headers: undefined },
    secrets: values(secrets),
    clientSecret: oauth?.reveal(),
  }
}

function values(secrets: Readonly<Record<string, Secret>>): Record<string, string> {
  return Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [name, secret.reveal()]))
}
