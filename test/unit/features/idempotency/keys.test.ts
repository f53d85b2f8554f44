import { describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import { idempotencyKeySlot } from '../../../../src/core/tool-call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { gatewayMetadataOf, withGatewayMetadata } from '../../../../src/protocol/meta-keys.ts'
import { bench, done, failureOf, fieldsOf, keyed, textOf } from '../../../support/idempotency-bench.ts'

const sources: readonly (readonly [Readonly<Record<string, unknown>>])[] = [
  [{ _meta: { 'dev.gatehouse/idempotency_key': 'k' } }],
  [{ _meta: { idempotency_key: 'k' } }],
  [{ _meta: { idempotencyKey: 'k' } }],
  [{ idempotency_key: 'k' }],
  [{ idempotencyKey: 'k' }],
]

describe('the idempotency key of a call', () => {
  it.each(sources)('the key is read from %j and removed before the call is sent', async (params) => {
    const { make, seen } = bench()
    expect(fieldsOf(await make({}, params))).toMatchObject({ idempotency: { idempotency_key: 'k' } })
    expect(seen[0]?.params.text).toBe('{"name":"t","arguments":{"x":1}}')
    expect(seen[0]?.meta).toEqual({})
  })

  it.each([
    ['idempotency-key', '"k"'],
    ['idempotency-key', 'k'],
    ['x-idempotency-key', 'k'],
  ])('the key is read from the header %s: %s', async (name, value) => {
    const { make, seen } = bench()
    const meta = withGatewayMetadata({}, gatewayMetadataOf({ [name]: value }))
    expect(fieldsOf(await make({ meta }))).toMatchObject({ idempotency: { idempotency_key: 'k' } })
    expect(seen[0]?.meta).toEqual({})
  })

  it('the key may appear in several places if its value is the same', async () => {
    const { make, seen } = bench()
    const twice = { idempotency_key: 'k', idempotencyKey: 'k' }
    await make({}, { ...twice, _meta: twice })
    const error = await failureOf(make({}, { idempotency_key: 'k', idempotencyKey: 'other' }))
    expect(error).toMatchObject({ code: 'INVALID_INPUT', rpc: -32602, data: { reason: 'mismatch' } })
    const carried = gatewayMetadataOf({ 'idempotency-key': '"k"', 'x-idempotency-key': 'other' })
    const headers = await failureOf(make({ meta: withGatewayMetadata({}, carried) }))
    expect(headers.data).toMatchObject({ reason: 'mismatch' })
    expect(seen).toHaveLength(1)
  })

  it('two values nested too deeply to compare are refused', async () => {
    const { make, seen } = bench()
    const deep: unknown = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000))
    const params = Payload.text('{"name":"t"}', { name: 't', idempotency_key: deep })
    const error = await failureOf(make({ params, meta: { idempotency_key: deep } }))
    expect(error.data).toMatchObject({ code: 'INVALID_INPUT', field: 'idempotency_key', reason: 'mismatch' })
    expect(seen).toHaveLength(0)
  })

  it.each(['', 'a b', 'é', 'x'.repeat(129), 7, null, ['k'], '"k"'])('the key %j is refused', async (key) => {
    const { make, seen } = bench()
    const error = await failureOf(make({}, { idempotency_key: key }))
    expect(error).toMatchObject({ code: 'INVALID_INPUT', data: { field: 'idempotency_key' } })
    expect(seen).toHaveLength(0)
  })

  it.each([
    [{ _meta: { 'dev.gatehouse/idempotency_key': 'a b' } }, {}, 'dev.gatehouse/idempotency_key'],
    [{ _meta: { idempotency_key: 'a b' } }, {}, 'idempotency_key'],
    [{ _meta: { idempotencyKey: 'a b' } }, {}, 'idempotencyKey'],
    [{ idempotencyKey: 'a b' }, {}, 'idempotencyKey'],
    [{}, { 'idempotency-key': 'a b' }, 'Idempotency-Key'],
    [{}, { 'x-idempotency-key': 'a b' }, 'Idempotency-Key'],
  ])('an invalid key is reported under its name in %j %j', async (params, headers, field) => {
    const { make } = bench()
    const meta = withGatewayMetadata('_meta' in params ? params._meta : {}, gatewayMetadataOf(headers))
    const error = await failureOf(make({ meta }, params))
    expect(error.data).toMatchObject({ code: 'INVALID_INPUT', field })
    expect(error.message).toContain(`${field} must be`)
  })

  it.each(['1h', 1.5, -1, null])('the retention %j is refused', async (ttl) => {
    const { make } = bench()
    const error = await failureOf(make({}, { ...keyed('k'), idempotency_ttl_seconds: ttl }))
    expect(error.data).toMatchObject({ code: 'INVALID_INPUT', field: 'idempotency_ttl_seconds' })
  })

  it('the retention is capped at the configured maximum', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({ settings: { max_ttl: 120_000 } })
      const params = keyed('k', { idempotency_ttl_seconds: 86_400 })
      await make({}, params)
      vi.advanceTimersByTime(121_000)
      await make({}, params)
      expect(seen).toHaveLength(2)
    } finally {
      vi.useRealTimers()
    }
  })

  it('a call without a key is forwarded unchanged', async () => {
    const { make, seen } = bench()
    const call = { params: Payload.of({ name: 't' }) }
    await make(call)
    await make(call)
    expect(seen.map(({ params }) => params)).toEqual([call.params, call.params])
    expect(seen[0]?.params).toBe(call.params)
  })
})

describe('a server with its own idempotency keys', () => {
  const schema = (properties: object) => ({
    definition: { name: 't', inputSchema: { type: 'object', properties } },
  })
  const given = (call: Call | undefined): unknown => call?.params.fields['arguments']

  it('the key is passed in the key argument of the tool unless the caller set it', async () => {
    const { make, seen } = bench({ entry: schema({ client_token: { type: 'string' } }) })
    await make({}, keyed('k'))
    await make({}, keyed('l', { arguments: { client_token: 'mine' } }))
    await make()
    expect(seen.map(given)).toEqual([{ x: 1, client_token: 'k' }, { client_token: 'mine' }, { x: 1 }])
  })

  it('the key is not passed in an argument of another type or name, or if that is off', async () => {
    for (const setup of [
      { entry: schema({ request_id: { type: 'integer' }, requestid: { type: 'string' } }) },
      { entry: schema({ request_id: { type: 'string' } }), tool: { keyArgument: false } as const },
    ]) {
      const { make, seen } = bench(setup)
      await make({}, keyed('k'))
      expect(seen.map(given)).toEqual([{ x: 1 }])
    }
  })

  it('the key is passed in the configured argument, and as a header if configured', async () => {
    const { make, seen } = bench({ tool: { keyArgument: 'ref', forwardKey: true } })
    await make({}, keyed('k'))
    expect(given(seen[0])).toEqual({ x: 1, ref: 'k' })
    expect(seen[0] && idempotencyKeySlot.of(seen[0])).toBe('k')
  })
})

describe('equal calls without a key', () => {
  it('equal calls within the configured time are one call', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({ tool: { autoKey: 2000 } })
      const first = fieldsOf(await make())
      expect(first).not.toHaveProperty('_meta')
      const again = fieldsOf(await make())
      expect(again).toMatchObject({ _meta: { 'dev.gatehouse/idempotency': { was_replay: true } } })
      await make({}, { arguments: { x: 2 } })
      expect(seen).toHaveLength(2)
      vi.advanceTimersByTime(2001)
      await make()
      expect(seen).toHaveLength(3)
    } finally {
      vi.useRealTimers()
    }
  })

  it('equal calls of an idempotent tool are never merged', async () => {
    const classification = { op: 'read', risk: 'safe', idempotent: true, evidence: [] } as const
    const { make, seen } = bench({ tool: { autoKey: 2000 }, entry: { classification } })
    await make()
    await make()
    expect(seen).toHaveLength(2)
  })
})

describe('the quota of recorded keys per caller', () => {
  it('the number of keys is limited: recorded keys remain usable and new ones are refused until some expire', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({ settings: { max_keys: 2, ttl: 60_000 } })
      await make({}, keyed('one'))
      await make({}, keyed('two'))
      const error = await failureOf(make({}, keyed('three')))
      expect(error).toMatchObject({ code: 'QUOTA_EXHAUSTED', category: 'rate_limited' })
      expect(error.data['retry_after_seconds']).toBe(60)
      expect(fieldsOf(await make({}, keyed('one')))).toMatchObject({ idempotency: { was_replay: true } })
      await make({ principal: { id: 'other' } }, keyed('three'))
      expect(seen).toHaveLength(3)
      vi.advanceTimersByTime(61_000)
      await make({}, keyed('three'))
      expect(seen).toHaveLength(4)
    } finally {
      vi.useRealTimers()
    }
  })

  it('keys recorded before a restart count towards the quota', async () => {
    const store = new MemoryStore()
    await bench({ store, settings: { max_keys: 1 } }).make({}, keyed('one'))
    const later = bench({ store, settings: { max_keys: 1 } })
    expect((await failureOf(later.make({}, keyed('two')))).code).toBe('QUOTA_EXHAUSTED')
  })

  it('calls without an effect do not count towards the quota', async () => {
    const { make } = bench({
      settings: { max_keys: 1 },
      server: async () => ({ kind: 'input_required', inputRequests: {}, requestState: {} }),
    })
    for (const key of ['one', 'two', 'three'])
      expect(textOf(await make({}, keyed(key)))).toBe('input_required')
  })

  it('a result beyond the size quota is not recorded, only that the call ran', async () => {
    const large: Handler = async () => ({
      kind: 'result',
      result: Payload.of({ content: ['x'.repeat(5000)] }),
    })
    const { make, seen } = bench({ settings: { max_bytes: 2000 }, server: large })
    expect(fieldsOf(await make({}, keyed('k')))).toHaveProperty('content')
    const again = await failureOf(make({}, keyed('k')))
    expect(again).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', isResult: true, category: 'permanent' })
    expect(seen).toHaveLength(1)
  })
})

describe('a read that verifies an unknown outcome', () => {
  const verify = 'list(x=$.args.x) -> $.result.items[0]'
  const lost: Handler = (call) =>
    new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(call.signal.reason)))

  /** A gateway that crashed during the call, and its successor. */
  async function doubt(items: unknown, silence = 0, more: Partial<Parameters<typeof bench>[0]> = {}) {
    const store = new MemoryStore()
    const dying = bench({ store, me: 'dead', server: lost })
    dying.make({}, keyed('k')).catch(() => undefined)
    await vi.waitUntil(() => dying.seen.length > 0)
    const reads: Call[] = []
    const call: Handler = async (read) => {
      reads.push(read)
      const outcome: Outcome = { kind: 'result', result: Payload.of(items) }
      return outcome
    }
    const deps = { call, callBounds: () => ({ silence, total: 600_000 }) }
    return {
      ...bench({ store, me: 'b', tool: { verify }, deps, server: async () => done(9), ...more }),
      reads,
    }
  }

  it('an effect that is found becomes the recorded result', async () => {
    const { make, seen, reads } = await doubt({ structuredContent: { items: [{ id: 4 }] } })
    const found = fieldsOf(await make({}, keyed('k')))
    expect(found).toMatchObject({
      structuredContent: { id: 4 },
      content: [{ type: 'text', text: '{"id":4}' }],
      _meta: { 'dev.gatehouse/verified': true, was_replay: true },
    })
    await make({}, keyed('k'))
    expect([seen.length, reads.length]).toEqual([0, 1])
    expect(reads[0]).toMatchObject({ internal: 'read', target: { name: 'list', upstream: 'one' } })
    expect(reads[0]?.params.fields['arguments']).toEqual({ x: 1 })
  })

  /** A server that loses every response, and the result of a read of its calls. */
  function losing(items: unknown) {
    const reads: Call[] = []
    const call: Handler = async (read) => {
      reads.push(read)
      return { kind: 'result', result: Payload.of({ structuredContent: { items } }) }
    }
    const server = () => Promise.reject(new GatewayError('OUTCOME_UNKNOWN', 'It went away.'))
    return {
      ...bench({
        tool: { verify },
        deps: { call, callBounds: () => ({ silence: 30_000, total: 600_000 }) },
        server,
      }),
      reads,
    }
  }

  it('the read runs immediately if the caller is still connected, and what it finds is the result', async () => {
    const { make, seen, reads } = losing([{ id: 4 }])
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({
      structuredContent: { id: 4 },
      _meta: { 'dev.gatehouse/verified': true, was_replay: false },
    })
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ _meta: { was_replay: true } })
    expect([seen.length, reads.length]).toEqual([1, 1])
  })

  it('an immediate read without a finding leaves the outcome unknown and states how to resolve it', async () => {
    const { make, seen } = losing([])
    const error = await failureOf(make({}, keyed('k')))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', message: 'It went away.' })
    expect(error.data['suggestion']).toContain('with the same key')
    expect((await failureOf(make({}, keyed('k')))).code).toBe('IDEMPOTENCY_IN_PROGRESS')
    expect(seen).toHaveLength(1)
  })

  it('the read does not run immediately for a step, whose transaction records the doubt', async () => {
    const { make, reads } = losing([{ id: 4 }])
    const step = { _meta: { idempotency_key: 'k', transaction_id: 't' } }
    expect((await failureOf(make({}, step))).code).toBe('OUTCOME_UNKNOWN')
    expect(reads).toHaveLength(0)
  })

  it('a found effect that does not match the output schema is returned as text only', async () => {
    const outputSchema = { type: 'object', required: ['name'] }
    const entry = { definition: { name: 't', inputSchema: {}, outputSchema } }
    const { make } = await doubt({ structuredContent: { items: [{ id: 4 }] } }, 0, { entry })
    expect(fieldsOf(await make({}, keyed('k')))).not.toHaveProperty('structuredContent')
  })

  it.each([
    ['no member', []],
    ['null', [null]],
    ['an empty text', ['']],
    ['an empty list', [[]]],
  ])('a read that finds %s shows that the call had no effect, and it runs once', async (_what, items) => {
    const { make, seen } = await doubt({ structuredContent: { items } })
    const all = await Promise.all([make({}, keyed('k')), make({}, keyed('k'))])
    expect(all.map(textOf)).toEqual(['9', '9'])
    expect(seen).toHaveLength(1)
  })

  it('the key is in progress while a lost call may still take effect', async () => {
    const { make, seen } = await doubt({ structuredContent: { items: [] } }, 30_000)
    const error = await failureOf(make({}, keyed('k')))
    expect(error.code).toBe('IDEMPOTENCY_IN_PROGRESS')
    expect(error.data['retry_after_seconds']).toBeGreaterThan(20)
    expect(seen).toHaveLength(0)
  })

  it.each([
    ['fails', { isError: true, content: [{ type: 'text', text: 'not found' }] }],
    ['returns another structure', { structuredContent: { error: 'down' } }],
    ['returns text', { content: [{ type: 'text', text: 'No items.' }] }],
    ['returns no content', { content: [] }],
  ])('the outcome stays unknown if the read %s', async (_what, items) => {
    const { make, seen } = await doubt(items)
    expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toHaveLength(0)
  })
})
