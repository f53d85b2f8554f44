import { beforeEach, describe, expect, it, vi } from 'vitest'
import { type Lease, Leases } from '../../../src/durable/lease.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { leaseContract } from '../../support/lease-contract.ts'

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
