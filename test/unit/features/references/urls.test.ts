// URLs of kept data: what they are valid for, and how often.
import { describe, expect, it } from 'vitest'
import { DataUrls } from '../../../../src/features/references/urls.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps } from '../../../support/feature-deps.ts'

const ada = { id: 'ada', scopes: new Set(['read:one']) }
const invalid = expect.objectContaining({ code: 'FORBIDDEN' })

/** Two gateways that share a store and keys. */
function world() {
  let now = 1_700_000_000_000
  const clock = () => now
  const keys = [Buffer.alloc(32, 1)]
  const store = new MemoryStore()
  const gateway = () => new DataUrls(featureDeps({ store, seal: createSeal(clock, () => keys) }), clock)
  return { one: gateway(), other: gateway(), pass: (ms: number) => void (now += ms), now: clock }
}

function made(urls: DataUrls, options: { ttl: number; isOnce?: true }): URL {
  return new URL(urls.of(ada, { id: 'r1' }, options) ?? '')
}

describe('a URL of data', () => {
  it('names the data, its expiry in milliseconds, and the caller', () => {
    const { one, other, now } = world()
    const url = made(one, { ttl: 5000 })
    expect(url.pathname).toBe('/data/r1')
    expect(url.searchParams.get('exp')).toBe(String(now() + 5000))
    expect(url.href).not.toContain('ada')
    expect(other.open('r1', url.searchParams)?.principal).toEqual(ada)
  })

  it('is valid for one id and until its expiry', () => {
    const { one, pass } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    expect(() => one.open('r2', searchParams)).toThrow(invalid)
    pass(5000)
    expect(one.open('r1', searchParams)).toBeDefined()
    pass(1)
    expect(() => one.open('r1', searchParams)).toThrow(invalid)
  })

  it('cannot be made to last longer', () => {
    const { one, now } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    for (const exp of [String(now() + 6000), '', 'soon', '9'.repeat(40)]) {
      searchParams.set('exp', exp)
      expect(() => one.open('r1', searchParams)).toThrow(invalid)
    }
  })

  it('is no URL with a signature without one', () => {
    expect(world().one.open('r1', new URLSearchParams('exp=1'))).toBeUndefined()
  })

  it('works once for all gateways together, if it is to work once', async () => {
    const { one, other } = world()
    const { searchParams } = made(one, { ttl: 5000, isOnce: true })
    const uses = [one, other, one].map(async (urls) => urls.open('r1', searchParams)?.use())
    const results = await Promise.allSettled(uses)
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected'])
    const { searchParams: another } = made(one, { ttl: 5000, isOnce: true })
    await expect(other.open('r1', another)?.use()).resolves.toBeUndefined()
  })

  it('works any number of times otherwise', async () => {
    const { one } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    for (let use = 0; use < 3; use++)
      await expect(one.open('r1', searchParams)?.use()).resolves.toBeUndefined()
  })

  it('does not exist where the gateway does not listen', () => {
    const urls = new DataUrls(featureDeps({ page: () => undefined }))
    expect(urls.of(ada, { id: 'r1' }, { ttl: 5000 })).toBeUndefined()
  })
})
