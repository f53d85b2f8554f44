/** An in-flight keyed call and its waiting callers. It goes on for a while without any of them. */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { MAX_TIMER_MS, untilAborted } from '../../core/time/waiting.ts'
import type { Completion } from './completion.ts'
import type { KeyedRequest } from './keyed-request.ts'

/** How long a call continues without a waiting caller, in milliseconds. */
const ORPHAN_GRACE_MS = 5000
/** How long what does the call may take to end once it was aborted, in milliseconds. */
const ABORT_TIMEOUT_MS = 1000

/**
 * An in-flight call and the callers coalesced onto it. It ends by itself, when no caller waits, or when it
 * has taken as long as a call may, whoever waits.
 */
export class InFlightCall {
  readonly keyed: KeyedRequest
  readonly startedAt = Date.now()
  /** Resolved once it is over, what came of it written down. */
  readonly gone: Promise<void>
  readonly #first: Call
  readonly #controller = new AbortController()
  readonly #turn = Promise.withResolvers<Completion>()
  readonly #gone = Promise.withResolvers<void>()
  readonly #stuck = Promise.withResolvers<never>()
  #waiting = 0
  #isFirstHere = false
  #hasEnded = false
  #timer: NodeJS.Timeout | undefined
  #total = Number.POSITIVE_INFINITY
  #resting = 0
  #deadline: NodeJS.Timeout | undefined
  #isOverdue = false

  constructor(keyed: KeyedRequest) {
    this.keyed = keyed
    this.#first = keyed.call
    this.gone = this.#gone.promise
    this.#stuck.promise.catch(() => undefined)
  }

  /** Whether any caller waits. */
  get isWanted(): boolean {
    return this.#waiting > 0
  }

  /** Whether it was ended as it took longer than a call may. */
  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** The call that is made for all of them. Notes are for the first one alone. */
  get call(): Call {
    const { signal } = this.#controller
    return {
      ...this.#first,
      signal,
      abort: (reason) => this.#abort(reason),
      pauseDeadline: () => this.#rest(),
      emit: (note) => {
        if (this.#isFirstHere) this.#first.emit(note)
      },
    }
  }

  /** A call to look something up with for all of them, which may be done when theirs was ended. */
  get afterwards(): Call {
    const controller = new AbortController()
    const { signal } = controller
    return { ...this.#first, signal, abort: (reason) => controller.abort(reason), emit: () => undefined }
  }

  /** What the call comes to; it takes so many milliseconds at most. @throws what it throws, or why it was ended */
  async within<Value>(total: number, make: (call: Call) => Promise<Value>): Promise<Value> {
    this.#total = total
    this.#start()
    try {
      return await Promise.race([make(this.call), this.#stuck.promise])
    } finally {
      clearTimeout(this.#deadline)
      this.#total = Number.POSITIVE_INFINITY
    }
  }

  isFirst(call: Call): boolean {
    return call === this.#first
  }

  /** What it comes to. @throws the reason of the caller's signal, where that is aborted before */
  async wait(call: Call): Promise<Completion> {
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

  /** Delivers the completion to all waiting callers. */
  end(ended: Completion): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.#turn.resolve(ended)
    // The server goes on for as long as the one who is asked can be heard of.
    const { signal } = this.#first
    if (ended.kind !== 'input_required') return
    const stop = (): void => this.#abort(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  }

  leave(): void {
    this.#gone.resolve()
  }

  #giveUpSoon({ reason }: AbortSignal): void {
    clearTimeout(this.#timer)
    const why =
      reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', 'No caller waits for it.')
    this.#timer = setTimeout(() => this.#abort(why), ORPHAN_GRACE_MS).unref()
  }

  /** What makes the call ends with it; if it does not, that is not awaited. */
  #abort(reason: unknown): void {
    this.#controller.abort(reason)
    setTimeout(() => this.#stuck.reject(reason), ABORT_TIMEOUT_MS).unref()
  }

  #start(): void {
    clearTimeout(this.#deadline)
    if (this.#resting > 0 || this.#total > MAX_TIMER_MS) return
    this.#deadline = setTimeout(() => {
      this.#isOverdue = true
      this.#abort(tooLong(this.#total))
    }, this.#total).unref()
  }

  /** Stops the clock while a person is waited for; the time begins anew after that. */
  #rest(): () => void {
    const first = this.#first.pauseDeadline?.()
    this.#resting++
    clearTimeout(this.#deadline)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      first?.()
      this.#resting--
      this.#start()
    }
  }
}

function tooLong(total: number): GatewayError {
  return new GatewayError('OPERATION_TIMEOUT', `The server did not answer within ${total / 1000} s.`)
}
