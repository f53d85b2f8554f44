/**
 * Delays before something is attempted, or opened, again. How long they are is one value, a `Backoff`; `retry` attempts
 * something until it is done. Delays of processes that fail together differ by jitter, which `core/world.ts` decides.
 */
import { world } from '../world.ts'
import { pause } from './waiting.ts'

/** The delays between attempts: each is the one before times `factor`, up to a maximum. */
export interface Backoff {
  readonly firstMs: number
  readonly maxMs: number
  /** Default: 2. */
  readonly factor?: number
  /** The part of a delay that is random, from 0 to 1: with 0.5 a delay has between half and all of its length. Default: 0. */
  readonly jitter?: number
}

/** The delay before an attempt is repeated, in milliseconds. `repetition` is 0 for the first one. */
export function delayBefore(repetition: number, backoff: Backoff): number {
  const { firstMs, maxMs, factor = 2, jitter = 0 } = backoff
  const delay = Math.min(firstMs * factor ** repetition, maxMs)
  return jitter === 0 ? delay : delay * (1 - jitter + jitter * world.random())
}

/** What an attempt came to: `later` if it may succeed after a delay, `never` if it will not. */
export type AttemptResult = 'done' | 'later' | 'never'

/**
 * Attempts something until it is done, or will never be, with delays between the attempts. Aborted by the signal it ends
 * before the next attempt; `attempt` itself has to watch the signal. @throws what `attempt` throws
 */
export async function retry(
  attempt: (failures: number) => Promise<AttemptResult>,
  backoff: Backoff,
  signal: AbortSignal,
): Promise<'done' | 'never' | 'aborted'> {
  for (let failures = 0; !signal.aborted; failures++) {
    const result = await attempt(failures)
    if (result !== 'later') return result
    await pause(delayBefore(failures, backoff), signal).catch(() => undefined)
  }
  return 'aborted'
}

/** The delays before a stream or subscription is opened again, in milliseconds; they start with the given one. */
export function reopening(firstMs: number): Backoff {
  return { firstMs: Math.max(firstMs, 100), maxMs: 30_000 }
}

/** How long a stream or subscription lasts after which the delays start again, in milliseconds. */
const LASTING_MS = 30_000

/** The delays before a stream or subscription that ended is opened again. */
export class ReopenDelays {
  readonly #backoff: Backoff
  /** How many in succession ended soon. */
  #short = 0

  /** `first` is the delay after one that lasted, in milliseconds. */
  constructor(first: number) {
    this.#backoff = reopening(first)
  }

  /** The delay after one that began at `start`, on the monotonic clock, and ended now, in milliseconds. */
  after(start: number): number {
    if (world.monotonic() - start >= LASTING_MS) this.#short = 0
    return delayBefore(this.#short++, this.#backoff)
  }
}
