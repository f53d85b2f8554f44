/**
 * The HTTP server: routes, and the order of checks before any of them: origin, authentication, existence of
 * the server. Each request reads the edge of the running configuration once.
 */
import type { ReceiveHook } from '../../core/http-paths.ts'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type Context, Hono } from 'hono'
import type { Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Log, Probes } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Refusal, PageSignIn, SignInStep } from '../../core/audit-step.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import { OPERATOR_ADDRESS } from '../../core/slot.ts'
import { ownUrl } from '../../core/web.ts'
import { self } from '../../core/identity.ts'
import { pause } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { RequestStateCodec } from '../../protocol/request-state.ts'
import { KEYS_PATH } from '../../protocol/meta-keys.ts'
import { HeldMemory } from '../../core/holdings.ts'
import { ClientSessions } from '../../records/client-sessions.ts'
import type { Store } from '../../store/store.ts'
import { createEdges, type Edge, type HttpRuntime, type HttpContext, Ticker } from './edge.ts'
import { metadataPath, OPERATOR_PATH } from '../auth/resources.ts'
import { Bodies, Arrivals } from './body.ts'
import {
  addByteRoutes,
  Transfers,
  addCalls,
  addDocuments,
  jsonBody,
  type RequestedDocument,
  reader,
  addPermissions,
} from './routes.ts'
import { type Network, systemNetwork } from './network.ts'
import { HttpFront, type OtherProcesses, presentCallerOf, refuse, requestId } from './endpoint.ts'
import type { Decision } from './hop/envelope.ts'
import { LegacySse } from './sse-endpoint.ts'
import { addFrontPage, type Reader } from '../pages/front-page.ts'
import { addPageSignIn, addSignInPages, type SignIns } from '../pages/sign-in.ts'

interface Options {
  readonly handle: Handler
  /** The current runtime; a reload replaces it. */
  runtime(): HttpRuntime
  readonly signIns: SignIns
  readonly pageSignIn: PageSignIn
  readonly seal: RequestStateCodec
  /** What callers make the gateway hold; that of the gateway. */
  readonly held?: HeldMemory
  /** The present store, which keeps the sessions of clients. */
  store(): Store
  /** The other processes that share the store; undefined if they do not reach each other. */
  readonly others?: OtherProcesses | undefined
  /** The public keys that verify the gateway's signatures. @throws SERVER_UNAVAILABLE */
  jwks?(): Promise<object>
  /**
   * The result of `/ready`, given the dependencies of authentication: whether calls can be served, each check, and whether writes
   * are paused.
   */
  ready(needed: Probes): Promise<{
    readonly isReady: boolean
    readonly checks: Readonly<Record<string, unknown>>
    readonly writes?: string
  }>
  readonly addPages?: AddPages
  /** Receives webhooks; without it there are no paths for them. */
  readonly receiveHook?: ReceiveHook
  /** The owner's endpoint for MCP clients; without it there is none. */
  readonly operator?: OperatorEndpoint
  /** Renders the front page at `/`. */
  page(reader: Reader): Promise<string>
  /** The content of `/metrics`; undefined if metrics are off. */
  metrics?(): Promise<Page | undefined>
  /** Called for every rejected request. */
  onRefused?(refusal: Refusal): void
  /** Called for each person who signed in to the pages. */
  onSignedIn?(step: SignInStep): void
  /** Counts the sessions of clients. */
  readonly meter?: SessionMeter | undefined
  readonly network?: Pick<Network, 'listen'> | undefined
  readonly log: Log
}

interface Page {
  readonly text: string
  /** Its media type. */
  readonly type: string
}

/** The endpoint of the owner's client, at `/operator/mcp`. */
export interface OperatorEndpoint {
  readonly handle: Handler
  /** Whether the present configuration has it. */
  isOn(): boolean
  /** Checks that a caller may use it. @throws PERMISSION_DENIED */
  admit(principal: Principal): void
}

/** The open HTTP listener. */
export interface Listener {
  readonly url: string
  /** The number of client sessions. */
  readonly sessions: number
  /** Serves a request that another process forwards, as it has decided. Never throws. */
  serveForwarded(incoming: IncomingMessage, outgoing: ServerResponse, decision: Decision): void
  /**
   * Accepts no new connections; resolves when `work` has finished, and in-flight calls have, or `patience` milliseconds are over. It
   * takes no more requests then, or shortly before, so that none begins that its end would interrupt.
   */
  drain(patience: number, work?: Promise<void>): Promise<void>
  /** Ends sessions and streams. */
  close(): Promise<void>
}

/** How long calls have, of the time for all, that are in flight when nothing more is taken, in milliseconds. */
const LAST_CALLS_MS = 2000

type Env = { Bindings: HttpBindings }

/**
 * Adds pages of other modules; `authenticate` returns the principal of a request, and `closing` is aborted when the listener
 * accepts nothing more.
 */
export type AddPages = (
  app: Hono<Env>,
  authenticate: (context: Context<Env>) => Promise<Principal>,
  bodies: Bodies,
  closing: AbortSignal,
) => void

/** Listens for clients over HTTP. @throws the system error if the address is not available */
export async function listenHttp(options: Options): Promise<Listener> {
  const { runtime, handle, pageSignIn, seal, held = new HeldMemory(), store, onRefused, meter, log } = options
  const { others, network = systemNetwork } = options
  const { listen } = runtime()
  const life: Life = { port: listen.port, isClosing: false, closing: new AbortController() }
  const ticker = new Ticker()
  const arrivals = new Arrivals()
  const bodies = new Bodies(arrivals)
  const edge = createEdges({ runtime, port: () => life.port, pageSignIn, ticker, bodies, log })
  const refusing = { log, ...(onRefused && { onRefused }) }
  const isStrict = (): boolean => edge().runtime.listen.isStrict
  const kept = new ClientSessions({ transport: 'sse', store, log })
  const sse = new LegacySse({ handle, isStrict, kept, others, meter, ...refusing })
  const front = new HttpFront({ handle, edge, seal, held, store, sse, others, meter, ...refusing })
  const { operator } = options
  const ofOperator =
    operator &&
    new HttpFront({ ...operator, edge: operatorEdges(edge), seal, held, store, others, meter, ...refusing })
  const server = createServer(timeouts)
  const transfers = new Transfers(arrivals)
  const routes = createRoutes({ ...options, edge, sse, life, transfers, bodies })
  const fronts = ofOperator ? [front, ofOperator] : [front]
  const operators = operator && ofOperator && { front: ofOperator, isOn: () => operator.isOn() }
  server.on('request', dispatcher({ edge, front, operators, routes, arrivals, ...refusing }))
  life.port = (await network.listen(server, { host: listen.host, port: listen.port })) ?? life.port

  return {
    get sessions() {
      return fronts.reduce((sum, { sessions }) => sum + sessions.size, sse.size)
    },
    url: ownUrl(listen.host, life.port),
    serveForwarded: (incoming, outgoing, decision) => {
      const isOfOperator = decision.upstream === OPERATOR_ADDRESS && ofOperator !== undefined
      const serving = isOfOperator && operator?.isOn() === true ? ofOperator : front
      serving.serveForwarded(incoming, outgoing, decision)
    },
    drain: async (patience, work) => {
      life.isClosing = true
      life.closing.abort()
      server.close()
      // Node.js keeps connections with a request in flight open for further ones.
      server.prependListener('request', (_incoming, outgoing) => void (outgoing.shouldKeepAlive = false))
      let isWorking = work !== undefined
      const isBusy = (): boolean =>
        isWorking || fronts.some((each) => each.isBusy) || sse.isBusy || transfers.isAny
      const idle = async (until: number): Promise<void> => {
        while (isBusy() && world.now() < until) await pause(20)
      }
      const finish = async (): Promise<void> => {
        const end = world.now() + patience
        await idle(end - LAST_CALLS_MS)
        for (const each of fronts) each.refuseMore()
        await idle(end)
      }
      const worked = work?.finally(() => {
        isWorking = false
      })
      await Promise.all([finish(), worked])
    },
    close: async () => {
      life.isClosing = true
      life.closing.abort()
      await Promise.all([...fronts.map((each) => each.close()), sse.close()])
      await ended(server)
      ticker.close()
    },
  }
}

/** The mutable state of an open listener. */
interface Life {
  /** The port of the listener, once it is bound. */
  port: number
  isClosing: boolean
  readonly closing: AbortController
}

const timeouts = {
  // For files; other requests have less time (`Arrivals`).
  requestTimeout: 3_600_000,
  headersTimeout: 15_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5000,
}

/** Closes a server; connections that do not end within half a second are destroyed. */
async function ended(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.once('close', resolve))
  if (server.listening) server.close()
  server.closeIdleConnections()
  world.setTimeout(() => server.closeAllConnections(), 500).unref()
  if (server.listening || (await connections(server)) > 0) await closed
}

interface Dispatching extends Pick<Options, 'log' | 'onRefused'> {
  edge(): Edge
  readonly front: HttpFront
  readonly operators: { readonly front: HttpFront; isOn(): boolean } | undefined
  readonly routes: Hono<Env>
  readonly arrivals: Arrivals
}

/** Dispatches requests for MCP endpoints to the endpoint, and all others to the routes. */
function dispatcher({ edge, front, operators, routes, arrivals, log, onRefused }: Dispatching) {
  // A probe with HTTP/1.0 has no Host.
  const others = getRequestListener(routes.fetch, { hostname: 'localhost', overrideGlobalObjects: false })
  return (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    arrivals.limit(incoming, outgoing)
    // The hot path of every call: routing before Hono saves about a tenth.
    const endpoint = endpointOf(incoming.url)
    if (!endpoint && operators && isOperatorPath(incoming.url) && operators.isOn()) {
      if (isBrowsing(incoming)) return showPage(incoming, outgoing)
      return operators.front.serve(incoming, outgoing, OPERATOR_ADDRESS)
    }
    if (endpoint && isBrowsing(incoming)) return showPage(incoming, outgoing)
    if (endpoint) return front.serve(incoming, outgoing, endpoint.upstream)
    const id = requestId(incoming)
    incoming.headers['x-request-id'] = id
    outgoing.setHeader('x-request-id', id)
    try {
      const { access } = edge()
      if (/^\/(?:health|ready)(?:\?|$)/.test(incoming.url ?? '')) access.checkProbe(incoming)
      else access.check(incoming)
      void others(incoming, outgoing)
    } catch (error) {
      refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, edge: edge(), log, onRefused })
    }
  }
}

interface Routing extends Options {
  edge(): Edge
  readonly sse: LegacySse
  readonly life: Readonly<Life>
  readonly transfers: Transfers
  readonly bodies: Bodies
}

/** All routes other than the MCP endpoint. */
function createRoutes(options: Routing): Hono<Env> {
  const { edge, handle, pageSignIn, log } = options
  const app = new Hono<Env>()
  const guarded = createGuard(options)
  const authenticate = async ({ env: { incoming, outgoing } }: Context<Env>): Promise<Principal> =>
    edge().authGate.authenticateService({
      incoming,
      outgoing,
      upstream: undefined,
      requestId: requestId(incoming),
    })
  const signedIn = ({ env: { incoming } }: Context<Env>): Promise<Principal | undefined> =>
    edge().authGate.signedIn(incoming)
  addSse(app, options.sse, guarded)
  addPermissions(app, { handle, guarded })
  addServicePaths(app, options, guarded)
  addSignInPages(app, { signIns: options.signIns, log })
  addPageSignIn(app, { pageSignIn, edge, onSignedIn: options.onSignedIn, log })
  const { receiveHook: receive, onRefused } = options
  if (receive) addHooks(app, { edge, receive, onRefused, log })
  addCalls(app, { edge, handle, guarded })
  addByteRoutes(app, { edge, handle, guarded, pageSignIn, transfers: options.transfers })
  app.notFound((context) => context.json({ error: 'Not found. The MCP endpoint is /mcp.' }, 404))
  options.addPages?.(app, authenticate, options.bodies, options.life.closing.signal)
  addFrontPage(app, { ...options, authenticate, signedIn })
  addDocuments(app, { edge, handle, guarded })
  return app
}

/** Serves a request after its origin, caller and server are checked; `access` allows other credentials. */
type Guarded = (
  context: Context<Env>,
  serve: (exchange: HttpContext) => Promise<void> | void,
  access?: RequestedDocument | 'authenticateService',
) => Promise<Response>

function createGuard({ edge: currentEdge, sse, log, onRefused }: Routing): Guarded {
  return async ({ env: { incoming, outgoing }, req }, serve, access) => {
    const edge = currentEdge()
    const document = typeof access === 'object' ? access : undefined
    const isOfPermissions = req.path === '/permissions' || req.path.startsWith('/permissions/')
    const upstream =
      document?.upstream ??
      req.param('upstream') ??
      sse.upstreamOf(incoming) ??
      (isOfPermissions ? req.query('upstream') : undefined)
    const id = requestId(incoming)
    try {
      edge.access.allow(incoming, outgoing)
      const request = { incoming, outgoing, upstream, requestId: id, edge }
      const bearer = await document?.bearer?.()
      const principal = bearer ?? (await callerOf(request, document ?? access))
      // Anonymous access is limited to lists over MCP, and to public documents.
      if (!bearer && !document?.isOpen) edge.authGate.requireAuth({ ...request, principal }, undefined)
      if (upstream !== undefined && !edge.runtime.has(upstream))
        throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
      const presentCaller = bearer ? undefined : presentCallerOf(request, principal, currentEdge)
      await serve({ ...request, principal, presentCaller })
    } catch (error) {
      refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, edge, log, onRefused })
    }
    return RESPONSE_ALREADY_SENT
  }
}

/** Authenticates a request. @throws the reason of a rejection */
function callerOf(
  request: Omit<HttpContext, 'principal'>,
  access: Parameters<Guarded>[2],
): Principal | Promise<Principal> {
  const { authGate, runtime } = request.edge
  if (access === 'authenticateService') return authGate.authenticateService(request)
  if (!access || access.isCall) return authGate.authenticate(request)
  return access.isOpen ? reader(runtime.auth) : authGate.authenticateDocument(request)
}

/** The transport of 2024-11-05, if it is enabled. */
function addSse(app: Hono<Env>, sse: LegacySse, guarded: Guarded): void {
  const legacy = (exchange: HttpContext): HttpContext => {
    if (exchange.edge.runtime.listen.legacySse) return exchange
    throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  }
  const open = (context: Context<Env>): Promise<Response> =>
    guarded(context, (exchange) => sse.stream(legacy(exchange)))
  app.get('/sse', open)
  app.get('/sse/:upstream{(?:p/)?[^/]+}', open)
  app.post('/messages', (context) =>
    guarded(context, async (exchange) => {
      legacy(exchange)
      await sse.post(exchange, await jsonBody(exchange))
    }),
  )
}

/** The paths for operators and for other programs: metrics, health, readiness, keys, metadata. */
function addServicePaths(app: Hono<Env>, options: Routing, guarded: Guarded): void {
  const { edge, life } = options
  const started = world.monotonic()
  app.get('/metrics', (context) =>
    guarded(context, (exchange) => sendMetrics(exchange, options.metrics?.()), 'authenticateService'),
  )
  app.get('/health', (context) => {
    const uptime = Math.round((world.monotonic() - started) / 1000)
    return context.json({ status: 'ok', version: self.version, uptime })
  })
  app.get('/ready', async (context) => {
    const { isReady, ...state } = await options.ready(edge().authGate.probes)
    const isServing = isReady && !life.isClosing
    return context.json({ status: isServing ? 'ready' : 'not_ready', ...state }, isServing ? 200 : 503)
  })
  app.get(KEYS_PATH, async (context) => {
    try {
      const keys = await options.jwks?.()
      return keys ? context.json(keys, 200, metadataHeaders) : context.notFound()
    } catch (error) {
      return context.json({ error: asGatewayError(error).message }, 503)
    }
  })
  app.get('/.well-known/*', ({ env, req, json }, next) => {
    const metadata = metadataOf(env.incoming, req.path, edge())
    return metadata ? Promise.resolve(json(metadata, 200, metadataHeaders)) : next()
  })
}

async function sendMetrics(
  { outgoing, requestId: id }: HttpContext,
  metrics: Promise<Page | undefined> | undefined,
): Promise<void> {
  const page = await metrics
  if (!page) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  const { text, type } = page
  outgoing.writeHead(200, { 'content-type': type, 'x-request-id': id }).end(text)
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)))
}

/** Whether a browser opens an endpoint: MCP clients do not accept HTML. */
function isBrowsing({ method, headers: { accept = '', ...headers } }: IncomingMessage): boolean {
  if (method !== 'GET' || headers['mcp-session-id'] !== undefined) return false
  return /\btext\/html\b/i.test(accept) && !/\btext\/event-stream\b/i.test(accept)
}

/** Redirects a browser to the front page, with a relative URL because of proxies. */
function showPage({ url = '' }: IncomingMessage, outgoing: ServerResponse): void {
  const depth = (url.split('?', 1)[0] ?? '').split('/').length - 2
  const location = depth === 0 ? './' : '../'.repeat(depth)
  outgoing.writeHead(303, { location, vary: 'Accept', 'cache-control': 'no-store' }).end()
}

/** The MCP endpoint of a URL: one server, a profile, or all servers. */
function endpointOf(url = ''): { readonly upstream?: string } | undefined {
  if (url === '/mcp') return everything
  const path = url.split('?', 1)[0] ?? ''
  // Some clients drop the body on a redirect, so a trailing slash is accepted.
  const [, name] = /^\/mcp(?:\/((?:p\/(?=[^/]))?[^/]*))?\/?$/.exec(path) ?? [undefined, null]
  // This path is the server card of the gateway; no server can have this name.
  if (name === null || name === 'server-card') return undefined
  return name === undefined || name === '' ? everything : { upstream: name }
}

const everything = {}

/** Whether a URL is that of the owner's endpoint; a trailing slash is accepted as at the others. */
function isOperatorPath(url = ''): boolean {
  return url.startsWith(OPERATOR_PATH) && url.split('?', 1)[0]?.replace(/\/$/, '') === OPERATOR_PATH
}

/** The edges of the owner's endpoint: with the checks of the others, and without their servers. */
function operatorEdges(current: () => Edge): () => Edge {
  const known = new WeakMap<Edge, Edge>()
  return () => {
    const edge = current()
    const found = known.get(edge)
    if (found) return found
    const { listen, auth, proxies, statusMapping } = edge.runtime
    const made: Edge = {
      ...edge,
      runtime: {
        listen,
        auth,
        proxies,
        statusMapping,
        documents: [],
        has: (name) => name === OPERATOR_ADDRESS,
        withTool: (call) => ({ call, mirror: [] }),
      },
    }
    known.set(edge, made)
    return made
  }
}

/** The metadata of a protected endpoint, at the paths of RFC 9728 §3.1. */
function metadataOf(
  incoming: IncomingMessage,
  path: string,
  { authGate, prefix, runtime }: Edge,
): Record<string, unknown> | undefined {
  // A proxy that adds a path prefix may forward it unchanged.
  const found = metadataPath(path) ?? metadataPath(path.replace(`${prefix}/`, '/'))
  const isThere = (name: string): boolean =>
    name === OPERATOR_ADDRESS ? runtime.listen.operatorMcp : runtime.has(name)
  if (!found || (found.upstream !== undefined && !isThere(found.upstream))) return undefined
  return authGate.metadata(incoming, found.upstream)
}

const metadataHeaders = { 'access-control-allow-origin': '*', 'cache-control': 'public, max-age=300' }

/*
 * The paths where other services, and servers with events of their own, send webhooks. They carry no token: a signature
 * of the body authenticates them. The response is 202 once the webhook is stored, or 200 with what its sender expects;
 * the work that it causes comes after.
 */

/** The largest body that servers send, in bytes (SEP-3415). */
const MAX_EVENT_BYTES = 256 * 1024

interface HookServer {
  edge(): Edge
  readonly receive: ReceiveHook
  readonly onRefused?: ((refusal: Refusal) => void) | undefined
  readonly log: Log
}

/** Adds the paths of webhooks. */
function addHooks(app: Hono<Env>, { edge, receive, onRefused, log }: HookServer): void {
  const answer =
    (isOfServer: boolean) =>
    async (context: Context<Env>): Promise<Response> => {
      const { incoming, outgoing } = context.env
      const server = context.req.param('server')
      const name = context.req.param('name') ?? ''
      const id = requestId(incoming)
      try {
        const { bodies, runtime } = edge()
        const { body: largest } = runtime.listen
        const limit = isOfServer ? Math.min(largest, MAX_EVENT_BYTES) : largest
        const result = await receive({
          ...(server !== undefined && { server }),
          name,
          ...(isOfServer && { isOfServer }),
          headers: incoming.headers,
          body: () => bodies.json(incoming, { limit }),
        })
        const type = result && { 'content-type': 'application/json' }
        outgoing.writeHead(result ? 200 : 202, { 'x-request-id': id, ...type })
        outgoing.end(result && JSON.stringify(result))
      } catch (error) {
        refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, edge: edge(), log, onRefused })
      }
      return RESPONSE_ALREADY_SENT
    }
  app.post('/hooks/:server/events/:name', answer(true))
  app.post('/hooks/:server/:name', answer(false))
  app.post('/hooks/:name', answer(false))
}
