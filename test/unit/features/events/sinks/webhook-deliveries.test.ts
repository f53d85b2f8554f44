import { describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../../src/core/error.ts'
import { AppendLog } from '../../../../../src/durable/log.ts'
import { eventLogName } from '../../../../../src/records/logged-events.ts'
import { DeadLetters } from '../../../../../src/records/dead-letters.ts'
import type { Store } from '../../../../../src/store/store.ts'
import type { Json } from '../../../../support/server/json.ts'
import { HOOK, noted, wanted, WebhookGateway } from '../../../../support/webhook-gateway.ts'
import { until } from '../../../../support/condition.ts'
import { idle, response } from '../../../../support/webhooks.ts'

const MINUTE = 60_000
const DAY = 86_400_000

/** What the receiver of `HOOK` answers to an event with a number, the status by number. */
function answering(world: WebhookGateway, status: (n: unknown) => number): void {
  world.dialer.answers.set(HOOK, ({ json }) => response(status((json['data'] as Json | undefined)?.['n'])))
}

/** All events so far are beyond the bounds of the log. */
async function loseEvents({ store }: WebhookGateway): Promise<void> {
  const bounded = new AppendLog(store, eventLogName('one'), {
    maxEntries: 1,
    maxBytes: 1000,
    ttl: 86_400_000,
  })
  await bounded.append([{ id: 'evt_other', name: 'other', at: 0, data: {} }])
}

describe('deliveries: attempts', () => {
  it('E14 a retry has the same id and another signature', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe()
    let attempts = 0
    answering(world, () => (++attempts === 1 ? 503 : 204))
    await note(1)
    await world.clock.advance(10_000)
    const [first, second] = world.dialer.events.map(({ headers }) => headers)
    expect(second?.['webhook-id']).toBe(first?.['webhook-id'])
    expect(second?.['webhook-signature']).not.toBe(first?.['webhook-signature'])
    expect(world.outcomes).toEqual(['retried', 'delivered'])
  })

  it.each([410, 413])(
    'E15 after %d there is no other attempt, and the next event is delivered',
    async (status) => {
      const world = new WebhookGateway()
      const { subscribe, note } = await world.process()
      await subscribe()
      answering(world, (n) => (n === 1 ? status : 204))
      await note(1, 2)
      await world.clock.advance(20 * MINUTE)
      expect(world.numbers).toEqual([1, 2])
      expect(await new DeadLetters(world.store).list()).toMatchObject([
        { name: 'noted', upstream: 'one', failure: 'http_4xx', event: { data: { n: 1 } } },
      ])
    },
  )

  it('E17 the cursor of an event is before those that are not accepted, and after those that were given up', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    const { cursor: start } = await subscribe()
    answering(world, (n) => (n === 1 ? 503 : 204))
    await note(1, 2, 3)
    const sealed = (cursor: unknown) => {
      const found = world.seal.open(String(cursor), {
        purpose: 'event-cursor',
        binding: JSON.stringify(['ada', 'one', 'noted', {}]),
      })
      return found.kind === 'valid' ? found.value : undefined
    }
    const cursors = world.bodies.map(({ cursor }) => sealed(cursor))
    expect(cursors[0]).toBeDefined()
    expect(cursors).toEqual([sealed(start), sealed(start), sealed(start)])
    await world.clock.advance(16 * MINUTE)
    await note(4)
    expect(sealed(world.bodies.at(-1)?.['cursor'])).not.toBe(sealed(start))
    const refreshed = await subscribe()
    expect(sealed(refreshed['cursor'])).not.toBe(sealed(world.bodies.at(-1)?.['cursor']))
    expect(refreshed).toMatchObject({
      deliveryStatus: { active: true, lastDeliveryAt: expect.any(String), lastError: null },
    })
  })

  it('events that the subscriber may not have are withheld, by the rights at the delivery', async () => {
    const world = new WebhookGateway()
    let mayReceive = true
    world.types = () => [{ ...noted, mayReceive: ({ data }) => data.n === undefined || mayReceive }]
    const { subscribe, note } = await world.process()
    await subscribe()
    answering(world, () => 503)
    await note(1)
    mayReceive = false
    await note(2)
    await world.clock.advance(16 * MINUTE)
    expect(world.numbers).toEqual([1])
    expect(world.outcomes).toEqual(['retried', 'withheld', 'withheld'])
    mayReceive = true
    await note(3)
    expect(world.numbers).toEqual([1, 3])
  })

  it('events wait while their server cannot be asked about rights', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe()
    world.types = () => {
      throw new GatewayError('SERVER_UNAVAILABLE', 'It is away.')
    }
    await world.clock.advance(MINUTE)
    await note(1)
    await world.clock.advance(10 * MINUTE)
    expect(world.bodies).toEqual([])
    world.types = () => [noted]
    await world.clock.advance(10_000)
    expect(world.numbers).toEqual([1])
  })
})

describe('deliveries: control messages', () => {
  it('a gap is told with a cursor, before the events that follow it', async () => {
    const world = new WebhookGateway()
    const first = await world.process()
    await first.subscribe()
    await first.deliveries.close()
    await first.note(1)
    await loseEvents(world)
    await first.note(2)
    await world.process()
    expect(world.bodies).toMatchObject([
      { type: 'gap', cursor: expect.any(String) },
      { eventId: expect.any(String), data: { n: 2 } },
    ])
    expect(world.dialer.events[0]?.headers['webhook-id']).toMatch(/^msg_gap_[0-9a-f]{24}$/)
  })

  it.each([
    ['withdrawn', [{ ...noted, mayReceive: () => false }], -32024, { reason: 'revoked' }],
    ['removed', [], -32023, { kind: 'event' }],
  ])('a type that is %s terminates its subscriptions', async (_title, types, code, data) => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe()
    world.types = () => types
    await world.clock.advance(2 * MINUTE)
    expect(world.bodies).toEqual([
      {
        type: 'terminated',
        error: { code, message: expect.any(String), data: expect.objectContaining(data) },
      },
    ])
    expect(world.dialer.events[0]?.headers['webhook-id']).toMatch(/^msg_terminated_/)
    expect(await world.store.scan('subscription')).toEqual(new Map())
    world.types = () => [noted]
    await note(1)
    expect(world.bodies).toHaveLength(1)
  })

  it.each([
    [
      'has an argument less',
      { inputSchema: { type: 'object', properties: { list: {} }, additionalProperties: false } },
      'inputSchema',
    ],
    [
      'has data of another type',
      { payloadSchema: { type: 'object', properties: { n: { type: 'string' } } } },
      'payloadSchema',
    ],
    [
      'has an argument more',
      { inputSchema: { ...noted.inputSchema, properties: { list: {}, tag: {}, new: {} } } },
      undefined,
    ],
    [
      'has a field more',
      { payloadSchema: { type: 'object', properties: { n: { type: 'number' }, new: {} } } },
      undefined,
    ],
    ['has another description', { description: 'It was noted.' }, undefined],
  ])(
    'a type that %s terminates its subscriptions only if that breaks clients',
    async (_title, change, feature) => {
      const world = new WebhookGateway()
      const type = { ...noted, payloadSchema: { type: 'object', properties: { n: { type: 'number' } } } }
      world.types = () => [type]
      const { subscribe, note } = await world.process()
      await subscribe()
      world.types = () => [{ ...type, ...change }]
      await world.clock.advance(2 * MINUTE)
      await note(1)
      const error = { code: -32026, data: { feature, reason: 'schema_changed' } }
      expect(world.bodies).toMatchObject(
        feature === undefined ? [{ data: { n: 1 } }] : [{ type: 'terminated', error }],
      )
    },
  )

  it.each([
    ['withdrawn', 'SEP-3415', {}, -32024],
    ['withdrawn', 'the sketch', { events: {} }, -32012],
    ['removed', 'SEP-3415', {}, -32023],
    ['removed', 'the sketch', { events: {} }, -32011],
  ])(
    'a type that is %s terminates subscriptions with the code of %s, in whichever process',
    async (how, _column, capabilities, code) => {
      const world = new WebhookGateway()
      const first = await world.process()
      const client = { era: 'modern', revision: '2026-07-28', capabilities } as const
      await first.subscribe(wanted(), { client })
      await first.deliveries.close()
      world.types = () => (how === 'removed' ? [] : [{ ...noted, mayReceive: () => false }])
      await world.process()
      await world.clock.advance(2 * MINUTE)
      expect(world.bodies).toMatchObject([{ type: 'terminated', error: { code } }])
    },
  )
})

describe('deliveries: suspension', () => {
  it('E19 a receiver at which almost all attempts fail is left alone until its subscriber subscribes again', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe(wanted({ ttlMs: 86_400_000 }))
    answering(world, () => 500)
    await note(...Array.from({ length: 60 }, (_, index) => index))
    await world.clock.advance(14 * MINUTE)
    const before = world.bodies.length
    expect(before).toBeGreaterThanOrEqual(100)
    expect(before).toBeLessThan(140)
    await world.clock.advance(40 * MINUTE)
    expect(world.bodies.length).toBe(before)
    const letters = (await new DeadLetters(world.store).list()).length
    world.dialer.answers.clear()
    expect(await subscribe(wanted({ ttlMs: 86_400_000 }))).toMatchObject({
      deliveryStatus: { active: true, lastError: 'http_5xx', failedSince: expect.any(String) },
    })
    await world.clock.advance(15 * MINUTE)
    // The time without attempts did not count: nothing was given up meanwhile.
    expect((await new DeadLetters(world.store).list()).length).toBe(letters)
    expect(new Set(world.numbers.slice(before)).size).toBe(60 - letters)
  })

  it('a subscription without an expiry ends when nothing was accepted for days', async () => {
    const world = new WebhookGateway()
    const first = await world.process()
    await first.subscribe(wanted({ ttlMs: null }))
    answering(world, () => 500)
    await first.note(1)
    await world.clock.advance(5000)
    await first.deliveries.close()
    const failing = async (days: number) => {
      const [[key, text] = ['', '{}']] = await world.store.scan('subscription')
      const record = JSON.parse(text) as { readonly webhook: Json }
      const failedSince = world.clock.now() - days * DAY
      await world.store.put(
        key,
        JSON.stringify({ ...record, webhook: { ...record.webhook, failedSince } }),
        DAY,
      )
      const { deliveries } = await world.process()
      await world.clock.advance(5000)
      await deliveries.close()
    }
    await failing(2.9)
    expect(world.bodies.at(-1)).toMatchObject({ data: { n: 1 } })
    expect(await world.store.scan('subscription')).toHaveProperty('size', 1)
    world.dialer.answers.clear()
    await loseEvents(world)
    await failing(3.1)
    expect(world.bodies.at(-1)).toMatchObject({ type: 'terminated', error: { code: -32027 } })
    expect(await world.store.scan('subscription')).toEqual(new Map())
  })

  it('a subscription without an expiry keeps that its receiver was verified', async () => {
    const world = new WebhookGateway()
    const first = await world.process()
    await first.subscribe(wanted({ ttlMs: null }))
    await first.deliveries.close()
    await world.clock.advance(3 * DAY)
    const { note } = await world.process()
    await note(1)
    // A gap comes first: events were kept for a day.
    expect(world.bodies[0]).toMatchObject({ type: 'gap' })
    expect([world.challenges, world.numbers]).toEqual([1, [undefined, 1]])
  })
})

describe('deliveries: dead letters', () => {
  it('an event that is given up is a dead letter, and is delivered again at the request of another process', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe()
    answering(world, (n) => (n === 1 ? 500 : 204))
    await note(1, 2)
    await world.clock.advance(16 * MINUTE)
    const letters = new DeadLetters(world.store)
    const [letter] = await letters.list()
    expect(letter).toMatchObject({ failure: 'http_5xx', event: { data: { n: 1 } } })
    const { length } = world.bodies
    const [{ eventId }] = [world.bodies[0] ?? {}]
    expect(await letters.requestRedelivery(letter ?? { id: '', owner: '' })).toBe(true)
    await world.clock.advance(16 * MINUTE)
    expect(world.bodies.length).toBe(length + 5)
    expect([await letters.count(), (await letters.requested()).length]).toEqual([1, 0])
    world.dialer.answers.clear()
    await letters.requestRedelivery(letter ?? { id: '', owner: '' })
    await world.clock.advance(5000)
    expect(world.bodies.at(-1)).toMatchObject({ eventId, data: { n: 1 } })
    expect([await letters.count(), (await letters.requested()).length]).toEqual([0, 0])
  })

  it('a request for a subscription that ended is dropped, and the dead letter stays', async () => {
    const world = new WebhookGateway()
    const { subscribe, unsubscribe, note } = await world.process()
    await subscribe()
    answering(world, () => 413)
    await note(1)
    await world.clock.advance(1000)
    await unsubscribe()
    const letters = new DeadLetters(world.store)
    const [letter] = await letters.list()
    await letters.requestRedelivery(letter ?? { id: '', owner: '' })
    await world.clock.advance(5000)
    expect([await letters.count(), (await letters.requested()).length]).toEqual([1, 0])
  })
})

describe('deliveries: processes', () => {
  it('a subscription goes on where it was when its process ends', async () => {
    const world = new WebhookGateway()
    const first = await world.process()
    await first.subscribe()
    await first.note(1)
    await first.deliveries.close()
    await first.note(2)
    const second = await world.process()
    expect(world.numbers).toEqual([1, 2])
    await second.note(3)
    expect(world.numbers).toEqual([1, 2, 3])
  })

  it('one of two processes delivers, whichever the events and the subscription come from', async () => {
    const world = new WebhookGateway()
    const [one, other] = [await world.process(), await world.process()]
    await one.subscribe()
    await other.note(1)
    await until(() => world.numbers.length > 0, 'the event of the other process')
    await one.note(2)
    await world.clock.advance(MINUTE)
    expect(world.numbers).toEqual([1, 2])
    await other.unsubscribe()
    await world.clock.advance(5000)
    await one.note(3)
    expect(world.numbers).toEqual([1, 2])
  })

  it('without subscriptions the records are looked at less often, and nothing is written or left behind', async () => {
    const world = new WebhookGateway()
    const looks = vi.spyOn(world.store, 'scan')
    const writes = (['put', 'setIfAbsent', 'compareAndSwap', 'delete'] as const).map((name) => {
      return vi.spyOn(world.store, name)
    })
    const looksIn = async (time: number): Promise<number> => {
      looks.mockClear()
      await world.clock.advance(time)
      return looks.mock.calls.filter(([collection]) => collection === 'subscription').length
    }
    const one = await world.process()
    expect(await looksIn(MINUTE)).toBe(10)
    const idleOne = await world.process()
    await idleOne.deliveries.close()
    expect(writes.flatMap(({ mock }) => mock.calls)).toEqual([])
    await one.subscribe()
    expect(await looksIn(MINUTE)).toBe(30)
  })

  it('a change of the secret in another process takes effect', async () => {
    const world = new WebhookGateway()
    const [one, other] = [await world.process(), await world.process()]
    await one.subscribe()
    const secret = `whsec_${Buffer.alloc(32, 9).toString('base64')}`
    await other.subscribe(wanted({}, { secret }))
    await world.clock.advance(5000)
    await one.note(1)
    expect(world.dialer.events[0]?.headers['webhook-signature']?.split(' ')).toHaveLength(2)
  })

  it.each([
    ['at once where it is known that the process ended', true, 3000],
    ['once its lease is over', false, 40_000],
  ])('after a crash another process repeats what was not written, %s', async (_title, isKnown, within) => {
    const world = new WebhookGateway()
    const crashed = await world.process()
    await crashed.subscribe()
    await crashed.note(1)
    await world.clock.advance(1000)
    const { store } = world
    // From here on nothing that the first process writes arrives any more.
    const fail = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The process ended.'))
    Object.assign(crashed.deliveries.subscriptions, { advance: fail, all: fail })
    await crashed.note(2)
    world.dialer.answers.set(HOOK, () => new Promise(() => undefined))
    await crashed.note(3)
    world.dialer.answers.clear()
    const other = await world.process()
    await world.clock.advance(20_000)
    expect(world.numbers).toEqual([1, 2, 3])
    if (isKnown) world.ended.add(crashed.id)
    await world.clock.advance(within)
    expect(world.numbers).toEqual([1, 2, 3, 2, 3])
    const ids = world.bodies.map(({ eventId }) => eventId)
    expect(ids.slice(3)).toEqual(ids.slice(1, 3))
    await other.note(4)
    expect(world.numbers.at(-1)).toBe(4)
    expect(await store.scan('subscription')).toHaveProperty('size', 1)
  })

  it('settled events are written together: not once for each', async () => {
    const world = new WebhookGateway()
    let writes = 0
    const { store } = world
    const counting: Store = new Proxy(store, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        if (name === 'compareAndSwap') writes++
        return member.bind(target)
      },
    })
    world.store = counting
    const { subscribe, events } = await world.process()
    await subscribe()
    await events.log.append(
      Array.from({ length: 300 }, (_, n) => ({ id: `evt_${n}`, name: 'noted', at: Date.now(), data: { n } })),
    )
    events.wake()
    await until(() => world.numbers.length === 300, 'all events')
    writes = 0
    await world.clock.advance(1000)
    await idle()
    expect(writes).toBe(1)
  })
})
