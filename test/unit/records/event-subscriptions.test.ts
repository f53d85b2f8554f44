import { beforeEach, describe, expect, it } from 'vitest'
import { AppendLog } from '../../../src/durable/log.ts'
import {
  EventSubscriptions,
  type SubscriptionGrant,
  NEVER,
  type SubscriptionKey,
  type SubscriptionRecord,
  type WebhookState,
} from '../../../src/records/event-subscriptions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const ada = { id: 'ada' }
const bob = { id: 'bob' }
const key: SubscriptionKey = {
  upstream: 'notes',
  name: 'note.added',
  arguments: { list: 'a', tag: ['x'] },
  address: 'https://ada.example/hook',
}

let now = 1_000_000
let store = new MemoryStore(() => now)
let subscriptions = new EventSubscriptions(store, () => now)
let log = new AppendLog(store, 'notes', { maxEntries: 1000, maxBytes: 1_000_000, ttl: 86_400_000 })
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
  subscriptions = new EventSubscriptions(store, () => now)
  log = new AppendLog(store, 'notes', { maxEntries: 1000, maxBytes: 1_000_000, ttl: 86_400_000 })
})

async function grant(ttl = 3_600_000, delivery = {}): Promise<SubscriptionGrant> {
  return { expiresAt: now + ttl, delivery, watermark: await log.end() }
}

/** A new subscription. */
async function subscribed(own = key): Promise<SubscriptionRecord> {
  const record = await subscriptions.subscribe(ada, own, await grant())
  if (!record) throw new TypeError('it was refused')
  return record
}

describe('subscriptions to events', () => {
  it('have an id of their own where one is given: with it, another request changes their members', async () => {
    const id = '0b0f6c1e-4c6e-4f0e-9a58-3f2f6b1f0a11'
    const first = await subscriptions.subscribe(ada, key, await grant(), id)
    const changed = { ...key, name: '*', arguments: { list: 'b' } }
    const second = await subscriptions.subscribe(ada, changed, { ...(await grant(9)), watermark: 'x' }, id)
    expect(second).toEqual({ ...first, name: '*', arguments: { list: 'b' }, expiresAt: now + 9 })
    expect(await subscriptions.find(bob, id)).toBeUndefined()
  })

  it('have a watermark that can be moved until they end', async () => {
    const record = await subscribed()
    await subscriptions.changeWatermark(record, (before) => `${before}+`)
    expect(await subscriptions.find(ada, record.id)).toEqual({ ...record, watermark: `${record.watermark}+` })
    await subscriptions.unsubscribe(ada, record.id)
    await subscriptions.changeWatermark(record, () => 'x')
    expect(await subscriptions.find(ada, record.id)).toBeUndefined()
  })

  it('E6 E7 have the same id whatever the order of their arguments, also after a restart, and another for others', async () => {
    const { id } = await subscribed()
    const shuffled = { ...key, arguments: { tag: ['x'], list: 'a' } }
    const restarted = new EventSubscriptions(store, () => now)
    expect(restarted.idOf(ada, shuffled)).toBe(id)
    expect((await restarted.subscribe(ada, shuffled, await grant()))?.id).toBe(id)
    expect(await restarted.all()).toHaveLength(1)
    const others = [
      await subscriptions.subscribe(bob, key, await grant()),
      await subscriptions.subscribe(ada, { ...key, address: 'https://ada.example/other' }, await grant()),
      await subscriptions.subscribe(ada, { ...key, arguments: { list: 'b' } }, await grant()),
      await subscriptions.subscribe(ada, { ...key, name: 'note.removed' }, await grant()),
      await subscriptions.subscribe(ada, { ...key, upstream: 'other' }, await grant()),
    ]
    expect(new Set([id, ...others.map((record) => record?.id)]).size).toBe(6)
  })

  it('are found and ended by their own caller alone', async () => {
    const record = await subscribed()
    expect(await subscriptions.find(ada, record.id)).toMatchObject({ ...key, principal: { id: 'ada' } })
    expect(await subscriptions.find(bob, record.id)).toBeUndefined()
    expect(await subscriptions.unsubscribe(bob, record.id)).toBe(false)
    expect(await subscriptions.unsubscribe(ada, record.id)).toBe(true)
    expect(await subscriptions.unsubscribe(ada, record.id)).toBe(false)
  })

  it('expire, unless they are requested again, which keeps their position', async () => {
    const record = await subscribed()
    await log.append([2])
    now += 3_000_000
    const renewed = await subscriptions.subscribe(ada, key, await grant(3_600_000, { secret: 'sealed' }))
    expect(renewed).toMatchObject({ watermark: record.watermark, delivery: { secret: 'sealed' } })
    now += 3_000_000
    expect(await subscriptions.find(ada, record.id)).toBeDefined()
    now += 700_000
    expect(await subscriptions.find(ada, record.id)).toBeUndefined()
    expect(await subscriptions.all()).toEqual([])
  })

  it('are refused to a caller who has a quarter of all, and to everybody once there are too many', async () => {
    const few = new EventSubscriptions(store, () => now, 8)
    const of = async (id: string, index: number) =>
      few.subscribe({ id }, { ...key, name: `event ${index}` }, await grant())
    expect(await of('ada', 1)).toBeDefined()
    expect(await of('ada', 2)).toBeDefined()
    expect(await of('ada', 3)).toBeUndefined()
    expect(await of('ada', 2)).toBeDefined()
    for (const [index, id] of ['b', 'b', 'c', 'c', 'd', 'd'].entries())
      expect(await of(id, index)).toBeDefined()
    expect(await of('e', 1)).toBeUndefined()
  })

  it('are delivered by one process at a time, and by another one once it has ended', async () => {
    const free = await subscribed()
    const ofOne = await subscriptions.claim(free, 'one')
    expect(ofOne).toMatchObject({ id: free.id, owner: 'one' })
    expect(await subscriptions.claim(free, 'two')).toBeUndefined()
    expect(await subscriptions.claim(free, 'one')).toMatchObject({ owner: 'one' })
    if (!ofOne) return
    // Who finds that its owner has ended, at the same time as another one, does not take it from that one.
    expect(await subscriptions.claim(ofOne, 'two')).toMatchObject({ owner: 'two' })
    expect(await subscriptions.claim(ofOne, 'three')).toBeUndefined()
    expect(await subscriptions.claim(ofOne, 'one')).toBeUndefined()
  })

  it('have no expiry if none was granted', async () => {
    const record = await subscriptions.subscribe(ada, key, { ...(await grant()), expiresAt: NEVER })
    now += 50 * 365 * 86_400_000
    expect(await subscriptions.find(ada, record?.id ?? '')).toMatchObject({ expiresAt: NEVER })
    expect(await subscriptions.all()).toHaveLength(1)
  })
})

describe('subscriptions by webhook', () => {
  const sealed = (secret: string) => async () => ({
    ...(await grant()),
    webhook: (before: WebhookState | undefined) => ({ ...before, secret }),
  })

  it('are advanced by their owner alone, and keep what a concurrent request changed', async () => {
    const record = await subscriptions.subscribe(ada, key, await sealed('first')())
    if (!record) throw new TypeError('it was refused')
    const held = await subscriptions.claim(record, 'one')
    if (!held) throw new TypeError('it was not claimed')
    await subscriptions.subscribe(ada, key, await sealed('second')())
    const progress = {
      watermark: 'x.2.0',
      settled: ['x.3.0'],
      webhook: (before: WebhookState) => ({ ...before, lastDeliveryAt: now }),
    }
    expect(await subscriptions.advance(held, 'two', progress)).toBeUndefined()
    expect(await subscriptions.advance(held, 'one', progress)).toMatchObject({
      watermark: 'x.2.0',
      settled: ['x.3.0'],
      webhook: { secret: 'second', lastDeliveryAt: now },
    })
    await subscriptions.unsubscribe(ada, record.id)
    expect(await subscriptions.advance(held, 'one', progress)).toBeUndefined()
    expect(await subscriptions.all()).toEqual([])
  })
})
