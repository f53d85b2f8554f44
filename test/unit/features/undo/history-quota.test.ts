import fc from 'fast-check'
import { expect, test } from 'vitest'
import { HistoryQuota } from '../../../../src/features/undo/history.ts'

test('the history quota is never exceeded, keeps the newest action of a caller and returns each evicted one once', () => {
  const taking = fc.array(
    fc.record({ caller: fc.constantFrom('a', 'b', 'c'), size: fc.integer({ min: 1, max: 8 }) }),
    { maxLength: 100 },
  )
  const most = fc.record({ count: fc.integer({ min: 1, max: 5 }), size: fc.integer({ min: 1, max: 20 }) })
  fc.assert(
    fc.property(taking, most, fc.integer({ min: 1, max: 8 }), (steps, each, all) => {
      const quota = new HistoryQuota(each, all)
      const kept = new Map<string, { caller: string; size: number }>()
      steps.forEach(({ caller, size }, index) => {
        const key = String(index).padStart(6, '0')
        kept.set(key, { caller, size })
        for (const gone of quota.add(caller, key, size)) expect(kept.delete(gone)).toBe(true)
        expect(kept.size).toBeLessThanOrEqual(all)
        expect(kept.has(key)).toBe(true)
        const own = [...kept.values()].filter((one) => one.caller === caller)
        expect(own.length).toBeLessThanOrEqual(each.count)
        const together = own.reduce((sum, one) => sum + one.size, 0)
        expect(together <= each.size || own.length === 1).toBe(true)
      })
    }),
  )
})

test('the oldest action of the caller is evicted, or of the least recently active caller', () => {
  const quota = new HistoryQuota({ count: 2, size: 100 }, 3)
  expect(quota.add('a', '1', 1)).toEqual([])
  expect(quota.add('b', '2', 1)).toEqual([])
  expect(quota.add('a', '3', 1)).toEqual([])
  expect(quota.add('a', '4', 1)).toEqual(['1'])
  expect(quota.add('c', '5', 1)).toEqual(['2'])
})

test('a rewritten action counts once, and an expired one does not count', () => {
  const quota = new HistoryQuota({ count: 2, size: 10 }, 10)
  quota.add('a', '1', 4)
  expect(quota.add('a', '1', 8)).toEqual([])
  expect(quota.add('a', '2', 2)).toEqual([])
  quota.dropBefore('2')
  expect(quota.add('a', '3', 8)).toEqual([])
})
