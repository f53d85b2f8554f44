/** Streamable HTTP to a server: posts, their streams and resumption, the session, and its standalone stream. */
import { setTimeout as wait } from 'node:timers/promises'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { Registry } from '../../core/registry.ts'
import type { Spool } from '../../core/spool.ts'
import { retryAfterSeconds } from '../../core/time/units.ts'
import type { OutgoingRequest } from '../../protocol/json-rpc-peer.ts'
import { findRevision } from '../../protocol/revisions.ts'
import type { ServerEvent } from '../../protocol/sse.ts'
import { isAboutCredentials, type HttpAnswer, type HttpRequest } from './auth-retry.ts'
import { baseHeaders, exchangeHttp, type HttpClient, startHttp, noMessage, errorIn } from './http-client.ts'
import type { OpenTransportAs, UpstreamTransport, TransportReceiver } from './transport.ts'

interface StreamOptions {
  readonly client: HttpClient
  headers(): Record<string, string>
  onMessage(text: string): void
  /** Called when the server no longer knows the session. */
  onLost(): void
  readonly log: Log
}

/**
 * How long the first call waits for this stream, in milliseconds. Some servers send no headers before the first event.
 */
const OPEN_TIMEOUT_MS = 200

/** The standalone stream of a session, for messages outside any request; reopened when it ends. */
class ServerStream {
  readonly #options: StreamOptions
  readonly #controller = new AbortController()
  #abort: (() => void) | undefined
  #lastEventId: string | undefined
  #retry = 1000

  constructor(options: StreamOptions) {
    this.#options = options
  }

  /** Opens the stream; resolves when the server has accepted or refused it, or after a timeout. */
  async open(): Promise<void> {
    const first = Promise.withResolvers<void>()
    background(
      this.#run(first.resolve).finally(() => first.resolve()),
      this.#options.log,
    )
    await Promise.race([first.promise, wait(OPEN_TIMEOUT_MS, undefined, { ref: false })])
  }

  close(): void {
    this.#controller.abort()
    this.#abort?.()
  }

  async #run(onHead: () => void): Promise<void> {
    const { signal } = this.#controller
    let wasOpen = false
    for (let failures = 0; !signal.aborted;) {
      const status = await this.#once(onHead)
      if (signal.aborted) return
      wasOpen ||= status === 200
      if (status === 400 && this.#lastEventId !== undefined) {
        // The server may only have lost this event id.
        this.#lastEventId = undefined
        continue
      }
      if (status === 400 && wasOpen) return this.#options.onLost()
      // 405: the server has no such stream. Other servers refuse it in other ways, and 404 means that the session is
      // lost.
      if (status === 404) return this.#options.onLost()
      failures = status === 200 ? 0 : failures + 1
      if ((status >= 400 && status < 500 && status !== 409) || failures > 8) return
      if (status === 409 && failures > 3) return this.#options.onLost()
      await wait(Math.min(this.#retry * 2 ** failures, 30_000), undefined, { signal, ref: false }).catch(
        () => undefined,
      )
    }
  }

  /** One run of the stream, until it ends; 0 without a response. */
  async #once(onHead: () => void): Promise<number> {
    const { client, headers, onMessage } = this.#options
    const resume = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }
    try {
      const answer = await exchangeHttp(client, {
        method: 'GET',
        headers: { ...baseHeaders(client, 'GET'), ...headers(), ...resume },
        onHead,
        onAbortable: (abort) => {
          this.#abort = abort
        },
        onRetry: (milliseconds) => {
          this.#retry = Math.min(Math.max(milliseconds, 100), 30_000)
        },
        onEvent: (event) => {
          if (event.id !== undefined) this.#lastEventId = event.id
          if (event.data !== '') onMessage(event.data)
        },
      })
      return answer.status === 200 && !answer.isEventStream ? 405 : answer.status
    } catch {
      return 0
    }
  }
}

interface Options {
  readonly client: HttpClient
  /** The revision of a server without a handshake; absent for one with sessions. */
  readonly modern?: string
  readonly log: Log
}

/** Connects to a server over Streamable HTTP. */
export function httpConnect(options: Options): OpenTransportAs {
  return async (receiver, login = options.client.login) =>
    new HttpTransport({ ...options, client: { ...options.client, login } }, receiver)
}

class HttpTransport implements UpstreamTransport {
  readonly hasProvenance = true
  readonly cancelsByRelease: boolean
  readonly #options: Options
  readonly #receiver: TransportReceiver
  readonly #open = new Registry<number, () => void>()
  #session: string | undefined
  #version: string | undefined
  #postHeaders: Record<string, string> | undefined
  #stream: ServerStream | undefined

  constructor(options: Options, receiver: TransportReceiver) {
    this.#options = options
    this.#receiver = receiver
    this.#version = options.modern
    this.cancelsByRelease = options.modern !== undefined
  }

  get isStateless(): boolean {
    return this.#options.modern === undefined && this.#session === undefined
  }

  send(message: string, exchange: OutgoingRequest): Promise<void> | undefined {
    const { id, method, headers } = exchange
    const allHeaders = headers ? { ...this.#headersFor(method), ...headers } : this.#headersFor(method)
    if (id === undefined) return this.#notify(message, allHeaders)
    const post = new Post(id, message, allHeaders, {
      receiver: this.#receiver,
      onAbortable: (abort) => this.#open.set(id, abort),
      onHead: (head) => {
        if (method === 'initialize') this.#takeSession(head.header('mcp-session-id'))
      },
    })
    startHttp(
      this.#options.client,
      post,
      (answer) => this.#finish(post, answer),
      (error) => this.#fail(id, error),
    )
    return undefined
  }

  release(id: number): void {
    this.#open.get(id)?.()
  }

  established(revision: string): void {
    this.#version = findRevision(revision)?.versionHeader === false ? undefined : revision
    this.#postHeaders = undefined
  }

  async listen(): Promise<void> {
    this.#stream?.close()
    this.#stream = new ServerStream({
      client: this.#options.client,
      headers: () => this.#sessionHeaders(),
      onMessage: (text) => this.#receiver.receive(text),
      onLost: () => this.#receiver.sessionLost(),
      log: this.#options.log,
    })
    // A server may send requests on this stream during the first call, so it is opened before any call.
    await this.#stream.open()
  }

  async close(): Promise<void> {
    this.#stream?.close()
    for (const abort of this.#open.values()) abort()
    if (this.#session === undefined) return
    const headers = { ...baseHeaders(this.#options.client, 'DELETE'), ...this.#sessionHeaders() }
    // Servers without DELETE answer 404, 405 or 501: the session expires there.
    await exchangeHttp(this.#options.client, { method: 'DELETE', headers, timeout: 2000 }).catch(
      () => undefined,
    )
  }

  async #notify(message: string, headers: Record<string, string>): Promise<void> {
    const answer = await exchangeHttp(this.#options.client, { method: 'POST', headers, body: message })
    if (answer.status >= 400) throw this.#refusal(answer)
  }

  #finish(post: Post, answer: HttpAnswer): void {
    const { id } = post
    if (answer.isEventStream) {
      const canResume = post.lastEventId !== undefined && !this.cancelsByRelease
      if (!this.#receiver.isWaiting(id)) this.#open.delete(id)
      else if (canResume) background(this.#resume(post), this.#options.log)
      else this.#fail(id, lost())
      return
    }
    if (answer.status === 400 && post.hasSession) {
      background(this.#doubt(post, answer), this.#options.log)
      return
    }
    this.#settle(post, answer)
  }

  /** Some servers refuse a lost session like a bad request: a ping distinguishes the two. */
  async #doubt(post: Post, answer: HttpAnswer): Promise<void> {
    const ping: HttpRequest = { method: 'POST', headers: post.headers, body: PING, timeout: 5000 }
    const status = await exchangeHttp(this.#options.client, ping).then(
      (item) => item.status,
      () => 0,
    )
    if (status === 400 || status === 404) this.#fail(post.id, forgotten())
    else this.#settle(post, answer)
  }

  #settle(post: Post, answer: HttpAnswer): void {
    const { id } = post
    this.#open.delete(id)
    const isForgotten = answer.status === 404 && post.hasSession
    if (answer.body !== '' && !isForgotten && !isAboutCredentials(answer)) {
      const message = answer.status < 400 ? answer.body : errorIn(answer.body, id)
      if (message !== undefined) this.#receiver.receive(message, id)
    }
    if (this.#receiver.isWaiting(id)) this.#receiver.reject(id, this.#refusal(answer))
  }

  #fail(id: number, error: unknown): void {
    this.#open.delete(id)
    this.#receiver.reject(id, error)
  }

  /** Resumes a broken stream where it ended; the call itself is never sent again. */
  async #resume(post: Post): Promise<void> {
    const { id } = post
    for (let attempt = 0; attempt < 5 && this.#receiver.isWaiting(id); attempt++) {
      const before = post.lastEventId
      const headers = { ...this.#streamHeaders(), 'last-event-id': before ?? '' }
      const delay = resumeDelay(attempt, post.retry)
      const answer = await exchangeHttp(this.#options.client, post.resumed(headers, delay)).catch(
        () => undefined,
      )
      if (answer && !answer.isEventStream) break
      if (post.lastEventId !== before) attempt = -1
    }
    this.#open.delete(id)
    if (this.#receiver.isWaiting(id)) this.#receiver.reject(id, lost())
  }

  #refusal(answer: HttpAnswer): GatewayError {
    if (answer.status === 404 && this.#session !== undefined) return forgotten()
    return noMessage(answer, this.#options.client.url).with({
      retryAfterSeconds: retryAfterSeconds(answer.header('retry-after'), Date.now()),
    })
  }

  #takeSession(session: string | undefined): void {
    this.#session = session
    this.#postHeaders = undefined
  }

  /** The headers of a post; the handshake itself has neither session nor revision. */
  #headersFor(method: string | undefined): Record<string, string> {
    if (method === 'initialize') return baseHeaders(this.#options.client, 'POST')
    this.#postHeaders ??= { ...baseHeaders(this.#options.client, 'POST'), ...this.#sessionHeaders() }
    return this.#postHeaders
  }

  #streamHeaders(): Record<string, string> {
    return { ...baseHeaders(this.#options.client, 'GET'), ...this.#sessionHeaders() }
  }

  #sessionHeaders(): Record<string, string> {
    return {
      ...(this.#version !== undefined && { 'mcp-protocol-version': this.#version }),
      ...(this.#session !== undefined && { 'mcp-session-id': this.#session }),
    }
  }
}

interface ExchangeListener {
  readonly receiver: TransportReceiver
  onAbortable(abort: () => void): void
  onHead(head: HttpAnswer): void
}

/** One posted request, and the position in its stream. */
class Post implements HttpRequest {
  readonly method = 'POST'
  readonly id: number
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** The server's requested reconnection delay, in milliseconds. */
  retry = 250
  lastEventId: string | undefined
  readonly #listener: ExchangeListener

  constructor(
    id: number,
    body: string,
    headers: Readonly<Record<string, string>>,
    listener: ExchangeListener,
  ) {
    this.id = id
    this.body = body
    this.headers = headers
    this.#listener = listener
  }

  get hasSession(): boolean {
    return this.headers['mcp-session-id'] !== undefined
  }

  onAbortable(abort: () => void): void {
    this.#listener.onAbortable(abort)
  }

  onHead(head: HttpAnswer): void {
    this.#listener.onHead(head)
  }

  spool(): Spool | undefined {
    return this.#listener.receiver.spool(this.id)
  }

  onEvent(event: ServerEvent): void {
    if (event.id !== undefined) this.lastEventId = event.id
    if (event.data !== '') this.#listener.receiver.receive(event.data, this.id)
  }

  onRetry(milliseconds: number): void {
    this.retry = milliseconds
  }

  /** The request that resumes the stream. */
  resumed(headers: Record<string, string>, delay: number): HttpRequest {
    return {
      method: 'GET',
      headers,
      delay,
      onAbortable: (abort) => this.onAbortable(abort),
      spool: () => this.spool(),
      onEvent: (event) => this.onEvent(event),
      onRetry: (milliseconds) => this.onRetry(milliseconds),
    }
  }
}

/** Before the first attempt the stream may just have been closed for polling; later attempts wait longer. */
function resumeDelay(attempt: number, retry: number): number {
  return Math.min(Math.max(retry, 100) * 2 ** attempt, 30_000)
}

const PING = '{"jsonrpc":"2.0","id":"ping","method":"ping"}'

function forgotten(): GatewayError {
  return new GatewayError('SESSION_NOT_FOUND', 'The server ended the session.')
}

function lost(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The connection to the server was lost before the response arrived.',
    {
      suggestion: 'Check whether the call took effect before making it again.',
    },
  )
}
