import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { serveBatch, takeBatch } from '../bridge/batch.ts'
import { ClientSession } from '../bridge/session.ts'
import { idOf, parseJson, readMessage } from '../wire/jsonrpc.ts'
import { encodeEndpoint, encodeEvent } from '../wire/sse.ts'
import type { Exchange } from './exchange.ts'
import { refuse } from './http.ts'
import { HttpReply } from './reply.ts'

interface Options {
  readonly handle: Handler
  /** The path clients know the gateway by, without a slash at its end. */
  readonly prefix: () => string
  readonly log: Log
}

interface Open {
  readonly session: ClientSession
  readonly reply: HttpReply
  readonly outgoing: ServerResponse
}

const LIMIT = 1000

/** The HTTP+SSE transport of 2024-11-05: one stream for everything, and posts that are only accepted. */
export class LegacySse {
  readonly #options: Options
  readonly #open = new Map<string, Open>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Opens a stream; its first event tells where to post. @throws OVERLOADED */
  stream({ outgoing, upstream, principal, requestId }: Exchange): void {
    if (this.#open.size >= LIMIT) throw new GatewayError('OVERLOADED', 'Too many sessions.')
    const id = randomUUID()
    const reply = new HttpReply(outgoing, { requestId, canStream: true, onSlow: () => session.close() })
    const session = new ClientSession({
      id,
      upstream,
      principal,
      ...this.#options,
      send: (message) => void reply.write(encodeEvent(message)),
    })
    this.#open.set(id, { session, reply, outgoing })
    // Replies have no other way than this stream, so its end is the end of the session.
    outgoing.on('close', () => {
      this.#open.delete(id)
      session.close()
    })
    reply.open()
    reply.write(encodeEndpoint(`${this.#options.prefix()}/messages?session_id=${id}`))
  }

  /** Takes a posted message. Never throws. */
  post(exchange: Exchange, text: string): void {
    try {
      this.#take(exchange, text)
    } catch (error) {
      refuse(exchange.outgoing, asGatewayError(error), idOf(text), this.#options.log)
    }
  }

  #take({ incoming, outgoing, principal }: Exchange, text: string): void {
    const found = this.#open.get(sessionId(incoming) ?? '')
    if (!found || found.session.principal.id !== principal.id) {
      throw new GatewayError('SESSION_NOT_FOUND', 'Session not found.', {
        suggestion: 'Open the stream again.',
      })
    }
    const { session } = found
    const value = parseJson(text)
    const batch = Array.isArray(value) ? takeBatch(session, text) : undefined
    const message = batch ? undefined : readMessage(text, value)
    outgoing.writeHead(202, { 'content-type': 'text/plain' }).end('Accepted')
    const send = (answer: string): void => void found.reply.write(encodeEvent(answer))
    const end = (answer?: string): void => (answer === undefined ? undefined : send(answer))
    const reply = { emit: send, end, isStream: false }
    if (batch) {
      if (batch.length > 0) background(serveBatch(session, batch, reply), this.#options.log)
    } else if (!message) return
    else if (message.kind === 'notification') session.notification(message)
    else if (message.kind === 'response') session.response(message, text)
    else background(session.request(message, reply), this.#options.log)
  }

  close(): void {
    for (const { outgoing } of this.#open.values()) outgoing.end()
  }
}

function sessionId({ url = '' }: IncomingMessage): string | undefined {
  return new URLSearchParams(url.split('?', 2)[1]).get('session_id') ?? undefined
}
