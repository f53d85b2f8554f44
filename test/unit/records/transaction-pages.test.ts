import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { readJson, asObject } from '../../../src/core/json/json.ts'
import {
  type Step,
  transactionKey,
  Transactions,
  type Transition,
} from '../../../src/records/transactions.ts'
import {
  committed,
  newTransaction,
  rollingBack,
  stepEnded,
  stepLost,
  stepRemoved,
  stepStarted,
} from '../../../src/records/transitions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'

const principal = { id: 'ann' }
const RETENTION_MS = 1000
const key = transactionKey('ann', 't')

function begun(lifetime = 60_000) {
  return newTransaction({ id: 't', principal, timeout: 1000, lifetime, now: 0 })
}

function step(id: string, runner = 'me'): Step {
  const about = { upstream: 'one', tool: 'put', kind: 'write', status: 'pending' } as const
  return { id, deed: `deed of ${id} by ${runner}`, runner, ...about }
}

const start = (id: string, runner?: string): Transition =>
  stepStarted(step(id, runner), { maxSteps: 200, now: 1 })
const end = (id: string): Transition => stepEnded(id, { status: 'ok' }, 1)

/** A store that keeps what passes through it. */
function counting(store: Store) {
  const seen = { accesses: 0, sent: 0, keys: new Set<string>() }
  const proxy = new Proxy(store, {
    get: (of, member) => {
      const found: unknown = Reflect.get(of, member, of)
      if (typeof found !== 'function') return found
      return (...args: unknown[]): unknown => {
        seen.accesses++
        for (const each of args) if (typeof each === 'string') seen.sent += each.length
        if (member === 'put') seen.keys.add(String(args[0]))
        return Reflect.apply(found, of, args)
      }
    },
  })
  return { proxy, seen }
}

const moves = fc.oneof(
  { weight: 8, arbitrary: fc.nat(40).map((id) => [start(`s${id}`), end(`s${id}`)]) },
  {
    weight: 2,
    arbitrary: fc
      .nat(40)
      .map((id) => [
        start(`s${id}`),
        stepEnded(`s${id}`, { status: 'failed', isUnsent: true, error: { code: 'X' } }, 1),
      ]),
  },
  fc.nat(40).map((id) => [start(`s${id}`), stepRemoved(`s${id}`, 1)]),
  fc.nat(40).map((id) => [start(`s${id}`), stepLost(step(`s${id}`), 1)]),
)

it('a long transaction is for every process what the transitions make of it, also after it has ended', async () => {
  const endings = fc.constantFrom(committed(2), rollingBack('why'))
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(moves, fc.nat(1)), { minLength: 10, maxLength: 60 }),
      endings,
      async (steps, ending) => {
        const store = new MemoryStore()
        const processes = [new Transactions(store, RETENTION_MS), new Transactions(store, RETENTION_MS)]
        let model = begun()
        await processes[0]?.open(model)
        const apply = async (transition: Transition, by: number): Promise<void> => {
          const changed = processes[by]?.change(key, transition)
          try {
            model = transition(model)
          } catch (error) {
            if (!(error instanceof GatewayError)) throw error
            await expect(changed).rejects.toMatchObject({ code: error.code })
            return
          }
          expect(await changed).toEqual(model)
        }
        for (const [transitions, by] of steps) for (const each of transitions) await apply(each, by)
        for (const each of processes) expect(await each.find(key)).toEqual(model)
        await apply(ending, 0)
        for (const each of [...processes, new Transactions(store, RETENTION_MS)])
          expect(await each.find(key)).toEqual(model)
        expect(asObject(readJson((await store.get(key)) ?? ''))).toHaveProperty('steps')
      },
    ),
    { numRuns: 40 },
  )
})

it('the hundredth step of a transaction writes no more than the tenth, in as many accesses', async () => {
  const { proxy, seen } = counting(new MemoryStore())
  const transactions = new Transactions(proxy, RETENTION_MS)
  await transactions.open(begun())
  const sent: number[] = []
  const accesses: number[] = []
  for (let number = 100; number < 220; number++) {
    const before = { ...seen }
    await transactions.change(key, start(`s${number}`))
    await transactions.change(key, end(`s${number}`))
    sent.push(seen.sent - before.sent)
    accesses.push(seen.accesses - before.accesses)
  }
  const sum = (from: number, list: readonly number[]): number =>
    list.slice(from, from + 8).reduce((total, each) => total + each, 0)
  expect(sum(96, sent)).toBeLessThanOrEqual(sum(9, sent))
  expect(sum(96, accesses)).toBe(8 * 2 + 1)
})

it('of changes that race, none is lost, and no page is left of those that came too late', async () => {
  const { proxy, seen } = counting(new MemoryStore())
  const processes = [1, 2, 3].map(() => new Transactions(proxy, RETENTION_MS))
  await processes[0]?.open(begun())
  for (let round = 0; round < 20; round++) {
    const id = `s${round}`
    const started = await Promise.allSettled(
      processes.map((each, by) => each.change(key, start(id, `worker ${by}`))),
    )
    expect(started.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await Promise.allSettled(processes.map((each) => each.change(key, end(id))))
  }
  const found = await new Transactions(proxy, RETENTION_MS).find(key)
  expect(found?.steps.map(({ id }) => id)).toEqual(Array.from({ length: 20 }, (_each, index) => `s${index}`))
  const left = await Promise.all([...seen.keys].map((each) => proxy.get(each)))
  expect(left.filter((text) => text !== undefined)).toHaveLength(2)
})

it('a transaction whose earlier steps are gone is none: a rollback would undo only a part of it', async () => {
  const { proxy, seen } = counting(new MemoryStore())
  const transactions = new Transactions(proxy, RETENTION_MS)
  await transactions.open(begun())
  for (let number = 0; number < 20; number++) {
    await transactions.change(key, start(`s${number}`))
    await transactions.change(key, end(`s${number}`))
  }
  const [first = ''] = seen.keys
  await proxy.delete(first)
  const other = new Transactions(proxy, RETENTION_MS)
  expect(await other.find(key)).toBeUndefined()
  await expect(other.change(key, committed(2))).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  expect(await other.list()).toEqual([])
})

it('an open transaction that an earlier version wrote continues, and is read by that version once it has ended', async () => {
  const fixture = join(import.meta.dirname, '../../fixtures/transaction-open/record.json')
  const text = readFileSync(fixture, 'utf8').trim()
  const moving = transactionKey('ann', 'move house')
  const store = new MemoryStore()
  await store.put(moving, text, 60_000)
  const transactions = new Transactions(store, RETENTION_MS)
  const steps = Array.from({ length: 12 }, (_each, index) => `step-${index + 1}`)
  expect((await transactions.find(moving))?.steps.map(({ id }) => id)).toEqual(steps)
  await transactions.change(moving, end('step-12'))
  // Versions that know no pages take this for no transaction.
  expect(asObject(readJson((await store.get(moving)) ?? ''))).not.toHaveProperty('steps')
  await transactions.change(moving, start('step-5'))
  const again = [...steps.filter((id) => id !== 'step-5'), 'step-5']
  expect((await transactions.find(moving))?.steps.map(({ id }) => id)).toEqual(again)
  await transactions.change(moving, rollingBack('why'))
  const after = asObject(readJson((await store.get(moving)) ?? ''))
  expect(after).toMatchObject({ status: 'rolling_back', description: 'twelve boxes' })
  expect(after.steps).toHaveLength(12)
})
