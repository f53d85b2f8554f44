import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WrittenRecords } from '../../../src/durable/bounds.ts'

test('a quota is never exceeded, keeps the newest action of a caller and returns each evicted one once', () => {
  const taking = fc.array(
    fc.record({ caller: fc.constantFrom('a', 'b', 'c'), size: fc.integer({ min: 1, max: 8 }) }),
    { maxLength: 100 },
  )
  const most = fc.record({ count: fc.integer({ min: 1, max: 5 }), size: fc.integer({ min: 1, max: 20 }) })
  fc.assert(
    fc.property(taking, most, fc.integer({ min: 1, max: 8 }), (steps, each, all) => {
      const quota = new WrittenRecords({ keys: all, bytes: Infinity }, { keys: each.count, bytes: each.size })
      const kept = new Map<string, { caller: string; size: number }>()
      steps.forEach(({ caller, size }, index) => {
        const key = String(index).padStart(6, '0')
        kept.set(key, { caller, size })
        for (const gone of quota.replace(caller, key, size, 1)) expect(kept.delete(gone)).toBe(true)
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
  const quota = new WrittenRecords({ keys: 3, bytes: Infinity }, { keys: 2, bytes: 100 })
  expect(quota.replace('a', '1', 1, 1)).toEqual([])
  expect(quota.replace('b', '2', 1, 1)).toEqual([])
  expect(quota.replace('a', '3', 1, 1)).toEqual([])
  expect(quota.replace('a', '4', 1, 1)).toEqual(['1'])
  expect(quota.replace('c', '5', 1, 1)).toEqual(['2'])
})

test('a rewritten action counts once, and an expired one does not count', () => {
  const quota = new WrittenRecords({ keys: 10, bytes: Infinity }, { keys: 2, bytes: 10 })
  quota.replace('a', '1', 4, 100)
  expect(quota.replace('a', '1', 8, 100)).toEqual([])
  expect(quota.replace('a', '2', 2, 200)).toEqual([])
  quota.dropExpired(100)
  expect(quota.replace('a', '3', 8, 200)).toEqual([])
})
