import { hash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  AppendLog,
  isBefore,
  isSegmentKey,
  type LogBounds,
  type LogPage,
  withChangedEntries,
} from '../../src/durable/log.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreUnderTest } from './store-contract.ts'

let last = 0

/** The name of a log that no other test has. */
function fresh(): string {
  return `test ${process.pid} ${Date.now()} ${++last}`
}

const roomy: LogBounds = { maxEntries: 10_000, maxBytes: 10_000_000, ttl: 60_000 }

function log(store: Store, bounds: Partial<LogBounds> = {}, name = fresh()): AppendLog {
  return new AppendLog(store, name, { ...roomy, ...bounds })
}

function valuesOf({ entries }: LogPage): unknown[] {
  return entries.map(({ value }) => value)
}

/** All events after a cursor, read in pages. */
async function readAll(from: AppendLog, after?: string, limit = 1000) {
  const values: unknown[] = []
  for (let cursor = after; ;) {
    const page = await from.read(cursor, limit)
    values.push(...valuesOf(page))
    cursor = page.cursor
    if (!page.hasMore) return { values, cursor }
  }
}

/** A store with another `compareAndSwap`. */
function withSwap(store: Store, compareAndSwap: Store['compareAndSwap']): Store {
  return new Proxy(store, {
    get(of, member) {
      if (member === 'compareAndSwap') return compareAndSwap
      const found: unknown = Reflect.get(of, member, of)
      return typeof found === 'function' ? (found.bind(of) as unknown) : found
    },
  })
}

/** Erases the entries of one person in a segment. */
async function eraseAnna(store: Store, key: string): Promise<void> {
  expect(isSegmentKey(key)).toBe(true)
  const before = (await store.get(key)) ?? ''
  const isAnna = (entry: unknown): boolean => JSON.stringify(entry).includes('anna')
  const after = withChangedEntries(before, (entry) => (isAnna(entry) ? undefined : entry))
  expect(after).not.toContain('anna')
  expect(await store.compareAndSwap(key, before, after ?? '', 60_000)).toBe(true)
  expect(withChangedEntries(after ?? '', (entry) => (isAnna(entry) ? undefined : entry))).toBeUndefined()
}

/** What an append log does on every store. `open` gives the store of the running test. */
export function logContract(open: () => StoreUnderTest): void {
  describe('an append log', () => {
    it('gives events in the order of their appends, in pages, and later ones after the last cursor', async () => {
      const events = log(open().store)
      await events.append(['a', { b: 'ü✓ "quoted"' }])
      await events.append(['c'])
      await events.append([4, null, [6]])
      const first = await events.read(undefined, 2)
      expect(first).toMatchObject({ isGap: false, hasMore: true })
      expect(valuesOf(first)).toEqual(['a', { b: 'ü✓ "quoted"' }])
      const second = await events.read(first.cursor, 2)
      expect(valuesOf(second)).toEqual(['c', 4])
      const third = await events.read(second.cursor, 2)
      expect(third).toMatchObject({ isGap: false, hasMore: false })
      expect(valuesOf(third)).toEqual([null, [6]])
      expect(valuesOf(await events.read(third.cursor, 2))).toEqual([])
      await events.append(['g'])
      expect(valuesOf(await events.read(third.cursor, 2))).toEqual(['g'])
      expect(valuesOf(await events.read(first.entries[0]?.cursor, 2))).toEqual([{ b: 'ü✓ "quoted"' }, 'c'])
    })

    it('can lose entries without moving the others: readers skip what was erased', async () => {
      const { store } = open()
      const name = fresh()
      const events = log(store, {}, name)
      await events.append([
        { who: 'anna', n: 1 },
        { who: 'ben', n: 2 },
        { who: 'anna', n: 3 },
      ])
      await events.append([{ who: 'anna', n: 4 }])
      const end = await events.append([{ who: 'ben', n: 12345678901234567890n.toString() }, { who: 'anna' }])
      const before = await events.read(undefined, 2)
      const key = `log:{${hash('sha256', name).slice(0, 32)}}:${end.split('.')[0]}`
      for (const number of [1, 2, 3]) await eraseAnna(store, `${key}:${number}`)
      const last = { who: 'ben', n: '12345678901234567890' }
      // A reader of this process, and one that has read nothing yet.
      for (const reader of [events, log(store, {}, name)]) {
        expect(await readAll(reader)).toEqual({ values: [{ who: 'ben', n: 2 }, last], cursor: end })
        expect((await readAll(reader, before.cursor)).values).toEqual([last])
        expect((await readAll(reader, undefined, 1)).values).toEqual([{ who: 'ben', n: 2 }, last])
        const texts: string[] = []
        for await (const batch of reader.backwards(undefined)) texts.push(...batch.map(({ text }) => text))
        expect(texts.map((text) => JSON.parse(text) as unknown)).toEqual([last, { who: 'ben', n: 2 }])
      }
      await events.append(['later'])
      expect((await readAll(events, end)).values).toEqual(['later'])
    })

    it('is searched backwards as texts, from its end or from a cursor, without those that are left out', async () => {
      const { store } = open()
      const events = log(store)
      for (let number = 0; number < 90; number += 3)
        await events.append([number, number + 1, { a: number + 2 }])
      const found: { readonly text: string; readonly cursor: string }[] = []
      for await (const batch of events.backwards(undefined)) found.push(...batch)
      expect(found.map(({ text }) => text).slice(0, 4)).toEqual(['{"a":89}', '88', '87', '{"a":86}'])
      expect(found).toHaveLength(90)
      const rest: string[] = []
      for await (const batch of events.backwards(found[40]?.cursor))
        rest.push(...batch.map(({ text }) => text))
      expect(rest).toEqual(found.slice(41).map(({ text }) => text))
      const some: string[] = []
      for await (const batch of events.backwards(undefined, (text) => text.includes('"a":50')))
        some.push(...batch.map(({ text }) => text))
      expect(some).toEqual(['{"a":50}', '49', '48'])
      const late: string[] = []
      for await (const batch of events.backwards(undefined, (text) =>
        text.includes('"a":80') ? 'end' : true,
      ))
        late.push(...batch.map(({ text }) => text))
      expect(late).toEqual(found.slice(0, 9).map(({ text }) => text))
    })

    it('has nothing to search before it begins, before its end of another time, or where its entries expired', async () => {
      const { store, pass } = open()
      const events = log(store)
      const all = async (before?: string): Promise<number> => {
        let count = 0
        for await (const batch of events.backwards(before)) count += batch.length
        return count
      }
      expect(await all()).toBe(0)
      await events.append([1, 2])
      expect(await all(await log(store).end())).toBe(0)
      await pass(61_000)
      expect(await all()).toBe(0)
    })

    it('has an end, after which only later events come, also if it was empty', async () => {
      const { store } = open()
      const name = fresh()
      const empty = await log(store, {}, name).end()
      await log(store, {}, name).append(['a', 'b'])
      const end = await log(store, {}, name).end()
      const position = await log(store, {}, name).append(['c'])
      expect(await readAll(log(store, {}, name), empty)).toEqual({
        values: ['a', 'b', 'c'],
        cursor: position,
      })
      const page = await log(store, {}, name).read(end, 10)
      expect(valuesOf(page)).toEqual(['c'])
      expect(page.isGap).toBe(false)
      expect(isBefore(empty, end)).toBe(true)
      expect(isBefore(end, position)).toBe(true)
      expect(isBefore(position, end)).toBe(false)
      expect(isBefore(end, await log(store).end())).toBe(false)
    })

    it('loses and repeats nothing of many writers, and keeps the order of each', async () => {
      const { store } = open()
      const name = fresh()
      const writers = Array.from({ length: 4 }, (_each, writer) => ({ writer, own: log(store, {}, name) }))
      const appends = writers.map(async ({ writer, own }) => {
        for (let index = 0; index < 15; index++) await own.append([`${writer} ${index}`])
      })
      await Promise.all(appends)
      const { values } = await readAll(log(store, {}, name), undefined, 7)
      expect(values).toHaveLength(60)
      for (const { writer } of writers) {
        const own = values.filter((value) => String(value).startsWith(`${writer} `))
        expect(own).toEqual(Array.from({ length: 15 }, (_each, index) => `${writer} ${index}`))
      }
    })

    it('writes concurrent appends of one process together', async () => {
      const { store } = open()
      let claims = 0
      const counting = new Proxy(store, {
        get(of, member) {
          if (member === 'setIfAbsent') claims++
          const found: unknown = Reflect.get(of, member, of)
          return typeof found === 'function' ? (found.bind(of) as unknown) : found
        },
      })
      const events = log(counting)
      await events.end()
      claims = 0
      await Promise.all(Array.from({ length: 50 }, (_each, index) => events.append([index])))
      expect(claims).toBeLessThanOrEqual(2)
      expect((await readAll(events)).values).toEqual(Array.from({ length: 50 }, (_each, index) => index))
    })

    it('keeps only so many events and bytes, the newest ones', async () => {
      const { store } = open()
      const few = log(store, { maxEntries: 3 })
      const start = await few.end()
      for (let index = 0; index < 8; index++) await few.append([index])
      const page = await few.read(start, 10)
      expect(page.isGap).toBe(true)
      expect(valuesOf(page)).toEqual([5, 6, 7])
      const small = log(store, { maxBytes: 1000 })
      for (let index = 0; index < 10; index++) await small.append([`${index} ${'x'.repeat(300)}`])
      const left = valuesOf(await small.read(undefined, 10))
      expect(left.map((value) => String(value).slice(0, 1))).toEqual(['7', '8', '9'])
      await expect(small.append(['x'.repeat(2000)])).rejects.toThrow(RangeError)
      await expect(few.append([1, 2, 3, 4])).rejects.toThrow(RangeError)
    })

    it('says that events have expired, and does not count them any more', async () => {
      const { store, pass } = open()
      const events = log(store, { ttl: 400, maxEntries: 3 })
      const start = await events.end()
      await events.append(['a'])
      await events.append(['b'])
      await pass(410)
      const empty = await events.read(start, 10)
      expect(empty).toMatchObject({ isGap: true, entries: [], hasMore: false })
      for (const each of ['c', 'd', 'e']) await events.append([each])
      const page = await events.read(empty.cursor, 10)
      expect(page.isGap).toBe(false)
      expect(valuesOf(page)).toEqual(['c', 'd', 'e'])
    })

    it('takes an unreadable cursor, and one of another or a lost log, for a gap', async () => {
      const { store } = open()
      const name = fresh()
      const events = log(store, {}, name)
      await events.append(['a'])
      const before = await events.end()
      const other = log(store)
      await other.append(['b'])
      for (const cursor of ['', 'x', '../..', before.replace('.2.', '.9.'), await other.end()]) {
        const page = await events.read(cursor, 10)
        expect(page.isGap).toBe(true)
        expect(valuesOf(page)).toEqual(['a'])
      }
      await store.delete(`log:{${hash('sha256', name).slice(0, 32)}}`)
      await log(store, {}, name).append(['c'])
      const again = await log(store, {}, name).read(before, 10)
      expect(again.isGap).toBe(true)
      expect(valuesOf(again)).toEqual(['c'])
    })

    it('goes on after a process that ended between a segment and the head', async () => {
      const { store, pass } = open()
      const name = fresh()
      const bounds = { ttl: 400 }
      await log(store, bounds, name).append(['a'])
      // The process loses its store once the segment is written.
      const broken = withSwap(store, () => Promise.reject(new Error('The process ended.')))
      await expect(log(broken, bounds, name).append(['b'])).rejects.toThrow('The process ended.')
      const page = await log(store, bounds, name).read(undefined, 10)
      expect(valuesOf(page)).toEqual(['a', 'b'])
      // A position that was read is not used again, even if nothing is left there.
      await pass(410)
      await log(store, bounds, name).append(['c'])
      const next = await log(store, bounds, name).read(page.cursor, 10)
      expect(valuesOf(next)).toEqual(['c'])
      expect(next.isGap).toBe(false)
    })

    it('does not move its end back for a writer that is late', async () => {
      const { store } = open()
      const name = fresh()
      await log(store, {}, name).end()
      const reached = Promise.withResolvers<void>()
      const goOn = Promise.withResolvers<void>()
      const slow = withSwap(store, async (...given) => {
        reached.resolve()
        await goOn.promise
        return store.compareAndSwap(...given)
      })
      const late = log(slow, {}, name).append(['a'])
      await reached.promise
      const cursor = await log(store, {}, name).append(['b'])
      goOn.resolve()
      await late
      expect(await log(store, {}, name).read(cursor, 10)).toMatchObject({ isGap: false, entries: [] })
      expect((await readAll(log(store, {}, name))).values).toEqual(['a', 'b'])
    })

    it('is what a list would hold, whatever is appended and read', async () => {
      const { store } = open()
      const step = fc.oneof(
        fc.record({ act: fc.constant('append'), count: fc.integer({ min: 1, max: 4 }) }),
        fc.record({ act: fc.constant('read'), count: fc.integer({ min: 1, max: 5 }) }),
      )
      const property = fc.asyncProperty(fc.array(step, { maxLength: 15 }), async (steps) => {
        const events = log(store)
        let written = 0
        let seen = 0
        let cursor = await events.end()
        for (const { act, count } of steps) {
          if (act === 'append') await events.append(Array.from({ length: count }, () => written++))
          if (act !== 'read') continue
          const page = await events.read(cursor, count)
          const expected = Array.from({ length: Math.min(count, written - seen) }, (_each, at) => seen + at)
          expect(valuesOf(page)).toEqual(expected)
          expect(page).toMatchObject({ isGap: false, hasMore: written - seen > count })
          seen += expected.length
          cursor = page.cursor
        }
      })
      await fc.assert(property, { numRuns: 25 })
    })
  })
}
