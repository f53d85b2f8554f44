import { setTimeout as wait } from 'node:timers/promises'
import { park, type Working } from '../bridge/park.ts'
import type { Call, Client, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { canonical } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import type { Log } from '../core/log.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { ACKNOWLEDGED, readFilter, toldChanges } from '../wire/filter.ts'
import type { Variables } from './child.ts'
import type { Connection } from './connection.ts'
import { createHttpClient } from './fetch.ts'
import { LegacyConnection } from './legacy.ts'
import { ModernConnection } from './modern.ts'
import { negotiateHttp, negotiateStdio, type Route } from './negotiate.ts'
import { Pool } from './pool.ts'
import { stdioConnect } from './stdio.ts'
import type { Tool } from './tools.ts'

/** A server behind the gateway. */
export interface Upstream {
  readonly name: string
  readonly settings: UpstreamSettings
  /** Does any call the server should do. */
  readonly handle: Handler
  /** What the server's list says of the tool a call names. @throws what hinders listing */
  tool(call: Call): Tool | undefined | Promise<Tool | undefined>
  /** Connects once, so that the first call need not wait. @throws what hinders it */
  warm(call: Call): Promise<void>
  readonly status: Status
  /** Takes no new calls, and closes when those under way have ended. */
  retire(): Promise<void>
  close(): Promise<void>
}

export interface Status {
  /** How it is spoken to, once that is known. */
  readonly era?: 'legacy' | 'modern'
  readonly revision?: string
  readonly connections: number
  /** Why the last attempt to reach it failed. */
  readonly problem?: string
}

interface Environment {
  /** The environment variables every child process gets. */
  readonly variables: Variables
  readonly log: Log
}

/** How long calls under way keep a retired server alive, in milliseconds. */
const RETIREMENT = 600_000

interface Key {
  readonly route: Route
  readonly call: Call
}

/** Makes the handler of one configured server. */
export function createUpstream(settings: UpstreamSettings, { variables, log }: Environment): Upstream {
  const negotiate = negotiator(settings, variables, log)
  let route: Promise<Route> | undefined
  let known: Route | undefined
  let problem: string | undefined
  let running = 0
  const retired = new AbortController()
  const pool = new Pool<Key>({ idle: settings.idle, open: (key) => openConnection(key, settings, log), log })

  const nameOf = connectionNames(settings)
  const connect = async (call: Call): Promise<Connection> => {
    try {
      const found = known ?? (await (route ??= negotiate()))
      known = found
      const connection = await pool.get(nameOf(call, found), { route: found, call })
      problem = undefined
      return connection
    } catch (thrown) {
      const error = beforeCall(thrown)
      problem = asGatewayError(error).message
      // A verdict that did not hold is reached anew by the next call.
      if (!known || !isPassing(error)) route = known = undefined
      throw error
    }
  }

  const open = async (working: Working): Promise<Outcome> => {
    if (working.call.method === 'subscriptions/listen') return listenOn(working, connect, retired.signal, log)
    running++
    try {
      const { call } = working
      const connection = (known && pool.ready(nameOf(call, known))) ?? (await connect(call))
      return await connection.open(working)
    } catch (error) {
      throw asOurs(error)
    } finally {
      running--
    }
  }

  return {
    name: settings.name,
    settings,
    handle: park(open),
    tool: (call) => {
      const name = String(call.params.fields.name)
      const connection = known && pool.ready(nameOf(call, known))
      return connection ? connection.tool(name) : connect(call).then((opened) => opened.tool(name))
    },
    warm: async (call) => void (await connect(call)),
    get status() {
      return {
        ...(known && { era: known.era, revision: pool.connections[0]?.revision ?? known.revision }),
        connections: pool.connections.length,
        ...(problem !== undefined && { problem }),
      }
    },
    retire: async () => {
      retired.abort()
      const until = Date.now() + RETIREMENT
      while (running > 0 && Date.now() < until) await wait(100)
      await pool.close()
    },
    close: () => {
      retired.abort()
      return pool.close()
    },
  }
}

function negotiator(settings: UpstreamSettings, variables: Variables, log: Log): () => Promise<Route> {
  const { reach } = settings
  if (reach.kind === 'command') {
    const connect = stdioConnect(reach, variables, log)
    return () => negotiateStdio(settings, connect, log)
  }
  const given = Object.entries(reach.headers).map(
    ([name, value]) => [name.toLowerCase(), value.reveal()] as const,
  )
  const headers: Record<string, string> = Object.fromEntries(given)
  const client = createHttpClient(new URL(reach.url), headers)
  return () => negotiateHttp(settings, client, log)
}

function openConnection({ route, call }: Key, settings: UpstreamSettings, log: Log): Promise<Connection> {
  const { connect, revision, mirrors } = route
  const { startTimeout, isolation, roots } = settings
  if (route.era === 'modern') return ModernConnection.open({ connect, revision, mirrors, startTimeout, log })
  return LegacyConnection.open({
    connect,
    capabilities: declared(call, settings),
    revision,
    startTimeout,
    log,
    ...(Array.isArray(roots) && { roots }),
    ...(isolation === 'per_client' && call.client.info && { clientInfo: call.client.info }),
  })
}

/** Calls with the same name share a connection: one caller, and for older servers one set of capabilities. */
function connectionNames(settings: UpstreamSettings): (call: Call, route: Route) => string {
  const { isolation, roots } = settings
  // A session's client is the same object for all its calls.
  const known = new WeakMap<Client, string>()
  const nameFor = (call: Call): string => {
    // A server keeps the roots it was told, so those of one client are not for another.
    const isOwn =
      isolation === 'per_client' || (roots === 'client' && call.client.capabilities.roots !== undefined)
    const client = isOwn ? (call.client.session ?? '') : ''
    return canonical([call.principal.id, client, declared(call, settings)])
  }
  return (call, { era }) => {
    if (isolation === 'shared') return ''
    if (era === 'modern')
      return isolation === 'auto' ? call.principal.id : `${call.principal.id} ${call.client.session}`
    const name = known.get(call.client) ?? nameFor(call)
    known.set(call.client, name)
    return name
  }
}

/** What an older server is told of its client: exactly what the client said, roots only where configured. */
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

/** A listening call outlives connections: where one is lost, it goes on with the next. */
async function listenOn(
  working: Working,
  connect: (call: Call) => Promise<Connection>,
  retired: AbortSignal,
  log: Log,
): Promise<Outcome> {
  const controller = new AbortController()
  const stop = (): void => controller.abort()
  for (const signal of [working.signal, retired]) signal.addEventListener('abort', stop)
  let isAcknowledged = false
  const quiet: Working = {
    get call() {
      return working.call
    },
    get signal() {
      return controller.signal
    },
    progress: working.progress,
    ask: (question, options) => working.ask(question, options),
    note: (note) => {
      if (note.method === ACKNOWLEDGED && isAcknowledged) tellChanges(working)
      else working.note(note)
    },
  }
  try {
    return await keepListening(quiet, connect, { gone: working.signal, retired, log }, () => {
      isAcknowledged = true
    })
  } finally {
    for (const signal of [working.signal, retired]) signal.removeEventListener('abort', stop)
  }
}

interface Ends {
  /** Nobody listens any more. */
  readonly gone: AbortSignal
  /** The server is to be closed. */
  readonly retired: AbortSignal
  readonly log: Log
}

async function keepListening(
  working: Working,
  connect: (call: Call) => Promise<Connection>,
  { gone, retired, log }: Ends,
  onLost: () => void,
): Promise<Outcome> {
  for (let attempt = 0; ; attempt++) {
    try {
      if (retired.aborted) return { kind: 'result', result: Payload.of({}) }
      const connection = await connect(working.call)
      const outcome = await connection.open(working)
      if (!connection.isClosed) return outcome
    } catch (error) {
      if (retired.aborted && !gone.aborted) return { kind: 'result', result: Payload.of({}) }
      if (gone.aborted || !isPassing(error)) throw error
      log.debug('upstream.listen_again', { error: String(error) })
    }
    onLost()
    await wait(Math.min(250 * 2 ** attempt, 30_000), undefined, {
      signal: working.signal,
      ref: false,
    }).catch(() => undefined)
    if (gone.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
  }
}

/** While the server was away anything may have changed. */
function tellChanges(working: Working): void {
  for (const method of toldChanges(readFilter(working.call.params))) working.note({ method })
}

/** A failure to connect. The call itself was not sent yet, so nothing is unknown about it. */
function beforeCall(thrown: unknown): unknown {
  const { code, message, cause } = asGatewayError(thrown)
  if (code !== 'OUTCOME_UNKNOWN' && code !== 'OPERATION_TIMEOUT') return thrown
  const why = code === 'OUTCOME_UNKNOWN' && cause instanceof Error ? cause.message : message
  return new GatewayError('SERVER_UNAVAILABLE', `The server could not be connected to: ${why}`, {
    cause: thrown,
  })
}

/** Sessions with servers are no business of the caller. */
function asOurs(error: unknown): unknown {
  if (asGatewayError(error).code !== 'SESSION_NOT_FOUND') return error
  return new GatewayError('SERVER_UNAVAILABLE', 'The server forgets its session with the gateway.', {
    cause: error,
  })
}

function isPassing(error: unknown): boolean {
  return ['SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'OVERLOADED'].includes(asGatewayError(error).code)
}
