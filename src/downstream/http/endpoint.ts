/**
 * The MCP endpoint over Streamable HTTP, for all revisions. It is the hot path of every call over HTTP, so it uses
 * Node's request and response directly.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call, Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import type { Refusal } from '../../core/events.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import { newRequestId } from '../../core/identity.ts'
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
} from '../../protocol/jsonrpc.ts'
import { checkMirror, type HeaderMirror } from '../../protocol/headers.ts'
import { lift } from '../../protocol/lift.ts'
import { isForServers, isListening } from '../../protocol/methods.ts'
import { modernStatus } from '../../protocol/modern.ts'
import { latestModern } from '../../protocol/revisions.ts'
import { gatewayMetadataOf } from '../../protocol/meta-keys.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import type { HeldMemory } from '../../core/holdings.ts'
import type { RequestContext } from '../auth/auth-gate.ts'
import type { Edge, HttpRuntime } from './edge.ts'
import { accept, checkAccepts, checkNames, LegacyHttp, HttpSessions } from './session-endpoint.ts'
import { type HttpContext, tokenLifetime } from './context.ts'
import { HttpReply } from './reply.ts'

interface Options {
  readonly handle: Handler
  /** The current edge: read once for each request. */
  edge(): Edge
  readonly seal: RequestStateCodec
  readonly held: HeldMemory
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
    this.sessions = new HttpSessions({ handle, isStrict, held, meter, log })
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
      return this.#legacy.get(exchange)
    }
    if (incoming.method === 'DELETE' && hasSession) return this.#legacy.delete(exchange)
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

  /** @throws UNSUPPORTED_OPERATION */
  #open(request: UnauthenticatedRequest, principal: Principal): HttpContext {
    const { upstream, edge } = request
    if (upstream !== undefined && !edge.runtime.has(upstream)) {
      throw new GatewayError('UNSUPPORTED_OPERATION', 'There is no server at this path.')
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
    const { incoming, outgoing, upstream, principal, presentCaller, requestId, challenge, edge } = exchange
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
    const trace = headerTrace(incoming.headers)
    const gatewayMetadata = gatewayMetadataOf(incoming.headers)
    const context = {
      requestId,
      ticker: edge.ticker,
      principal,
      challenge,
      peer: incoming,
      trace,
      gatewayMetadata,
    }
    const reply = new HttpReply(outgoing, { ...context, canStream, statusOf: modernStatus, onSlow })
    const check = (call: Call): Promise<void> | undefined => this.#checkMirror(call, exchange)
    const { headers } = incoming
    if (!leave) this.#running++
    try {
      const around = { handle, seal, upstream, principal, presentCaller, headers, controller, retain, check }
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

  #checkMirror(call: Call, { incoming, edge: { runtime } }: HttpContext): Promise<void> | undefined {
    if (call.method !== 'tools/call') return undefined
    const check = (mirror: HeaderMirror): Promise<void> | undefined => {
      try {
        checkMirror(mirror, incoming.headers, call.params)
        return undefined
      } catch (error) {
        return throwIfPermitted(call, error, runtime)
      }
    }
    const mirror = runtime.mirror(call)
    // If the server is unavailable, the call itself reports that.
    if (mirror instanceof Promise) return mirror.catch(() => []).then(check)
    return mirror.length > 0 ? check(mirror) : undefined
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
    if (!outgoing.writableEnded) outgoing.destroy()
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
