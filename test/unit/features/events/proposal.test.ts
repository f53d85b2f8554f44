import { publishing } from '../../../../src/features/offers.ts'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import type { FeatureInstance } from '../../../../src/features/feature.ts'
import {
  ada,
  added,
  bob,
  closeAll,
  eventGateway,
  eventSession,
  eventWorld,
  textsIn,
} from '../../../support/event-clients.ts'
import { type ServiceStubs, offeredBy } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'

const uuid = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/
const own = '0b0f6c1e-4c6e-4f0e-9a58-3f2f6b1f0a11'

let world = eventWorld()
const opened: FeatureInstance[] = []
beforeEach(() => {
  world = eventWorld()
})
afterEach(() => closeAll(opened))

function gateway(given: ServiceStubs = {}, settings: Parameters<typeof eventGateway>[2] = {}) {
  const made = eventGateway(world, given, settings)
  opened.push(made.instance)
  return made
}

describe('event/subscribe', () => {
  it('returns an id, a time of expiry and the supported events, and renews with the same id', async () => {
    const { subscribe } = gateway()
    const before = Date.now()
    const first = await subscribe({ events: [added] })
    expect(first).toMatchObject({ status: 'active', subscription_id: expect.stringMatching(uuid) })
    expect(first['supported_events']).toContain(added)
    expect(Date.parse(String(first['expires_at'])) - before).toBeGreaterThanOrEqual(3_599_000)
    const id = first['subscription_id']
    const renewed = await subscribe({ events: [added], subscription_id: id, ttl_seconds: 1e9 })
    expect(renewed['subscription_id']).toBe(id)
    const granted = Date.parse(String(renewed['expires_at'])) - before
    expect(granted).toBeGreaterThan(86_390_000)
    expect(granted).toBeLessThan(86_500_000)
  })

  it('takes an id that the client chose, and keeps it as it is', async () => {
    const { subscribe, poll, add } = gateway()
    const id = 'sub-git-main-Commits'
    expect(await subscribe({ events: [added], subscription_id: id })).toMatchObject({
      status: 'active',
      subscription_id: id,
    })
    await add({ text: '1' })
    expect(await poll({ subscription_id: id })).toMatchObject({
      subscription_id: id,
      events: [{ event: added }],
    })
    await expect(poll({ subscription_id: id.toLowerCase() })).rejects.toMatchObject({
      error: { code: 'RESOURCE_NOT_FOUND' },
    })
  })

  it('denies an unknown event, and names the supported ones', async () => {
    const { subscribe, poll } = gateway()
    const denied = await subscribe({ events: [added, 'nothing'], subscription_id: own })
    expect(denied).toMatchObject({ status: 'denied', subscription_id: own })
    expect(denied['supported_events']).toContain('drop_note.succeeded')
    expect(denied['reason']).toContain('nothing')
    expect(denied).not.toHaveProperty('expires_at')
    await expect(poll({ subscription_id: own })).rejects.toMatchObject({
      error: { code: 'RESOURCE_NOT_FOUND' },
    })
  })

  it.each([
    [{}, 'events'],
    [{ events: [] }, 'events'],
    [{ events: [1] }, 'events'],
    [{ events: [added], subscription_id: 'a/b' }, 'subscription_id'],
    [{ events: [added], subscription_id: `sub_${'a'.repeat(32)}` }, 'subscription_id'],
    [{ events: [added], ttl_seconds: 0 }, 'ttl_seconds'],
    [{ events: [added], filter: 'x' }, 'filter'],
    [{ events: [added], filter: { colour: 1 } }, 'filter.colour'],
    [{ events: ['resource_updated'] }, 'filter.uri'],
    [{ events: ['resource_updated'], filter: { uri: 'note:///*' } }, 'filter.uri'],
  ])('refuses %j, and names the parameter', async (params, field) => {
    await expect(gateway().subscribe(params)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      extra: { field },
    })
  })

  it('names the known fields where a filter has an unknown one', async () => {
    const refused = gateway().subscribe({ events: [added], filter: { colour: 1 } })
    await expect(refused).rejects.toThrow(/These are known: list, text, password, n, tool, arguments/)
  })

  it('is refused to a caller who has a quarter of all subscriptions', async () => {
    const { subscribe } = gateway()
    const first = await subscribe({ events: [added] })
    const key = [...(await world.store.scan('subscription')).keys()][0] ?? ''
    const prefix = key.slice(0, key.indexOf(':') + 1)
    for (let count = 0; count < 1000; count++)
      await world.store.setIfAbsent(`${prefix}${count}`, '{}', 60_000)
    await expect(subscribe({ events: [added] })).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    expect(await subscribe({ events: [added] }, { principal: bob })).toMatchObject({ status: 'active' })
    const again = await subscribe({ events: [added], subscription_id: first['subscription_id'] })
    expect(again).toMatchObject({ status: 'active' })
  })
})

describe('event/unsubscribe and event/list', () => {
  it('ends a subscription; an unknown one, and that of another caller or address, is not found', async () => {
    const { subscribe, request, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added] })
    const missing = { code: 'RESOURCE_NOT_FOUND', extra: { data: { kind: 'subscription' } } }
    const end = (params: Json, call: Partial<Call> = {}) => request('event/unsubscribe', params, call)
    await expect(end({ subscription_id: own })).rejects.toMatchObject(missing)
    await expect(end({ subscription_id: id }, { principal: bob })).rejects.toMatchObject(missing)
    const elsewhere = { method: 'event/unsubscribe', upstream: 'two', isBuiltin: true } as const
    await expect(end({ subscription_id: id }, { target: elsewhere })).rejects.toMatchObject(missing)
    await expect(poll({ subscription_id: id }, { principal: bob })).rejects.toMatchObject({
      error: { code: 'RESOURCE_NOT_FOUND' },
    })
    expect(await end({ subscription_id: id })).toEqual({ subscription_id: id, status: 'cancelled' })
    await expect(end({ subscription_id: id })).rejects.toMatchObject(missing)
  })

  it('lists the events with the fields of their filters, for clients of all revisions', async () => {
    const legacy = { era: 'legacy', revision: '2024-11-05', capabilities: {} } as const
    const { events, supported_events: names } = await gateway().request('event/list', {}, { client: legacy })
    expect(names).toContain(added)
    expect(events).toContainEqual({
      event: 'resource_updated',
      description: 'A resource was updated.',
      filter_fields: ['uri'],
      required_fields: ['uri'],
      payload_schema: expect.any(Object),
    })
  })
})

describe('poll_events', () => {
  it('returns the events of a subscription once, and those after a cursor again', async () => {
    const { subscribe, add, poll } = gateway()
    await add({ text: 'before' })
    const { subscription_id: id } = await subscribe({ events: [added] })
    await add({ text: '1' })
    await add({ text: '2' })
    const first = await poll({ subscription_id: id })
    expect(first).toMatchObject({ subscription_id: id, has_more: false, poll_interval_seconds: 5 })
    expect(textsIn(first['events'])).toEqual(['1', '2'])
    expect((first['events'] as Json[])[0]).toEqual({
      type: 'event',
      subscription_id: id,
      event: added,
      event_type: added,
      event_id: expect.stringMatching(/^evt_/),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      payload: { tool: 'add_note', arguments: { text: '1' } },
      cursor: expect.any(String),
      _meta: { 'dev.gatehouse/untrusted': true },
    })
    expect((await poll({ subscription_id: id }))['events']).toEqual([])
    const after = (first['events'] as Json[])[0]?.['cursor']
    expect(textsIn((await poll({ subscription_id: id, after }))['events'])).toEqual(['2'])
    await add({ text: '3' })
    expect(textsIn((await poll({ subscription_id: id }))['events'])).toEqual(['3'])
  })

  it('goes on at another gateway with the same store, and returns at most max_events', async () => {
    const { subscribe, add, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added] })
    for (const text of ['1', '2', '3']) await add({ text })
    const first = await poll({ subscription_id: id, max_events: 2 })
    expect([textsIn(first['events']), first['has_more']]).toEqual([['1', '2'], true])
    await closeAll(opened)
    const { membership, scope } = eventWorld()
    expect(textsIn((await gateway({ membership, scope }).poll({ subscription_id: id }))['events'])).toEqual([
      '3',
    ])
  })

  it('refuses a cursor of another subscription or caller', async () => {
    const { subscribe, poll } = gateway()
    const [one, other] = await Promise.all([subscribe({ events: [added] }), subscribe({ events: [added] })])
    const { cursor: after } = await poll({ subscription_id: one['subscription_id'] })
    for (const cursor of [after, 'x', 1]) {
      await expect(poll({ subscription_id: other['subscription_id'], after: cursor })).rejects.toMatchObject({
        error: { code: 'INVALID_INPUT' },
      })
    }
  })

  it.each([
    [{ list: 'a' }, ['1', '3']],
    [{ list: ['a', 'b'] }, ['1', '2', '3']],
    [{ list: 'a', text: '3*' }, ['3']],
    [{ tool: 'add_*' }, ['1', '2', '3', '4']],
    [{ tool: 'other' }, []],
  ])('filters by %j', async (filter, texts) => {
    const { subscribe, add, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added], filter })
    for (const [list, text] of [
      ['a', '1'],
      ['b', '2'],
      ['a', '3'],
      ['c', '4'],
    ])
      await add({ list, text })
    expect(textsIn((await poll({ subscription_id: id }))['events'])).toEqual(texts)
  })

  it('has several types in the order in which they happened', async () => {
    const { subscribe, add, write, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added, 'drop_note.succeeded'] })
    await add({ text: '1' })
    await write('drop_note', { text: '2' })
    await add({ text: '3' })
    const { events } = await poll({ subscription_id: id })
    expect(textsIn(events)).toEqual(['1', '2', '3'])
    expect((events as Json[]).map(({ event }) => event)).toEqual([added, 'drop_note.succeeded', added])
  })

  it('has events of several servers at the address of all, in the order in which they happened, page by page', async () => {
    const { subscribe, add, poll, instance } = gateway({ servers: () => ['one', 'two'] })
    const at = (method: string): Partial<Call> => ({ target: { method, isBuiltin: true } })
    const types = [`one_${added}`, 'two_contract_changed']
    const { subscription_id: id } = await subscribe({ events: types }, at('event/subscribe'))
    const other = await subscribe({ events: ['two_contract_changed'] }, at('event/subscribe'))
    const isLogged = async () => {
      const { events } = await poll({ subscription_id: other['subscription_id'] }, at('tools/call'))
      return (events as Json[]).length > 0
    }
    for (const version of ['1', '2', '3']) {
      await add({ text: version })
      offeredBy(instance, publishing)?.('two', { name: 'contract_changed', data: { after: version } })
      await expect.poll(isLogged).toBe(true)
      // Events of different servers are in the order of their times, in milliseconds.
      await pause(2)
    }
    const names: unknown[] = []
    for (let hasMore: unknown = true; hasMore === true;) {
      const page = await poll({ subscription_id: id, max_events: 1 }, at('tools/call'))
      names.push(...(page['events'] as Json[]).map(({ event }) => event))
      hasMore = page['has_more']
    }
    expect(names).toEqual([...types, ...types, ...types])
    await expect(poll({ subscription_id: id })).rejects.toMatchObject({
      error: { code: 'RESOURCE_NOT_FOUND' },
    })
  })

  it('keeps 1,000 events, and says how many older ones were dropped', async () => {
    const { subscribe, add, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added] })
    for (let count = 1; count <= 1003; count++) await add({ text: String(count) })
    const found = await poll({ subscription_id: id, max_events: 2 })
    expect(textsIn(found['events'])).toEqual(['4', '5'])
    expect(found).toMatchObject({ dropped: 3, has_more: true })
    const [first, second] = found['events'] as Json[]
    expect(first).toMatchObject({ _meta: { 'dev.gatehouse/dropped': 3 } })
    expect(second?.['_meta']).toEqual({ 'dev.gatehouse/untrusted': true })
  })

  it('keeps 1 MB, however few events that are', async () => {
    const { subscribe, add, poll } = gateway()
    const { subscription_id: id } = await subscribe({ events: [added] })
    const n = 'x'.repeat(3500)
    for (let count = 1; count <= 320; count++) await add({ n, text: String(count) })
    const found = await poll({ subscription_id: id, max_events: 1 })
    expect(found['dropped']).toBeGreaterThan(20)
    expect(textsIn(found['events'])).toEqual([String(Number(found['dropped']) + 1)])
  })

  it('checks the rights of the present caller for each event, and has no secrets and masked data', async () => {
    const isPermitted = async ({ principal, params }: Call) =>
      principal.scopes?.has('all') === true ||
      JSON.stringify(params.fields).includes('"list":"a"') ||
      !JSON.stringify(params.fields).includes('list')
    const masked = (value: unknown) =>
      JSON.parse(JSON.stringify(value).replaceAll('canary', 'xxx')) as unknown
    const { subscribe, add, poll } = gateway({ isPermitted, masked })
    const all = { ...ada, scopes: new Set(['all']) }
    const { subscription_id: id } = await subscribe({ events: [added] }, { principal: all })
    await add({ list: 'b', text: '1' })
    await add({ list: 'a', text: 'a canary', password: 'hunter2' })
    const found = await poll({ subscription_id: id }, { principal: { ...ada, scopes: new Set() } })
    expect(textsIn(found['events'])).toEqual(['a xxx'])
    expect(JSON.stringify(found)).not.toMatch(/canary|hunter2/)
  })
})

describe('events on the stream of a session', () => {
  it('arrive in order, for each of two subscribers by its filter', async () => {
    const { subscribe, add } = gateway()
    const [one, other] = [eventSession(), eventSession()]
    const first = await subscribe({ events: [added] }, one.call)
    const second = await subscribe({ events: [added], filter: { list: 'b' } }, other.call)
    expect([first['status'], second['status']]).toEqual(['active', 'active'])
    for (let count = 0; count < 100; count++) await add({ list: count % 10 === 0 ? 'b' : 'a', text: count })
    await expect.poll(one.events).toHaveLength(100)
    await expect.poll(other.events).toHaveLength(10)
    expect(one.texts()).toEqual(Array.from({ length: 100 }, (_each, index) => index))
    expect(other.texts()).toEqual(Array.from({ length: 10 }, (_each, index) => index * 10))
    expect(one.events()[0]).toMatchObject({
      type: 'event',
      subscription_id: first['subscription_id'],
      event_type: added,
      _meta: { 'dev.gatehouse/untrusted': true },
    })
  })

  it('are polled where no stream is open: active, with an interval', async () => {
    const { subscribe, add, poll } = gateway()
    const { stream: _none, ...without } = eventSession().call
    const closed = eventSession()
    closed.state.isOpen = false
    for (const call of [without, closed.call]) {
      const polled = await subscribe({ events: [added] }, call)
      expect(polled).toMatchObject({
        status: 'active',
        supported: false,
        poll_interval_seconds: 5,
        reason: expect.stringContaining('poll_events'),
        expires_at: expect.any(String),
      })
      await add({ text: 'x' })
      expect(textsIn((await poll({ subscription_id: polled['subscription_id'] }))['events'])).toEqual(['x'])
    }
  })

  it('end with a notice when the subscription expires, and without one when its client ends it', async () => {
    const { subscribe, request, add, poll } = gateway()
    const [one, other] = [eventSession(), eventSession()]
    const short = await subscribe({ events: [added], ttl_seconds: 0.3 }, one.call)
    const ended = await subscribe({ events: [added] }, other.call)
    await request('event/unsubscribe', { subscription_id: ended['subscription_id'] })
    await expect.poll(() => one.received, { timeout: 5000 }).toHaveLength(1)
    expect(one.received).toMatchObject([
      {
        method: 'notifications/subscription_terminated',
        params: { subscription_id: short['subscription_id'], reason: 'expired' },
      },
    ])
    await add({ text: 'x' })
    await expect(poll({ subscription_id: short['subscription_id'] })).rejects.toThrow('it failed')
    expect([one.events(), other.received]).toEqual([[], []])
  })

  it('wait while the client is away, and then follow those that it got', async () => {
    const { subscribe, add } = gateway()
    const session = eventSession()
    await subscribe({ events: [added] }, session.call)
    await add({ text: '1' })
    await expect.poll(session.texts).toEqual(['1'])
    session.state.isOpen = false
    await add({ text: '2' })
    await add({ text: '3' })
    expect(session.texts()).toEqual(['1'])
    session.state.isOpen = true
    await expect.poll(session.texts).toEqual(['1', '2', '3'])
  })

  it('are not lost, and stay in order, if it cannot be checked for a while who may receive them', async () => {
    let checks = 0
    const isPermitted = async ({ params }: Call) => {
      // The second check of the event is that before it is sent.
      if (JSON.stringify(params.fields).includes('first') && ++checks === 2)
        throw new GatewayError('SERVER_UNAVAILABLE', 'The server is down.')
      return true
    }
    const { subscribe, add } = gateway({ isPermitted })
    const session = eventSession()
    await subscribe({ events: [added] }, session.call)
    await add({ text: 'first' })
    await add({ text: 'second' })
    await expect.poll(session.texts).toEqual(['first', 'second'])
    expect(checks).toBe(3)
  })

  it('are dropped beyond 1,000 for a client that does not read, and the next one says how many', async () => {
    const { subscribe, add } = gateway()
    const session = eventSession()
    const blocked = Promise.withResolvers<void>()
    session.state.drained = blocked.promise
    await subscribe({ events: [added] }, session.call)
    await add({ text: '0' })
    await expect.poll(session.texts).toEqual(['0'])
    for (let count = 1; count <= 1100; count++) await add({ text: String(count) })
    // All of it is read before the client reads on.
    await new Promise(setImmediate)
    blocked.resolve()
    await expect.poll(() => session.texts().at(-1), { timeout: 10_000 }).toBe('1100')
    const { _meta: meta } = session.events()[1] ?? {}
    const dropped = Number((meta as Json)['dev.gatehouse/dropped'])
    expect(dropped).toBeGreaterThan(50)
    expect(session.texts().slice(1, 3)).toEqual([String(dropped + 1), String(dropped + 2)])
    expect(session.events()).toHaveLength(1101 - dropped)
  })

  it('go on in the next runtime, with its rights: a caller that lost them gets a notice', async () => {
    const first = gateway()
    const session = eventSession()
    const { subscription_id: id } = await first.subscribe({ events: [added] }, session.call)
    await first.add({ text: '1' })
    await expect.poll(session.texts).toEqual(['1'])
    const second = gateway()
    await first.instance.close?.()
    await second.add({ text: '2' })
    await second.instance.start?.()
    await expect.poll(session.texts).toEqual(['1', '2'])
    session.state.principal = { id: 'ada', scopes: new Set() }
    const third = gateway({ isPermitted: async ({ principal }) => !principal.scopes })
    await second.instance.close?.()
    await third.add({ text: '3' })
    await third.instance.start?.()
    await expect
      .poll(() => session.received.at(-1))
      .toMatchObject({
        method: 'notifications/subscription_terminated',
        params: { subscription_id: id, reason: 'revoked' },
      })
    expect(session.texts()).toEqual(['1', '2'])
    await expect(third.poll({ subscription_id: id })).rejects.toMatchObject({
      error: { code: 'RESOURCE_NOT_FOUND' },
    })
  })

  it.each([
    ['may not have them any more', 'revoked', { isPermitted: async () => false }],
    ['is of a tool that is gone', 'upstream_gone', { tools: async () => [] }],
    ['is at a server that is gone', 'upstream_gone', { servers: () => [] }],
  ])('end with a notice in the next runtime if their subscription %s', async (_title, reason, given) => {
    const first = gateway()
    const session = eventSession()
    const { subscription_id: id } = await first.subscribe({ events: [added] }, session.call)
    const second = gateway(given)
    await first.instance.close?.()
    await second.instance.start?.()
    await expect
      .poll(() => session.received)
      .toMatchObject([
        {
          method: 'notifications/subscription_terminated',
          params: { subscription_id: id, reason },
        },
      ])
    expect(await world.store.scan('subscription')).toEqual(new Map())
  })

  it('end with a notice if the next runtime has no events', async () => {
    const first = gateway()
    const session = eventSession()
    const { subscription_id: id } = await first.subscribe({ events: [added] }, session.call)
    await first.instance.close?.()
    expect(session.received).toMatchObject([
      {
        method: 'notifications/subscription_terminated',
        params: { subscription_id: id, reason: 'upstream_gone' },
      },
    ])
    expect(await world.store.scan('subscription')).toEqual(new Map())
  })

  it('end with a notice if their subscription expires while another runtime takes over', async () => {
    const first = gateway()
    const session = eventSession()
    const { subscription_id: id } = await first.subscribe({ events: [added], ttl_seconds: 0.5 }, session.call)
    const second = gateway()
    await first.instance.close?.()
    await expect.poll(() => world.store.scan('subscription')).toEqual(new Map())
    await second.instance.start?.()
    await expect
      .poll(() => session.received)
      .toMatchObject([{ params: { subscription_id: id, reason: 'expired' } }])
  })

  it('end with a notice when the gateway stops; the subscription stays', async () => {
    const closing = new AbortController()
    const { subscribe } = gateway({ closing: closing.signal })
    const session = eventSession()
    const { subscription_id: id } = await subscribe({ events: [added] }, session.call)
    closing.abort()
    await closeAll(opened)
    expect(session.received).toMatchObject([{ params: { subscription_id: id, reason: 'shutdown' } }])
    const { membership, scope } = eventWorld()
    expect(await gateway({ membership, scope }).poll({ subscription_id: id })).toMatchObject({ events: [] })
  })
})
