/** The destination of messages about one request of a client; transports implement it. */
import type { Writable } from 'node:stream'
import { type Timer, world } from '../../core/world.ts'
import type { Call, Notification } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { RateLimitReporter } from '../../core/exchange.ts'
import type { AnswerDelivery } from '../../core/slot.ts'
import type { Principal } from '../../core/principal.ts'
import { encodeNotification } from '../../protocol/jsonrpc.ts'
import type { RequestFacts } from '../../protocol/lift.ts'
import { PROGRESS } from '../../protocol/methods.ts'
import { lowerNote } from '../../protocol/projection.ts'
import type { Revision } from '../../core/revisions.ts'

/** What the transport knows of a request of the client. */
export interface ClientRequest extends RequestFacts {
  /** The principal, if the transport authenticates each request: permissions change with the token. */
  readonly principal?: Principal | undefined
}

/** The destination of messages about one request of the client. */
export interface ResponseSink extends RateLimitReporter, Partial<AnswerDelivery> {
  readonly request: ClientRequest
  /** Sends a notification or a request, before the response. Only progress that need not arrive may be skipped. */
  emit(message: string, mustArrive?: boolean): void
  /** Resolves once the client has read what was sent, or is gone; absent if the transport cannot tell. */
  drained?(): Promise<void>
  /** Announces the error code of the response: over HTTP, some errors from before the dispatch have their own status. */
  refuse?(error: GatewayError): void
  /** Sends the response, or nothing if none is expected any more; `code` is set for an error. */
  end(message?: string, errorCode?: unknown): void
}

/** The context of one message of the client. */
export type MessageContext = ClientRequest &
  Pick<Call, 'emit' | 'drained'> & {
    readonly rateLimitReporter?: RateLimitReporter | undefined
    /** Keeps the call from ending with its request. */
    readonly retain?: (() => void) | undefined
    /** What becomes of the answer. */
    readonly delivery?: AnswerDelivery | undefined
  }

/** What a call gets of a sink that can tell when it is drained. */
export function drainOf(sink: ResponseSink): Pick<ResponseSink, 'drained'> {
  return sink.drained ? { drained: async () => sink.drained?.() } : {}
}

/** Resolves once a stream takes more, or is closed. */
export function drained(output: Writable): Promise<void> {
  if (output.destroyed || !output.writableNeedDrain) return Promise.resolve()
  return new Promise((resolve) => {
    const end = (): void => {
      output.off('drain', end)
      output.off('close', end)
      resolve()
    }
    output.on('drain', end)
    output.on('close', end)
  })
}

// Limits the rate of progress notifications. The latest one is always sent.

/** The burst of progress notifications of a call, and the rate per second. */
const BURST_SIZE = 10
const RATE_PER_SECOND = 10

/** Forwards the notifications of one call; of progress above the rate, only the latest and what must arrive is sent. */
export class ProgressThrottle {
  readonly #emit: (note: Notification) => void
  #left = BURST_SIZE
  #since = 0
  #latest: Notification | undefined
  #timer: Timer | undefined
  #isOver = false

  constructor(emit: (note: Notification) => void) {
    this.#emit = emit
  }

  readonly emit = (note: Notification): void => {
    if (note.method !== PROGRESS) return this.#emit(note)
    if (this.#isOver) return
    if (note.mustArrive) {
      // Its value is larger than the pending one's.
      this.#latest = undefined
      return this.#emit(note)
    }
    this.#refill()
    if (this.#left < 1 || this.#timer) {
      this.#latest = note
      this.#timer ??= world.setTimeout(() => this.#next(), 1000 / RATE_PER_SECOND).unref()
      return
    }
    this.#left--
    this.#emit(note)
  }

  /** Sends the pending progress notification before the response. */
  end(): void {
    if (this.#latest) this.#emit(this.#latest)
    this.stop()
  }

  /** Stops: no more progress is sent. */
  stop(): void {
    world.clearTimeout(this.#timer)
    this.#latest = undefined
    this.#isOver = true
  }

  #next(): void {
    this.#timer = undefined
    const note = this.#latest
    this.#latest = undefined
    this.#refill()
    this.#left = Math.max(0, this.#left - 1)
    if (note) this.#emit(note)
  }

  #refill(): void {
    const now = world.monotonic()
    if (this.#since > 0)
      this.#left = Math.min(BURST_SIZE, this.#left + ((now - this.#since) / 1000) * RATE_PER_SECOND)
    this.#since = now
  }
}

/** Sends a notification in the format of a revision, if that revision has it. */
export function isReported(
  note: Notification,
  revision: Revision,
  send: (message: string, mustArrive?: boolean) => void,
): void {
  const lowered = lowerNote(note, revision)
  if (lowered) send(encodeNotification(lowered.method, lowered.params), lowered.mustArrive)
}
