import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Call, Handler } from '../../../../src/core/call.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import type { OrderStep } from '../../../../src/core/audit-step.ts'
import type { RewindPlan } from '../../../../src/features/offers.ts'
import { plannedActions } from '../../../../src/records/rewind-plan.ts'
import { newRewind, Rewinds } from '../../../../src/records/rewinds.ts'
import { Transactions } from '../../../../src/records/transactions.ts'
import { newUndoTransaction } from '../../../../src/records/transitions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { CrashingStore } from '../../../support/crashing-store.ts'
import { Place, SagaGateway } from '../../../support/saga-world.ts'
import { isSoak } from '../../../support/soak.ts'

afterEach(() => void vi.useRealTimers())

const page = { by: 'ann', via: 'page' } as const
const [me, you] = [{ id: 'me' }, { id: 'you' }]
const as = (principal: { readonly id: string }) => ({ call: { principal } })

type Given = ConstructorParameters<typeof SagaGateway>[0]

/** A gateway in front of a place where some things are. */
function opened(given: Given = {}, one = new Place()) {
  for (const key of ['a', 'b', 'c']) one.things.set(key, 'old')
  const gateway = new SagaGateway({ places: { one }, ...given })
  onTestFinished(() => gateway.die())
  const change = (key: string, value: string, principal = me) =>
    gateway.call('change', { key, value }, as(principal))
  return { one, gateway, change }
}

/** The arguments and verdict of each action of a plan, in its order. */
function told({ actions }: RewindPlan): string[] {
  return actions.map(({ action, how, present }) => {
    const { key, to, value } = action.arguments
    const name = [action.tool, key ?? to, value].filter((part) => part !== undefined).join(' ')
    return `${name}: ${how === 'not at all' ? how : (present?.kind ?? how)}`
  })
}

/** Waits for the end of a rewind: the outcome of each action, in the order of the plan. */
async function ended({ rewinding }: SagaGateway, id: string): Promise<string[]> {
  const progress = () => rewinding.progress(id)
  await expect
    .poll(async () => (await progress())?.rewind.status, { timeout: 20_000, interval: 5 })
    .toBe('ended')
  const { actions = [] } = (await progress()) ?? {}
  return actions.map(({ action, outcome }) => `${action.tool}: ${outcome}`)
}

/** Waits until gateways have looked for rewinds so many more times. */
function pollsOf(store: MemoryStore): (count: number) => Promise<void> {
  const scan = vi.spyOn(store, 'scan')
  const polls = (): number => scan.mock.calls.flat().filter((name) => name === 'rewind-due').length
  return async (count) => {
    await expect.poll(polls, { interval: 5 }).toBeGreaterThanOrEqual(count)
  }
}

/** Advances the clock until a promise is settled. */
async function passing<Value>(promise: Promise<Value>): Promise<Value> {
  let isOver = false
  const over = promise.finally(() => (isOver = true))
  over.catch(() => undefined)
  for (let waited = 0; !isOver && waited < 200; waited++)
    await vi.advanceTimersByTimeAsync(waited < 10 ? 1 : 500)
  return over
}

function idOf(answer: object): string {
  if (!('id' in answer)) throw new Error(`the plan changed: ${JSON.stringify(answer)}`)
  return String(answer.id)
}

/** Holds the first call that matches, until it is let go. */
function holding(matches: (call: Call) => boolean) {
  let [letGo, reached] = [(): void => undefined, (): void => undefined]
  const released = new Promise<void>((resolve) => (letGo = resolve))
  const held = new Promise<void>((resolve) => (reached = resolve))
  let isFirst = true
  const next = async (call: Call, run: Handler) => {
    if (isFirst && matches(call)) {
      isFirst = false
      reached()
      await released
    }
    return run(call)
  }
  return { next, held, letGo: () => letGo() }
}

describe('a plan', () => {
  test('is carried out exactly: what others changed since and what has no undo stays', async () => {
    const steps: OrderStep[] = []
    const { one, gateway, change } = opened({ deps: { ordered: (step) => void steps.push(step) } })
    await change('a', 'mine')
    await change('b', 'mine')
    await gateway.call('mail', { to: 'bob' }, as(me))
    await gateway.call('put', { key: 'new', value: '1' }, as(me))
    await change('a', 'mine again')
    const { rewinding } = gateway
    await rewinding.plan({})
    one.things.set('b', 'theirs')
    const plan = await rewinding.plan({})
    expect(told(plan)).toEqual([
      'change a mine again: as_left',
      'put new 1: exactly',
      'mail bob: not at all',
      'change b mine: changed',
      'change a mine: as_left',
    ])
    expect(plan.actions[3]?.present).toMatchObject({ difference: ['value:', '- mine', '+ theirs'] })
    const id = idOf(await rewinding.carryOut(plan.id, page))
    expect(await ended(gateway, id)).toEqual([
      'change: undone',
      'put: undone',
      'mail: cannot',
      'change: left',
      'change: undone',
    ])
    expect(Object.fromEntries(one.things)).toEqual({ a: 'old', b: 'theirs', c: 'old' })
    expect(one.mails).toEqual(['bob'])
    const order = { order: 'undo', by: 'ann', via: 'page', caller: 'me' }
    expect(steps).toEqual([
      { ...order, transaction: id },
      { ...order, left: [plan.actions[3]?.action.key] },
    ])
    const [undone] = await new Transactions(gateway.store, 1).list('me')
    expect(undone?.transaction).toMatchObject({ status: 'rolled_back', reason: 'rewind by ann' })
  })

  test('begins right before a call, by the key of its action or the id of its request', async () => {
    const { gateway, change } = opened()
    await change('a', 'first')
    await gateway.call(
      'change',
      { key: 'b', value: 'second' },
      { call: { principal: you, requestId: 'r-2' } },
    )
    await change('c', 'third')
    const { rewinding } = gateway
    const all = await rewinding.plan({})
    const from = all.actions[1]?.action.key ?? ''
    for (const name of [from, 'r-2']) {
      const plan = await rewinding.plan({ from: name })
      expect(told(plan)).toEqual(['change c third: as_left', 'change b second: as_left'])
    }
    expect(told(await rewinding.plan({ from, principal: 'me' }))).toEqual(['change c third: as_left'])
    await expect(rewinding.plan({ since: 0, upstream: 'two' })).rejects.toThrow(
      'There is no server named “two”. There are one.',
    )
    await expect(rewinding.plan({ from: 'nothing' })).rejects.toThrow('no such action')
  })

  test('that changed meanwhile is refused with the difference, and the plan of now can be carried out', async () => {
    const { one, gateway, change } = opened()
    await change('a', 'mine')
    const { rewinding } = gateway
    const first = await rewinding.plan({})
    await change('b', 'newer')
    const refused = await rewinding.carryOut(first.id, page)
    expect(refused).toMatchObject({
      changes: [{ change: 'new', text: expect.stringContaining('one  change: exactly') }],
    })
    one.things.set('a', 'theirs')
    const second = 'plan' in refused ? refused.plan : first
    const again = await rewinding.carryOut(second.id, page)
    expect(again).toMatchObject({ changes: [{ change: 'other' }] })
    expect(Object.fromEntries(one.things)).toEqual({ a: 'theirs', b: 'newer', c: 'old' })
    const third = 'plan' in again ? again.plan : first
    await ended(gateway, idOf(await rewinding.carryOut(third.id, page)))
    expect(Object.fromEntries(one.things)).toEqual({ a: 'theirs', b: 'old', c: 'old' })
  })

  test('until a time is not changed by what begins later', async () => {
    const { one, gateway, change } = opened()
    await change('a', 'mine')
    const until = Date.now()
    await expect.poll(() => Date.now()).toBeGreaterThan(until)
    const plan = await gateway.rewinding.plan({ until })
    await change('b', 'newer')
    await ended(gateway, idOf(await gateway.rewinding.carryOut(plan.id, page)))
    expect(Object.fromEntries(one.things)).toEqual({ a: 'old', b: 'newer', c: 'old' })
  })

  test('is carried out once, and one that is not kept is refused', async () => {
    const { one, gateway, change } = opened()
    await change('a', 'mine')
    const { rewinding } = gateway
    const { id } = await rewinding.plan({})
    await Promise.all([rewinding.carryOut(id, page), rewinding.carryOut(id, page)])
    await ended(gateway, id)
    expect(await rewinding.carryOut(id, page)).toEqual({ id })
    expect(one.calls.filter((name) => name === 'change a')).toHaveLength(2)
    await expect(rewinding.carryOut('undo-0', page)).rejects.toThrow('no such plan')
    expect(await rewinding.progress('undo-0')).toBeUndefined()
  })

  test('of what was undone is empty: an undo is nothing that is undone', async () => {
    const { one, gateway, change } = opened()
    await change('a', 'mine')
    const { rewinding } = gateway
    await ended(gateway, idOf(await rewinding.carryOut((await rewinding.plan({})).id, page)))
    expect(told(await rewinding.plan({}))).toEqual([])
    await change('a', 'later')
    const plan = await rewinding.plan({})
    expect(told(plan)).toEqual(['change a later: as_left'])
    await ended(gateway, idOf(await rewinding.carryOut(plan.id, page)))
    expect(one.things.get('a')).toBe('old')
  })

  test('leaves garbage in the store alone', async () => {
    const { gateway, change } = opened()
    await change('a', 'mine')
    const good = { key: 'k', startedAt: 1, upstream: 'one', tool: 't', status: 'ok', arguments: {} }
    const garbage: unknown[] = [
      null,
      { ...good, principal: {}, way: { kind: 'nothing' } },
      { ...good, principal: me, way: {} },
      { ...good, principal: me, way: { kind: 'exact', tool: 't', arguments: null, description: '' } },
    ]
    for (const [index, value] of garbage.entries())
      await gateway.store.put(`deed/${index}`, JSON.stringify(value), 60_000)
    const way = { kind: 'exact', tool: 'change', arguments: {}, description: 'change()' }
    const states = { tool: 'get', before: 'x', arguments: {}, parts: [null], left: 5 }
    await gateway.store.put('deed/k', JSON.stringify({ ...good, principal: me, way, states }), 60_000)
    const transaction = {
      id: 't',
      status: 'active',
      expiresAt: 1,
      endsAt: 1,
      principal: me,
      compensations: [],
    }
    await gateway.store.put('transaction/x:t', JSON.stringify({ ...transaction, steps: [null] }), 60_000)
    expect(told(await gateway.rewinding.plan({}))).toEqual(['change a mine: as_left', 't: exactly'])
  })
})

test('actions of several callers are undone in turn, each with the rights of its caller', async () => {
  const callers: string[] = []
  const { one, gateway, change } = opened({
    seen: ({ internal, principal }) => void (internal === 'compensate' && callers.push(principal.id)),
  })
  await change('a', 'one', me)
  await change('a', 'two', you)
  await change('a', 'three', me)
  const plan = await gateway.rewinding.plan({})
  expect(told(plan)).toEqual(['change a three: as_left', 'change a two: as_left', 'change a one: as_left'])
  await ended(gateway, idOf(await gateway.rewinding.carryOut(plan.id, page)))
  expect([one.things.get('a'), callers]).toEqual(['old', ['me', 'you', 'me']])
})

test('a plan for one caller says that another one changed what it left, and leaves that', async () => {
  const { one, gateway, change } = opened()
  await change('a', 'mine', me)
  await change('a', 'yours', you)
  const plan = await gateway.rewinding.plan({ principal: 'me' })
  expect(told(plan)).toEqual(['change a mine: changed'])
  const id = idOf(await gateway.rewinding.carryOut(plan.id, page))
  expect(await ended(gateway, id)).toEqual(['change: left'])
  expect(one.things.get('a')).toBe('yours')
})

test('by force only what was shown as changed is overwritten, not what changes after that', async () => {
  const { one, gateway, change } = opened({
    next: (call, run) => {
      if (call.internal === 'compensate') one.things.set('c', 'at the last moment')
      return run(call)
    },
  })
  for (const key of ['c', 'b', 'a']) await change(key, 'mine')
  await gateway.rewinding.plan({})
  one.things.set('b', 'theirs')
  const plan = await gateway.rewinding.plan({})
  expect(told(plan)).toEqual(['change a mine: as_left', 'change b mine: changed', 'change c mine: as_left'])
  const id = idOf(await gateway.rewinding.carryOut(plan.id, { ...page, force: true }))
  expect(await ended(gateway, id)).toEqual(['change: undone', 'change: undone', 'change: not_undone'])
  expect(Object.fromEntries(one.things)).toEqual({ a: 'old', b: 'old', c: 'at the last moment' })
  expect((await gateway.rewinding.progress(id))?.actions[2]?.difference).toContain('+ at the last moment')
})

test('of two plans at once for the same actions, each action is undone by one of them', async () => {
  const { one, gateway, change } = opened()
  for (const key of ['a', 'b']) await change(key, 'mine')
  const { rewinding } = gateway
  const plans = await Promise.all([rewinding.plan({}), rewinding.plan({})])
  const answers = await Promise.all(plans.map(({ id }) => rewinding.carryOut(id, page)))
  const outcomes = await Promise.all(answers.map((answer) => ended(gateway, idOf(answer))))
  expect(outcomes.flat().toSorted()).toEqual(
    ['not_undone', 'not_undone', 'undone', 'undone'].map((each) => `change: ${each}`),
  )
  expect(one.calls.filter((name) => name.startsWith('change'))).toHaveLength(4)
})

test('an open transaction is left to its caller, and what it changed is not overwritten', async () => {
  const { one, gateway, change } = opened()
  await change('a', 'mine')
  await gateway.begin('t', {}, me)
  await gateway.step('t', 'change', { key: 'a', value: 'step' }, as(me))
  const plan = await gateway.rewinding.plan({})
  expect(told(plan)).toEqual(['change a step: not at all', 'change a mine: changed'])
  expect(plan.actions[0]?.why).toContain('its transaction is still open')
  const id = idOf(await gateway.rewinding.carryOut(plan.id, page))
  expect(await ended(gateway, id)).toEqual(['change: cannot', 'change: left'])
  expect(one.things.get('a')).toBe('step')
})

test('a call that runs meanwhile is in no plan, and makes another plan once it ends', async () => {
  const running = holding(({ internal, target }) => !internal && target.name === 'put')
  const { one, gateway, change } = opened({ next: running.next })
  await change('a', 'mine')
  const call = gateway.call('put', { key: 'new', value: '1' }, as(me))
  await running.held
  const { rewinding } = gateway
  const [first, second] = [await rewinding.plan({}), await rewinding.plan({})]
  expect(told(first)).toEqual(['change a mine: as_left'])
  await ended(gateway, idOf(await rewinding.carryOut(first.id, page)))
  running.letGo()
  await call
  expect(await rewinding.carryOut(second.id, page)).toMatchObject({
    changes: [{ change: 'new' }, { change: 'gone' }],
  })
  expect(one.things.get('new')).toBe('1')
})

describe('a server that never answers', () => {
  test('is asked a few times for its present states, and the plan cannot tell what it does not know', async () => {
    let isSilent = false
    const asked: string[] = []
    const { gateway, change } = opened({
      next: (call, run) => {
        if (!isSilent || call.internal !== 'read' || call.target.upstream !== 'one') return run(call)
        asked.push(call.requestId)
        return new Promise(() => undefined)
      },
      places: { one: new Place(), two: new Place() },
    })
    for (let index = 0; index < 9; index++) {
      await gateway.call('put', { key: `k${index}`, value: '0' }, as(me))
      await change(`k${index}`, 'mine')
    }
    await gateway.call('put', { key: 'x', value: '0' }, { ...as(me), server: 'two' })
    await gateway.call('change', { key: 'x', value: 'mine' }, { ...as(me), server: 'two' })
    await gateway.rewinding.plan({})
    isSilent = true
    vi.useFakeTimers({ now: Date.now() })
    const planning = gateway.rewinding.plan({})
    await vi.advanceTimersByTimeAsync(11_000)
    const { actions } = await planning
    const known = actions.filter(({ action }) => action.tool === 'change').map(({ present }) => present)
    expect(known).toEqual([
      { kind: 'as_left' },
      ...Array.from({ length: 9 }, () => ({ kind: 'unknown', why: 'get did not answer within 10 s' })),
    ])
    expect(asked).toHaveLength(4)
  })

  test('or that is away is told as such, and nothing of it is undone', async () => {
    const places: Record<string, Place> = { one: new Place() }
    const { one, gateway, change } = opened({ places }, places['one'])
    await change('a', 'mine')
    await gateway.rewinding.plan({})
    delete places['one']
    const plan = await gateway.rewinding.plan({})
    expect(plan.actions[0]?.present).toMatchObject({ kind: 'unknown', why: 'away' })
    const id = idOf(await gateway.rewinding.carryOut(plan.id, page))
    expect(await ended(gateway, id)).toEqual(['change: not_undone'])
    expect(one.things.get('a')).toBe('mine')
  })
})

describe('a gateway does what others request in the store', () => {
  test('reads the present states of a plan, and undoes it once it is ordered', async () => {
    const { one, gateway, change } = opened()
    await change('a', 'mine')
    await change('b', 'mine')
    const { actions } = await gateway.rewinding.plan({})
    one.things.set('b', 'theirs')
    await gateway.start()
    const plan = plannedActions(actions.map(({ action, how }) => ({ action, how })))
    const rewinds = new Rewinds(gateway.store)
    const rewind = newRewind({ status: 'reading', plan })
    await rewinds.put(rewind)
    await expect.poll(async () => (await rewinds.find(rewind.id))?.status).toBe('planned')
    const planned = await rewinds.find(rewind.id)
    expect(planned?.plan.map(({ present }) => present?.kind)).toEqual(['changed', 'as_left'])
    expect(planned?.runner).toBeUndefined()
    const order = { by: 'ann', via: 'command_line' } as const
    await rewinds.change(rewind.id, (each) => ({ ...each, status: 'undoing', order }))
    expect(await ended(gateway, rewind.id)).toEqual(['change: left', 'change: undone'])
    expect(Object.fromEntries(one.things)).toEqual({ a: 'old', b: 'theirs', c: 'old' })
    expect(await rewinds.due()).toEqual([])
  })

  test('but not what is not its turn: an action of an open transaction, and a rewind that another gateway does', async () => {
    const store = new MemoryStore()
    const stuck = holding(({ internal }) => internal === 'compensate')
    const { one, gateway, change } = opened({ store, next: stuck.next })
    await gateway.begin('t', {}, me)
    await gateway.step('t', 'change', { key: 'a', value: 'step' }, as(me))
    await change('b', 'mine')
    const { actions } = await gateway.rewinding.plan({})
    const plan = plannedActions(actions.map(({ action }) => ({ action, how: 'exactly' })))
    const rewind = newRewind({ status: 'undoing', plan, order: page })
    const rewinds = new Rewinds(store)
    await rewinds.put(rewind)
    await gateway.start()
    await stuck.held
    const { runner } = (await rewinds.find(rewind.id)) ?? {}
    const polls = pollsOf(store)
    const other = new SagaGateway({ store, places: { one } })
    onTestFinished(() => other.die())
    await other.start()
    await polls(4)
    expect(await rewinds.find(rewind.id)).toMatchObject({ status: 'undoing', runner })
    stuck.letGo()
    expect(await ended(gateway, rewind.id)).toEqual(['change: undone', 'change: not_undone'])
    expect(Object.fromEntries(one.things)).toEqual({ a: 'step', b: 'old', c: 'old' })
  })

  test('and continues a rewind whose gateway ended, after the transaction that it had begun', async () => {
    const store = new MemoryStore()
    const stuck = holding(({ internal }) => internal === 'compensate')
    const { one, gateway, change } = opened({ store, next: stuck.next })
    await change('b', 'yours', you)
    await change('a', 'mine', me)
    const { actions } = await gateway.rewinding.plan({})
    const planned = newRewind({ status: 'undoing', plan: plannedActions(actions), order: page })
    const rewind = { ...planned, runner: 'gone#1' }
    const begun = actions.slice(0, 1).map(({ action }) => action)
    await new Transactions(store, 1).open(newUndoTransaction(begun, { id: rewind.id, by: 'ann', now: 0 }))
    await new Rewinds(store).put(rewind)
    const polls = pollsOf(store)
    await gateway.start()
    await stuck.held
    await polls(3)
    expect(one.things.get('b')).toBe('yours')
    stuck.letGo()
    expect(await ended(gateway, rewind.id)).toEqual(['change: undone', 'change: undone'])
    expect(Object.fromEntries(one.things)).toEqual({ a: 'old', b: 'old', c: 'old' })
  })
})

/** Carries a plan of three callers out in a process that crashes at the n-th write, and continues in another process. */
async function survived(at: number, isDone: boolean) {
  const disk = new MemoryStore(() => Date.now())
  const { one, gateway, change } = opened({ store: disk })
  for (const [key, principal] of [
    ['c', me],
    ['b', you],
    ['a', me],
  ] as const)
    await passing(change(key, 'mine', principal))
  const { id } = await passing(gateway.rewinding.plan({}))
  await passing(gateway.die())
  const store = new CrashingStore(disk, at, isDone)
  const crashing = new SagaGateway({ store, places: { one } })
  await passing(Promise.resolve(crashing.rewinding.carryOut(id, page)).catch(() => undefined))
  await vi.advanceTimersByTimeAsync(2000)
  const isCrashed = store.isDown
  await passing(crashing.die())
  const next = new SagaGateway({ store: disk, places: { one } })
  await passing(next.start())
  let progress = await next.rewinding.progress(id)
  for (let waited = 0; progress?.rewind.status === 'undoing' && waited < 12; waited++) {
    await vi.advanceTimersByTimeAsync(5000)
    progress = await next.rewinding.progress(id)
  }
  await passing(next.die())
  return { one, isCrashed, progress }
}

test('after a crash at any write, an ordered plan is carried out to its end, and nothing is undone twice', async () => {
  vi.useFakeTimers()
  let isOrdered = false
  for (let at = 1, isCrashed = true; isCrashed; at += isSoak ? 1 : 4) {
    const found = await survived(at, at % 8 > 3)
    isCrashed = found.isCrashed
    const { one, progress } = found
    isOrdered ||= progress?.rewind.status === 'ended'
    expect(progress?.rewind.status).toBe(isOrdered ? 'ended' : 'planned')
    const left = (progress?.actions ?? []).flatMap(({ outcome, action: { key } }) =>
      outcome === 'undone' ? [] : key,
    )
    // Of one compensation, it may not be known whether it had an effect.
    if (isOrdered) expect(left.length).toBeLessThanOrEqual(1)
    expect(one.calls.filter((name) => name.startsWith('change')).slice(3)).toEqual(
      ['change a', 'change b', 'change c'].filter(
        (name) => one.calls.lastIndexOf(name) > one.calls.indexOf(name),
      ),
    )
    for (const key of ['a', 'b', 'c'])
      expect(one.calls.filter((name) => name === `change ${key}`).length).toBeLessThanOrEqual(2)
    if (!isCrashed)
      expect([left, Object.fromEntries(one.things)]).toEqual([[], { a: 'old', b: 'old', c: 'old' }])
  }
  expect(isOrdered).toBe(true)
})

test('a state that cannot be compared, or a caller that cannot be read, fails no plan', async () => {
  const { one, gateway, change } = opened()
  await change('a', 'mine')
  await change('b', 'mine')
  const { actions } = await gateway.rewinding.plan({})
  one.things.set('b', 'theirs')
  const [, { action } = { action: undefined }] = actions
  const principal = { id: 'me', scopes: 5 }
  await gateway.store.put(
    `deed/${action?.key}`,
    JSON.stringify({ ...action, principal, exact: true }),
    60_000,
  )
  expect(told(await gateway.rewinding.plan({}))).toEqual(['change b mine: changed', 'change a mine: unknown'])
})

test('secrets and what is masked are in no plan that is kept', async () => {
  const { one, gateway, change } = opened({
    deps: { masked: (value) => (isObject(value) ? { ...value, value: '***' } : value) },
  })
  await change('a', 'mine')
  await gateway.rewinding.plan({})
  one.things.set('a', 'their secret')
  const { id, actions } = await gateway.rewinding.plan({})
  expect(actions[0]?.present).toMatchObject({ kind: 'changed' })
  expect(await gateway.store.get(`rewind:${id}`)).not.toContain('secret')
})
