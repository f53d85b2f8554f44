// A key has one outcome, the end of the work: that a server runs a keyed call as a task is no end.
import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { bench, fieldsOf, keyed } from '../../../support/idempotency-bench.ts'

const task = { id: 'x', status: 'working', createdAt: 0, updatedAt: 0, ttl: null } as const
const done = { kind: 'result', result: Payload.of({ content: [{ type: 'text', text: 'done' }] }) } as const

describe('a keyed call that its server runs as a task', () => {
  it('is continued by the same caller, and replayed to everyone after its end', async () => {
    const { make, seen } = bench({
      server: async (call) =>
        call.requestState['upstream_task'] === undefined
          ? { kind: 'task', task, requestState: { upstream_task: { id: 'x' } } }
          : done,
    })
    const first = await make({}, keyed('k'))
    if (first.kind !== 'task') throw new TypeError('it is no task')
    expect(first.requestState).toMatchObject({ upstream_task: { id: 'x' }, idempotency: expect.any(String) })
    const end = await make({ requestState: first.requestState }, keyed('k'))
    expect(fieldsOf(end)).toMatchObject({ content: [{ text: 'done' }], _meta: { was_replay: false } })
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ _meta: { was_replay: true } })
    expect(seen).toHaveLength(2)
  })

  it('makes another caller with the key wait for its end', async () => {
    const { make, seen } = bench({
      server: async (call) =>
        call.requestState['upstream_task'] === undefined
          ? { kind: 'task', task, requestState: { upstream_task: { id: 'x' } } }
          : done,
    })
    const first = await make({}, keyed('k'))
    if (first.kind !== 'task') throw new TypeError('it is no task')
    const other = make({}, keyed('k'))
    await make({ requestState: first.requestState }, keyed('k'))
    expect(fieldsOf(await other)).toMatchObject({ content: [{ text: 'done' }], _meta: { was_replay: true } })
    expect(seen).toHaveLength(2)
  })
})

it('a request for a task is forwarded unchanged, as it is none of the business of keys', async () => {
  const { make, seen } = bench()
  await make({}, { task: {} })
  expect(seen[0]?.params.fields['task']).toEqual({})
})
