import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { serveBatch, takeBatch } from '../bridge/batch.ts'
import type { ResponseSink } from '../bridge/reply.ts'
import { isUnknownVersion } from '../wire/codec.ts'
import type { Batch, JsonRpcMessage } from '../wire/jsonrpc.ts'
import { gatewayMetadataOf } from '../wire/extensions.ts'
import { headerTrace } from '../wire/trace-context.ts'
import type { HttpContext } from './exchange.ts'
import type { HttpSession, HttpSessions } from './http-sessions.ts'
import { tokenLifetime } from './lease.ts'
import { HttpReply } from './reply.ts'
import type { StatusMapping } from './statuses.ts'

/** Streamable HTTP with sessions: 2025-03-26 to 2025-11-25. */
export class LegacyHttp {
  readonly #sessions: HttpSessions
  readonly #log: Log
  readonly #mapping: () => StatusMapping | undefined

  constructor(sessions: HttpSessions, log: Log, mapping: () => StatusMapping | undefined) {
    this.#sessions = sessions
    this.#log = log
    this.#mapping = mapping
  }

  /** Takes one posted message. @throws what is refused before it is looked into */
  post(exchange: HttpContext, message: JsonRpcMessage, text: string): Promise<void> | undefined {
    if (message.kind === 'request' && message.method === 'initialize')
      return this.#initialize(exchange, message)
    const found = this.#session(exchange)
    if (message.kind === 'request') return found.session.request(message, this.#reply(exchange, found))
    if (message.kind === 'notification') found.session.notification(message)
    else found.session.response(message, text)
    accept(exchange)
    return undefined
  }

  /** Takes a posted array of messages, where the session's revision has batches. */
  async postBatch(exchange: HttpContext, batch: Batch): Promise<void> {
    const found = this.#session(exchange)
    const requests = takeBatch(found.session, batch)
    if (requests.length === 0) return accept(exchange)
    await serveBatch(found.session, requests, this.#reply(exchange, found))
  }

  /** Opens the session's own stream, or takes up a lost one. */
  get(exchange: HttpContext): void {
    const { incoming, outgoing } = exchange
    const found = this.#session(exchange)
    if (!accepts(incoming, 'text/event-stream')) throw notAcceptable('text/event-stream')
    // Who is gone by now would never be heard to leave.
    if (outgoing.destroyed) return
    const eventId = incoming.headers['last-event-id']
    const resumed = typeof eventId === 'string' ? found.replay.find(eventId) : undefined
    const stream = resumed?.stream ?? found.replay.general
    const reply = new HttpReply(outgoing, {
      requestId: exchange.requestId,
      canStream: true,
      onSlow: () => undefined,
    })
    const { end } = tokenLifetime(exchange.principal, () => outgoing.end())
    outgoing.on('close', () => {
      end()
      stream.detach(reply)
      found.usedAt = Date.now()
    })
    reply.open()
    stream.resume(reply, resumed?.after)
  }

  delete(exchange: HttpContext): void {
    background(this.#sessions.end(this.#session(exchange)), this.#log)
    exchange.outgoing.writeHead(204, { 'x-request-id': exchange.requestId }).end()
  }

  async #initialize(exchange: HttpContext, message: JsonRpcMessage & { kind: 'request' }): Promise<void> {
    const created = this.#sessions.create(exchange.principal, exchange.upstream)
    const reply = this.#reply(exchange, created)
    exchange.outgoing.setHeader('mcp-session-id', created.session.id)
    const guarded: ResponseSink = {
      requestId: reply.requestId,
      trace: reply.trace,
      emit: (each) => reply.emit(each),
      end: (answer, errorCode) => {
        // A handshake that failed leaves no session behind.
        if (created.session.revision) this.#sessions.keep(created)
        else if (!exchange.outgoing.headersSent) exchange.outgoing.removeHeader('mcp-session-id')
        reply.end(answer, errorCode)
      },
    }
    await created.session.request(message, guarded)
    if (!created.session.revision) await this.#sessions.end(created)
  }

  #session({ incoming, principal, upstream }: HttpContext): HttpSession {
    const id = incoming.headers['mcp-session-id']
    if (typeof id !== 'string') {
      throw new GatewayError('SESSION_REQUIRED', 'Bad request: Mcp-Session-Id is missing.', {
        suggestion: 'Send initialize first, and its Mcp-Session-Id with everything after it.',
      })
    }
    const found = this.#sessions.get(id, principal, upstream)
    const version = incoming.headers['mcp-protocol-version']
    if (typeof version === 'string' && isUnknownVersion(version)) {
      throw invalid(`unsupported protocol version ${version.slice(0, 64)} in MCP-Protocol-Version`)
    }
    return found
  }

  #reply(exchange: HttpContext, { session, replay }: HttpSession): HttpReply {
    const { incoming, outgoing, requestId, principal, challenge } = exchange
    const canStream = checkAccepts(incoming)
    return new HttpReply(outgoing, {
      requestId,
      principal,
      challenge,
      trace: headerTrace(incoming.headers),
      gatewayMetadata: gatewayMetadataOf(incoming.headers),
      canStream,
      record: () => replay.record(),
      primes: session.revision?.priming === true,
      ...this.#mapping(),
      onSlow: () => this.#log.warn('client.slow', { session: session.id }),
    })
  }
}

/** Whether a client takes a media type; one that does not say takes any. */
function accepts({ headers }: IncomingMessage, type: string): boolean {
  const { accept } = headers
  if (accept === undefined || accept.trim() === '') return true
  const [main] = type.split('/')
  return accept.split(',').some((each) => {
    const range = each.split(';', 1)[0]?.trim().toLowerCase()
    return range === type || range === '*/*' || range === `${main}/*`
  })
}

/** Whether a client takes an event stream. @throws NOT_ACCEPTABLE where it takes no JSON either */
export function checkAccepts(incoming: IncomingMessage): boolean {
  // What nearly every client sends, to the letter.
  if (incoming.headers.accept === 'application/json, text/event-stream') return true
  if (accepts(incoming, 'text/event-stream')) return true
  if (accepts(incoming, 'application/json')) return false
  throw notAcceptable('application/json, text/event-stream')
}

/** Checks that a client names each of these types; a range that takes them is not enough. @throws NOT_ACCEPTABLE */
export function checkNames({ headers }: IncomingMessage, types: readonly string[]): void {
  const ranges = headers.accept?.split(',').map((each) => each.split(';', 1)[0]?.trim().toLowerCase()) ?? []
  if (!types.every((type) => ranges.includes(type))) throw notAcceptable(types.join(', '))
}

/** The answer to a notification: nothing, and no content type some clients would parse. */
export function accept({ outgoing, requestId }: HttpContext): void {
  outgoing.writeHead(202, { 'content-length': 0, 'x-request-id': requestId }).end()
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `Invalid request: ${why}.`)
}

function notAcceptable(types: string): GatewayError {
  return new GatewayError('NOT_ACCEPTABLE', `Not acceptable: accept ${types}.`)
}
