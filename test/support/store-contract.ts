import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Bucket, Store } from '../../src/store/store.ts'

/** A store under test, and how its time passes: at least so many milliseconds. */
export interface StoreUnderTest {
  readonly store: Store
  pass(milliseconds: number): Promise<void>
}

let last = 0

/** A key no other test has. */
function fresh(name: string): string {
  return `${name}:{${process.pid}-${Date.now()}-${++last}}`
}

function bucket(limit: number, window = 60_000): Bucket {
  return { key: fresh('rate'), limit, window }
}

/** What every store does. `open` gives the one of the running test. */
export function storeContract(open: () => StoreUnderTest): void {
  describe('values', () => {
    it('are kept until their time is over', async () => {
      const { store, pass } = open()
      const key = fresh('session')
      expect(await store.get(key)).toBeUndefined()
      await store.put(key, 'some "text" ✓', 60_000)
      expect(await store.get(key)).toBe('some "text" ✓')
      await store.put(key, 'other', 30)
      expect(await store.get(key)).toBe('other')
      await pass(40)
      expect(await store.get(key)).toBeUndefined()
    })

    it('can be deleted, once', async () => {
      const { store } = open()
      const key = fresh('oauth')
      await store.put(key, 'x', 60_000)
      expect(await store.delete(key)).toBe(true)
      expect(await store.delete(key)).toBe(false)
      expect(await store.get(key)).toBeUndefined()
    })
  })

  describe('buckets', () => {
    it('C191 give exactly their limit, and say what is left and how long to wait', async () => {
      const { store } = open()
      const one = bucket(3)
      const first = await store.take([one])
      expect(first).toMatchObject({ isGranted: true, remaining: [2], wait: [0] })
      expect(first.reset[0]).toBeGreaterThan(58_000)
      expect(first.reset[0]).toBeLessThanOrEqual(62_000)
      expect(await store.take([one])).toMatchObject({ isGranted: true, remaining: [1] })
      const third = await store.take([one])
      expect(third).toMatchObject({ isGranted: true, remaining: [0] })
      expect(third.wait[0]).toBeGreaterThan(0)
      expect(await store.take([one])).toMatchObject({ isGranted: false, remaining: [0] })
    })

    it('give again once the window has passed', async () => {
      const { store, pass } = open()
      const one = bucket(1, 150)
      expect(await store.take([one])).toMatchObject({ isGranted: true })
      const refused = await store.take([one])
      expect(refused.isGranted).toBe(false)
      await pass((refused.wait[0] ?? 0) + 5)
      expect(await store.take([one])).toMatchObject({ isGranted: true })
    })

    it('are taken from all together, or none is', async () => {
      const { store } = open()
      const [large, small] = [bucket(10), bucket(1)]
      expect(await store.take([large, small])).toMatchObject({ isGranted: true, remaining: [9, 0] })
      for (let attempt = 0; attempt < 5; attempt++) {
        expect(await store.take([large, small])).toMatchObject({ isGranted: false, remaining: [9, 0] })
      }
      expect(await store.take([large])).toMatchObject({ isGranted: true, remaining: [8] })
    })

    it('never give more than their limits, whatever is taken together', async () => {
      const { store } = open()
      const property = fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: 4 }),
        fc.array(fc.array(fc.nat(3), { minLength: 1, maxLength: 4 }), { maxLength: 25 }),
        async (limits, takes) => {
          const buckets = limits.map((limit) => bucket(limit))
          const taken = limits.map(() => 0)
          for (const asked of takes) {
            const indexes = [...new Set(asked.map((each) => each % buckets.length))]
            const can = indexes.every((index) => (taken[index] ?? 0) < (limits[index] ?? 0))
            const { isGranted, remaining } = await store.take(
              indexes.flatMap((index) => buckets[index] ?? []),
            )
            expect(isGranted).toBe(can)
            if (can) for (const index of indexes) taken[index] = (taken[index] ?? 0) + 1
            expect(remaining).toEqual(indexes.map((index) => (limits[index] ?? 0) - (taken[index] ?? 0)))
          }
        },
      )
      await fc.assert(property, { numRuns: 40 })
    })
  })
}
