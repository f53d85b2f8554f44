// Bad ids and bad input for everything that is asked about tasks and operations, in all revisions: each has its documented
// error, tells nothing else, and the gateway goes on.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { type Reply, textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { objectAt } from '../../support/server/json.ts'
import { type Revision, revisions } from '../../support/server/revisions.ts'
import { askOf, beginTask, questionOf, taskCapabilities, taskServer } from '../../support/task-peers.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const TOKENS = { alice: 'the-token-of-alice', bob: 'the-token-of-bob' }
const scopes = ['read:one', 'write:one', 'delete:one']
const auth = {
  opaque: { tokens: Object.entries(TOKENS).map(([id, token]) => ({ hash: tokenHash(token), id, scopes })) },
}

let gateway: RunningGateway
const clients = new Map<string, FakeClient>()
/** Ids that were good: of another caller, and of the caller until it expired. */
const kept = { foreign: '', expired: '' }

beforeAll(async () => {
  // A tool that asks is a task before it asks.
  const one = taskServer('plain', { tools: { confirm_delete: { latency: 'minutes' } } })
  const features = plainFeatures({ progress: { keep: '1s', tasks: { after: '350ms' } } })
  gateway = await startGateway({
    store: 'memory',
    auth,
    features,
    limits: { rate: 'off' },
    upstreams: { one },
  })
  for (const revision of revisions) clients.set(revision, await clientFor('alice', revision))
  clients.set('undeclared', await clientFor('alice', '2026-07-28', {}))
  const bob = await clientFor('bob', '2026-07-28')
  kept.foreign = String((await beginTask(bob, 'confirm_delete', { filename: 'a' }))['taskId'])
  const older = clientOf('2025-11-25')
  const args = { name: 'slow_compute', arguments: { seconds: 0.2, label: 'secret' }, task: { ttl: 0 } }
  const { result } = await older.request('tools/call', args)
  kept.expired = String(objectAt(result, 'task')['taskId'])
  const was = textOf(await askOf(older, 'tasks/result', kept.expired))
  if (was !== 'computed secret') throw new Error(`the id was never good: ${was}`)
  await until(async () => (await askOf(older, 'tasks/get', kept.expired)).error, 'the end of the id')
  clients.set('bob', bob)
})
afterAll(async () => {
  for (const client of clients.values()) await client.close()
  await gateway.close()
})

async function clientFor(
  who: keyof typeof TOKENS,
  revision: Revision,
  capabilities = taskCapabilities(revision),
): Promise<FakeClient> {
  const headers = { authorization: `Bearer ${TOKENS[who]}` }
  return connect({ revision, transport: 'http', url: gateway.url, headers, capabilities, auto: false })
}

function clientOf(name: Revision | 'undeclared' | 'bob'): FakeClient {
  const found = clients.get(name)
  if (!found) throw new TypeError(`no client ${name}`)
  return found
}

const texts: Readonly<Record<string, () => string>> = {
  forged: () => 'A'.repeat(98),
  expired: () => kept.expired,
  foreign: () => kept.foreign,
  empty: () => '',
  'of 200 bytes': () => 'k'.repeat(200),
  'of 10 KB': () => 'k'.repeat(10_240),
  unicode: () => 'задача 🙂',
  'with NUL': () => 'a\0b',
  'a path': () => '../../etc/passwd',
  'the name of a prototype': () => '__proto__',
  'the name of a constructor': () => 'constructor',
  'the key of a record': () => 'operation:anonymous/one',
}
const others: Readonly<Record<string, unknown>> = {
  'a number': 7,
  null: null,
  'a boolean': true,
  'an array': ['a'],
  'an object': { id: 'x' },
  'one that pollutes': JSON.parse(
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  ),
  nothing: undefined,
}

/** An error as it is documented: its JSON-RPC code (none in the result of a tool), its own code, and what it is about. */
interface Documented {
  readonly status: number
  readonly rpc: number | undefined
  readonly code: string
  readonly category: string
  readonly field?: string
  readonly reason?: string
}

/** The documented fields of an error; expects that the reply reveals nothing internal. */
function documented(reply: Reply): Documented {
  const result = objectAt(objectAt(reply.result, '_meta'), 'dev.gatehouse/error')
  const data = reply.error ? objectAt(reply.error, 'data') : result
  expect(reply.text.length).toBeLessThan(2000)
  expect(reply.text).not.toMatch(/operation:|node_modules|\.ts:|\.js:|\bat \w+ \(|computed|the-token/)
  const { code, category, field, reason } = data
  return {
    status: reply.status,
    rpc: reply.error ? Number(reply.error['code']) : undefined,
    code: String(code),
    category: String(category),
    ...(field !== undefined && { field: String(field) }),
    ...(reason !== undefined && { reason: String(reason) }),
  }
}

const invalid = (field: string, reason: string): Documented => ({
  status: 200,
  rpc: -32602,
  code: 'INVALID_INPUT',
  category: 'invalid_input',
  field,
  reason,
})
const noMethod = (status: number): Documented => ({
  status,
  rpc: -32601,
  code: 'UNSUPPORTED_OPERATION',
  category: 'permanent',
})

/** The answer of a revision to an id of a task that it does not know, or that is no text. */
function ofTask(revision: Revision, method: string, isText: boolean): Documented {
  if (revision < '2025-11-25' || (revision === '2025-11-25' && method === 'tasks/update'))
    return noMethod(200)
  if (revision === '2026-07-28' && method === 'tasks/result') return noMethod(404)
  return invalid('taskId', isText ? 'unknown' : 'type')
}

const unknownOperation: Documented = {
  status: 200,
  rpc: undefined,
  code: 'RESOURCE_NOT_FOUND',
  category: 'permanent',
  field: 'operation_id',
  reason: 'unknown',
}

const methods = ['tasks/get', 'tasks/result', 'tasks/update', 'tasks/cancel']

describe.each(revisions)('a client of %s', (revision) => {
  const isModern = revision === '2026-07-28'

  it.each(Object.entries(texts))(
    'gets the error of an unknown id for an id that is %s',
    async (_what, id) => {
      const client = clientOf(revision)
      for (const method of methods)
        expect([method, documented(await askOf(client, method, id()))]).toEqual([
          method,
          ofTask(revision, method, true),
        ])
      const resumed = await client.request('operation/resume', { operation_id: id() })
      expect(documented(resumed)).toEqual({ ...unknownOperation, rpc: isModern ? -32602 : -32002 })
      const byTool = await client.request('tools/call', {
        name: 'resume_operation',
        arguments: { operation_id: id() },
      })
      const tooLong = { ...invalid('operation_id', 'maxLength'), rpc: undefined }
      expect(documented(byTool)).toEqual(id().length > 200 ? tooLong : unknownOperation)
    },
  )

  it.each(Object.entries(others))(
    'gets the error of a wrong type for an id that is %s',
    async (_what, id) => {
      const client = clientOf(revision)
      for (const method of methods)
        expect([method, documented(await askOf(client, method, id))]).toEqual([
          method,
          ofTask(revision, method, false),
        ])
      const resumed = await client.request('operation/resume', { operation_id: id })
      expect(documented(resumed)).toEqual(invalid('operation_id', 'type'))
      const byTool = await client.request('tools/call', {
        name: 'resume_operation',
        arguments: { operation_id: id },
      })
      const reason = id === undefined ? 'required' : 'type'
      expect(documented(byTool)).toEqual({ ...invalid('operation_id', reason), rpc: undefined })
    },
  )

  it('gets the error of a large body for an id of 1 MB', async () => {
    const client = clientOf(revision)
    const id = 'k'.repeat(1_048_576)
    const tooLarge = { status: 413, rpc: -32005, code: 'PAYLOAD_TOO_LARGE', category: 'invalid_input' }
    // The header Mcp-Name repeats the id, and is refused before the body.
    const inHeader = (method: string): boolean => isModern && method !== 'tasks/result'
    for (const method of methods) {
      const reply = await askOf(client, method, id)
      if (inHeader(method)) expect(reply.status).toBe(431)
      else expect(documented(reply)).toEqual(tooLarge)
    }
    expect(documented(await client.request('operation/resume', { operation_id: id }))).toEqual(tooLarge)
  })

  it('is served as before', async () => {
    const reply = await clientOf(revision).request('tools/call', {
      name: 'greet',
      arguments: { name: 'Ada' },
    })
    expect(textOf(reply)).toBe('Hello, Ada!')
    expect(gateway.log().filter(({ event, level }) => event === 'unhandled' || level === 'error')).toEqual([])
    expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain('polluted')
  })
})

it.each(['tasks/get', 'tasks/update', 'tasks/cancel'])(
  'a client of 2026-07-28 that did not declare tasks gets the same error from %s, whatever the id',
  async (method) => {
    for (const id of [kept.foreign, kept.expired, 'x', ''])
      expect(documented(await askOf(clientOf('undeclared'), method, id))).toMatchObject({
        rpc: -32021,
        status: 400,
        code: 'CAPABILITY_REQUIRED',
      })
  },
)

it('an id that cannot be a header is refused as the header differs', async () => {
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel'])
    expect(documented(await askOf(clientOf('2026-07-28'), method, '\ud800'))).toMatchObject({
      status: 400,
      rpc: -32020,
      code: 'HEADER_MISMATCH',
    })
})

it.each([['x'], [7], [null], ['-1'], [''], ['1.5'], ['9'.repeat(30)], [{}], [['0']]])(
  'tasks/list of 2025-11-25 refuses the cursor %j',
  async (cursor) => {
    const { rpc, code, field } = documented(await clientOf('2025-11-25').request('tasks/list', { cursor }))
    expect({ rpc, code, field }).toEqual({ rpc: -32602, code: 'INVALID_INPUT', field: 'cursor' })
  },
)

it.each([[null], ['x'], [7], [true], [[]], [{ ttl: 'x' }], [{ ttl: -1 }], [{ ttl: {} }]])(
  'a call of 2025-11-25 with the task %j is refused, or is a plain call where it is null',
  async (task) => {
    const call = { name: 'greet', arguments: { name: 'Ada' }, task }
    const reply = await clientOf('2025-11-25').request('tools/call', call)
    if (task === null) return expect(textOf(reply)).toBe('Hello, Ada!')
    const { rpc, code, reason } = documented(reply)
    expect({ rpc, code, reason }).toEqual({ rpc: -32602, code: 'INVALID_INPUT', reason: 'type' })
  },
)

describe('responses to a task of 2026-07-28 that asks', () => {
  const accept = { action: 'accept', content: { confirm: true } }
  /** Responses, given the key of the question; `__proto__` as a key of its own. */
  const refused: readonly ((key: string) => unknown)[] = [
    () => undefined,
    () => null,
    () => 'x',
    () => 7,
    () => [],
    () => [accept],
    (key) => ({ [key]: null }),
    (key) => ({ [key]: 'x' }),
    (key) => ({ [key]: 7 }),
    (key) => ({ [key]: [accept] }),
    (key) => ({ [key]: true }),
  ]
  const ignored: readonly ((key: string) => unknown)[] = [
    () => ({}),
    () => ({ unknown: accept }),
    () => ({ '': accept }),
    () => JSON.parse(`{"__proto__":${JSON.stringify(accept)},"constructor":${JSON.stringify(accept)}}`),
    (key) => JSON.parse(`{"__proto__":{${JSON.stringify(key)}:${JSON.stringify(accept)}}}`),
    (key) => ({ [`${key}x`]: accept, [key.toUpperCase()]: accept, toString: accept }),
  ]

  it('that are malformed are refused, those to other questions are left out, and the right one is taken', async () => {
    const client = clientOf('2026-07-28')
    const { taskId } = await beginTask(client, 'confirm_delete', { filename: 'plan.txt' })
    const key = await questionOf(client, taskId)
    for (const make of refused) {
      const inputResponses = make(key)
      const reply = await client.request('tasks/update', { taskId, inputResponses })
      expect([inputResponses, documented(reply)]).toEqual([inputResponses, invalid('inputResponses', 'type')])
      expect(await questionOf(client, taskId)).toBe(key)
    }
    for (const make of ignored) {
      const { result } = await client.request('tasks/update', { taskId, inputResponses: make(key) })
      expect(result).toMatchObject({ resultType: 'complete' })
      expect(await questionOf(client, taskId)).toBe(key)
    }
    const large = { [key]: { action: 'accept', content: { confirm: true, more: 'x'.repeat(1_048_576) } } }
    const reply = await client.request('tasks/update', { taskId, inputResponses: large })
    expect(documented(reply)).toMatchObject({ status: 413, code: 'PAYLOAD_TOO_LARGE' })
    expect(await questionOf(client, taskId)).toBe(key)
    await client.request('tasks/update', { taskId, inputResponses: { [key]: accept } })
    const text = await until(async () => {
      const { result } = await askOf(client, 'tasks/get', taskId)
      return result?.['status'] === 'completed' && JSON.stringify(result)
    }, 'the end of the task')
    expect(text).toContain('deleted plan.txt')
  })

  it('of another caller are refused, and the error reveals nothing of the input request', async () => {
    const { taskId, status } = await beginTask(clientOf('bob'), 'confirm_delete', { filename: 'b' })
    expect(status).toBe('working')
    const key = await questionOf(clientOf('bob'), taskId)
    for (const inputResponses of [{ [key]: accept }, {}]) {
      const reply = await clientOf('2026-07-28').request('tasks/update', { taskId, inputResponses })
      expect(documented(reply)).toEqual(invalid('taskId', 'unknown'))
    }
    expect(await questionOf(clientOf('bob'), taskId)).toBe(key)
  })
})

describe('a listener of 2026-07-28', () => {
  it.each([
    { what: 'null', taskIds: null },
    { what: 'a text', taskIds: 'x' },
    { what: 'a number', taskIds: 7 },
    { what: 'an object', taskIds: {} },
    { what: 'a list of numbers', taskIds: [1] },
    { what: 'a list of null', taskIds: [null] },
    { what: 'a list of 1001 ids', taskIds: Array.from({ length: 1001 }, () => 'x') },
  ])('is refused where taskIds is $what', async ({ taskIds }) => {
    const listening = clientOf('2026-07-28').listen({ taskIds })
    const { rpc, code, field } = documented(await listening.ended)
    expect({ rpc, code, field }).toEqual({
      rpc: -32602,
      code: 'INVALID_INPUT',
      field: 'notifications.taskIds',
    })
  })

  it('gets no acknowledgement for a task that it may not see', async () => {
    const ids = Object.values(texts).map((id) => id())
    const listening = clientOf('2026-07-28').listen({ taskIds: ids })
    expect(await listening.acknowledged).toEqual({})
    await listening.close()
  })
})
