import { expect, it } from 'vitest'
import { type Ceiling, ceilingsOf } from '../../bench/ceiling.ts'

it('a ceiling is the median of all launches, and has the share that keyed calls of the working copy reach', () => {
  const measured = (store: Ceiling['store'], concurrency: number, rate: number): Ceiling => ({
    ...{ store, concurrency, rate, cpu: 1e6 / rate },
  })
  const row = { target: 'keyed-disk', concurrency: 64, bytes: 1024, rate: 5000, p50: 1, p99: 2 }
  const others = [
    { ...row, build: 'v1', rate: 1 },
    { ...row, bytes: 10_240, rate: 1 },
    { ...row, concurrency: 16, rate: 1000 },
  ]
  const all = [measured('disk', 64, 10_000), measured('disk', 64, 40_000), measured('disk', 64, 20_000)]
  expect(ceilingsOf([...all, measured('redis', 64, 8000)], [...others, row])).toEqual([
    { store: 'disk', concurrency: 64, rate: 20_000, cpu: 50, share: 0.25 },
    { store: 'redis', concurrency: 64, rate: 8000, cpu: 125 },
  ])
})
