import { describe, expect, test } from 'vitest'
import { anonymous } from '../../../src/core/principal.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { SessionStates } from '../../../src/records/session-states.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const alice = { id: 'alice' }
const HOUR = 3_600_000
const KIB = 1024

interface Before {
  readonly count: number
  readonly bytes: number
  readonly caller: string
}

/** A store with states of a caller, of this many bytes each. */
async function filledWith({ count, bytes, caller }: Before): Promise<MemoryStore> {
  const store = new MemoryStore()
  for (let number = 0; number < count; number++)
    await store.put(`states/${callerHash(caller)}:${number}`, String(bytes), HOUR)
  return store
}

describe('session states in the store', () => {
  test('a state is found by its caller alone', async () => {
    const states = new SessionStates(new MemoryStore())
    const handle = (await states.add(alice, 'text', HOUR)) ?? ''
    expect(SessionStates.isHandle(handle)).toBe(true)
    expect(await states.find(alice, handle)).toBe('text')
    expect(await states.find({ id: 'bob' }, handle)).toBeUndefined()
  })

  test.each([
    ['1,000 states of the caller', { count: 1000, bytes: 10, caller: 'alice' }, false],
    ['999 states of the caller', { count: 999, bytes: 10, caller: 'alice' }, true],
    ['16 MiB of the caller', { count: 64, bytes: 256 * KIB, caller: 'alice' }, false],
    ['4,000 states of others', { count: 4000, bytes: 10, caller: 'bob' }, false],
    ['64 MiB of others', { count: 256, bytes: 256 * KIB, caller: 'bob' }, false],
    ['16 MiB of others', { count: 64, bytes: 256 * KIB, caller: 'bob' }, true],
  ])('with %s, a new one is kept only if there is room', async (_what, before, isKept) => {
    const store = await filledWith(before)
    const handle = await new SessionStates(store).add(alice, 'text', HOUR)
    expect(handle !== undefined).toBe(isKept)
  })

  test('callers that are not distinguished share all of the room', async () => {
    const store = await filledWith({ count: 3999, bytes: 10, caller: anonymous.id })
    const states = new SessionStates(store)
    expect(await states.add(anonymous, 'text', HOUR)).toBeDefined()
    expect(await states.add(anonymous, 'text', HOUR)).toBeUndefined()
  })

  test('a state over 256 KiB is not kept, and does not replace another one', async () => {
    const states = new SessionStates(new MemoryStore())
    const large = 'x'.repeat(256 * KIB + 1)
    expect(await states.add(alice, large, HOUR)).toBeUndefined()
    const handle = (await states.add(alice, 'text', HOUR)) ?? ''
    expect(await states.change(alice, handle, () => large, HOUR)).toBeUndefined()
    expect(await states.find(alice, handle)).toBe('text')
  })

  test.each([
    ['16 MiB of the caller', { count: 64, bytes: 256 * KIB, caller: 'alice' }],
    ['64 MiB of others', { count: 256, bytes: 256 * KIB, caller: 'bob' }],
  ])('with %s, a state does not grow, but may stay as large as it is', async (_what, before) => {
    const store = await filledWith(before)
    const handle = (await new SessionStates(new MemoryStore()).add(alice, 'text', HOUR)) ?? ''
    const states = new SessionStates(store)
    const grown = await states.change(alice, handle, () => 'text', HOUR)
    expect(grown).toBeUndefined()
    expect(await states.find(alice, handle)).toBeUndefined()
    await store.delete([...(await store.scan('states')).keys()][0] ?? '')
    const kept = await states.change(alice, handle, () => 'x'.repeat(200 * KIB), HOUR)
    expect(kept).toHaveLength(200 * KIB)
    const larger = 'x'.repeat(250 * KIB)
    await store.put(`states/${callerHash(before.caller)}:full`, String(56 * KIB), HOUR)
    expect(await states.change(alice, handle, () => larger, HOUR)).toBeUndefined()
    expect(await states.find(alice, handle)).toBe(kept)
    const changed = 'y'.repeat(200 * KIB)
    expect(await states.change(alice, handle, () => changed, HOUR)).toBe(changed)
  })

  test('a state whose record expired is a new one: its caller may not have more than 1,000', async () => {
    const states = new SessionStates(await filledWith({ count: 1000, bytes: 10, caller: 'alice' }))
    const handle = (await new SessionStates(new MemoryStore()).add(alice, 'text', HOUR)) ?? ''
    expect(await states.change(alice, handle, () => 'text', HOUR)).toBeUndefined()
  })

  test('no concurrent change is lost', async () => {
    const states = new SessionStates(new MemoryStore())
    const handle = (await states.add(alice, '0', HOUR)) ?? ''
    const change = (text: string | undefined): string => String(Number(text) + 1)
    await Promise.all(Array.from({ length: 20 }, () => states.change(alice, handle, change, HOUR)))
    expect(await states.find(alice, handle)).toBe('20')
  })
})
