import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { begun, codeOf, Place, put, SagaGateway } from '../../../support/saga-world.ts'

/** A store that fails the first change of a transaction to such a text, before or after it is made. */
class FailingStore extends MemoryStore {
  readonly #when: 'before' | 'after'
  #text: string | undefined

  constructor(when: 'before' | 'after', text: string) {
    super()
    this.#when = when
    this.#text = text
  }

  override async compareAndSwap(...[key, before, value, ttl]: Parameters<MemoryStore['compareAndSwap']>) {
    const isFailing = key.startsWith('transaction/') && this.#text !== undefined && value.includes(this.#text)
    if (!isFailing) return super.compareAndSwap(key, before, value, ttl)
    this.#text = undefined
    if (this.#when === 'after') await super.compareAndSwap(key, before, value, ttl)
    throw new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be reached.')
  }
}

it.each([
  ['the end of a step is not recorded', 'before', '"status":"ok"', 'OUTCOME_UNKNOWN'],
  [
    'the start of a step is recorded, and the store does not say so',
    'after',
    '"status":"pending"',
    'SERVER_UNAVAILABLE',
  ],
] as const)('if %s, another gateway can roll the transaction back', async (_title, when, text, code) => {
  const places = { one: new Place() }
  const store = new FailingStore(when, text)
  const gateway = await begun({ places, store })
  expect(codeOf(await gateway.step('t', ...put('a')))).toBe(code)
  const other = new SagaGateway({ places, store })
  expect(await other.ask('rollback', { transaction_id: 't' })).toMatchObject({ status: 'rolled_back' })
  expect(places.one.things.size).toBe(0)
})

/** A store whose response to the start of the first step arrives late. */
class LateStore extends MemoryStore {
  #isFirst = true
  readonly late = Promise.withResolvers<void>()
  readonly recorded = Promise.withResolvers<void>()

  override async compareAndSwap(...[key, before, value, ttl]: Parameters<MemoryStore['compareAndSwap']>) {
    const isStart = key.startsWith('transaction/') && value.includes('"status":"pending"')
    const done = await super.compareAndSwap(key, before, value, ttl)
    if (!isStart || !this.#isFirst) return done
    this.#isFirst = false
    this.recorded.resolve()
    await this.late.promise
    return done
  }
}

it('a rollback in the same gateway waits for a step whose start is being recorded', async () => {
  const places = { one: new Place() }
  const store = new LateStore()
  const gateway = await begun({ places, store })
  const step = gateway.step('t', ...put('a'))
  await store.recorded.promise
  const rolledBack = gateway.ask('rollback', { transaction_id: 't' })
  // Longer than the pauses between two looks at the step.
  await pause(300)
  store.late.resolve()
  expect(codeOf(await step)).toBeUndefined()
  expect(await rolledBack).toMatchObject({ status: 'rolled_back' })
  expect(places.one.things.size).toBe(0)
})
