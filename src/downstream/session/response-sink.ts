/** Where the messages about one request of a client go; transports implement it. */
import type { Call, RateLimitReporter, Notification } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { encodeNotification } from '../../protocol/jsonrpc.ts'
import type { GatewayMetadata } from '../../protocol/meta-keys.ts'
import { lowerNote } from '../../protocol/projection.ts'
import type { Revision } from '../../protocol/revisions.ts'
import type { TraceContext } from '../../protocol/trace-context.ts'

/** Where the messages about one request of the client go. */
export interface ResponseSink extends RateLimitReporter {
  /** Names the request in logs and in errors. */
  readonly requestId: string
  /** Whose request it is, where its transport tells each time: what a caller may do changes with its token. */
  readonly principal?: Principal | undefined
  /** The trace context its transport carried. */
  readonly trace?: TraceContext | undefined
  /** The values for features its transport carried. */
  readonly gatewayMetadata?: GatewayMetadata | undefined
  /** A notification or a question, before the answer. */
  emit(message: string): void
  /** The answer will say this: over HTTP some calls that are refused before they are dispatched have their own status. */
  refuse?(error: GatewayError): void
  /** The answer, or nothing where none is wanted any more; with its code where it is an error. */
  end(message?: string, errorCode?: unknown): void
}

/** What belongs to one message of the client. */
export type MessageContext = Pick<ResponseSink, 'requestId' | 'principal' | 'trace' | 'gatewayMetadata'> &
  Pick<Call, 'emit' | 'rateLimitReporter'>

// Limits the rate of progress notifications. The latest one is always sent in the end.

/** How many progress notifications of a call may come at once, and how many more each second. */
const BURST_SIZE = 20
const RATE_PER_SECOND = 10

/** Passes the notes of one call on; of progress that comes too fast only the latest is kept. */
export class ProgressThrottle {
  readonly #emit: (note: Notification) => void
  #left = BURST_SIZE
  #since = 0
  #latest: Notification | undefined
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(emit: (note: Notification) => void) {
    this.#emit = emit
  }

  readonly emit = (note: Notification): void => {
    if (note.method !== 'notifications/progress') return this.#emit(note)
    if (this.#isOver) return
    this.#refill()
    if (this.#left < 1 || this.#timer) {
      this.#latest = note
      this.#timer ??= setTimeout(() => this.#next(), 1000 / RATE_PER_SECOND).unref()
      return
    }
    this.#left--
    this.#emit(note)
  }

  /** Sends what was kept; the answer comes next. */
  end(): void {
    if (this.#latest) this.#emit(this.#latest)
    this.stop()
  }

  /** No progress is sent any more. */
  stop(): void {
    clearTimeout(this.#timer)
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
    const now = performance.now()
    if (this.#since > 0)
      this.#left = Math.min(BURST_SIZE, this.#left + ((now - this.#since) / 1000) * RATE_PER_SECOND)
    this.#since = now
  }
}

/** Sends a notification in the words of a revision, if it has any for it. */
export function isReported(note: Notification, revision: Revision, send: (message: string) => void): void {
  const lowered = lowerNote(note, revision)
  if (lowered) send(encodeNotification(lowered.method, lowered.params))
}
