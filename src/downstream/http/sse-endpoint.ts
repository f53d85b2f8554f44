/** The HTTP+SSE transport of 2024-11-05: a stream for messages of the server, POST for those of the client. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Handler } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { hasReachedShare } from '../../core/principal.ts'
import type { Refusal } from '../../core/audit-step.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import { findRevision } from '../../core/revisions.ts'
import { world } from '../../core/world.ts'
import type { ClientSessions, SessionState } from '../../records/client-sessions.ts'
import { serveBatch, takeBatch, ClientSession } from '../session/session.ts'
import { checkNesting, idOf, parseMessages } from '../../protocol/jsonrpc.ts'
import { encodeEndpoint, encodeEvent } from '../../protocol/sse.ts'
import { factsOf, type HttpContext, type TokenLifetime, tokenLifetime } from './edge.ts'
import { decisionOf, type OtherProcesses, refuse, restarted } from './endpoint.ts'
import type { SessionPlace } from './hop/place.ts'
import { extend, savingWith, SESSION_ID } from './sessions.ts'
import { HttpReply } from './reply.ts'

interface Options {
  readonly handle: Handler
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  /** The sessions in the store; without it a session ends with its stream. */
  readonly kept?: ClientSessions
  /** Called for every rejected request. */
  onRefused?(refusal: Refusal): void
  /** The other processes that share the store; undefined if they do not reach each other. */
  readonly others?: OtherProcesses | undefined
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

interface Open {
  readonly session: ClientSession
  readonly reply: HttpReply
  readonly outgoing: ServerResponse
  readonly upstream: string | undefined
  readonly lease: TokenLifetime
  /** When its expiry in the store was put off last. */
  extendedAt: number
}

/** A session that began on an earlier stream of its client. */
interface Continued {
  /** Undefined if it is not known which one it is. */
  readonly id?: string
  readonly state: SessionState
}

const MAX_SESSIONS = 1000

/** The HTTP+SSE transport of 2024-11-05: one stream for all responses, and POSTs that are answered with 202. */
export class LegacySse {
  readonly #options: Options
  readonly #open = new Map<string, Open>()

  constructor(options: Options) {
    this.#options = options
  }

  get size(): number {
    return this.#open.size
  }

  get isBusy(): boolean {
    return [...this.#open.values()].some(({ session }) => session.isBusy)
  }

  /** The server of a posted message, if its session is for one server, here or in another process. */
  upstreamOf(incoming: IncomingMessage): string | undefined {
    if (!this.isPosted(incoming)) return undefined
    const query = queryOf(incoming)
    const open = this.#open.get(query.get('session_id') ?? '')
    return open ? open.upstream : this.#placeIn(query)?.upstream
  }

  /** Whether a request is a message of a session. */
  isPosted({ url = '' }: IncomingMessage): boolean {
    return url.startsWith('/messages?')
  }

  /** Opens a stream; its first event is the URL for messages. @throws OVERLOADED */
  async stream(exchange: HttpContext): Promise<void> {
    const eventId = exchange.incoming.headers['last-event-id']
    const isSession = typeof eventId === 'string' && SESSION_ID.test(eventId)
    this.#stream(exchange, isSession ? await this.#continued(exchange, eventId) : reconnected(exchange))
  }

  /** The session of the stream that this one takes the place of. */
  async #continued(exchange: HttpContext, id: string): Promise<Continued | undefined> {
    const { principal, upstream } = exchange
    const state = await this.#options.kept?.find({ id, principal }, upstream)
    return state ? { id, state } : reconnected(exchange)
  }

  /** Ends the stream of a session that continues on another one; several may be opened at once. */
  #replace(id: string): void {
    const before = this.#open.get(id)
    this.#open.delete(id)
    before?.session.close()
    before?.outgoing.end()
  }

  #stream(exchange: HttpContext, continued: Continued | undefined): void {
    const { outgoing, upstream, principal, requestId, edge } = exchange
    // A client that is already gone would never emit `close`.
    if (outgoing.destroyed) return
    if (continued?.id !== undefined) this.#replace(continued.id)
    if (this.#open.size >= MAX_SESSIONS) throw new GatewayError('OVERLOADED', 'Too many sessions.')
    if (hasReachedShare(principal, this.#open, ({ session }) => session.principal.id, MAX_SESSIONS))
      throw new GatewayError('OVERLOADED', 'Too many sessions of one caller.')
    const id = continued?.id ?? world.randomUUID()
    const onSlow = (): void => session.close()
    const reply = new HttpReply(outgoing, { requestId }, { ticker: edge.ticker, canStream: true, onSlow })
    const session = new ClientSession({
      id,
      upstream,
      principal,
      ...this.#options,
      save: savingWith(this.#options.kept, upstream),
      send: (message) => void reply.write(encodeEvent(message)),
      channel: { isOpen: () => !outgoing.destroyed, drained: () => reply.drained() },
    })
    const own = tokenLifetime(exchange, () => outgoing.end())
    const open: Open = { session, reply, outgoing, upstream, lease: own, extendedAt: 0 }
    this.#open.set(id, open)
    // All responses use this stream, so its end is the end of the session, unless the client continues it.
    outgoing.on('close', () => {
      if (this.#open.get(id) === open) this.#open.delete(id)
      own.end()
      session.close()
    })
    reply.open()
    reply.write(encodeEndpoint(`${edge.prefix}/messages?${this.#addressOf(id, upstream)}`, id))
    if (continued) session.continue(continued.state)
  }

  /** The session, and the process that has its stream, in the query of the URL for its messages. */
  #addressOf(id: string, upstream: string | undefined): string {
    const sealed = this.#options.others?.fleet.places.close(id, upstream)
    return `session_id=${id}${sealed === undefined ? '' : `&at=${sealed}`}`
  }

  /** Where the session is that a query names; undefined if that is not known. */
  #placeIn(query: URLSearchParams): SessionPlace | undefined {
    const [id, sealed] = [query.get('session_id') ?? '', query.get('at')]
    return sealed === null ? undefined : this.#options.others?.fleet.places.open(id, sealed)
  }

  /** Handles a posted message, here or in the process that has its stream. Never rejects. */
  async post(exchange: HttpContext, text: string): Promise<void> {
    try {
      if (!(await this.#isForwarded(exchange, text))) this.#take(exchange, text)
    } catch (error) {
      const { log, onRefused } = this.#options
      const { requestId, edge } = exchange
      refuse(exchange.outgoing, asGatewayError(error), { id: idOf(text), requestId, edge, log, onRefused })
    }
  }

  async #isForwarded(exchange: HttpContext, body: string): Promise<boolean> {
    const { incoming, outgoing, forwardedFrom } = exchange
    const { others } = this.#options
    const query = queryOf(incoming)
    const id = query.get('session_id') ?? ''
    if (!others || forwardedFrom || this.#open.has(id)) return false
    const owner = this.#placeIn(query)?.owner
    if (!owner || owner.id === others.fleet.id) return false
    const path = `/messages?session_id=${encodeURIComponent(id)}`
    const request = { incoming, outgoing, decision: decisionOf(exchange), body, path }
    const outcome = await others.forwarder.forward(owner, request)
    if (outcome === 'lost') throw restarted()
    // Without its process, the session has no stream.
    return outcome === 'answered'
  }

  #take(exchange: HttpContext, text: string): void {
    const { incoming, outgoing, principal, requestId } = exchange
    const found = this.#open.get(sessionId(incoming) ?? '')
    if (!found || found.session.principal.id !== principal.id) {
      throw new GatewayError('SESSION_NOT_FOUND', 'Session not found.', {
        suggestion: 'Open the stream again.',
      })
    }
    const { session } = found
    found.lease.extend(exchange)
    void extend(found, this.#options.kept)
    const message = parseMessages(text)
    checkNesting(text)
    const requests = message.kind === 'batch' ? takeBatch(session, message) : []
    outgoing.writeHead(202, { 'content-type': 'text/plain', 'x-request-id': requestId }).end('Accepted')
    const send = (answer: string): void => void found.reply.write(encodeEvent(answer))
    const end = (answer?: string): void => (answer === undefined ? undefined : send(answer))
    const drained = (): Promise<void> => found.reply.drained()
    const reply = { request: factsOf(exchange), emit: send, drained, end, isStream: false }
    if (message.kind === 'batch') {
      if (requests.length > 0) background(serveBatch(session, requests, reply), this.#options.log)
    } else if (message.kind === 'notification') session.notification(message)
    else if (message.kind === 'response') session.response(message, text)
    else background(session.request(message, reply), this.#options.log)
  }

  /** Ends all streams after their calls are answered. */
  async close(): Promise<void> {
    const ending = [...this.#open.values()].map(async ({ session, outgoing }) => {
      await session.end()
      outgoing.end()
    })
    await Promise.all(ending)
  }
}

/**
 * A client that negotiated a revision before it opened this stream, as its header says, and cannot say in which session: it
 * will not negotiate again. What it declared is unknown, so nothing is requested of it.
 */
function reconnected({ incoming: { headers } }: HttpContext): Continued | undefined {
  const revision = findRevision(headers['mcp-protocol-version'])
  if (revision?.era !== 'legacy') return undefined
  const offered = { tools: {}, prompts: {}, resources: { subscribe: true }, logging: {} }
  return { state: { revision: revision.name, capabilities: {}, offered, uris: [] } }
}

function sessionId(incoming: IncomingMessage): string | undefined {
  return queryOf(incoming).get('session_id') ?? undefined
}

function queryOf({ url = '' }: IncomingMessage): URLSearchParams {
  return new URLSearchParams(url.split('?', 2)[1])
}
