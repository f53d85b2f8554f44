import { afterEach, beforeEach, vi } from 'vitest'

/** Fakes the clock and the timers in every test of a file. Returns what lets so many milliseconds pass. */
export function fakeClock(): (ms: number) => Promise<unknown> {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())
  return (ms) => vi.advanceTimersByTimeAsync(ms)
}
