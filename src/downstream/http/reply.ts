/**
 * The response to one HTTP request: JSON, or an event stream from the first notification on. Keeps idle
 * streams alive, and disconnects clients that do not read.
 */
import type { ServerResponse } from 'node:http'
import { drained, type ResponseSink } from '../session/response-sink.ts'
import type { Call, RateLimitStatus } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { ClientPeer } from '../../core/exchange.ts'
import type { Principal } from '../../core/principal.ts'
import { limitHeaders } from '../../protocol/headers.ts'
import { encodeEvent, encodePriming, keepAlive } from '../../protocol/sse.ts'
import type { GatewayMetadata } from '../../protocol/meta-keys.ts'
import type { TraceContext } from '../../protocol/trace-context.ts'
import type { StreamSink, RecordedStream } from './replay.ts'
import type { Ticker } from './ticker.ts'

interface Options {
  readonly requestId: string
  readonly ticker: Ticker
  /** The principal of the request. */
  readonly principal?: Principal | undefined
  /** Its caller with its present rights. */
  readonly presentCaller?: Call['presentCaller'] | undefined
  /** The challenge to a caller that could get a token with the missing scope. */
  challenge?: ((error: GatewayError) => string | undefined) | undefined
  /** The request, for its connection. */
  readonly peer?: ClientPeer | undefined
  /** The trace context of the request's headers. */
  readonly trace?: TraceContext | undefined
  /** The values for features in the request's headers. */
  readonly gatewayMetadata?: GatewayMetadata | undefined
  /** Whether the client reads event streams. */
  readonly canStream: boolean
  /** Starts buffering events for a client that resumes; absent if the revision has no resumption. */
  record?(): RecordedStream
  /** Whether the stream may start with an event without data. */
  readonly primes?: boolean
  /** The HTTP status of a response by its error code; 200 if absent. */
  statusOf?(errorCode: unknown): number
  /** How long to wait for a first message before the head is sent, in milliseconds. */
  readonly maxHeadDelay?: number
  /** Called when the client does not read. */
  onSlow(): void
}

/** How much output may be buffered before progress is skipped, and before the call is aborted, in bytes. */
const MAX_BUFFERED_PROGRESS_BYTES = 256 * 1024
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024
/** After this time, a pending response becomes a resumable stream, in milliseconds. */
const SLOW_CALL_MS = 1000
/** The keep-alive interval of an idle stream, in milliseconds. */
const KEEP_ALIVE_INTERVAL_MS = 15_000

/** One HTTP response: JSON, or an event stream once a message must be sent before the response. */
export class HttpReply implements ResponseSink, StreamSink {
  readonly #outgoing: ServerResponse
  readonly #options: Options
  readonly #key: number
  readonly #since = Date.now()
  #lastWrite = this.#since
  #isStream = false
  #isEnded = false
  #skipped: string | undefined
  #recorded: RecordedStream | undefined
  #headers: Record<string, string> | undefined
  #status: number | undefined

  constructor(outgoing: ServerResponse, options: Options) {
    this.#outgoing = outgoing
    this.#options = options
    this.#key = options.ticker.add(this)
  }

  get requestId(): string {
    return this.#options.requestId
  }

  get peer(): ClientPeer | undefined {
    return this.#options.peer
  }

  get principal(): Principal | undefined {
    return this.#options.principal
  }

  get presentCaller(): Call['presentCaller'] {
    return this.#options.presentCaller
  }

  get trace(): TraceContext | undefined {
    return this.#options.trace
  }

  get gatewayMetadata(): GatewayMetadata | undefined {
    return this.#options.gatewayMetadata
  }

  get isStream(): boolean {
    return this.#isStream
  }

  /** Switches to an event stream. */
  open(): void {
    if (this.#isStream || this.#isEnded) return
    this.#isStream = true
    this.#head(200, 'text/event-stream')
    const recorded = this.#options.record?.()
    this.#recorded = recorded
    recorded?.attach(this)
    if (this.#options.primes && recorded) this.write(encodePriming(recorded.lastId))
    else this.#outgoing.flushHeaders()
  }

  reportRateLimit(standing: RateLimitStatus): void {
    this.#headers = { ...this.#headers, ...limitHeaders(standing) }
  }

  refuse(error: GatewayError): void {
    const challenge = this.#options.challenge?.(error)
    if (challenge !== undefined) this.#header('www-authenticate', challenge)
    this.#status = challenge === undefined ? error.extra.status : error.httpStatus
    if (this.#status === undefined) return
    const wait = error.data.retry_after_seconds
    if (typeof wait === 'number') this.#header('retry-after', String(wait))
  }

  emit(message: string, mustArrive?: boolean): void {
    if (this.#isEnded || !this.#options.canStream) return
    this.open()
    const isSkippable = mustArrive !== true && isProgress(message)
    if (mustArrive === true) this.#skipped = undefined
    if (isSkippable && this.#outgoing.writableLength > MAX_BUFFERED_PROGRESS_BYTES) {
      // Later progress supersedes this; the last one is sent once there is room.
      if (this.#skipped === undefined) this.#outgoing.once('drain', () => this.#catchUp())
      this.#skipped = message
      return
    }
    this.#event(message)
  }

  end(message?: string, errorCode?: unknown): void {
    if (this.#isEnded) return
    if (this.#isStream) {
      this.#catchUp()
      if (message !== undefined) this.#event(message)
      this.#isEnded = true
      this.#recorded?.finish()
      this.#outgoing.end()
      return
    }
    this.#isEnded = true
    this.#options.ticker.remove(this.#key)
    if (message === undefined) {
      this.#outgoing.writeHead(202, { 'x-request-id': this.#options.requestId })
      this.#outgoing.end()
      return
    }
    const size = Buffer.byteLength(message)
    this.#outgoing.writeHead(this.#status ?? this.#options.statusOf?.(errorCode) ?? 200, {
      'content-type': 'application/json',
      'content-length': size,
      'x-request-id': this.#options.requestId,
      ...this.#headers,
    })
    // As one string it is written together with the head, and plain ASCII needs no encoding.
    this.#outgoing.end(message, size === message.length ? 'latin1' : 'utf8')
  }

  get isGone(): boolean {
    return this.#outgoing.destroyed || this.#outgoing.writableEnded
  }

  drained(): Promise<void> {
    if (this.#isEnded) return Promise.resolve()
    // A stream that was resumed is read from another response.
    return this.#recorded ? this.#recorded.drained() : this.flushed()
  }

  flushed(): Promise<void> {
    return drained(this.#outgoing)
  }

  /** Writes encoded events. One message may be as large as it is: a client is slow if it has not read earlier ones. */
  write(text: string): boolean {
    if (this.isGone) return false
    if (this.#outgoing.writableLength > MAX_BUFFERED_BYTES) {
      this.#options.onSlow()
      this.#outgoing.destroy()
      return false
    }
    this.#lastWrite = Date.now()
    this.#outgoing.write(text)
    return true
  }

  /** Ends the HTTP response. Later messages reach the client when it resumes the stream. */
  hangUp(): void {
    this.#outgoing.end()
  }

  tick(now: number): void {
    if (this.#isEnded || this.#outgoing.destroyed) this.#options.ticker.remove(this.#key)
    if (this.#isEnded || !this.#options.canStream) return
    const { maxHeadDelay, primes } = this.#options
    // After the head is sent, an error can no longer set the status.
    const patience = maxHeadDelay ?? (primes === true ? SLOW_CALL_MS : KEEP_ALIVE_INTERVAL_MS)
    if (!this.#isStream && now - this.#since > patience) this.open()
    if (this.#isStream && now - this.#lastWrite > KEEP_ALIVE_INTERVAL_MS) this.write(keepAlive)
  }

  #header(name: string, value: string): void {
    this.#headers = { ...this.#headers, [name]: value }
  }

  #event(message: string): void {
    if (this.#recorded) this.#recorded.add(message)
    else this.write(encodeEvent(message))
  }

  #catchUp(): void {
    const message = this.#skipped
    this.#skipped = undefined
    if (message !== undefined && !this.#isEnded) this.#event(message)
  }

  #head(status: number, type: string): void {
    this.#outgoing.writeHead(status, {
      'content-type': type,
      'x-request-id': this.#options.requestId,
      'cache-control': 'no-cache, no-transform',
      // Buffering proxies would delay events.
      'x-accel-buffering': 'no',
      ...this.#headers,
    })
  }
}

function isProgress(message: string): boolean {
  return message.startsWith('{"jsonrpc":"2.0","method":"notifications/progress"')
}
