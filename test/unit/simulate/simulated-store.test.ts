import { beforeEach, describe, expect, it } from 'vitest'
import { Scheduler } from '../../simulate/scheduler.ts'
import { SimulatedData, SimulatedStore, type StoreFate } from '../../simulate/simulated-store.ts'
import { storeContract } from '../../support/store-contract.ts'

interface Opened {
  readonly scheduler: Scheduler
  readonly store: SimulatedStore
  readonly other: SimulatedStore
  readonly crashed: string[]
}

function open(fate: () => StoreFate): Opened {
  const scheduler = new Scheduler()
  const data = new SimulatedData(scheduler)
  const crashed: string[] = []
  const faults = {
    fate,
    crash: (process: { readonly name: string; isAlive: boolean }) => {
      process.isAlive = false
      crashed.push(process.name)
    },
  }
  const connection = { data, scheduler, faults }
  const [one, two] = [scheduler.process('one'), scheduler.process('two')]
  return {
    scheduler,
    store: new SimulatedStore(one, connection),
    other: new SimulatedStore(two, {
      ...connection,
      faults: { ...faults, fate: () => ({ there: 1, back: 1 }) },
    }),
    crashed,
  }
}

/** The store, whose events run as soon as something is asked of it. */
function driven({ scheduler, store }: Opened): SimulatedStore {
  let running: Promise<void> | undefined
  const drive = async (): Promise<void> => {
    while (await scheduler.step()) await Promise.resolve()
    running = undefined
  }
  return new Proxy(store, {
    get: (target, name: keyof SimulatedStore) => {
      const member: unknown = target[name]
      if (typeof member !== 'function') return member
      return (...args: readonly unknown[]): unknown => {
        const result: unknown = Reflect.apply(member, target, args)
        running ??= drive()
        return result
      }
    },
  })
}

async function run(scheduler: Scheduler): Promise<void> {
  while (await scheduler.step()) await Promise.resolve()
}

describe('the simulated store', () => {
  let opened = open(() => ({ there: 1, back: 1 }))
  let store = driven(opened)
  beforeEach(() => {
    opened = open(() => ({ there: 1, back: 1 }))
    store = driven(opened)
  })
  storeContract(() => ({
    store,
    pass: async (milliseconds) => {
      opened.scheduler.time += milliseconds
    },
  }))
})

describe('the way to the simulated store', () => {
  it.each([
    [{ there: 1, back: 1, lost: 'request' }, undefined],
    [{ there: 1, back: 1, lost: 'response' }, 'written'],
  ] as const)('fails after its timeout with %j, whether or not the write arrived', async (fate, found) => {
    const { scheduler, store, other } = open(() => fate)
    const put = store.put('key', 'written', 60_000).catch((error: unknown) => error)
    await run(scheduler)
    expect(await put).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(scheduler.time).toBeGreaterThanOrEqual(2000)
    const get = other.get('key')
    await run(scheduler)
    expect(await get).toBe(found)
  })

  it.each([
    ['before', undefined],
    ['after', 'written'],
  ] as const)('a process that ends %s a write gets no response', async (crash, found) => {
    const { scheduler, store, other, crashed } = open(() => ({ there: 1, back: 1, crash }))
    let isSettled = false
    const settle = (): void => {
      isSettled = true
    }
    store.put('key', 'written', 60_000).then(settle, settle)
    await run(scheduler)
    expect(crashed).toEqual(['one'])
    expect(isSettled).toBe(false)
    const get = other.get('key')
    await run(scheduler)
    expect(await get).toBe(found)
  })
})
