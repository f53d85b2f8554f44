import { modelArguments } from '../../../../src/features/offers.ts'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { featureSettings } from '../../../../src/core/settings.ts'
import { transactions } from '../../../../src/features/transactions/transactions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps, offeredBy } from '../../../support/feature-deps.ts'
import { Place, SagaGateway } from '../../../support/saga-world.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { silentLog } from '../../../support/silent-log.ts'

afterEach(() => void vi.useRealTimers())

const eve = { id: 'eve' }
const t = { transaction_id: 't' }

describe('transactions/begin', () => {
  it('the response states when the transaction expires', async () => {
    vi.useFakeTimers({ now: 0 })
    const gateway = new SagaGateway()
    expect(await gateway.begin('t', { timeout_seconds: 60 })).toEqual({
      status: 'begun',
      transaction_id: 't',
      expires_at: '1970-01-01T00:01:00.000Z',
      timeout_seconds: 60,
    })
  })

  it('the tool description states the idle timeout', () => {
    const text = 'upstreams: { one: { command: x } }\nfeatures: { transactions: { timeout: 90s } }'
    const { settings } = loadSettings(text, { file: 'f.yaml', env: {} })
    const own = featureSettings(settings, 'transactions')
    const [tool] = transactions.create(() => own as never, featureDeps()).builtins?.tools ?? []
    expect(tool?.definition).toMatchObject({
      name: 'begin_transaction',
      inputSchema: { properties: { timeout_seconds: { default: 90 } } },
    })
  })

  it('an error as a tool contains the request id', async () => {
    const { settings } = loadSettings('upstreams: { one: { command: x } }', { file: 'f.yaml', env: {} })
    const own = featureSettings(settings, 'transactions')
    const [tool] = transactions.create(() => own as never, featureDeps()).builtins?.tools ?? []
    const outcome = await tool?.handle(toolCall({ params: Payload.of({ arguments: {} }) }))
    const object = { code: 'INVALID_INPUT', requestId: 'r1' }
    expect(outcome).toMatchObject({
      result: { fields: { error: object, _meta: { 'dev.gatehouse/error': object } } },
    })
  })

  it('the transaction argument is not injected where no transaction can begin', () => {
    const { settings } = loadSettings('upstreams: { one: { command: x } }', { file: 'f.yaml', env: {} })
    const own = featureSettings(settings, 'transactions')
    const told = (deps: Parameters<typeof featureDeps>[0]) =>
      offeredBy(
        transactions.create(() => own as never, featureDeps(deps)),
        modelArguments,
      )?.('one') ?? []
    expect(told({}).map(({ argument }) => argument)).toEqual(['_transaction_id'])
    expect(told({ hasTools: false })).toEqual([])
    expect(told({ isOn: (name) => name !== 'idempotency' })).toEqual([])
  })

  it('the timeout is capped at the maximum lifetime', async () => {
    const gateway = new SagaGateway({ settings: { max_lifetime: '10m' } })
    expect(await gateway.begin('t', { timeout_seconds: 86_400 })).toMatchObject({ timeout_seconds: 600 })
  })

  it.each([['active'], ['commit'], ['rollback']])('an existing id is refused: %s', async (state) => {
    const gateway = new SagaGateway()
    await gateway.begin('t')
    if (state !== 'active') await gateway.ask(state, t)
    expect(await gateway.begin('t')).toMatchObject({ thrown: { code: 'TRANSACTION_CONFLICT' } })
    expect(await gateway.begin('t', {}, eve)).toMatchObject({ status: 'begun' })
  })

  it.each([
    [{ transaction_id: undefined }, 'transaction_id'],
    [{ timeout_seconds: 0 }, 'timeout_seconds'],
    [{ timeout_seconds: 1.5 }, 'timeout_seconds'],
    [{ timeout_seconds: '60' }, 'timeout_seconds'],
    [{ description: 7 }, 'description'],
  ])('the request %j is refused', async (params, field) => {
    const answer = await new SagaGateway().begin('t', params)
    expect(answer).toMatchObject({ thrown: { code: 'INVALID_INPUT', field } })
  })

  it('the number of open transactions per caller is limited', async () => {
    const gateway = new SagaGateway({ settings: { max_active: 2 } })
    await gateway.begin('t')
    await gateway.begin('u')
    expect(await gateway.begin('v')).toMatchObject({ thrown: { code: 'QUOTA_EXHAUSTED' } })
    expect(await gateway.begin('v', {}, eve)).toMatchObject({ status: 'begun' })
    await gateway.ask('commit', t)
    expect(await gateway.begin('v')).toMatchObject({ status: 'begun' })
  })

  it('the limit applies to concurrent begins', async () => {
    const gateway = new SagaGateway({ settings: { max_active: 2 } })
    const ids = Array.from({ length: 20 }, (_each, index) => `t${index}`)
    const answers = await Promise.all(ids.map((id) => gateway.begin(id)))
    expect(answers.filter(({ status }) => status === 'begun')).toHaveLength(2)
    await gateway.ask('commit', { transaction_id: 't0' })
    // A refused one does not count.
    expect(await gateway.begin('t0')).toMatchObject({ thrown: { code: 'TRANSACTION_CONFLICT' } })
    expect(await gateway.begin('again')).toMatchObject({ status: 'begun' })
  })

  it('begin is refused if idempotency is off', async () => {
    const gateway = new SagaGateway({ deps: { isOn: (name) => name !== 'idempotency' } })
    expect(await gateway.begin('t')).toMatchObject({ thrown: { code: 'UNSUPPORTED_OPERATION' } })
  })
})

describe('the end of a transaction', () => {
  it('the recorded steps expire with the transaction', async () => {
    vi.useFakeTimers({ now: 0 })
    const gateway = new SagaGateway({ settings: { retention: '1h' } })
    await gateway.begin('t')
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    await gateway.ask('commit', t)
    await vi.advanceTimersByTimeAsync(3_599_000)
    expect((await gateway.store.scan('deed')).size).toBe(1)
    await vi.advanceTimersByTimeAsync(2000)
    expect((await gateway.store.scan('deed')).size).toBe(0)
  })

  it.each([['commit'], ['rollback']])(
    '%s of an unknown transaction or one of another caller is not found',
    async (end) => {
      const gateway = new SagaGateway()
      await gateway.begin('t')
      expect(await gateway.ask(end, t, eve)).toMatchObject({ thrown: { code: 'RESOURCE_NOT_FOUND' } })
      expect(await gateway.ask(end, { transaction_id: 'u' })).toMatchObject({
        thrown: { code: 'RESOURCE_NOT_FOUND' },
      })
    },
  )

  it.each([['commit'], ['rollback']])('a repeated %s is replayed', async (end) => {
    const gateway = new SagaGateway()
    await gateway.begin('t')
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    const first = await gateway.ask(end, t)
    expect(first).not.toHaveProperty('was_replay')
    expect(await gateway.ask(end, t)).toEqual({ ...first, was_replay: true })
  })

  it('commit after rollback and rollback after commit are refused', async () => {
    const gateway = new SagaGateway()
    await gateway.begin('t')
    await gateway.ask('rollback', t)
    expect(await gateway.ask('commit', t)).toMatchObject({ thrown: { code: 'TRANSACTION_CONFLICT' } })
    await gateway.begin('u')
    await gateway.ask('commit', { transaction_id: 'u' })
    expect(await gateway.ask('rollback', { transaction_id: 'u' })).toMatchObject({
      thrown: { code: 'TRANSACTION_CONFLICT' },
    })
  })

  it('concurrent rollbacks share one result', async () => {
    const one = new Place()
    const store = new MemoryStore()
    const places = { one }
    const [first, second] = [new SagaGateway({ store, places }), new SagaGateway({ store, places })]
    await first.begin('t')
    await first.step('t', 'put', { key: 'a', value: '1' })
    const all = await Promise.all([first, second, first, second].map((each) => each.ask('rollback', t)))
    for (const each of all) expect(each).toMatchObject({ status: 'rolled_back' })
    expect(one.calls).toEqual(['put a', 'remove a'])
  })
})

describe('compensation of a step', () => {
  it('a compensation that fails temporarily is tried three times', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const away = (): Error => new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })
    one.faults.set('remove a', [away, away])
    const gateway = new SagaGateway({ places: { one } })
    await gateway.begin('t')
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    const rollback = gateway.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(5000)
    expect(await rollback).toMatchObject({ status: 'rolled_back' })
  })

  it('a compensation that fails permanently is reported and does not stop the others', async () => {
    const one = new Place()
    const errors: unknown[] = []
    const log = { ...silentLog, error: (...line: unknown[]) => void errors.push(line) }
    const gateway = new SagaGateway({ places: { one }, deps: { log } })
    await gateway.begin('t')
    for (const key of ['a', 'b', 'c']) await gateway.step('t', 'put', { key, value: '1' })
    one.things.delete('b')
    expect(await gateway.ask('rollback', t)).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      steps_compensated: [
        { step_id: 'step-3', status: 'compensated' },
        { step_id: 'step-2', status: 'compensation_failed', error: { code: expect.any(String) } },
        { step_id: 'step-1', status: 'compensated' },
      ],
    })
    expect(one.things.size).toBe(0)
    expect(errors).toEqual([
      [
        'transaction.needs_attention',
        { transaction: 't', principal: 'anonymous', steps: ['step-2: UPSTREAM_ERROR'] },
      ],
    ])
    await gateway.begin('u')
    expect(await gateway.ask('status', {})).toMatchObject({
      transactions: [{ transaction_id: 't', needs_attention: true }, { transaction_id: 'u' }],
    })
    expect(await gateway.ask('status', {}, eve)).toEqual({ transactions: [] })
  })

  it('a compensation that requires confirmation waits for it', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const ask = (): Error => new GatewayError('CONFIRMATION_REQUIRED', 'ask somebody')
    one.faults.set('remove a', [ask, ask])
    const gateway = new SagaGateway({ places: { one } })
    await gateway.begin('t')
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    const rollback = gateway.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(100)
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'rolling_back', steps_compensated: [] })
    await vi.advanceTimersByTimeAsync(5000)
    expect(await rollback).toMatchObject({ status: 'rolled_back' })
  })

  it('a compensation that cannot be confirmed fails and needs attention', async () => {
    const one = new Place()
    const refuse = (): Error =>
      new GatewayError('CONFIRMATION_REQUIRED', 'nobody is there', { reason: 'nobody_to_ask' })
    one.faults.set('remove a', [refuse])
    const gateway = new SagaGateway({ places: { one } })
    await gateway.begin('t')
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    expect(await gateway.ask('rollback', t)).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      steps_compensated: [{ status: 'compensation_failed', error: { code: 'CONFIRMATION_REQUIRED' } }],
    })
  })

  it('a compensation that fails because the gateway closes is left to the next gateway', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const store = new MemoryStore(() => Date.now())
    const closing = new AbortController()
    const first = new SagaGateway({ store, places: { one }, deps: { closing: closing.signal } })
    await first.begin('t')
    await first.step('t', 'put', { key: 'a', value: '1' })
    one.faults.set(
      'remove a',
      Array.from(
        { length: 3 },
        () => () => new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true }),
      ),
    )
    void first.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(100)
    closing.abort()
    await vi.advanceTimersByTimeAsync(900)
    expect(await first.ask('status', t)).toMatchObject({ status: 'rolling_back', steps_compensated: [] })
    await first.die()
    const second = new SagaGateway({ store, places: { one } })
    await second.start()
    await vi.advanceTimersByTimeAsync(100)
    expect(await second.ask('status', t)).toMatchObject({ status: 'rolled_back' })
    await second.die()
  })

  it('the idempotency key of a compensation is derived from transaction and step', async () => {
    const keys: unknown[] = []
    const gateway = new SagaGateway({
      seen: ({ internal, meta: { 'dev.gatehouse/idempotency_key': key } }) => {
        if (internal && key !== undefined) keys.push(key)
      },
    })
    for (const id of ['t', 'ünusual']) {
      await gateway.begin(id)
      await gateway.step(id, 'put', { key: id, value: '1' })
      await gateway.ask('rollback', { transaction_id: id })
    }
    expect(keys).toEqual(['compensate-t-step-1', expect.stringMatching(/^compensate-[0-9a-f]{64}$/)])
  })
})

describe('transaction timeouts', () => {
  it('an idle transaction is rolled back', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const gateway = new SagaGateway({ places: { one } })
    await gateway.start()
    await gateway.begin('t', { timeout_seconds: 10 })
    await vi.advanceTimersByTimeAsync(8000)
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    await vi.advanceTimersByTimeAsync(8000)
    expect(one.things.size).toBe(1)
    await vi.advanceTimersByTimeAsync(5000)
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'rolled_back', reason: 'timeout' })
    expect(one.things.size).toBe(0)
    await gateway.die()
  })

  it('a closed gateway does not roll back transactions', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const gateway = new SagaGateway({ places: { one } })
    await gateway.start()
    await gateway.begin('t', { timeout_seconds: 10 })
    await gateway.step('t', 'put', { key: 'a', value: '1' })
    await gateway.die()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(one.things.size).toBe(1)
  })

  it('a running step keeps a transaction from being idle, but not beyond its lifetime', async () => {
    vi.useFakeTimers()
    const one = new Place()
    let finish = (): void => undefined
    const gateway = new SagaGateway({
      places: { one },
      settings: { max_lifetime: '1m' },
      next: async (call, run) => {
        if (stepSlot.of(call)) await new Promise<void>((resolve) => (finish = resolve))
        return run(call)
      },
    })
    await gateway.start()
    await gateway.begin('t', { timeout_seconds: 10 })
    const step = gateway.step('t', 'put', { key: 'a', value: '1' })
    await vi.advanceTimersByTimeAsync(30_000)
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'active' })
    await vi.advanceTimersByTimeAsync(40_000)
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'rolling_back', reason: 'timeout' })
    finish()
    await step
    await vi.advanceTimersByTimeAsync(2000)
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'rolled_back' })
    expect(one.things.size).toBe(0)
    await gateway.die()
  })

  it('another gateway takes over the transactions of a crashed one', async () => {
    vi.useFakeTimers()
    const one = new Place()
    const store = new MemoryStore(() => Date.now())
    const first = new SagaGateway({ store, places: { one } })
    const second = new SagaGateway({ store, places: { one } })
    await Promise.all([first.start(), second.start()])
    await first.begin('t', { timeout_seconds: 10 })
    await first.step('t', 'put', { key: 'a', value: '1' })
    await first.die()
    await vi.advanceTimersByTimeAsync(15_000)
    expect(await second.ask('status', t)).toMatchObject({ status: 'rolled_back', reason: 'timeout' })
    expect(one.things.size).toBe(0)
    await second.die()
  })

  it('one gateway reads the transactions of all every two seconds, whichever is there', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore(() => Date.now())
    const scan = vi.spyOn(store, 'scan')
    const reads = async (): Promise<number> => {
      scan.mockClear()
      await vi.advanceTimersByTimeAsync(20_000)
      return scan.mock.calls.flat().filter((name) => name === 'transaction').length
    }
    const gateways = Array.from({ length: 3 }, () => new SagaGateway({ store, places: {} }))
    for (const each of gateways) {
      await each.start()
      await vi.advanceTimersByTimeAsync(300)
    }
    expect(await reads()).toBe(10)
    const [last, ...others] = gateways
    await Promise.all(others.map((each) => each.die()))
    expect(await reads()).toBe(10)
    await last?.die()
  })

  it('ended transactions are retained for a time, and those needing attention until acknowledged', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore(() => Date.now())
    const gateway = new SagaGateway({ store, settings: { uncompensable: 'allow', retention: '1h' } })
    await gateway.begin('t')
    await gateway.ask('commit', t)
    await gateway.begin('u')
    await gateway.step('u', 'mail', { to: 'bob' })
    await gateway.ask('rollback', { transaction_id: 'u' })
    await vi.advanceTimersByTimeAsync(3_700_000)
    expect(await gateway.ask('status', t)).toMatchObject({ thrown: { code: 'RESOURCE_NOT_FOUND' } })
    expect(await gateway.ask('status', { transaction_id: 'u' })).toMatchObject({ needs_attention: true })
  })
})
