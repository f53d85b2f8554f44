// A task is acknowledged before it runs, so the acknowledgement must not be recorded as the result of a keyed call.
import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { bench, failureOf, fieldsOf, keyed } from '../../../support/idempotency-bench.ts'

const tasks = 'io.modelcontextprotocol/tasks'
const auto = { autoKey: 10_000 }

describe('a keyed call that requests a task', () => {
  it.each([
    ['a key', bench(), keyed('k', { task: { ttl: 60_000 } })],
    ['a key and an empty request', bench(), keyed('k', { task: {} })],
    ['auto_key', bench({ tool: auto }), { task: {} }],
    ['auto_key and only a time to live', bench({ tool: auto }), { task: {}, idempotency_ttl_seconds: 60 }],
  ])(
    'a keyed call as a task is refused with %s, and the key stays free',
    async (_what, { make, seen, store }, params) => {
      const error = await failureOf(make({}, params))
      expect(error).toMatchObject({ code: 'INVALID_INPUT', extra: { field: 'task', reason: 'unsupported' } })
      expect(error.message).toContain('cannot be made as a task')
      expect(error.data['suggestion']).toContain('without "task"')
      expect(seen).toHaveLength(0)
      expect(fieldsOf(await make({}, { ...params, task: undefined }))).toHaveProperty('content')
      expect([seen.length, (await store.scan('call:anonymous')).size]).toEqual([1, 0])
    },
  )

  it('a task request without a key is forwarded unchanged', async () => {
    const reads = { classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] } } as const
    for (const { make, seen } of [bench(), bench({ tool: auto, entry: reads })]) {
      await make({}, { task: {} })
      expect(seen[0]?.params.fields['task']).toEqual({})
    }
  })
})

describe('a keyed call of a client with 2026-07-28 tasks', () => {
  const capabilities = { elicitation: {}, extensions: { [tasks]: {}, other: {} } }
  const client = { era: 'modern', revision: '2026-07-28', capabilities } as const
  const _meta = { 'io.modelcontextprotocol/clientCapabilities': capabilities }

  it('the task capability is removed from the call, so that the server returns the result', async () => {
    const { make, seen } = bench()
    await make({ client }, { _meta: { ..._meta, ...keyed('k')._meta } })
    const without = { elicitation: {}, extensions: { other: {} } }
    expect(seen[0]?.client.capabilities).toEqual(without)
    expect(seen[0]?.params.fields['_meta']).toEqual({ 'io.modelcontextprotocol/clientCapabilities': without })
    await make({ client }, { _meta })
    expect(seen[1]?.client).toBe(client)
  })

  it.each([
    ['2026-07-28', { resultType: 'task', taskId: 't', status: 'working' }],
    ['2025-11-25', { task: { taskId: 't', status: 'working' } }],
  ])('the outcome is unknown if a %s server starts a task nevertheless', async (_revision, result) => {
    const { make, seen } = bench({ server: async () => ({ kind: 'result', result: Payload.of(result) }) })
    expect(fieldsOf(await make({ client }, keyed('k')))).toMatchObject(result)
    expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
    expect(seen).toHaveLength(1)
  })
})
