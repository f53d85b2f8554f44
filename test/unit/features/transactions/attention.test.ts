// Remaining compensations are reported, and retried until they succeed or an operator acknowledges them.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { acknowledged } from '../../../../src/records/transitions.ts'
import { Transactions, transactionKey, stepSlot } from '../../../../src/records/transactions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { begun, Place, put, SagaGateway } from '../../../support/saga-world.ts'

afterEach(() => void vi.useRealTimers())

const t = { transaction_id: 't' }
/** An error, or an answer that says so. */
type Failure = Error | Readonly<Record<string, unknown>>

const away = (): GatewayError => new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })

/** A server whose removals fail while it is unavailable. */
class Away extends Place {
  isAway = false
  tries = 0

  override run(tool: string, args: Readonly<Record<string, unknown>>): Record<string, unknown> {
    if (tool !== 'remove' || !this.isAway) return { ...super.run(tool, args) }
    this.tries++
    throw away()
  }
}

/** A transaction whose single step could not be undone because its server was unavailable. */
async function leftOver(store = new MemoryStore()) {
  const one = new Away()
  const gateway = await begun({ places: { one }, store })
  await gateway.start()
  await gateway.step('t', ...put('a'))
  one.isAway = true
  const asked = gateway.ask('rollback', t)
  await vi.advanceTimersByTimeAsync(2000)
  return { one, gateway, store, answer: await asked }
}

describe('commit with steps in doubt', () => {
  async function committed(error: GatewayError) {
    const one = new Place()
    const gateway = await begun({
      places: { one },
      next: async (call, run) => {
        const outcome = await run(call)
        if (stepSlot.of(call)) throw error
        return outcome
      },
    })
    await gateway.step('t', ...put('a'))
    return { gateway, answer: await gateway.ask('commit', t) }
  }

  it('the response lists the steps with an unknown outcome and requires attention', async () => {
    const { gateway, answer } = await committed(new GatewayError('OPERATION_TIMEOUT', 'too late'))
    const left = {
      steps_completed: 0,
      steps_in_doubt: [
        {
          step_id: 'step-1',
          server_id: 'one',
          tool: 'put',
          status: 'failed',
          error: { code: 'OUTCOME_UNKNOWN', details: { reason: 'OPERATION_TIMEOUT' } },
        },
      ],
      needs_attention: true,
    }
    expect(answer).toMatchObject({ status: 'committed', ...left })
    expect(answer['message']).toMatch(/One step may have taken effect/)
    expect(await gateway.ask('commit', t)).toMatchObject({ ...left, was_replay: true })
    expect(await gateway.ask('status', t)).toMatchObject({ status: 'committed', needs_attention: true })
    expect(await gateway.ask('status', {})).toMatchObject({ transactions: [{ needs_attention: true }] })
  })

  it('the transaction is retained until an operator acknowledges it', async () => {
    vi.useFakeTimers({ now: 0 })
    const { gateway } = await committed(new GatewayError('OPERATION_TIMEOUT', 'too late'))
    await vi.advanceTimersByTimeAsync(48 * 3_600_000)
    expect(await gateway.ask('status', t)).toMatchObject({ needs_attention: true })
    const repository = new Transactions(gateway.store, 3_600_000)
    await repository.change(transactionKey('anonymous', 't'), acknowledged('me', Date.now()))
    expect(await gateway.ask('status', t)).toMatchObject({ needs_attention: false })
    await vi.advanceTimersByTimeAsync(3_601_000)
    expect(await gateway.ask('status', t)).toMatchObject({ thrown: { code: 'RESOURCE_NOT_FOUND' } })
  })

  it.each([
    ['that was never sent', away()],
    ['that the server refused', new GatewayError('UPSTREAM_ERROR', 'no', { details: { http_status: 403 } })],
  ])('a step %s is not listed', async (_what, error) => {
    const { answer } = await committed(error)
    expect(answer).toEqual({ status: 'committed', transaction_id: 't', steps_completed: 0 })
  })
})

describe('a compensation that failed because its server was unavailable', () => {
  it('the compensation is retried with backoff until it succeeds', async () => {
    vi.useFakeTimers({ now: 0 })
    const { one, gateway, answer } = await leftOver()
    expect(answer).toMatchObject({ status: 'partially_rolled_back', needs_attention: true })
    expect(answer['next_retry_at']).toBeDefined()
    const first = one.tries
    await vi.advanceTimersByTimeAsync(60_000)
    const within = one.tries - first
    expect(within).toBeGreaterThan(3)
    expect(await gateway.ask('status', t)).toMatchObject({ needs_attention: true })
    await vi.advanceTimersByTimeAsync(600_000)
    // Once a minute, with the attempts of a rollback each time.
    expect(one.tries - first - within).toBeLessThanOrEqual(3 * 11)
    one.isAway = false
    await vi.advanceTimersByTimeAsync(70_000)
    expect(one.things.size).toBe(0)
    expect(await gateway.ask('status', t)).toMatchObject({
      status: 'rolled_back',
      needs_attention: false,
      steps_compensated: [{ step_id: 'step-1', status: 'compensated' }],
    })
    expect(await gateway.ask('rollback', t)).toMatchObject({ status: 'rolled_back', was_replay: true })
    await gateway.die()
  })

  it('the compensation is retried by another gateway after the first has ended', async () => {
    vi.useFakeTimers({ now: 0 })
    const store = new MemoryStore()
    const { one, gateway } = await leftOver(store)
    await gateway.die()
    const other = new SagaGateway({ store, places: { one } })
    await other.start()
    one.isAway = false
    await vi.advanceTimersByTimeAsync(120_000)
    expect(one.things.size).toBe(0)
    expect(one.calls.filter((each) => each === 'remove a')).toHaveLength(1)
    expect(await other.ask('status', t)).toMatchObject({ status: 'rolled_back' })
    await other.die()
  })

  it('the compensation is not retried once acknowledged', async () => {
    vi.useFakeTimers({ now: 0 })
    const { one, gateway } = await leftOver()
    const repository = new Transactions(gateway.store, 3_600_000)
    await repository.change(transactionKey('anonymous', 't'), acknowledged('me', Date.now()))
    await vi.advanceTimersByTimeAsync(5000)
    const before = one.tries
    await vi.advanceTimersByTimeAsync(600_000)
    expect(one.tries).toBe(before)
    expect(await gateway.ask('status', t)).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: false,
    })
    await gateway.die()
  })

  it('the retries end eventually, and the transaction still needs attention', async () => {
    vi.useFakeTimers({ now: 0 })
    const { one, gateway } = await leftOver()
    await vi.advanceTimersByTimeAsync(18 * 3_600_000)
    const before = one.tries
    expect(before).toBeGreaterThan(1000)
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(one.tries).toBe(before)
    const status = await gateway.ask('status', t)
    expect(status).toMatchObject({ status: 'partially_rolled_back', needs_attention: true })
    expect(status).not.toHaveProperty('next_retry_at')
    await gateway.die()
  }, 120_000)
})

describe('a compensation that fails for a moment', () => {
  /** A transaction of four steps, the rollback of which finds removals of the third one failing. */
  async function rolledBack(failures: number, error: () => Failure = away) {
    vi.useFakeTimers({ now: 0 })
    const one = new Place()
    const gateway = await begun({ places: { one } })
    await gateway.start()
    for (const key of ['s0', 's1', 's2', 's3']) await gateway.step('t', ...put(key))
    one.calls.length = 0
    one.faults.set(
      'remove s2',
      Array.from({ length: failures }, () => error),
    )
    const asked = gateway.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(30_000)
    return { one, gateway, answer: await asked }
  }

  const inOrder = ['remove s3', 'remove s2', 'remove s1', 'remove s0']
  const limited = (seconds: number) => (): GatewayError =>
    new GatewayError('RATE_LIMIT_EXCEEDED', 'slow down', { retryAfterSeconds: seconds })

  it.each([
    [1, away],
    [3, away],
    [5, away],
    [2, limited(2)],
  ])('%i times is undone in its turn', async (failures, error) => {
    const { one, gateway, answer } = await rolledBack(failures, error)
    expect(one.calls).toEqual(inOrder)
    expect(answer).toMatchObject({ status: 'rolled_back' })
    expect(JSON.stringify(answer)).not.toContain('out_of_order')
    await gateway.die()
  })

  it('and for longer does not keep the rest, which the answer and the status say', async () => {
    const { one, gateway, answer } = await rolledBack(9)
    expect(answer).toMatchObject({
      status: 'partially_rolled_back',
      steps_compensated: [
        { step_id: 'step-4', status: 'compensated' },
        { step_id: 'step-3', status: 'compensation_failed', error: { details: { attempts: 6 } } },
        { step_id: 'step-2', status: 'compensated' },
        { step_id: 'step-1', status: 'compensated' },
      ],
      message: expect.stringContaining('Not undone in its turn, although it was tried again: step-3.'),
      next_retry_at: expect.any(String),
    })
    await vi.advanceTimersByTimeAsync(60_000)
    expect(one.calls).toEqual(['remove s3', 'remove s1', 'remove s0', 'remove s2'])
    const status = await gateway.ask('status', t)
    expect(status).toMatchObject({
      status: 'rolled_back',
      steps_compensated: expect.arrayContaining([
        { step_id: 'step-3', status: 'compensated', state: 'unknown', out_of_order: true },
        { step_id: 'step-2', status: 'compensated', state: 'unknown' },
      ]),
    })
    expect(status).not.toHaveProperty('message')
    await gateway.die()
  })

  const saying = (code: string) => (): Failure => ({
    content: [{ type: 'text', text: 'not now' }],
    isError: true,
    _meta: { 'dev.gatehouse/error': { code, category: 'transient', message: 'not now' } },
  })

  it('and is answered reaches the server again', async () => {
    const { one, gateway, answer } = await rolledBack(3, saying('SERVER_UNAVAILABLE'))
    const again = Array.from({ length: 3 }, () => 'remove s2')
    expect(one.calls).toEqual(['remove s3', ...again, 'remove s2', 'remove s1', 'remove s0'])
    expect(answer).toMatchObject({ status: 'rolled_back' })
    await gateway.die()
  })

  it('is not repeated if it may have taken effect, nor later', async () => {
    const { one, gateway, answer } = await rolledBack(1, saying('OPERATION_TIMEOUT'))
    expect(one.calls).toEqual(inOrder)
    expect(answer).toMatchObject({ status: 'partially_rolled_back', needs_attention: true })
    expect(answer).not.toHaveProperty('next_retry_at')
    await gateway.die()
  })

  it('is not waited for if its server asks for a long time', async () => {
    const { one, gateway } = await rolledBack(1, limited(3600))
    expect(one.calls).toEqual(['remove s3', 'remove s1', 'remove s0', 'remove s2'])
    await gateway.die()
  })
})

describe('a step that cannot be undone', () => {
  it('a step that cannot be undone is not retried', async () => {
    vi.useFakeTimers({ now: 0 })
    const one = new Place()
    const gateway = await begun({ places: { one }, settings: { uncompensable: 'allow' } })
    await gateway.start()
    await gateway.step('t', 'mail', { to: 'bob' })
    await gateway.step('t', ...put('a'))
    one.things.delete('a')
    const answer = await gateway.ask('rollback', t)
    expect(answer).toMatchObject({ status: 'partially_rolled_back', needs_attention: true })
    expect(answer).not.toHaveProperty('next_retry_at')
    const before = one.calls.length
    await vi.advanceTimersByTimeAsync(600_000)
    expect(one.calls).toHaveLength(before)
    await gateway.die()
  })

  it('a step that cannot be undone stays so while other compensations are retried', async () => {
    vi.useFakeTimers({ now: 0 })
    const one = new Away()
    const gateway = await begun({ places: { one }, settings: { uncompensable: 'allow' } })
    await gateway.start()
    await gateway.step('t', 'mail', { to: 'bob' })
    await gateway.step('t', ...put('a'))
    one.isAway = true
    const asked = gateway.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(2000)
    await asked
    one.isAway = false
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await gateway.ask('status', t)).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      steps_compensated: [
        { step_id: 'step-1', status: 'compensation_failed', error: { reason: 'no_compensation' } },
        { step_id: 'step-2', status: 'compensated' },
      ],
    })
    await gateway.die()
  })
})
