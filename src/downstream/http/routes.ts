/**
 * Routes other than the endpoint: documents with ETags, permissions, and the paths of features. They run as calls, with the
 * same checks as calls over MCP.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import type { ClientStream, Handler } from '../../core/call.ts'
import {
  type ByteExchange,
  type ByteResponse,
  byteExchangeSlot,
  type DocumentPath,
  type RoutePath,
  type PageFrame,
} from '../../core/http-paths.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { checkNesting, parsePeerJson, refuseDuplicates, encodeNotification } from '../../protocol/jsonrpc.ts'
import { lift } from '../../protocol/lift.ts'
import { pageMethod, routeMethod } from '../../protocol/methods.ts'
import { latestModern } from '../../core/revisions.ts'
import { type Edge, factsOf, type HttpContext, tokenLifetime } from './edge.ts'
import { encodeEvent } from '../../protocol/sse.ts'
import { HttpReply } from './reply.ts'
import type { PageSignIn } from '../../core/audit-step.ts'
import { isFromHere } from '../../core/web.ts'
import { presentPrincipal } from '../auth/authenticator.ts'
import { pageUserNamed } from '../pages/page-users.ts'
import { openPage } from '../pages/shell.ts'
import type { Arrivals } from './body.ts'

type Env = { Bindings: HttpBindings }

/** What serves paths: as the running configuration says, with the checks of calls. */
interface PathServer {
  edge(): Edge
  readonly handle: Handler
  /** Serves an authorized request; for the server of a document, if it is one. */
  guarded(
    context: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void>,
    request?: RequestedDocument,
  ): Promise<Response>
}

/** The server whose document is requested, and whether the document is public. */
export interface RequestedDocument {
  readonly upstream: string | undefined
  readonly isOpen: boolean
  /** The caller that the URL names, in place of one that authenticates. @throws if the URL is not valid */
  bearer?(): Promise<Principal | undefined>
  /** Whether it is a call: then the sign-in of a person to the pages is no authentication. */
  readonly isCall?: true
}

/** Serves the documents of the gateway, which are results of a handler, as cacheable pages. */
export function addDocuments(app: Hono<Env>, { edge, handle, guarded }: PathServer): void {
  app.get('/*', async (context, next) => {
    const { path } = context.req
    const found = documentAt(path, edge().runtime.documents)
    if (!found) return next()
    const { document, upstream = context.req.query('upstream') } = found
    return guarded(
      context,
      async (exchange) => {
        const { upstream: _named, ...query } = context.req.query()
        const format = document.isNegotiated && formatFor(context.req.header('accept'))
        const params = Payload.of({ ...query, ...(format && { format }) })
        const request = { method: pageMethod(document.path), params }
        sendPage(exchange, (await callGateway(exchange, request, handle)).fields, document)
      },
      { upstream, isOpen: document.isOpen?.() === true },
    )
  })
}

/** The document at a path, and the server in the path. */
export function documentAt(
  path: string,
  documents: readonly DocumentPath[],
): { readonly document: DocumentPath; readonly upstream?: string } | undefined {
  const exact = documents.find((each) => each.path === path)
  if (exact) return { document: exact }
  for (const document of documents) {
    const [before = '', after] = document.path.split('*')
    if (after === undefined || !path.startsWith(before) || !path.endsWith(after)) continue
    const upstream = path.slice(before.length, path.length - after.length)
    if (/^[a-z][a-z0-9-]*$/.test(upstream)) return { document, upstream }
  }
  return undefined
}

/** The reader of public documents: anonymous, without scopes. */
export function reader(auth: AuthSettings): Principal {
  return isProtected(auth) ? { ...anonymous, scopes: new Set() } : anonymous
}

/** The form in which a reader gets a document: a page, unless it accepts JSON and no HTML. */
function formatFor(accept = ''): 'html' | 'json' {
  return /\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept) ? 'json' : 'html'
}

function sendPage(
  { incoming, outgoing, principal, requestId }: HttpContext,
  page: Payload['fields'],
  { isNegotiated }: DocumentPath,
): void {
  const framed = isFrame(page.frame) ? openPage(String(page.text), page.frame, pathOf(incoming)) : undefined
  const text = framed?.text ?? String(page.text)
  const etag = etagOf(page, text)
  const scope = principal.isEverybody === true ? 'public' : 'private'
  const headers = {
    etag,
    ...framed?.headers,
    'cache-control': `${scope}, max-age=${Number(page.maxAge)}`,
    vary: `Origin, Authorization, Cookie, X-MCP-Session-Token${isNegotiated ? ', Accept' : ''}`,
    ...(isObject(page.headers) && textsIn(page.headers)),
    'x-request-id': requestId,
  }
  if (matchesEtag(incoming.headers['if-none-match'], etag)) {
    outgoing.writeHead(304, headers).end()
    return
  }
  const body = { 'content-type': String(page.type), 'x-content-type-options': 'nosniff' }
  outgoing.writeHead(200, { ...headers, ...body }).end(text)
}

/** Only pages of features have one. */
function isFrame(value: unknown): value is PageFrame {
  return isObject(value) && typeof value.title === 'string'
}

function pathOf({ url = '/' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '/'
}

function textsIn(headers: Payload['fields']): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}

/** RFC 9110 §8.8.1: a weak ETag if it covers only the significant part of the text. */
function etagOf({ lasting }: Payload['fields'], text: string): string {
  const isWeak = typeof lasting === 'string'
  const mark = createHash('sha256')
    .update(isWeak ? lasting : text)
    .digest('base64url')
    .slice(0, 22)
  return isWeak ? `W/"${mark}"` : `"${mark}"`
}

/** RFC 9110 §13.1.2: weak comparison. */
function matchesEtag(header: string | undefined, etag: string): boolean {
  const known = (header ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''))
  return known.includes(etag.replace(/^W\//, '')) || known.includes('*')
}

/** A request to the gateway itself. */
interface GatewayRequest {
  readonly method: string
  readonly params: Payload
  /** The response as a stream, which the call may use beyond its end. */
  readonly stream?: ClientStream
  /** The request and the response, for calls about bytes. */
  readonly exchange?: ByteExchange
}

/** Makes an internal call of the gateway for a plain HTTP request. @throws the error of the call */
async function callGateway(
  http: HttpContext,
  { method, params, stream, exchange }: GatewayRequest,
  handle: Handler,
): Promise<Payload> {
  const { outgoing, upstream, principal } = http
  const controller = new AbortController()
  outgoing.on('close', () => {
    if (!outgoing.writableFinished)
      controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
  })
  const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
  const around = { upstream, client, principal, stream, controller, emit: () => undefined }
  const call = lift({ kind: 'request', id: '0', method, params }, { ...factsOf(http), ...around })
  const target = { ...call.target, isBuiltin: true } as const
  const outcome = await handle(byteExchangeSlot.set({ ...call, target }, exchange))
  if (outcome.kind !== 'result')
    throw new GatewayError('SERVER_ERROR', 'Input requests are not possible over plain HTTP.')
  return outcome.result
}

/** Paths for one server, or the one in `?upstream=`, and the methods called by POST. */
const paths = [
  ['/permissions/negotiate', 'permissions/negotiate'],
  ['/permissions/:upstream/negotiate', 'permissions/negotiate'],
  ['/permissions', 'permissions/check'],
  ['/permissions/:upstream', 'permissions/check'],
] as const

/** Adds the paths of permission queries over plain HTTP. */
export function addPermissions(
  app: Hono<Env>,
  { handle, guarded }: Pick<PathServer, 'handle' | 'guarded'>,
): void {
  for (const [path, method] of paths) {
    app.post(path, (context) =>
      guarded(context, async (exchange) => {
        const params = bodyParams(await jsonBody(exchange))
        sendJson(exchange, await callGateway(exchange, { method, params }, handle))
      }),
    )
    if (method === 'permissions/negotiate') continue
    app.get(path, (context) =>
      guarded(context, async (exchange) => {
        const params = queryParams(context.req.query())
        // Without a tool, the question is what the caller may do at all.
        const isAboutAll = Object.keys(params.fields).every((key) => key === 'scopes_held')
        const asked = { method: isAboutAll ? 'permissions/list' : method, params }
        sendJson(exchange, await callGateway(exchange, asked, handle))
      }),
    )
  }
}

/** Sends a result as JSON. */
function sendJson({ outgoing, requestId }: HttpContext, { text }: Payload): void {
  const type = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  outgoing.writeHead(200, { ...type, 'x-request-id': requestId }).end(text)
}

/** The params of a check from the query of a URL: `tool`, and `scopes_held` separated by spaces or commas. */
function queryParams(query: Readonly<Record<string, string>>): Payload {
  const { tool, scopes_held: held, parameters, arguments: args } = query
  return Payload.of({
    // A query cannot contain arguments, and the response must not be mistaken for one that considers them.
    ...(parameters !== undefined && { parameters }),
    ...(args !== undefined && { arguments: args }),
    ...(tool !== undefined && { tool }),
    ...(held !== undefined && { scopes_held: held.split(/[\s,]+/).filter((scope) => scope !== '') }),
  })
}

/** The JSON in the body of a request. @throws what `Bodies.json` throws */
export function jsonBody({ incoming, principal, edge }: HttpContext): Promise<string> {
  return edge.bodies.json(incoming, { limit: edge.runtime.listen.body, principal })
}

/** The params of a check or negotiation from the body of a request. @throws PARSE_ERROR, INVALID_REQUEST, INVALID_INPUT */
function bodyParams(text: string): Payload {
  const value = parsePeerJson(text)
  checkNesting(text)
  refuseDuplicates(text, value)
  if (isObject(value)) return Payload.text(text, value)
  throw new GatewayError('INVALID_INPUT', 'The body must be a JSON object.')
}

/*
 * Paths of features whose requests are calls: the response is the result as JSON, or an event stream that a feature
 * sends notifications to.
 */

type Fields = Readonly<Record<string, string>>

/** A path that was requested, and the members of the params in it. */
interface FoundRoute<Route> {
  readonly route: Route
  readonly named: Fields
}

/** Adds the paths of the running configuration. */
export function addCalls(app: Hono<Env>, { edge, handle, guarded }: PathServer): void {
  app.on(['GET', 'POST'], '/*', async (context, next) => {
    const { path, method } = context.req
    const found = routeAt(method, path, edge().runtime.routes ?? [])
    if (!found) return next()
    const { upstream, ...query } = context.req.query()
    return guarded(context, (exchange) => serve(exchange, found, { query, handle }), {
      upstream,
      isOpen: false,
      isCall: true,
    })
  })
}

/** The route of a request. */
export function routeAt<Route extends Pick<RoutePath, 'path'> & { readonly verb: string }>(
  verb: string,
  path: string,
  routes: readonly Route[],
): FoundRoute<Route> | undefined {
  for (const route of routes) {
    if (route.verb !== verb) continue
    const [before = '', name] = route.path.split(':')
    if (name === undefined && path === before) return { route, named: {} }
    const rest = path.slice(before.length)
    if (name !== undefined && path.startsWith(before) && /^[^/]+$/.test(rest))
      return { route, named: { [name]: rest } }
  }
  return undefined
}

async function serve(
  exchange: HttpContext,
  { route, named }: FoundRoute<RoutePath>,
  { query, handle }: { readonly query: Fields; readonly handle: Handler },
): Promise<void> {
  const { incoming } = exchange
  const method = routeMethod(route)
  if (route.isStream) {
    const eventId = incoming.headers['last-event-id']
    const after = typeof eventId === 'string' && eventId !== '' ? { after: eventId } : {}
    return serveStream(exchange, { method, params: Payload.of({ ...query, ...after, ...named }) }, handle)
  }
  const params =
    route.verb === 'GET'
      ? Payload.of({ ...query, ...named })
      : bodyParams(await jsonBody(exchange)).with(named)
  sendJson(exchange, await callGateway(exchange, { method, params }, handle))
}

/** Opens an event stream. If the call fails, its error is the response. */
async function serveStream(
  exchange: HttpContext,
  request: { readonly method: string; readonly params: Payload },
  handle: Handler,
): Promise<void> {
  const { outgoing, requestId, edge } = exchange
  // A client that is already gone would never emit `close`.
  if (outgoing.destroyed) return
  const closed = new AbortController()
  const onSlow = (): void => closed.abort()
  const reply = new HttpReply(outgoing, { requestId }, { ticker: edge.ticker, canStream: true, onSlow })
  const lifetime = tokenLifetime(exchange, () => outgoing.end())
  outgoing.on('close', () => {
    lifetime.end()
    closed.abort()
  })
  const stream: ClientStream = {
    isOpen: () => !reply.isGone,
    closed: closed.signal,
    emit: ({ method, params }, id) => {
      reply.open()
      reply.write(encodeEvent(encodeNotification(method, params), id))
    },
    drained: () => reply.flushed(),
    end: () => outgoing.end(),
  }
  await callGateway(exchange, { ...request, stream }, handle)
  reply.open()
}

/*
 * Paths of features whose requests or responses are bytes: streams in both directions, at the pace of the slower side.
 * Where the URL itself is a credential, it names the caller.
 */

interface ByteServer extends PathServer {
  readonly transfers: Transfers
  readonly pageSignIn: Pick<PageSignIn, 'link'>
}

/** How long either side may be silent, in milliseconds. */
const IDLE_TIMEOUT_MS = 60_000
/** How long the rest of a refused body is read and discarded before the error is sent, in milliseconds. */
const DRAIN_TIMEOUT_MS = 1000

/** The transfers in progress. */
export class Transfers {
  #count = 0
  readonly #arrivals: Pick<Arrivals, 'exempt' | 'mayDiscard'>
  /** How long either side may be silent, in milliseconds. */
  readonly idleTimeoutMs: number

  constructor(arrivals: Pick<Arrivals, 'exempt' | 'mayDiscard'>, idleTimeoutMs = IDLE_TIMEOUT_MS) {
    this.#arrivals = arrivals
    this.idleTimeoutMs = idleTimeoutMs
  }

  get isAny(): boolean {
    return this.#count > 0
  }

  /** Reads the rest of a body before its error is sent: a client that is disconnected while it sends may never read it. */
  async discard(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (incoming.complete || incoming.destroyed) return
    outgoing.setHeader('connection', 'close')
    if (!this.#arrivals.mayDiscard(incoming)) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, DRAIN_TIMEOUT_MS)
      incoming.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
      // A reader that was stopped while it waited for bytes would keep them from flowing.
      incoming.removeAllListeners('readable')
      incoming.resume()
    })
  }

  /** Counts one until it ends. */
  async during(incoming: IncomingMessage, transfer: () => Promise<unknown>): Promise<void> {
    this.#arrivals.exempt(incoming)
    this.#count++
    try {
      await transfer()
    } finally {
      this.#count--
    }
  }
}

/** Adds the paths of the running configuration. */
export function addByteRoutes(app: Hono<Env>, { guarded, edge, ...options }: ByteServer): void {
  app.on(['GET', 'POST', 'PUT'], '/*', async (context, next) => {
    const { path, method } = context.req
    const found = routeAt(method === 'HEAD' ? 'GET' : method, path, edge().runtime.byteRoutes ?? [])
    if (!found) return next()
    const { route, named: params } = found
    const name = decoded(Object.values(params)[0] ?? '')
    const query = new URL(context.req.url).searchParams
    const { bearer } = route
    const request = {
      upstream: undefined,
      isOpen: false,
      isCall: true,
      ...(bearer && {
        bearer: async () => {
          const named = await bearer({ name, query })
          // It was allowed to when the URL was made.
          return named && presentPrincipal(named, edge().runtime.auth)
        },
      }),
    } as const
    const serve = async (http: HttpContext): Promise<void> => {
      const { transfers } = options
      const rest = { name, query, signInLink: options.pageSignIn.link(path) }
      const exchange = exchangeOf(http, transfers, rest)
      const call = { method: routeMethod(route), params: Payload.of({}), exchange }
      await transfers.during(http.incoming, () =>
        servedBytes(http, transfers, () => callGateway(http, call, options.handle)),
      )
    }
    return guarded(context, serve, request)
  })
}

/** A segment of a path; as it is if it is not encoded correctly. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** Serves a request, and reads the rest of its body if it is refused. */
async function servedBytes(
  { incoming, outgoing }: HttpContext,
  transfers: Transfers,
  serve: () => Promise<unknown>,
): Promise<void> {
  const { socket } = incoming
  const onIdle = (): void => void socket.destroy()
  socket.setTimeout(transfers.idleTimeoutMs, onIdle)
  try {
    await serve()
  } catch (error) {
    if (!outgoing.headersSent) await transfers.discard(incoming, outgoing)
    throw error
  } finally {
    socket.off('timeout', onIdle)
    // Once a response is sent, the time is the one that its connection may be idle.
    if (!outgoing.writableFinished) socket.setTimeout(0)
  }
}

function exchangeOf(
  { incoming, outgoing, edge, requestId }: HttpContext,
  transfers: Transfers,
  rest: Pick<ByteExchange, 'name' | 'query' | 'signInLink'>,
): ByteExchange {
  const { method, headers } = incoming
  const answer: ByteExchange['send'] = async (response) => {
    if (response.status >= 400) await transfers.discard(incoming, outgoing)
    await send(outgoing, { ...response, headers: { ...response.headers, 'x-request-id': requestId } })
  }
  return {
    ...rest,
    verb: method === 'HEAD' || method === 'POST' || method === 'PUT' ? method : 'GET',
    headers,
    body: bodyOf(incoming),
    isFromHere: isFromHere(headers, edge.runtime.listen.publicUrl),
    person: async () => {
      const { auth } = edge.runtime
      if (auth.users.length === 0 && rest.signInLink === undefined) return undefined
      const request = { incoming, outgoing, upstream: undefined, requestId }
      const principal = await edge.authGate.authenticateService(request)
      return pageUserNamed(principal, auth)?.by ?? principal.id
    },
    send: answer,
    sendPage: (status, content, frame) => {
      const { text: body, headers: own } = openPage(content, frame, pathOf(incoming))
      return answer({ status, headers: { ...own, 'content-type': 'text/html; charset=utf-8' }, body })
    },
  }
}

async function* bodyOf(incoming: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    // A body that is refused is not destroyed: the error is sent on the same connection.
    yield* incoming.iterator({ destroyOnReturn: false })
  } catch (cause) {
    throw disconnected(cause)
  }
}

async function send(outgoing: ServerResponse, { status, headers, body }: ByteResponse): Promise<void> {
  if (outgoing.destroyed) throw disconnected(undefined)
  outgoing.writeHead(status, headers)
  if (typeof body !== 'object') {
    outgoing.end(body)
    return
  }
  if (outgoing.req.method === 'HEAD') {
    outgoing.end()
    return
  }
  try {
    await pipeline(body, outgoing)
  } catch (cause) {
    throw cause instanceof GatewayError ? cause : disconnected(cause)
  }
}

function disconnected(cause: unknown): GatewayError {
  return new GatewayError('CANCELLED', 'The client disconnected.', { cause })
}
