/** Counts failures by name within a window, to slow down guessing. */
import { LRUCache } from 'lru-cache'
import { GatewayError } from './error.ts'

/** How long a failure counts, in milliseconds. */
const FAILURE_WINDOW_MS = 60_000
/** For how many names failures are counted. */
const MAX_NAMES = 1000

/** Counts what failed, so that guessing takes long. */
export interface FailureCounter {
  /** Refuses one more try for a name with too many failures in the last minute. @throws RATE_LIMIT_EXCEEDED */
  check(name: string): void
  failed(name: string): void
}

/** Lets so many tries fail in a minute for each name; `now` tells the time in milliseconds. */
export function createFailureCounter(limit: number, now: () => number): FailureCounter {
  const failures = new LRUCache<string, readonly number[]>({ max: MAX_NAMES })
  const recent = (name: string): readonly number[] =>
    (failures.get(name) ?? []).filter((at) => at > now() - FAILURE_WINDOW_MS)
  return {
    check: (name) => {
      const times = recent(name)
      const [first] = times
      if (first === undefined || times.length < limit) return
      throw new GatewayError('RATE_LIMIT_EXCEEDED', 'Too many wrong tries. Wait a minute.', {
        reason: 'tries',
        retryAfterSeconds: (first + FAILURE_WINDOW_MS - now()) / 1000,
      })
    },
    failed: (name) => void failures.set(name, [...recent(name), now()].slice(-limit)),
  }
}
