import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { bench, failureOf, fieldsOf, keyed, textOf } from '../../../support/idempotency-bench.ts'

/** The same key in a step of a transaction. */
const stepOf = (transaction_id: string, step_id?: string) => ({
  _meta: { idempotency_key: 'k', transaction_id, ...(step_id !== undefined && { step_id }) },
})

/** A store that performs the first write of a kind and then fails. */
function lying(kind: 'setIfAbsent' | 'compareAndSwap', inner: Store = new MemoryStore()): Store {
  let isTold = false
  const once = async <Value>(written: Promise<Value>): Promise<Value> => {
    const value = await written
    if (isTold) return value
    isTold = true
    throw new Error('the connection broke')
  }
  const setIfAbsent: Store['setIfAbsent'] = (...given) => once(inner.setIfAbsent(...given))
  const compareAndSwap: Store['compareAndSwap'] = (...given) => once(inner.compareAndSwap(...given))
  const own = kind === 'setIfAbsent' ? { setIfAbsent } : { compareAndSwap }
  return Object.assign(Object.create(inner) as Store, {
    get: inner.get.bind(inner),
    put: inner.put.bind(inner),
    setIfAbsent: inner.setIfAbsent.bind(inner),
    compareAndSwap: inner.compareAndSwap.bind(inner),
    compareAndDelete: inner.compareAndDelete.bind(inner),
    delete: inner.delete.bind(inner),
    scan: inner.scan.bind(inner),
    ...own,
  })
}

describe('edge cases of an idempotency key', () => {
  it('the key of a transaction step is separate from other transactions and steps', async () => {
    const { make, seen } = bench()
    await make({}, stepOf('t', 's'))
    for (const other of [stepOf('u', 's'), stepOf('t', 'r'), keyed('k')])
      expect((await failureOf(make({}, other))).code).toBe('IDEMPOTENCY_CONFLICT')
    expect(fieldsOf(await make({}, stepOf('t', 's')))).toMatchObject({ idempotency: { was_replay: true } })
    expect(seen).toHaveLength(1)
  })

  it('automatic keys of two transactions are different', async () => {
    const { make, seen } = bench({ tool: { autoKey: 60_000 } })
    for (const id of ['t', 'u', 't']) await make({}, { _meta: { transaction_id: id } })
    expect(seen).toHaveLength(2)
  })

  it('numbers beyond double precision are different arguments', async () => {
    const { make, seen } = bench()
    const params = (id: string) =>
      Payload.text(`{"name":"t","arguments":{"id":${id}},"_meta":{"idempotency_key":"k"}}`)
    const call = (id: string) => make({ params: params(id), meta: { idempotency_key: 'k' } })
    await call('12345678901234567890')
    expect((await failureOf(call('12345678901234567891'))).code).toBe('IDEMPOTENCY_CONFLICT')
    expect(textOf(await call('12345678901234567890'))).toBe('1')
    expect(seen).toHaveLength(1)
  })

  it.each([
    ['1e400', '1e999'],
    ['1e400', 'null'],
    ['-1E+400', '1E+400'],
    ['1e-400', '0'],
    ['1.5e-400', '2e-400'],
    ['31415926.535897000013', '31415926.535897000014'],
    ['-123456789.012345678901e2', '-123456789.012345678902e2'],
    ['4e-324', '5e-324'],
    ['[{"a":0.1},31415926.535897000013]', '[{"a":0.1},31415926.535897000031]'],
  ])('%s and %s are different arguments', async (one, other) => {
    const { make, seen } = bench()
    const call = (n: string) =>
      make({ params: Payload.text(`{"name":"t","arguments":{"n":${n}}}`), meta: { idempotency_key: 'k' } })
    await call(one)
    expect((await failureOf(call(other))).code).toBe('IDEMPOTENCY_CONFLICT')
    expect(textOf(await call(one))).toBe('1')
    expect(seen).toHaveLength(1)
  })

  it.each([
    ['1', '1.0'],
    ['1000', '1e3'],
    ['0', '0e999'],
    ['[true,1e100]', '[true,1E+100]'],
  ])('%s and %s are equal arguments', async (one, other) => {
    const { make, seen } = bench()
    for (const n of [one, other])
      await make({
        params: Payload.text(`{"name":"t","arguments":{"n":${n}}}`),
        meta: { idempotency_key: 'k' },
      })
    expect(seen).toHaveLength(1)
  })

  it('a key is accepted with arguments of any shape and size', async () => {
    const { make, seen } = bench()
    const texts = ['1'.repeat(3_000_000), `["${'\\"'.repeat(3_000_000)}",1234567890123456]`, '"\\\\"']
    for (const [index, text] of texts.entries()) {
      const params = Payload.text(`{"name":"t","arguments":{"id":${text}}}`)
      await make({ params, meta: { idempotency_key: `k${index}` } })
    }
    expect(seen).toHaveLength(3)
  })

  it('digits in strings do not affect the comparison of arguments', async () => {
    const { make, seen } = bench()
    const params = (text: string) =>
      Payload.text(`{"name":"t","arguments":${text},"_meta":{"idempotency_key":"k"}}`)
    for (const text of ['{"id":"12345678901234567890"}', '{ "id" : "\\u00312345678901234567890" }'])
      await make({ params: params(text), meta: { idempotency_key: 'k' } })
    expect(seen).toHaveLength(1)
  })

  it('a key is usable after the store lost the response to its claim', async () => {
    const { make, seen } = bench({ store: lying('setIfAbsent') })
    expect((await failureOf(make({}, keyed('k')))).code).toBe('SERVER_UNAVAILABLE')
    expect(seen).toHaveLength(0)
    expect(textOf(await make({}, keyed('k')))).toBe('1')
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ idempotency: { was_replay: true } })
  })

  it('a key is usable after the store lost the response to its takeover', async () => {
    const store = new MemoryStore()
    const entry = {
      classification: { op: 'write', risk: 'reversible', idempotent: true, evidence: [] },
    } as const
    const dying = bench({ store, me: 'b', server: () => new Promise(() => undefined) })
    void dying.make({}, keyed('k'))
    await expect.poll(() => dying.seen.length).toBe(1)
    const after = bench({ store: lying('compareAndSwap', store), me: 'a', alive: new Set(['a']), entry })
    expect((await failureOf(after.make({}, keyed('k')))).code).toBe('SERVER_UNAVAILABLE')
    expect(after.seen).toHaveLength(0)
    expect(textOf(await after.make({}, keyed('k')))).toBe('1')
  })

  it('a new key is refused while the store is full, and recorded keys are replayed', async () => {
    const store: Store & { unavailableReason?: string } = new MemoryStore()
    const { make, seen } = bench({ store })
    await make({}, keyed('k'))
    store.unavailableReason = 'full'
    expect((await failureOf(make({}, keyed('l')))).code).toBe('SERVER_UNAVAILABLE')
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ idempotency: { was_replay: true } })
    expect(seen).toHaveLength(1)
  })

  it('a key is recorded as used if the store has no room for the result', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = (key, before, value, ttl) =>
      value.includes('"result"') ? Promise.reject(new Error('full')) : swap(key, before, value, ttl)
    const { make, seen } = bench({ store })
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({
      content: [{ text: '1' }],
      _meta: { 'dev.gatehouse/unrecorded': true },
    })
    const again = await failureOf(make({}, keyed('k')))
    expect(again).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: expect.stringContaining('was executed'),
    })
    expect(seen).toHaveLength(1)
  })

  it('a result is recorded by a store that is back before it has to do without', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    let failures = 2
    store.compareAndSwap = (...given) => (failures-- > 0 ? Promise.reject(new Error('away')) : swap(...given))
    const { make, seen } = bench({ store })
    await make({}, keyed('k'))
    expect(failures).toBeLessThan(0)
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({
      content: [{ text: '1' }],
      idempotency: { was_replay: true },
    })
    expect(seen).toHaveLength(1)
  })

  it('the key of a compensation is accepted beyond the quota of the caller', async () => {
    const { make, seen } = bench({ settings: { max_keys: 1 } })
    await make({}, keyed('k'))
    expect((await failureOf(make({}, keyed('l')))).code).toBe('QUOTA_EXHAUSTED')
    expect(textOf(await make({ internal: 'compensate' }, keyed('compensate-t-s')))).toBe('2')
    expect(seen).toHaveLength(2)
  })
})
