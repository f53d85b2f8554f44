import { setTimeout as wait } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import { GatewayError } from '../core/error.ts'
import { readEvents, type ServerEvent } from '../wire/sse.ts'
import { noAnswer } from './http-faults.ts'
import { MAX_MESSAGE } from './link.ts'
import { type Login, startWithAuth } from './login.ts'
import type { UpstreamQuota } from './quota.ts'

/** Requests to one URL, with its credentials. */
export interface HttpClient {
  readonly pool: Pool
  readonly url: URL
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>
  /** Hears of each answer what its headers say is left to ask. */
  readonly quota?: UpstreamQuota | undefined
  /** Adds to each request what proves for whom it is made, where that is not always the same. */
  readonly login?: Login | undefined
}

/** One HTTP exchange to make, and who hears of it. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** All headers; begin with `baseHeaders`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Path and query, where not those of the client's URL. */
  readonly path?: string
  /** How long the whole exchange may take, in milliseconds. */
  readonly timeout?: number
  /** How long to wait before it, in milliseconds. */
  readonly delay?: number
  onEvent?(event: ServerEvent): void
  onRetry?(milliseconds: number): void
  /** The status and headers are there. */
  onHead?(answer: HttpAnswer): void
  onAbortable?(abort: () => void): void
}

/** An HTTP answer, its body read. Events were handed out as they came. */
export interface HttpAnswer {
  readonly status: number
  readonly isEventStream: boolean
  readonly body: string
  header(name: string): string | undefined
}

/** A client for a URL. No timeouts of its own: a stream may be silent for long, and calls have deadlines. */
export function createHttpClient(url: URL, headers: Readonly<Record<string, string>>): HttpClient {
  const pool = new Pool(url.origin, { bodyTimeout: 0, headersTimeout: 0, connect: { timeout: 10_000 } })
  return { pool, url, headers }
}

/** Makes one HTTP exchange. @throws SERVER_UNAVAILABLE before it was sent, OUTCOME_UNKNOWN after */
export async function exchangeHttp(client: HttpClient, request: HttpRequest): Promise<HttpAnswer> {
  if (request.delay) await wait(request.delay)
  return new Promise((resolve, reject) => startHttp(client, request, resolve, reject))
}

type Resolve = (answer: HttpAnswer) => void
type Reject = (error: unknown) => void
interface Ends {
  readonly resolve: Resolve
  readonly reject: Reject
}

/** The same without a promise, for what is made at every call. */
export function startHttp(client: HttpClient, request: HttpRequest, resolve: Resolve, reject: Reject): void {
  const path = request.path ?? client.url.pathname + client.url.search
  if (!client.login)
    return dispatch(client, request, path, new HttpExchange(client, request, { resolve, reject }))
  startWithAuth(
    client.login,
    request,
    (each, ends) => dispatch(client, each, path, new HttpExchange(client, each, ends)),
    { resolve, reject },
  )
}

/** The headers of a request to a client's URL, besides those of the request itself. */
export function baseHeaders({ headers }: HttpClient, method: HttpRequest['method']): Record<string, string> {
  return {
    ...(method === 'POST' && { 'content-type': 'application/json' }),
    // Servers want both types named, literally.
    accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
    ...headers,
  }
}

function dispatch(client: HttpClient, request: HttpRequest, path: string, handler: HttpExchange): void {
  const { method, headers, body } = request
  client.pool.dispatch({ path, method, headers, body: body ?? null }, handler)
}

class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest
  readonly #client: HttpClient
  /** Whether a redirect may still be followed: one is. */
  readonly #mayRedirect: boolean
  readonly #resolve: Resolve
  readonly #reject: Reject
  #timer: NodeJS.Timeout | undefined
  #answer: (HttpAnswer & { body: string }) | undefined
  #feed: ((chunk: Uint8Array) => void) | undefined
  #chunks: Buffer[] = []
  #size = 0
  #isSent = false

  constructor(client: HttpClient, request: HttpRequest, ends: Ends, mayRedirect = true) {
    this.#client = client
    this.#mayRedirect = mayRedirect
    this.#request = request
    this.#resolve = ends.resolve
    this.#reject = ends.reject
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
    this.#client.quota?.read(this.#answer.header)
    this.#request.onHead?.(this.#answer)
    if (!isEventStream || !this.#request.onEvent) return
    this.#feed = readEvents(MAX_MESSAGE, {
      onEvent: (event) => this.#request.onEvent?.(event),
      onRetry: (milliseconds) => this.#request.onRetry?.(milliseconds),
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
    const answer = this.#answer
    if (!answer) return
    const client = this.#client
    const moved = answer.status < 300 || !this.#mayRedirect ? undefined : redirectPath(client, answer)
    if (moved) {
      const ends = { resolve: this.#resolve, reject: this.#reject }
      return dispatch(client, this.#request, moved, new HttpExchange(client, this.#request, ends, false))
    }
    answer.body = bytes.toString('utf8')
    this.#resolve(answer)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#timer)
    // A stream that breaks is an answer that ended: what it carried was handed out.
    if (this.#answer?.isEventStream && !(error instanceof GatewayError)) return this.#resolve(this.#answer)
    this.#reject(error instanceof GatewayError ? error : noAnswer(error, this.#client.url, this.#isSent))
  }
}

/** Where a redirect that keeps method and body leads, on the same origin: credentials go nowhere else. */
function redirectPath({ url }: HttpClient, answer: HttpAnswer): string | undefined {
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
