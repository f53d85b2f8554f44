import { expect, it } from 'vitest'
import { type Lease, Leases } from '../../src/durable/lease.ts'
import type { Store } from '../../src/store/store.ts'

/** A store under test, and how time passes for it and for timers: at least so many milliseconds. */
export interface StoreOfLeases {
  readonly store: Store
  /** The TTL of leases. Where time is real, it has to be longer than the machine may stall. */
  readonly ttlMs: number
  pass(milliseconds: number): Promise<unknown>
}

let last = 0

/** A name that no other test has. */
function fresh(name: string): string {
  return `${name}-${process.pid}-${Date.now()}-${++last}`
}

async function acquired(leases: Leases, name: string, ttlMs = 60_000): Promise<Lease> {
  const lease = await leases.acquire(name, ttlMs)
  if (!lease) throw new Error(`${name} is held`)
  return lease
}

/** The key of the sign of life of a lease. */
async function signOfLife(store: Store, name: string): Promise<string> {
  const claim = await store.get(`lease:${name}`)
  return `lease-alive:${/"id":"([^"]+)"/.exec(claim ?? '')?.[1]}`
}

/** The store of a process whose writes can be cut off. */
function cutOff(store: Store): { readonly store: Store; isCut: boolean } {
  const cut = {
    isCut: false,
    store: new Proxy(store, {
      get: (target, name: keyof Store) => {
        const member: unknown = target[name]
        if (typeof member !== 'function') return member
        return (...args: readonly unknown[]): unknown =>
          cut.isCut ? Promise.reject(new Error('away')) : member.apply(target, args)
      },
    }),
  }
  return cut
}

/** A membership that knows which processes have ended. */
function process_(id: string, ended: ReadonlySet<string>): { id: string; hasEnded(id: string): boolean } {
  return { id, hasEnded: (other) => ended.has(other) }
}

/** What leases do in every store. `open` gives the store of the running test. */
export function leaseContract(open: () => StoreOfLeases): void {
  it('one of many processes gets a lease, and another one after its release, with a larger token', async () => {
    const { store, ttlMs } = open()
    const name = fresh('many')
    const all = await Promise.all(Array.from({ length: 20 }, () => new Leases(store).acquire(name, ttlMs)))
    const [holder, ...more] = all.filter((each) => each !== undefined)
    expect(more).toEqual([])
    expect(holder?.isHeld).toBe(true)
    await holder?.release()
    expect([holder?.isHeld, holder?.lost.aborted]).toEqual([false, true])
    const next = await acquired(new Leases(store), name)
    expect(next.token).toBeGreaterThan(holder?.token ?? Infinity)
    await next.release()
  })

  it('a holder keeps its lease for longer than the TTL', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('long')
    const lease = await acquired(new Leases(store), name, ttlMs)
    for (let step = 0; step < 6; step++) {
      await pass(ttlMs / 3)
      expect(await new Leases(store).acquire(name, ttlMs)).toBeUndefined()
    }
    expect([lease.isHeld, lease.lost.aborted]).toEqual([true, false])
    await lease.release()
  })

  it('a holder without its store loses the lease before another one gets it', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('cut')
    const cut = cutOff(store)
    const lease = await acquired(new Leases(cut.store), name, ttlMs)
    cut.isCut = true
    let next: Lease | undefined
    while (!next) {
      await pass(ttlMs / 10)
      // Read before another one tries: it may get the lease only if this one has lost it.
      const wasLost = lease.lost.aborted && !lease.isHeld
      next = await new Leases(store).acquire(name, ttlMs)
      if (next) expect(wasLost || lease.lost.aborted).toBe(true)
    }
    expect(next.token).toBeGreaterThan(lease.token)
    cut.isCut = false
    await pass(ttlMs)
    expect([lease.isHeld, next.isHeld]).toEqual([false, true])
    await next.release()
  })

  it('a short loss of the store loses no lease', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('blip')
    const cut = cutOff(store)
    const lease = await acquired(new Leases(cut.store), name, ttlMs)
    cut.isCut = true
    await pass(ttlMs * 0.4)
    cut.isCut = false
    await pass(ttlMs)
    expect(lease.isHeld).toBe(true)
    expect(await new Leases(store).acquire(name, ttlMs)).toBeUndefined()
    await lease.release()
  })

  it('a sign of life that is gone is not renewed', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('gone')
    const lease = await acquired(new Leases(store), name, ttlMs)
    const sign = await signOfLife(store, name)
    await store.delete(sign)
    const next = await acquired(new Leases(store), name)
    await pass(ttlMs / 2)
    expect([lease.isHeld, next.isHeld]).toEqual([false, true])
    expect(await store.get(sign)).toBeUndefined()
    await next.release()
  })

  it('a holder whose process is known to have ended is replaced at once', async () => {
    const { store, ttlMs } = open()
    const name = fresh('ended')
    const ended = new Set<string>()
    const first = await acquired(new Leases(store, process_('one', ended)), name)
    const other = new Leases(store, process_('two', ended))
    expect(await other.acquire(name, ttlMs)).toBeUndefined()
    ended.add('one')
    const next = await acquired(other, name)
    expect(next.token).toBeGreaterThan(first.token)
    await next.release()
    await first.release()
  })

  it('a holder whose store lost everything loses its lease', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('lost')
    const lease = await acquired(new Leases(store), name, ttlMs)
    await store.delete(await signOfLife(store, name))
    await store.delete(`lease:${name}`)
    await pass(ttlMs / 2)
    expect(lease.lost.aborted).toBe(true)
    const next = await acquired(new Leases(store), name)
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
  })

  it('an older holder cannot change a record once a newer one has', async () => {
    const { store } = open()
    const [name, key] = [fresh('fence'), fresh('record')]
    const ended = new Set<string>()
    const old = await acquired(new Leases(store, process_('one', ended)), name)
    const count = (text: string | undefined) => {
      const next = Number(/"count":(\d+)/.exec(text ?? '')?.[1] ?? 0) + 1
      return { result: text, write: { text: `{"count":${next}}`, ttl: 60_000 } }
    }
    expect(await old.update(key, count)).toBeUndefined()
    expect(await old.update(key, count)).toBe('{"count":1}')
    ended.add('one')
    const next = await acquired(new Leases(store, process_('two', ended)), name)
    expect(await next.update(key, count)).toBe('{"count":2}')
    await expect(old.update(key, count)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(old.lost.aborted).toBe(true)
    expect(await store.get(key)).toBe(`{"count":3,"lease_token":${next.token}}`)
    await next.release()
    await expect(next.update(key, count)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(await store.get(key)).toBe(`{"count":3,"lease_token":${next.token}}`)
  })

  it('a job runs in one process at a time, and is taken over', async () => {
    const { store, ttlMs, pass } = open()
    const name = fresh('job')
    const working = new Set<number>()
    const tokens: number[] = []
    const stopped: number[] = []
    let elsewhere = 0
    const failures: unknown[] = []
    const works = [0, 1, 2].map((each) =>
      new Leases(store).whileHeld(name, ttlMs, {
        run: async (lease) => {
          expect(working.size).toBe(0)
          working.add(each)
          tokens.push(lease.token)
          await new Promise((resolve) => lease.lost.addEventListener('abort', resolve))
          // What has to be written at the end is still written as the holder.
          expect(lease.isHeld).toBe(true)
          working.delete(each)
        },
        onHeldElsewhere: () => void elsewhere++,
        onStop: async () => void stopped.push(each),
        onFailed: (error) => void failures.push(error),
      }),
    )
    const done = new Set<number>()
    while (done.size < works.length) {
      while (working.size === 0) await pass(ttlMs / 10)
      const [holder = 0] = working
      done.add(holder)
      await works[holder]?.stop()
    }
    await Promise.all(works.map(({ ended }) => ended))
    expect(failures).toEqual([])
    expect(tokens).toHaveLength(3)
    expect(tokens).toEqual(tokens.toSorted((one, other) => one - other))
    expect(stopped).toEqual([...done])
    expect(elsewhere).toBeGreaterThan(0)
    const after = await acquired(new Leases(store), name)
    await after.release()
  })

  it('a job that fails says so, and is started again under the same lease', async () => {
    const { store, ttlMs, pass } = open()
    const tokens: number[] = []
    const failures: unknown[] = []
    const failing = new Error('not now')
    const work = new Leases(store).whileHeld(fresh('failing'), ttlMs, {
      run: async ({ token }) => {
        tokens.push(token)
        throw failing
      },
      onStop: () => Promise.reject(failing),
      onFailed: (error) => void failures.push(error),
    })
    const ended = work.ended.then(
      () => 'done',
      () => 'failed',
    )
    for (let tries = 0; tries < 100 && tokens.length < 2; tries++) await pass(ttlMs / 10)
    await work.stop()
    expect(await ended).toBe('done')
    expect(tokens.length).toBeGreaterThan(1)
    expect(new Set(tokens).size).toBe(1)
    expect(failures).toEqual([...tokens, 'stop'].map(() => failing))
  })

  it('a job whose store cannot be used is not held elsewhere', async () => {
    const { store, ttlMs, pass } = open()
    const cut = cutOff(store)
    cut.isCut = true
    let elsewhere = 0
    let runs = 0
    const work = new Leases(cut.store).whileHeld(fresh('away'), ttlMs, {
      run: async () => void runs++,
      onHeldElsewhere: () => void elsewhere++,
    })
    await pass(ttlMs)
    expect([runs, elsewhere]).toEqual([0, 0])
    cut.isCut = false
    for (let tries = 0; tries < 100 && runs === 0; tries++) await pass(ttlMs / 10)
    expect(elsewhere).toBe(0)
    expect(runs).toBeGreaterThan(0)
    await work.stop()
  })

  it('a free lease is acquired also where nobody waits for it', async () => {
    const { store, ttlMs } = open()
    const lease = await new Leases(store).acquireWithin(fresh('at-once'), ttlMs, 0)
    expect(lease?.isHeld).toBe(true)
    await lease?.release()
  })

  it('only a JSON object is written under a lease, and gets the token', async () => {
    const { store } = open()
    const [lease, key] = [await acquired(new Leases(store), fresh('object')), fresh('record')]
    const write = (text: string) => lease.update(key, () => ({ result: text, write: { text, ttl: 60_000 } }))
    for (const text of ['', '[]', '"}', 'no}', '{} ', '1'])
      await expect(write(text)).rejects.toThrow(TypeError)
    expect(await store.get(key)).toBeUndefined()
    // @ts-expect-error: the token would go with the record, and an older holder could write it again.
    await expect(lease.update(key, () => ({ result: 0, write: 'remove' }))).rejects.toThrow(TypeError)
    await write('{ }')
    expect(await store.get(key)).toBe(`{ "lease_token":${lease.token}}`)
    await lease.release()
  })

  it('a job that ends early is started again under the same lease', async () => {
    const { store, ttlMs, pass } = open()
    const tokens: number[] = []
    const work = new Leases(store).whileHeld(fresh('again'), ttlMs, {
      run: async ({ token }) => void tokens.push(token),
    })
    while (tokens.length < 3) await pass(ttlMs / 10)
    await work.stop()
    expect(new Set(tokens).size).toBe(1)
  })
}
