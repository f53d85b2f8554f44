/** Streamable HTTP to a server: posts, their streams and resumption, the session, and its standalone stream. */
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { Registry } from '../../core/registry.ts'
import type { Spool } from '../../core/spool.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { pause } from '../../core/time/waiting.ts'
import { retryAfterSeconds } from '../../core/time/units.ts'
import type { OutgoingRequest } from '../../protocol/json-rpc-peer.ts'
import { findRevision } from '../../protocol/revisions.ts'
import type { ServerEvent } from '../../protocol/sse.ts'
import { backOff } from '../../core/time/back-off.ts'
import { isAboutCredentials, type HttpAnswer, type HttpRequest } from './auth-retry.ts'
import { baseHeaders, exchangeHttp, type HttpClient, startHttp } from './http-client.ts'
import { errorIn, noMessage } from './http-failures.ts'
import { isRefused, ServerStream } from './server-stream.ts'
import type { OpenTransportAs, UpstreamTransport, TransportReceiver } from './transport.ts'

/** How long the response of a stream that ended early may take to come elsewhere, in milliseconds. */
const ELSEWHERE_TIMEOUT_MS = 5000

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
  /** Requests whose own exchange ended without a response, which may come on the standalone stream; and what to say if not. */
  readonly #elsewhere = new Map<number, GatewayError>()

  constructor(options: Options, receiver: TransportReceiver) {
    this.#options = options
    this.#receiver = receiver
    this.#version = options.modern
    this.cancelsByRelease = options.modern !== undefined
  }

  get isStateless(): boolean {
    return this.#options.modern === undefined && this.#session === undefined
  }

  get session(): string | undefined {
    return this.#session
  }

  send(message: string, exchange: OutgoingRequest): Promise<void> | undefined {
    const { id, method, headers } = exchange
    const allHeaders = headers ? { ...this.#headersFor(method), ...headers } : this.#headersFor(method)
    if (id === undefined) return this.#notify(message, allHeaders)
    const post = new Post(
      { id, body: message, headers: allHeaders, isHandshake: method === 'initialize' },
      {
        receiver: this.#receiver,
        onAbortable: (abort) => this.#open.set(id, abort),
        onHead: (head) => {
          if (method === 'initialize') this.#takeSession(head.header('mcp-session-id'))
        },
      },
    )
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
    this.#stream ??= new ServerStream({
      client: this.#options.client,
      headers: () => this.#sessionHeaders(),
      onMessage: (text) => this.#receiver.receive(text),
      isLost: () => this.#isSessionRefused(this.#headersFor('ping')),
      onLost: () => this.#receiver.sessionLost(),
      onEnd: () => this.#failElsewhere(),
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
    if (answer.status === 404 && headers['mcp-session-id'] !== undefined) throw forgotten()
    if (answer.status >= 400) throw this.#refusal(answer)
  }

  #finish(post: Post, answer: HttpAnswer): void {
    const { id } = post
    if (answer.isEventStream) {
      const canResume = post.lastEventId !== undefined && !this.cancelsByRelease
      if (!this.#receiver.isWaiting(id)) this.#open.delete(id)
      else if (canResume) background(this.#resume(post, answer), this.#options.log)
      else this.#endWithout(post, answer, lost())
      return
    }
    const isOwnRefusal = answer.status === 400 || (answer.status === 404 && isAnswerTo(id, answer.body))
    if (post.hasSession && isOwnRefusal) {
      background(this.#doubt(post, answer), this.#options.log)
      return
    }
    this.#settle(post, answer)
  }

  /** The end of an exchange without the response: it may come on the stream of the session. */
  #endWithout(post: Post, answer: HttpAnswer, error: GatewayError): void {
    const { id, isHandshake } = post
    if (!answer.isComplete || isHandshake || this.#stream?.isOpen !== true) return this.#fail(id, error)
    this.#open.delete(id)
    for (const each of this.#elsewhere.keys())
      if (!this.#receiver.isWaiting(each)) this.#elsewhere.delete(each)
    this.#elsewhere.set(id, error)
    this.#receiver.answeredElsewhere?.(id)
    // A stream that ended early may as well have been lost, whereas 202 promises a response.
    if (answer.isEventStream) void pause(ELSEWHERE_TIMEOUT_MS).then(() => this.#receiver.reject(id, error))
  }

  #failElsewhere(): void {
    for (const [id, error] of this.#elsewhere) this.#receiver.reject(id, error)
    this.#elsewhere.clear()
  }

  /** Some servers refuse a lost session like a bad request, and others a bad request like a lost session. */
  async #doubt(post: Post, answer: HttpAnswer): Promise<void> {
    if (await this.#isSessionRefused(post.headers)) this.#fail(post.id, forgotten())
    else this.#settle(post, answer, true)
  }

  /** Whether a ping is refused as well: then not the request is the reason, but the session. */
  async #isSessionRefused(headers: Readonly<Record<string, string>>): Promise<boolean> {
    if (headers['mcp-session-id'] === undefined) return false
    const ping: HttpRequest = { method: 'POST', headers, body: PING, timeout: 5000 }
    const answer = await exchangeHttp(this.#options.client, ping).catch(() => undefined)
    return answer !== undefined && isRefused(answer.status) && !isUnknownMethod(answer.body)
  }

  #settle(post: Post, answer: HttpAnswer, hasSession = false): void {
    const { id } = post
    const isForgotten = answer.status === 404 && post.hasSession && !hasSession
    if (answer.body !== '' && !isForgotten && !isAboutCredentials(answer)) {
      const message = answer.status < 400 ? answer.body : errorIn(answer.body, id)
      if (message !== undefined) this.#receiver.receive(message, id)
    }
    if (!this.#receiver.isWaiting(id)) return void this.#open.delete(id)
    const error = isForgotten ? forgotten() : this.#refusal(answer)
    if (answer.status === 202) this.#endWithout(post, answer, error)
    else this.#fail(id, error)
  }

  #fail(id: number, error: unknown): void {
    this.#open.delete(id)
    this.#receiver.reject(id, error)
  }

  /** Resumes a broken stream where it ended; the call itself is never sent again. */
  async #resume(post: Post, ended: HttpAnswer): Promise<void> {
    const { id } = post
    for (let attempt = 0; attempt < 5 && this.#receiver.isWaiting(id); attempt++) {
      const before = post.lastEventId
      const headers = { ...this.#streamHeaders(), 'last-event-id': before ?? '' }
      // Before the first attempt the stream may just have been closed for polling.
      const delay = backOff(attempt, post.retry)
      const answer = await exchangeHttp(this.#options.client, post.resumed(headers, delay)).catch(
        () => undefined,
      )
      if (answer && !answer.isEventStream) break
      if (post.lastEventId !== before) attempt = -1
    }
    if (this.#receiver.isWaiting(id)) this.#endWithout(post, ended, lost())
    else this.#open.delete(id)
  }

  #refusal(answer: HttpAnswer): GatewayError {
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

interface PostedRequest {
  readonly id: number
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  /** Whether it begins a session, so that there is no other stream yet. */
  readonly isHandshake: boolean
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
  readonly isHandshake: boolean
  /** The server's requested reconnection delay, in milliseconds. */
  retry = 250
  lastEventId: string | undefined
  readonly #listener: ExchangeListener

  constructor({ id, body, headers, isHandshake }: PostedRequest, listener: ExchangeListener) {
    this.id = id
    this.body = body
    this.headers = headers
    this.isHandshake = isHandshake
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

const PING = '{"jsonrpc":"2.0","id":"ping","method":"ping"}'

/** Whether a body is a JSON-RPC response to this request. */
function isAnswerTo(id: number, body: string): boolean {
  const value = readJson(body)
  return isObject(value) && value.id === id
}

/** Whether a body says that a method is unknown: its server knows the session. */
function isUnknownMethod(body: string): boolean {
  const value = readJson(body)
  return isObject(value) && isObject(value.error) && value.error.code === METHOD_NOT_FOUND
}

const METHOD_NOT_FOUND = -32601

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
