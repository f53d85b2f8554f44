import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Log } from '../core/log.ts'
import type { Exchange } from '../wire/peer.ts'
import { type Answer, exchangeHttp, type HttpClient } from './fetch.ts'
import type { Connect, Link, Receiver } from './link.ts'
import { ServerStream } from './stream.ts'

interface Options {
  readonly client: HttpClient
  /** The revision of a server without a handshake; absent for one with sessions. */
  readonly modern?: string
  readonly log: Log
}

/** Where a stream stopped, and after how many milliseconds the server wants it taken up again. */
interface Place {
  lastEventId?: string
  retry: number
}

/** Reaches a server over Streamable HTTP. */
export function httpConnect(options: Options): Connect {
  return async (receiver) => new HttpLink(options, receiver)
}

class HttpLink implements Link {
  readonly hasProvenance = true
  readonly cancelsByRelease: boolean
  readonly #options: Options
  readonly #receiver: Receiver
  readonly #open = new Map<number, () => void>()
  #session: string | undefined
  #version: string | undefined
  #stream: ServerStream | undefined

  constructor(options: Options, receiver: Receiver) {
    this.#options = options
    this.#receiver = receiver
    this.#version = options.modern
    this.cancelsByRelease = options.modern !== undefined
  }

  async send(message: string, exchange: Exchange): Promise<void> {
    const { id } = exchange
    const place: Place = { retry: 250 }
    const answer = await exchangeHttp(this.#options.client, {
      method: 'POST',
      headers: { ...this.#headers(exchange.method), ...exchange.headers },
      body: message,
      onAbortable: (abort) => {
        if (id !== undefined) this.#open.set(id, abort)
      },
      onHead: (head) => {
        if (exchange.method === 'initialize') this.#session = head.header('mcp-session-id')
      },
      onEvent: (event) => {
        if (event.id !== undefined) place.lastEventId = event.id
        if (event.data !== '') this.#receiver.receive(event.data, id)
      },
      onRetry: (milliseconds) => {
        place.retry = milliseconds
      },
    }).finally(() => id !== undefined && this.#open.delete(id))
    if (id === undefined) return this.#checkAccepted(answer)
    await this.#finish(id, answer, place)
  }

  release(id: number): void {
    this.#open.get(id)?.()
  }

  established(revision: string): void {
    this.#version = revision
  }

  async listen(): Promise<void> {
    this.#stream?.close()
    this.#stream = new ServerStream({
      client: this.#options.client,
      headers: () => this.#headers(undefined),
      onMessage: (text) => this.#receiver.receive(text),
      onLost: () => this.#receiver.sessionLost(),
      log: this.#options.log,
    })
    // A server may ask on this stream during the first call, so it is open before there is one.
    await this.#stream.open()
  }

  async close(): Promise<void> {
    this.#stream?.close()
    for (const abort of this.#open.values()) abort()
    if (this.#session === undefined) return
    const headers = this.#headers(undefined)
    // Servers that know no DELETE answer 404, 405 or 501: the session ends by itself there.
    await exchangeHttp(this.#options.client, { method: 'DELETE', headers, timeout: 2000 }).catch(() => undefined)
  }

  async #finish(id: number, answer: Answer, place: Place): Promise<void> {
    if (answer.isEventStream) {
      if (!this.#receiver.isWaiting(id)) return
      if (place.lastEventId !== undefined && !this.cancelsByRelease) return this.#resume(id, place)
      throw lost()
    }
    if (answer.body !== '') this.#receiver.receive(attachId(answer.body, id), id)
    if (!this.#receiver.isWaiting(id)) return
    throw this.#refusal(answer)
  }

  /** Takes up a broken stream where it stopped; the call itself is never sent again. */
  async #resume(id: number, place: Place): Promise<void> {
    for (let attempt = 0; attempt < 5 && this.#receiver.isWaiting(id); attempt++) {
      const answer = await exchangeHttp(this.#options.client, {
        method: 'GET',
        headers: { ...this.#headers(undefined), 'last-event-id': place.lastEventId ?? '' },
        delay: resumeDelay(attempt, place.retry),
        onAbortable: (abort) => this.#open.set(id, abort),
        onEvent: (event) => {
          if (event.id !== undefined) {
            place.lastEventId = event.id
            attempt = -1
          }
          if (event.data !== '') this.#receiver.receive(event.data, id)
        },
        onRetry: (milliseconds) => {
          place.retry = milliseconds
        },
      }).catch(() => undefined)
      if (answer && !answer.isEventStream) break
    }
    this.#open.delete(id)
    if (this.#receiver.isWaiting(id)) throw lost()
  }

  #checkAccepted(answer: Answer): void {
    if (answer.status >= 400) throw this.#refusal(answer)
  }

  #refusal(answer: Answer): GatewayError {
    const { status } = answer
    if (status === 404 && this.#session !== undefined) {
      return new GatewayError('SESSION_NOT_FOUND', 'The server ended the session.')
    }
    const details = { http_status: status }
    if (status === 401 || status === 403) {
      return new GatewayError('UPSTREAM_ERROR', `The server refused the gateway's credentials (HTTP ${status}).`, {
        details,
        suggestion: 'Check the token or headers of this server in the configuration.',
      })
    }
    if (status >= 500) return new GatewayError('SERVER_UNAVAILABLE', `The server answered HTTP ${status}.`, { details })
    if (status >= 300) return new GatewayError('UPSTREAM_ERROR', `The server answered HTTP ${status}.`, { details })
    const what = answer.body === '' ? 'accepted the request and answered nothing' : 'answered with something else than an answer'
    return new GatewayError('UPSTREAM_ERROR', `The server ${what}.`, { details })
  }

  #headers(method: string | undefined): Record<string, string> {
    const isHandshake = method === 'initialize'
    return {
      ...(this.#version !== undefined && !isHandshake && { 'mcp-protocol-version': this.#version }),
      ...(this.#session !== undefined && !isHandshake && { 'mcp-session-id': this.#session }),
    }
  }
}

/** Before the first try the stream may just have been closed for polling; after that it waits longer. */
function resumeDelay(attempt: number, retry: number): number {
  return Math.min(Math.max(retry, 100) * 2 ** attempt, 30_000)
}

function lost(): GatewayError {
  return new GatewayError('OUTCOME_UNKNOWN', 'The connection to the server broke before it answered.', {
    suggestion: 'Check whether the call took effect before making it again.',
  })
}

/** Errors that could not tell the id (`null`, or none) belong to the request they answer. */
function attachId(body: string, id: number): string {
  try {
    const value: unknown = JSON.parse(body)
    if (!isObject(value) || !isObject(value.error) || (value.id !== null && value.id !== undefined)) return body
    return JSON.stringify({ ...value, jsonrpc: '2.0', id })
  } catch {
    return body
  }
}
