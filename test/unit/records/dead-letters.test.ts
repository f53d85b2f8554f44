import { beforeEach, describe, expect, it } from 'vitest'
import { type DeadLetter, DeadLetters } from '../../../src/records/dead-letters.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

let now = 1_000_000
let store = new MemoryStore(() => now)
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
})

function letter(event: string, given: Partial<DeadLetter> = {}): DeadLetter {
  return {
    id: DeadLetters.idOf('sub_1', event),
    subscription: 'sub_1',
    owner: 'ada',
    name: 'add_note.succeeded',
    event: { id: event },
    failure: 'http_5xx',
    at: now++,
    ...given,
  }
}

describe('dead letters', () => {
  it('are listed oldest first, each once, and kept for a week', async () => {
    const letters = new DeadLetters(store)
    const [one, two] = [letter('evt_1'), letter('evt_2')]
    await letters.add([two])
    await letters.add([one, two])
    expect(await letters.list()).toEqual([one, two])
    expect(await letters.count()).toBe(2)
    now += 7 * 86_400_000
    expect(await letters.list()).toEqual([])
  })

  it('make room for later ones, in all and for each caller', async () => {
    const letters = new DeadLetters(store, 8)
    await letters.add([letter('b1', { owner: 'bob' })])
    await letters.add(['a1', 'a2', 'a3'].map((event) => letter(event)))
    const owners = (await letters.list()).map(({ event, owner }) => `${owner} ${String(event.id)}`)
    expect(owners).toEqual(['bob b1', 'ada a2', 'ada a3'])
    for (const owner of ['c', 'd', 'e', 'f'])
      await letters.add(['1', '2'].map((event) => letter(`${owner}${event}`, { owner })))
    expect(await letters.count()).toBe(8)
    expect((await letters.list()).map(({ owner }) => owner)).toEqual('ccddeeff'.split(''))
  })

  it('are delivered again at the request of another process, until they are accepted', async () => {
    const mine = new DeadLetters(store)
    const one = letter('evt_1')
    await mine.add([one])
    expect(await mine.requested()).toEqual([])
    const other = new DeadLetters(store)
    expect(await other.requestRedelivery({ ...one, id: 'dl_unknown' })).toBe(false)
    expect(await other.requestRedelivery(one)).toBe(true)
    expect(await mine.requested()).toEqual([one])
    await mine.endRedelivery(one)
    expect(await mine.requested()).toEqual([])
    expect(await mine.list()).toEqual([one])
    await other.requestRedelivery(one)
    await mine.remove(one)
    expect([await mine.requested(), await mine.list()]).toEqual([[], []])
  })
})
