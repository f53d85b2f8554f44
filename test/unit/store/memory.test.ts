import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { MemoryStore } from '../../../src/store/memory.ts'
import { blobContract } from '../../support/blob-contract.ts'
import { collectionContract } from '../../support/collection-contract.ts'
import { storeContract } from '../../support/store-contract.ts'

let now = 0
let last = 0
let store = new MemoryStore()
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
})

describe('the memory store', () => {
  storeContract(() => ({
    store,
    pass: async (milliseconds) => {
      now += milliseconds
    },
  }))

  describe('collections', () => {
    collectionContract(() => ({
      store,
      pass: async (milliseconds) => {
        now += milliseconds
      },
    }))
  })

  describe('blobs', () => {
    blobContract(() => store.blobs, false)
  })

  it('C191 the rate limit is never exceeded in any window of time', () => {
    const steps = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 200 })
    const property = fc.property(fc.integer({ min: 1, max: 8 }), steps, (limit, pauses) => {
      const key = `k${++last}`
      const granted: number[] = []
      for (const pause of pauses) {
        now += pause
        if (store.takeTokens([{ key, limit, window: 1000 }]).isGranted) granted.push(now)
      }
      for (const start of granted) {
        const within = granted.filter((at) => at >= start && at < start + 1000)
        expect(within.length).toBeLessThanOrEqual(limit)
      }
    })
    fc.assert(property)
  })

  it('a token is granted after the announced delay', () => {
    const property = fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(2000), (limit, pause) => {
      const key = `k${++last}`
      const take = () => store.takeTokens([{ key, limit, window: 1000 }])
      now += pause
      while (take().isGranted) now += 7
      const { wait } = take()
      expect(wait[0]).toBeLessThanOrEqual(31 * Math.ceil(1000 / 30))
      now += (wait[0] ?? 0) - 2
      expect(take().isGranted).toBe(false)
      now += 2
      expect(take().isGranted).toBe(true)
    })
    fc.assert(property)
  })

  it('the least recently used entry is evicted beyond the size limit', async () => {
    const large = 'x'.repeat(1024 * 1024)
    await store.put('session:used', 'x', 60_000)
    await store.put('session:unused', 'x', 60_000)
    for (let index = 0; index < 70; index++) {
      await store.put(`session:${index}`, large, 60_000)
      expect(await store.get('session:used')).toBe('x')
    }
    expect(await store.get('session:unused')).toBeUndefined()
    expect(await store.get('session:69')).toBe(large)
  })

  it('buckets in use are kept, however many others exist', () => {
    const bucket = (key: string) => ({ key: `rate:${key}`, limit: 1, window: 60_000 })
    for (const key of ['used', 'unused']) store.takeTokens([bucket(key)])
    let granted = 0
    for (let index = 0; index < 70_000; index++) {
      store.takeTokens([bucket(`other-${index}`)])
      if (store.takeTokens([bucket('used')]).isGranted) granted++
    }
    expect(granted).toBe(0)
    expect(store.takeTokens([bucket('unused')]).isGranted).toBe(true)
  })

  it('refused requests keep no bucket that could evict those of others', () => {
    const bucket = (key: string) => ({ key: `rate:refused:${key}`, limit: 1, window: 60_000 })
    for (const key of ['used', 'unused']) store.takeTokens([bucket(key)])
    for (let index = 0; index < 70_000; index++) store.takeTokens([bucket('used'), bucket(`other-${index}`)])
    expect(store.takeTokens([bucket('unused')]).isGranted).toBe(false)
  })
})
