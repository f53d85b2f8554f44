import { describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { createMembership } from '../../../../src/durable/members.ts'
import { stepEnded } from '../../../../src/records/transitions.ts'
import { transactionKey, Transactions } from '../../../../src/records/transactions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { begun, codeOf, Place, put, SagaGateway } from '../../../support/saga-world.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

/** Sends a request to one gateway while another closes and records the end of its step at the last moment. */
async function whileAnotherEnds(asked: (gateway: SagaGateway) => Promise<Json>): Promise<Json> {
  const store = new MemoryStore()
  const one = new Place()
  const next = async (call: Call, run: Handler): Promise<Outcome> => {
    await run(call)
    return new Promise(() => undefined)
  }
  const first = new SagaGateway({ store, places: { one }, next })
  await first.begin('t')
  void first.step('t', ...put('a'))
  await vi.waitFor(() => expect(one.calls).toEqual(['put a']), 10_000)
  const end = stepEnded('step-1', { status: 'ok' }, Date.now())
  const isAlive = async (): Promise<boolean> => {
    await new Transactions(store, 60_000).change(transactionKey(anonymous.id, 't'), end)
    return false
  }
  const membership = { ...createMembership(() => store), isAlive }
  return asked(new SagaGateway({ store, places: { one }, deps: { membership } }))
}

describe('a gateway that closes just after its step', () => {
  it('a closing gateway does not block a rollback elsewhere', async () => {
    const rolled = await whileAnotherEnds((gateway) => gateway.ask('rollback', { transaction_id: 't' }))
    expect(rolled).toMatchObject({ steps_compensated: [{ step_id: 'step-1', status: 'compensated' }] })
  })

  it('a closing gateway does not block the next step elsewhere', async () => {
    const step = await whileAnotherEnds((gateway) => gateway.step('t', ...put('b')))
    expect(step).toMatchObject({ _meta: { step_id: 'step-2' } })
  })
})

describe('the order of steps', () => {
  it('a step waits for the step before it', async () => {
    const order: string[] = []
    let finish = (): void => undefined
    const gateway = await begun({
      next: async (call, run) => {
        const { key } = call.params.fields['arguments'] as { key: string }
        order.push(`begin ${key}`)
        if (key === 'a') await new Promise<void>((resolve) => (finish = resolve))
        order.push(`end ${key}`)
        return run(call)
      },
    })
    const both = [gateway.step('t', ...put('a')), gateway.step('t', ...put('b'))]
    await vi.waitFor(() => expect(order).toEqual(['begin a']), 10_000)
    finish()
    expect(await Promise.all(both)).toMatchObject([
      { _meta: { step_id: 'step-1' } },
      { _meta: { step_id: 'step-2' } },
    ])
    expect(order).toEqual(['begin a', 'end a', 'begin b', 'end b'])
  })

  it('a step waits for a step that runs at another gateway', async () => {
    const store = new MemoryStore()
    let finish = (): void => undefined
    const gate = new Promise<void>((resolve) => (finish = resolve))
    const one = new Place()
    const first = new SagaGateway({ store, places: { one }, next: (call, run) => gate.then(() => run(call)) })
    const second = new SagaGateway({ store, places: { one } })
    await first.begin('t')
    const slow = first.step('t', ...put('a'))
    await vi.waitFor(async () => {
      expect(await second.ask('status', { transaction_id: 't' })).toMatchObject({
        steps: [{ status: 'pending' }],
      })
    }, 10_000)
    const after = second.step('t', ...put('b'))
    finish()
    await Promise.all([slow, after])
    expect(one.calls).toEqual(['put a', 'put b'])
  })

  it.each([undefined, 'mine'])(
    'a step waits for a concurrent step of another gateway, whether step ids are given or not: %s',
    async (name) => {
      const store = new MemoryStore()
      const one = new Place()
      const gateways = ['a', 'b', 'c'].map(() => new SagaGateway({ store, places: { one } }))
      await gateways[0]?.begin('t')
      const steps = await Promise.all(
        gateways.map((gateway, index) =>
          gateway.step('t', ...put(String(index)), name === undefined ? {} : { id: `${name}-${index}` }),
        ),
      )
      expect(steps.map(codeOf)).toEqual([undefined, undefined, undefined])
      expect(one.calls).toHaveLength(3)
    },
  )

  it('a step waits no longer than its caller', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one }, next: () => new Promise(() => undefined) })
    void gateway.step('t', ...put('a'))
    const controller = new AbortController()
    const waiting = gateway.step('t', ...put('b'), { call: { signal: controller.signal } })
    controller.abort(new GatewayError('OPERATION_TIMEOUT', 'too late'))
    expect(codeOf(await waiting)).toBe('OPERATION_TIMEOUT')
  })

  it('a step continues if the gateway of the step before it has crashed', async () => {
    const store = new MemoryStore()
    const one = new Place()
    const first = new SagaGateway({ store, places: { one }, next: () => new Promise(() => undefined) })
    await first.begin('t')
    void first.step('t', ...put('a'))
    await vi.waitFor(async () => expect((await store.scan('deed')).size).toBe(1), 10_000)
    await first.die()
    const second = new SagaGateway({ store, places: { one } })
    expect(await second.step('t', ...put('b'))).toMatchObject({ _meta: { step_id: 'step-2' } })
    expect(await second.ask('status', { transaction_id: 't' })).toMatchObject({
      steps: [{ status: 'failed', error: { code: 'OUTCOME_UNKNOWN' } }, { status: 'ok' }],
    })
  })
})

describe('a step that requires input', () => {
  const ask = (isOpen: boolean): Outcome => {
    return {
      kind: 'input_required',
      inputRequests: {},
      requestState: { other: 1 },
      ...(isOpen && { isOpen: true as const }),
    }
  }

  async function askedFirst(isOpen: boolean) {
    const one = new Place()
    const gateway = await begun({
      places: { one },
      next: async (call, run) => (call.inputResponses || call.internal ? run(call) : ask(isOpen)),
    })
    const meta = { transaction_id: 't', step_id: 's' }
    const params = Payload.of({ name: 'put', arguments: { key: 'a', value: '1' }, _meta: meta })
    const target = { method: 'tools/call', upstream: 'one', name: 'put' }
    const asked = await gateway.handle(toolCall({ params, meta, target }))
    const state = asked.kind === 'input_required' ? asked.requestState : {}
    return {
      gateway,
      one,
      state,
      again: () =>
        gateway.step('t', ...put('a'), { id: 's', call: { inputResponses: {}, requestState: state } }),
    }
  }

  it('a step that requires input before it is sent is recorded only when it is retried', async () => {
    const { gateway, one, again } = await askedFirst(false)
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({ steps: [] })
    expect(await again()).toMatchObject({ _meta: { step_id: 's' } })
    expect(one.calls).toEqual(['put a'])
  })

  it('a step whose server requests input remains pending, and other steps wait for it', async () => {
    const { gateway, again } = await askedFirst(true)
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({
      steps: [{ status: 'pending' }],
    })
    expect(codeOf(await gateway.step('t', ...put('b')))).toBe('TRANSACTION_CONFLICT')
    expect(await gateway.ask('commit', { transaction_id: 't' })).toMatchObject({
      thrown: { code: 'TRANSACTION_CONFLICT' },
    })
    expect(await again()).toMatchObject({ _meta: { step_id: 's' } })
    expect(await gateway.ask('commit', { transaction_id: 't' })).toMatchObject({ steps_completed: 1 })
  })

  it('a step answered after the rollback does not run', async () => {
    const { gateway, one, again } = await askedFirst(true)
    await gateway.ask('rollback', { transaction_id: 't' })
    expect(codeOf(await again())).toBe('TRANSACTION_CONFLICT')
    expect(one.things.size).toBe(0)
  })

  it.each([
    ['an error', 'CONFIRMATION_REQUIRED', () => raise(new GatewayError('CONFIRMATION_REQUIRED', 'ask'))],
    ['a failed result', undefined, (): Outcome => ({ kind: 'result', result: page })],
  ])(
    'a step that requires confirmation by %s is recorded only when it is retried',
    async (_what, code, asking) => {
      let isApproved = false
      const one = new Place()
      const gateway = await begun({
        places: { one },
        above: (next) => async (call) => (isApproved ? next(call) : asking()),
      })
      expect(codeOf(await gateway.step('t', ...put('a'), { id: 's' }))).toBe(code)
      expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({ steps: [] })
      isApproved = true
      expect(await gateway.step('t', ...put('a'), { id: 's' })).toMatchObject({ _meta: { step_id: 's' } })
    },
  )
})

/** The result for a client without elicitation. */
const page = Payload.of({
  content: [{ type: 'text', text: 'Approve it on a page.' }],
  isError: true,
  _meta: { 'dev.gatehouse/confirmation': { approval: 'x' } },
})

function raise(error: Error): never {
  throw error
}
