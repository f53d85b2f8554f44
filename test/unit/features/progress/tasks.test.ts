import { retainSlot, detachedSlot, acceptsTaskSlot } from '../../../../src/core/slot.ts'
import { describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { operationsOf } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'
import {
  alice,
  asking,
  bob,
  failureOf,
  fieldsOf,
  listener,
  older,
  operationIn,
  pendingServer,
  plain,
  process,
  RELATED_TASK,
  result,
  taking,
  taskIn,
  watched,
} from './bench.ts'

const pass = fakeClock()
const accept = (text: string) => ({ action: 'accept', content: { text } })

/** A call of a client of 2026-07-28 that has become a task. */
async function modernTask(setup: Partial<Parameters<typeof process>[0]> = {}, given: Partial<Call> = {}) {
  const pending = pendingServer()
  const gateway = process({ server: pending.server, ...setup })
  const outcome = gateway.make({ client: taking, ...given })
  await pass(20_200)
  const { id } = taskIn(await outcome)
  const get = async (more: Partial<Call> = {}) =>
    fieldsOf(await gateway.ask('tasks/get', { taskId: id }, more))
  return { ...gateway, ...pending, id, get }
}

/** A call that a client of 2025-11-25 made as a task. */
async function olderTask(
  setup: Partial<Parameters<typeof process>[0]> = {},
  given: Partial<Call> = {},
  task: Json = { ttl: 60_000 },
) {
  const pending = pendingServer()
  const gateway = process({ server: pending.server, ...setup })
  const client = given.client ?? older
  const outcome = gateway.make({ client, ...given }, { task })
  await pass(60)
  const accepted = taskIn(await outcome)
  const { id } = accepted
  const ask = (method: string, params: Json = {}, more: Partial<Call> = {}): Promise<Outcome> =>
    gateway.ask(method, { taskId: id, ...params }, { client, ...given, ...more })
  const get = async (more: Partial<Call> = {}) => fieldsOf(await ask('tasks/get', {}, more))
  return { ...gateway, ...pending, id, accepted, ask, get }
}

describe('a call of a client of 2026-07-28 that takes tasks', () => {
  it('becomes a task once it has taken as long as configured, and goes on', async () => {
    const { server, calls } = pendingServer()
    const retain = vi.fn<() => void>()
    const { make, records } = process({ server })
    const outcome = watched(make({ client: taking, slots: retainSlot.put(retain) }))
    await pass(19_800)
    expect(outcome.isSettled).toBe(false)
    expect(retain).not.toHaveBeenCalled()
    await pass(400)
    expect(taskIn(outcome.value)).toMatchObject({ status: 'working', ttl: 1_200_000, pollInterval: 1000 })
    expect(retain).toHaveBeenCalled()
    expect(calls).toHaveLength(1)
    expect(calls[0] && acceptsTaskSlot.of(calls[0])).toBe(true)
    expect(calls[0] && detachedSlot.of(calls[0])?.()).toBe(true)
    expect(await records()).toMatchObject([{ state: 'working', taskTtl: 1_200_000 }])
  })

  it('is answered only once the record of the task is durable', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    const gate = Promise.withResolvers<void>()
    store.compareAndSwap = async (...args) => {
      await gate.promise
      return swap(...args)
    }
    const { server } = pendingServer()
    const { make, ask } = process({ server, store })
    const outcome = watched(make({ client: taking }))
    await pass(30_000)
    expect(outcome.isSettled).toBe(false)
    gate.resolve()
    await pass(0)
    const { id } = taskIn(outcome.value)
    expect(fieldsOf(await ask('tasks/get', { taskId: id }))).toMatchObject({ taskId: id, status: 'working' })
  })

  it('stays a plain call where its record is not taken', async () => {
    const store = new MemoryStore()
    store.compareAndSwap = () => Promise.reject(new Error('away'))
    const { server, end } = pendingServer()
    const { make } = process({ server, store })
    const outcome = watched(make({ client: taking }))
    await pass(30_000)
    expect(outcome.isSettled).toBe(false)
    end(result('done'))
    await pass(6000)
    expect(fieldsOf(outcome.value)).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('does not become one any more where it ends before the record of the task is durable', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    const gate = Promise.withResolvers<void>()
    store.compareAndSwap = async (...args) => {
      await gate.promise
      return swap(...args)
    }
    const { server, end } = pendingServer()
    const { make, rests } = process({ server, store })
    const outcome = make({ client: taking })
    await pass(20_200)
    end(result('done'))
    await pass(6000)
    expect(fieldsOf(await outcome)).toMatchObject({ content: [{ text: 'done' }] })
    gate.resolve()
    await pass(1000)
    // Its end was observed with its request.
    expect(rests).toEqual([])
  })

  it.each([
    ['2026-07-28 without tasks', plain],
    ['2025-11-25', older],
  ])('a call of a client of %s never becomes one', async (_name, client) => {
    const { server } = pendingServer()
    const { make, records } = process({ server })
    const outcome = watched(make({ client }))
    await pass(300_000)
    expect(outcome.isSettled).toBe(false)
    expect((await records())[0]).not.toHaveProperty('taskTtl')
  })

  it('hands its end over to be observed', async () => {
    const { rests, end } = await modernTask()
    expect(rests).toHaveLength(1)
    end(result('done'))
    expect(fieldsOf(await rests[0])).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('is quiet once it is answered: no note may follow', async () => {
    const { notes, emit } = listener()
    const { calls } = await modernTask({}, { emit })
    calls[0]?.emit({
      method: 'notifications/progress',
      params: Payload.of({ progressToken: 1, progress: 1 }),
    })
    await pass(60_000)
    expect(notes).toEqual([])
  })
})

describe('tasks/get of 2026-07-28', () => {
  it('says that a task works, with what its server said last', async () => {
    const { get, calls, id } = await modernTask()
    expect(await get()).toEqual({
      resultType: 'complete',
      taskId: id,
      status: 'working',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      lastUpdatedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      ttlMs: 1_200_000,
      pollIntervalMs: 1000,
    })
    const params = Payload.of({ progressToken: 1, progress: 1, message: 'half of it' })
    calls[0]?.emit({ method: 'notifications/progress', params })
    expect(await get()).toMatchObject({ status: 'working', statusMessage: 'half of it' })
  })

  it('inlines the result with its exact text, also one that is an error', async () => {
    for (const isError of [false, true]) {
      const { ask, end, id } = await modernTask()
      end(result(`{"content":[],"large":12345678901234567890,"isError":${isError}}`))
      await pass(0)
      const outcome = await ask('tasks/get', { taskId: id })
      expect(fieldsOf(outcome)).toMatchObject({ status: 'completed', result: { content: [], isError } })
      expect(outcome.kind === 'result' && outcome.result.text).toContain('"large":12345678901234567890')
      expect(fieldsOf(outcome)).not.toHaveProperty('error')
    }
  })

  it('inlines the error of a call that failed', async () => {
    const { get, fail } = await modernTask()
    fail(new GatewayError('OPERATION_TIMEOUT', 'it took too long'))
    await pass(0)
    const fields = await get()
    expect(fields).toMatchObject({
      status: 'failed',
      statusMessage: 'it took too long',
      error: { code: -32004, message: 'it took too long' },
    })
    expect(fields).not.toHaveProperty('result')
  })

  it('calls a task failed whose outcome cannot be found out', async () => {
    const { get, fail, records } = await modernTask()
    fail(new GatewayError('OUTCOME_UNKNOWN', 'the response was lost'))
    await pass(0)
    expect((await records())[0]?.state).toBe('unknown')
    expect(await get()).toMatchObject({ status: 'failed', error: { message: 'the response was lost' } })
  })

  it('keeps a task for its whole time from its creation on, and for some time after its end', async () => {
    const { get, end, id, ask } = await modernTask()
    await pass(1_190_000)
    end(result('done'))
    await pass(590_000)
    expect(await get()).toMatchObject({ status: 'completed' })
    await pass(20_000)
    expect(await failureOf(ask('tasks/get', { taskId: id }))).toMatchObject({ message: 'Task not found' })
  })
})

describe('tasks of others', () => {
  it('fail in the same way as tasks that never were, with every method', async () => {
    const { ask, id, calls } = await modernTask()
    const unknown = await failureOf(ask('tasks/get', { taskId: 'x' }))
    expect(unknown).toMatchObject({ code: 'INVALID_INPUT', message: 'Task not found' })
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result']) {
      const params = { taskId: id, inputResponses: {} }
      expect(await failureOf(ask(method, params, { principal: bob }))).toEqual(unknown)
      expect(await failureOf(ask(method, params, { principal: anonymous }))).toEqual(unknown)
    }
    expect(calls[0]?.signal.aborted).toBe(false)
  })

  it('are those of another server too, at the address of one', async () => {
    const { ask, id, get } = await modernTask()
    const at = (upstream: string) => ({ target: { method: 'tasks/get', upstream } })
    expect(await failureOf(ask('tasks/get', { taskId: id }, at('two')))).toMatchObject({
      message: 'Task not found',
    })
    expect(await get({ target: { method: 'tasks/get' } })).toMatchObject({ status: 'working' })
  })

  it('a call that its caller does not see as a task is none', async () => {
    const { server, end } = pendingServer()
    const { make, ask } = process({ server })
    const outcome = make({ client: older })
    await pass(2000)
    end(result('done'))
    const id = operationIn(await outcome)
    expect(await failureOf(ask('tasks/get', { taskId: id }))).toMatchObject({ message: 'Task not found' })
  })

  it('of callers without a name belong to the session that began them', async () => {
    const session = (name: string) => ({ principal: anonymous, client: { ...older, session: name } })
    const { ask } = await olderTask({}, session('s1'))
    expect(fieldsOf(await ask('tasks/get', {}, session('s1')))).toMatchObject({ status: 'working' })
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/result'])
      expect((await failureOf(ask(method, {}, session('s2')))).message).toBe('Task not found')
    expect(fieldsOf(await ask('tasks/list', {}, session('s1')))['tasks']).toHaveLength(1)
    expect(fieldsOf(await ask('tasks/list', {}, session('s2')))['tasks']).toEqual([])
  })

  it('of callers without a name and without a session are in the list of no session', async () => {
    const { ask } = await modernTask({}, { principal: anonymous })
    const session = { principal: anonymous, client: older }
    expect(fieldsOf(await ask('tasks/list', {}, session))['tasks']).toEqual([])
  })

  it('of a session are not resumed by callers without a name that have its id', async () => {
    const session = (name: string) => ({ principal: anonymous, client: { ...older, session: name } })
    const { ask, id, end } = await olderTask({}, session('s1'))
    // It still runs: whoever may not have its outcome does not wait for it either.
    for (const given of [session('s2'), { principal: anonymous, client: taking }])
      expect((await failureOf(ask('operation/resume', { operation_id: id }, given))).code).toBe(
        'RESOURCE_NOT_FOUND',
      )
    end(result('done'))
    const own = await ask('operation/resume', { operation_id: id }, session('s1'))
    expect(fieldsOf(own)).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('are resumed at their own address alone', async () => {
    const { ask, id, end } = await modernTask()
    end(result('done'))
    await pass(0)
    const resume = (upstream: string) =>
      ask('operation/resume', { operation_id: id }, { target: { method: 'operation/resume', upstream } })
    expect((await failureOf(resume('two'))).code).toBe('RESOURCE_NOT_FOUND')
    expect(fieldsOf(await resume('one'))).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('of a caller with a name can be read in another session of it', async () => {
    const { get } = await olderTask()
    expect(await get({ client: { ...older, session: 's2' } })).toMatchObject({ status: 'working' })
  })

  it('cannot be read by a caller that may not call their tool any more', async () => {
    const principal = { id: 'alice', scopes: new Set(['write:one']) }
    let isPermitted = true
    const { ask, id, get } = await modernTask(
      { deps: { isPermitted: async () => isPermitted } },
      { principal },
    )
    expect(await get({ principal })).toMatchObject({ status: 'working' })
    isPermitted = false
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result']) {
      const refused = failureOf(ask(method, { taskId: id, inputResponses: {} }, { principal }))
      expect(await refused).toMatchObject({ code: 'INVALID_INPUT', message: 'Task not found' })
    }
    // A caller without limits is not asked about.
    expect(await get({ principal: alice })).toMatchObject({ status: 'working' })
  })
})

it('a client of 2026-07-28 that did not declare tasks gets CAPABILITY_REQUIRED, before its task is looked up', async () => {
  const { ask } = process({ server: async () => result('ok') })
  for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result']) {
    const error = await failureOf(ask(method, { taskId: 'x' }, { client: plain }))
    expect(error).toMatchObject({
      code: 'CAPABILITY_REQUIRED',
      data: { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
    })
  }
})

it.each(['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result'])(
  '%s needs a taskId',
  async (method) => {
    const { ask } = process({ server: async () => result('ok') })
    for (const client of [taking, older])
      expect(await failureOf(ask(method, { taskId: 1 }, { client }))).toMatchObject({ code: 'INVALID_INPUT' })
  },
)

/** A server that asks in several rounds, and keeps every attempt. */
function askingServer(rounds: readonly (readonly string[])[]) {
  const attempts: Call[] = []
  const start = Promise.withResolvers<void>()
  const server: Handler = async (call) => {
    attempts.push(call)
    await start.promise
    const keys = rounds[attempts.length - 1]
    return keys ? asking(keys, { round: attempts.length }) : result('done')
  }
  return { server, attempts, begin: () => start.resolve() }
}

describe('a task that asks', () => {
  async function askingTask(
    rounds: readonly (readonly string[])[],
    setup: Parameters<typeof modernTask>[0] = {},
  ) {
    const { server, attempts, begin } = askingServer(rounds)
    const task = await modernTask({ ...setup, server })
    begin()
    await pass(0)
    const update = (inputResponses: Json, more: Partial<Call> = {}) =>
      task.ask('tasks/update', { taskId: task.id, inputResponses }, more)
    const open = async () => Object.keys(Object((await task.get())['inputRequests']))
    return { ...task, attempts, update, open }
  }

  it('is input_required, and shows what is asked', async () => {
    const { get } = await askingTask([['q']])
    const fields = await get()
    expect(fields).toMatchObject({ status: 'input_required' })
    expect(Object.values(Object(fields['inputRequests']))).toEqual([
      {
        method: 'elicitation/create',
        params: { message: 'q?', requestedSchema: { type: 'object', properties: {} } },
      },
    ])
  })

  it('goes on once all of it is answered, under the keys and with the state that its server gave', async () => {
    const { get, update, open, attempts } = await askingTask([['q', 'r']])
    const [first = '', second = ''] = await open()
    expect(fieldsOf(await update({ [first]: accept('one') }))).toEqual({})
    await pass(5000)
    expect(await open()).toEqual([second])
    expect(attempts).toHaveLength(1)
    await update({ [second]: accept('two') })
    await pass(0)
    expect(attempts).toHaveLength(2)
    const { inputResponses = {}, requestState } = attempts[1] ?? {}
    expect(requestState).toEqual({ round: 1 })
    expect(JSON.parse(JSON.stringify(inputResponses))).toEqual({
      q: { result: accept('one') },
      r: { result: accept('two') },
    })
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('uses no key twice, however often its server uses its own', async () => {
    const { update, open, attempts, get } = await askingTask([['q'], ['q'], ['q']])
    const seen: string[] = []
    for (let round = 1; round <= 3; round++) {
      const [key = ''] = await open()
      seen.push(key)
      await update({ [key]: accept(String(round)) })
      await pass(0)
    }
    expect(new Set(seen).size).toBe(3)
    expect(attempts).toHaveLength(4)
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('leaves out what was not asked, and what has been answered already', async () => {
    const { update, open, attempts, get } = await askingTask([['q', 'r']])
    const [first = '', second = ''] = await open()
    expect(
      fieldsOf(await update({ 'no-such': accept('x'), q: accept('x'), __proto__: accept('x') })),
    ).toEqual({})
    expect(await open()).toEqual([first, second])
    await update({ [first]: accept('first') })
    await update({ [first]: accept('second'), [second]: accept('two') })
    await pass(0)
    const { inputResponses = {} } = attempts[1] ?? {}
    expect(JSON.parse(JSON.stringify(inputResponses))).toEqual({
      q: { result: accept('first') },
      r: { result: accept('two') },
    })
    // Late responses to a task that has ended are acknowledged.
    expect(fieldsOf(await update({ [first]: accept('late') }))).toEqual({})
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('keeps the first of two responses that come at the same time', async () => {
    const store = new MemoryStore()
    const { update, open, attempts } = await askingTask([['q', 'r']], { store })
    const [first = '', second = ''] = await open()
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = async (...args) => {
      // Another response comes between the read and the write of this one.
      store.compareAndSwap = swap
      await update({ [first]: accept('first') })
      return swap(...args)
    }
    await update({ [first]: accept('second') })
    await update({ [second]: accept('two') })
    await pass(0)
    expect(JSON.parse(JSON.stringify(attempts[1]?.inputResponses))).toMatchObject({
      q: { result: accept('first') },
    })
  })

  it.each([[undefined], [null], ['x'], [[]]])('refuses %j as responses', async (inputResponses) => {
    const { ask, id, open } = await askingTask([['q']])
    const params = { taskId: id, ...(inputResponses !== undefined && { inputResponses }) }
    expect(await failureOf(ask('tasks/update', params))).toMatchObject({ code: 'INVALID_INPUT' })
    expect(await open()).toHaveLength(1)
  })

  it.each([['x'], [7], [null], [[]]])(
    'refuses the response %j, and waits for another one',
    async (response) => {
      const { update, open, attempts } = await askingTask([['one', 'two']])
      const keys = await open()
      const [one = '', two = ''] = keys
      const refused = failureOf(update({ [one]: accept('a'), [two]: response }))
      expect(await refused).toMatchObject({
        code: 'INVALID_INPUT',
        data: { field: 'inputResponses' },
      })
      expect(await open()).toEqual(keys)
      await update({ [one]: accept('a'), [two]: accept('b'), three: response })
      await pass(0)
      expect(attempts).toHaveLength(2)
    },
  )

  it('takes its responses from another process too', async () => {
    const store = new MemoryStore()
    const { id, open, attempts } = await askingTask([['q']], { store })
    const other = process({ server: async () => result('no'), store, me: 'b' })
    const [key = ''] = await open()
    await other.ask('tasks/update', { taskId: id, inputResponses: { [key]: accept('one') } })
    await pass(1200)
    expect(JSON.parse(JSON.stringify(attempts[1]?.inputResponses))).toEqual({ q: { result: accept('one') } })
    expect(fieldsOf(await other.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'completed' })
  })

  it('continues with the responses so far after ten minutes without an answer', async () => {
    const { attempts, open, get } = await askingTask([['q']])
    await pass(599_000)
    expect(await open()).toHaveLength(1)
    await pass(3000)
    expect(attempts[1]?.inputResponses).toEqual({})
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('goes on at once where its server withdraws its questions', async () => {
    const withdrawing = new AbortController()
    const attempts: Call[] = []
    const start = Promise.withResolvers<void>()
    const { get } = await modernTask({
      server: async (call) => {
        attempts.push(call)
        await start.promise
        if (attempts.length > 1) return result('done')
        const asked = asking(['q'])
        return asked.kind === 'input_required' ? { ...asked, withdrawn: withdrawing.signal } : asked
      },
    }).then((task) => {
      start.resolve()
      return task
    })
    await pass(0)
    expect(await get()).toMatchObject({ status: 'input_required' })
    withdrawing.abort()
    await pass(0)
    expect(attempts).toHaveLength(2)
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('fails where its server asks without an end', async () => {
    const { update, open, get } = await askingTask(Array.from({ length: 30 }, () => ['q']))
    for (let round = 0; round < 10; round++) {
      const [key = ''] = await open()
      await update({ [key]: accept('x') })
      await pass(0)
    }
    expect(await get()).toMatchObject({ status: 'failed', error: { code: -32603 } })
  })

  it('a call that asks before it is a task asks its caller directly', async () => {
    const { server, end } = pendingServer()
    const { make } = process({ server })
    const outcome = make({ client: taking })
    await pass(15_000)
    const own = asking(['q'])
    end(own)
    expect(await outcome).toBe(own)
  })
})

describe('tasks/cancel of 2026-07-28', () => {
  it('ends the call, and its task stays cancelled though the server ends later', async () => {
    const late = Promise.withResolvers<Outcome>()
    const seen: Call[] = []
    const { ask, id, get } = await modernTask({
      server: (call) => {
        seen.push(call)
        return late.promise
      },
    })
    expect(fieldsOf(await ask('tasks/cancel', { taskId: id }))).toEqual({})
    expect(seen[0]?.signal.aborted).toBe(true)
    expect(seen[0]?.signal.reason).toMatchObject({ code: 'CANCELLED' })
    expect(await get()).toMatchObject({ status: 'cancelled' })
    late.resolve(result('done all the same'))
    await pass(1000)
    const fields = await get()
    expect(fields).toMatchObject({ status: 'cancelled', statusMessage: expect.stringContaining('Cancelled') })
    expect(fields).not.toHaveProperty('result')
    expect((await failureOf(ask('operation/resume', { operation_id: id }))).code).toBe('CANCELLED')
  })

  it('is acknowledged for a task that has ended, which stays as it is', async () => {
    const { ask, id, get, end } = await modernTask()
    end(result('done'))
    await pass(0)
    expect(fieldsOf(await ask('tasks/cancel', { taskId: id }))).toEqual({})
    expect(await get()).toMatchObject({ status: 'completed' })
  })

  it('ends a call that waits for input', async () => {
    const { server, attempts, begin } = askingServer([['q']])
    const { ask, id, get, rests } = await modernTask({ server })
    begin()
    await pass(0)
    await ask('tasks/cancel', { taskId: id })
    await expect(rests[0]).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(await get()).toMatchObject({ status: 'cancelled' })
    expect(await get()).not.toHaveProperty('inputRequests')
    expect(attempts).toHaveLength(1)
  })

  it('reaches a call that another process runs', async () => {
    const store = new MemoryStore()
    const { id, calls, get } = await modernTask({ store })
    const other = process({ server: async () => result('no'), store, me: 'b' })
    await other.ask('tasks/cancel', { taskId: id })
    await pass(1200)
    expect(calls[0]?.signal.reason).toMatchObject({ code: 'CANCELLED' })
    expect(await get()).toMatchObject({ status: 'cancelled' })
  })
})

describe('a call that a client of 2025-11-25 makes as a task', () => {
  it('is accepted at once, and its server does not see the wish', async () => {
    const { accepted, calls, records } = await olderTask()
    expect(accepted).toMatchObject({ status: 'working', ttl: 60_000 })
    expect(calls).toHaveLength(1)
    expect(calls[0]?.params.fields).toEqual({ name: 't', arguments: {} })
    expect(calls[0] && acceptsTaskSlot.of(calls[0])).toBe(true)
    expect(await records()).toMatchObject([{ state: 'working', taskTtl: 60_000 }])
  })

  it('is kept for as long as it asks, at most a day, and by default as long as it may run and is kept', async () => {
    expect((await olderTask({}, {}, { ttl: 1e12 })).accepted.ttl).toBe(86_400_000)
    expect((await olderTask({}, {}, {})).accepted.ttl).toBe(1_200_000)
    expect((await olderTask({}, {}, { ttl: 0 })).accepted.ttl).toBe(0)
  })

  it('is not made where it cannot be recorded', async () => {
    const store = new MemoryStore()
    store.put = () => Promise.reject(new Error('away'))
    const { server, calls } = pendingServer()
    const { make } = process({ server, store })
    const error = await failureOf(make({ client: older }, { task: {} }))
    expect(error).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(calls).toHaveLength(0)
  })

  it('is recorded before its server is called', async () => {
    const store = new MemoryStore()
    const [put, server] = [vi.spyOn(store, 'put'), vi.fn<Handler>(() => new Promise(() => undefined))]
    const { make } = process({ server, store })
    const outcome = make({ client: older }, { task: {} })
    await pass(60)
    taskIn(await outcome)
    const order = put.mock.invocationCallOrder
    expect(Math.max(...order)).toBeLessThan(server.mock.invocationCallOrder[0] ?? 0)
  })

  it('is refused with the error where that comes at once, and leaves no record', async () => {
    const error = new GatewayError('SCOPE_INSUFFICIENT', 'no')
    const { make, records } = process({
      server: async () => {
        await new Promise((resolve) => setTimeout(resolve, 30))
        throw error
      },
    })
    const outcome = watched(make({ client: older }, { task: {} }))
    await pass(40)
    expect(outcome.error).toBe(error)
    await pass(1000)
    expect(await records()).toEqual([])
  })

  it('is a failed task where the error comes later, and tasks/result fails with it', async () => {
    const { get, ask, fail } = await olderTask()
    fail(new GatewayError('SCOPE_INSUFFICIENT', 'not any more'))
    await pass(0)
    expect(await get()).toMatchObject({ status: 'failed', statusMessage: 'not any more' })
    expect(await failureOf(ask('tasks/result'))).toMatchObject({
      code: 'SCOPE_INSUFFICIENT',
      message: 'not any more',
    })
  })

  it('works first though its server has answered already', async () => {
    const { make, ask } = process({ server: async () => result('done') })
    const task = taskIn(await make({ client: older }, { task: {} }))
    expect(task.status).toBe('working')
    const params = { taskId: task.id }
    const got = fieldsOf(await ask('tasks/get', params, { client: older }))
    expect(got).toMatchObject({ status: 'completed', ttl: 1_200_000, pollInterval: 1000 })
    for (const member of ['resultType', 'ttlMs', 'pollIntervalMs', 'result'])
      expect(got).not.toHaveProperty(member)
    expect(fieldsOf(await ask('tasks/result', params, { client: older }))).toMatchObject({
      content: [{ type: 'text', text: 'done' }],
      _meta: { [RELATED_TASK]: { taskId: task.id } },
    })
  })

  it('has failed where its result is an error, which tasks/result returns', async () => {
    const { get, ask, end } = await olderTask()
    end(result('{"content":[{"type":"text","text":"no"}],"isError":true}'))
    await pass(0)
    expect(await get()).toMatchObject({ status: 'failed' })
    expect(fieldsOf(await ask('tasks/result'))).toMatchObject({ isError: true })
  })
})

describe('tasks/result', () => {
  it('waits for the end of the task', async () => {
    const { ask, end, id } = await olderTask()
    const waiting = watched(ask('tasks/result'))
    await pass(10_000)
    expect(waiting.isSettled).toBe(false)
    end(result('done'))
    await pass(0)
    expect(fieldsOf(waiting.value)).toMatchObject({
      content: [{ text: 'done' }],
      _meta: { [RELATED_TASK]: { taskId: id } },
    })
  })

  it('waits for a task of another process', async () => {
    const store = new MemoryStore()
    const { end, id } = await olderTask({ store })
    const other = process({ server: async () => result('no'), store, me: 'b' })
    const waiting = watched(other.ask('tasks/result', { taskId: id }, { client: older }))
    await pass(2000)
    expect(waiting.isSettled).toBe(false)
    end(result('done'))
    await pass(600)
    expect(fieldsOf(waiting.value)).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('ends with its own request, and the task goes on', async () => {
    const { ask, get } = await olderTask()
    const controller = new AbortController()
    const waiting = watched(ask('tasks/result', {}, { signal: controller.signal }))
    await pass(100)
    controller.abort(new GatewayError('CANCELLED', 'gone'))
    await pass(0)
    expect(waiting.error).toMatchObject({ message: 'gone' })
    expect(await get()).toMatchObject({ status: 'working' })
  })

  it('leaves no timer behind once it has answered: its rejection would end the process', async () => {
    const { ask, end } = await olderTask()
    end(result('done'))
    await pass(0)
    const before = vi.getTimerCount()
    await ask('tasks/result')
    expect(vi.getTimerCount()).toBe(before)
  })

  it('fails for a task that is cancelled meanwhile', async () => {
    const { ask } = await olderTask()
    const waiting = failureOf(ask('tasks/result'))
    await pass(100)
    await ask('tasks/cancel')
    expect((await waiting).code).toBe('CANCELLED')
  })

  it('asks its client for what the task needs, and goes on with the responses', async () => {
    const { server, attempts, begin } = askingServer([['q', 'r']])
    const { ask, id, get } = await olderTask({ server })
    const waiting = watched(ask('tasks/result'))
    begin()
    await pass(0)
    const asked = waiting.value
    if (asked?.kind !== 'input_required') throw new TypeError('it does not ask')
    const entries = Object.entries(asked.inputRequests)
    expect(entries.map(([, { method }]) => method)).toEqual(['elicitation/create', 'elicitation/create'])
    for (const [, { params }] of entries)
      expect(params?.fields['_meta']).toEqual({ [RELATED_TASK]: { taskId: id } })
    expect(await get()).toMatchObject({ status: 'input_required' })
    const answers = entries.map(([key], index) => [key, { result: Payload.of(accept(`a${index}`)) }])
    const given = { ...Object.fromEntries(answers), other: { result: Payload.of(accept('x')) } }
    const rest = ask('tasks/result', {}, { inputResponses: given })
    expect(fieldsOf(await rest)).toMatchObject({ content: [{ text: 'done' }] })
    expect(JSON.parse(JSON.stringify(attempts[1]?.inputResponses))).toEqual({
      q: { result: accept('a0') },
      r: { result: accept('a1') },
    })
    expect(attempts[1]?.requestState).toEqual({ round: 1 })
  })

  it('keeps the first response where a client answers a question twice', async () => {
    const { server, attempts, begin } = askingServer([['q', 'r']])
    const { ask } = await olderTask({ server })
    begin()
    await pass(0)
    const asked = await ask('tasks/result')
    if (asked.kind !== 'input_required') throw new TypeError('it does not ask')
    const [first = '', second = ''] = Object.keys(asked.inputRequests)
    const answer = (text: string) => ({ result: Payload.of(accept(text)) })
    await ask('tasks/result', {}, { inputResponses: { [first]: answer('first') } })
    await ask('tasks/result', {}, { inputResponses: { [first]: answer('second'), [second]: answer('two') } })
    expect(JSON.parse(JSON.stringify(attempts[1]?.inputResponses))).toMatchObject({
      q: { result: accept('first') },
    })
  })
})

describe('a client of a revision without tasks', () => {
  const before = { client: { ...older, revision: '2025-06-18' } }

  it('gets the result though it sends task, which its server does not see', async () => {
    const { server, calls, end } = pendingServer()
    const { make } = process({ server })
    const outcome = make(before, { task: { ttl: 60_000 } })
    await pass(2000)
    end(result('done'))
    expect(fieldsOf(await outcome)).toMatchObject({ content: [{ text: 'done' }] })
    expect(calls[0]?.params.fields).not.toHaveProperty('task')
  })

  it('has none of the methods of tasks', async () => {
    const task = await olderTask()
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/list', 'tasks/update'])
      expect((await failureOf(task.ask(method, {}, before))).code).toBe('UNSUPPORTED_OPERATION')
  })
})

describe('tasks/list', () => {
  it('names the own tasks of a caller alone, the oldest first, by the ids that it has', async () => {
    const { make, ask } = process({ server: pendingServer().server })
    const ids: string[] = []
    for (const principal of [alice, bob, alice]) {
      const outcome = make({ client: older, principal }, { task: {} })
      await pass(60)
      const { id } = taskIn(await outcome)
      if (principal === alice) ids.push(id)
    }
    void make({ client: older })
    await pass(2000)
    const client = older
    const { tasks, nextCursor } = fieldsOf(await ask('tasks/list', {}, { client })) as {
      tasks: readonly Readonly<Record<string, unknown>>[]
      nextCursor?: unknown
    }
    expect(nextCursor).toBeUndefined()
    expect(tasks.map(({ taskId }) => taskId)).toEqual(ids)
    for (const task of tasks) {
      const got = fieldsOf(await ask('tasks/get', { taskId: task['taskId'] }, { client }))
      expect(got).toEqual(task)
    }
  })

  it('leaves out the tasks of tools that its caller may not call any more', async () => {
    let isPermitted = true
    const scoped = { id: 'alice', scopes: new Set(['read:one']) }
    const permits = vi.fn<() => Promise<boolean>>(async () => isPermitted)
    const { make, ask } = process({ server: pendingServer().server, deps: { isPermitted: permits } })
    for (let count = 0; count < 3; count++) void make({ client: older, principal: scoped }, { task: {} })
    await pass(60)
    const listed = async () =>
      fieldsOf(await ask('tasks/list', {}, { client: older, principal: scoped }))['tasks']
    expect(await listed()).toHaveLength(3)
    // One question for each tool.
    expect(permits).toHaveBeenCalledTimes(1)
    isPermitted = false
    expect(await listed()).toEqual([])
  })

  it('is divided into pages of a hundred', async () => {
    const { make, ask } = process({ server: pendingServer().server })
    for (let count = 0; count < 205; count++) void make({ client: older }, { task: {} })
    await pass(60)
    const seen: unknown[] = []
    const sizes: number[] = []
    for (let cursor: unknown; ;) {
      const params = cursor === undefined ? {} : { cursor }
      const page = fieldsOf(await ask('tasks/list', params, { client: older }))
      const tasks = page['tasks'] as readonly Json[]
      sizes.push(tasks.length)
      seen.push(...tasks.map((task) => task['taskId']))
      cursor = page['nextCursor']
      if (cursor === undefined) break
    }
    expect(sizes).toEqual([100, 100, 5])
    expect(new Set(seen).size).toBe(205)
  })

  it.each(['x', '-1', '1.5', '', 7, null])('refuses the cursor %j', async (cursor) => {
    const { ask } = process({ server: async () => result('ok') })
    const error = await failureOf(ask('tasks/list', { cursor }, { client: older }))
    expect(error).toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe('tasks/cancel of 2025-11-25', () => {
  it('answers with the cancelled task, which stays so', async () => {
    const { ask, get, calls, end, id } = await olderTask()
    expect(fieldsOf(await ask('tasks/cancel'))).toMatchObject({
      taskId: id,
      status: 'cancelled',
      ttl: 60_000,
    })
    expect(calls[0]?.signal.aborted).toBe(true)
    end(result('done'))
    await pass(1000)
    expect(await get()).toMatchObject({ status: 'cancelled' })
  })

  it('is refused for a task that has ended', async () => {
    const { ask, end } = await olderTask()
    end(result('done'))
    await pass(0)
    expect(await failureOf(ask('tasks/cancel'))).toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('completed'),
    })
    const cancelled = await olderTask()
    await cancelled.ask('tasks/cancel')
    expect(await failureOf(cancelled.ask('tasks/cancel'))).toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe('a call whose server made a task of it', () => {
  const requestState = { upstream_task: { id: 'u1' } }
  const accepted: Outcome = {
    kind: 'task',
    task: { id: 'u1', status: 'working', statusMessage: 'queued', createdAt: 1, updatedAt: 1, ttl: 5 },
    requestState,
  }

  /** A server that answers with each of these in turn; `hold` is answered when a test says so. */
  function steps(...outcomes: readonly (Outcome | 'hold' | GatewayError)[]) {
    const attempts: Call[] = []
    const held = Promise.withResolvers<Outcome>()
    const server: Handler = async (call) => {
      attempts.push(call)
      const next = outcomes[attempts.length - 1] ?? result('done')
      if (next === 'hold') return held.promise
      if (next instanceof GatewayError) throw next
      return next
    }
    return { server, attempts, release: held.resolve }
  }

  it('is a task for a client that takes tasks at once, with an id of the gateway, and is followed', async () => {
    const { server, attempts, release } = steps(accepted, 'hold')
    const { make, ask, records } = process({ server })
    const task = taskIn(await make({ client: taking }))
    expect(task).toMatchObject({ status: 'working', statusMessage: 'queued' })
    expect(task.id).not.toBe('u1')
    await pass(0)
    expect(attempts.map((call) => call.requestState)).toEqual([{}, requestState])
    expect(attempts[1]).not.toHaveProperty('inputResponses')
    // Another process could go on with it.
    expect((await records())[0]?.request?.requestState).toEqual(requestState)
    release(result('of the task'))
    await pass(0)
    const got = fieldsOf(await ask('tasks/get', { taskId: task.id }))
    expect(got).toMatchObject({ status: 'completed', result: { content: [{ text: 'of the task' }] } })
  })

  it('does not get the responses again that the call brought before it was a task', async () => {
    const { server, attempts } = steps(accepted)
    const inputResponses = { q: { result: Payload.of(accept('one')) } }
    taskIn(await process({ server }).make({ client: taking, inputResponses }))
    await pass(0)
    expect(attempts).toHaveLength(2)
    expect(attempts[0]?.inputResponses).toBe(inputResponses)
    expect(attempts[1]).not.toHaveProperty('inputResponses')
  })

  it('looks like a plain call to a client without tasks', async () => {
    const { server, attempts } = steps(accepted)
    const { make } = process({ server })
    expect(fieldsOf(await make({ client: plain }))).toMatchObject({ content: [{ text: 'done' }] })
    expect(attempts.map((call) => call.requestState)).toEqual([{}, requestState])
  })

  it('goes on after its server asked, with the responses and with the state of its task', async () => {
    const { server, attempts } = steps(accepted, asking(['q'], requestState))
    const { make, ask } = process({ server })
    const { id } = taskIn(await make({ client: taking }))
    await pass(0)
    const [key = ''] = Object.keys(Object(fieldsOf(await ask('tasks/get', { taskId: id }))['inputRequests']))
    await ask('tasks/update', { taskId: id, inputResponses: { [key]: accept('one') } })
    await pass(0)
    expect(attempts).toHaveLength(3)
    expect(attempts[2]?.requestState).toEqual(requestState)
    expect(JSON.parse(JSON.stringify(attempts[2]?.inputResponses))).toEqual({ q: { result: accept('one') } })
  })

  it('is followed again where the connection to its server is lost', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const away = new GatewayError('SERVER_UNAVAILABLE', 'away')
    const { server, attempts } = steps(accepted, lost, away)
    const { make, ask } = process({ server })
    const { id } = taskIn(await make({ client: taking }))
    await pass(10_000)
    expect(attempts).toHaveLength(4)
    expect(attempts.slice(1).every((call) => call.requestState === requestState)).toBe(true)
    expect(fieldsOf(await ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'completed' })
  })

  it('is followed to its end while the store of the gateway is away', async () => {
    const store = new MemoryStore()
    const { server, release } = steps(accepted, 'hold')
    const { make, records } = process({ server, store })
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = () => Promise.reject(new Error('away'))
    const outcome = watched(make({ client: taking }))
    await pass(10_000)
    // What is not written must not be promised.
    expect(outcome.isSettled).toBe(false)
    store.compareAndSwap = swap
    await pass(1000)
    expect((await records())[0]?.request?.requestState).toEqual(requestState)
    release(result('of the task'))
    await pass(1000)
    expect(fieldsOf(outcome.value)).toMatchObject({ content: [{ text: 'of the task' }] })
  })

  it('is given up after some attempts, and after another failure at once', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const often = steps(accepted, ...Array.from({ length: 20 }, () => lost))
    const { make, ask } = process({ server: often.server })
    const { id } = taskIn(await make({ client: taking }))
    await pass(60_000)
    expect(often.attempts).toHaveLength(6)
    expect(fieldsOf(await ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'failed' })
    const failing = steps(accepted, new GatewayError('UPSTREAM_ERROR', 'no'))
    const other = process({ server: failing.server })
    taskIn(await other.make({ client: taking }))
    await pass(60_000)
    expect(failing.attempts).toHaveLength(2)
  })

  it('a call without such a task is not made twice where its connection is lost', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const { server, attempts } = steps(lost)
    await expect(process({ server }).make({ client: taking })).rejects.toBe(lost)
    expect(attempts).toHaveLength(1)
  })
})

describe('listening to tasks', () => {
  const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

  /** A listener that stays until its signal is aborted, at the given ids. */
  function listening(gateway: ReturnType<typeof process>, taskIds: unknown, given: Partial<Call> = {}) {
    const { notes, emit } = listener()
    const controller = new AbortController()
    const seen: Call[] = []
    const next: Handler = (call) => {
      seen.push(call)
      call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: { toolsListChanged: true } }) })
      return new Promise((resolve) => call.signal.addEventListener('abort', () => resolve(result('{}'))))
    }
    const handle = gateway.instance.responseMiddleware?.('subscriptions/listen')?.(next)
    if (!handle) throw new TypeError('nothing listens')
    const params = Payload.of({ notifications: { toolsListChanged: true, taskIds } })
    const outcome = handle(
      toolCall({ principal: alice, client: taking, params, emit, signal: controller.signal, ...given }),
    )
    return { notes, seen, outcome, stop: () => controller.abort() }
  }

  it('is honoured for the own tasks of the caller, whose whole status is sent', async () => {
    const task = await modernTask()
    const { notes, seen, stop, outcome } = listening(task, [task.id, 'forged'])
    await pass(0)
    expect(seen[0]?.params.fields).toEqual({ notifications: { toolsListChanged: true } })
    expect(notes).toHaveLength(1)
    expect(notes[0]?.params?.fields).toEqual({
      notifications: { toolsListChanged: true, taskIds: [task.id] },
    })
    task.end(result('done'))
    await pass(0)
    expect(notes).toHaveLength(2)
    expect(notes[1]?.method).toBe('notifications/tasks')
    expect(notes[1]?.params?.fields).toMatchObject({
      taskId: task.id,
      status: 'completed',
      result: { content: [{ text: 'done' }] },
    })
    expect(notes[1]?.params?.fields).not.toHaveProperty('resultType')
    stop()
    await outcome
  })

  it('notifies of the end of a task of another process, once, and of nothing before that', async () => {
    const task = await modernTask()
    const other = process({ server: async () => result('none'), store: task.store, me: 'b' })
    const { notes, stop, outcome } = listening(other, [task.id])
    await pass(1000)
    expect(notes).toHaveLength(1)
    task.end(result('done'))
    await pass(1000)
    expect(notes.slice(1).map(({ params }) => params?.fields)).toMatchObject([
      { taskId: task.id, status: 'completed', result: { content: [{ text: 'done' }] } },
    ])
    stop()
    await outcome
  })

  it('leaves out what its caller may not read: other sessions, and tools it may not call any more', async () => {
    const own = { ...taking, session: 's1' }
    const task = await modernTask({}, { client: own, principal: anonymous })
    const other = listening(task, [task.id], { principal: anonymous, client: { ...taking, session: 's2' } })
    await pass(0)
    expect(other.notes[0]?.params?.fields).toEqual({ notifications: { toolsListChanged: true } })
    const scoped = { id: 'alice', scopes: new Set<string>() }
    const lost = await modernTask({ deps: { isPermitted: async () => false } }, { principal: scoped })
    const { notes } = listening(lost, [lost.id], { principal: scoped })
    await pass(0)
    expect(notes[0]?.params?.fields).toEqual({ notifications: { toolsListChanged: true } })
  })

  it('tells nothing of tasks of others, nor after it has ended', async () => {
    const task = await modernTask()
    const foreign = listening(task, [task.id], { principal: bob })
    const own = listening(task, [task.id])
    await pass(0)
    own.stop()
    await own.outcome
    task.end(result('done'))
    await pass(0)
    for (const { notes } of [foreign, own]) expect(notes.map(({ method }) => method)).toEqual([ACKNOWLEDGED])
    expect(foreign.notes[0]?.params?.fields).toEqual({ notifications: { toolsListChanged: true } })
  })

  it('sends no status of tasks that tasks/get does not find: of another session or server, or without the right', async () => {
    const anonymousTask = await olderTask({}, { principal: anonymous, client: older })
    let isPermitted = true
    const scoped = { id: 'alice', scopes: new Set(['read:one']) }
    const task = await modernTask({ deps: { isPermitted: async () => isPermitted } }, { principal: scoped })
    isPermitted = false
    const listeners = [
      listening(anonymousTask, [anonymousTask.id], { principal: anonymous }),
      listening(task, [task.id], { principal: scoped }),
      listening(task, [task.id], { target: { method: 'subscriptions/listen', upstream: 'two' } }),
    ]
    await pass(0)
    anonymousTask.end(result('done'))
    task.end(result('done'))
    await pass(0)
    for (const { notes } of listeners)
      expect(notes.map(({ params }) => params?.fields)).toEqual([
        { notifications: { toolsListChanged: true } },
      ])
  })

  it('needs a client that declared tasks, and a list of ids', async () => {
    const task = await modernTask()
    expect((await failureOf(listening(task, [task.id], { client: plain }).outcome)).code).toBe(
      'CAPABILITY_REQUIRED',
    )
    for (const ids of ['x', [1], {}, Array.from({ length: 1001 }, () => 'x')])
      expect((await failureOf(listening(task, ids).outcome)).code).toBe('INVALID_INPUT')
  })

  it('a session of 2025-11-25 hears of its own tasks in its own words', async () => {
    const task = await olderTask()
    const own = listening(task, undefined, { client: older })
    const other = listening(task, undefined, { client: { ...older, session: 's2' } })
    await pass(0)
    task.end(result('done'))
    await pass(0)
    const sent = own.notes.filter(({ method }) => method !== ACKNOWLEDGED)
    expect(sent).toHaveLength(1)
    expect(sent[0]?.method).toBe('notifications/tasks/status')
    expect(sent[0]?.params?.fields).toMatchObject({ status: 'completed', ttl: 60_000, pollInterval: 1000 })
    expect(sent[0]?.params?.fields).not.toHaveProperty('result')
    expect(other.notes.filter(({ method }) => method !== ACKNOWLEDGED)).toEqual([])
  })

  it('a session of 2025-11-25 hears that a task has failed where its result is an error', async () => {
    const task = await olderTask()
    const { notes } = listening(task, undefined, { client: older })
    await pass(0)
    task.end(result('{"content":[],"isError":true}'))
    await pass(0)
    expect(notes.at(-1)?.params?.fields).toMatchObject({ status: 'failed' })
    expect(await task.get()).toMatchObject({ status: 'failed' })
  })
})

describe('a request for the result of a task', () => {
  it('ends where the store has lost the task', async () => {
    const store = new MemoryStore()
    const { id } = await olderTask({ store })
    const other = process({ server: pendingServer().server, store, me: 'b' })
    const waiting = failureOf(other.ask('tasks/result', { taskId: id }, { client: older }))
    await pass(1000)
    for (const key of (await store.scan(operationsOf('alice'))).keys()) await store.delete(key)
    await pass(1000)
    expect(await waiting).toMatchObject({ message: 'Task not found' })
  })
})

describe('a task whose store is away for a while', () => {
  it('continues to wait for its input', async () => {
    const store = new MemoryStore()
    let rounds = 0
    const server: Handler = async () => (++rounds === 1 ? asking(['q']) : result('done'))
    const { make, ask } = process({ server, store })
    const outcome = make({ client: older }, { task: {} })
    await pass(60)
    const { id } = taskIn(await outcome)
    const get = async () => fieldsOf(await ask('tasks/get', { taskId: id }))
    const [key = ''] = Object.keys(Object((await get())['inputRequests']))
    const find = store.get.bind(store)
    store.get = () => Promise.reject(new Error('away'))
    await pass(30_000)
    store.get = find
    await ask('tasks/update', { taskId: id, inputResponses: { [key]: accept('yes') } })
    await pass(2000)
    expect(await get()).toMatchObject({ status: 'completed' })
  })
})

describe('a task whose status cannot be sent to a listener', () => {
  it('ends all the same', async () => {
    const task = await olderTask()
    const handle = task.instance.responseMiddleware?.('subscriptions/listen')?.(
      () => new Promise(() => undefined),
    )
    const emit = vi.fn<() => never>(() => {
      throw new TypeError('it is gone')
    })
    void handle?.(toolCall({ principal: alice, client: older, emit }))
    await task.ask('tasks/cancel')
    expect(emit).toHaveBeenCalled()
    expect(task.calls[0]?.signal.aborted).toBe(true)
  })
})
