import { describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { awaitsApprovalSlot } from '../../../../src/core/slot.ts'
import { beforeSendSlot, onSentSlot } from '../../../../src/core/exchange.ts'
import { type Approval, type ApprovalRequest, Approvals } from '../../../../src/records/approvals.ts'
import { isEnded, operationSlot } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import type { Json } from '../../../support/server/json.ts'
import {
  asking,
  failureOf,
  fieldsOf,
  older,
  pendingServer,
  process,
  result,
  taking,
  taskIn,
} from './bench.ts'

const pass = fakeClock()
const keyed = { _meta: { 'dev.gatehouse/idempotency_key': 'k' } }
const isOff = { isOn: () => false }

/** The process `a` ends while it runs a task; its store stays. */
async function leftBehind({ params = {}, client = older }: { params?: Json; client?: Call['client'] } = {}) {
  const store = new MemoryStore()
  const pending = pendingServer()
  const a = process({ server: pending.server, store, me: 'a' })
  const outcome = a.make({ client }, client === older ? { task: {}, ...params } : params)
  await pass(client === older ? 60 : 20_200)
  const { id } = taskIn(await outcome)
  const [before] = await a.records()
  /** Another process, for which `a` is dead. */
  const next = (me: string, given: Partial<Parameters<typeof process>[0]> = {}) =>
    process({ server: async () => result(`by ${me}`), store, me, alive: new Set(['b', 'c']), ...given })
  return { ...pending, a, id, store, before, next, startedAt: before?.startedAt ?? 0 }
}

/** The server `one` goes on with a task of its own when the process `a` ends. */
async function leftAtServer() {
  const store = new MemoryStore()
  const requestState = { upstream_task: { id: 'u1' } }
  const task = { id: 'u1', status: 'working', createdAt: 1, updatedAt: 1, ttl: null } as const
  let attempts = 0
  const a = process({
    store,
    server: async (): Promise<Outcome> => {
      attempts++
      return attempts === 1 ? { kind: 'task', task, requestState } : new Promise(() => undefined)
    },
  })
  const { id } = taskIn(await a.make({ client: taking }))
  await pass(0)
  return { store, id, requestState }
}

describe('an operation whose process was stopped before its call was sent', () => {
  /** The task is accepted once it was not refused for a while. */
  async function accepted(outcome: Promise<Outcome>): Promise<Outcome> {
    await pass(60)
    return outcome
  }

  async function stopped() {
    const store = new MemoryStore()
    const term = { now: 1 }
    const sent = Promise.withResolvers<undefined>()
    let count = 0
    const a = process({
      store,
      me: 'a',
      term,
      server: async (call) => {
        await sent.promise
        beforeSendSlot.of(call)?.(call)
        return result(`sent ${++count}`)
      },
    })
    const { id } = taskIn(await accepted(a.make({ client: older }, { task: {} })))
    return { store, term, a, id, send: () => sent.resolve(undefined), count: () => count }
  }

  it('is not sent later by that process, which another one found over', async () => {
    const { store, term, a, send, count } = await stopped()
    const b = process({ server: async () => result('by b'), store, me: 'b', alive: new Set(['b']) })
    await b.instance.start?.()
    term.now++
    send()
    await pass(0)
    expect(count()).toBe(0)
    expect((await a.records())[0]).toMatchObject({ owner: 'b' })
  })

  it('is sent once its record says that no other process has taken it up', async () => {
    const { term, send, count } = await stopped()
    term.now++
    await pass(2000)
    send()
    await pass(0)
    expect(count()).toBe(1)
  })
})

describe('an operation whose process ended', () => {
  it('is unknown where its call cannot be made again: its task has failed, and says what to do', async () => {
    const { next, id, before } = await leftBehind()
    expect(before?.state).toBe('working')
    const b = next('b', { deps: isOff })
    await b.instance.start?.()
    const [record] = await b.records()
    expect(record).toMatchObject({ state: 'unknown', owner: 'b', failure: { code: 'OUTCOME_UNKNOWN' } })
    expect(record).not.toHaveProperty('request')
    expect(b.relayed).toEqual([])
    const params = { taskId: id }
    expect(fieldsOf(await b.ask('tasks/get', params, { client: older }))).toMatchObject({ status: 'failed' })
    expect(fieldsOf(await b.ask('tasks/get', params))).toMatchObject({
      status: 'failed',
      error: { data: { code: 'OUTCOME_UNKNOWN', suggestion: expect.stringContaining('Check') } },
    })
    const failure = await failureOf(b.ask('operation/resume', { operation_id: id }))
    expect(failure.code).toBe('OUTCOME_UNKNOWN')
  })

  it('is found by the first request about it, before it is looked for', async () => {
    for (const method of ['tasks/get', 'tasks/result', 'operation/resume']) {
      const { next, id } = await leftBehind()
      const b = next('b', { deps: isOff })
      const outcome = b.ask(method, { taskId: id, operation_id: id }, { client: older })
      if (method === 'tasks/get') expect(fieldsOf(await outcome)).toMatchObject({ status: 'failed' })
      else expect((await failureOf(outcome)).code).toBe('OUTCOME_UNKNOWN')
    }
  })

  it('is kept for an hour at least once it is unknown', async () => {
    const { next, id } = await leftBehind({ params: { task: { ttl: 1000 } } })
    const b = next('b', { deps: isOff })
    await b.instance.start?.()
    await pass(3_590_000)
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'failed' })
    await pass(20_000)
    expect(await failureOf(b.ask('tasks/get', { taskId: id }))).toMatchObject({ message: 'Task not found' })
  })

  it('is made again where idempotency is on: its call says since when the first attempt is lost', async () => {
    const { next, id, startedAt } = await leftBehind({ params: { arguments: { x: 1 } } })
    const b = next('b')
    await b.instance.start?.()
    await pass(0)
    expect(b.relayed).toHaveLength(1)
    const [call] = b.relayed
    expect(call).toMatchObject({
      requestId: 'r1',
      method: 'tools/call',
      target: { upstream: 'one', method: 'tools/call', name: 't' },
      principal: { id: 'alice' },
      requestState: {},
    })
    expect(operationSlot.of(call ?? {})).toMatchObject({ id, lostSince: startedAt })
    expect(call?.params.fields).toMatchObject({ name: 't', arguments: { x: 1 } })
    const got = fieldsOf(await b.ask('tasks/get', { taskId: id }))
    expect(got).toMatchObject({ status: 'completed', result: { content: [{ text: 'by b' }] } })
    expect(await b.records()).toMatchObject([{ state: 'completed', owner: 'b', startedAt }])
  })

  it('is made again with its own key, which keeps it from running twice', async () => {
    const { next } = await leftBehind({ params: keyed })
    const b = next('b')
    await b.instance.start?.()
    expect(b.relayed).toHaveLength(1)
    expect(b.relayed[0]?.meta).toEqual(keyed._meta)
    expect(b.relayed[0] && operationSlot.of(b.relayed[0])).not.toHaveProperty('lostSince')
  })

  it('is unknown as a step of a transaction, which is settled elsewhere', async () => {
    for (const params of [
      { _meta: { 'dev.gatehouse/transaction_id': 'tx' } },
      { transaction_id: 'tx' },
      { _meta: { ...keyed._meta, 'dev.gatehouse/transaction_id': 'tx' } },
    ]) {
      const { next } = await leftBehind({ params })
      const b = next('b')
      await b.instance.start?.()
      expect(b.relayed).toEqual([])
      expect(await b.records()).toMatchObject([{ state: 'unknown' }])
    }
  })

  it('goes on with the task of its server, whether idempotency is on or not', async () => {
    for (const deps of [{}, isOff]) {
      const { store, id, requestState } = await leftAtServer()
      const b = process({ server: async () => result('of u1'), store, me: 'b', alive: new Set(['b']), deps })
      await b.instance.start?.()
      await pass(0)
      expect(b.relayed).toHaveLength(1)
      expect(b.relayed[0]?.requestState).toEqual(requestState)
      expect(b.relayed[0] && operationSlot.of(b.relayed[0])).not.toHaveProperty('lostSince')
      expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({
        status: 'completed',
        result: { content: [{ text: 'of u1' }] },
      })
    }
  })

  it('can be joined, cancelled and answered once another process goes on with it', async () => {
    const { next, id } = await leftBehind({ client: taking })
    const attempts: Call[] = []
    const b = next('b', {
      server: async (call) => {
        attempts.push(call)
        return attempts.length === 1 ? asking(['q'], { s: 1 }) : new Promise(() => undefined)
      },
    })
    await b.instance.start?.()
    await pass(0)
    const got = fieldsOf(await b.ask('tasks/get', { taskId: id }))
    expect(got).toMatchObject({ status: 'input_required' })
    const [key = ''] = Object.keys(Object(got['inputRequests']))
    const inputResponses = { [key]: { action: 'decline' } }
    await b.ask('tasks/update', { taskId: id, inputResponses })
    await pass(0)
    expect(attempts).toHaveLength(2)
    expect(attempts[1]?.requestState).toEqual({ s: 1 })
    await b.ask('tasks/cancel', { taskId: id })
    expect(attempts[1]?.signal.aborted).toBe(true)
  })

  it('is ended by its owner alone: a process that was taken for dead changes nothing', async () => {
    const { next, id, end, a } = await leftBehind()
    const pending = pendingServer()
    const b = next('b', { server: pending.server })
    await b.instance.start?.()
    end(result('too late'))
    await pass(1000)
    expect(await a.records()).toMatchObject([{ state: 'working', owner: 'b' }])
    pending.end(result('in time'))
    await pass(0)
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({
      status: 'completed',
      result: { content: [{ text: 'in time' }] },
    })
  })

  it('has an error that names its own request, whichever request reads it', async () => {
    const { next, id } = await leftBehind()
    const b = next('b', { deps: isOff })
    const first = fieldsOf(await b.ask('tasks/get', { taskId: id }, { requestId: 'r2' }))
    expect(first).toMatchObject({ error: { data: { requestId: 'r1' } } })
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }, { requestId: 'r3' }))).toEqual(first)
  })

  it('does not stay working where its call is refused before it is made', async () => {
    const { next, id } = await leftBehind()
    const relay = vi.fn<(call: Call) => Promise<Outcome>>(() =>
      Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no such server any more.')),
    )
    const b = next('b', { deps: { relay } })
    await b.instance.start?.()
    await pass(60_000)
    expect(relay).toHaveBeenCalledTimes(1)
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'failed' })
  })

  it('requests its input again if that was requested before the server started', async () => {
    const store = new MemoryStore()
    const a = process({ server: async () => asking(['q'], { s: 1 }), store, me: 'a' })
    const outcome = a.make({ client: older }, { task: {} })
    await pass(60)
    const { id } = taskIn(await outcome)
    const b = process({ server: async () => result('by b'), store, me: 'b', alive: new Set(['b']) })
    await b.instance.start?.()
    expect(b.relayed).toHaveLength(1)
    // Nothing was lost that could have taken effect.
    expect(b.relayed[0] && operationSlot.of(b.relayed[0])).toEqual({
      id: expect.any(String),
      key: expect.any(String),
      isTask: true,
    })
    await pass(0)
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'completed' })
  })

  it('counts as lost if its server had started before it requested input', async () => {
    const store = new MemoryStore()
    const open: Outcome = { ...asking(['q']), isOpen: true } as Outcome
    const a = process({ server: async () => open, store, me: 'a' })
    const outcome = a.make({ client: older }, { task: {} })
    await pass(60)
    taskIn(await outcome)
    const b = process({ server: async () => result('by b'), store, me: 'b', alive: new Set(['b']) })
    await b.instance.start?.()
    expect(b.relayed[0] && operationSlot.of(b.relayed[0])).toHaveProperty('lostSince')
  })

  it.each([
    [true, 'unknown', 'OUTCOME_UNKNOWN', 'had begun'],
    [false, 'cancelled', 'CANCELLED', 'Nothing was done'],
  ])(
    'ends at once where it is no task and its server requests input (begun: %s): no client can answer',
    async (isBegun, state, code, words) => {
      const store = new MemoryStore()
      const a = process({ server: pendingServer().server, store, me: 'a' })
      void a.make({ client: older })
      await pass(1200)
      expect(await a.records()).toMatchObject([{ state: 'working' }])
      const asks = { ...asking(['q']), ...(isBegun && { isOpen: true }) } as Outcome
      const b = process({ server: async () => asks, store, me: 'b', alive: new Set(['b']) })
      await b.instance.start?.()
      await pass(0)
      expect(await b.records()).toMatchObject([
        { state, failure: { code, message: expect.stringContaining(words) } },
      ])
    },
  )

  it('is taken up once, however long its call takes to begin', async () => {
    const { next } = await leftBehind()
    const begun = vi.fn<(call: Call) => Promise<Outcome>>(() => new Promise(() => undefined))
    const b = next('b', { deps: { relay: begun } })
    await b.instance.start?.()
    await pass(120_000)
    expect(begun).toHaveBeenCalledTimes(1)
  })

  it('continues once the server or the store is available again', async () => {
    const { next, id } = await leftBehind()
    let attempts = 0
    const away = new GatewayError('SERVER_UNAVAILABLE', 'away')
    const b = next('b', {
      server: () => (++attempts < 4 ? Promise.reject(away) : Promise.resolve(result('by b'))),
    })
    await b.instance.start?.()
    await pass(10_000)
    expect(attempts).toBe(4)
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'completed' })
  })

  it.each([
    ['away for good', 'SERVER_UNAVAILABLE', 5],
    ['not permitted any more', 'SCOPE_INSUFFICIENT', 1],
  ] as const)(
    'is unknown where its call is %s: the first attempt may have taken effect',
    async (_why, code, count) => {
      const { next } = await leftBehind()
      const server = vi.fn<() => Promise<Outcome>>(() => Promise.reject(new GatewayError(code, 'no')))
      const b = next('b', { server })
      await b.instance.start?.()
      await pass(10_000)
      expect(server).toHaveBeenCalledTimes(count)
      expect(await b.records()).toMatchObject([
        { state: 'unknown', failure: { code: 'OUTCOME_UNKNOWN', extra: { details: { reason: code } } } },
      ])
    },
  )

  it('asks by other keys than its first process did', async () => {
    const store = new MemoryStore()
    const a = process({ server: async () => asking(['q']), store, me: 'a' })
    const outcome = a.make({ client: older }, { task: {} })
    await pass(60)
    const { id } = taskIn(await outcome)
    const keysOf = async (gateway: typeof a) =>
      Object.keys(Object(fieldsOf(await gateway.ask('tasks/get', { taskId: id }))['inputRequests']))
    const [first = ''] = await keysOf(a)
    const b = process({ server: async () => asking(['q']), store, me: 'b', alive: new Set(['b']) })
    await b.instance.start?.()
    await pass(0)
    const [second = ''] = await keysOf(b)
    expect([first, second]).not.toContain('')
    expect(second).not.toBe(first)
  })
})

/** The process `a` ends while a call of it waits for an approval, or after that: its approval is as `status` says then. */
async function leftWaiting({
  status = 'pending',
  params = {},
  waits = (call, id) => awaitsApprovalSlot.of(call)?.(id),
}: {
  status?: 'pending' | 'approved' | 'used'
  params?: Json
  waits?: (call: Call, approval: string) => void
}) {
  const store = new MemoryStore()
  const approvals = new Approvals(store, Date.now)
  const draft: ApprovalRequest = {
    ...{ kind: 'page', caller: 'alice', upstream: 'one', tool: 't', arguments: {}, digest: 'd' },
    ...{ risk: 'destructive', message: 'Do it?', needed: 1, approvers: [], ttl: 600_000 },
  }
  const { approval } = await approvals.request(draft)
  const a = process({
    store,
    server: (call) => {
      waits(call, approval.id)
      return new Promise(() => undefined)
    },
  })
  void a.make({ client: older }, params)
  await pass(1200)
  if (status !== 'pending')
    await approvals.decide(approval.id, { by: 'alice', via: 'code', verdict: 'approved' })
  if (status === 'used') await approvals.use(draft)
  const [before] = await a.records()
  const next = (me: string, given: Partial<Parameters<typeof process>[0]> = {}) =>
    process({ server: async () => result(`by ${me}`), store, me, alive: new Set(['b', 'c']), ...given })
  const found = (): Promise<Approval | undefined> => approvals.find(approval.id)
  return { id: before?.id, next, found }
}

describe('an operation whose process ended while its call waited for approval', () => {
  it.each(['pending', 'approved'] as const)(
    'ends as one that was not run, and its approval stays: %s',
    async (status) => {
      const { id, next, found } = await leftWaiting({ status })
      const b = next('b')
      await b.instance.start?.()
      await pass(0)
      expect(b.relayed).toEqual([])
      const [record] = await b.records()
      expect(record).toMatchObject({ state: 'failed', owner: 'b', failure: { code: 'CANCELLED' } })
      expect(record).not.toHaveProperty('approval')
      expect(await failureOf(b.ask('operation/resume', { operation_id: id }))).toMatchObject({
        code: 'CANCELLED',
        message: 'The gateway went down while the call waited for approval. The call was not run.',
        data: { suggestion: 'Make the call again: it uses the approval, or waits for it.' },
      })
      expect(await found()).toMatchObject({ status })
    },
  )

  it('says that its call needs a new key, if it had one', async () => {
    const { id, next } = await leftWaiting({ params: keyed })
    const b = next('b')
    await b.instance.start?.()
    expect(await failureOf(b.ask('operation/resume', { operation_id: id }))).toMatchObject({
      data: { suggestion: expect.stringContaining('with a new key') },
    })
  })

  it('counts as sent once the approval is used', async () => {
    const { next } = await leftWaiting({ status: 'used' })
    const b = next('b', { deps: isOff })
    await b.instance.start?.()
    expect(await b.records()).toMatchObject([{ state: 'unknown', failure: { code: 'OUTCOME_UNKNOWN' } }])
  })

  it('counts as sent if it was sent before it waited', async () => {
    const { next } = await leftWaiting({
      waits: (call, approval) => {
        onSentSlot.of(call)?.({ id: 1, revision: '2025-11-25' })
        awaitsApprovalSlot.of(call)?.(approval)
      },
    })
    const b = next('b', { deps: isOff })
    await b.instance.start?.()
    expect(await b.records()).toMatchObject([{ state: 'unknown' }])
  })

  it('continues as a task that lost nothing, and is no longer one that waits', async () => {
    const { next } = await leftWaiting({ params: { task: {} } })
    const pending = pendingServer()
    const b = next('b', { server: pending.server })
    await b.instance.start?.()
    await pass(0)
    expect(b.relayed).toHaveLength(1)
    expect(b.relayed[0] && operationSlot.of(b.relayed[0])).not.toHaveProperty('lostSince')
    const [record] = await b.records()
    expect(record).toMatchObject({ state: 'working', owner: 'b' })
    expect(record).not.toHaveProperty('approval')
  })
})

describe('the search for what ended processes left', () => {
  it('leaves the operations of living processes alone, and those that have ended', async () => {
    const { next, before, store, end } = await leftBehind()
    const b = process({ server: async () => result('no'), store, me: 'b', alive: new Set(['a', 'b']) })
    await b.instance.start?.()
    await pass(60_000)
    expect(await b.records()).toEqual([before])
    end(result('done'))
    await pass(0)
    const [ended] = await b.records()
    expect(ended?.state).toBe('completed')
    const c = next('c')
    await c.instance.start?.()
    expect(await c.records()).toEqual([ended])
    expect(c.relayed).toEqual([])
  })

  it('goes on from time to time, until the feature is closed', async () => {
    const { store } = await leftBehind()
    const alive = new Set(['a', 'b'])
    const b = process({ server: async () => result('no'), store, me: 'b', alive, deps: isOff })
    await b.instance.start?.()
    await pass(20_000)
    alive.delete('a')
    await pass(16_000)
    expect(await b.records()).toMatchObject([{ state: 'unknown', owner: 'b' }])
    await b.instance.close?.()
    const other = await leftBehind()
    const c = other.next('c', { deps: isOff, alive: new Set(['a', 'c']) })
    await c.instance.start?.()
    await c.instance.close?.()
    await pass(60_000)
    expect(await c.records()).toMatchObject([{ state: 'working', owner: 'a' }])
  })

  it('has one of several processes take an operation up', async () => {
    const { next, id } = await leftBehind()
    const others = ['b', 'c'].map((me) => next(me))
    await Promise.all(others.map(async ({ instance }) => instance.start?.()))
    await pass(20_000)
    const relayed = others.flatMap((each) => each.relayed)
    expect(relayed).toHaveLength(1)
    for (const each of others)
      expect(fieldsOf(await each.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'completed' })
  })

  it('has an operation end that this process lost the end of', async () => {
    const store = new MemoryStore()
    const pending = pendingServer()
    const a = process({ server: pending.server, store })
    const outcome = a.make({ client: older }, { task: {} })
    await pass(60)
    const { id } = taskIn(await outcome)
    const swap = store.compareAndSwap.bind(store)
    store.compareAndSwap = () => Promise.reject(new Error('away'))
    pending.end(result('done'))
    // It is tried for a while to write the end.
    await pass(300_000)
    store.compareAndSwap = swap
    const before = (await a.records())[0]
    expect(before && isEnded(before)).toBe(false)
    const b = process({ server: async () => result('no'), store, deps: isOff })
    await b.instance.start?.()
    expect(fieldsOf(await b.ask('tasks/get', { taskId: id }))).toMatchObject({ status: 'failed' })
  })
})
