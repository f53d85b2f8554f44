import { retainSlot, detachedSlot, acceptsTaskSlot } from '../../../../src/core/slot.ts'
import { describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { PROGRESS_KEY } from '../../../../src/features/progress/notes.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'
import {
  alice,
  asking,
  bob,
  failureOf,
  fieldsOf,
  listener,
  older,
  OPERATION_ID,
  operationIn,
  pendingServer,
  plain,
  process,
  result,
  taking,
  taskIn,
  WAS_REPLAY,
  watched,
} from './bench.ts'

const pass = fakeClock()
const report = (progress: number, more: object = {}) => ({
  method: 'notifications/progress',
  params: Payload.of({ progressToken: 'tok', progress, ...more }),
})

/** A call that took two seconds, and has ended. */
async function lasting(text = 'done', given = {}) {
  const pending = pendingServer()
  const gateway = process({ server: pending.server })
  const outcome = gateway.make({ client: older, ...given })
  await pass(2000)
  pending.end(result(text))
  return { ...gateway, outcome: await outcome, pending }
}

describe('a call that ends within a second', () => {
  it('passes unchanged, and leaves no record', async () => {
    const own = result('{"content":[],"n":1.0}')
    const { make, store, records } = process({ server: async () => own })
    for (const client of [plain, taking, older]) expect(await make({ client })).toBe(own)
    await pass(5000)
    expect(await records()).toEqual([])
    expect(await store.scan('operations')).toEqual(new Map())
  })

  it('fails with the error of its server, and leaves no record', async () => {
    const error = new GatewayError('UPSTREAM_ERROR', 'no')
    const { make, records } = process({ server: () => Promise.reject(error) })
    await expect(make()).rejects.toBe(error)
    expect(await records()).toEqual([])
  })

  it('reaches its server as it came, but for the wish for a task', async () => {
    const { server, calls, end } = pendingServer()
    const { make } = process({ server })
    const outcome = make({ client: plain }, { task: { ttl: 1 }, x: 1 })
    end(result('ok'))
    await outcome
    // The extension has no such member, and says to ignore it.
    expect(calls[0]?.params.fields).toEqual({ name: 't', arguments: {}, x: 1 })
    expect(calls[0] && acceptsTaskSlot.of(calls[0])).toBeUndefined()
  })
})

it('only calls of tools at servers are operations', () => {
  const { instance } = process({ server: async () => result('ok') })
  expect(instance.calls?.middleware({ method: 'prompts/get', upstream: 'one' })).toBeUndefined()
  expect(instance.calls?.middleware({ method: 'tools/call', name: 't', isBuiltin: true })).toBeUndefined()
})

it('a call of the gateway itself is made past the feature, however long it takes', async () => {
  const { server, end } = pendingServer()
  const { make, records } = process({ server })
  const outcome = make({ internal: 'read', client: taking })
  await pass(60_000)
  const own = result('read')
  end(own)
  expect(await outcome).toBe(own)
  expect(await records()).toEqual([])
})

describe('a call that takes over a second', () => {
  it('has the id of its operation in its result, and a record that ends with it', async () => {
    const text = '{"content":[],"large":12345678901234567890}'
    const { outcome, records } = await lasting(text)
    expect(operationIn(outcome).length).toBeLessThanOrEqual(200)
    const [record, ...others] = await records()
    expect(others).toEqual([])
    expect(record).toMatchObject({
      state: 'completed',
      upstream: 'one',
      tool: 't',
      owner: 'a',
      requestId: 'r1',
    })
    expect(record?.result?.text).toContain('"large":12345678901234567890')
    expect(record).not.toHaveProperty('request')
    expect(record).not.toHaveProperty('taskTtl')
  })

  it('names its operation in its log line, and not by the id that opens it', async () => {
    const logFields = new Map<string, unknown>()
    const { outcome } = await lasting('done', { logFields })
    expect(logFields.get('operation')).toMatch(/^[\w-]{16}$/)
    expect(operationIn(outcome)).not.toContain(String(logFields.get('operation')))
  })

  it('goes on without its client where that has a session, or where the call is keyed', async () => {
    const isRetained = async (client: typeof older, params = {}) => {
      const { server } = pendingServer()
      const retain = vi.fn<() => void>()
      const gateway = process({ server })
      void gateway.make({ client, slots: retainSlot.put(retain) }, params)
      await pass(900)
      expect(retain).not.toHaveBeenCalled()
      await pass(300)
      return retain.mock.calls.length > 0
    }
    expect(await isRetained(older)).toBe(true)
    expect(await isRetained(plain)).toBe(false)
    expect(await isRetained(plain, { _meta: { 'dev.gatehouse/idempotency_key': 'k' } })).toBe(true)
  })

  it('that asks its client leaves no record, and asks without an id', async () => {
    const { server, end } = pendingServer()
    const { make, records } = process({ server })
    const outcome = make({ client: plain })
    await pass(2000)
    expect(await records()).toHaveLength(1)
    const own = asking(['q'])
    end(own)
    expect(await outcome).toBe(own)
    await pass(0)
    expect(await records()).toEqual([])
  })

  it('is a plain call where the store takes no records', async () => {
    const store = new MemoryStore()
    store.put = () => Promise.reject(new Error('away'))
    const { server, end } = pendingServer()
    const { make } = process({ server, store })
    const outcome = make({ client: taking })
    await pass(30_000)
    const own = result('done')
    end(own)
    expect(await outcome).toBe(own)
  })

  it('is answered though the store does not take its end, which is written once it does', async () => {
    const store = new MemoryStore()
    const swap = store.compareAndSwap.bind(store)
    const { server, end } = pendingServer()
    const lines: unknown[] = []
    const line = (event: string, fields?: object): void => void lines.push({ event, ...fields })
    const log = { ...silentLog, warn: line, info: line }
    const { make, records } = process({ server, store, deps: { log } })
    const outcome = watched(make({ client: older }))
    await pass(2000)
    store.compareAndSwap = () => Promise.reject(new Error('away'))
    end(result('done'))
    await pass(4000)
    expect(outcome.isSettled).toBe(false)
    await pass(1500)
    // What is not kept must not be promised.
    expect(outcome.value).toEqual(result('done'))
    expect((await records())[0]?.state).toBe('working')
    store.compareAndSwap = swap
    await pass(500)
    expect((await records())[0]?.state).toBe('completed')
    // One line for all attempts, and one with their number.
    expect(lines).toEqual([
      { event: 'operation.unrecorded', error: expect.any(String) },
      { event: 'operation.recorded', failures: 23 },
    ])
  })
})

describe('a call that says how far it is', () => {
  it('is an operation at once, and names it in its notes and in its result', async () => {
    const { server, end, calls } = pendingServer()
    const { make, records } = process({ server })
    const { notes, emit } = listener()
    const outcome = make({ client: plain, emit })
    calls[0]?.emit(report(1, { total: 4, message: 'first' }))
    const object = notes[0]?.params?.meta(PROGRESS_KEY)
    expect(object).toMatchObject({ type: 'progress', progress: 0.25, message: 'first' })
    await pass(0)
    expect((await records())[0]?.state).toBe('working')
    end(result('done'))
    expect(object).toMatchObject({ operation_id: operationIn(await outcome) })
  })

  it('is quiet once it is answered, and no operation any more', async () => {
    const { server, end, calls } = pendingServer()
    const { make, records } = process({ server })
    const { notes, emit } = listener()
    const outcome = make({ emit })
    end(result('done'))
    await outcome
    calls[0]?.emit(report(1))
    await pass(2000)
    expect(notes).toEqual([])
    expect(await records()).toEqual([])
  })
})

describe('heartbeats', () => {
  const withToken = { _meta: { progressToken: 'tok' } }

  it('come after five seconds of silence, and stop with the answer', async () => {
    const { server, end, calls } = pendingServer()
    const { make } = process({ server })
    const { notes, emit } = listener()
    const outcome = make({ client: older, emit }, withToken)
    await pass(4800)
    expect(notes).toHaveLength(0)
    await pass(400)
    expect(notes.map(({ params }) => params?.fields['message'])).toEqual(['still running, 5 s'])
    calls[0]?.emit(report(3))
    await pass(4800)
    expect(notes).toHaveLength(2)
    await pass(5200)
    expect(notes.length).toBeGreaterThan(2)
    end(result('done'))
    await outcome
    const { length } = notes
    await pass(60_000)
    expect(notes).toHaveLength(length)
  })

  it('do not come where the caller gave no token', async () => {
    const { server } = pendingServer()
    const { make } = process({ server })
    const { notes, emit } = listener()
    void make({ client: older, emit })
    await pass(19_000)
    expect(notes).toEqual([])
  })

  it('say how long the tool usually takes, once it was called three times', async () => {
    const { server, end } = pendingServer()
    const { make } = process({ server })
    for (let count = 0; count < 3; count++) {
      const outcome = make({ client: older })
      await pass(20_000)
      end(result('done'))
      await outcome
    }
    const { notes, emit } = listener()
    void make({ client: older, emit }, withToken)
    await pass(5200)
    expect(notes[0]?.params?.fields['message']).toBe('still running, 5 s, usually 20 s')
  })
})

describe('operation/resume', () => {
  const resume = 'operation/resume'

  it('gives the outcome once more, as often as it is asked, and the server is called once', async () => {
    const { outcome, ask, pending } = await lasting()
    const id = operationIn(outcome)
    for (const client of [older, plain]) {
      const again = await ask(resume, { operation_id: id }, { client })
      expect(fieldsOf(again)).toEqual({
        content: [{ type: 'text', text: 'done' }],
        _meta: { [OPERATION_ID]: id, [WAS_REPLAY]: true },
      })
    }
    expect(pending.calls).toHaveLength(1)
  })

  it('joins a call that runs: its notes and its end go to both', async () => {
    const { server, end, calls } = pendingServer()
    const { make, ask } = process({ server })
    const [first, second] = [listener(), listener()]
    const outcome = make({ client: plain, emit: first.emit })
    calls[0]?.emit(report(1))
    const id = Object(first.notes[0]?.params?.meta(PROGRESS_KEY))['operation_id']
    const silent = listener()
    const resumed = watched(ask(resume, { operation_id: id, _meta: { progressToken: 'own' } }, second))
    void ask(resume, { operation_id: id }, silent)
    await pass(3000)
    calls[0]?.emit(report(2))
    expect(resumed.isSettled).toBe(false)
    expect(second.notes).toHaveLength(1)
    expect(first.notes).toHaveLength(2)
    // Each caller knows its own token alone.
    expect(first.notes[1]?.params?.fields).toMatchObject({ progressToken: 'tok', progress: 2 })
    expect(second.notes[0]?.params?.fields).toMatchObject({ progressToken: 'own', progress: 2 })
    expect(silent.notes).toEqual([])
    end(result('done'))
    expect(operationIn(await outcome)).toBe(id)
    await pass(0)
    expect(fieldsOf(resumed.value)['_meta']).toMatchObject({ [OPERATION_ID]: id, [WAS_REPLAY]: true })
    expect(calls).toHaveLength(1)
  })

  it('is refused at once to a caller who may not call its tool any more', async () => {
    let isPermitted = true
    const principal = { id: 'alice', scopes: new Set(['x']) }
    const pending = pendingServer()
    const { make, ask } = process({ server: pending.server, deps: { isPermitted: async () => isPermitted } })
    const { notes, emit } = listener()
    void make({ client: plain, principal, emit })
    pending.calls[0]?.emit(report(1))
    const id = Object(notes[0]?.params?.meta(PROGRESS_KEY))['operation_id']
    await pass(10)
    isPermitted = false
    const refused = watched(failureOf(ask(resume, { operation_id: id }, { principal })))
    await pass(10)
    expect(refused.value).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  it('waits for the process that took the operation up, and not for what the first one finds', async () => {
    const store = new MemoryStore()
    const [first, second] = [pendingServer(), pendingServer()]
    const a = process({ server: first.server, store })
    const { notes, emit } = listener()
    const outcome = a.make({ client: older, emit })
    first.calls[0]?.emit(report(1))
    const id = Object(notes[0]?.params?.meta(PROGRESS_KEY))['operation_id']
    await pass(10)
    // It is taken for dead.
    const b = process({ server: second.server, store, me: 'b', alive: new Set(['b']) })
    await b.instance.start?.()
    const resumed = watched(a.ask(resume, { operation_id: id }))
    first.end(result('of a'))
    // What is not kept is not promised.
    expect(fieldsOf(await outcome)).not.toHaveProperty('_meta')
    await pass(1000)
    expect(resumed.isSettled).toBe(false)
    second.end(result('of b'))
    await pass(1000)
    expect(fieldsOf(resumed.value)).toMatchObject({ content: [{ text: 'of b' }] })
  })

  it('waits for a call that another process runs', async () => {
    const { server, end } = pendingServer()
    const one = process({ server, settings: { tasks: { after: 60_000, answer_within: 2000 } } })
    const other = process({ server, store: one.store, me: 'b' })
    const outcome = one.make({ client: older })
    await pass(2200)
    const id = operationIn(await outcome)
    const resumed = watched(other.ask(resume, { operation_id: id }))
    await pass(5000)
    expect(resumed.isSettled).toBe(false)
    end(result('done'))
    await pass(500)
    expect(fieldsOf(resumed.value)).toHaveProperty('content')
  })

  it('ends with its own request, and the call goes on', async () => {
    const { server, end, calls } = pendingServer()
    const { make, ask } = process({ server, settings: { tasks: { after: 60_000, answer_within: 2000 } } })
    const outcome = make({ client: older })
    await pass(2200)
    const id = operationIn(await outcome)
    const controller = new AbortController()
    const resumed = watched(ask(resume, { operation_id: id }, { signal: controller.signal }))
    await pass(100)
    controller.abort(new GatewayError('CANCELLED', 'gone'))
    await pass(0)
    expect(resumed.error).toMatchObject({ message: 'gone' })
    expect(calls[0]?.signal.aborted).toBe(false)
    end(result('done'))
    expect(fieldsOf(await ask(resume, { operation_id: id }))).toHaveProperty('content')
  })

  it('fails as the call failed', async () => {
    const { server, fail } = pendingServer()
    const { make, ask } = process({ server })
    const { notes, emit } = listener()
    const outcome = failureOf(make({ client: older, emit }, { _meta: { progressToken: 1 } }))
    await pass(6000)
    const id = Object(notes[0]?.params?.meta(PROGRESS_KEY))['operation_id']
    fail(new GatewayError('UPSTREAM_ERROR', 'no space', { details: { left: 0 } }))
    const error = await outcome
    expect(error).toMatchObject({ code: 'UPSTREAM_ERROR', message: 'no space' })
    expect(await failureOf(ask(resume, { operation_id: id }))).toEqual(error)
  })

  it('does not tell the text of an unforeseen failure', async () => {
    const { server, fail } = pendingServer()
    const { make, ask } = process({ server })
    const { notes, emit } = listener()
    const outcome = watched(make({ client: older, emit }, { _meta: { progressToken: 1 } }))
    await pass(6000)
    const id = Object(notes[0]?.params?.meta(PROGRESS_KEY))['operation_id']
    fail(new Error('the password is hunter2'))
    await pass(0)
    expect(outcome.isSettled).toBe(true)
    const error = await failureOf(ask(resume, { operation_id: id }))
    expect(error.code).toBe('SERVER_ERROR')
    expect(JSON.stringify(error)).not.toContain('hunter2')
  })

  it('keeps the outcome for the configured time', async () => {
    const { outcome, ask } = await lasting()
    const id = operationIn(outcome)
    await pass(590_000)
    expect(fieldsOf(await ask(resume, { operation_id: id }))).toHaveProperty('content')
    await pass(11_000)
    expect((await failureOf(ask(resume, { operation_id: id }))).code).toBe('RESOURCE_NOT_FOUND')
  })

  it('finds nothing for another caller, and fails there as for an id that never was', async () => {
    const { outcome, ask } = await lasting()
    const id = operationIn(outcome)
    const forged = await failureOf(ask(resume, { operation_id: 'no-such-operation' }))
    expect(forged).toMatchObject({ code: 'RESOURCE_NOT_FOUND', message: 'Operation not found.' })
    expect(await failureOf(ask(resume, { operation_id: id }, { principal: bob }))).toEqual(forged)
    const changed = `${id.startsWith('A') ? 'B' : 'A'}${id.slice(1)}`
    expect(await failureOf(ask(resume, { operation_id: changed }))).toEqual(forged)
    expect(await failureOf(ask(resume, { operation_id: 'A'.repeat(5000) }))).toEqual(forged)
  })

  it('finds nothing once its caller may not call the tool any more', async () => {
    const { server, end } = pendingServer()
    let isPermitted = true
    const asked = vi.fn<(seen: object) => void>()
    const { make, ask } = process({
      server,
      deps: {
        isPermitted: async (call) => {
          asked({ target: call.target, method: call.method, params: call.params.value })
          return isPermitted
        },
      },
    })
    const principal = { id: 'alice', scopes: new Set(['write:one']) }
    const outcome = make({ client: older, principal })
    await pass(2000)
    end(result('done'))
    const id = operationIn(await outcome)
    expect(fieldsOf(await ask(resume, { operation_id: id }, { principal }))).toHaveProperty('content')
    expect(asked).toHaveBeenCalledWith({
      target: { upstream: 'one', method: 'tools/call', name: 't' },
      method: 'tools/call',
      params: { name: 't', arguments: {} },
    })
    isPermitted = false
    const refused = await failureOf(ask(resume, { operation_id: id }, { principal }))
    expect(refused).toEqual(await failureOf(ask(resume, { operation_id: 'x' }, { principal })))
  })

  it('refuses an id that is no text', async () => {
    const { ask } = process({ server: async () => result('ok') })
    for (const id of [undefined, null, 1, {}]) {
      expect(await failureOf(ask(resume, { operation_id: id }))).toMatchObject({ code: 'INVALID_INPUT' })
    }
  })

  it('is also the tool resume_operation, whose failures are results', async () => {
    const { outcome, instance } = await lasting()
    const [tool] = instance.builtins?.tools ?? []
    expect(tool?.definition.name).toBe('resume_operation')
    const use = (id: string) =>
      tool?.handle(
        toolCall({
          principal: alice,
          params: Payload.of({ name: 'resume_operation', arguments: { operation_id: id } }),
        }),
      )
    expect(fieldsOf(await use(operationIn(outcome)))).toMatchObject({ content: [{ text: 'done' }] })
    expect(fieldsOf(await use('x'))).toMatchObject({ isError: true, error: { code: 'RESOURCE_NOT_FOUND' } })
  })
})

describe('with answer_within', () => {
  const settings = { tasks: { after: 20_000, answer_within: 3000 } }

  it.each([
    ['2025-11-25', older],
    ['2026-07-28', plain],
  ])('a client of %s without tasks gets the operation id, and with it the result', async (_name, client) => {
    const { server, end, calls } = pendingServer()
    const retain = vi.fn<() => void>()
    const { make, ask, rests } = process({ server, settings })
    const outcome = watched(make({ client, slots: retainSlot.put(retain) }))
    await pass(2900)
    expect(outcome.isSettled).toBe(false)
    await pass(300)
    const id = operationIn(outcome.value)
    const fields = fieldsOf(outcome.value)
    expect(fields).toMatchObject({
      isError: true,
      _meta: { 'dev.gatehouse/error': { code: 'OPERATION_TIMEOUT', details: { operation_id: id } } },
    })
    expect(JSON.stringify(fields['content'])).toMatch(/still running, 3 s.*resume_operation/)
    expect(retain).toHaveBeenCalled()
    expect(calls[0] && detachedSlot.of(calls[0])?.()).toBe(true)
    end(result('done'))
    await pass(0)
    expect(fieldsOf(await ask('operation/resume', { operation_id: id }))).toMatchObject({
      content: [{ text: 'done' }],
    })
    expect(calls).toHaveLength(1)
    // Its end is observed like that of any other call.
    expect(rests).toHaveLength(1)
    expect(operationIn(await rests[0])).toBe(id)
  })

  it('a client with tasks gets a task instead', async () => {
    const { server } = pendingServer()
    const { make } = process({ server, settings })
    const outcome = watched(make({ client: taking }))
    await pass(19_000)
    expect(outcome.isSettled).toBe(false)
    await pass(1200)
    expect(taskIn(outcome.value).status).toBe('working')
  })

  it('a call that ends before is answered as always', async () => {
    const { server, end } = pendingServer()
    const { make } = process({ server, settings })
    const outcome = make({ client: plain })
    await pass(2500)
    end(result('done'))
    expect(fieldsOf(await outcome)).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('without the setting a client waits for as long as the call takes', async () => {
    const { server, end } = pendingServer()
    const { make } = process({ server })
    const outcome = watched(make({ client: plain }))
    await pass(3_000_000)
    expect(outcome.isSettled).toBe(false)
    end(result('done'))
    await pass(0)
    expect(fieldsOf(outcome.value)).toMatchObject({ content: [{ text: 'done' }] })
  })
})

describe('the number of operations', () => {
  it(
    'is bounded for one caller: calls beyond that last without an id, and others are not affected',
    { timeout: 90_000 },
    async () => {
      const { server, end, calls } = pendingServer()
      const { make } = process({ server, settings: { tasks: { after: 20_000, answer_within: 5000 } } })
      const first = Array.from({ length: 2500 }, () => make({ client: older }))
      await pass(1200)
      const [more, others] = [make({ client: older }), make({ client: older, principal: bob })]
      await pass(1200)
      end(result('of bob'))
      expect(operationIn(await others)).toBeTypeOf('string')
      // A client that requests a task gets an error.
      expect(await failureOf(make({ client: older }, { task: {} }))).toMatchObject({ code: 'OVERLOADED' })
      expect(calls).toHaveLength(2502)
      const settled = watched(more)
      await pass(60_000)
      expect([settled.isSettled, first.length]).toEqual([false, 2500])
    },
  )

  it('does not keep the operations within it from becoming tasks', async () => {
    const { server } = pendingServer()
    const { make } = process({ server, settings: { tasks: { after: 1500 } } })
    const all = Array.from({ length: 2500 }, () => watched(make({ client: taking })))
    await pass(2000)
    expect(all.every(({ value }) => value?.kind === 'task')).toBe(true)
  })
})

it('a feature that is closed ends no calls: those under way go on to their end', async () => {
  const { server, end } = pendingServer()
  const { make, instance, records } = process({ server })
  const outcome = make({ client: older })
  await instance.close?.()
  await pass(2000)
  end(result('done'))
  operationIn(await outcome)
  expect((await records())[0]?.state).toBe('completed')
  await pass(200)
  expect(vi.getTimerCount()).toBe(0)
})

it('lists say to clients of 2025-11-25 that every tool can be a task, and nothing to others', async () => {
  const { instance } = process({ server: async () => result('ok') })
  const list = instance.calls?.middleware({ method: 'tools/list', upstream: 'one' })
  const tools = '{"tools":[{"name":"a","n":1.0},{"name":"b","execution":{"taskSupport":"required"}}]}'
  const listed = list?.(async () => result(tools))
  const target = { method: 'tools/list', upstream: 'one' }
  const execution = { taskSupport: 'optional' }
  expect(fieldsOf(await listed?.(toolCall({ target, client: older })))).toEqual({
    tools: [
      { name: 'a', n: 1, execution },
      { name: 'b', execution },
    ],
  })
  expect(await listed?.(toolCall({ target, client: plain }))).toEqual(result(tools))
  expect(instance.builtins?.extensions?.()).toEqual({ 'io.modelcontextprotocol/tasks': {} })
})

describe('an operation that fails', () => {
  it.each([
    ['OPERATION_TIMEOUT', {}, 'unknown'],
    ['OUTCOME_UNKNOWN', {}, 'unknown'],
    ['OPERATION_TIMEOUT', { isUnsent: true }, 'failed'],
    ['OPERATION_TIMEOUT', { relayed: Payload.of({ code: -32004, message: 'late' }) }, 'failed'],
    ['SERVER_UNAVAILABLE', {}, 'failed'],
  ] as const)('with %s %j is %s in its record', async (code, extra, state) => {
    const pending = pendingServer()
    const gateway = process({ server: pending.server })
    const outcome = gateway.make({ client: older })
    outcome.catch(() => undefined)
    await pass(1200)
    pending.fail(new GatewayError(code, 'it fails', extra))
    await pass(10)
    expect(await gateway.records()).toMatchObject([{ state }])
  })
})

describe('a feature that is closed', () => {
  it('keeps no timer once its calls have ended, and takes care of one that still reaches it', async () => {
    const timers = vi.getTimerCount()
    const pending = pendingServer()
    const { instance, make } = process({ server: pending.server })
    const first = make({ client: older })
    await instance.close?.()
    pending.end(result('done'))
    await first
    await pass(200)
    expect(vi.getTimerCount()).toBe(timers)
    // A request that began before can find an operation whose process ended.
    const outcome = watched(make({ client: taking }))
    await pass(21_000)
    expect(outcome.value?.kind).toBe('task')
  })
})
