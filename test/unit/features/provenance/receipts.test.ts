import { describe, expect, it } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { idempotency } from '../../../../src/features/idempotency/idempotency.ts'
import { provenance } from '../../../../src/features/provenance/provenance.ts'
import { receipts } from '../../../../src/features/provenance/receipts.ts'
import { argumentsHash, contentHash } from '../../../../src/records/receipts.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { answering, chain, fieldsOf, on } from '../../../support/chain.ts'
import { idempotencyDefaults } from '../../../support/idempotency-bench.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'

const KEY = 'dev.gatehouse/receipt'
const hello = { content: [{ type: 'text', text: 'hello' }] }
const keyed = on(idempotency, idempotencyDefaults)
const all = [on(receipts, {}), keyed, on(provenance, { always: false, hash: false, compat: true })]
const asking = { meta: { [KEY]: true } }

/** The claims of the receipt in a result; test signatures are a prefix. */
function claimsOf(result: Json): Json {
  const claims: Json = JSON.parse(String(objectAt(result, '_meta')[KEY]).replace(/^signed /, ''))
  return claims
}

describe('receipts', () => {
  it('a receipt is signed over the request and the result', async () => {
    const result = fieldsOf(await chain(all, answering(hello))(asking, { arguments: { a: 1 } }))
    expect(claimsOf(result)).toEqual({
      receipt: 1,
      tool: 't',
      server: 'one',
      principal: expect.stringMatching(/^[\da-f]{64}$/),
      arguments_sha256: argumentsHash({ a: 1 }),
      content_sha256: contentHash(Payload.of(hello)),
      retrieved_at: objectAt(result, 'provenance')['retrieved_at'],
      was_replay: false,
    })
  })

  it('no receipt is made unless requested', async () => {
    const make = chain([on(receipts, {})], answering(hello))
    expect(fieldsOf(await make())).toEqual(hello)
    expect(fieldsOf(await make({ meta: { [KEY]: false } }))).toEqual(hello)
  })

  it('the request for a receipt is not forwarded to the server', async () => {
    let seen: Json = {}
    const server: Handler = async (call) => {
      seen = { meta: call.meta, params: call.params.value }
      return { kind: 'result', result: Payload.of(hello) }
    }
    const params = { receipt: true, _meta: { [KEY]: true, other: 1 } }
    const make = chain(all, server)
    expect(fieldsOf(await make({ meta: { [KEY]: true, other: 1 } }, params))).toHaveProperty('_meta')
    expect(seen).toEqual({ meta: { other: 1 }, params: { name: 't', arguments: {}, _meta: { other: 1 } } })
  })

  it.each([['yes'], [1], [{}]])('receipt: %j is refused', async (flag) => {
    const made = chain([on(receipts, {})], answering(hello))({ meta: { receipt: flag } })
    await expect(made).rejects.toMatchObject({ code: 'INVALID_INPUT', extra: { field: 'receipt' } })
  })

  it('no receipt is made for a failure', async () => {
    const result = { ...hello, isError: true }
    expect(fieldsOf(await chain([on(receipts, {})], answering(result))(asking))).toEqual(result)
  })

  it('a receipt names the resource that was read', async () => {
    const target = { method: 'resources/read', upstream: 'one', name: 'a:1' }
    const call = { ...asking, method: 'resources/read', target, params: Payload.of({ uri: 'a:1' }) }
    const result = fieldsOf(await chain(all, answering({ contents: [{ uri: 'a:1', text: 'x' }] }))(call))
    expect(claimsOf(result)).toMatchObject({ uri: 'a:1', retrieved_at: expect.any(String) })
    expect(claimsOf(result)['content_sha256']).toBe(contentHash(Payload.of(result)))
  })

  it('the receipt of a replay says so and has the time of the first run', async () => {
    const make = chain(all, answering(hello), { store: new MemoryStore() })
    const meta = { ...asking.meta, idempotency_key: 'k' }
    const first = fieldsOf(await make({ meta }))
    await new Promise((resolve) => void setTimeout(resolve, 5))
    const again = fieldsOf(await make({ meta }))
    expect(again['provenance']).toEqual(first['provenance'])
    expect([claimsOf(first)['was_replay'], claimsOf(again)['was_replay']]).toEqual([false, true])
    expect(claimsOf(again)['retrieved_at']).toBe(objectAt(first, 'provenance')['retrieved_at'])
  })

  it('the time in a receipt is never taken from the server', async () => {
    const forged = { source: 'x', retrieved_at: '1999-01-01T00:00:00Z', attested_by: 'gatehouse' }
    const server = answering({ ...hello, _meta: { 'dev.gatehouse/provenance': forged } })
    const off = { isOn: (name: string) => name !== 'provenance' }
    for (const made of [chain([on(receipts, {})], server, off), chain(all, server)]) {
      expect(claimsOf(fieldsOf(await made(asking)))['retrieved_at']).not.toMatch(/^1999/)
    }
  })

  it('a receipt names the approval of the call', async () => {
    const logFields = new Map<string, unknown>([['approval', 'a1']])
    const result = fieldsOf(await chain([on(receipts, {})], answering(hello))({ ...asking, logFields }))
    expect(claimsOf(result)).toMatchObject({ approval: 'a1' })
  })

  it('a receipt that cannot be signed is omitted, and the result is returned', async () => {
    const sign = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The store is away.'))
    expect(fieldsOf(await chain([on(receipts, {})], answering(hello), { sign })(asking))).toEqual(hello)
  })
})
