import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../../src/core/error.ts'
import { type EventType, forEveryone } from '../../../../../src/features/events/types.ts'
import { FailureRate } from '../../../../../src/features/events/sinks/webhook.ts'
import {
  type DeliveryServices,
  WebhookSubscription,
} from '../../../../../src/features/events/sinks/webhook-subscription.ts'
import { callOnBehalf } from '../../../../../src/features/own-calls.ts'
import { AppendLog, isBefore } from '../../../../../src/durable/log.ts'
import type { SubscriptionRecord } from '../../../../../src/records/event-subscriptions.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import type { Store } from '../../../../../src/store/store.ts'
import { secretOf } from '../../../../support/webhooks.ts'

const over = new GatewayError('PERMISSION_DENIED', 'They ended.')

/** The events that are even numbers; a 9 says that events may be missing before it, and a 99 that they ended. */
const type: EventType = {
  ...forEveryone,
  upstream: 'one',
  name: 'counted',
  description: '',
  inputSchema: {},
  payloadSchema: {},
  isRequested: (_wanted, { data }) => Number(data.n) % 2 === 0,
  isGap: (_wanted, { data }) => data.n === 9,
  endOf: (_wanted, { data }) => (data.n === 99 ? over : undefined),
}

function logOf(store: Store, maxEntries = 1000): AppendLog {
  return new AppendLog(store, 'one', { maxEntries, maxBytes: 1_000_000, ttl: 86_400_000 })
}

let store = new MemoryStore()
let log = logOf(store)
let now = 1_000_000
beforeEach(() => {
  store = new MemoryStore()
  log = logOf(store)
  now = 1_000_000
})

let lastId = 0
async function append(...numbers: readonly number[]): Promise<void> {
  await appendTo(log, numbers)
}

async function appendTo(to: AppendLog, numbers: readonly number[]): Promise<void> {
  await to.append(numbers.map((n) => ({ id: `evt_${++lastId}_${n}`, name: 'counted', at: now, data: { n } })))
}

async function recorded(given: Partial<SubscriptionRecord> = {}): Promise<SubscriptionRecord> {
  return {
    id: 'sub_1',
    name: 'counted',
    arguments: {},
    address: 'https://a.example/',
    principal: { id: 'ada' },
    createdAt: now,
    expiresAt: now + 3_600_000,
    watermark: await log.end(),
    settled: [],
    delivery: {},
    webhook: { secret: '' },
    ...given,
  }
}

function held(record: SubscriptionRecord): WebhookSubscription {
  const receiver = {
    subscription: 'sub_1',
    url: record.address,
    secrets: { current: secretOf(1) },
    owner: 'a',
  }
  const call = callOnBehalf({ id: 'ada' }, 'one')
  // What only attempts need is not there.
  const services = { now: () => now } as DeliveryServices
  return new WebhookSubscription(record, receiver, call, services)
}

async function read(subscription: WebhookSubscription, limit = 100): Promise<void> {
  for (let hasMore = true; hasMore && subscription.hasCapacity(limit);) {
    const page = await log.read(subscription.queue.next, 10)
    subscription.take(page, { name: 'counted', type, source: 'test' })
    ;({ hasMore } = page)
  }
}

/** The numbers that are not settled, and what else is to be sent. */
function openOf({ queue }: WebhookSubscription): unknown[] {
  return queue.open(1000).map(({ id }) => {
    const content = queue.find(id)?.message
    return content?.kind === 'event' ? content.event.data.n : content?.kind
  })
}

function settle({ queue }: WebhookSubscription, ...indexes: readonly number[]): void {
  const open = queue.open(1000)
  for (const index of indexes) queue.settle(open[index]?.id ?? '')
}

describe('a subscription that is delivered', () => {
  it('owes the requested events after its watermark, in order, until they are settled', async () => {
    await append(0)
    const subscription = held(await recorded())
    await append(1, 2)
    await append(3, 4, 6)
    await read(subscription)
    expect(openOf(subscription)).toEqual([2, 4, 6])
    settle(subscription, 0, 1, 2)
    expect(openOf(subscription)).toEqual([])
    expect(subscription.queue.watermark).toBe(await log.end())
  })

  it('E17 has a watermark that does not pass an event that is not settled, also in another process', async () => {
    const record = await recorded()
    const subscription = held(record)
    await append(2)
    await append(4)
    const second = await log.end()
    await append(6)
    await read(subscription)
    settle(subscription, 1)
    expect(subscription.queue.watermark).toBe(record.watermark)
    const { watermark, settled } = subscription.queue.takeProgress()
    expect([watermark, settled]).toEqual([record.watermark, [second]])
    const other = held({ ...record, watermark, settled })
    await read(other)
    expect(openOf(other)).toEqual([2, 6])
    settle(other, 0)
    expect(other.queue.watermark).toBe(second)
    settle(other, 0)
    expect(other.queue.watermark).toBe(await log.end())
  })

  it('ends where its events end, once those before are settled, also in another process', async () => {
    const record = await recorded()
    const subscription = held(record)
    await append(2, 4)
    const last = await log.end()
    await append(99, 6)
    await read(subscription)
    expect(openOf(subscription)).toEqual([2, 4])
    expect(subscription.hasCapacity(100)).toBe(false)
    settle(subscription, 0)
    expect(subscription.endedBy).toBeUndefined()
    settle(subscription, 0)
    expect(subscription.endedBy).toBe(over)
    expect(subscription.queue.watermark).toBe(last)
    const other = held({ ...record, watermark: last })
    await read(other)
    expect(other.endedBy).toBe(over)
  })

  it('owes a message about events that were dropped or missed, until it is settled', async () => {
    const record = await recorded()
    await append(2)
    const lost = await log.end()
    // What came before is beyond the bounds.
    await appendTo(logOf(store, 1), [4])
    for (let time = 0; time < 2; time++) {
      const subscription = held(record)
      await read(subscription)
      expect(openOf(subscription)).toEqual(['gap', 4])
      const [gap] = subscription.queue.open(1)
      expect(subscription.queue.positionAfter(gap?.id ?? '')).toBe(lost)
      expect(subscription.queue.watermark).toBe(record.watermark)
    }
    const subscription = held(record)
    await read(subscription)
    settle(subscription, 0)
    expect(subscription.queue.watermark).toBe(lost)
    await append(9, 6)
    await read(subscription)
    expect(openOf(subscription)).toEqual([4, 'gap', 6])
    const before = subscription.queue.watermark
    expect(subscription.queue.positionAfter(subscription.queue.open(2)[1]?.id ?? '')).toBe(before)
  })

  it('passes any number of events that are not requested, and stops reading behind many that are waiting', async () => {
    const subscription = held(await recorded())
    for (let index = 0; index < 30; index++) await append(...Array.from({ length: 10 }, () => 1))
    await append(2)
    await read(subscription)
    expect(openOf(subscription)).toEqual([2])
    for (let index = 0; index < 60; index++) await append(...Array.from({ length: 10 }, () => 4))
    for (let round = 0; round < 60; round++) {
      await read(subscription, 32)
      const open = subscription.queue.open(32)
      for (const { id } of open.slice(1)) subscription.queue.settle(id)
    }
    expect(openOf(subscription)).toEqual([2])
    expect(subscription.hasCapacity(32)).toBe(false)
    settle(subscription, 0)
    expect(subscription.hasCapacity(32)).toBe(true)
    await read(subscription)
    expect(openOf(subscription).length).toBeGreaterThan(80)
  })

  it('delivers each event at least once and never moves its watermark back, however it ends and is taken over', async () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ append: fc.array(fc.nat(5), { minLength: 1, maxLength: 4 }) }),
        fc.record({ settle: fc.nat(6) }),
        fc.record({ write: fc.boolean() }),
        fc.record({ crash: fc.boolean() }),
      ),
      { maxLength: 30 },
    )
    const property = fc.asyncProperty(steps, async (all) => {
      let record = await recorded()
      let subscription = held(record)
      const requested: number[] = []
      const done = new Set<string>()
      let watermark = subscription.queue.watermark
      const written = (): void => {
        const { watermark: at, settled } = subscription.queue.takeProgress()
        record = { ...record, watermark: at, settled }
      }
      for (const step of all) {
        if ('append' in step) {
          await append(...step.append)
          requested.push(...step.append.filter((n) => n % 2 === 0))
        } else if ('settle' in step) {
          await read(subscription)
          const id = subscription.queue.open(100)[step.settle]?.id
          if (id !== undefined) done.add(id)
          if (id !== undefined) subscription.queue.settle(id)
          expect(isBefore(subscription.queue.watermark, watermark)).toBe(false)
          ;({ watermark } = subscription.queue)
        } else if ('write' in step) written()
        else {
          subscription = held(record)
          ;({ watermark } = subscription.queue)
        }
      }
      await read(subscription)
      const open = subscription.queue.open(1000).map(({ id }) => id)
      expect(new Set([...done, ...open]).size).toBe(requested.length)
      for (const id of open) done.add(id)
      settle(subscription, ...open.keys())
      expect(subscription.queue.watermark).toBe(await log.end())
    })
    await fc.assert(property, { numRuns: 60 })
  })
})

describe('the rate of failures', () => {
  it.each([
    [99, 99, false],
    [100, 100, true],
    [100, 95, false],
    [100, 96, true],
    [1000, 950, false],
  ])('of %d attempts with %d failures is too high: %s', (attempts, failures, isTooHigh) => {
    const rate = new FailureRate()
    for (let index = 0; index < attempts; index++) rate.count(index < failures, now + index * 1000)
    expect(rate.isTooHigh).toBe(isTooHigh)
  })

  it('is that of the last hour', () => {
    const rate = new FailureRate()
    for (let index = 0; index < 100; index++) rate.count(true, now)
    rate.count(true, now + 59 * 60_000)
    expect(rate.isTooHigh).toBe(true)
    rate.count(true, now + 60 * 60_000)
    expect(rate.isTooHigh).toBe(false)
  })
})
