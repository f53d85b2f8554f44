import { spawn } from 'node:child_process'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { createMembership, Instance } from '../../../src/durable/members.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'

afterEach(() => void vi.useRealTimers())

describe('membership of gateways', () => {
  it('a gateway sees other live gateways once they are registered', async () => {
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    expect(one.id).not.toBe(two.id)
    await two.register()
    expect(await one.isAlive(two.id)).toBe(true)
    expect(await one.isAlive(one.id)).toBe(true)
    await two.close()
    expect(await one.isAlive(two.id)).toBe(false)
  })

  it('a gateway stays registered for its lifetime', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    await two.register()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await one.isAlive(two.id)).toBe(true)
    await two.close()
    await vi.advanceTimersByTimeAsync(60_000)
    expect((await store.get(`alive:${two.id}`)) === undefined).toBe(true)
  })

  it('a gateway stays registered in a replaced store until it leaves', async () => {
    vi.useFakeTimers()
    const [first, second] = [new MemoryStore(), new MemoryStore()]
    let current = first
    const moving = createMembership(() => current)
    const [before, after] = [createMembership(() => first), createMembership(() => second)]
    await moving.register()
    current = second
    await moving.register()
    await vi.advanceTimersByTimeAsync(60_000)
    expect([await before.isAlive(moving.id), await after.isAlive(moving.id)]).toEqual([true, true])
    moving.leave(first)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await first.get(`alive:${moving.id}`)).toBeUndefined()
    expect(await second.get(`alive:${moving.id}`)).toBe('1')
    await moving.close()
    expect(await second.get(`alive:${moving.id}`)).toBeUndefined()
  })

  const details = { version: '1.0.0', host: 'one.example', pid: 7, since: 1, state: 'serving' } as const

  it('a gateway has one term while others see it, and another one after a gap', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    expect(one.term).toBeUndefined()
    await one.describe(details)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(one.term).toBe(1)
    const put = vi.spyOn(store, 'put').mockRejectedValue(new Error('away'))
    const swap = vi.spyOn(store, 'compareAndSwap').mockRejectedValue(new Error('away'))
    // It stops before the others can miss it.
    for (let second = 0; one.term !== undefined; second++) {
      expect(await two.find(one.id)).toBeDefined()
      expect(second).toBeLessThan(10)
      await vi.advanceTimersByTimeAsync(1000)
    }
    put.mockRestore()
    swap.mockRestore()
    await vi.advanceTimersByTimeAsync(3000)
    expect(one.term).toBe(2)
    // As after a stop of the process: nothing ran in the meantime.
    vi.setSystemTime(Date.now() + 20_000)
    expect(one.term).toBeUndefined()
    await vi.advanceTimersByTimeAsync(3000)
    expect(one.term).toBe(3)
    await one.close()
  })

  it('a gateway begins another term if the others cannot find it', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const one = createMembership(() => store)
    await one.describe(details)
    await store.delete(`member/${one.id}`)
    await vi.advanceTimersByTimeAsync(3000)
    expect(one.term).toBe(2)
    await one.describe({ ...details, state: 'draining' })
    expect(one.term).toBe(2)
    await one.describe(undefined)
    expect(await store.get(`member/${one.id}`)).toBeUndefined()
    await one.close()
  })

  it('a gateway whose store was away when it started is found once the store is back', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    vi.spyOn(store, 'put').mockRejectedValueOnce(new Error('away'))
    await expect(one.describe(details)).rejects.toThrow('away')
    await vi.advanceTimersByTimeAsync(3000)
    expect(await two.find(one.id)).toMatchObject(details)
    expect(one.term).toBe(1)
    await one.close()
  })

  it('gateways tell the others where they are, and when that changes', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    await one.describe({ ...details, address: 'unix:/run/one' })
    await two.describe({ ...details, since: 0 })
    expect((await one.list()).map(({ id }) => id)).toEqual([two.id, one.id])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await two.find(one.id)).toEqual({ ...details, id: one.id, address: 'unix:/run/one' })
    await one.describe({ ...details, state: 'draining' })
    expect(await two.find(one.id)).toMatchObject({ state: 'draining', address: undefined })
    await one.close()
    expect(await two.find(one.id)).toBeUndefined()
    expect(await two.list()).toHaveLength(1)
    await two.close()
  })

  it.each(['null', '{', '[]', '{"version":1}', '{"version":"1","host":"h","pid":1,"since":1,"state":"odd"}'])(
    'what a gateway tells is ignored if it cannot be read: %s',
    async (text) => {
      const store = new MemoryStore()
      const membership = createMembership(() => store)
      await store.put('member/other', text, 10_000)
      expect(await membership.list()).toEqual([])
      expect(await membership.find('other')).toBeUndefined()
      await membership.close()
    },
  )

  it('the end of a process on the same host is detected immediately', async () => {
    const store = new MemoryStore()
    const own = createMembership(() => store)
    const child = spawn(process.execPath, ['-e', ''])
    const { pid } = child
    await new Promise((resolve) => child.on('exit', resolve))
    const [, , ...place] = own.id.split('.')
    const gone = ['0123456789abcdef', pid, ...place].join('.')
    await store.put(`alive:${gone}`, '1', 10_000)
    expect(await own.isAlive(gone)).toBe(false)
    // An earlier process with the same pid whose last heartbeat is recent.
    const before = ['0123456789abcdef', process.pid, ...place].join('.')
    await store.put(`alive:${before}`, '1', 10_000)
    expect(await own.isAlive(before)).toBe(false)
  })

  it('no gateway counts as ended while the store takes no writes, nor before it can have sent another heartbeat', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    let isFull = false
    const put = async (...given: Parameters<MemoryStore['put']>): Promise<void> => {
      if (isFull) throw new Error('it is full')
      await store.put(...given)
    }
    const full: Store = Object.assign(Object.create(store) as Store, {
      put,
      get: (key: string) => store.get(key),
      delete: (key: string) => store.delete(key),
    })
    const [own, other] = [createMembership(() => full), createMembership(() => full)]
    await Promise.all([own.register(), other.register()])
    isFull = true
    await vi.advanceTimersByTimeAsync(30_000)
    expect(await store.get(`alive:${other.id}`)).toBeUndefined()
    expect(await own.isAlive(other.id)).toBe(true)
    isFull = false
    await vi.advanceTimersByTimeAsync(1)
    expect(await own.isAlive(other.id)).toBe(true)
    await other.close()
    await vi.advanceTimersByTimeAsync(15_000)
    expect(await own.isAlive(other.id)).toBe(false)
    await own.close()
  })

  it('a process on another host is considered alive until its last heartbeat expires', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const own = createMembership(() => store)
    const far = `0123456789abcdef.${process.pid}.elsewhere`
    await store.put(`alive:${far}`, '1', 10_000)
    expect(await own.isAlive(far)).toBe(true)
    vi.advanceTimersByTime(10_001)
    expect(await own.isAlive(far)).toBe(false)
  })

  it('other gateways are considered alive while the store is unavailable', async () => {
    const store = new MemoryStore()
    store.get = () => Promise.reject(new Error('away'))
    expect(await createMembership(() => store).isAlive('x.1.elsewhere')).toBe(true)
  })

  it('a failed registration is repeated, and nothing is written before the first', async () => {
    const store = new MemoryStore()
    const put = vi.spyOn(store, 'put').mockRejectedValueOnce(new Error('away'))
    const own = createMembership(() => store)
    expect(put).not.toHaveBeenCalled()
    await expect(own.register()).rejects.toThrow('away')
    await own.register()
    await own.register()
    expect(put).toHaveBeenCalledTimes(2)
    await own.close()
  })
})

describe('instances of a gateway', () => {
  const announcement = (store: MemoryStore) => ({ store, keyPrefix: 'owner:', ttlMs: 30_000 })

  it('the next instance of a gateway sees when the one before has ended', async () => {
    const membership = createMembership(() => new MemoryStore())
    const [old, next] = [new Instance(membership, '#'), new Instance(membership, '#')]
    expect([await next.isAlive(old.id), await old.isAlive(next.id)]).toEqual([true, true])
    await old.end()
    expect([await next.isAlive(old.id), await old.isAlive(next.id)]).toEqual([false, true])
    expect(await next.isAlive('nobody')).toBe(false)
  })

  it('an instance that is announced is alive for other gateways until it ends or is not renewed', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const [one, two] = [createMembership(() => store), createMembership(() => store)]
    const [mine, other] = [
      new Instance(one, '/', announcement(store)),
      new Instance(two, '/', announcement(store)),
    ]
    const put = vi.spyOn(store, 'put')
    await other.register()
    await other.register()
    expect(put.mock.calls.filter(([key]) => key === `owner:${other.id}`)).toHaveLength(1)
    expect(await mine.isAlive(other.id)).toBe(true)
    await vi.advanceTimersByTimeAsync(20_000)
    await other.register()
    await vi.advanceTimersByTimeAsync(20_000)
    expect(await mine.isAlive(other.id)).toBe(true)
    await vi.advanceTimersByTimeAsync(20_000)
    expect(await mine.isAlive(other.id)).toBe(false)
    await other.register()
    expect(await mine.isAlive(other.id)).toBe(true)
    await other.end()
    expect(await mine.isAlive(other.id)).toBe(false)
    await Promise.all([one.close(), two.close()])
  })
})
