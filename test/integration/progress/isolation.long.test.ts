// Tasks and operations of one caller, and others who have its ids, guess them, or kept them: to them they do not exist.
import { describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { codeOf, folder, gatewayTo } from '../../support/journey.ts'
import { until } from '../../support/condition.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import {
  askOf,
  beginTask,
  early,
  questionOf,
  refusal,
  resume,
  type Shape,
  shapes,
  taskClient,
  taskMethods,
  taskServer,
} from '../../support/task-peers.ts'

const TOKENS = { alice: 'the-token-of-alice', bob: 'the-token-of-bob' }
const auth = {
  opaque: {
    tokens: Object.entries(TOKENS).map(([id, token]) => ({
      hash: tokenHash(token),
      id,
      scopes: ['read:one', 'write:one', 'delete:one', 'read:two', 'write:two', 'delete:two'],
    })),
  },
}
/** A tool that asks is a task before it asks. */
const shared = { isolation: 'shared', tools: { confirm_delete: { latency: 'minutes' } } }
const upstreams = { one: taskServer('plain', shared), two: taskServer('plain', shared) }

interface Callers {
  readonly gateway: RunningGateway
  readonly alice: FakeClient
  readonly bob: FakeClient
}

type Who = keyof typeof TOKENS

async function gatewayFor(isNamed: boolean): Promise<RunningGateway> {
  const config = { store: folder(), features: early, ...(isNamed && { auth }) }
  return gatewayTo(upstreams, { config })
}

interface Kind {
  readonly shape: Shape
  readonly isNamed: boolean
  readonly path?: string
}

function clientFor(
  gateway: RunningGateway,
  who: Who,
  { shape, isNamed, path = '' }: Kind,
): Promise<FakeClient> {
  const headers = isNamed ? { authorization: `Bearer ${TOKENS[who]}` } : {}
  return taskClient({ url: `${gateway.url}${path}` }, shape, { headers })
}

async function callers(shape: Shape, isNamed: boolean): Promise<Callers> {
  const gateway = await gatewayFor(isNamed)
  const [alice, bob] = await Promise.all([
    clientFor(gateway, 'alice', { shape, isNamed }),
    clientFor(gateway, 'bob', { shape, isNamed }),
  ])
  return { gateway, alice, bob }
}

/** An id as long as a real one, but not issued by any gateway. */
const unknownId = 'A'.repeat(98)

/** What every method says to a caller of an id that names nothing. */
async function refusalsOf(
  client: FakeClient,
  shape: Shape,
  id: string,
  question = 'q',
): Promise<readonly Json[]> {
  const inputResponses = { [question]: { action: 'accept', content: { confirm: true } } }
  const more = (method: string): Json => (method === 'tasks/update' ? { inputResponses } : {})
  const replies = [
    ...(await Promise.all(taskMethods(shape).map((method) => askOf(client, method, id, more(method))))),
    await resume(client, id),
    await client.request('tools/call', { name: 'resume_operation', arguments: { operation_id: id } }),
  ]
  return replies.map((reply) => ({
    ...refusal(reply),
    error: codeOf(reply),
    result: plainError(reply.result),
  }))
}

/** The error in the result of a tool, without what differs from one request to the next. */
function plainError(result: Json | undefined): unknown {
  if (!result) return undefined
  const { requestId: _requestId, ...error } = objectAt(result['_meta'], 'dev.gatehouse/error')
  return { content: result['content'], isError: result['isError'], error }
}

const notFound = (shape: Shape) => [
  ...taskMethods(shape).map(() => 'INVALID_INPUT'),
  'RESOURCE_NOT_FOUND',
  'RESOURCE_NOT_FOUND',
]

async function statusOf(client: FakeClient, taskId: unknown): Promise<unknown> {
  return (await askOf(client, 'tasks/get', taskId)).result?.['status']
}

async function listed(client: FakeClient): Promise<readonly unknown[]> {
  const { result } = await client.request('tasks/list')
  return ((result?.['tasks'] ?? []) as Json[]).map(({ taskId }) => taskId)
}

describe.each([
  ['2025-11-25', true, 'two users'],
  ['2025-11-25', false, 'two sessions without authentication'],
  ['2026-07-28', true, 'two users'],
] as const)('tasks of %s, with authentication: %s', (shape, isNamed, who) => {
  it(`${who} do not see, read, answer or cancel tasks of each other, as if they never were`, async () => {
    const { alice, bob } = await callers(shape, isNamed)
    const task = await beginTask(alice, 'one_confirm_delete', { filename: 'plan.txt' })
    const taskId = String(task['taskId'])
    await until(async () => (await statusOf(alice, taskId)) === 'input_required', 'the question')
    const question = shape === '2026-07-28' ? await questionOf(alice, taskId) : undefined
    const strange = await refusalsOf(bob, shape, taskId, question)
    expect(strange.map(({ error }) => error)).toEqual(notFound(shape))
    expect(strange).toEqual(await refusalsOf(bob, shape, unknownId))
    expect(await statusOf(alice, taskId)).toBe('input_required')
    expect(bob.asked).toEqual([])
    if (shape === '2025-11-25') {
      expect(await listed(bob)).toEqual([])
      expect(await listed(alice)).toEqual([taskId])
    }
    await askOf(alice, 'tasks/cancel', taskId)
    expect(await statusOf(alice, taskId)).toBe('cancelled')
    expect([...alice.violations, ...bob.violations]).toEqual([])
  })

  it(`${who} get the outcomes of their own tasks alone`, async () => {
    const { alice, bob } = await callers(shape, isNamed)
    const begun = await Promise.all(
      [alice, bob].map((client, index) =>
        beginTask(client, 'one_slow_compute', { seconds: 1, label: `of ${index}` }),
      ),
    )
    const [first, second] = begun.map(({ taskId }) => String(taskId))
    for (const [client, own, other, label] of [
      [alice, first, second, 'of 0'],
      [bob, second, first, 'of 1'],
    ] as const) {
      await until(async () => (await statusOf(client, own)) === 'completed', 'the end of the task')
      expect((await resume(client, own)).text).toContain(`computed ${label}`)
      const strange = await refusalsOf(client, shape, other ?? '')
      expect(strange).toEqual(await refusalsOf(client, shape, unknownId))
      expect(JSON.stringify(strange)).not.toContain('computed')
    }
  })
})

it('a listener of 2026-07-28 gets the status of its own tasks only', async () => {
  const { alice, bob } = await callers('2026-07-28', true)
  const { taskId } = await beginTask(alice, 'one_slow_compute', { seconds: 2, label: 'a sum' })
  const [own, strange] = [alice.listen({ taskIds: [taskId] }), bob.listen({ taskIds: [taskId, unknownId] })]
  expect((await own.acknowledged)['taskIds']).toEqual([taskId])
  expect((await strange.acknowledged)['taskIds'] ?? []).toEqual([])
  const note = await own.until(({ params }) => params['status'] === 'completed')
  expect(note.text).toContain('computed a sum')
  // What bob hears of his own comes after what he would have heard of alice.
  await bob.request('tools/list')
  expect(strange.notes).toEqual([])
  expect([...alice.violations, ...bob.violations]).toEqual([])
})

describe('without authentication', () => {
  it('a session is in no list of a client of 2026-07-28, and the other way round', async () => {
    const gateway = await gatewayFor(false)
    const session = await clientFor(gateway, 'alice', { shape: '2025-11-25', isNamed: false })
    const stateless = await clientFor(gateway, 'bob', { shape: '2026-07-28', isNamed: false })
    const own = await beginTask(session, 'one_slow_compute', { seconds: 1, label: 'one' })
    await beginTask(stateless, 'one_slow_compute', { seconds: 1, label: 'two' })
    // A session that lists what stateless clients have would hand their ids out.
    expect(await listed(session)).toEqual([own['taskId']])
    const strange = await askOf(stateless, 'tasks/get', own['taskId'])
    expect(refusal(strange)).toEqual(refusal(await askOf(stateless, 'tasks/get', unknownId)))
  })

  it('the status of a task of a session reaches no listener of another session or client', async () => {
    const gateway = await gatewayFor(false)
    const session = await clientFor(gateway, 'alice', { shape: '2025-11-25', isNamed: false })
    const other = await clientFor(gateway, 'bob', { shape: '2025-11-25', isNamed: false })
    const stateless = await clientFor(gateway, 'bob', { shape: '2026-07-28', isNamed: false })
    const { taskId } = await beginTask(session, 'one_slow_compute', { seconds: 1, label: 'a sum' })
    const listening = stateless.listen({ taskIds: [taskId] })
    expect((await listening.acknowledged)['taskIds'] ?? []).toEqual([])
    await session.until(
      ({ method, text }) => method === 'notifications/tasks/status' && text.includes('completed'),
    )
    await Promise.all([other.request('ping'), stateless.request('tools/list')])
    expect(other.notes.filter(({ method }) => method.includes('tasks'))).toEqual([])
    expect(listening.notes).toEqual([])
  })
})

describe.each(shapes)('a real id of %s of which one character was changed', (shape) => {
  it('names no operation, for its own caller either', async () => {
    const { alice, bob } = await callers(shape, true)
    const task = await beginTask(alice, 'one_slow_compute', { seconds: 1, label: 'a sum' })
    const id = String(task['taskId'])
    const expected = refusal(await askOf(alice, 'tasks/get', unknownId))
    expect(expected).toMatchObject({ code: -32602 })
    for (const forged of forgeriesOf(id)) {
      for (const client of [alice, bob])
        expect([forged, refusal(await askOf(client, 'tasks/get', forged))]).toEqual([forged, expected])
    }
    expect(await statusOf(alice, id)).toBeDefined()
  })
})

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** Each character with one of its bits changed; the last one with each of its bits changed; and other texts of the same bytes. */
function forgeriesOf(id: string): readonly string[] {
  const flipped = (at: number, bit: number): string => {
    const changed = alphabet[alphabet.indexOf(id[at] ?? '') ^ (1 << bit)] ?? ''
    return id.slice(0, at) + changed + id.slice(at + 1)
  }
  return [
    ...Array.from(id, (_character, at) => flipped(at, at % 6)),
    ...[0, 1, 2, 3, 4, 5].map((bit) => flipped(id.length - 1, bit)),
    `${id}=`,
    `${id}A`,
    `${id.slice(0, 20)}.${id.slice(20)}`,
    ...(/[-_]/.test(id) ? [id.replaceAll('-', '+').replaceAll('_', '/')] : []),
  ]
}

describe.each(shapes)('an id of %s from another address', (shape) => {
  it('is valid at the address of all servers and at that of its own server, and at no other', async () => {
    const gateway = await gatewayFor(true)
    const [all, one, two] = await Promise.all(
      ['', '/one', '/two'].map((path) => clientFor(gateway, 'alice', { shape, isNamed: true, path })),
    )
    if (!all || !one || !two) throw new TypeError('three clients')
    const args = { seconds: 1, label: 'a sum' }
    const fromAll = String((await beginTask(all, 'one_slow_compute', args))['taskId'])
    const fromOne = String((await beginTask(one, 'slow_compute', args))['taskId'])
    for (const id of [fromAll, fromOne]) {
      for (const client of [all, one]) {
        await until(async () => (await statusOf(client, id)) === 'completed', 'the end of the task')
        expect((await resume(client, id)).text).toContain('computed a sum')
      }
      expect(await refusalsOf(two, shape, id)).toEqual(await refusalsOf(two, shape, unknownId))
    }
    if (shape !== '2025-11-25') return
    expect(await listed(all)).toEqual([fromAll, fromOne])
    expect(await listed(one)).toEqual([fromAll, fromOne])
    expect(await listed(two)).toEqual([])
  })
})

describe('an id from before a restart', () => {
  it('is valid for its caller if the store is kept, and for no other caller', async () => {
    const config = { store: folder(), features: early, auth }
    const before = await gatewayTo(upstreams, { config })
    const first = await clientFor(before, 'alice', { shape: '2026-07-28', isNamed: true })
    const { taskId } = await beginTask(first, 'one_slow_compute', { seconds: 1, label: 'a sum' })
    await until(async () => (await statusOf(first, taskId)) === 'completed', 'the end of the task')
    before.stop()
    await before.ended
    const after = await gatewayTo(upstreams, { config })
    const [alice, bob] = await Promise.all([
      clientFor(after, 'alice', { shape: '2026-07-28', isNamed: true }),
      clientFor(after, 'bob', { shape: '2026-07-28', isNamed: true }),
    ])
    expect((await askOf(alice, 'tasks/get', taskId)).text).toContain('computed a sum')
    const strange = await refusalsOf(bob, '2026-07-28', String(taskId))
    expect(strange).toEqual(await refusalsOf(bob, '2026-07-28', unknownId))
  })

  it('names no operation if the store was not kept', async () => {
    const config = { store: 'memory', features: early, auth }
    const before = await gatewayTo(upstreams, { config })
    const first = await clientFor(before, 'alice', { shape: '2026-07-28', isNamed: true })
    const { taskId } = await beginTask(first, 'one_slow_compute', { seconds: 1, label: 'a sum' })
    await before.close()
    const alice = await clientFor(await gatewayTo(upstreams, { config }), 'alice', {
      shape: '2026-07-28',
      isNamed: true,
    })
    const strange = await refusalsOf(alice, '2026-07-28', String(taskId))
    expect(strange).toEqual(await refusalsOf(alice, '2026-07-28', unknownId))
  })

  it('of a session without authentication is not valid in the session after it', async () => {
    const gateway = await gatewayFor(false)
    const first = await clientFor(gateway, 'alice', { shape: '2025-11-25', isNamed: false })
    const { taskId } = await beginTask(first, 'one_slow_compute', { seconds: 1, label: 'a sum' })
    await first.close()
    const next = await clientFor(gateway, 'alice', { shape: '2025-11-25', isNamed: false })
    for (const method of taskMethods('2025-11-25'))
      expect(refusal(await askOf(next, method, taskId))).toEqual(
        refusal(await askOf(next, method, unknownId)),
      )
    expect(await listed(next)).toEqual([])
  })
})
