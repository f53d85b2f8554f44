/** Counts failures by name within a window, to slow down guessing of passwords and tokens. */
import { LRUCache } from 'lru-cache'
import { GatewayError } from './error.ts'

/** How long a failure counts, in milliseconds. */
const FAILURE_WINDOW_MS = 60_000
/** The maximum number of names with a counter. */
const MAX_NAMES = 1000

/** Counts failed attempts, to slow down guessing. */
export interface FailureCounter {
  /** Refuses another attempt for a name with too many failures in the last minute. @throws RATE_LIMIT_EXCEEDED */
  check(name: string): void
  /** Counts one; the result takes it back, where it was none. */
  failed(name: string): () => void
}

/** Allows a number of failures per minute and name; `now` returns the time in milliseconds. */
export function createFailureCounter(limit: number, now: () => number): FailureCounter {
  const failures = new LRUCache<string, readonly number[]>({ max: MAX_NAMES })
  const recent = (name: string): readonly number[] =>
    (failures.get(name) ?? []).filter((at) => at > now() - FAILURE_WINDOW_MS)
  return {
    check: (name) => {
      const times = recent(name)
      const [first] = times
      if (first === undefined || times.length < limit) return
      throw new GatewayError('RATE_LIMIT_EXCEEDED', 'Too many failed attempts. Wait a minute.', {
        reason: 'tries',
        retryAfterSeconds: (first + FAILURE_WINDOW_MS - now()) / 1000,
      })
    },
    failed: (name) => {
      const at = now()
      failures.set(name, [...recent(name), at].slice(-limit))
      return () => {
        const times = recent(name)
        const index = times.indexOf(at)
        if (index >= 0) failures.set(name, times.toSpliced(index, 1))
      }
    },
  }
}
