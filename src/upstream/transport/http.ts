/** Streamable HTTP to a server: posts, their streams and resumption, the session, and its standalone stream. */
import { responseLost } from '../failures.ts'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { Registry } from '../../core/registry.ts'
import type { Spool } from '../../core/spool.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { pause } from '../../core/time/waiting.ts'
import { retryAfterSeconds } from '../../core/time/units.ts'
import type { OutgoingRequest } from '../../protocol/json-rpc-peer.ts'
import { findRevision } from '../../core/revisions.ts'
import type { ServerEvent } from '../../protocol/sse.ts'
import { delayBefore, reopening } from '../../core/time/backoff.ts'
import { isAboutCredentials, type HttpAnswer, type HttpRequest } from './auth-retry.ts'
import {
  baseHeaders,
  exchangeHttp,
  type HttpClient,
  startHttp,
  errorIn,
  noMessage,
  LOST,
} from './http-client.ts'
import type { OpenTransportAs, UpstreamTransport, TransportReceiver, StepTimeout } from './transport.ts'
import { world } from '../../core/world.ts'

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
      else this.#endWithout(post, answer, responseLost(LOST))
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
      const delay = delayBefore(attempt, reopening(post.retry))
      const answer = await exchangeHttp(this.#options.client, post.resumed(headers, delay)).catch(
        () => undefined,
      )
      if (answer && !answer.isEventStream) break
      if (post.lastEventId !== before) attempt = -1
    }
    if (this.#receiver.isWaiting(id)) this.#endWithout(post, ended, responseLost(LOST))
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

/*
 * The standalone stream of a session over Streamable HTTP, for messages outside the stream of any request; opened again when
 * it ends.
 *
 * Invariant: a refusal of this stream says that there is none. That the session is lost is shown by a post that is refused
 * too. Each way back is longer than the one before, up to a limit, and there are only so many: streams that end at once,
 * servers that fail, and sessions that are lost again and again come to an end.
 */

interface StreamSession {
  readonly client: HttpClient
  headers(): Record<string, string>
  onMessage(text: string): void
  /** Whether posts of the session are refused too. */
  isLost(): Promise<boolean>
  /** Called when the server no longer knows the session. */
  onLost(): void
  /** Called when the stream has ended, or was refused, and is not opened again in this session. */
  onEnd(): void
  readonly log: Log
}

/**
 * How long the first call waits for this stream, in milliseconds. Some servers send no headers before the first event.
 */
const OPEN_TIMEOUT_MS = 200
/** How often in succession the stream is opened without success, or a session is lost that had none. */
const MAX_FAILURES = 8
/**
 * How long a stream lasts that did not end at once, in milliseconds. Those that do are opened again later each time, up to
 * this delay, also if they carry events.
 */
const LASTING_MS = 5000
/** The delay before the stream is opened again, unless the server names another one, in milliseconds. */
const RETRY_MS = 1000

/** What became of one run of the stream. */
interface Run {
  /** 0 without a response. */
  readonly status: number
  readonly isStream: boolean
  readonly isLasting: boolean
  /** Whether it lasted, or carried a message or an id from which it can be resumed. */
  readonly isSound: boolean
}

/** The standalone stream of one session after the other. */
class ServerStream {
  readonly #options: StreamSession
  #session = new AbortController()
  #abort: (() => void) | undefined
  #lastEventId: string | undefined
  #retry = RETRY_MS
  /** Sessions that were lost in succession without a stream that was sound. */
  #losses = 0
  #isOpen = false

  constructor(options: StreamSession) {
    this.#options = options
  }

  /** Whether messages may come: it is open, or being opened. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /**
   * Opens the stream of the current session instead of the one before; resolves when the server has accepted or refused it,
   * or after a timeout.
   */
  async open(): Promise<void> {
    this.close()
    this.#session = new AbortController()
    this.#lastEventId = undefined
    this.#isOpen = true
    const { signal } = this.#session
    const first = Promise.withResolvers<void>()
    const run = this.#run(signal, first.resolve).finally(() => {
      first.resolve()
      if (!signal.aborted) this.#end()
    })
    background(run, this.#options.log)
    await Promise.race([first.promise, pause(OPEN_TIMEOUT_MS, signal).catch(() => undefined)])
  }

  close(): void {
    this.#session.abort()
    this.#abort?.()
    this.#isOpen = false
  }

  #end(): void {
    this.#isOpen = false
    this.#options.onEnd()
  }

  async #run(signal: AbortSignal, onHead: () => void): Promise<void> {
    let failures = 0
    let short = 0
    while (!signal.aborted && failures <= MAX_FAILURES) {
      const { status, isStream, isLasting, isSound } = await this.#once(signal, onHead)
      if (signal.aborted) return
      if (isSound) this.#losses = 0
      if (isRefused(status)) {
        if (await this.#options.isLost()) return this.#lost(signal)
        // The server may only have lost the id of the event.
        if (this.#lastEventId === undefined) return
        this.#lastEventId = undefined
      } else if (!isStream && !isPassing(status)) return
      failures = isSound ? 0 : failures + 1
      short = isSound && !isLasting ? short + 1 : 0
      const delay = delayBefore(failures, reopening(this.#retry))
      const later = Math.min(delayBefore(Math.max(short - 1, 0), reopening(this.#retry)), LASTING_MS)
      await pause(Math.max(delay, later), signal).catch(() => undefined)
    }
  }

  /** The first loss is repaired at once: a server that started again has forgotten its sessions. */
  async #lost(signal: AbortSignal): Promise<void> {
    if (++this.#losses > MAX_FAILURES) return
    if (this.#losses > 1)
      await pause(delayBefore(this.#losses, reopening(RETRY_MS)), signal).catch(() => undefined)
    if (signal.aborted) return
    this.#end()
    this.#session.abort()
    this.#options.onLost()
  }

  /** One run of the stream, until it ends. */
  async #once(signal: AbortSignal, onHead: () => void): Promise<Run> {
    const { client, headers, onMessage } = this.#options
    const resume = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }
    const startedAt = world.monotonic()
    let isUseful = false
    try {
      const { status, isEventStream } = await exchangeHttp(client, {
        method: 'GET',
        headers: { ...baseHeaders(client, 'GET'), ...headers(), ...resume },
        onHead,
        onAbortable: (abort) => {
          if (signal.aborted) return abort()
          this.#abort = abort
        },
        onRetry: (milliseconds) => {
          this.#retry = milliseconds
        },
        onEvent: (event) => {
          if (event.id !== undefined || isJson(event.data)) isUseful = true
          if (event.id !== undefined) this.#lastEventId = event.id
          if (event.data !== '') onMessage(event.data)
        },
      })
      const isLasting = isEventStream && world.monotonic() - startedAt >= LASTING_MS
      return { status, isStream: isEventStream, isLasting, isSound: isLasting || isUseful }
    } catch {
      return { status: 0, isStream: false, isLasting: false, isSound: false }
    }
  }
}

function isJson(text: string): boolean {
  return /^\s*[{[]/.test(text)
}

/** Whether a session may be lost: 404 says so (2025-11-25 basic/transports), and some servers answer 400. */
function isRefused(status: number): boolean {
  return status === 404 || status === 400
}

/** Whether a refusal may pass: there is no answer, an earlier stream is still open, or the server is busy or failing. */
function isPassing(status: number): boolean {
  return [0, 408, 409, 425, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505)
}

// HTTP+SSE (2024-11-05) to a server.

/**
 * Connects to a server of 2024-11-05 over HTTP+SSE: one stream for everything it sends, and posts for messages to it.
 */
export function sseConnect(base: HttpClient, stepTimeout: StepTimeout): OpenTransportAs {
  return async (receiver, login = base.login) => {
    const client = { ...base, login }
    const endpoint = Promise.withResolvers<string>()
    let abort = (): void => undefined
    const signal = stepTimeout()
    const giveUp = (): void => {
      const late = new GatewayError('SERVER_UNAVAILABLE', 'The server did not send an endpoint in time.')
      endpoint.reject(signal.reason instanceof GatewayError ? signal.reason : late)
      abort()
    }
    signal.addEventListener('abort', giveUp)
    const stream = exchangeHttp(client, {
      method: 'GET',
      headers: baseHeaders(client, 'GET'),
      onAbortable: (given) => {
        abort = given
      },
      onHead: (answer) => {
        if (!answer.isEventStream) endpoint.reject(noMessage(answer, client.url))
      },
      spool: () => receiver.spool(),
      onEvent: ({ event, data }) => {
        if (event === 'endpoint') endpoint.resolve(data)
        else if (data !== '') receiver.receive(data)
      },
    })
    const ended = (): void => {
      endpoint.reject(
        new GatewayError('SERVER_UNAVAILABLE', 'The server closed its stream before it sent an endpoint.'),
      )
      receiver.closed(new Error("The server's stream ended."))
    }
    stream.then(ended, (error: unknown) => {
      endpoint.reject(error)
      receiver.closed(new Error("The server's stream was interrupted."))
    })
    if (signal.aborted) giveUp()
    const path = await endpoint.promise.finally(() => signal.removeEventListener('abort', giveUp))
    return new SseTransport(client, postPath(client.url, path), () => abort())
  }
}

class SseTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #client: HttpClient
  readonly #path: string
  readonly #abort: () => void

  constructor(client: HttpClient, path: string, abort: () => void) {
    this.#client = client
    this.#path = path
    this.#abort = abort
  }

  async send(message: string, { headers }: OutgoingRequest): Promise<void> {
    const answer = await exchangeHttp(this.#client, {
      method: 'POST',
      headers: { ...baseHeaders(this.#client, 'POST'), ...headers },
      body: message,
      path: this.#path,
    })
    if (answer.status >= 300) throw noMessage(answer, this.#client.url)
  }

  async close(): Promise<void> {
    this.#abort()
  }
}

/** The path for posts. They carry credentials, so another origin is refused. @throws UPSTREAM_ERROR */
function postPath(url: URL, endpoint: string): string {
  const target = URL.canParse(endpoint, url.href) ? new URL(endpoint, url) : undefined
  if (target?.origin !== url.origin) {
    throw new GatewayError('UPSTREAM_ERROR', 'The server sent an endpoint on another origin.')
  }
  return target.pathname + target.search
}
