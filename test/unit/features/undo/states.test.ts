import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Actions } from '../../../../src/records/actions.ts'
import { begun, Place, type SagaGateway } from '../../../support/saga-world.ts'

const t = { transaction_id: 't' }

afterEach(() => vi.useRealTimers())

/** Changes a thing in a transaction, and waits until what that left is recorded. */
async function changed(gateway: SagaGateway, value = 'mine'): Promise<void> {
  await gateway.step('t', 'change', { key: 'a', value })
  const actions = new Actions(gateway.store)
  await expect.poll(async () => (await actions.list())[0]?.states?.left).toBeDefined()
}

function placed(): Place {
  const one = new Place()
  one.things.set('a', 'old')
  return one
}

describe('the state that a call left', () => {
  test('is read after its answer, and recorded', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await gateway.step('t', 'change', { key: 'a', value: 'mine' })
    expect(one.calls).toEqual(['get a', 'change a'])
    await expect.poll(() => one.calls).toEqual(['get a', 'change a', 'get a'])
    await changed(gateway)
    const [action] = await new Actions(gateway.store).list()
    expect(action?.states).toMatchObject({
      tool: 'get',
      arguments: { key: 'a' },
      parts: [['value']],
      left: { text: '{"value":"mine"}' },
    })
  })

  test('is read before the next call there is made, whose own effect it would show otherwise', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await gateway.step('t', 'change', { key: 'a', value: 'first' })
    await gateway.step('t', 'change', { key: 'a', value: 'second' })
    expect(await gateway.ask('rollback', t)).toMatchObject({
      status: 'rolled_back',
      steps_compensated: [{ state: 'old' }, { state: 'old' }],
    })
    expect(one.things.get('a')).toBe('old')
  })

  test('is kept as a hash alone if its text is too long', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await changed(gateway, 'x'.repeat(70_000))
    const [action] = await new Actions(gateway.store).list()
    expect(action?.states?.left).toEqual({ hash: expect.any(String) })
    one.things.set('a', 'theirs')
    expect(await gateway.ask('rollback', t)).toMatchObject({
      steps_compensated: [{ error: { details: { difference: [expect.stringContaining('64 KB')] } } }],
    })
  })
})

describe('an undo', () => {
  test('is refused while the state is another one, and changes nothing', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await changed(gateway)
    one.things.set('a', 'theirs')
    expect(await gateway.ask('rollback', t)).toMatchObject({
      status: 'partially_rolled_back',
      steps_compensated: [
        { error: { code: 'CONFLICT', details: { difference: ['value:', '- mine', '+ theirs'] } } },
      ],
    })
    expect(one.things.get('a')).toBe('theirs')
    // An answer of before is not repeated under the key of the compensation.
    expect(await gateway.ask('rollback', { ...t, force: true })).toMatchObject({
      status: 'rolled_back',
      steps_compensated: [{ state: 'old' }],
    })
    expect(one.things.get('a')).toBe('old')
  })

  test('is made if somebody else already brought the old state back', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await changed(gateway)
    one.things.set('a', 'old')
    expect(await gateway.ask('rollback', t)).toMatchObject({ status: 'rolled_back' })
  })

  test('says if the state is not the old one afterwards', async () => {
    const one = placed()
    const gateway = await begun({
      places: { one },
      next: async (call, run) => {
        const outcome = await run(call)
        if (call.internal === 'compensate') one.things.set('a', 'something else')
        return outcome
      },
    })
    await changed(gateway)
    expect(await gateway.ask('rollback', t)).toMatchObject({ steps_compensated: [{ state: 'other' }] })
  })

  test('of a record without the state that the call left cannot tell, and is made', async () => {
    const one = placed()
    const gateway = await begun({ places: { one } })
    await changed(gateway)
    const actions = new Actions(gateway.store)
    const [action] = await actions.list()
    if (!action) throw new Error('no action')
    const { states: _states, ...old } = action
    await actions.put(old, 60_000)
    one.things.set('a', 'theirs')
    expect(await gateway.ask('rollback', t)).toMatchObject({
      status: 'rolled_back',
      steps_compensated: [{ status: 'compensated', state: 'unknown' }],
    })
    expect(one.things.get('a')).toBe('old')
  })

  test('overwrites nothing if the server never answers the read, and is tried again later', async () => {
    const one = placed()
    let isSilent = false
    const gateway = await begun({
      places: { one },
      next: (call, run) => (isSilent && call.internal === 'read' ? new Promise(() => undefined) : run(call)),
    })
    await changed(gateway)
    isSilent = true
    vi.useFakeTimers()
    const answer = gateway.ask('rollback', t)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await answer).toMatchObject({
      status: 'partially_rolled_back',
      next_retry_at: expect.any(String),
      steps_compensated: [
        {
          error: {
            code: 'SERVER_UNAVAILABLE',
            message: expect.stringContaining('did not answer within 10 s'),
          },
        },
      ],
    })
    expect(one.things.get('a')).toBe('mine')
  })

  test('distinguishes numbers of more than 15 digits', async () => {
    const one = placed()
    let id = '9007199254740993'
    const gateway = await begun({
      places: { one },
      next: async (call, run) => (isGet(call) ? said(`{"value":${id}}`) : run(call)),
    })
    await changed(gateway)
    const [action] = await new Actions(gateway.store).list()
    expect(action?.states?.left).toMatchObject({ text: '{"value":9007199254740993}' })
    id = '9007199254740992'
    expect(await gateway.ask('rollback', t)).toMatchObject({
      steps_compensated: [
        { error: { details: { difference: ['value:', '- 9007199254740993', '+ 9007199254740992'] } } },
      ],
    })
  })
})

function isGet({ target }: Call): boolean {
  return target.name === 'get'
}

function said(text: string) {
  return { kind: 'result', result: Payload.of({ structuredContent: parseJson(text) }) } as const
}
