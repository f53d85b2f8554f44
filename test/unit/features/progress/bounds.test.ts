// Everything that callers and servers can make grow has a bound. What is beyond it is refused, or left out and reported.
import { describe, expect, it, vi } from 'vitest'
import { anonymous } from '../../../../src/core/principal.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { encodeOperation, operationsOf } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import type { Json } from '../../../support/server/json.ts'
import {
  alice,
  asking,
  bob,
  failureOf,
  fieldsOf,
  older,
  OPERATION_ID,
  pendingServer,
  process,
  result,
  taking,
  taskIn,
} from './bench.ts'

const pass = fakeClock()
const MEGABYTE = 1024 ** 2

/** A call that takes two seconds. */
async function lasting(gateway: ReturnType<typeof process>, end: () => void, given: object = {}) {
  const outcome = gateway.make({ client: older, ...given })
  await pass(2000)
  end()
  return fieldsOf(await outcome)
}

describe('an outcome that is too large to keep', () => {
  const large = result('x'.repeat(9 * MEGABYTE))

  it('reaches its own caller, without an id that would promise it again', async () => {
    const pending = pendingServer()
    const gateway = process({ server: pending.server })
    const fields = await lasting(gateway, () => pending.end(large))
    expect(fields['content']).toEqual(fieldsOf(large)['content'])
    expect(fields['_meta']).toBeUndefined()
    const [record] = await gateway.records()
    expect(record).toMatchObject({ state: 'completed', failure: { code: 'PAYLOAD_TOO_LARGE' } })
    expect(record).not.toHaveProperty('result')
  })

  it('is reported by a task: the call was executed', async () => {
    const pending = pendingServer()
    const { make, ask } = process({ server: pending.server })
    const outcome = make({ client: older }, { task: {} })
    await pass(100)
    const { id } = taskIn(await outcome)
    pending.end(large)
    await pass(10)
    expect(fieldsOf(await ask('tasks/get', { taskId: id }))).toMatchObject({
      status: 'failed',
      statusMessage: 'The call was executed, but its result was too large to keep.',
      error: { data: { code: 'PAYLOAD_TOO_LARGE' } },
    })
    const failure = await failureOf(ask('operation/resume', { operation_id: id }))
    expect(failure).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      data: { suggestion: expect.stringContaining('again') },
    })
  })

  it('is left out once a caller has 64 MB; other callers have room', async () => {
    const pending = pendingServer()
    const gateway = process({ server: pending.server })
    const kept = async (principal: Json): Promise<boolean> => {
      const fields = await lasting(gateway, () => pending.end(result('x'.repeat(7 * MEGABYTE))), {
        principal,
      })
      return Object(fields['_meta'])[OPERATION_ID] !== undefined
    }
    const counted: boolean[] = []
    for (let count = 0; count < 10; count++) counted.push(await kept(alice))
    expect(counted).toEqual([...Array.from({ length: 9 }, () => true), false])
    expect(await kept(bob)).toBe(true)
  })

  it('is left out where the store takes the record only without it', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = (key, before, after, ttl) =>
      after.length > 1000 ? Promise.reject(new Error('too large')) : swap(key, before, after, ttl)
    const pending = pendingServer()
    const gateway = process({ server: pending.server, store })
    const outcome = gateway.make({ client: older })
    await pass(2000)
    pending.end(result('x'.repeat(2000)))
    await pass(6000)
    expect(fieldsOf(await outcome)).not.toHaveProperty('_meta')
    await pass(60_000)
    expect(await gateway.records()).toMatchObject([
      { state: 'completed', failure: { code: 'PAYLOAD_TOO_LARGE' } },
    ])
  })
})

describe('the operations of one caller', () => {
  /** A store with this number of ended operations of a caller. */
  async function storeWith(count: number): Promise<MemoryStore> {
    const store = new MemoryStore()
    const record = {
      expiresAt: Date.now() + 600_000,
      state: 'completed',
      owner: 'a',
      startedAt: 1,
      updatedAt: 1,
      upstream: 'one',
      tool: 't',
      principal: { id: 'alice' },
      id: 'an-id',
      requestId: 'r',
    } as const
    for (let index = 0; index < count; index++)
      await store.put(`${operationsOf('alice')}/${index}`, encodeOperation(record), 600_000)
    return store
  }

  it('are 2500 at most, running or kept: another task is refused, another call lasts without an id', async () => {
    const store = await storeWith(2500)
    const pending = pendingServer()
    const gateway = process({ server: pending.server, store })
    expect(await failureOf(gateway.make({ client: older }, { task: {} }))).toMatchObject({
      code: 'OVERLOADED',
      message: 'Too many operations are under way, or kept for this caller.',
    })
    expect(pending.calls).toEqual([])
    expect(await lasting(gateway, () => pending.end(result('done')))).toEqual({
      content: [{ type: 'text', text: 'done' }],
    })
    const other = gateway.make({ client: older, principal: bob }, { task: {} })
    await pass(100)
    expect(taskIn(await other).status).toBe('working')
  })

  it('take a bounded part of the memory, with their arguments: another task is refused', async () => {
    const pending = pendingServer()
    const gateway = process({ server: pending.server })
    const large = { name: 'echo', arguments: { text: 'x'.repeat(MEGABYTE) } }
    const tasks: unknown[] = []
    for (let count = 0; count < 30; count++) {
      const outcome = gateway
        .make({ client: older, principal: anonymous }, { ...large, task: {} })
        .catch((error: unknown) => error)
      await pass(100)
      tasks.push(await outcome)
    }
    const refused = tasks.filter((each) => each instanceof Error)
    expect(refused.length).toBeGreaterThan(5)
    expect(refused[0]).toMatchObject({
      code: 'OVERLOADED',
      extra: { suggestion: expect.stringContaining('ended') },
    })
    expect(tasks.length - refused.length).toBeGreaterThan(15)
    // Others have their own part.
    const other = gateway.make({ client: older, principal: bob }, { task: {} })
    await pass(100)
    expect(taskIn(await other).status).toBe('working')
  })

  it('have room again once some have expired', async () => {
    const store = await storeWith(2500)
    const { make } = process({ server: pendingServer().server, store })
    expect((await failureOf(make({ client: older }, { task: {} }))).code).toBe('OVERLOADED')
    await pass(601_000)
    const outcome = make({ client: older }, { task: {} })
    await pass(100)
    expect(taskIn(await outcome).status).toBe('working')
  })
})

describe('the input of a task', () => {
  it('is refused where the responses are larger than a megabyte together', async () => {
    const { make, ask } = process({ server: async () => asking(['q', 'r']) })
    const outcome = make({ client: older }, { task: {} })
    await pass(100)
    const { id } = taskIn(await outcome)
    const got = fieldsOf(await ask('tasks/get', { taskId: id }))
    const [first = '', second = ''] = Object.keys(Object(got['inputRequests']))
    const large = { action: 'accept', content: { text: 'x'.repeat(600_000) } }
    await ask('tasks/update', { taskId: id, inputResponses: { [first]: large } })
    const inputResponses = { [second]: large }
    const failure = await failureOf(ask('tasks/update', { taskId: id, inputResponses }))
    expect(failure).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', data: { details: { limit: MEGABYTE } } })
    const result = ask(
      'tasks/result',
      { taskId: id },
      { client: older, inputResponses: { [second]: { result: Payload.of(large) } } },
    )
    expect((await failureOf(result)).code).toBe('PAYLOAD_TOO_LARGE')
    expect(fieldsOf(await ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'input_required' })
  })

  it.each([
    ['more than a hundred requests', Array.from({ length: 101 }, (_none, index) => `q${index}`)],
    ['more than a megabyte', ['x'.repeat(MEGABYTE)]],
  ])('fails the task where a server asks for %s at once', async (_what, keys) => {
    const { make } = process({ server: async () => asking(keys) })
    expect((await failureOf(make({ client: older }, { task: {} }))).code).toBe('UPSTREAM_ERROR')
  })
})

describe('a store that does not answer', () => {
  it('leaves no record of a task behind that was refused because it may not be written', async () => {
    const store = new MemoryStore()
    const put = store.put.bind(store)
    store.put = async (key, value, ttl) => {
      await put(key, value, ttl)
      if (key.startsWith('operation:')) throw new Error('the response is lost')
    }
    const pending = pendingServer()
    const gateway = process({ server: pending.server, store })
    expect((await failureOf(gateway.make({ client: older }, { task: {} }))).code).toBe('SERVER_UNAVAILABLE')
    expect(pending.calls).toEqual([])
    await pass(1000)
    expect(await gateway.records()).toEqual([])
  })

  it('is not asked again about a call before it has answered', async () => {
    const store = new MemoryStore()
    const { make } = process({ server: pendingServer().server, store })
    void make({ client: taking })
    await pass(1500)
    const swap = vi.fn<typeof store.compareAndSwap>(() => new Promise(() => undefined))
    const get = vi.fn<typeof store.get>(store.get.bind(store))
    store.compareAndSwap = swap
    store.get = get
    await pass(60_000)
    expect(swap).toHaveBeenCalledTimes(1)
    // Until then it was read once a second.
    expect(get.mock.calls.length).toBeLessThan(25)
  })
})
