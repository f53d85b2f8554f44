import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import {
  endOfLogs,
  type EventRequest,
  Follower,
  type Positions,
} from '../../../../src/features/events/follower.ts'
import { ServerEvents } from '../../../../src/features/events/server-events.ts'
import { type EventCatalog, type EventType, forEveryone } from '../../../../src/features/events/types.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

const schema = { type: 'object' }

/** Two servers with one type of events each, and a caller whose rights can change. */
function servers() {
  const store = new MemoryStore()
  const logs = new Map<string | undefined, ServerEvents>()
  const events = (upstream: string | undefined): ServerEvents => {
    const known = logs.get(upstream)
    if (known) return known
    const added = new ServerEvents(store, upstream, {
      ttl: 60_000,
      isShared: false,
      redactor: new Redactor(),
    })
    logs.set(upstream, added)
    return added
  }
  const catalog: EventCatalog = {
    deps: featureDeps({ store }),
    sources: [],
    upstreams: () => ['one', 'two'],
    events,
  }
  const rights: { mayReceive(id: string): boolean } = { mayReceive: () => true }
  const typeOf = (upstream: string): EventType => ({
    ...forEveryone,
    upstream,
    name: 'noted',
    description: '',
    inputSchema: schema,
    payloadSchema: schema,
    mayReceive: ({ data }) => rights.mayReceive(String(data['id'])),
  })
  const requests = ['one', 'two'].map((upstream): EventRequest => {
    return { name: 'noted', source: 'test', type: typeOf(upstream), arguments: {}, notBefore: 0 }
  })
  const add = (upstream: string, id: string, at: number, text = ''): Promise<void> =>
    events(upstream).append([{ id, name: 'noted', at, data: { id, text } }])
  const follow = (positions: Positions, requested: readonly EventRequest[] = requests): Follower =>
    new Follower(catalog, toolCall(), requested, positions)
  return { add, follow, rights, now: () => endOfLogs(requests, catalog) }
}

describe('the log of a server', () => {
  it('wakes those who wait when another process adds an event, before they would read it anyway', async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const store = new MemoryStore()
    const settings = { ttl: 60_000, isShared: false, redactor: new Redactor() }
    const [own, other] = [new ServerEvents(store, 'one', settings), new ServerEvents(store, 'one', settings)]
    const start = await own.now()
    const { signal } = new AbortController()
    let isWoken = false
    // A watch that begins wakes them once.
    const first = own.changed(signal)
    await vi.advanceTimersByTimeAsync(50)
    await first
    void own.changed(signal).then(() => {
      isWoken = true
    })
    await vi.advanceTimersByTimeAsync(50)
    expect(isWoken).toBe(false)
    await other.append([{ id: 'a', name: 'noted', at: 1, data: {} }])
    await vi.advanceTimersByTimeAsync(50)
    expect(isWoken).toBe(true)
    expect((await own.read(start)).entries).toHaveLength(1)
  })
})

function idsOf(follower: Follower): readonly string[] {
  return Array.from({ length: follower.size }, () => follower.take()?.event.id ?? '')
}

describe('a follower', () => {
  it('merges the events of several logs by their times, and keeps the order of each', async () => {
    const { add, follow, now } = servers()
    const follower = follow(await now())
    await add('one', 'a', 10)
    await add('one', 'b', 30)
    await add('two', 'c', 20)
    // Its clock went back.
    await add('two', 'd', 5)
    await follower.read()
    expect(idsOf(follower)).toEqual(['a', 'c', 'd', 'b'])
  })

  it('without requests waits until it is ended, or has been before', async () => {
    const follower = servers().follow({}, [])
    const controller = new AbortController()
    const ended: string[] = []
    const waiting = follower.changed(controller.signal).then(() => ended.push('later'))
    await Promise.resolve()
    expect(ended).toEqual([])
    controller.abort()
    await waiting
    await follower.changed(controller.signal)
    expect(ended).toEqual(['later'])
  })

  it('has positions that never pass an event that was not taken', async () => {
    const { add, follow, now } = servers()
    const begin = await now()
    const follower = follow(begin)
    await add('one', 'a', 1)
    await add('two', 'b', 2)
    await follower.read()
    expect(follower.positions).toEqual(begin)
    const first = follower.take()
    expect(follower.positions).toEqual(first?.positions)
    const again = follow(follower.positions)
    await again.read()
    expect(idsOf(again)).toEqual(['b'])
    expect(follower.take()?.event.id).toBe('b')
    const after = follow(follower.positions)
    await after.read()
    expect(after.size).toBe(0)
  })

  it('loses nothing if it reads a page at a time', async () => {
    const { add, follow, now } = servers()
    const follower = follow(await now())
    for (let count = 0; count < 5; count++) await add('one', String(count), count, 'x'.repeat(400_000))
    const first = await follower.read(3)
    expect(first.hasMore).toBe(true)
    expect(follower.loss).toEqual({ dropped: 0, isGap: false })
    expect(idsOf(follower)).toEqual(['0', '1', '2'])
    await follower.read(3)
    expect(idsOf(follower)).toEqual(['3', '4'])
  })

  it('drops the oldest events beyond its bounds if it reads all, and says how many with the next one', async () => {
    const { add, follow, now } = servers()
    const follower = follow(await now())
    for (let count = 0; count < 5; count++) await add('one', String(count), count, 'x'.repeat(400_000))
    await follower.read()
    const first = follower.take()
    expect([first?.event.id, first?.loss.dropped]).toEqual(['3', 3])
    expect(follower.take()?.loss.dropped).toBe(0)
  })

  it('checks rights again when an event is taken, and keeps one whose rights are not known', async () => {
    const { add, follow, now, rights } = servers()
    const follower = follow(await now())
    await add('one', 'a', 1)
    await add('one', 'b', 2)
    await follower.read()
    rights.mayReceive = () => {
      throw new Error('away')
    }
    await expect(follower.takePermitted()).rejects.toThrow('away')
    expect(follower.size).toBe(2)
    rights.mayReceive = (id) => id === 'b'
    expect(await follower.takePermitted()).toBeUndefined()
    expect((await follower.takePermitted())?.event.id).toBe('b')
    expect(follower.size).toBe(0)
  })

  it('reports a gap to the next event that is taken', async () => {
    const { add, follow } = servers()
    const follower = follow({ one: 'a position that is gone' })
    await add('one', 'a', 1)
    const { isGap } = await follower.read()
    expect(isGap).toBe(true)
    expect(follower.take()?.loss.isGap).toBe(true)
  })
})
