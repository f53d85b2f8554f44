/** Requests of this gateway to others: what they have in common, and those whose answer is read line by line. */
import type { Dispatcher } from 'undici'
import { MAX_MESSAGE_BYTES } from '../../../core/spool.ts'
import { lines } from '../../../protocol/lines.ts'
import { FORWARDED } from './envelope.ts'

/**
 * What became of a forwarded request: its client got the answer; the receiver does not own what it is about; it did not take
 * the request; or it is not known whether it did, because the connection broke, or the receiver ended or stopped.
 */
export type Forwarding = 'answered' | 'moved' | 'unreached' | 'lost'

/** Errors from before anything was sent. */
const unsent = new Set<unknown>([
  'ECONNREFUSED',
  'ENOENT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
])

/** What became of a request that failed before there was an answer. */
export function outcomeOf(error: Error): 'unreached' | 'lost' {
  return 'code' in error && unsent.has(error.code) ? 'unreached' : 'lost'
}

/** A request that can be given up before and after it is sent. */
export class HopRequest implements Dispatcher.DispatchHandler {
  #controller: Dispatcher.DispatchController | undefined
  #isAbandoned = false

  /** Closes the request: its answer is not awaited any more, or its receiver is gone. */
  abandon(): void {
    this.#isAbandoned = true
    this.#controller?.abort(new Error('abandoned'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isAbandoned) this.abandon()
  }
}

/** Receives an answer. */
export interface LineReceiver {
  line(text: string): void
  /** No more lines come. Called once. */
  ended(how: Forwarding): void
}

/** A request whose answer is read line by line. */
export class LineStream extends HopRequest {
  readonly #receiver: LineReceiver
  readonly #feed: (chunk: Buffer) => void
  #hasEnded = false
  #refusal: Forwarding | undefined

  constructor(receiver: LineReceiver) {
    super()
    this.#receiver = receiver
    const tooLong = (): void => this.abandon()
    this.#feed = lines(MAX_MESSAGE_BYTES, (line) => receiver.line(line), tooLong)
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    const own = headers[FORWARDED]
    if (own === 'moved') this.#refusal = 'moved'
    else if (own !== undefined || status !== 200) this.#refusal = 'unreached'
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#refusal) this.#feed(chunk)
  }

  onResponseEnd(): void {
    this.end(this.#refusal ?? 'answered')
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.end(outcomeOf(error))
  }

  /** Tells the receiver how it ended, unless it knows. */
  end(how: Forwarding): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#receiver.ended(how)
  }
}
