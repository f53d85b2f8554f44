/**
 * The HTTP server: routes, and the order of checks before any of them: origin, authentication, existence of
 * the server. Settings are read for each request, as a reload may change them.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type Context, Hono } from 'hono'
import type { Call, Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Log, Probes } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Refusal, PageSignIn, SignInStep } from '../../core/events.ts'
import { ownUrl } from '../../core/web.ts'
import { self } from '../../core/identity.ts'
import type { AuthSettings } from '../../core/auth-settings.ts'
import type { ListenSettings } from '../../core/settings.ts'
import type { RequestStateCodec } from '../../protocol/request-state.ts'
import { KEYS_PATH } from '../../protocol/meta-keys.ts'
import type { HeaderMirror } from '../../protocol/headers.ts'
import { createAccess } from './origin.ts'
import { type AuthGate, followAuthGate } from '../auth/auth-gate.ts'
import { metadataPath } from '../auth/resources.ts'
import { wholeBody } from './body.ts'
import { addDocuments, type RequestedDocument, type DocumentPath, reader, addPermissions } from './routes.ts'
import type { HttpContext } from './context.ts'
import { HttpFront, refuse, requestId } from './endpoint.ts'
import { LegacySse } from './sse-endpoint.ts'
import { addFrontPage, type Reader } from '../pages/front-page-route.ts'
import { addPageSignIn, addSignInPages, type SignIns } from '../pages/sign-in.ts'
import type { StatusMapping } from './statuses.ts'

interface Options {
  readonly handle: Handler
  mirror(call: Call): HeaderMirror | Promise<HeaderMirror>
  /** Whether the caller of a tool is permitted to make the call. */
  isPermitted?(call: Call): Promise<boolean>
  has(upstream: string): boolean
  readonly listen: () => ListenSettings
  readonly auth: () => AuthSettings
  /** The HTTP status of each error of a call; nothing where all have 200. */
  statusMapping?(): StatusMapping | undefined
  readonly signIns: SignIns
  readonly pageSignIn: PageSignIn
  readonly seal: RequestStateCodec
  /** The public keys that verify the gateway's signatures. @throws SERVER_UNAVAILABLE */
  jwks?(): Promise<object>
  /** What `/ready` answers, given the parts that let clients in: whether calls can be served, and the state of each part. */
  ready(
    needed: Probes,
  ): Promise<{ readonly isReady: boolean; readonly checks: Readonly<Record<string, unknown>> }>
  readonly addPages?: AddPages
  /** Where the gateway's own documents are read. */
  documents?(): readonly DocumentPath[]
  /** The page for people at `/`. */
  page(reader: Reader): Promise<string>
  /** What `/metrics` answers; nothing where there are none. */
  metrics?(): Promise<Page | undefined>
  /** Hears of every request that is turned away. */
  onRefused?(refusal: Refusal): void
  /** Hears of each person who signed in to the pages. */
  onSignedIn?(step: SignInStep): void
  readonly log: Log
}

interface Page {
  readonly text: string
  /** Its media type. */
  readonly type: string
}

/** The open HTTP listener. */
export interface Listener {
  readonly url: string
  /** How many sessions of clients there are. */
  readonly sessions: number
  /** Takes no new connections; resolves when the calls under way have ended, or after `patience` ms. */
  drain(patience: number): Promise<void>
  /** Ends sessions and streams. */
  close(): Promise<void>
}

type Env = { Bindings: HttpBindings }

const none = (): readonly DocumentPath[] => []

/** Adds pages of other parts; `enter` tells who has the credentials of a request. */
export type AddPages = (app: Hono<Env>, enter: (context: Context<Env>) => Promise<Principal>) => void

/** Listens for clients over HTTP. @throws the system's error where the address cannot be had */
export async function listenHttp(options: Options): Promise<Listener> {
  const { listen, log } = options
  let isClosing = false
  let settings = listen()
  let access = createAccess(settings)
  const current = (): typeof access => {
    // The configuration may have been read again.
    if (listen() !== settings) {
      settings = listen()
      access = createAccess(settings)
    }
    return access
  }
  let port = settings.port
  const { pageSignIn } = options
  const authGate = followAuthGate({ auth: options.auth, listen, port: () => port, pageSignIn, log })
  const isStrict = (): boolean => listen().isStrict
  const front = new HttpFront({
    ...options,
    authGate,
    access: current,
    body: () => listen().body,
    isStrict,
  })
  const prefix = (): string => new URL(listen().publicUrl ?? 'http://localhost/').pathname.replace(/\/$/, '')
  const { handle, onRefused } = options
  const sse = new LegacySse({ handle, prefix, isStrict, log, ...(onRefused && { onRefused }) })

  const guarded = async (
    { env: { incoming, outgoing }, req }: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void> | void,
    asked?: RequestedDocument | 'authenticateService',
  ): Promise<Response> => {
    const document = typeof asked === 'object' ? asked : undefined
    const upstream =
      document?.upstream ??
      req.param('upstream') ??
      sse.upstreamOf(incoming) ??
      (req.path === '/permissions' || req.path.startsWith('/permissions/')
        ? req.query('upstream')
        : undefined)
    const id = requestId(incoming)
    try {
      current().allow(incoming, outgoing)
      const visit = { incoming, outgoing, upstream, requestId: id }
      const principal = document?.isOpen
        ? reader(options.auth())
        : await authGate()[
            document ? 'authenticateDocument' : asked === 'authenticateService' ? asked : 'authenticate'
          ](visit)
      // What is open to all are lists, over MCP alone, and documents that are said to be.
      if (!document?.isOpen) authGate().requireAuth({ ...visit, principal }, undefined)
      if (upstream !== undefined && !options.has(upstream))
        throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
      await serve({ ...visit, principal })
    } catch (error) {
      refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, log, onRefused })
    }
    return RESPONSE_ALREADY_SENT
  }

  const legacy = (exchange: HttpContext): HttpContext => {
    if (listen().legacySse) return exchange
    throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  }

  const started = performance.now()
  const app = new Hono<Env>()
  const open = (context: Context<Env>): Promise<Response> =>
    guarded(context, (exchange) => sse.stream(legacy(exchange)))
  app.get('/sse', open)
  app.get('/sse/:upstream', open)
  app.post('/messages', (context) =>
    guarded(context, async (exchange) =>
      sse.post(legacy(exchange), await wholeBody(exchange.incoming, listen().body)),
    ),
  )
  addPermissions(app, { handle, limit: () => listen().body, guarded })
  app.get('/metrics', (context) =>
    guarded(context, (exchange) => tellMetrics(exchange, options.metrics?.()), 'authenticateService'),
  )
  app.get('/health', (context) => {
    const uptime = Math.round((performance.now() - started) / 1000)
    return context.json({ status: 'ok', version: self.version, uptime })
  })
  app.get('/ready', async (context) => {
    const { isReady, checks } = await options.ready(authGate().probes)
    return context.json(
      { status: isReady && !isClosing ? 'ready' : 'not_ready', checks },
      isReady && !isClosing ? 200 : 503,
    )
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
    const metadata = metadataOf(env.incoming, req.path, {
      authGate: authGate(),
      prefix: prefix(),
      has: options.has,
    })
    return metadata ? Promise.resolve(json(metadata, 200, metadataHeaders)) : next()
  })
  addSignInPages(app, { signIns: options.signIns, log })
  addPageSignIn(app, { pageSignIn, listen, onSignedIn: options.onSignedIn, log })
  const enter = async ({ env: { incoming, outgoing } }: Context<Env>): Promise<Principal> =>
    authGate().authenticateService({
      incoming,
      outgoing,
      upstream: undefined,
      requestId: requestId(incoming),
    })
  options.addPages?.(app, enter)
  const paths = options.documents ?? none
  const signedIn = ({ env: { incoming } }: Context<Env>): Promise<Principal | undefined> =>
    authGate().signedIn(incoming)
  addFrontPage(app, { ...options, enter, signedIn, paths })
  addDocuments(app, { paths, handle, guarded })
  app.notFound((context) => context.json({ error: 'Not found. The MCP endpoint is /mcp.' }, 404))

  const server = createServer({
    requestTimeout: 30_000,
    headersTimeout: 15_000,
    keepAliveTimeout: 65_000,
    connectionsCheckingInterval: 5000,
  })
  const others = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  server.on('request', (incoming, outgoing) => {
    // Every call comes this way: routing it here costs a tenth less than anywhere else.
    const endpoint = endpointOf(incoming.url)
    if (endpoint && isBrowsing(incoming)) showPage(incoming, outgoing)
    else if (endpoint) front.serve(incoming, outgoing, endpoint.upstream)
    else {
      const id = requestId(incoming)
      incoming.headers['x-request-id'] = id
      outgoing.setHeader('x-request-id', id)
      try {
        if (/^\/(?:health|ready)(?:\?|$)/.test(incoming.url ?? '')) current().checkProbe(incoming)
        else current().check(incoming)
        void others(incoming, outgoing)
      } catch (error) {
        refuse(outgoing, asGatewayError(error), { id: 'null', requestId: id, log, onRefused })
      }
    }
  })
  await bind(server, settings)
  const address = server.address()
  if (typeof address === 'object' && address) port = address.port

  return {
    get sessions() {
      return front.sessions.size + sse.size
    },
    url: ownUrl(settings.host, port),
    drain: async (patience) => {
      isClosing = true
      server.close()
      const until = Date.now() + patience
      while ((front.isBusy || sse.isBusy) && Date.now() < until) await wait(20)
    },
    close: async () => {
      isClosing = true
      const closed = new Promise((resolve) => server.once('close', resolve))
      if (server.listening) server.close()
      await Promise.all([front.sessions.close(), sse.close()])
      server.closeIdleConnections()
      setTimeout(() => server.closeAllConnections(), 500).unref()
      if (server.listening || (await connections(server)) > 0) await closed
    },
  }
}

async function tellMetrics(
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

/** Whether a person looks at an endpoint in a browser: clients of MCP do not ask for HTML. */
function isBrowsing({ method, headers: { accept = '', ...headers } }: IncomingMessage): boolean {
  if (method !== 'GET' || headers['mcp-session-id'] !== undefined) return false
  return /\btext\/html\b/i.test(accept) && !/\btext\/event-stream\b/i.test(accept)
}

/** Sends a browser to the page for people, wherever a proxy has put it. */
function showPage({ url = '' }: IncomingMessage, outgoing: ServerResponse): void {
  const depth = (url.split('?', 1)[0] ?? '').split('/').length - 2
  const location = depth === 0 ? './' : '../'.repeat(depth)
  outgoing.writeHead(303, { location, vary: 'Accept', 'cache-control': 'no-store' }).end()
}

/** The MCP endpoint a URL is of: that of one server, or of all. */
function endpointOf(url = ''): { readonly upstream?: string } | undefined {
  if (url === '/mcp') return everything
  const path = url.split('?', 1)[0] ?? ''
  // Some clients lose their body over a redirect, so a slash at the end is taken as it is.
  const [, name] = /^\/mcp(?:\/([^/]*))?\/?$/.exec(path) ?? [undefined, null]
  // The card of the gateway stands where no server can.
  if (name === null || name === 'server-card') return undefined
  return name === undefined || name === '' ? everything : { upstream: name }
}

const everything = {}

/** The metadata of a protected endpoint, at the paths of RFC 9728 §3.1. */
function metadataOf(
  incoming: IncomingMessage,
  path: string,
  {
    authGate,
    prefix,
    has,
  }: { readonly authGate: AuthGate; readonly prefix: string; has(upstream: string): boolean },
): Record<string, unknown> | undefined {
  // A proxy that serves the gateway below a path of its own may leave that path where the client put it.
  const found = metadataPath(path) ?? metadataPath(path.replace(`${prefix}/`, '/'))
  if (!found || (found.upstream !== undefined && !has(found.upstream))) return undefined
  return authGate.metadata(incoming, found.upstream)
}

const metadataHeaders = { 'access-control-allow-origin': '*', 'cache-control': 'public, max-age=300' }

function bind(server: Server, { host, port }: ListenSettings): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
