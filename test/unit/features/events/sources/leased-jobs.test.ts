import { afterEach, expect, it, vi } from 'vitest'
import { type Job, LeasedJobs } from '../../../../../src/features/events/sources/leased-jobs.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import { featureDeps } from '../../../../support/feature-deps.ts'

const listening: Job = {
  run: async ({ signal }, onReady) => {
    onReady()
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
  },
}

afterEach(() => void vi.useRealTimers())

it('a job is not taken to run elsewhere while the store is away', async () => {
  vi.useFakeTimers()
  const store = new MemoryStore()
  const get = vi.spyOn(store, 'get').mockRejectedValue(new Error('away'))
  const jobs = new LeasedJobs(featureDeps({ store }))
  let isReady = false
  const keeping = jobs.keep('one', () => listening).then(() => (isReady = true))
  await vi.advanceTimersByTimeAsync(1000)
  expect(isReady).toBe(false)
  get.mockRestore()
  await vi.advanceTimersByTimeAsync(30_000)
  await keeping
  await jobs.close()
})

it('jobs are closed once their leases are released, since the store is closed after that', async () => {
  const store = new MemoryStore()
  const jobs = new LeasedJobs(featureDeps({ store }))
  await Promise.all(['one', 'two'].map((key) => jobs.keep(key, () => listening)))
  const releasing = Promise.withResolvers<boolean>()
  const release = vi.spyOn(store, 'delete').mockReturnValue(releasing.promise)
  let isClosed = false
  const closing = Promise.resolve(jobs.close()).then(() => (isClosed = true))
  await vi.waitFor(() => expect(release).toHaveBeenCalledTimes(2))
  expect(isClosed).toBe(false)
  releasing.resolve(true)
  await closing
  expect(jobs.jobs.size).toBe(0)
})
