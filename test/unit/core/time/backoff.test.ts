import { expect, it, vi } from 'vitest'
import {
  type AttemptResult,
  delayBefore,
  reopening,
  ReopenDelays,
  retry,
} from '../../../../src/core/time/backoff.ts'
import { world } from '../../../../src/core/world.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

const pass = fakeClock()

it('delays grow by their factor up to the maximum', () => {
  const delays = (backoff: Parameters<typeof delayBefore>[1]) =>
    [0, 1, 2, 3, 5000].map((each) => delayBefore(each, backoff))
  expect(delays({ firstMs: 100, maxMs: 500 })).toEqual([100, 200, 400, 500, 500])
  expect(delays({ firstMs: 10, maxMs: 500, factor: 4 })).toEqual([10, 40, 160, 500, 500])
  expect(delays({ firstMs: 10, maxMs: 100, factor: 1 })).toEqual([10, 10, 10, 10, 10])
  expect(delays(reopening(0))).toEqual([100, 200, 400, 800, 30_000])
})

it('jitter takes off a random part of the delay', () => {
  const random = vi
    .spyOn(world, 'random')
    .mockReturnValueOnce(0)
    .mockReturnValueOnce(0.5)
    .mockReturnValueOnce(0.75)
  const delays = [0, 0, 0].map((each) => delayBefore(each, { firstMs: 1000, maxMs: 1000, jitter: 0.5 }))
  random.mockRestore()
  expect(delays).toEqual([500, 750, 875])
})

it('an attempt is repeated with delays until it is done', async () => {
  const results: AttemptResult[] = ['later', 'later', 'done', 'later']
  const at: number[] = []
  const start = world.monotonic()
  const done = retry(
    async (failures) => {
      at.push(world.monotonic() - start)
      return results[failures] ?? 'never'
    },
    { firstMs: 100, maxMs: 1000 },
    new AbortController().signal,
  )
  await pass(10_000)
  expect(await done).toBe('done')
  expect(at).toEqual([0, 100, 300])
})

it('an attempt that can never succeed, throws, or is aborted is not repeated', async () => {
  const backoff = { firstMs: 100, maxMs: 1000 }
  const stop = new AbortController()
  expect(await retry(async () => 'never', backoff, stop.signal)).toBe('never')
  const thrown = retry(() => Promise.reject(new Error('it fails')), backoff, stop.signal)
  await expect(thrown).rejects.toThrow('it fails')
  const attempt = vi.fn<() => Promise<AttemptResult>>(async () => 'later')
  const aborted = retry(attempt, backoff, stop.signal)
  await pass(150)
  stop.abort()
  expect(await aborted).toBe('aborted')
  expect(await retry(attempt, backoff, stop.signal)).toBe('aborted')
  expect(attempt).toHaveBeenCalledTimes(2)
})

it('the delays of a stream that is opened again start again after one that lasted', async () => {
  const delays = new ReopenDelays(100)
  const start = world.monotonic()
  expect([delays.after(start), delays.after(start), delays.after(start)]).toEqual([100, 200, 400])
  await pass(30_000)
  expect(delays.after(start)).toBe(100)
})
