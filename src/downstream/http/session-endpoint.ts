/**
 * Requests of revisions with sessions over Streamable HTTP, and the sessions: limited in number, ended when idle.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import { sessionDigest } from '../../core/identity.ts'
import { background, type Log } from '../../core/log.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import { isUnknownVersion, type Batch, type JsonRpcMessage } from '../../protocol/jsonrpc.ts'
import { gatewayMetadataOf } from '../../protocol/meta-keys.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import { serveBatch, takeBatch } from '../session/batch.ts'
import type { ResponseSink } from '../session/response-sink.ts'
import { ClientSession } from '../session/session.ts'
import { type HttpContext, tokenLifetime } from './context.ts'
import type { HeldMemory } from '../../core/holdings.ts'
import { Replay } from './replay.ts'
import { HttpReply } from './reply.ts'

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
    if (message.kind === 'request') return found.session.request(message, this.#reply(exchange, found))
    if (message.kind === 'notification') found.session.notification(message)
    else found.session.response(message, text)
    accept(exchange)
    return undefined
  }

  /** Handles a posted batch, if the session's revision has batches. */
  async postBatch(exchange: HttpContext, batch: Batch): Promise<void> {
    const found = this.#session(exchange)
    const requests = takeBatch(found.session, batch)
    if (requests.length === 0) return accept(exchange)
    await serveBatch(found.session, requests, this.#reply(exchange, found))
  }

  /** Opens the session's own stream, or resumes one. */
  get(exchange: HttpContext): void {
    const { incoming, outgoing } = exchange
    const found = this.#session(exchange)
    if (!accepts(incoming, 'text/event-stream')) throw notAcceptable('text/event-stream')
    // A client that is already gone would never emit `close`.
    if (outgoing.destroyed) return
    const eventId = incoming.headers['last-event-id']
    const resumed = typeof eventId === 'string' ? found.replay.find(eventId) : undefined
    const stream = resumed?.stream ?? found.replay.general
    const reply = new HttpReply(outgoing, {
      requestId: exchange.requestId,
      ticker: exchange.edge.ticker,
      canStream: true,
      onSlow: () => undefined,
    })
    const { end } = tokenLifetime(exchange, () => outgoing.end())
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
      peer: reply.peer,
      trace: reply.trace,
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

  #session({ incoming, principal, upstream }: HttpContext): HttpSession {
    const id = incoming.headers['mcp-session-id']
    if (typeof id !== 'string') {
      throw new GatewayError('SESSION_REQUIRED', 'Bad request: Mcp-Session-Id is missing.', {
        suggestion: 'Send initialize first, and its Mcp-Session-Id with every later request.',
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
    const { incoming, outgoing, requestId, principal, presentCaller, challenge, edge } = exchange
    const canStream = checkAccepts(incoming)
    return new HttpReply(outgoing, {
      requestId,
      ticker: edge.ticker,
      principal,
      presentCaller,
      challenge,
      peer: incoming,
      trace: headerTrace(incoming.headers),
      gatewayMetadata: gatewayMetadataOf(incoming.headers),
      canStream,
      record: () => replay.record(),
      primes: session.revision?.priming === true,
      ...edge.runtime.statusMapping,
      onSlow: () => this.#log.warn('client.slow', { session: sessionDigest(session.id) }),
    })
  }
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
export function checkAccepts(incoming: IncomingMessage): boolean {
  // The exact value that almost every client sends.
  if (incoming.headers.accept === 'application/json, text/event-stream') return true
  if (accepts(incoming, 'text/event-stream')) return true
  if (accepts(incoming, 'application/json')) return false
  throw notAcceptable('application/json, text/event-stream')
}

/** Checks that a client lists each of these types; a wildcard is not enough. @throws NOT_ACCEPTABLE */
export function checkNames({ headers }: IncomingMessage, types: readonly string[]): void {
  const ranges = headers.accept?.split(',').map((each) => each.split(';', 1)[0]?.trim().toLowerCase()) ?? []
  if (!types.every((type) => ranges.includes(type))) throw notAcceptable(types.join(', '))
}

/** The response to a notification: empty, and without a content type that some clients would parse. */
export function accept({ outgoing, requestId }: HttpContext): void {
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
}

interface Options {
  readonly handle: Handler
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  readonly held: HeldMemory
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** How much memory a session takes, in bytes, without the events that it buffers. */
const SESSION_BYTES = 6 * 1024
/** The maximum number of sessions, and how long an idle one is kept, in milliseconds. */
const MAX_SESSIONS = 10_000
const IDLE_TIMEOUT_MS = 30 * 60_000

/** The sessions of Streamable HTTP clients. */
export class HttpSessions {
  readonly #options: Options
  readonly #sessions = new Map<string, HttpSession>()
  readonly #reaper = setInterval(() => this.#reap(), 60_000).unref()

  constructor(options: Options) {
    this.#options = options
  }

  get size(): number {
    return this.#sessions.size
  }

  get isBusy(): boolean {
    return [...this.#sessions.values()].some(({ session }) => session.isBusy)
  }

  /** Creates a session before its handshake; it counts only once it is kept. @throws OVERLOADED */
  create(principal: Principal, upstream: string | undefined): HttpSession {
    const isShareTaken = hasReachedShare(
      principal,
      this.#sessions,
      ({ session }) => session.principal.id,
      MAX_SESSIONS,
    )
    if (isShareTaken && !this.#makeRoom(principal, true)) throw full('Too many sessions of one caller.')
    if (this.#sessions.size >= MAX_SESSIONS && !this.#makeRoom(principal)) throw full('Too many sessions.')
    const { held } = this.#options
    while (!held.fits(principal, SESSION_BYTES))
      if (!this.#makeRoom(principal, held.isOwnFull(principal, SESSION_BYTES)))
        throw full('Sessions and operations take all the memory that they may.')
    const replay = new Replay({
      fits: (by) => held.fits(principal, by),
      change: (by) => held.change(principal, by),
    })
    const session = new ClientSession({
      id: randomUUID(),
      upstream,
      principal,
      ...this.#options,
      send: (message) => replay.general.add(message),
      channel: { isOpen: () => replay.general.hasOutlet, drained: () => replay.general.drained() },
    })
    return { session, replay, upstream, usedAt: Date.now() }
  }

  keep(session: HttpSession): void {
    if (!this.#sessions.has(session.session.id))
      this.#options.held.change(session.session.principal, SESSION_BYTES)
    this.#sessions.set(session.session.id, session)
  }

  /** @throws SESSION_NOT_FOUND if there is none, or it belongs to another caller */
  get(id: string, principal: Principal, upstream: string | undefined): HttpSession {
    const found = this.#sessions.get(id)
    if (!found || found.session.principal.id !== principal.id || found.upstream !== upstream) {
      throw new GatewayError('SESSION_NOT_FOUND', 'Session not found.', { suggestion: 'Initialize again.' })
    }
    found.usedAt = Date.now()
    return found
  }

  /** Resolves when its calls are answered, or after a timeout. */
  async end({ session, replay }: HttpSession): Promise<void> {
    if (this.#sessions.delete(session.id)) this.#options.held.change(session.principal, -SESSION_BYTES)
    await session.end()
    replay.close()
  }

  async close(): Promise<void> {
    clearInterval(this.#reaper)
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)))
  }

  #reap(): void {
    const before = Date.now() - IDLE_TIMEOUT_MS
    for (const each of this.#sessions.values()) if (each.usedAt < before && isIdle(each)) void this.end(each)
  }

  /** Ends an idle session, preferably one of the same caller, so that callers do not end sessions of others. */
  #makeRoom({ id }: Principal, isForOwn = false): boolean {
    const idle = [...this.#sessions.values()].filter(isIdle)
    const own = idle.filter(({ session }) => session.principal.id === id)
    const [oldest] = (own.length > 0 || isForOwn ? own : idle).toSorted(
      (one, other) => one.usedAt - other.usedAt,
    )
    if (oldest) void this.end(oldest)
    return oldest !== undefined
  }
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
