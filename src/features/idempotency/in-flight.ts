/** An in-flight keyed call and its waiting callers. It continues for a while without any of them. */
import { type Timer, world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { deadlineSlot } from '../../core/lasting-call.ts'
import { GatewayError } from '../../core/error.ts'
import { MAX_TIMER_MS, untilAborted } from '../../core/time/waiting.ts'
import type { Completion } from './completion.ts'
import type { KeyedRequest } from './keyed-request.ts'

/** How long a call continues without a waiting caller, in milliseconds. */
const ORPHAN_GRACE_MS = 5000
/** How long an aborted call may take to end, in milliseconds. */
const ABORT_TIMEOUT_MS = 1000

/**
 * An in-flight call and the callers coalesced onto it. It ends when it completes, when no caller waits any more, or when
 * it exceeds the maximum duration of a call.
 */
export class InFlightCall {
  readonly keyed: KeyedRequest
  readonly startedAt = world.now()
  /** Resolves once the call is over and its outcome is recorded. */
  readonly gone: Promise<void>
  readonly #first: Call
  readonly #controller = new AbortController()
  readonly #completion = Promise.withResolvers<Completion>()
  readonly #gone = Promise.withResolvers<void>()
  readonly #abortTimeout = Promise.withResolvers<never>()
  #waiting = 0
  #isFirstWaiting = false
  #hasEnded = false
  #timer: Timer | undefined
  #total = Number.POSITIVE_INFINITY
  #pauses = 0
  #deadline: Timer | undefined
  #isOverdue = false

  constructor(keyed: KeyedRequest) {
    this.keyed = keyed
    this.#first = keyed.call
    this.gone = this.#gone.promise
    this.#abortTimeout.promise.catch(() => undefined)
  }

  /** Whether any caller waits. */
  get isWanted(): boolean {
    return this.#waiting > 0
  }

  /** Whether it was aborted because it exceeded the maximum duration. */
  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** The call that is made on behalf of all callers. Notifications go to the first caller only. */
  get call(): Call {
    const { signal } = this.#controller
    const pause = (): (() => void) => this.#pauseDeadline()
    const deadline = { pause, renew: () => deadlineSlot.of(this.#first)?.renew() }
    return {
      ...this.#first,
      signal,
      abort: (reason) => this.#abort(reason),
      slots: deadlineSlot.put(deadline, this.#first.slots),
      emit: (notification) => {
        if (this.#isFirstWaiting) this.#first.emit(notification)
      },
    }
  }

  /** A call for a verifying read on behalf of all callers, usable after the original was aborted. */
  get verificationCall(): Call {
    const controller = new AbortController()
    const { signal } = controller
    return { ...this.#first, signal, abort: (reason) => controller.abort(reason), emit: () => undefined }
  }

  /** Runs the call, at most for the given time in milliseconds. @throws errors of the call, or why it was aborted */
  async within<Value>(total: number, make: (call: Call) => Promise<Value>): Promise<Value> {
    this.#total = total
    this.#start()
    try {
      return await Promise.race([make(this.call), this.#abortTimeout.promise])
    } finally {
      world.clearTimeout(this.#deadline)
      this.#total = Number.POSITIVE_INFINITY
    }
  }

  isFirst(call: Call): boolean {
    return call === this.#first
  }

  /** The completion of the call. @throws the reason of the caller's signal, if that is aborted first */
  async wait(call: Call): Promise<Completion> {
    const isFirst = this.isFirst(call)
    this.#waiting++
    if (isFirst) this.#isFirstWaiting = true
    world.clearTimeout(this.#timer)
    try {
      return await untilAborted(this.#completion.promise, call.signal)
    } finally {
      if (isFirst) this.#isFirstWaiting = false
      if (--this.#waiting === 0 && !this.#hasEnded) this.#abortIfOrphaned(call.signal)
    }
  }

  /** Delivers the completion to all waiting callers. */
  end(ended: Completion): void {
    this.#hasEnded = true
    world.clearTimeout(this.#timer)
    this.#completion.resolve(ended)
    // The server continues for as long as the caller that was asked for input is connected.
    const { signal } = this.#first
    if (ended.kind !== 'input_required') return
    const stop = (): void => this.#abort(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  }

  leave(): void {
    this.#gone.resolve()
  }

  #abortIfOrphaned({ reason }: AbortSignal): void {
    world.clearTimeout(this.#timer)
    const abortReason =
      reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', 'No caller waits for it.')
    this.#timer = world.setTimeout(() => this.#abort(abortReason), ORPHAN_GRACE_MS).unref()
  }

  /** Aborts the call; if it does not end in time, it is no longer awaited. */
  #abort(reason: unknown): void {
    this.#controller.abort(reason)
    world.setTimeout(() => this.#abortTimeout.reject(reason), ABORT_TIMEOUT_MS).unref()
  }

  #start(): void {
    world.clearTimeout(this.#deadline)
    if (this.#pauses > 0 || this.#total > MAX_TIMER_MS) return
    this.#deadline = world
      .setTimeout(() => {
        this.#isOverdue = true
        this.#abort(tooLong(this.#total))
      }, this.#total)
      .unref()
  }

  /** Stops the deadline while a person is awaited; it starts again after that. */
  #pauseDeadline(): () => void {
    const first = deadlineSlot.of(this.#first)?.pause()
    this.#pauses++
    world.clearTimeout(this.#deadline)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      first?.()
      this.#pauses--
      this.#start()
    }
  }
}

function tooLong(total: number): GatewayError {
  return new GatewayError('OPERATION_TIMEOUT', `The server did not respond within ${total / 1000} s.`)
}
