import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createMembership, type Fleet } from '../../../src/durable/members.ts'
import { Permits } from '../../../src/durable/permits.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

interface Gateway {
  readonly fleet: Fleet
  readonly permits: Permits
}

async function startGateway(store: Store): Promise<Gateway> {
  const fleet = createMembership(() => store)
  onTestFinished(() => fleet.close())
  const details = { version: '1.0.0', host: 'one.example', pid: 1, since: 1, state: 'serving' } as const
  await fleet.describe(details)
  return { fleet, permits: new Permits({ store, membership: fleet, isShared: true }) }
}

/** A store that counts what is done with permits, and can fail. */
class CountingStore extends MemoryStore {
  accesses = 0
  isAway = false

  override async get(key: string): Promise<string | undefined> {
    this.#count(key)
    return super.get(key)
  }

  override async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    this.#count(key)
    return super.setIfAbsent(key, value, ttl)
  }

  override async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    this.#count(key)
    return super.compareAndSwap(key, before, value, ttl)
  }

  #count(key: string): void {
    if (!key.startsWith('permits:')) return
    this.accesses++
    if (this.isAway) throw new Error('away')
  }
}

/** What comes of an attempt, with the time it takes. */
async function taken({ permits }: Gateway, limit: number, times = 1): Promise<boolean[]> {
  const all = Promise.all(Array.from({ length: times }, async () => permits.take('a', limit)))
  await vi.advanceTimersByTimeAsync(700)
  return all
}

describe('permits of several gateways', () => {
  it('a gateway that is alone asks no store', async () => {
    const store = new CountingStore()
    const one = await startGateway(store)
    expect(await taken(one, 2, 3)).toEqual([true, true, false])
    one.permits.return('a')
    expect(await taken(one, 2)).toEqual([true])
    expect(store.accesses).toBe(0)
  })

  it('all gateways together have as many as the limit says', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    expect(await taken(one, 3, 2)).toEqual([true, true])
    expect(await taken(other, 3, 3)).toEqual([true, false, false])
    one.permits.return('a')
    expect(await taken(other, 3)).toEqual([true])
    expect(await taken(one, 3)).toEqual([false])
  })

  it('several calls at once cost one access, and the next ones none', async () => {
    const store = new CountingStore()
    const [one] = [await startGateway(store), await startGateway(store)]
    const first = await Promise.all([one.permits.take('a', 9), one.permits.take('a', 9)])
    expect([first, store.accesses]).toEqual([[true, true], 1])
    one.permits.return('a')
    expect([one.permits.take('a', 9), store.accesses]).toEqual([true, 1])
  })

  it('one that is not used at another gateway is waited for', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    expect(await one.permits.take('a', 2)).toBe(true)
    one.permits.return('a')
    const both = Promise.all([other.permits.take('a', 2), other.permits.take('a', 2)])
    await vi.advanceTimersByTimeAsync(10)
    expect(await store.get('permits:a')).toMatch(/#\w+":1,.*#\w+":1}$/)
    await vi.advanceTimersByTimeAsync(400)
    expect(await both).toEqual([true, true])
    expect(await store.get('permits:a')).toMatch(/^{[^,]*:2}$/)
  })

  it('nothing is left in the store once nothing runs', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    expect([...(await taken(one, 2)), ...(await taken(other, 2))]).toEqual([true, true])
    for (const { permits } of [one, other]) permits.return('a')
    await vi.advanceTimersByTimeAsync(300)
    expect(await store.get('permits:a')).toBeUndefined()
  })

  it('those of a gateway that is not alive are free, also of one that was stopped', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    expect(await taken(one, 2, 2)).toEqual([true, true])
    expect(await taken(other, 2)).toEqual([false])
    await one.fleet.close()
    await vi.advanceTimersByTimeAsync(2000)
    expect(await taken(other, 2)).toEqual([true])
  })

  it('those of a reloaded configuration count until its calls end', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    const next = { ...one, permits: new Permits({ store, membership: one.fleet, isShared: true }) }
    expect(await taken(one, 2)).toEqual([true])
    expect(await taken(next, 2, 2)).toEqual([true, false])
    await one.permits.close()
    expect(await taken(other, 2, 2)).toEqual([true, false])
  })

  it('a gateway that was stopped for longer than a term asks again', async () => {
    const store = new MemoryStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    expect(await taken(one, 4, 2)).toEqual([true, true])
    one.permits.return('a')
    // The others found that it is not alive.
    vi.spyOn(one.fleet, 'term', 'get').mockReturnValue(2)
    await store.delete('permits:a')
    const three = Array.from({ length: 3 }, async () => other.permits.take('a', 4))
    expect(await Promise.all(three)).toEqual([true, true, true])
    expect(await taken(one, 4)).toEqual([false])
  })

  it('what ran while a gateway was alone counts once it knows of another', async () => {
    const store = new MemoryStore()
    const one = await startGateway(store)
    expect(await taken(one, 3, 2)).toEqual([true, true])
    const other = await startGateway(store)
    await vi.advanceTimersByTimeAsync(2000)
    // A call of another caller is enough.
    expect(await one.permits.take('b', 3)).toBe(true)
    expect(await taken(other, 3, 2)).toEqual([true, false])
  })

  it('while the store does not answer, each gateway has all of them', async () => {
    const store = new CountingStore()
    const [one, other] = [await startGateway(store), await startGateway(store)]
    store.isAway = true
    expect([await taken(one, 2, 3), await taken(other, 2, 3)]).toEqual([
      [true, true, false],
      [true, true, false],
    ])
    store.isAway = false
    await vi.advanceTimersByTimeAsync(1000)
    expect(await store.get('permits:a')).toMatch(/:2,.*:2}$/)
    for (const { permits } of [one, one, other]) permits.return('a')
    expect([await taken(one, 2), await taken(other, 2)]).toEqual([[true], [false]])
  })

  it.each(['null', '[]', 'not JSON', '{"x#y":-1,"z#y":"2","q":1e99}'])(
    'a value %s has none',
    async (text) => {
      const store = new MemoryStore()
      const [one] = [await startGateway(store), await startGateway(store)]
      await store.put('permits:a', text, 60_000)
      expect(await taken(one, 1)).toEqual([true])
    },
  )

  it('random calls at four gateways are never more than the limit, and none is refused below it', async () => {
    const store = new MemoryStore()
    const gateways = await Promise.all([1, 2, 3, 4].map(() => startGateway(store)))
    let [running, most, refused] = [0, 0, 0]
    let seed = 7
    const random = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below
    const caller = async (): Promise<void> => {
      for (let index = 0; index < 50; index++) {
        const { permits } = gateways[random(4)] ?? expect.unreachable()
        if (!(await permits.take('a', 8))) {
          refused++
          continue
        }
        most = Math.max(most, ++running)
        await new Promise((resolve) => setTimeout(resolve, random(60)))
        running--
        permits.return('a')
      }
    }
    const callers = Promise.all(Array.from({ length: 8 }, caller))
    await vi.advanceTimersByTimeAsync(120_000)
    await callers
    expect([most, refused]).toEqual([8, 0])
    expect(await store.get('permits:a')).toBeUndefined()
    const greedy = Promise.all(Array.from({ length: 20 }, caller))
    await vi.advanceTimersByTimeAsync(120_000)
    await greedy
    expect(most).toBe(8)
    expect(refused).toBeGreaterThan(0)
    expect(await store.get('permits:a')).toBeUndefined()
  })
})
