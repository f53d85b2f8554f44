import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { NegativeCache } from '../../../src/upstream/failures.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

/** An operation that always fails and counts its attempts. */
function failing() {
  const recent = new NegativeCache<string>()
  const attempt = vi.fn<() => Promise<string>>(() => Promise.reject(new Error('away')))
  const run = (key: string): Promise<string> => recent.try(key, attempt)
  return { run, attempt }
}

it('a recent failure is repeated for other parts of the same call', async () => {
  const { run, attempt } = failing()
  await expect(run('a')).rejects.toThrow('away')
  await expect(run('a')).rejects.toThrow('away')
  expect(attempt).toHaveBeenCalledTimes(1)
})

it('another call is tried again, and so is the same call a moment later', async () => {
  const { run, attempt } = failing()
  await expect(run('a')).rejects.toThrow('away')
  await expect(run('b')).rejects.toThrow('away')
  expect(attempt).toHaveBeenCalledTimes(2)
  vi.advanceTimersByTime(250)
  attempt.mockResolvedValue('there')
  expect(await run('b')).toBe('there')
  expect(await run('b')).toBe('there')
  expect(attempt).toHaveBeenCalledTimes(4)
})
