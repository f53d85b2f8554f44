import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Action, Actions, encodeAction, newActionKey } from '../../../src/records/actions.ts'
import type { Store } from '../../../src/store/store.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const HOUR = 3_600_000

function deed(given: Partial<Action> = {}): Action {
  const startedAt = given.startedAt ?? 1000
  return {
    key: newActionKey(startedAt),
    startedAt,
    principal: { id: 'me' },
    upstream: 'one',
    tool: 't',
    arguments: {},
    status: 'ok',
    way: { kind: 'none', reason: 'x' },
    ...given,
  }
}

test('action keys are unique and sort by time', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 45), fc.nat(2 ** 45), (one, other) => {
      const keys = [newActionKey(one), newActionKey(other)]
      expect(keys[0]).not.toBe(keys[1])
      if (one < other) expect(keys.toSorted()).toEqual(keys)
    }),
  )
})

describe('recorded actions', () => {
  test('an action is found by its key until it is deleted', async () => {
    const deeds = new Actions(new MemoryStore())
    const one = deed()
    await deeds.put(one, HOUR)
    expect(await deeds.find(one.key)).toEqual(one)
    await deeds.remove(one.key)
    expect(await deeds.find(one.key)).toBeUndefined()
  })

  test('actions are listed from newest to oldest, with filters', async () => {
    const deeds = new Actions(new MemoryStore())
    const first = deed({ startedAt: 1000 })
    const second = deed({ startedAt: 2000, session: 's', upstream: 'two' })
    const third = deed({ startedAt: 3000, principal: { id: 'you' } })
    for (const each of [second, third, first]) await deeds.put(each, HOUR)
    expect(await deeds.list()).toEqual([third, second, first])
    expect(await deeds.list({ since: 2000 })).toEqual([third, second])
    expect(await deeds.list({ until: 2000 })).toEqual([second, first])
    expect(await deeds.list({ session: 's' })).toEqual([second])
    expect(await deeds.list({ upstream: 'two' })).toEqual([second])
    expect(await deeds.list({ principal: 'you' })).toEqual([third])
  })

  test('actions of one millisecond are listed in the order in which they began', async () => {
    const deeds = new Actions(new MemoryStore())
    const all = [3, 1, 2, 5, 4].map((tick) => deed({ tick }))
    for (const each of all) await deeds.put(each, HOUR)
    expect((await deeds.list()).map(({ tick }) => tick)).toEqual([5, 4, 3, 2, 1])
  })

  test('actions are listed from one of them on, by its key or its request', async () => {
    const deeds = new Actions(new MemoryStore())
    const [first, second, third] = [1, 2, 3].map((tick) => deed({ tick, request: `r${tick}` }))
    if (!first || !second || !third) throw new Error('none')
    for (const each of [second, third, first]) await deeds.put(each, HOUR)
    expect(await deeds.list({ from: second.key })).toEqual([third, second])
    expect(await deeds.list({ from: 'r1' })).toEqual([third, second, first])
    expect(await deeds.list({ from: 'r1', principal: 'you' })).toEqual([])
    await expect(deeds.list({ from: 'r4' })).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  test.each<[string, object]>([
    ['no caller', { principal: {} }],
    ['no arguments', { arguments: null }],
    ['a compensation of no kind', { way: {} }],
    ['a compensation without a call', { way: { kind: 'exact', tool: 't' } }],
    ['a compensation without a reason', { way: { kind: 'none' } }],
  ])('a record with %s is no action', async (_what, given) => {
    const store = new MemoryStore()
    await store.put('deed/x', JSON.stringify({ ...deed(), ...given }), HOUR)
    expect(await new Actions(store).list()).toEqual([])
  })

  test.each<[string, unknown]>([
    ['no object', 5],
    ['no call', { before: 'x', parts: [] }],
    ['parts of something else', { tool: 'get', arguments: {}, before: 'x', parts: [null] }],
    ['another left state', { tool: 'get', arguments: {}, before: 'x', parts: [], left: 5 }],
  ])('states that are %s are unknown', async (_what, states) => {
    const store = new MemoryStore()
    const one = deed()
    await store.put('deed/x', JSON.stringify({ ...one, states }), HOUR)
    expect(await new Actions(store).list()).toEqual([one])
  })

  test('those in doubt are known, until a person finds out what became of them', async () => {
    const deeds = new Actions(new MemoryStore())
    const now = 10 * HOUR
    const doubt = deed({ status: 'unknown', startedAt: now - 1000, endedAt: now - 500 })
    const lost = deed({ status: 'unknown', startedAt: now - HOUR })
    const others = [
      deed({ startedAt: now - 900 }),
      deed({ status: 'unknown', startedAt: now - 1000 }),
      deed({ status: 'unknown', endedAt: now, transaction: 'tx' }),
      deed({ status: 'unknown', endedAt: now, undoneAt: now }),
    ]
    for (const each of [lost, doubt, ...others]) await deeds.put(each, HOUR)
    expect(await deeds.inDoubt(now)).toEqual([doubt, lost])
    expect(await deeds.acknowledge(doubt.key, 'olga', now)).toBe(true)
    expect(await deeds.inDoubt(now)).toEqual([lost])
    expect(await deeds.find(doubt.key)).toEqual({ ...doubt, acknowledged: { by: 'olga', at: now } })
    expect(await deeds.acknowledge('none', 'olga', now)).toBe(false)
  })

  test('an action records when it was undone', async () => {
    const deeds = new Actions(new MemoryStore())
    const one = deed()
    await deeds.put(one, HOUR)
    expect(await deeds.markUndone(one.key, 5000, HOUR)).toBe(true)
    expect(await deeds.find(one.key)).toEqual({ ...one, undoneAt: 5000 })
    expect(await deeds.markUndone('other', 5000, HOUR)).toBe(false)
  })

  test('an action is undone by one process at a time', async () => {
    const deeds = new Actions(new MemoryStore())
    const lease = await deeds.reserve('one')
    expect(lease?.isHeld).toBe(true)
    expect(await deeds.reserve('one')).toBeUndefined()
    const other = await deeds.reserve('other')
    expect(other?.isHeld).toBe(true)
    await lease?.release()
    const again = await deeds.reserve('one')
    expect(again?.isHeld).toBe(true)
    await Promise.all([other?.release(), again?.release()])
    expect(await deeds.list()).toEqual([])
  })

  test('an oversized action loses its arguments first and its compensation last', async () => {
    const deeds = new Actions(new MemoryStore())
    const kept = async (one: Action): Promise<Action | undefined> => {
      await deeds.put(one, HOUR)
      expect(encodeAction(one)).toBe(JSON.stringify({ ...(await deeds.find(one.key)), exact: true }))
      return deeds.find(one.key)
    }
    const half = 'x'.repeat(700_000)
    const way = { kind: 'exact', tool: 'write', arguments: { text: half }, description: '' } as const
    expect(await kept(deed({ arguments: { text: half } }))).toHaveProperty('arguments.text')
    const both = await kept(deed({ arguments: { text: half }, way }))
    expect(both).toMatchObject({ arguments: {}, way: { kind: 'exact' } })
    const whole = { ...way, arguments: { text: half + half } }
    const lost = await kept(deed({ way: whole }))
    expect(lost?.way).toEqual({ kind: 'none', reason: 'the data needed to undo it is larger than 1 MB' })
  })

  test('records written by other software are skipped', async () => {
    const kept = new Map([
      ['deed/1', '{"torn'],
      ['deed/2', '{"key":"2","status":"done"}'],
      ['deed/3', 'null'],
    ])
    const store: Store = Object.assign(new MemoryStore(), { scan: async () => kept })
    expect(await new Actions(store).list()).toEqual([])
  })
})
