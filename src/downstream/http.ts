import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call, Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import type { Principal } from '../core/principal.ts'
import type { Seal } from '../bridge/seal.ts'
import { serveStateless } from '../bridge/stateless.ts'
import { classify } from '../wire/codec.ts'
import { checkMirror, type Mirror } from '../wire/headers.ts'
import { encodeError, idOf, type Message, parseJson, type Request, readMessage } from '../wire/jsonrpc.ts'
import { lift } from '../wire/lift.ts'
import { isForServers } from '../wire/methods.ts'
import { modernStatus } from '../wire/modern.ts'
import { latestModern } from '../wire/revisions.ts'
import type { Access } from './access.ts'
import { readBody } from './body.ts'
import { accept, checkAccepts, LegacyHttp } from './legacy-http.ts'
import type { Exchange } from './exchange.ts'
import { HttpSessions } from './http-sessions.ts'
import { HttpReply } from './reply.ts'

interface Options {
  readonly handle: Handler
  /** Which arguments of the tool a call names are repeated in headers. */
  mirror(call: Call): Mirror | Promise<Mirror>
  has(upstream: string): boolean
  authenticate(incoming: IncomingMessage): Principal
  readonly access: () => Access
  readonly seal: Seal
  /** The largest body, in bytes. */
  readonly body: () => number
  readonly log: Log
}

/** The MCP endpoint over HTTP, for every revision that has Streamable HTTP. */
export class HttpFront {
  readonly #options: Options
  readonly #legacy: LegacyHttp
  readonly sessions: HttpSessions
  #running = 0

  constructor(options: Options) {
    this.#options = options
    this.sessions = new HttpSessions(options)
    this.#legacy = new LegacyHttp(this.sessions, options.log)
  }

  /** Whether a call is under way. */
  get isBusy(): boolean {
    return this.#running > 0 || this.sessions.isBusy
  }

  /** Serves one HTTP request. Never throws. */
  async serve(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    upstream: string | undefined,
  ): Promise<void> {
    let text = ''
    try {
      const exchange = this.#enter(incoming, outgoing, upstream)
      if (!exchange) return
      if (incoming.method === 'POST') {
        text = await readBody(incoming, this.#options.body())
        return await this.#post(exchange, text)
      }
      const hasSession = incoming.headers['mcp-session-id'] !== undefined
      if (incoming.method === 'GET' && hasSession) return this.#legacy.get(exchange)
      if (incoming.method === 'DELETE' && hasSession) return this.#legacy.delete(exchange)
      throw new GatewayError('METHOD_NOT_ALLOWED', 'Method not allowed.')
    } catch (error) {
      refuse(outgoing, asGatewayError(error), idOf(text), this.#options.log)
    }
  }

  /** Checks who calls; answers preflight requests. @throws FORBIDDEN, UNSUPPORTED_OPERATION */
  #enter(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    upstream: string | undefined,
  ): Exchange | undefined {
    const access = this.#options.access()
    access.check(incoming)
    access.allow(incoming, outgoing)
    if (incoming.method === 'OPTIONS') {
      access.preflight(incoming, outgoing)
      return undefined
    }
    if (upstream !== undefined && !this.#options.has(upstream)) {
      throw new GatewayError('UNSUPPORTED_OPERATION', 'There is no such server here.')
    }
    return {
      incoming,
      outgoing,
      upstream,
      principal: this.#options.authenticate(incoming),
      requestId: requestId(incoming),
    }
  }

  async #post(exchange: Exchange, text: string): Promise<void> {
    const version = exchange.incoming.headers['mcp-protocol-version']
    const header = typeof version === 'string' ? version : undefined
    const value = parseJson(text)
    if (Array.isArray(value)) return this.#legacy.postBatch(exchange, text)
    const message = readMessage(text, value)
    if (classify(message, header) === 'legacy') return this.#legacy.post(exchange, message, text)
    if (message.kind === 'request') return this.#stateless(exchange, message)
    this.#notification(exchange, message)
  }

  async #stateless(exchange: Exchange, request: Request): Promise<void> {
    const { incoming, outgoing, upstream, principal, requestId } = exchange
    const { handle, seal } = this.#options
    const controller = new AbortController()
    // 2026-07-28 basic/utilities/cancellation: closing the stream cancels the request.
    outgoing.on('close', () => {
      if (!outgoing.writableFinished)
        controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
    })
    const canStream = checkAccepts(incoming)
    const onSlow = (): void =>
      controller.abort(new GatewayError('SLOW_CLIENT', 'The client reads too slowly.'))
    const reply = new HttpReply(outgoing, { requestId, canStream, statusOf: modernStatus, onSlow })
    const check = (call: Call): Promise<void> | undefined => this.#checkMirror(call, incoming)
    const { headers } = incoming
    const isListening = request.method === 'subscriptions/listen'
    if (!isListening) this.#running++
    try {
      await serveStateless(request, reply, { handle, seal, upstream, principal, headers, controller, check })
    } finally {
      if (!isListening) this.#running--
    }
  }

  #checkMirror(call: Call, incoming: IncomingMessage): Promise<void> | undefined {
    if (call.method !== 'tools/call') return undefined
    const check = (mirror: Mirror): void => checkMirror(mirror, incoming.headers, call.params)
    const mirror = this.#options.mirror(call)
    // A server that can not be reached says so itself when it is called.
    if (mirror instanceof Promise) return mirror.catch(() => []).then(check)
    if (mirror.length > 0) check(mirror)
    return undefined
  }

  #notification(exchange: Exchange, message: Message): void {
    const { upstream, principal } = exchange
    accept(exchange)
    if (message.kind !== 'notification' || !isForServers(message.method)) return
    const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
    const controller = new AbortController()
    const call = lift(message, { upstream, client, principal, controller, emit: () => undefined })
    background(this.#options.handle(call), this.#options.log)
  }
}

/** Refuses a request before it was dispatched, with a JSON-RPC error and its HTTP status. */
export function refuse(outgoing: ServerResponse, error: GatewayError, id: string, log: Log): void {
  if (error.code === 'SERVER_ERROR') log.error('http.failed', { cause: String(error.cause) })
  if (outgoing.headersSent) {
    outgoing.destroy()
    return
  }
  const retry = error.data.retry_after_seconds
  outgoing.writeHead(error.httpStatus, {
    'content-type': 'application/json',
    'x-request-id': requestId(outgoing.req),
    ...(error.code === 'METHOD_NOT_ALLOWED' && { allow: 'POST' }),
    ...(typeof retry === 'number' && { 'retry-after': String(retry) }),
  })
  outgoing.end(encodeError(id, error))
}

const process = randomUUID().slice(0, 8)
let lastRequest = 0

/** The client's own request id where it is a harmless one, else a new one. */
export function requestId({ headers }: IncomingMessage): string {
  const given = headers['x-request-id']
  if (typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given)) return given
  return `${process}-${++lastRequest}`
}
