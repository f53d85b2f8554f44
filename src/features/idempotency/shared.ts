import type { Call, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Payload } from '../../core/payload.ts'
import { untilAborted } from '../../core/waiting.ts'
import type { Kept } from '../../records/calls.ts'
import type { Keyed } from './keyed.ts'

/** What a call came to for those who wait for it. */
export type Ended =
  | {
      readonly kind: 'result'
      readonly result: Payload
      readonly startedAt: number
      /** It is not remembered: nothing was done. */
      readonly isReleased?: true
      readonly isUnrecorded?: true
    }
  | { readonly kind: 'failed'; readonly error: unknown; readonly startedAt?: number }
  /** For the first caller alone; the others begin anew. */
  | { readonly kind: 'ask'; readonly outcome: Outcome }
  /** Another gateway has it, or had it. */
  | { readonly kind: 'found'; readonly kept: Kept }
  /** There is nothing to wait for. */
  | { readonly kind: 'over' }

/** How long a call goes on without anybody who waits for it, in milliseconds. */
const GRACE = 5000

/** A call under way, and everybody who waits for what comes of it. */
export class Shared {
  readonly keyed: Keyed
  readonly startedAt = Date.now()
  /** Resolved once it is over, what came of it written down. */
  readonly gone: Promise<void>
  readonly #first: Call
  readonly #controller = new AbortController()
  readonly #turn = Promise.withResolvers<Ended>()
  readonly #gone = Promise.withResolvers<void>()
  #waiting = 0
  #isFirstHere = false
  #hasEnded = false
  #timer: NodeJS.Timeout | undefined

  constructor(keyed: Keyed) {
    this.keyed = keyed
    this.#first = keyed.call
    this.gone = this.#gone.promise
  }

  /** Whether anybody waits. */
  get isWanted(): boolean {
    return this.#waiting > 0
  }

  /** The call that is made for all of them: it ends when none of them is left. Notes are for the first one alone. */
  get call(): Call {
    const { signal } = this.#controller
    return {
      ...this.#first,
      signal,
      abort: (reason) => this.#controller.abort(reason),
      emit: (note) => {
        if (this.#isFirstHere) this.#first.emit(note)
      },
    }
  }

  isFirst(call: Call): boolean {
    return call === this.#first
  }

  /** What it comes to. @throws the reason of the caller's signal, where that is aborted before */
  async wait(call: Call): Promise<Ended> {
    const isFirst = this.isFirst(call)
    this.#waiting++
    if (isFirst) this.#isFirstHere = true
    clearTimeout(this.#timer)
    try {
      return await untilAborted(this.#turn.promise, call.signal)
    } finally {
      if (isFirst) this.#isFirstHere = false
      if (--this.#waiting === 0 && !this.#hasEnded) this.#giveUpSoon(call.signal)
    }
  }

  /** Tells everybody. */
  end(ended: Ended): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.#turn.resolve(ended)
    // The server goes on for as long as the one who is asked can be heard of.
    const { signal } = this.#first
    if (ended.kind !== 'ask') return
    const stop = (): void => this.#controller.abort(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  }

  leave(): void {
    this.#gone.resolve()
  }

  #giveUpSoon({ reason }: AbortSignal): void {
    clearTimeout(this.#timer)
    const why =
      reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', 'Nobody waits for it.')
    this.#timer = setTimeout(() => this.#controller.abort(why), GRACE).unref()
  }
}
