/** Delays before something is attempted, or opened, again: each is twice as long as the one before. */
import { world } from '../world.ts'

/** The bounds of a delay, in milliseconds. */
const MIN_DELAY_MS = 100
const MAX_DELAY_MS = 30_000
/** How long a stream or subscription lasts after which the delays begin again, in milliseconds. */
const LASTING_MS = 30_000

/** The delay before the next attempt after so many failures in succession, in milliseconds; `first` is that after none. */
export function backOff(failures: number, first: number): number {
  return Math.min(Math.max(first, MIN_DELAY_MS) * 2 ** failures, MAX_DELAY_MS)
}

/** The delays before a stream or subscription that ended is opened again. */
export class ReopenDelays {
  readonly #first: number
  /** How many in succession ended soon. */
  #short = 0

  /** `first` is the delay after one that lasted, in milliseconds. */
  constructor(first: number) {
    this.#first = first
  }

  /** The delay after one that began at `start`, on the monotonic clock, and ended now, in milliseconds. */
  after(start: number): number {
    if (world.monotonic() - start >= LASTING_MS) this.#short = 0
    return backOff(this.#short++, this.#first)
  }
}
