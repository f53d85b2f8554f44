import { text as textOf } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { type NewReference, type Reference, References } from '../../../src/records/references.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { bytesOf } from '../../support/bytes-of.ts'

const ada = { id: 'ada' }
const everybody = { id: 'anonymous', isEverybody: true } as const
const facts: NewReference = { server: 'one', name: 'data', type: 'text/plain', ttl: 60_000 }
const limits = { total: 10_000 }

/** The same object with some members replaced. */
function replacing<Whole extends object>(whole: Whole, changes: Partial<Whole>): Whole {
  return new Proxy(whole, {
    get: (target, name) => {
      const value: unknown = Reflect.get(name in changes ? changes : target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

async function sizesIn(store: Store): Promise<{ readonly records: number; readonly blobs: number }> {
  const records = [...(await store.scan('reference')).values()].map((text) => JSON.parse(text) as Reference)
  const blobs = await store.blobs.list()
  const sum = (sizes: readonly { readonly size: number }[]) => sizes.reduce((all, { size }) => all + size, 0)
  return { records: sum(records), blobs: sum(blobs) }
}

describe('kept data that has changed in the store', () => {
  const text = 'one two three'
  const changes: Readonly<Record<string, readonly string[]>> = {
    'other bytes': ['one two ', 'xxxxx'],
    'less of it': ['one two'],
    'more of it': [text, '!'],
    'none of it': [],
  }

  it.each(Object.entries(changes))(
    'is refused with CONFLICT, before all of it was read: %s',
    async (_name, now) => {
      const store = new MemoryStore()
      const blobs = replacing(store.blobs, { open: async () => bytesOf(...now) })
      const kept = new References(replacing<Store>(store, { blobs }), limits)
      const reference = await kept.add(ada, facts, bytesOf(text))
      let seen = ''
      const reading = (async () => {
        for await (const chunk of await kept.open(reference)) seen += Buffer.from(chunk).toString()
      })()
      await expect(reading).rejects.toMatchObject({ code: 'CONFLICT' })
      expect(seen.length).toBeLessThan(text.length)
    },
  )

  it('is refused with CONFLICT if a range of it is shorter than it was', async () => {
    const store = new MemoryStore()
    const kept = new References(store, limits)
    const reference = await kept.add(ada, facts, bytesOf(text))
    expect(await textOf(await kept.open(reference, { start: 4, end: 7 }))).toBe('two')
    expect(await textOf(await kept.open(reference, { start: 8, end: 99 }))).toBe('three')
    expect(await textOf(await kept.open(reference, { start: 99, end: 100 }))).toBe('')
    await store.blobs.put(reference.blob, bytesOf('one t'))
    await expect(textOf(await kept.open(reference, { start: 4, end: 7 }))).rejects.toMatchObject({
      code: 'CONFLICT',
    })
  })
})

describe('the limits on kept data', () => {
  it('hold if two processes add at the same time', async () => {
    const store = new MemoryStore()
    let waiting = 0
    const both = Promise.withResolvers<void>()
    // Both have measured the room and written their data before either record is there.
    const adding = Array.from({ length: 2 }, () => {
      const ownStore = replacing<Store>(store, {
        setIfAbsent: async (key, value, ttl) => {
          if (++waiting === 2) both.resolve()
          await both.promise
          return store.setIfAbsent(key, value, ttl)
        },
      })
      return new References(ownStore, limits).add(everybody, facts, bytesOf('x'.repeat(6000)))
    })
    const ended = await Promise.allSettled(adding)
    const refused = ended.filter(({ status }) => status === 'rejected')
    expect(refused.length).toBeGreaterThan(0)
    expect(refused).toEqual(
      refused.map(() => ({
        status: 'rejected',
        reason: expect.objectContaining({ code: 'QUOTA_EXHAUSTED' }),
      })),
    )
    const kept = 6000 * (2 - refused.length)
    expect(await sizesIn(store)).toEqual({ records: kept, blobs: kept })
  })

  it('hold for what is still written, of one caller and of all', async () => {
    const store = new MemoryStore()
    const kept = new References(store, limits)
    const written = new Map<string, number>()
    /** Data of a caller that does not end before `end`. */
    const slow = async function* (caller: string, end: Promise<void>): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(2000)
      written.set(caller, (written.get(caller) ?? 0) + 2000)
      await end
    }
    const { promise: end, resolve } = Promise.withResolvers<void>()
    const add = (caller: string) => kept.add({ id: caller }, facts, slow(caller, end))
    const callers = ['ada', 'bob', 'cy', 'di', 'ed']
    const first = callers.map(add)
    await expect.poll(() => written.size).toBe(5)
    await expect(add('ada')).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    await expect(add('fay')).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    resolve()
    expect(await Promise.all(first)).toHaveLength(5)
    await expect(sizesIn(store)).resolves.toEqual({ records: 10_000, blobs: 10_000 })
  })

  it('hold for many callers at once, and nothing is left of what was refused', async () => {
    const store = new MemoryStore()
    const ended = await Promise.allSettled(
      Array.from({ length: 200 }, (_none, index) =>
        new References(store, limits).add(
          { id: `caller ${index % 20}` },
          facts,
          bytesOf('x'.repeat(100 + index)),
        ),
      ),
    )
    const kept = ended.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const size = kept.reduce((sum, each) => sum + each.size, 0)
    expect(size).toBeLessThanOrEqual(limits.total)
    // One process counts one after the other, so what has room is kept.
    expect(size).toBeGreaterThan(limits.total - 300)
    expect(await sizesIn(store)).toEqual({ records: size, blobs: size })
    // There is room again for what fits.
    const again = new References(store, { total: limits.total * 4 })
    await again.add(everybody, facts, bytesOf('x'))
  })

  it('leave nothing if the store fails while a record is counted', async () => {
    const store = new MemoryStore()
    let scans = 0
    const failing = replacing<Store>(store, {
      scan: async (collection) => {
        if (++scans === 2) throw new Error('away')
        return store.scan(collection)
      },
    })
    const adding = new References(failing, limits).add(ada, facts, bytesOf('data'))
    await expect(adding).rejects.toThrow('away')
    expect(await sizesIn(store)).toEqual({ records: 0, blobs: 0 })
  })

  it.each([
    ['writing the record', { setIfAbsent: true }],
    ['removing it again', { compareAndDelete: true, scan: true }],
  ])('keep the data of a record that may be there if the answer to %s is lost', async (_what, lost) => {
    const store = new MemoryStore()
    let isAway = false
    const away = <Value>(value: Promise<Value>): Promise<Value> =>
      value.then(() => Promise.reject(new Error('away')))
    const failing = replacing<Store>(store, {
      ...('setIfAbsent' in lost && {
        setIfAbsent: (...given: Parameters<Store['setIfAbsent']>) => away(store.setIfAbsent(...given)),
      }),
      ...('scan' in lost && {
        scan: (collection: string) => {
          const found = store.scan(collection)
          if (isAway) return away(found)
          isAway = true
          return found
        },
        compareAndDelete: () => away(Promise.resolve(false)),
      }),
    })
    const adding = new References(failing, limits).add(ada, { ...facts, id: 'one' }, bytesOf('data'))
    await expect(adding).rejects.toThrow('away')
    const kept = new References(store, limits)
    const found = await kept.find(ada, 'one')
    expect(found && (await textOf(await kept.open(found)))).toBe('data')
  })

  it('take a record that was written before its answer was lost as their own', async () => {
    const store = new MemoryStore()
    const repeating = replacing<Store>(store, {
      setIfAbsent: async (...given) => {
        await store.setIfAbsent(...given)
        return store.setIfAbsent(...given)
      },
    })
    const kept = new References(repeating, limits)
    const reference = await kept.add(ada, { ...facts, id: 'one' }, bytesOf('data'))
    expect(await textOf(await kept.open(reference))).toBe('data')
    await expect(kept.add(ada, { ...facts, id: 'one' }, bytesOf('more'))).rejects.toMatchObject({
      code: 'CONFLICT',
    })
    expect(await sizesIn(store)).toEqual({ records: 4, blobs: 4 })
  })

  it('count what is in a store that takes no writes as it is, and write nothing', async () => {
    const store = new MemoryStore()
    const away = replacing<Store>(store, { unavailableReason: 'it is away' })
    const adding = new References(away, limits).add(ada, facts, bytesOf('data'))
    await expect(adding).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(await store.blobs.list()).toEqual([])
  })
})

describe('dropping', () => {
  it('deletes the data that was found, and not what has its id now', async () => {
    const store = new MemoryStore()
    const kept = new References(store, limits)
    const before = await kept.add(ada, { ...facts, id: 'one' }, bytesOf('before'))
    await kept.extend(ada, 'one', before.expiresAt + 1000)
    expect(await kept.drop(before)).toBe(true)
    const after = await kept.add(ada, { ...facts, id: 'one' }, bytesOf('after'))
    expect(await kept.drop(before)).toBe(false)
    expect(await textOf(await kept.open(after))).toBe('after')
    expect(await sizesIn(store)).toEqual({ records: 5, blobs: 5 })
  })
})

/** A store that stops before one of the operations on it, until it may go on. */
function stopping(store: Store, at: number) {
  const [stopped, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let count = 0
  const stops = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target)
        if (name === 'blobs') return stops(store.blobs)
        if (typeof value !== 'function') return value
        return async (...args: readonly unknown[]) => {
          if (count++ === at) {
            stopped.resolve()
            await goesOn.promise
          }
          return Reflect.apply(value, target, args) as unknown
        }
      },
    })
  return { store: stops(store), stopped: stopped.promise, goOn: goesOn.resolve }
}

/** Adds data while another process sweeps, an hour ahead; each stops before one of its operations. Tells what was kept. */
async function meeting({
  added,
  swept,
  isSweepFirst,
}: Record<'added' | 'swept', number> & { isSweepFirst: boolean }) {
  const store = new MemoryStore()
  const [adding, sweeping] = [stopping(store, added), stopping(store, swept)]
  const add = new References(adding.store, limits)
    .add(ada, { ...facts, id: 'one' }, bytesOf('data'))
    .catch((error: unknown) => (error instanceof GatewayError ? error.code : String(error)))
  await Promise.race([add, adding.stopped])
  const sweep = new References(sweeping.store, limits, () => Date.now() + 3_600_000).sweep()
  await Promise.race([sweep, sweeping.stopped])
  const [first, other] = isSweepFirst ? [sweeping, adding] : [adding, sweeping]
  first.goOn()
  await (isSweepFirst ? sweep : add)
  other.goOn()
  const [result] = await Promise.all([add, sweep])
  if (typeof result === 'string') return result
  return textOf(await new References(store, limits).open(result))
}

describe('a sweep', () => {
  /** A clock that jumps, while that of the store goes on. */
  const jumps: Readonly<Record<string, number>> = { 'an hour ahead': 3_600_000, 'a day back': -86_400_000 }

  it.each(Object.entries(jumps))(
    'deletes nothing that has a record if the clock jumps %s',
    async (_name, jump) => {
      const store = new MemoryStore()
      let now = Date.now()
      const kept = new References(store, limits, () => now)
      const reference = await kept.add(ada, facts, bytesOf('data'))
      now += jump
      await kept.sweep()
      const found = await kept.find(ada, reference.id)
      expect(await textOf(await kept.open(found ?? reference))).toBe('data')
    },
  )

  it('may be made by two processes at once, and deletes all that has no record', async () => {
    const store = new MemoryStore()
    const later = (): number => Date.now() + 3_600_000
    const kept = await new References(store, limits).add(ada, facts, bytesOf('data'))
    for (const id of ['one', 'two', 'three']) await store.blobs.put(id, bytesOf('old'))
    await Promise.all([1, 2].map(() => new References(store, limits, later).sweep()))
    expect((await store.blobs.list()).map(({ id }) => id)).toEqual([kept.blob])
  })

  it('by a clock that is ahead deletes no data that was kept, in whatever order both go on', async () => {
    const outcomes = new Set<string>()
    for (let added = 0; added < 12; added++)
      for (let swept = 0; swept < 12; swept++)
        for (const isSweepFirst of [true, false]) outcomes.add(await meeting({ added, swept, isSweepFirst }))
    // In each order the data is kept whole, or its sender has to send it again.
    expect([...outcomes].toSorted()).toEqual(['SERVER_UNAVAILABLE', 'data'])
  })

  it('leaves what was written a moment ago: it may be about to get a record', async () => {
    const store = new MemoryStore()
    await store.blobs.put('young', bytesOf('data'))
    await new References(store, limits).sweep()
    expect(await store.blobs.list()).toHaveLength(1)
  })
})
