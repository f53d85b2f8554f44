import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Allowance } from '../../../../src/features/undo/allowance.ts'

test('a caller never gets more than its allowance within the time it counts', () => {
  const taking = fc.array(fc.record({ id: fc.constantFrom('a', 'b'), wait: fc.nat(40) }), { maxLength: 200 })
  fc.assert(
    fc.property(taking, fc.integer({ min: 1, max: 5 }), (steps, most) => {
      const allowance = new Allowance({ count: most, size: Infinity })
      const since = new Map<string, { at: number; count: number }>()
      let now = 0
      for (const { id, wait } of steps) {
        now += wait
        const isGiven = allowance.take({ id }, 100, now)
        const known = since.get(id)
        const counted = known && now - known.at < 100 ? known : { at: now, count: 0 }
        expect(isGiven).toBe(counted.count < most)
        if (isGiven) since.set(id, { ...counted, count: counted.count + 1 })
      }
    }),
  )
})

test('nor more than it may be long together, whatever others have', () => {
  const allowance = new Allowance({ count: 100, size: 10 })
  const [one, other] = [{ id: 'one' }, { id: 'other' }]
  expect(allowance.take(one, 100, 0)).toBe(true)
  allowance.spend(one, 10)
  expect(allowance.take(one, 100, 50)).toBe(false)
  expect(allowance.take(other, 100, 50)).toBe(true)
  expect(allowance.take(one, 100, 100)).toBe(true)
})
