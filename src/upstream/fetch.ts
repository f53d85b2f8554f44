import { setTimeout as wait } from 'node:timers/promises'
import type { EventSourceMessage } from 'eventsource-parser'
import { type Dispatcher, Pool } from 'undici'
import { GatewayError } from '../core/error.ts'
import { readEvents } from '../wire/sse.ts'
import { MAX_MESSAGE } from './link.ts'

/** Requests to one URL, with its credentials. */
export interface HttpClient {
  readonly pool: Pool
  readonly url: URL
  /** Headers of every request. */
  headers(): Readonly<Record<string, string>>
}

interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Path and query, where not those of the client's URL. */
  readonly path?: string
  /** How long the whole exchange may take, in milliseconds. */
  readonly timeout?: number
  /** How long to wait before it, in milliseconds. */
  readonly delay?: number
  onEvent?(event: EventSourceMessage): void
  onRetry?(milliseconds: number): void
  /** The status and headers are there. */
  onHead?(answer: Answer): void
  onAbortable?(abort: () => void): void
}

/** An HTTP answer, its body read. Events were handed out as they came. */
export interface Answer {
  readonly status: number
  readonly isEventStream: boolean
  readonly body: string
  header(name: string): string | undefined
}

/** A client for a URL. No timeouts of its own: a stream may be silent for long, and calls have deadlines. */
export function createHttpClient(url: URL, headers: () => Readonly<Record<string, string>>): HttpClient {
  const pool = new Pool(url.origin, { bodyTimeout: 0, headersTimeout: 0, connect: { timeout: 10_000 } })
  return { pool, url, headers }
}

/** Makes one HTTP exchange. @throws SERVER_UNAVAILABLE before it was sent, OUTCOME_UNKNOWN after */
export async function exchangeHttp(client: HttpClient, request: HttpRequest): Promise<Answer> {
  if (request.delay) await wait(request.delay)
  const answer = await dispatch(client, request, request.path ?? client.url.pathname + client.url.search)
  const moved = redirectPath(client.url, answer)
  return moved === undefined ? answer : dispatch(client, request, moved)
}

function dispatch(client: HttpClient, request: HttpRequest, path: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const handler = new Exchange(request, resolve, reject)
    const options: Dispatcher.DispatchOptions = {
      path,
      method: request.method,
      headers: {
        ...(request.body !== undefined && { 'content-type': 'application/json' }),
        // Servers want both types named, literally.
        accept: request.method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
        ...client.headers(),
        ...request.headers,
      },
      ...(request.body !== undefined && { body: request.body }),
    }
    client.pool.dispatch(options, handler)
  })
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #answer: Answer | undefined
  #feed: ((chunk: Uint8Array) => void) | undefined
  #chunks: Buffer[] = []
  #size = 0
  #isSent = false

  constructor(request: HttpRequest, resolve: (answer: Answer) => void, reject: (error: unknown) => void) {
    this.#request = request
    this.#resolve = resolve
    this.#reject = reject
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#isSent = true
    const abort = (): void => controller.abort(new GatewayError('CANCELLED', 'The request was cancelled.'))
    this.#request.onAbortable?.(abort)
    if (this.#request.timeout !== undefined) this.#timer = setTimeout(abort, this.#request.timeout).unref()
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    const type = single(headers['content-type']) ?? ''
    const isEventStream = status < 300 && type.toLowerCase().startsWith('text/event-stream')
    this.#answer = { status, isEventStream, body: '', header: (name) => single(headers[name]) }
    this.#request.onHead?.(this.#answer)
    const { onEvent, onRetry } = this.#request
    if (!isEventStream || !onEvent) return
    this.#feed = readEvents(MAX_MESSAGE, {
      onEvent,
      ...(onRetry && { onRetry }),
      onOverflow: () => controller.abort(tooLarge()),
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#feed) return this.#feed(chunk)
    this.#size += chunk.length
    if (this.#size > MAX_MESSAGE) controller.abort(tooLarge())
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    clearTimeout(this.#timer)
    const [first, ...others] = this.#chunks
    const bytes = first && others.length === 0 ? first : Buffer.concat(this.#chunks)
    if (this.#answer) this.#resolve({ ...this.#answer, body: bytes.toString('utf8') })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#timer)
    // A stream that breaks is an answer that ended: what it carried was handed out.
    if (this.#answer?.isEventStream && !(error instanceof GatewayError)) return this.#resolve(this.#answer)
    this.#reject(error instanceof GatewayError ? error : broken(error, this.#isSent))
  }
}

function broken(cause: Error, isSent: boolean): GatewayError {
  const neverSent = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT']
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  if (!isSent || neverSent.includes(code)) {
    return new GatewayError('SERVER_UNAVAILABLE', 'The server can not be reached.', { cause })
  }
  return new GatewayError('OUTCOME_UNKNOWN', 'The connection to the server broke before it answered.', {
    cause,
    suggestion: 'Check whether the call took effect before making it again.',
  })
}

/** Where a redirect that keeps method and body leads, on the same origin: credentials go nowhere else. */
function redirectPath(url: URL, answer: Answer): string | undefined {
  if (answer.status !== 307 && answer.status !== 308) return undefined
  const location = answer.header('location')
  if (location === undefined || !URL.canParse(location, url.href)) return undefined
  const target = new URL(location, url)
  return target.origin === url.origin ? target.pathname + target.search : undefined
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

function tooLarge(): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The server sent a message that is too large.')
}
