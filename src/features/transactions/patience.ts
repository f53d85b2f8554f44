/** How long a rollback waits for compensations that fail for the moment, and which of them are made again. */
import type { Outcome } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'
import { pause } from '../../core/time/waiting.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'

/** An error as results have it. */
export type ErrorData = Readonly<Record<string, unknown>>

/** How often a compensation is attempted at least. */
const MIN_ATTEMPTS = 3
/**
 * How long a rollback waits in all, from its first failure on, for compensations that fail for the moment, in
 * milliseconds: the steps before them are undone after that, although it is not their turn.
 */
const MAX_WAIT_MS = 8000
/** A delay that is longer than all the waiting ends it. */
const RETRIES: Backoff = { firstMs: 250, maxMs: Number.POSITIVE_INFINITY }

/** Repeats compensations in their turn, with a pause that doubles, until all the waiting of a rollback takes too long. */
export class Patience {
  readonly #closing: AbortSignal
  /** In milliseconds. */
  #waited = 0

  constructor(closing: AbortSignal) {
    this.#closing = closing
  }

  /**
   * Repeats a call until it succeeds, fails for good, or has to wait for too long: a few attempts, and more if other steps
   * wait for it. Resolves with the error, if any.
   */
  async attempt(
    compensate: () => Promise<ErrorData | undefined>,
    isWaitedFor: boolean,
  ): Promise<ErrorData | undefined> {
    for (let tries = 1; ; tries++) {
      const error = await compensate().catch((thrown: unknown) => asGatewayError(thrown).data)
      if (!error || !isPassing(error)) return error
      const delay = Math.max(delayBefore(tries - 1, RETRIES), requestedDelay(error))
      const isEnough = tries >= MIN_ATTEMPTS
      const isOver = !isWaitedFor || this.#closing.aborted || this.#waited + delay > MAX_WAIT_MS
      if (delay > MAX_WAIT_MS || (isEnough && isOver)) return withAttempts(error, tries)
      this.#waited += delay
      await pause(delay, isEnough ? this.#closing : undefined).catch(() => undefined)
    }
  }
}

/** Whether a call may succeed soon without anybody's help. */
function isPassing({ category }: ErrorData): boolean {
  return category === 'transient' || category === 'rate_limited'
}

/** The time after which a rate limit permits another call, in milliseconds. */
function requestedDelay({ category, retry_after_seconds: seconds }: ErrorData): number {
  return category === 'rate_limited' && typeof seconds === 'number' ? seconds * 1000 : 0
}

function withAttempts(error: ErrorData, attempts: number): ErrorData {
  return { ...error, details: { ...(isObject(error.details) && error.details), attempts } }
}

/** Whether a result is that of an earlier attempt, which the server answered without doing anything. */
export function isRepeatedFailure(outcome: Outcome): boolean {
  if (outcome.kind !== 'result' || outcome.result.meta('was_replay') !== true) return false
  const error = outcome.result.meta(ERROR_KEY)
  return isObject(error) && isPassing(error) && !isDoubtful(error)
}

/** After a time-out the call may have taken effect, whoever says so. */
export function isDoubtful({ code }: ErrorData): boolean {
  return code === 'OPERATION_TIMEOUT'
}
