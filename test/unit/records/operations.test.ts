import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import type { InputRequest, InputResponse } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { createSeal } from '../../../src/core/seal.ts'
import {
  decodeOperation,
  encodeOperation,
  isEnded,
  operationName,
  type OperationRecord,
  type OperationState,
  OperationIds,
  Operations,
  operationsOf,
} from '../../../src/records/operations.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const states: readonly OperationState[] = [
  'working',
  'input_required',
  'completed',
  'failed',
  'cancelled',
  'unknown',
]

const record: OperationRecord = {
  expiresAt: 61_000,
  id: 'the-id-of-its-caller',
  state: 'working',
  owner: 'o.1.here',
  startedAt: 1000,
  updatedAt: 1000,
  upstream: 'one',
  tool: 't',
  principal: { id: 'alice' },
  requestId: 'r1',
}

/** The text of an object that does not survive being parsed and written again. */
const exactText = fc
  .tuple(fc.bigInt({ min: 2n ** 60n, max: 2n ** 120n }), fc.json())
  .map(([large, any]) => `{"n":1.0, "large":${large},"any":${any}}`)

const inputKey = fc
  .tuple(fc.integer({ min: 1, max: 10 }), fc.string())
  .map(([round, key]) => `${round}.${key}`)

/** The texts of all parts of a record that keep theirs. */
function textsOf({ request, input, result, failure }: OperationRecord) {
  return {
    params: request?.params.text,
    result: result?.text,
    relayed: failure?.extra.relayed?.text,
    requests: Object.entries(input?.requests ?? {}).map(([key, { method, params }]) => [
      key,
      method,
      params?.text,
    ]),
    responses: Object.entries(input?.responses ?? {}).map(([key, response]) => [
      key,
      'result' in response ? response.result.text : { error: response.error.text },
    ]),
  }
}

describe('the ids of operations while the keys in the store are not known', () => {
  it('cannot be distinguished from forged ones, and new ones are not lasting', () => {
    let isShared = false
    const ids = (own: Buffer): OperationIds =>
      new OperationIds(
        createSeal(
          () => 0,
          () => [own],
          () => isShared,
        ),
        'o.1.here',
      )
    const alice = { id: 'alice' }
    const { id } = ids(Buffer.alloc(32, 2)).mint(alice)
    const here = ids(Buffer.alloc(32, 1))
    expect(here.areLasting).toBe(false)
    const forged = Buffer.alloc(60).toString('base64url')
    for (const each of [id, forged]) {
      expect(() => here.keyOf(alice, each)).toThrow(expect.objectContaining({ code: 'SERVER_UNAVAILABLE' }))
    }
    const own = here.mint(alice)
    expect(here.keyOf(alice, own.id)).toBe(own.key)
    isShared = true
    expect(here.areLasting).toBe(true)
    for (const each of [id, forged]) expect(here.keyOf(alice, each)).toBeUndefined()
  })
})

describe('the text of an operation', () => {
  it('round-trips every part of the record, and keeps the texts of params, results, questions and responses', () => {
    const arbitrary = fc.record({
      state: fc.constantFrom(...states),
      tool: fc.string(),
      principal: fc.string(),
      times: fc.tuple(fc.nat(), fc.nat(), fc.nat()),
      taskTtl: fc.option(fc.nat(), { nil: undefined }),
      message: fc.option(fc.string(), { nil: undefined }),
      session: fc.option(fc.string(), { nil: undefined }),
      params: fc.option(exactText, { nil: undefined }),
      result: fc.option(exactText, { nil: undefined }),
      relayed: fc.option(exactText, { nil: undefined }),
      round: fc.integer({ min: 1, max: 10 }),
      questions: fc.option(fc.dictionary(inputKey, fc.option(exactText, { nil: undefined })), {
        nil: undefined,
      }),
      responses: fc.dictionary(inputKey, fc.tuple(fc.boolean(), exactText)),
    })
    fc.assert(
      fc.property(arbitrary, (given) => {
        const { params, result, relayed, questions, times, taskTtl, message, session } = given
        const requests = Object.entries(questions ?? {}).map(([key, text]): [string, InputRequest] => {
          return [
            key,
            { method: 'elicitation/create', ...(text !== undefined && { params: Payload.text(text) }) },
          ]
        })
        const responses = Object.entries(given.responses).map(
          ([key, [isError, text]]): [string, InputResponse] => {
            return [key, isError ? { error: Payload.text(text) } : { result: Payload.text(text) }]
          },
        )
        const written: OperationRecord = {
          ...record,
          state: given.state,
          tool: given.tool,
          principal: { id: given.principal, scopes: ['read:one'] },
          expiresAt: times[0],
          startedAt: times[1],
          updatedAt: times[2],
          ...(taskTtl !== undefined && { taskTtl }),
          ...(message !== undefined && { message }),
          ...(session !== undefined && { session }),
          ...(params !== undefined && {
            request: {
              params: Payload.text(params),
              meta: { a: [1] },
              client: { era: 'modern', revision: '2026-07-28', capabilities: { x: {} }, info: { name: 'c' } },
              requestState: { upstream_task: { id: 'u1' } },
            },
          }),
          ...(questions && {
            input: {
              round: given.round,
              requests: Object.fromEntries(requests),
              responses: Object.fromEntries(responses),
            },
          }),
          ...(result !== undefined && { result: Payload.text(result) }),
          ...(relayed !== undefined && {
            failure: new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.text(relayed), field: 'f' }),
          }),
        }
        const read = decodeOperation(encodeOperation(written))
        expect(read && textsOf(read)).toEqual(textsOf(written))
        const { request, input, result: _result, failure, ...head } = read ?? record
        const { request: asked, input: _input, result: _own, failure: _failure, ...own } = written
        expect(head).toEqual(own)
        expect(input?.round).toBe(questions && given.round)
        expect(request && { ...request, params: 0 }).toEqual(asked && { ...asked, params: 0 })
        if (relayed !== undefined) expect(failure).toMatchObject({ code: 'UPSTREAM_ERROR', message: 'no' })
        else expect(failure).toBeUndefined()
        expect(encodeOperation(read ?? record)).toBe(encodeOperation(written))
      }),
    )
  })

  it('a client without a session and info is read as it was written', () => {
    const client = { era: 'legacy', revision: '2025-11-25', capabilities: {}, session: 's1' } as const
    const request = { params: Payload.of({ name: 't' }), meta: {}, client, requestState: {} }
    expect(decodeOperation(encodeOperation({ ...record, request }))?.request?.client).toEqual(client)
  })

  it.each([
    '',
    'x',
    'null',
    '[]',
    '{}',
    '"working"',
    JSON.stringify({ ...record, state: 'done' }),
    JSON.stringify({ ...record, state: undefined }),
    JSON.stringify({ ...record, owner: 1 }),
    JSON.stringify({ ...record, id: undefined }),
    JSON.stringify({ ...record, upstream: undefined }),
    JSON.stringify({ ...record, requestId: null }),
    JSON.stringify({ ...record, principal: 'alice' }),
    JSON.stringify({ ...record, principal: {} }),
    JSON.stringify({ ...record, expiresAt: '61000' }),
    JSON.stringify({ ...record, updatedAt: null }),
    encodeOperation(record).slice(0, -1),
  ])('%j is not an operation', (text) => {
    expect(decodeOperation(text)).toBeUndefined()
  })

  it('any text that is no record decodes to nothing, and decoding never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(decodeOperation(text)).toBeUndefined()
      }),
    )
  })

  it('parts that another program wrote wrongly are read as far as they go', () => {
    const text = JSON.stringify({
      ...record,
      request: { client: 1, meta: [], requestState: 's' },
      input: { round: 'x', requests: { q: {} }, responses: { q: {}, r: { result: { a: 1 } } } },
      failure: { code: 'NO_SUCH_CODE', message: 'm' },
    })
    const read = decodeOperation(text)
    expect(read?.request).toMatchObject({ meta: {}, requestState: {}, client: { era: 'legacy' } })
    expect(read?.input?.round).toBe(1)
    expect(Object.keys(read?.input?.responses ?? {})).toEqual(['r'])
    expect(read?.failure).toBeUndefined()
  })

  it('an operation has ended unless it works or waits for input', () => {
    expect(states.filter((state) => isEnded({ state }))).toEqual([
      'completed',
      'failed',
      'cancelled',
      'unknown',
    ])
  })
})

describe('the id of an operation', () => {
  const seal = createSeal(() => 0)
  const ids = new OperationIds(seal, 'token.1.here')
  const [alice, bob] = [{ id: 'alice' }, { id: 'bob' }]

  it('names a record of its principal in at most 200 characters, whatever the principal and the process', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 500 }), fc.string({ maxLength: 300 }), (id, place) => {
        const { id: minted, key } = new OperationIds(seal, `0123456789abcdef.4194304.${place}`).mint({ id })
        expect(minted.length).toBeLessThanOrEqual(200)
        expect(minted).toMatch(/^[\w-]+$/)
        expect(key.startsWith(`${operationsOf(id)}/`)).toBe(true)
        expect(ids.keyOf({ id }, minted)).toBe(key)
      }),
    )
  })

  it('is another one for each operation, and does not show the key of the record', () => {
    const minted = Array.from({ length: 100 }, () => ids.mint(alice))
    expect(new Set(minted.map(({ id }) => id)).size).toBe(100)
    expect(new Set(minted.map(({ key }) => key)).size).toBe(100)
    for (const { id, key } of minted) {
      expect(id).not.toContain(operationName(key))
      expect(Buffer.from(id, 'base64url').toString('latin1')).not.toContain(operationName(key))
    }
  })

  it('names nothing for another principal', () => {
    const { id } = ids.mint(alice)
    expect(ids.keyOf(bob, id)).toBeUndefined()
    expect(ids.keyOf(anonymous, id)).toBeUndefined()
  })

  it('names nothing where one of its characters was changed', () => {
    const { id } = ids.mint(alice)
    fc.assert(
      fc.property(
        fc.nat({ max: id.length - 2 }),
        fc.constantFrom('A', 'B', '0', '_', '!'),
        (at, character) => {
          fc.pre(id[at] !== character)
          const forged = id.slice(0, at) + character + id.slice(at + 1)
          expect(ids.keyOf(alice, forged)).toBeUndefined()
        },
      ),
    )
  })

  it.each([
    ['empty', ''],
    ['of its name alone', operationName(ids.mint(alice).key)],
    ['the key of the record', ids.mint(alice).key],
    [
      'sealed with another key',
      new OperationIds(
        createSeal(() => 0),
        'token',
      ).mint(alice).id,
    ],
    ['sealed for another purpose', seal.close(['o', 'name'], { purpose: 'task', binding: 'alice' }, 0)],
    ['of something else than a list', seal.close('name', { purpose: 'operation', binding: 'alice' }, 0)],
    ['of a list without a name', seal.close(['o', 1], { purpose: 'operation', binding: 'alice' }, 0)],
    ['spelled in another way', `${ids.mint(alice).id}=`],
    ['interrupted', ids.mint(alice).id.replace(/^.{10}/, '$&.')],
    ['longer than 200 characters', `${ids.mint(alice).id}${'='.repeat(200)}`],
  ])('names nothing where it is %s', (_what, id) => {
    expect(ids.keyOf(alice, id)).toBeUndefined()
  })

  it('is not opened at all where it is too long', () => {
    const open = vi.fn<typeof seal.open>(() => ({ kind: 'invalid' }))
    const watched = new OperationIds({ ...seal, open }, 'token')
    expect(watched.keyOf(alice, 'A'.repeat(201))).toBeUndefined()
    expect(open).not.toHaveBeenCalled()
    watched.keyOf(alice, 'A'.repeat(200))
    expect(open).toHaveBeenCalledTimes(1)
  })
})

describe('operations in a store', () => {
  const key = `${operationsOf('alice')}/one`

  function atTime(now = 1000) {
    const store = new MemoryStore()
    const clock = { now }
    return { store, clock, operations: new Operations(store, () => clock.now) }
  }

  it('an operation is found as it was created, and not once it is deleted', async () => {
    const { operations, store } = atTime()
    expect(await operations.find(key)).toBeUndefined()
    const created = await operations.create(key, record)
    const found = await operations.find(key)
    expect(found).toEqual({ key, record })
    expect((await store.get(key))?.length).toBe(created)
    expect(found?.record).toEqual(record)
    await operations.delete(key)
    expect(await operations.find(key)).toBeUndefined()
  })

  it('a text that is no record is not found, and cannot be changed', async () => {
    const { operations, store } = atTime()
    await store.put(key, 'junk', 10_000)
    const change = vi.fn<() => OperationRecord>(() => record)
    expect(await operations.find(key)).toBeUndefined()
    expect(await operations.change(key, change)).toBeUndefined()
    expect(change).not.toHaveBeenCalled()
    expect(await store.get(key)).toBe('junk')
  })

  it('a change resolves with the record there is then', async () => {
    const { operations } = atTime()
    expect(await operations.change(key, () => record)).toBeUndefined()
    await operations.create(key, record)
    const changed = await operations.change(key, (before) => ({ ...before, state: 'failed' }))
    expect(changed?.state).toBe('failed')
    expect((await operations.find(key))?.record.state).toBe('failed')
    expect((await operations.change(key, () => undefined))?.state).toBe('failed')
  })

  it('of two changes at a time the later one sees what the first one wrote', async () => {
    const { operations, store } = atTime()
    await operations.create(key, record)
    const other = new Operations(store, () => 1000)
    const seen: (string | undefined)[] = []
    const append = (word: string) => (before: OperationRecord) => {
      seen.push(before.message)
      return { ...before, message: `${before.message ?? ''}${word}` }
    }
    await Promise.all([
      operations.change(key, append('a')),
      other.change(key, append('b')),
      operations.change(key, append('c')),
    ])
    const { message } = (await operations.find(key))?.record ?? {}
    expect([...(message ?? '')].toSorted()).toEqual(['a', 'b', 'c'])
    // Each one that lost was asked again.
    expect(seen.length).toBeGreaterThan(3)
  })

  it('of two processes that end an operation one succeeds, and the other learns how it ended', async () => {
    const { operations, store } = atTime()
    await operations.create(key, record)
    const end = (state: OperationState) => (before: OperationRecord) =>
      isEnded(before) ? undefined : { ...before, state }
    const [one, other] = await Promise.all([
      operations.change(key, end('cancelled')),
      new Operations(store, () => 1000).change(key, end('completed')),
    ])
    expect(one?.state).toBe(other?.state)
    expect((await operations.find(key))?.record.state).toBe(one?.state)
  })

  it('a change that always loses fails', async () => {
    const { operations, store } = atTime()
    await operations.create(key, record)
    store.compareAndSwap = async () => false
    await expect(operations.change(key, (before) => before)).rejects.toThrow('changed too often')
  })

  it('the store gets the lifetime of a record when it is created and when it changes', async () => {
    const { operations, store, clock } = atTime()
    const [put, swap] = [vi.spyOn(store, 'put'), vi.spyOn(store, 'compareAndSwap')]
    await operations.create(key, record)
    expect(put).toHaveBeenCalledWith(key, encodeOperation(record), 60_000)
    clock.now = 21_000
    await operations.change(key, (before) => ({ ...before, message: 'm' }))
    expect(swap.mock.lastCall?.[3]).toBe(40_000)
    await operations.change(key, (before) => ({ ...before, expiresAt: 121_000 }))
    expect(swap.mock.lastCall?.[3]).toBe(100_000)
    clock.now = 500_000
    await operations.change(key, (before) => ({ ...before, message: 'late' }))
    expect(swap.mock.lastCall?.[3]).toBe(1)
  })

  it('lists the operations of one caller, the oldest first', async () => {
    const { operations, store } = atTime()
    for (const [name, startedAt] of [
      ['b', 3],
      ['a', 2],
      ['c', 1],
    ] as const)
      await operations.create(`${operationsOf('alice')}/${name}`, { ...record, startedAt })
    await operations.create(`${operationsOf('bob')}/d`, { ...record, principal: { id: 'bob' } })
    await store.put(`${operationsOf('alice')}/junk`, '{}', 10_000)
    const names = (await operations.of('alice')).map((stored) => operationName(stored.key))
    expect(names).toEqual(['c', 'a', 'b'])
    expect(await operations.of('carol')).toEqual([])
  })

  it('another process lists the operations of all callers, the oldest first', async () => {
    const { operations, store } = atTime()
    await operations.create(`${operationsOf('alice')}/a`, { ...record, startedAt: 2 })
    await operations.create(`${operationsOf('bob')}/b`, { ...record, startedAt: 1, principal: { id: 'bob' } })
    await operations.create(`${operationsOf('alice')}/c`, { ...record, startedAt: 3 })
    const all = await new Operations(store, () => 1000).all()
    expect(all.map((stored) => operationName(stored.key))).toEqual(['b', 'a', 'c'])
  })

  it('a caller is named in the store with its first operation of a day, and stays named for a month', async () => {
    const { operations, store, clock } = atTime()
    const put = vi.spyOn(store, 'put')
    const named = () => put.mock.calls.filter(([name]) => name.startsWith('operations/')).length
    await operations.create(key, record)
    await operations.create(`${key}2`, record)
    expect(named()).toBe(1)
    expect(put.mock.calls[0]?.[2]).toBe(31 * 86_400_000)
    clock.now += 86_400_000
    await operations.create(`${key}3`, record)
    expect(named()).toBe(2)
  })

  it('nothing is created where the store fails', async () => {
    const { operations, store } = atTime()
    store.put = () => Promise.reject(new Error('away'))
    await expect(operations.create(key, record)).rejects.toThrow('away')
    expect(await operations.find(key)).toBeUndefined()
  })
})
