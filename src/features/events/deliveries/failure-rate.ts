/**
 * How many of the attempts to deliver a subscription failed within the last hour. A receiver at which almost all fail is
 * left alone until its subscriber subscribes again.
 */

/** The period, in minutes, and how many attempts there are at least before the rate says anything. */
const PERIOD_MINUTES = 60
const MIN_ATTEMPTS = 100
/** The part of failures above which a subscription is suspended. */
const MAX_FAILED_PART = 0.95

const MINUTE_MS = 60_000

interface Minute {
  readonly number: number
  attempts: number
  failed: number
}

/** Counts attempts by the minute. */
export class FailureRate {
  #minutes: Minute[] = []

  /** Counts an attempt. */
  count(isFailed: boolean, now: number): void {
    const number = Math.floor(now / MINUTE_MS)
    let last = this.#minutes.at(-1)
    if (!last || last.number !== number) {
      last = { number, attempts: 0, failed: 0 }
      this.#minutes = [...this.#minutes.filter((each) => number - each.number < PERIOD_MINUTES), last]
    }
    last.attempts++
    if (isFailed) last.failed++
  }

  /** Whether almost all attempts failed. */
  get isTooHigh(): boolean {
    const attempts = this.#minutes.reduce((sum, each) => sum + each.attempts, 0)
    const failed = this.#minutes.reduce((sum, each) => sum + each.failed, 0)
    return attempts >= MIN_ATTEMPTS && failed > attempts * MAX_FAILED_PART
  }

  /** Forgets all attempts. */
  reset(): void {
    this.#minutes = []
  }
}
