/**
 * The MCP endpoint over Streamable HTTP, for all revisions. It is the hot path of every call over HTTP, so it uses
 * Node's request and response directly. Requests about what another process owns are forwarded to it (`hop/`), and those that
 * other processes forward are served here, without another decision about their callers.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
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
import { world } from '../../core/world.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import type { HeldMemory } from '../../core/holdings.ts'
import { ClientSessions, type SessionOwner } from '../../records/client-sessions.ts'
import type { Store } from '../../store/store.ts'
import type { RequestContext } from '../auth/auth-gate.ts'
import { type Called, type Edge, type HttpRuntime, type HttpContext, factsOf, tokenLifetime } from './edge.ts'
import { isEnding } from './ending.ts'
import { HttpReply } from './reply.ts'
import { serveBatch, takeBatch } from '../session/session.ts'
import type { ResponseSink } from '../session/response-sink.ts'
import { presentPrincipal } from '../auth/authenticator.ts'
import type { Decision } from './hop/envelope.ts'
import type { Forwarder } from './hop/forwarder.ts'
import { refuseMoved } from './hop/listener.ts'
import { type Elsewhere, type HttpSession, HttpSessions, type SessionFleet } from './sessions.ts'

/** A request as it was sent, and its reply. */
interface Sent {
  readonly text: string
  readonly reply: HttpReply
}

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
  /** Takes the messages of HTTP+SSE sessions that other processes forward. */
  readonly sse?: {
    isPosted(incoming: IncomingMessage): boolean
    post(exchange: HttpContext, text: string): Promise<void>
  }
  /** The other processes that share the store; undefined if they do not reach each other. */
  readonly others?: OtherProcesses | undefined
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** The processes that share a store and reach each other. */
export interface OtherProcesses {
  readonly fleet: SessionFleet
  readonly forwarder: Forwarder
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
  #isClosed = false

  constructor(options: Options) {
    this.#options = options
    const { handle, edge, held, others, meter, log } = options
    const isStrict = (): boolean => edge().runtime.listen.isStrict
    const kept = new ClientSessions({ transport: 'http', store: options.store, log })
    this.sessions = new HttpSessions({ handle, isStrict, held, kept, fleet: others?.fleet, meter, log })
    this.#legacy = new LegacyHttp({ sessions: this.sessions, forwarder: others?.forwarder, log })
  }

  /** Whether a call is in flight. */
  get isBusy(): boolean {
    return this.#running > 0 || this.sessions.isBusy || this.#legacy.isForwarding
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

  /** Serves a request that another process forwards, as it has decided. Never throws. */
  serveForwarded(incoming: IncomingMessage, outgoing: ServerResponse, decision: Decision): void {
    const { principal, upstream, requestId, peer, token } = decision
    const edge = this.#options.edge()
    const request = { incoming, outgoing, upstream, requestId, edge }
    // What fails before it is dispatched because this process ends, is for the next owner.
    const fail = (error: unknown, text = ''): void =>
      this.#isClosed && !outgoing.headersSent ? refuseMoved(outgoing) : this.#refuse(request, error, text)
    try {
      mustExist(request)
      const exchange = {
        ...this.#contextOf(request, principal, forwardedCallerOf(principal, edge, this.#options.edge)),
        forwardedFrom: peer,
        forwardedToken: token,
      }
      this.#dispatch(exchange, fail)
    } catch (error) {
      fail(error)
    }
  }

  /** Takes no more requests; what belongs to those that it has is still taken, such as a client's answer to a question. */
  refuseMore(): void {
    this.#isClosed = true
  }

  /** Takes no more requests, and ends the sessions here. */
  async close(): Promise<void> {
    this.refuseMore()
    await this.sessions.close()
  }

  #receive(
    request: UnauthenticatedRequest,
    principal: Principal,
    fail: (error: unknown, text?: string) => void,
  ): void {
    this.#dispatch(this.#open(request, principal), fail)
  }

  #dispatch(exchange: HttpContext, fail: (error: unknown, text?: string) => void): void {
    const { incoming, principal } = exchange
    const { bodies, runtime } = exchange.edge
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
    mustExist(request)
    if (this.#options.admit) {
      // What anonymous callers may do elsewhere, they may not do here.
      request.edge.authGate.requireAuth({ ...request, principal }, undefined)
      this.#options.admit(principal)
    }
    return this.#contextOf(
      request,
      principal,
      presentCallerOf(request, principal, () => this.#options.edge()),
    )
  }

  #contextOf(
    request: UnauthenticatedRequest,
    principal: Principal,
    presentCaller: NonNullable<Call['presentCaller']>,
  ): HttpContext {
    const context = { ...request, principal, presentCaller }
    if (!principal.claims) return context
    return { ...context, challenge: (error) => request.edge.authGate.stepUp(context, error) }
  }

  #post(exchange: HttpContext, text: string): Promise<void> | undefined {
    const { authGate, runtime } = exchange.edge
    if (runtime.listen.isStrict) checkNames(exchange.incoming, POST_RESPONSE_TYPES)
    const version = exchange.incoming.headers['mcp-protocol-version']
    const header = typeof version === 'string' ? version : undefined
    if (exchange.forwardedFrom && this.#options.sse?.isPosted(exchange.incoming))
      return this.#options.sse.post(exchange, text)
    const message = parseMessages(text)
    checkNesting(text)
    if (this.#isClosed && (message.kind === 'request' || message.kind === 'batch'))
      throw unreachable('The gateway is shutting down.')
    if (message.kind === 'batch') {
      if (!exchange.forwardedFrom) authGate.requireAuth(exchange, undefined)
      return this.#legacy.postBatch(exchange, message, text)
    }
    // Whoever forwards a request has checked that.
    if (!exchange.forwardedFrom)
      authGate.requireAuth(exchange, message.kind === 'response' ? undefined : message.method)
    if (classify(message, header) === 'legacy') return this.#legacy.post(exchange, message, text)
    if (message.kind === 'request') return this.#stateless(exchange, message, text)
    this.#notification(exchange, message)
    return undefined
  }

  async #stateless(exchange: HttpContext, request: JsonRpcRequest, text: string): Promise<void> {
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
        others: this.#othersFor(exchange, { text, reply }),
      }
      await serveStateless(request, reply, around)
    } catch (error) {
      // Whoever refuses the request answers it.
      reply.release()
      throw error
    } finally {
      if (leave) leave()
      else this.#running--
    }
  }

  /** The processes that may have what a call relies on; undefined for one that was forwarded, as there is one hop only. */
  #othersFor(exchange: HttpContext, sent: Sent) {
    const { others } = this.#options
    if (!others || exchange.forwardedFrom) return undefined
    const { runtime } = exchange.edge
    return {
      placeOf: (call: Call) => runtime.placeOf?.(call),
      forward: async (process: string) => {
        const member = process === others.fleet.id ? undefined : await others.fleet.find(process)
        if (member) await this.#forward(others.forwarder, member, exchange, sent)
        return member !== undefined
      },
    }
  }

  /** Has another process answer a request. @throws SERVER_UNAVAILABLE, OUTCOME_UNKNOWN */
  async #forward(
    forwarder: Forwarder,
    member: SessionOwner,
    exchange: HttpContext,
    { text, reply }: Sent,
  ): Promise<void> {
    reply.release()
    const { incoming, outgoing } = exchange
    const request = { incoming, outgoing, decision: decisionOf(exchange), body: text }
    const outcome = await forwarder.forward(member, request)
    if (outcome === 'lost') throw restarted()
    if (outcome !== 'answered')
      throw unreachable('The process that has what this call needs cannot be reached.')
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

/** The same for a request that another process authenticated: it has the credentials. */
function forwardedCallerOf(
  principal: Principal,
  first: Edge,
  current: () => Edge,
): NonNullable<Call['presentCaller']> {
  return () => {
    const edge = current()
    return edge === first ? principal : presentPrincipal(principal, edge.runtime.auth)
  }
}

/** @throws UNSUPPORTED_OPERATION */
function mustExist({ upstream, edge }: UnauthenticatedRequest): void {
  if (upstream !== undefined && !edge.runtime.has(upstream))
    throw new GatewayError('UNSUPPORTED_OPERATION', 'There is no server at this path.')
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

interface LegacyOptions {
  readonly sessions: HttpSessions
  /** Forwards requests to the processes that have their sessions; undefined if none can be elsewhere. */
  readonly forwarder?: Forwarder | undefined
  readonly log: Log
}

/** What a client posted. */
interface Posted {
  readonly text: string
  /** Whether it may change something each time that it is taken. */
  readonly isCall: boolean
}

/** Streamable HTTP with sessions: 2025-03-26 to 2025-11-25. */
export class LegacyHttp {
  readonly #sessions: HttpSessions
  readonly #forwarder: Forwarder | undefined
  readonly #log: Log
  #forwarding = 0

  constructor({ sessions, forwarder, log }: LegacyOptions) {
    this.#sessions = sessions
    this.#forwarder = forwarder
    this.#log = log
  }

  /** Whether a request of a client waits for the answer of another process. */
  get isForwarding(): boolean {
    return this.#forwarding > 0
  }

  /** Handles one posted message. @throws errors from before it is dispatched */
  post(exchange: HttpContext, message: JsonRpcMessage, text: string): Promise<void> | undefined {
    if (message.kind === 'request' && message.method === 'initialize')
      return this.#initialize(exchange, message)
    const isCall = message.kind === 'request' && message.method === 'tools/call'
    return this.#inSession(exchange, { text, isCall }, (found, own) =>
      this.#take(own, found, [message, text]),
    )
  }

  /** Handles a posted batch, if the session's revision has batches. */
  async postBatch(exchange: HttpContext, batch: Batch, text: string): Promise<void> {
    await this.#inSession(exchange, { text, isCall: true }, async (found, own) => {
      const requests = takeBatch(found.session, batch)
      if (requests.length === 0) return accept(exchange)
      await serveBatch(found.session, requests, this.#reply(own, found))
    })
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
    await this.#inSession(exchange, undefined, (found) => this.#openStream(exchange, found))
  }

  #openStream(exchange: HttpContext, found: HttpSession): undefined {
    const { incoming, outgoing } = exchange
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
      reply.end(encodeError(lost, restarted(), requestId))
      return
    }
    const { end } = tokenLifetime(exchange, () => outgoing.end())
    outgoing.on('close', () => {
      end()
      stream.detach(reply)
      found.usedAt = world.now()
    })
    reply.open()
    stream.resume(reply, resumed?.after)
  }

  async delete(exchange: HttpContext): Promise<void> {
    await this.#inSession(exchange, undefined, async (found) => {
      await this.#sessions.remove(found)
      background(this.#sessions.end(found), this.#log)
      exchange.outgoing.writeHead(204, { 'x-request-id': exchange.requestId }).end()
    })
  }

  /**
   * Handles a request in its session: here, or in the process that has the session. @throws SESSION_NOT_FOUND, OUTCOME_UNKNOWN
   * if that process ended with a call, SERVER_UNAVAILABLE if it cannot be reached
   */
  #inSession(
    exchange: HttpContext,
    posted: Posted | undefined,
    handle: ElsewhereHandling['handle'],
  ): Promise<void> | undefined {
    const found = this.#session(exchange)
    if (!(found instanceof Promise)) return this.#handleHere(exchange, found, handle)
    return found.then((place) =>
      'owner' in place
        ? this.#handleElsewhere(exchange, place, { posted, handle })
        : this.#handleHere(exchange, place, handle),
    )
  }

  #handleHere(
    exchange: HttpContext,
    found: HttpSession,
    handle: ElsewhereHandling['handle'],
  ): Promise<void> | undefined {
    const { principal, forwardedToken } = exchange
    if (forwardedToken === undefined) {
      if (principal.token) found.token = principal.token
      return handle(found, exchange)
    }
    const { token = found.session.principal.token } = found
    if (token?.digest === forwardedToken)
      return handle(found, { ...exchange, principal: { ...principal, token } })
    // The process that has the token takes over the session: a token is not sent to another one.
    return this.#sessions.release(found).then(() => refuseMoved(exchange.outgoing))
  }

  async #handleElsewhere(
    exchange: HttpContext,
    first: Elsewhere,
    { posted, handle }: ElsewhereHandling,
  ): Promise<void> {
    const { incoming, outgoing, principal, upstream, forwardedFrom } = exchange
    // One hop only: whoever forwarded it decides again.
    if (forwardedFrom || !this.#forwarder) return refuseMoved(outgoing)
    const decision = decisionOf(exchange)
    const id = String(incoming.headers['mcp-session-id'])
    let place = first
    if (posted) this.#forwarding++
    try {
      for (let attempts = 1; ; attempts++) {
        const request = { incoming, outgoing, decision, body: posted?.text }
        const outcome = await this.#forwarder.forward(place.owner, request)
        if (outcome === 'answered') return
        this.#sessions.forget(id, principal)
        if (outcome === 'lost' && posted?.isCall) throw restarted()
        const next = await this.#sessions.relocate(id, principal, { upstream, before: place })
        if (!('owner' in next)) return await handle(next, exchange)
        if (attempts === MAX_FORWARDS)
          throw unreachable('The process that has this session cannot be reached.')
        place = next
      }
    } finally {
      if (posted) this.#forwarding--
    }
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

  #session({ incoming, principal, upstream }: HttpContext): HttpSession | Promise<HttpSession | Elsewhere> {
    const id = incoming.headers['mcp-session-id']
    if (typeof id !== 'string') {
      throw new GatewayError('SESSION_REQUIRED', 'Bad request: Mcp-Session-Id is missing.', {
        suggestion: 'Send initialize first, and its Mcp-Session-Id with every later request.',
      })
    }
    const found = this.#sessions.get(id, principal, upstream)
    if (found instanceof Promise)
      return found.then((place) => ('owner' in place ? place : ofKnownVersion(place, incoming)))
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

interface ElsewhereHandling {
  readonly posted: Posted | undefined
  handle(found: HttpSession, exchange: HttpContext): Promise<void> | undefined
}

/** What this process says of a request to the one that answers it. */
export function decisionOf({ principal, upstream, requestId, incoming, edge }: HttpContext): Decision {
  const token = edge.runtime.exchangesTokens === true ? principal.token?.digest : undefined
  return { principal, token, upstream, requestId, peer: incoming }
}

/** How often a request is forwarded: the session may have moved since its place was read. */
const MAX_FORWARDS = 2

function unreachable(message: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    suggestion: 'Send the request again.',
    retryAfterSeconds: 1,
  })
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

/** The error of a request that was in flight when the gateway was killed, or is in flight in another process. */
export function restarted(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The gateway was restarted before the request was answered. It may have taken effect.',
    { suggestion: 'Check whether it took effect before making it again.' },
  )
}
