/**
 * The response to one HTTP request: JSON, or an event stream from the first notification on. Keeps idle
 * streams alive, and disconnects clients that do not read. The events of sessions are buffered, within limits, for clients that
 * resume with `Last-Event-ID`.
 */
import type { ServerResponse } from 'node:http'
import { type ClientRequest, drained, type ResponseSink } from '../session/response-sink.ts'
import type { GatewayError } from '../../core/error.ts'
import type { RateLimitStatus } from '../../core/exchange.ts'
import { world } from '../../core/world.ts'
import { limitHeaders } from '../../protocol/headers.ts'
import { encodeEvent, encodePriming, keepAlive } from '../../protocol/sse.ts'
import { type Id, idOf } from '../../protocol/jsonrpc.ts'
import type { Ticker } from './edge.ts'
import { endLater } from './ending.ts'

interface Options {
  readonly ticker: Ticker
  /** The challenge to a caller that could get a token with the missing scope. */
  challenge?: ((error: GatewayError) => string | undefined) | undefined
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
  readonly request: ClientRequest
  readonly #outgoing: ServerResponse
  readonly #options: Options
  readonly #key: number
  readonly #since = world.now()
  #lastWrite = this.#since
  #isStream = false
  #isEnded = false
  #skipped: string | undefined
  #recorded: RecordedStream | undefined
  #headers: Record<string, string> | undefined
  #status: number | undefined
  #onCut: (() => void) | undefined

  constructor(outgoing: ServerResponse, request: ClientRequest, options: Options) {
    this.#outgoing = outgoing
    this.request = request
    this.#options = options
    this.#key = options.ticker.add(this)
  }

  get isStream(): boolean {
    return this.#isStream
  }

  /** Switches to an event stream. */
  open(): void {
    if (this.#isStream || this.#isEnded || this.#isAnsweredElsewhere) return
    this.#isStream = true
    this.#head(200, 'text/event-stream')
    const recorded = this.#options.record?.()
    this.#recorded = recorded
    if (recorded && this.#onCut) recorded.onCut = this.#onCut
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
      // Later progress supersedes this; the last one is sent once the stream takes more.
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
      this.#outgoing.writeHead(202, { 'x-request-id': this.request.requestId })
      this.#outgoing.end()
      return
    }
    const size = Buffer.byteLength(message)
    this.#outgoing.writeHead(this.#status ?? this.#options.statusOf?.(errorCode) ?? 200, {
      'content-type': 'application/json',
      'content-length': size,
      'x-request-id': this.request.requestId,
      ...this.#headers,
    })
    // As one string it is written together with the head, and plain ASCII needs no encoding.
    endLater(this.#outgoing, message, size === message.length ? 'latin1' : 'utf8')
  }

  /** Leaves the response to the process that answers the request. */
  release(): void {
    this.#isEnded = true
    this.#options.ticker.remove(this.#key)
  }

  isLost(): boolean {
    const { destroyed, writableFinished } = this.#outgoing
    if (this.#recorded?.isResumed === true) return this.#recorded.isUnread
    return destroyed && !writableFinished
  }

  onLost(listener: () => void): void {
    const report = (): void => {
      if (this.isLost()) listener()
    }
    this.#outgoing.once('close', report)
    this.#onCut = report
    if (this.#recorded) this.#recorded.onCut = report
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
    this.#lastWrite = world.now()
    this.#outgoing.write(text)
    return true
  }

  /** Ends the HTTP response. Later messages reach the client when it resumes the stream. */
  hangUp(): void {
    this.#outgoing.end()
  }

  tick(now: number): void {
    if (this.#isEnded || this.#outgoing.destroyed || this.#isAnsweredElsewhere) {
      this.#options.ticker.remove(this.#key)
      return
    }
    if (!this.#options.canStream) return
    const { maxHeadDelay, primes } = this.#options
    // After the head is sent, an error can no longer set the status.
    const patience = maxHeadDelay ?? (primes === true ? SLOW_CALL_MS : KEEP_ALIVE_INTERVAL_MS)
    if (!this.#isStream && now - this.#since > patience) this.open()
    if (this.#isStream && now - this.#lastWrite > KEEP_ALIVE_INTERVAL_MS) this.write(keepAlive)
  }

  /** Whether the request was refused before it was dispatched: a process that was stopped learns of both at once. */
  get #isAnsweredElsewhere(): boolean {
    return !this.#isStream && this.#outgoing.headersSent
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
      'x-request-id': this.request.requestId,
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

/** The connection of a stream's client. */
interface StreamSink {
  /** Writes text; returns whether the client was still connected. */
  write(text: string): boolean
  hangUp(): void
  /** Whether the connection has ended. */
  readonly isGone: boolean
  /** Resolves once the client has read what was written here, or is gone. */
  flushed(): Promise<void>
}

interface BufferedEvent {
  readonly sequence: number
  readonly message: string
}

/** The limits of the buffer of one session, in characters and in streams. */
const MAX_SIZE = 4 * 1024 * 1024
const MAX_STREAMS = 200
/** The longest id of a request that is part of event ids, in characters. */
const MAX_REQUEST_ID_LENGTH = 64
/** An event id: the stream, which has the id of its request, and the position in it. */
const EVENT_ID = /^(?<name>(?<beginning>[\da-f]+\.)?\d+(?:~(?<request>[\da-f]+))?)-(?<sequence>\d+)$/
/** How much a stream holds for a client that is away before the rest has to wait, in characters. */
const MAX_UNDELIVERED_SIZE = 1024 * 1024

/** What the buffers of all sessions may take together, in characters. */
interface SharedLimit {
  /** Whether so many more are within the limit. */
  fits(by: number): boolean
  change(by: number): void
}

const unlimited: SharedLimit = { fits: () => true, change: () => undefined }

/** The streams of one session, buffered so that a client can resume them (`Last-Event-ID`). */
export class Replay {
  readonly #streams = new Map<string, RecordedStream>()
  /** The stream for messages outside of any request. */
  readonly general: RecordedStream
  readonly #limit: SharedLimit
  #lastStream = 0
  readonly #beginning: string
  /** What is counted towards the shared limit. */
  #counted = 0

  /** `beginning` is that of all event ids: a session that continues has another one than it had before. */
  constructor(limit = unlimited, beginning = '') {
    this.#limit = limit
    this.#beginning = beginning
    this.general = this.#create(`${beginning}0`)
  }

  /** Creates a stream for one request, or for several without an id. */
  record(request?: Id): RecordedStream {
    const isShort = request !== undefined && request.length <= MAX_REQUEST_ID_LENGTH
    const suffix = isShort ? `~${Buffer.from(request).toString('hex')}` : ''
    return this.#create(`${this.#beginning}${++this.#lastStream}${suffix}`)
  }

  /** The stream of an event id, and the position after it; undefined if it is no longer buffered. */
  find(eventId: string): { stream: RecordedStream; after: number } | undefined {
    const { name, sequence } = EVENT_ID.exec(eventId)?.groups ?? {}
    const stream = name === undefined ? undefined : this.#streams.get(name)
    return stream && { stream, after: Number(sequence) }
  }

  /** The request of an event id from before the session continued here: it is not answered on any stream. */
  lostRequest(eventId: string): Id | undefined {
    const { beginning = '', request } = EVENT_ID.exec(eventId)?.groups ?? {}
    if (request === undefined || beginning === this.#beginning) return undefined
    const id = Buffer.from(request, 'hex').toString()
    return id !== 'null' && idOf(`{"id":${id}}`) === id ? id : undefined
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.hangUp()
    this.#streams.clear()
    this.#count(0)
  }

  #create(name: string): RecordedStream {
    const stream = new RecordedStream(name, () => this.#trim())
    this.#streams.set(name, stream)
    return stream
  }

  /** Evicts the oldest first: whole finished streams, then events. */
  #trim(): void {
    let size = 0
    for (const stream of this.#streams.values()) size += stream.size
    const maxSize = this.#limit.fits(size - this.#counted) ? MAX_SIZE : Math.min(MAX_SIZE, this.#counted)
    for (const [name, stream] of this.#streams) {
      if (size <= maxSize && this.#streams.size <= MAX_STREAMS) break
      if (!stream.isFinished) continue
      size -= stream.size
      this.#streams.delete(name)
    }
    for (const stream of this.#streams.values()) {
      while (size > maxSize && stream.size > 0) size -= stream.forget()
    }
    this.#count(size)
  }

  #count(size: number): void {
    if (size !== this.#counted) this.#limit.change(size - this.#counted)
    this.#counted = size
  }
}

/** One stream of events, with the connection that reads it, if any. */
class RecordedStream {
  readonly #name: string
  readonly #onGrow: () => void
  #buffered: BufferedEvent[] = []
  #sequence = 0
  #size = 0
  #outlet: StreamSink | undefined
  #isFinished = false
  #delivered = 0
  #isResumed = false
  /** Called when the connection of a client that resumed it has ended. */
  onCut: (() => void) | undefined
  /** Resolved when a client attaches, or the stream is finished. */
  #change: PromiseWithResolvers<void> | undefined

  constructor(name: string, onGrow: () => void) {
    this.#name = name
    this.#onGrow = onGrow
  }

  get size(): number {
    return this.#size
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  get hasOutlet(): boolean {
    return this.#outlet !== undefined
  }

  /** Whether a client came back to read it. */
  get isResumed(): boolean {
    return this.#isResumed
  }

  /** Whether no client reads it, and none has read it to its end. */
  get isUnread(): boolean {
    if (this.#isFinished && this.#delivered === this.#sequence) return false
    return this.#outlet?.isGone !== false
  }

  /** The id of the latest event. */
  get lastId(): string {
    return `${this.#name}-${this.#sequence}`
  }

  add(message: string): void {
    const event = { sequence: ++this.#sequence, message }
    this.#buffered.push(event)
    this.#size += message.length
    if (this.#outlet) this.#deliver(this.#outlet, event)
    this.#onGrow()
  }

  /** Replaces the connection. */
  attach(outlet: StreamSink): void {
    if (this.#outlet && this.#outlet !== outlet) this.#outlet.hangUp()
    this.#outlet = outlet
    this.#wake()
  }

  /** Resolves once the client has read the events, or those that wait for it are few enough to be kept. */
  async drained(): Promise<void> {
    while (!this.#isFinished) {
      const outlet = this.#outlet
      if (outlet) {
        await outlet.flushed()
        if (!outlet.isGone) return
        this.detach(outlet)
      } else if (this.#undelivered() <= MAX_UNDELIVERED_SIZE) return
      else await (this.#change ??= Promise.withResolvers<void>()).promise
    }
  }

  /** Sends the events after an event, or all undelivered ones, and continues from there. */
  resume(outlet: StreamSink, after = this.#delivered): void {
    this.#isResumed = true
    this.attach(outlet)
    for (const event of this.#buffered) if (event.sequence > after) this.#deliver(outlet, event)
    if (this.#isFinished) this.hangUp()
  }

  detach(outlet: StreamSink): void {
    if (this.#outlet !== outlet) return
    this.#outlet = undefined
    if (this.#isResumed) this.onCut?.()
  }

  /** Ends the stream. */
  finish(): void {
    this.#isFinished = true
    this.#wake()
    if (this.#outlet) this.hangUp()
  }

  hangUp(): void {
    this.#outlet?.hangUp()
    this.#outlet = undefined
  }

  /** Evicts the oldest event; returns its size. */
  forget(): number {
    const size = this.#buffered.shift()?.message.length ?? 0
    this.#size -= size
    return size
  }

  #undelivered(): number {
    let size = 0
    for (const { sequence, message } of this.#buffered) if (sequence > this.#delivered) size += message.length
    return size
  }

  #wake(): void {
    this.#change?.resolve()
    this.#change = undefined
  }

  #deliver(outlet: StreamSink, { sequence, message }: BufferedEvent): void {
    if (outlet.write(encodeEvent(message, `${this.#name}-${sequence}`))) this.#delivered = sequence
    else this.detach(outlet)
  }
}
