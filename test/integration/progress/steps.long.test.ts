// Steps of transactions and keyed calls that run as tasks: what the gateway reports before, at and after their end is true,
// and each of them takes effect once.
import { describe, expect, it } from 'vitest'
import { type Reply, textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { codeOf, folder, gatewayTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { askOf, beginTask, early, type Shape, shapes, taskClient } from '../../support/task-peers.ts'

interface Field {
  readonly server: Notes
  readonly client: FakeClient
}

async function field(shape: Shape, features: Json = {}): Promise<Field> {
  const server = await notes()
  const config = { store: folder(), features: { ...early, ...features } }
  const gateway = await gatewayTo({ notes: server.upstream }, { config })
  return { server, client: await taskClient(gateway, shape) }
}

const t = { transaction_id: 't' }

/** A step that its server answers when it is released, as a task. */
async function pendingStep({ client, server }: Field, text = 'slow one'): Promise<string> {
  const before = server.calls.length
  const task = await beginTask(client, 'add', { text }, { _meta: t })
  await until(() => server.calls.length > before, 'the call of the step')
  return String(task['taskId'])
}

async function begun(shape: Shape, features?: Json): Promise<Field> {
  const place = await field(shape, features)
  expect((await place.client.request('transaction/begin', t)).result).toMatchObject({ status: 'begun' })
  return place
}

async function statusOf(client: FakeClient): Promise<Json> {
  const { result } = await client.request('transaction/status', t)
  const { status, steps } = result ?? {}
  const all: readonly unknown[] = Array.isArray(steps) ? steps : []
  return { status, steps: all.map((step) => (isObject(step) ? step['status'] : step)) }
}

async function taskState(client: FakeClient, taskId: string): Promise<unknown> {
  return (await askOf(client, 'tasks/get', taskId)).result?.['status']
}

function ended(client: FakeClient, taskId: string): Promise<unknown> {
  return until(async () => {
    const state = await taskState(client, taskId)
    return state !== 'working' && state
  }, 'the end of the task')
}

/** The result of a task that has ended, in the shape of its revision. */
async function resultOf(client: FakeClient, taskId: string): Promise<Json> {
  if (!client.traits.modern) return (await askOf(client, 'tasks/result', taskId)).result ?? {}
  return objectAt((await askOf(client, 'tasks/get', taskId)).result, 'result')
}

/** Expects that a reply does not come while the replies to many later requests do. */
async function expectPending(reply: Promise<Reply>, client: FakeClient): Promise<void> {
  let isPending = true
  reply.then(
    () => (isPending = false),
    () => (isPending = false),
  )
  for (let later = 0; later < 20; later++) await client.request('transaction/status', t)
  expect(isPending).toBe(true)
}

describe.each(shapes)('a step of a transaction as a task of %s', (shape) => {
  it('is pending until it ends, and a commit before that waits for it', async () => {
    const place = await begun(shape)
    const { client, server } = place
    const taskId = await pendingStep(place)
    expect(await taskState(client, taskId)).toBe('working')
    expect(await statusOf(client)).toEqual({ status: 'active', steps: ['pending'] })
    const commit = client.request('transaction/commit', t)
    await expectPending(commit, client)
    server.release()
    expect((await commit).result).toMatchObject({ status: 'committed', steps_completed: 1 })
    expect(await ended(client, taskId)).toBe('completed')
    expect(await resultOf(client, taskId)).toMatchObject({
      transaction: { transaction_id: 't', step_id: 'step-1', status: 'ok' },
    })
    expect(await statusOf(client)).toEqual({ status: 'committed', steps: ['ok'] })
    expect(server.calls).toEqual(['add slow one'])
  })

  it('is followed by the next step only once it has ended', async () => {
    const place = await begun(shape)
    const { client, server } = place
    const taskId = await pendingStep(place)
    const next = client.request('tools/call', { name: 'add', arguments: { text: 'two' }, _meta: t })
    // It waits for longer than a call may take before it is a task.
    if (shape === '2026-07-28') expect((await next).result).toHaveProperty('taskId')
    else await expectPending(next, client)
    expect(server.calls).toEqual(['add slow one'])
    server.release()
    await ended(client, taskId)
    const { result } = await next
    if (shape === '2026-07-28') expect(await ended(client, String(result?.['taskId']))).toBe('completed')
    expect(await statusOf(client)).toEqual({ status: 'active', steps: ['ok', 'ok'] })
    expect((await client.request('transaction/rollback', t)).result).toMatchObject({ status: 'rolled_back' })
    expect(server.calls).toEqual(['add slow one', 'add two', 'drop two', 'drop slow one'])
  })

  it('that fails is failed in the task and in the transaction, and the rollback undoes nothing of it', async () => {
    const place = await begun(shape)
    const { client, server } = place
    const task = await beginTask(client, 'add', { text: 'slow refused' }, { _meta: t })
    await until(() => server.calls.length === 1, 'the call of the step')
    server.fail()
    const taskId = String(task['taskId'])
    // A result that is an error: 2025-11-25 has the task failed, 2026-07-28 has it completed (SEP-2663).
    expect(await ended(client, taskId)).toBe(shape === '2025-11-25' ? 'failed' : 'completed')
    expect(await resultOf(client, taskId)).toMatchObject({
      isError: true,
      transaction: { step_id: 'step-1', status: 'failed' },
    })
    expect(await statusOf(client)).toEqual({ status: 'active', steps: ['failed'] })
    const { result } = await client.request('transaction/rollback', t)
    expect(result).toMatchObject({ status: 'rolled_back', steps_compensated: [] })
    expect(server.calls).toEqual(['add slow refused'])
  })

  it('that is cancelled is in doubt, as what the server did stays done', async () => {
    const place = await begun(shape)
    const { client, server } = place
    const taskId = await pendingStep(place)
    expect((await askOf(client, 'tasks/cancel', taskId)).error).toBeUndefined()
    expect(await taskState(client, taskId)).toBe('cancelled')
    await until(async () => String((await statusOf(client))['steps']) === 'failed', 'the end of the step')
    const { result } = await client.request('transaction/commit', t)
    // Its server may still execute it, so its outcome is unknown.
    expect(result).toMatchObject({
      status: 'committed',
      steps_completed: 0,
      needs_attention: true,
      steps_in_doubt: [{ step_id: 'step-1', error: { code: 'OUTCOME_UNKNOWN' } }],
    })
    expect(await taskState(client, taskId)).toBe('cancelled')
    expect(server.calls).toEqual(['add slow one'])
  })

  it('is cancelled by a rollback, which does not wait for it and reports what is in doubt', async () => {
    const place = await begun(shape)
    const { client, server } = place
    await client.request('tools/call', { name: 'add', arguments: { text: 'before' }, _meta: t })
    const taskId = await pendingStep(place)
    const { result } = await client.request('transaction/rollback', t)
    expect(server.calls).toEqual(['add before', 'add slow one', 'drop before'])
    expect(result).toMatchObject(cancelledStep)
    expect(await ended(client, taskId)).toBe('cancelled')
    server.release()
    expect(await taskState(client, taskId)).toBe('cancelled')
    expect(server.cancelled()).toBe(1)
  })
})

it('a step as a task is cancelled by a rollback at another gateway with the same store', async () => {
  const server = await notes()
  const config = { store: folder(), features: early }
  const [one, two] = [
    await gatewayTo({ notes: server.upstream }, { config }),
    await gatewayTo({ notes: server.upstream }, { config }),
  ]
  const client = await taskClient(one, '2026-07-28')
  const other = await taskClient(two, '2026-07-28')
  await client.request('transaction/begin', t)
  await client.request('tools/call', { name: 'add', arguments: { text: 'before' }, _meta: t })
  const taskId = await pendingStep({ client, server })
  const { result } = await other.request('transaction/rollback', t)
  expect(result).toMatchObject(cancelledStep)
  expect(await ended(client, taskId)).toBe('cancelled')
  expect(server.cancelled()).toBe(1)
})

/** The rollback of two steps, of which the second was cancelled: its undo needs its result, which is unknown. */
const cancelledStep = {
  status: 'partially_rolled_back',
  needs_attention: true,
  steps_compensated: [
    { step_id: 'step-2', status: 'compensation_failed', error: { code: 'COMPENSATION_UNAVAILABLE' } },
    { step_id: 'step-1', status: 'compensated' },
  ],
}

describe('a call with a key, made as a task and as a plain call', () => {
  const key = (name: string): Json => ({ _meta: { 'dev.gatehouse/idempotency_key': name } })

  describe.each(shapes)('by clients of %s', (shape) => {
    it('has one outcome and one effect, and each caller gets its own shape of it', async () => {
      const { client, server } = await field(shape)
      const args = { text: 'slow one' }
      const task = await beginTask(client, 'add', args, key('k'))
      await until(() => server.calls.length === 1, 'the call')
      // At the same time, by a request without a task.
      const params = { name: 'add', arguments: args, ...key('k') }
      const plain = client.request('tools/call', params)
      server.release()
      expect(await ended(client, String(task['taskId']))).toBe('completed')
      const first = await resultOf(client, String(task['taskId']))
      const joined = await plain
      const second =
        joined.result?.['resultType'] === 'task'
          ? await ended(client, String(joined.result['taskId'])).then(() =>
              resultOf(client, String(joined.result?.['taskId'])),
            )
          : (joined.result ?? {})
      const later = await client.request('tools/call', params)
      for (const result of [first, second, later.result ?? {}])
        expect(result).toMatchObject({ structuredContent: { text: 'slow one' } })
      expect(later.result?.['resultType']).toBe(shape === '2026-07-28' ? 'complete' : undefined)
      expect(later.result?.['_meta']).toMatchObject({ was_replay: true })
      expect(server.calls).toEqual(['add slow one'])
    })
  })

  it('a plain call first, then as a task of 2025-11-25: a task of the same outcome', async () => {
    const { client, server } = await field('2025-11-25')
    const args = { text: 'one' }
    const plain = await client.request('tools/call', { name: 'add', arguments: args, ...key('k') })
    expect(textOf(plain)).toBe('done')
    const task = await beginTask(client, 'add', args, key('k'))
    expect(await ended(client, String(task['taskId']))).toBe('completed')
    const result = await resultOf(client, String(task['taskId']))
    expect(result).toMatchObject({ structuredContent: { text: 'one' }, _meta: { was_replay: true } })
    expect(server.calls).toEqual(['add one'])
    const other = await client.request('tools/call', {
      name: 'add',
      arguments: { text: 'two' },
      task: { ttl: 60_000 },
      ...key('k'),
    })
    // It is refused at once, or in a task where that took longer than 50 ms.
    const refused = objectAt(other.result, 'task')['taskId']
    const error = refused === undefined ? other : await askOf(client, 'tasks/result', refused)
    expect(codeOf(error)).toBe('IDEMPOTENCY_CONFLICT')
    expect(server.calls).toEqual(['add one'])
  })
})
