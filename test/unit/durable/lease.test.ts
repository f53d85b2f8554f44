import { beforeEach, describe, expect, it, vi } from 'vitest'
import { pause } from '../../../src/core/time/waiting.ts'
import { type Lease, Leases, type LeaseStore } from '../../../src/durable/lease.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { FOREVER } from '../../../src/store/store.ts'
import { type Seeded, seeded } from '../../simulate/random.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { leaseContract } from '../../support/lease-contract.ts'
import { repetitions, seedOf } from '../../support/soak.ts'

const TTL_MS = 30_000
const pass = fakeClock()
let store = new MemoryStore()
beforeEach(() => (store = new MemoryStore()))

async function acquired(): Promise<Lease> {
  const lease = await new Leases(store).acquire('poll', TTL_MS)
  if (!lease) throw new Error('it is held')
  return lease
}

describe('leases in memory, in virtual time', () => {
  leaseContract(() => ({ store, ttlMs: TTL_MS, pass }))

  it('a process that was stopped for longer than the TTL does not hold its lease, before any timer ran', async () => {
    const lease = await acquired()
    vi.spyOn(performance, 'now').mockReturnValue(performance.now() + TTL_MS)
    expect([lease.isHeld, lease.lost.aborted]).toEqual([false, false])
    const write = () => ({ result: 0, write: { text: '{}', ttl: TTL_MS } })
    await expect(lease.update('record', write)).rejects.toThrow('does not hold')
    expect(await store.get('record')).toBeUndefined()
  })

  it('a machine that slept does not hold its lease, although its monotonic clock stood still', async () => {
    const lease = await acquired()
    vi.setSystemTime(Date.now() + TTL_MS)
    expect(lease.isHeld).toBe(false)
    await pass(TTL_MS / 3)
    expect(lease.lost.aborted).toBe(true)
  })

  it('tokens grow although the clock is set back', async () => {
    const first = await acquired()
    await first.release()
    vi.setSystemTime(Date.now() - 3_600_000)
    const second = await acquired()
    expect(second.token).toBe(first.token + 1)
    expect(second.isHeld).toBe(true)
    await second.release()
  })

  it('tokens grow after the claim has expired', async () => {
    const first = await acquired()
    await first.release()
    await pass(40 * 86_400_000)
    expect(await store.get('lease:poll')).toBeUndefined()
    const second = await acquired()
    expect(second.token).toBeGreaterThan(first.token)
    await second.release()
  })

  it('a renewal that takes too long does not renew the lease', async () => {
    const lease = await acquired()
    const { promise, resolve } = Promise.withResolvers<boolean>()
    vi.spyOn(store, 'compareAndSwap').mockReturnValue(promise)
    await pass(TTL_MS * 0.9)
    expect([lease.isHeld, lease.lost.aborted]).toEqual([false, true])
    resolve(true)
    await pass(TTL_MS)
    expect(lease.isHeld).toBe(false)
  })

  it('a renewal counts from when it was sent, however late its response is', async () => {
    const lease = await acquired()
    const swap = store.compareAndSwap.bind(store)
    vi.spyOn(store, 'compareAndSwap')
      .mockImplementationOnce(async (...args) => {
        const isDone = await swap(...args)
        await pause(12_000)
        return isDone
      })
      .mockRejectedValue(new Error('away'))
    await pass(36_000)
    expect([lease.isHeld, lease.lost.aborted]).toEqual([true, false])
    await pass(1500)
    expect([lease.isHeld, lease.lost.aborted]).toEqual([false, true])
  })

  it('a claim is none if its sign of life arrives too late to be renewed', async () => {
    const put = store.put.bind(store)
    vi.spyOn(store, 'put').mockImplementationOnce(async (key, value, ttl) => {
      await pass(TTL_MS)
      await put(key, value, ttl)
    })
    expect(await new Leases(store).acquire('poll', TTL_MS)).toBeUndefined()
    const next = await acquired()
    await next.release()
  })

  it('a claim of which it is not known whether it was written leaves the lease free', async () => {
    const claim = store.setIfAbsent.bind(store)
    vi.spyOn(store, 'setIfAbsent').mockImplementationOnce(async (key, value, ttl) => {
      await claim(key, value, ttl)
      throw new Error('away')
    })
    await expect(new Leases(store).acquire('poll', TTL_MS)).rejects.toThrow('away')
    const next = await acquired()
    await next.release()
  })
})

/** A store in memory whose operations take a while, sometimes longer than a lease, or fail before or after they are done. */
function unreliable(memory: MemoryStore, random: Seeded): LeaseStore {
  const part = async (): Promise<void> => {
    await pause(random.chance(0.9) ? random.below(TTL_MS / 20) : random.below(TTL_MS * 1.5))
    if (random.chance(0.05)) throw new Error('away')
  }
  const over =
    <Args extends unknown[], Value>(operation: (...args: Args) => Promise<Value>) =>
    async (...args: Args): Promise<Value> => {
      await part()
      const value = await operation(...args)
      await part()
      return value
    }
  return {
    get: over((key: string) => memory.get(key)),
    put: over((key: string, value: string, ttl: number) => memory.put(key, value, ttl)),
    setIfAbsent: over((key: string, value: string, ttl: number) => memory.setIfAbsent(key, value, ttl)),
    compareAndSwap: over((key: string, before: string, value: string, ttl: number) =>
      memory.compareAndSwap(key, before, value, ttl),
    ),
    delete: over((key: string) => memory.delete(key)),
    compareAndDelete: over((key: string, before: string) => memory.compareAndDelete(key, before)),
  }
}

describe('processes whose store is slow and loses requests and responses', () => {
  it('never hold a lease at the same time, and change a record one after the other', async () => {
    const random = seeded(seedOf('LEASES_SEED', 1))
    const held = new Set<Lease>()
    let acquired = 0
    let isOver = false
    const work = async (leases: Leases): Promise<void> => {
      while (!isOver) {
        await pause(random.below(TTL_MS / 2))
        const lease = await leases.acquire('poll', TTL_MS).catch(() => undefined)
        if (!lease) continue
        acquired++
        held.add(lease)
        for (let count = random.below(20); count > 0 && lease.isHeld; count--) {
          await pause(random.below(TTL_MS / 2))
          const text = JSON.stringify({ token: lease.token })
          const write = (before: string | undefined) => ({ result: before, write: { text, ttl: FOREVER } })
          await lease.update('record', write).catch(() => undefined)
        }
        await lease.release()
      }
    }
    const works = Array.from({ length: 4 }, () => work(new Leases(unreliable(store, random))))
    const steps = repetitions(20_000, 500_000)
    let last = 0
    for (let step = 0; step < steps; step++) {
      await pass(TTL_MS / 100)
      for (const lease of held) if (!lease.isHeld) held.delete(lease)
      if (held.size > 1) throw new Error(`at step ${step}, ${held.size} hold the lease`)
      const { token } = JSON.parse((await store.get('record')) ?? '{"token":0}') as { readonly token: number }
      if (token < last) throw new Error(`at step ${step}, the record went back`)
      last = token
    }
    isOver = true
    await pass(100 * TTL_MS)
    await Promise.all(works)
    expect(acquired).toBeGreaterThan(steps / 500)
    expect(last).toBeGreaterThan(0)
  })
})
