/** The answer of another gateway to a request of this one, line by line. */
import type { Dispatcher } from 'undici'
import { MAX_MESSAGE_BYTES } from '../../../core/spool.ts'
import { lines } from '../../../protocol/lines.ts'
import { FORWARDED } from './envelope.ts'

/** Receives an answer. */
export interface LineReceiver {
  line(text: string): void
  /** No more lines come. Called once. */
  ended(how: LineEnd): void
}

/** How an answer ended: it is whole; the receiver does not have what it is about; it did not take the request; or that is not known. */
export type LineEnd = 'answered' | 'moved' | 'unreached' | 'lost'

/** Errors from before anything was sent. */
export const unsent = new Set<unknown>([
  'ECONNREFUSED',
  'ENOENT',
  'UND_ERR_CONNECT_TIMEOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
])

export class LineStream implements Dispatcher.DispatchHandler {
  readonly #receiver: LineReceiver
  readonly #feed: (chunk: Buffer) => void
  #controller: Dispatcher.DispatchController | undefined
  #isAbandoned = false
  #hasEnded = false
  #refusal: LineEnd | undefined

  constructor(receiver: LineReceiver) {
    this.#receiver = receiver
    const tooLong = (): void => this.abandon()
    this.#feed = lines(MAX_MESSAGE_BYTES, (line) => receiver.line(line), tooLong)
  }

  /** Closes the request: nobody waits for it, or its receiver is gone. */
  abandon(): void {
    this.#isAbandoned = true
    this.#controller?.abort(new Error('abandoned'))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#isAbandoned) this.abandon()
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
    this.end('code' in error && unsent.has(error.code) ? 'unreached' : 'lost')
  }

  /** Tells the receiver how it ended, unless it knows. */
  end(how: LineEnd): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#receiver.ended(how)
  }
}
