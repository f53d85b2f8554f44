import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RateLimitWindow, Store } from '../../src/store/store.ts'
import { until } from './condition.ts'

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

function bucket(limit: number, window = 60_000): RateLimitWindow {
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
      await store.put(key, 'other', 300)
      expect(await store.get(key)).toBe('other')
      await pass(310)
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

    it('are set and removed together, whatever is there', async () => {
      const { store, pass } = open()
      const [kept, short, removed] = [fresh('kept'), fresh('short'), fresh('removed')] as const
      await store.put(kept, 'old', 60_000)
      const values = [
        { key: kept, value: 'new', ttl: 60_000 },
        { key: short, value: 'x', ttl: 300 },
        { key: removed, value: 'x', ttl: 60_000 },
      ]
      await store.putAll(values, [removed, fresh('absent')])
      await store.putAll([], [])
      const found = [kept, short, removed].map((key) => store.get(key))
      expect(await Promise.all(found)).toEqual(['new', 'x', undefined])
      await pass(310)
      expect(await store.get(short)).toBeUndefined()
      // Those that do not fit into one write of the store.
      const many = Array.from({ length: 700 }, (_each, index) => `${kept}/${index}`)
      await store.putAll(
        many.map((key) => ({ key, value: key, ttl: 60_000 })),
        many.slice(1),
      )
      expect([...(await store.scan(kept))]).toEqual([[many[0], many[0]]])
    })

    it('can be large, under keys in any writing', async () => {
      const { store } = open()
      const large = 'ü✓'.repeat(300_000)
      const key = `${fresh('call')}/キー "quoted" {braces} a:b`
      await store.put(key, large, 60_000)
      expect(await store.get(key)).toBe(large)
      expect(await store.delete(key)).toBe(true)
    })

    it('are claimed by one of many, until that one lets go or it has expired', async () => {
      const { store, pass } = open()
      const key = fresh('call')
      const all = Array.from({ length: 100 }, (_each, index) => store.setIfAbsent(key, String(index), 1000))
      const winners = (await Promise.all(all)).flatMap((found, index) => (found === undefined ? [index] : []))
      expect(winners).toHaveLength(1)
      expect(await store.setIfAbsent(key, 'late', 1000)).toBe(String(winners[0]))
      await pass(1010)
      expect(await store.setIfAbsent(key, 'next', 60_000)).toBeUndefined()
      expect(await store.get(key)).toBe('next')
      expect(await store.compareAndDelete(key, 'other')).toBe(false)
      expect(await store.compareAndDelete(key, 'next')).toBe(true)
      expect(await store.compareAndDelete(key, 'next')).toBe(false)
      expect(await store.setIfAbsent(key, 'again', 60_000)).toBeUndefined()
    })

    it('are swapped by one of many', async () => {
      const { store, pass } = open()
      const key = fresh('transaction')
      expect(await store.compareAndSwap(key, 'a', 'b', 60_000)).toBe(false)
      await store.put(key, 'a', 60_000)
      const all = Array.from({ length: 100 }, (_each, index) =>
        store.compareAndSwap(key, 'a', `b${index}`, 60_000),
      )
      const winners = (await Promise.all(all)).flatMap((isSwapped, index) => (isSwapped ? [index] : []))
      expect(winners).toHaveLength(1)
      expect(await store.get(key)).toBe(`b${winners[0]}`)
      expect(await store.compareAndSwap(key, `b${winners[0]}`, 'c', 300)).toBe(true)
      await pass(310)
      expect(await store.compareAndSwap(key, 'c', 'd', 60_000)).toBe(false)
      expect(await store.compareAndDelete(key, 'c')).toBe(false)
    })

    it('are removed by one of many', async () => {
      const { store } = open()
      const [dropped, deleted] = [fresh('approval'), fresh('approval')]
      await store.put(dropped, 'x', 60_000)
      await store.put(deleted, 'x', 60_000)
      const drops = Array.from({ length: 20 }, async () => store.compareAndDelete(dropped, 'x'))
      const deletes = Array.from({ length: 20 }, async () => store.delete(deleted))
      expect((await Promise.all(drops)).filter(Boolean)).toHaveLength(1)
      expect((await Promise.all(deletes)).filter(Boolean)).toHaveLength(1)
    })

    it('are found by their collection as long as they live', async () => {
      const { store, pass } = open()
      const collection = fresh('deed')
      expect(await store.scan(collection)).toEqual(new Map())
      await store.put(`${collection}/a`, '1', 60_000)
      await store.setIfAbsent(`${collection}/b/c`, '2', 60_000)
      await store.put(`${collection}/ü✓`, '3', 60_000)
      await store.put(`${collection}/short`, 'x', 300)
      await store.put(`${collection}0`, 'x', 60_000)
      await store.put(`${collection}x/a`, 'x', 60_000)
      await store.put(collection, 'x', 60_000)
      await pass(310)
      await store.compareAndSwap(`${collection}/a`, '1', '4', 60_000)
      const members = { [`${collection}/a`]: '4', [`${collection}/b/c`]: '2', [`${collection}/ü✓`]: '3' }
      expect(Object.fromEntries(await store.scan(collection))).toEqual(members)
      await store.compareAndDelete(`${collection}/a`, '4')
      await store.delete(`${collection}/b/c`)
      expect([...(await store.scan(collection)).keys()]).toEqual([`${collection}/ü✓`])
    })

    it('can be watched: a listener learns that this begins, and of every kind of change until it ends', async () => {
      const { store } = open()
      const [put, swapped, deleted, set, dropped, left] = Array.from({ length: 6 }, () => fresh('operation'))
      const keys = [put, swapped, deleted, set, dropped, left].map(String)
      for (const key of [swapped, deleted, dropped]) await store.put(String(key), 'a', 60_000)
      const calls = new Map<string, number>()
      const ends = keys.map((key) => store.watch(key, () => void calls.set(key, (calls.get(key) ?? 0) + 1)))
      await until(() => calls.size === keys.length, 'the beginning')
      ends.at(-1)?.()
      const before = new Map(calls)
      await store.put(String(left), 'b', 60_000)
      await store.put(String(put), 'b', 60_000)
      await store.compareAndSwap(String(swapped), 'a', 'b', 60_000)
      await store.delete(String(deleted))
      await store.setIfAbsent(String(set), 'b', 60_000)
      await store.compareAndDelete(String(dropped), 'a')
      const isCalled = (key: string): boolean => calls.get(key) !== before.get(key)
      await until(() => keys.slice(0, -1).every(isCalled), 'the changes')
      expect(isCalled(String(left))).toBe(false)
      for (const end of ends) end()
      expect(() => store.watch(fresh('call'), () => undefined)).toThrow(TypeError)
    })

    it('are all found in a large collection', async () => {
      const { store } = open()
      const collection = fresh('deed')
      const keys = Array.from({ length: 600 }, (_each, index) => `${collection}/${index}`)
      await Promise.all(keys.map((key) => store.put(key, key, 60_000)))
      const found = await store.scan(collection)
      expect([...found.keys()].sort()).toEqual(keys.sort())
      expect([...found].every(([key, value]) => key === value)).toBe(true)
    })

    it('are what a map would hold, whatever is done', async () => {
      const { store } = open()
      const text = fc.constantFrom('a', 'b', '')
      const key = fc.constantFrom('1', '2', '3/4')
      const step = fc.oneof(
        fc.record({ act: fc.constantFrom('get', 'delete', 'scan'), key, text, before: text }),
        fc.record({ act: fc.constantFrom('put', 'claim', 'swap', 'drop'), key, text, before: text }),
      )
      const property = fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const collection = fresh('call')
        const model = new Map<string, string>()
        for (const { act, key: name, text: value, before } of steps) {
          const at = `${collection}/${name}`
          const there = model.get(at)
          const isIt = there === before
          if (act === 'get') expect(await store.get(at)).toBe(there)
          if (act === 'scan') expect(new Map(await store.scan(collection))).toEqual(model)
          if (act === 'delete') expect(await store.delete(at)).toBe(there !== undefined)
          if (act === 'claim') expect(await store.setIfAbsent(at, value, 60_000)).toBe(there)
          if (act === 'swap') expect(await store.compareAndSwap(at, before, value, 60_000)).toBe(isIt)
          if (act === 'drop') expect(await store.compareAndDelete(at, before)).toBe(isIt)
          if (act === 'put') await store.put(at, value, 60_000)
          const isSet = act === 'put' || (act === 'claim' && there === undefined) || (act === 'swap' && isIt)
          if (isSet) model.set(at, value)
          if (act === 'delete' || (act === 'drop' && isIt)) model.delete(at)
        }
      })
      await fc.assert(property, { numRuns: 40 })
    })
  })

  describe('buckets', () => {
    it('C191 give exactly their limit, and say what is left and how long to wait', async () => {
      const { store } = open()
      const one = bucket(3)
      const first = await store.takeTokens([one])
      expect(first).toMatchObject({ isGranted: true, remaining: [2], wait: [0] })
      expect(first.reset[0]).toBeGreaterThan(58_000)
      expect(first.reset[0]).toBeLessThanOrEqual(62_000)
      expect(await store.takeTokens([one])).toMatchObject({ isGranted: true, remaining: [1] })
      const third = await store.takeTokens([one])
      expect(third).toMatchObject({ isGranted: true, remaining: [0] })
      expect(third.wait[0]).toBeGreaterThan(0)
      expect(await store.takeTokens([one])).toMatchObject({ isGranted: false, remaining: [0] })
    })

    it('give again once the window has passed', async () => {
      const { store, pass } = open()
      const one = bucket(1, 150)
      expect(await store.takeTokens([one])).toMatchObject({ isGranted: true })
      const refused = await store.takeTokens([one])
      expect(refused.isGranted).toBe(false)
      await pass((refused.wait[0] ?? 0) + 5)
      expect(await store.takeTokens([one])).toMatchObject({ isGranted: true })
    })

    it('are taken from all together, or none is', async () => {
      const { store } = open()
      const [large, small] = [bucket(10), bucket(1)]
      expect(await store.takeTokens([large, small])).toMatchObject({ isGranted: true, remaining: [9, 0] })
      for (let attempt = 0; attempt < 5; attempt++) {
        expect(await store.takeTokens([large, small])).toMatchObject({ isGranted: false, remaining: [9, 0] })
      }
      expect(await store.takeTokens([large])).toMatchObject({ isGranted: true, remaining: [8] })
    })

    it('say what is left to those who only look, who take nothing', async () => {
      const { store } = open()
      const [used, unused] = [bucket(2), bucket(1)]
      await store.takeTokens([used])
      for (let look = 0; look < 3; look++) {
        expect(await store.peekTokens([used, unused])).toMatchObject({ isGranted: true, remaining: [1, 1] })
      }
      await store.takeTokens([used])
      const empty = await store.peekTokens([used, unused])
      expect(empty).toMatchObject({ isGranted: false, remaining: [0, 1], wait: [expect.any(Number), 0] })
      expect(empty.reset[0]).toBeGreaterThan(0)
      expect(empty.reset[1]).toBe(0)
    })

    it('take back what was taken, together with what is taken for it, or nothing', async () => {
      const { store } = open()
      const [one, other] = [bucket(2), bucket(1)]
      await store.takeTokens([one])
      await store.takeTokens([one])
      const back = { ...one, isReturn: true } as const
      expect(await store.takeTokens([back, other])).toMatchObject({ isGranted: true, remaining: [1, 0] })
      expect(await store.takeTokens([back, other])).toMatchObject({ isGranted: false, remaining: [1, 0] })
      expect(await store.takeTokens([one])).toMatchObject({ isGranted: true, remaining: [0] })
      for (const remaining of [1, 2, 2]) {
        expect(await store.takeTokens([back])).toMatchObject({ isGranted: true, remaining: [remaining] })
      }
      expect((await store.peekTokens([one])).reset).toEqual([0])
      expect(await store.takeTokens([{ ...bucket(1), isReturn: true }])).toMatchObject({ remaining: [1] })
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
            const { isGranted, remaining } = await store.takeTokens(
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
