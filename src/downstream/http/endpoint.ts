/**
 * The MCP endpoint over Streamable HTTP, for all revisions. It is the hot path of every call over HTTP, so it uses
 * Node's request and response directly. Revisions with sessions have them here (`HttpSessions`): limited in number, ended
 * when idle.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomUUID } from 'node:crypto'
import type { Call, Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import type { Refusal } from '../../core/audit-step.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import { newRequestId, sessionDigest } from '../../core/identity.ts'
import { attempt } from '../../core/time/waiting.ts'
import type { RequestStateCodec } from '../../protocol/request-state.ts'
import { serveStateless } from '../stateless.ts'
import {
  classify,
  checkNesting,
  encodeError,
  type Id,
  idOf,
  type JsonRpcMessage,
  parseMessages,
  type JsonRpcRequest,
  isUnknownVersion,
  type Batch,
} from '../../protocol/jsonrpc.ts'
import { checkMirror } from '../../protocol/headers.ts'
import { lift } from '../../protocol/lift.ts'
import { isForServers, isListening } from '../../protocol/methods.ts'
import { modernStatus } from '../../protocol/modern.ts'
import { latestModern } from '../../core/revisions.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import type { HeldMemory } from '../../core/holdings.ts'
import { world } from '../../core/world.ts'
import { ClientSessions, EXTENSION_INTERVAL_MS } from '../../records/client-sessions.ts'
import type { Store } from '../../store/store.ts'
import type { RequestContext } from '../auth/auth-gate.ts'
import { type Called, type Edge, type HttpRuntime, type HttpContext, factsOf, tokenLifetime } from './edge.ts'
import { HttpReply, Replay, isEnding } from './reply.ts'
import { serveBatch, takeBatch, ClientSession } from '../session/session.ts'
import type { ResponseSink } from '../session/response-sink.ts'

interface Options {
  readonly handle: Handler
  /** The current edge: read once for each request. */
  edge(): Edge
  readonly seal: RequestStateCodec
  readonly held: HeldMemory
  /** The present store, which keeps sessions. */
  store(): Store
  /** Checks that a caller may use the endpoint at all. @throws PERMISSION_DENIED */
  admit?(principal: Principal): void
  /** Called for every rejected request. */
  onRefused?(refusal: Refusal): void
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** A request before authentication. */
type UnauthenticatedRequest = RequestContext & Pick<HttpContext, 'edge'>

/** The maximum number of streams of `subscriptions/listen` and `events/stream`. */
const MAX_LISTEN_STREAMS = 10_000

/** The media types of the response to a posted message. */
const POST_RESPONSE_TYPES = ['application/json', 'text/event-stream']

/** The MCP endpoint over HTTP, for all revisions with Streamable HTTP. */
export class HttpFront {
  readonly #options: Options
  readonly #legacy: LegacyHttp
  readonly sessions: HttpSessions
  /** The principals of open subscriptions, by the function that ends each. */
  readonly #listening = new Map<AbortController, Principal>()
  #running = 0

  constructor(options: Options) {
    this.#options = options
    const { handle, edge, held, meter, log } = options
    const isStrict = (): boolean => edge().runtime.listen.isStrict
    const kept = new ClientSessions({ transport: 'http', store: options.store, log })
    this.sessions = new HttpSessions({ handle, isStrict, held, kept, meter, log })
    this.#legacy = new LegacyHttp(this.sessions, log)
  }

  /** Whether a call is in flight. */
  get isBusy(): boolean {
    return this.#running > 0 || this.sessions.isBusy
  }

  /** Serves one HTTP request. Never throws. */
  serve(incoming: IncomingMessage, outgoing: ServerResponse, upstream: string | undefined): void {
    const edge = this.#options.edge()
    const request = { incoming, outgoing, upstream, requestId: requestId(incoming), edge }
    const fail = (error: unknown, text = ''): void => this.#refuse(request, error, text)
    try {
      if (!this.#admit(request)) return
      const caller = edge.authGate.authenticate(request)
      // A cached token is handled synchronously, without a turn of the event loop.
      if (caller instanceof Promise)
        caller.then((principal) => this.#receive(request, principal, fail)).catch(fail)
      else this.#receive(request, caller, fail)
    } catch (error) {
      fail(error)
    }
  }

  #receive(
    request: UnauthenticatedRequest,
    principal: Principal,
    fail: (error: unknown, text?: string) => void,
  ): void {
    const exchange = this.#open(request, principal)
    const { incoming } = request
    const { bodies, runtime } = request.edge
    const { listen } = runtime
    if (incoming.method === 'POST') {
      const onBody = (text: string): void => {
        try {
          this.#post(exchange, text)?.catch((error: unknown) => fail(error, text))
        } catch (error) {
          fail(error, text)
        }
      }
      return bodies.readJson(incoming, { limit: listen.body, principal }, { onBody, onError: fail })
    }
    const hasSession = incoming.headers['mcp-session-id'] !== undefined
    if (incoming.method === 'GET' && hasSession) {
      if (listen.isStrict) checkNames(incoming, ['text/event-stream'])
      return void this.#legacy.get(exchange).catch(fail)
    }
    if (incoming.method === 'DELETE' && hasSession) return void this.#legacy.delete(exchange).catch(fail)
    throw new GatewayError('METHOD_NOT_ALLOWED', 'Method not allowed.')
  }

  #refuse({ outgoing, requestId, edge }: UnauthenticatedRequest, error: unknown, text: string): void {
    const { log, onRefused } = this.#options
    refuse(outgoing, asGatewayError(error), { id: idOf(text), requestId, edge, log, onRefused })
  }

  /** Checks the origin, and answers preflight requests. Returns whether to continue. @throws FORBIDDEN */
  #admit({ incoming, outgoing, edge: { access } }: UnauthenticatedRequest): boolean {
    access.check(incoming)
    access.allow(incoming, outgoing)
    if (incoming.method === 'OPTIONS') {
      access.preflight(incoming, outgoing)
      return false
    }
    return true
  }

  /** @throws UNSUPPORTED_OPERATION, and what `admit` throws */
  #open(request: UnauthenticatedRequest, principal: Principal): HttpContext {
    const { upstream, edge } = request
    if (upstream !== undefined && !edge.runtime.has(upstream)) {
      throw new GatewayError('UNSUPPORTED_OPERATION', 'There is no server at this path.')
    }
    if (this.#options.admit) {
      // What anonymous callers may do elsewhere, they may not do here.
      edge.authGate.requireAuth({ ...request, principal }, undefined)
      this.#options.admit(principal)
    }
    const presentCaller = presentCallerOf(request, principal, () => this.#options.edge())
    const context = { ...request, principal, presentCaller }
    if (!principal.claims) return context
    return { ...context, challenge: (error) => edge.authGate.stepUp(context, error) }
  }

  #post(exchange: HttpContext, text: string): Promise<void> | undefined {
    const { authGate, runtime } = exchange.edge
    if (runtime.listen.isStrict) checkNames(exchange.incoming, POST_RESPONSE_TYPES)
    const version = exchange.incoming.headers['mcp-protocol-version']
    const header = typeof version === 'string' ? version : undefined
    const message = parseMessages(text)
    checkNesting(text)
    if (message.kind === 'batch') {
      authGate.requireAuth(exchange, undefined)
      return this.#legacy.postBatch(exchange, message)
    }
    authGate.requireAuth(exchange, message.kind === 'response' ? undefined : message.method)
    if (classify(message, header) === 'legacy') return this.#legacy.post(exchange, message, text)
    if (message.kind === 'request') return this.#stateless(exchange, message)
    this.#notification(exchange, message)
    return undefined
  }

  async #stateless(exchange: HttpContext, request: JsonRpcRequest): Promise<void> {
    const { incoming, outgoing, upstream, principal, challenge, edge } = exchange
    const { handle, seal } = this.#options
    const controller = new AbortController()
    // 2026-07-28 basic/utilities/cancellation: closing the stream cancels the request, but not what goes on without it.
    let isRetained = false
    const retain = (): void => {
      isRetained = true
    }
    outgoing.on('close', () => {
      if (!outgoing.writableFinished && !isRetained)
        controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
    })
    const canStream = checkAccepts(incoming)
    const leave = isListening(request.method) ? this.#listen(controller, exchange) : undefined
    const onSlow = (): void =>
      controller.abort(new GatewayError('SLOW_CLIENT', 'The client reads the response too slowly.'))
    const options = { ticker: edge.ticker, challenge, canStream, statusOf: modernStatus, onSlow }
    const reply = new HttpReply(outgoing, factsOf(exchange), options)
    const check = (call: Call): Call | Promise<Call> => this.#checkMirror(call, exchange)
    const { headers } = incoming
    if (!leave) this.#running++
    try {
      const around = {
        handle,
        seal,
        upstream,
        principal,
        headers,
        controller,
        retain,
        delivery: reply,
        check,
      }
      await serveStateless(request, reply, around)
    } finally {
      if (leave) leave()
      else this.#running--
    }
  }

  /** Counts a stream until the returned function is called; the stream ends when the token expires. @throws OVERLOADED */
  #listen(controller: AbortController, exchange: HttpContext): () => void {
    const { principal } = exchange
    if (this.#listening.size >= MAX_LISTEN_STREAMS)
      throw new GatewayError('OVERLOADED', 'Too many subscription streams are open.')
    if (hasReachedShare(principal, this.#listening, ({ id }) => id, MAX_LISTEN_STREAMS))
      throw new GatewayError('OVERLOADED', 'Too many subscription streams of this caller are open.')
    this.#listening.set(controller, principal)
    const { end } = tokenLifetime(exchange, () => controller.abort(over()))
    return () => {
      end()
      this.#listening.delete(controller)
    }
  }

  /** The call with its tool. @throws HEADER_MISMATCH */
  #checkMirror(given: Call, { incoming, edge: { runtime } }: HttpContext): Call | Promise<Call> {
    if (given.method !== 'tools/call') return given
    const check = ({ call, mirror }: Called): Call | Promise<Call> => {
      try {
        checkMirror(mirror, incoming.headers, call.params)
        return call
      } catch (error) {
        return throwIfPermitted(call, error, runtime).then(() => call)
      }
    }
    const called = runtime.withTool(given)
    // If the server is unavailable, the call itself reports that.
    return called instanceof Promise ? called.then(check, () => given) : check(called)
  }

  #notification(exchange: HttpContext, message: JsonRpcMessage): void {
    const { incoming, upstream, principal, requestId } = exchange
    accept(exchange)
    if (message.kind !== 'notification' || !isForServers(message.method)) return
    const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
    const controller = new AbortController()
    const trace = headerTrace(incoming.headers)
    const context = { requestId, peer: incoming, trace, upstream, client, principal, controller }
    const call = lift(message, { ...context, emit: () => undefined })
    background(this.#options.handle(call), this.#options.log)
  }
}

/** Authenticates the credentials of a request again once another configuration is loaded. */
export function presentCallerOf(
  request: UnauthenticatedRequest,
  principal: Principal,
  current: () => Edge,
): NonNullable<Call['presentCaller']> {
  let known: { readonly edge: Edge; readonly principal: Principal | Promise<Principal> } = {
    edge: request.edge,
    principal,
  }
  return () => {
    const edge = current()
    if (edge === known.edge) return known.principal
    const present = attempt(() => edge.authGate.authenticate(request))
    const before = known
    known = { edge, principal: present }
    // What is not known at present is asked again.
    if (present instanceof Promise)
      present.catch((error: unknown) => {
        if (known.principal === present && asGatewayError(error).category === 'transient') known = before
      })
    return present
  }
}

/** Throws a header mismatch, which would reveal the tool: without permission the call goes on, to its permission error. */
async function throwIfPermitted(call: Call, error: unknown, runtime: HttpRuntime): Promise<void> {
  if ((await runtime.isPermitted?.(call)) !== false) throw error
}

function over(): GatewayError {
  return new GatewayError(
    'TOKEN_EXPIRED',
    'The token with which this stream was opened is no longer valid.',
    {
      suggestion: 'Listen again with another token.',
    },
  )
}

interface Refusing {
  /** The id of the JSON-RPC request. */
  readonly id: Id
  /** Names the request in logs and in the answer. */
  readonly requestId: string
  readonly edge: Pick<Edge, 'runtime'>
  readonly log: Log
  readonly onRefused?: ((refusal: Refusal) => void) | undefined
}

/** Rejects a request before its dispatch, with a JSON-RPC error and its HTTP status. */
export function refuse(outgoing: ServerResponse, error: GatewayError, refusing: Refusing): void {
  const { id, requestId, edge, log, onRefused } = refusing
  const { method = '', url = '', socket } = outgoing.req
  const request = `${method} ${shownPath(url, edge.runtime)}`
  onRefused?.({ requestId, error, request, address: socket.remoteAddress })
  if (error.code === 'SERVER_ERROR')
    log.error('http.failed', { request_id: requestId, cause: String(error.cause) })
  if (outgoing.headersSent) {
    // A response that is complete may have said why already.
    if (!outgoing.writableEnded && !isEnding(outgoing)) outgoing.destroy()
    return
  }
  const retry = error.data.retry_after_seconds
  outgoing.writeHead(error.httpStatus, {
    'content-type': 'application/json',
    'x-request-id': requestId,
    ...(error.code === 'METHOD_NOT_ALLOWED' && { allow: 'POST' }),
    ...(typeof retry === 'number' && { 'retry-after': String(retry) }),
  })
  outgoing.end(encodeError(id, error, requestId))
}

/** The path of a URL, without its end where that can be a credential. */
function shownPath(url: string, { byteRoutes = [] }: Pick<HttpRuntime, 'byteRoutes'>): string {
  const path = url.split('?', 1)[0] ?? ''
  const beginnings = byteRoutes
    .filter(({ bearer }) => bearer)
    .map((route) => route.path.split(':', 1)[0] ?? '')
  const before = beginnings.find((each) => path.includes(each))
  return before === undefined ? path : `${path.split(before, 1)[0]}${before}…`
}

/** The client's request id if it has a safe format, else a new one. */
export function requestId({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  if (typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given)) return given
  return newRequestId()
}

/** Streamable HTTP with sessions: 2025-03-26 to 2025-11-25. */
export class LegacyHttp {
  readonly #sessions: HttpSessions
  readonly #log: Log

  constructor(sessions: HttpSessions, log: Log) {
    this.#sessions = sessions
    this.#log = log
  }

  /** Handles one posted message. @throws errors from before it is dispatched */
  post(exchange: HttpContext, message: JsonRpcMessage, text: string): Promise<void> | undefined {
    if (message.kind === 'request' && message.method === 'initialize')
      return this.#initialize(exchange, message)
    const found = this.#session(exchange)
    if (found instanceof Promise)
      return found.then((session) => this.#take(exchange, session, [message, text]))
    return this.#take(exchange, found, [message, text])
  }

  /** Handles a posted batch, if the session's revision has batches. */
  async postBatch(exchange: HttpContext, batch: Batch): Promise<void> {
    const found = await this.#session(exchange)
    const requests = takeBatch(found.session, batch)
    if (requests.length === 0) return accept(exchange)
    await serveBatch(found.session, requests, this.#reply(exchange, found))
  }

  #take(
    exchange: HttpContext,
    found: HttpSession,
    [message, text]: readonly [JsonRpcMessage, string],
  ): Promise<void> | undefined {
    if (message.kind === 'request')
      return found.session.request(message, this.#reply(exchange, found, message.id))
    if (message.kind === 'notification') found.session.notification(message)
    else found.session.response(message, text)
    accept(exchange)
    return undefined
  }

  /** Opens the session's own stream, or resumes one. */
  async get(exchange: HttpContext): Promise<void> {
    const { incoming, outgoing } = exchange
    const found = await this.#session(exchange)
    if (!accepts(incoming, 'text/event-stream')) throw notAcceptable('text/event-stream')
    // A client that is already gone would never emit `close`.
    if (outgoing.destroyed) return
    const eventId = incoming.headers['last-event-id']
    const resumed = typeof eventId === 'string' ? found.replay.find(eventId) : undefined
    const stream = resumed?.stream ?? found.replay.general
    const { requestId, edge } = exchange
    const reply = new HttpReply(
      outgoing,
      { requestId },
      { ticker: edge.ticker, canStream: true, onSlow: () => undefined },
    )
    const lost = typeof eventId === 'string' && !resumed ? found.replay.lostRequest(eventId) : undefined
    if (lost !== undefined) {
      reply.open()
      return reply.end(encodeError(lost, restarted(), requestId))
    }
    const { end } = tokenLifetime(exchange, () => outgoing.end())
    outgoing.on('close', () => {
      end()
      stream.detach(reply)
      found.usedAt = Date.now()
    })
    reply.open()
    stream.resume(reply, resumed?.after)
  }

  async delete(exchange: HttpContext): Promise<void> {
    const found = await this.#session(exchange)
    await this.#sessions.remove(found)
    background(this.#sessions.end(found), this.#log)
    exchange.outgoing.writeHead(204, { 'x-request-id': exchange.requestId }).end()
  }

  async #initialize(exchange: HttpContext, message: JsonRpcMessage & { kind: 'request' }): Promise<void> {
    const created = this.#sessions.create(exchange.principal, exchange.upstream)
    const reply = this.#reply(exchange, created)
    exchange.outgoing.setHeader('mcp-session-id', created.session.id)
    const guarded: ResponseSink = {
      request: reply.request,
      emit: (each, mustArrive) => reply.emit(each, mustArrive),
      end: (answer, errorCode) => {
        // A failed handshake leaves no session.
        if (created.session.revision) this.#sessions.keep(created)
        else if (!exchange.outgoing.headersSent) exchange.outgoing.removeHeader('mcp-session-id')
        reply.end(answer, errorCode)
      },
    }
    await created.session.request(message, guarded)
    if (!created.session.revision) await this.#sessions.end(created)
  }

  #session({ incoming, principal, upstream }: HttpContext): HttpSession | Promise<HttpSession> {
    const id = incoming.headers['mcp-session-id']
    if (typeof id !== 'string') {
      throw new GatewayError('SESSION_REQUIRED', 'Bad request: Mcp-Session-Id is missing.', {
        suggestion: 'Send initialize first, and its Mcp-Session-Id with every later request.',
      })
    }
    const found = this.#sessions.get(id, principal, upstream)
    if (found instanceof Promise) return found.then((session) => ofKnownVersion(session, incoming))
    return ofKnownVersion(found, incoming)
  }

  #reply(exchange: HttpContext, { session, replay }: HttpSession, request?: Id): HttpReply {
    const { incoming, outgoing, challenge, edge } = exchange
    const canStream = checkAccepts(incoming)
    return new HttpReply(outgoing, factsOf(exchange), {
      ticker: edge.ticker,
      challenge,
      canStream,
      record: () => replay.record(request),
      primes: session.revision?.priming === true,
      ...edge.runtime.statusMapping,
      onSlow: () => this.#log.warn('client.slow', { session: sessionDigest(session.id) }),
    })
  }
}

/** @throws INVALID_REQUEST */
function ofKnownVersion(found: HttpSession, { headers }: IncomingMessage): HttpSession {
  const version = headers['mcp-protocol-version']
  if (typeof version === 'string' && isUnknownVersion(version)) {
    throw invalid(`unsupported protocol version ${version.slice(0, 64)} in MCP-Protocol-Version`)
  }
  return found
}

/** Whether a client accepts a media type; without an Accept header it accepts any. */
function accepts({ headers }: IncomingMessage, type: string): boolean {
  const { accept } = headers
  if (accept === undefined || accept.trim() === '') return true
  const [main] = type.split('/')
  return accept.split(',').some((each) => {
    const range = each.split(';', 1)[0]?.trim().toLowerCase()
    return range === type || range === '*/*' || range === `${main}/*`
  })
}

/** Whether a client accepts an event stream. @throws NOT_ACCEPTABLE if it does not accept JSON either */
function checkAccepts(incoming: IncomingMessage): boolean {
  // The exact value that almost every client sends.
  if (incoming.headers.accept === 'application/json, text/event-stream') return true
  if (accepts(incoming, 'text/event-stream')) return true
  if (accepts(incoming, 'application/json')) return false
  throw notAcceptable('application/json, text/event-stream')
}

/** Checks that a client lists each of these types; a wildcard is not enough. @throws NOT_ACCEPTABLE */
function checkNames({ headers }: IncomingMessage, types: readonly string[]): void {
  const ranges = headers.accept?.split(',').map((each) => each.split(';', 1)[0]?.trim().toLowerCase()) ?? []
  if (!types.every((type) => ranges.includes(type))) throw notAcceptable(types.join(', '))
}

/** The response to a notification: empty, and without a content type that some clients would parse. */
function accept({ outgoing, requestId }: HttpContext): void {
  outgoing.writeHead(202, { 'content-length': 0, 'x-request-id': requestId }).end()
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `Invalid request: ${why}.`)
}

function notAcceptable(types: string): GatewayError {
  return new GatewayError('NOT_ACCEPTABLE', `Not acceptable: accept ${types}.`)
}

/** A session of an HTTP client, with its resumable streams. */
interface HttpSession {
  readonly session: ClientSession
  readonly replay: Replay
  readonly upstream: string | undefined
  usedAt: number
  /** When its expiry in the store was put off last. */
  extendedAt: number
}

interface SessionServer {
  readonly handle: Handler
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  readonly held: HeldMemory
  /** The sessions in the store; without it a session lasts as long as the process. */
  readonly kept?: ClientSessions
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** The form of session ids: no other one is looked up. */
export const SESSION_ID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/

/** How much memory a session takes, in bytes, without the events that it buffers. */
const SESSION_BYTES = 6 * 1024
/** The maximum number of sessions, and how long an idle one is kept, in milliseconds. */
const MAX_SESSIONS = 10_000
const IDLE_TIMEOUT_MS = 30 * 60_000

/** The sessions of Streamable HTTP clients. */
export class HttpSessions {
  readonly #options: SessionServer
  readonly #sessions = new Map<string, HttpSession>()
  /** Sessions that are read from the store, by caller and id: of several requests at once, one continues the session. */
  readonly #continuing = new Map<string, Promise<HttpSession>>()
  readonly #reaper = setInterval(() => this.#reap(), 60_000).unref()
  #isClosed = false

  constructor(options: SessionServer) {
    this.#options = options
  }

  get size(): number {
    return this.#sessions.size
  }

  get isBusy(): boolean {
    return [...this.#sessions.values()].some(({ session }) => session.isBusy)
  }

  /** Creates a session before its handshake; it counts only once it is kept. @throws OVERLOADED */
  create(principal: Principal, upstream: string | undefined, continued?: string): HttpSession {
    const isShareTaken = hasReachedShare(
      principal,
      this.#sessions,
      ({ session }) => session.principal.id,
      MAX_SESSIONS,
    )
    if (isShareTaken && !this.#endIdlest(principal, true)) throw full('Too many sessions of one caller.')
    if (this.#sessions.size >= MAX_SESSIONS && !this.#endIdlest(principal)) throw full('Too many sessions.')
    const { held } = this.#options
    while (!held.fits(principal, SESSION_BYTES))
      if (!this.#endIdlest(principal, held.isOwnFull(principal, SESSION_BYTES)))
        throw full('Sessions and operations take all the memory that they may.')
    const limit = {
      fits: (by: number) => held.fits(principal, by),
      change: (by: number) => held.change(principal, by),
    }
    // Its client may resume streams that are gone: their events have other ids.
    const replay = new Replay(
      limit,
      continued === undefined ? '' : `${world.randomBytes(4).toString('hex')}.`,
    )
    const { kept } = this.#options
    const session = new ClientSession({
      id: continued ?? randomUUID(),
      upstream,
      principal,
      ...this.#options,
      save: savingWith(kept, upstream),
      send: (message) => replay.general.add(message),
      channel: { isOpen: () => replay.general.hasOutlet, drained: () => replay.general.drained() },
    })
    const usedAt = Date.now()
    return { session, replay, upstream, usedAt, extendedAt: continued === undefined ? usedAt : 0 }
  }

  keep(session: HttpSession): void {
    if (!this.#sessions.has(session.session.id))
      this.#options.held.change(session.session.principal, SESSION_BYTES)
    this.#sessions.set(session.session.id, session)
  }

  /**
   * The session with this id, from the store if it is not in memory. @throws SESSION_NOT_FOUND if there is none, or it
   * belongs to another caller
   */
  get(id: string, principal: Principal, upstream: string | undefined): HttpSession | Promise<HttpSession> {
    const found = this.#sessions.get(id)
    if (!found && this.#options.kept && SESSION_ID.test(id)) return this.#continued(id, principal, upstream)
    if (!found || found.session.principal.id !== principal.id || found.upstream !== upstream) throw notFound()
    found.usedAt = Date.now()
    extend(found, this.#options.kept)
    return found
  }

  async #continued(id: string, principal: Principal, upstream: string | undefined): Promise<HttpSession> {
    const key = `${id} ${principal.id}`
    const continuing = this.#continuing.get(key) ?? this.#continue(id, principal, upstream)
    this.#continuing.set(key, continuing)
    const found = await continuing.finally(() => this.#continuing.delete(key))
    if (found.upstream !== upstream) throw notFound()
    return found
  }

  async #continue(id: string, principal: Principal, upstream: string | undefined): Promise<HttpSession> {
    const state = await this.#options.kept?.find({ id, principal }, upstream)
    if (this.#isClosed) throw new GatewayError('SERVER_UNAVAILABLE', 'The gateway is shutting down.')
    if (!state) throw notFound()
    const found = this.create(principal, upstream, id)
    this.keep(found)
    extend(found, this.#options.kept)
    found.session.continue(state)
    return found
  }

  /** Removes a session from the store, before it ends here: it cannot be continued. Never rejects. */
  async remove({ session }: HttpSession): Promise<void> {
    await this.#options.kept?.remove(session)
  }

  /** Resolves when its calls are answered, or after a timeout. */
  async end({ session, replay }: HttpSession): Promise<void> {
    if (this.#sessions.delete(session.id)) this.#options.held.change(session.principal, -SESSION_BYTES)
    await session.end()
    replay.close()
  }

  /** Ends all sessions here; those in the store can be continued. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#reaper)
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)))
  }

  #reap(): void {
    const before = Date.now() - IDLE_TIMEOUT_MS
    for (const each of this.#sessions.values()) {
      if (!isIdle(each)) extend(each, this.#options.kept)
      else if (each.usedAt < before) void this.end(each)
    }
  }

  /** Ends an idle session, preferably one of the same caller, so that callers do not end sessions of others. */
  #endIdlest({ id }: Principal, isForOwn = false): boolean {
    const idle = [...this.#sessions.values()].filter(isIdle)
    const own = idle.filter(({ session }) => session.principal.id === id)
    const [oldest] = (own.length > 0 || isForOwn ? own : idle).toSorted(
      (one, other) => one.usedAt - other.usedAt,
    )
    if (oldest) void this.end(oldest)
    return oldest !== undefined
  }
}

/** How the sessions at an endpoint keep their state. */
export function savingWith(
  kept: ClientSessions | undefined,
  upstream: string | undefined,
): (session: ClientSession, isNew: boolean) => Promise<unknown> {
  return async (session, isNew) => {
    const { state } = session
    return isNew && state ? kept?.add(session, upstream, state) : kept?.change(session, () => session.state)
  }
}

/** Puts off the expiry of a session in use, if that was not done for a while. */
export function extend(
  found: { readonly session: ClientSession; extendedAt: number },
  kept: ClientSessions | undefined,
): void {
  const now = Date.now()
  if (!kept || now - found.extendedAt < EXTENSION_INTERVAL_MS) return
  found.extendedAt = now
  void kept.extend(found.session)
}

/** The error of a request that was in flight when the gateway was killed, or is in flight in another process. */
function restarted(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The gateway was restarted before the request was answered. It may have taken effect.',
    { suggestion: 'Check whether it took effect before making it again.' },
  )
}

function notFound(): GatewayError {
  return new GatewayError('SESSION_NOT_FOUND', 'Session not found.', { suggestion: 'Initialize again.' })
}

function full(message: string): GatewayError {
  return new GatewayError('OVERLOADED', message, {
    suggestion:
      'End sessions that are not needed: DELETE with their Mcp-Session-Id. Idle ones end by themselves.',
  })
}

function isIdle({ session, replay }: HttpSession): boolean {
  return !session.isBusy && !replay.general.hasOutlet
}
