import { describe, expect, it } from 'vitest'
import { createDialer } from '../../../../../src/features/dialer.ts'
import { verifySigned } from '../../../../../src/core/standard-webhooks.ts'
import { anonymous } from '../../../../../src/core/principal.ts'
import type { Json } from '../../../../support/server/json.ts'
import { ada, bob, HOOK, noted, wanted, WebhookGateway } from '../../../../support/webhook-gateway.ts'
import { response, secretOf } from '../../../../support/webhooks.ts'

const HOUR = 3_600_000

function secretOfLength(bytes: number): string {
  return `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`
}

describe('events/subscribe', () => {
  it('verifies the receiver within the call, then delivers what happens, signed and with a cursor', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await note(0)
    const result = await subscribe()
    expect(result).toEqual({
      id: expect.stringMatching(/^sub_[\w-]{32}$/),
      refreshBefore: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]{12}Z$/),
      cursor: expect.any(String),
      truncated: false,
    })
    expect(world.dialer.requests.map(({ json }) => json['type'])).toEqual(['verification'])
    await note(1, 2)
    expect(world.numbers).toEqual([1, 2])
    const [first, second] = world.dialer.events
    expect(first?.json).toEqual({
      eventId: expect.stringMatching(/^evt_/),
      name: 'noted',
      timestamp: expect.any(String),
      data: { n: 1, list: 'a' },
      cursor: expect.any(String),
      _meta: { 'dev.gatehouse/untrusted': true },
    })
    for (const { headers, body, at, json } of [first, second].flatMap((each) => each ?? [])) {
      expect(headers).toMatchObject({ 'x-mcp-subscription-id': result['id'], 'webhook-id': json['eventId'] })
      expect(verifySigned(headers, body, { secrets: [secretOf(1)], now: at }).kind).toBe('valid')
    }
    expect(world.outcomes).toEqual(['delivered', 'delivered'])
  })

  it.each([
    ['E3 http', { url: 'http://ada.example/hook' }],
    ['no URL', { url: 7 }],
    ['credentials', { url: 'https://a:b@ada.example/' }],
    ['E4 a secret of 23 bytes', { secret: secretOfLength(23) }],
    ['E4 a secret of 65 bytes', { secret: secretOfLength(65) }],
    ['E4 a secret without its prefix', { secret: secretOfLength(32).slice(6) }],
    ['E4 bad base64', { secret: 'whsec_!!!' }],
    ['no secret', { secret: undefined }],
    ['no mode', { mode: undefined }],
  ])('refuses %s, and sends nothing', async (_title, delivery) => {
    const world = new WebhookGateway()
    const { subscribe } = await world.process()
    await expect(subscribe(wanted({}, delivery))).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      rpc: -32602,
    })
    expect(world.dialer.requests).toEqual([])
  })

  it.each([24, 64])('E4 takes a secret of %d bytes', async (bytes) => {
    const { subscribe } = await new WebhookGateway().process()
    expect(await subscribe(wanted({}, { secret: secretOfLength(bytes) }))).toHaveProperty('id')
  })

  it.each([
    ['an unknown type', wanted({ name: 'other' }), { rpc: -32023, extra: { data: { kind: 'event' } } }],
    ['an unknown argument', wanted({ arguments: { x: 1 } }), { rpc: -32602 }],
    ['a time that is no number', wanted({ ttlMs: '1h' }), { rpc: -32602 }],
    ['another mode', wanted({}, { mode: 'push' }), { rpc: -32026, extra: { data: { value: 'push' } } }],
  ])('refuses %s', async (_title, params, error) => {
    const { subscribe } = await new WebhookGateway().process()
    await expect(subscribe(params)).rejects.toMatchObject(error)
  })

  it('E5 is forbidden to callers that are not distinguished', async () => {
    const { subscribe, unsubscribe } = await new WebhookGateway().process()
    for (const request of [subscribe, unsubscribe]) {
      await expect(request(wanted(), { principal: anonymous })).rejects.toMatchObject({
        code: 'PERMISSION_DENIED',
        rpc: -32024,
        extra: { data: { reason: 'authentication_required' } },
      })
    }
  })

  it('E6 E7 has the same id for the same caller, URL and arguments in any order, also after a restart', async () => {
    const world = new WebhookGateway()
    const first = await world.process()
    const { id } = await first.subscribe(wanted({ arguments: { list: 'a', tag: 1 } }))
    await first.deliveries.close()
    const { subscribe } = await world.process()
    expect(await subscribe(wanted({ arguments: { tag: 1, list: 'a' } }))).toMatchObject({ id })
    const others = [
      await subscribe(wanted({ arguments: { list: 'b', tag: 1 } })),
      await subscribe(wanted({ arguments: { list: 'a', tag: 1 } }, { url: `${HOOK}&` })),
      await subscribe(wanted({ arguments: { list: 'a', tag: 1 } }), { principal: bob }),
    ]
    expect(new Set([id, ...others.map((each) => each['id'])]).size).toBe(4)
  })

  it('E8 fails with a category if the receiver cannot be reached or does not echo, and then nothing is sent', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    const post = world.dialer.post.bind(world.dialer)
    const failing = async (outcome: Awaited<ReturnType<typeof post>>) => {
      world.dialer.post = () => Promise.resolve(outcome)
      const { extra, rpc } = await subscribe().then(
        () => {
          throw new Error('it was verified')
        },
        (error: { readonly extra: Json; readonly rpc: number }) => error,
      )
      return [rpc, extra['data']]
    }
    expect(await failing({ ...response(200), body: '{"challenge":"x"}' } as never)).toEqual([
      -32027,
      { reason: 'challenge_failed' },
    ])
    expect(await failing({ kind: 'failed', reason: 'connection' })).toEqual([
      -32027,
      { reason: 'connection_refused' },
    ])
    expect(await failing(response(500))).toEqual([-32027, { reason: 'http_5xx' }])
    world.dialer.post = post
    await note(1)
    await world.clock.advance(HOUR)
    expect(world.dialer.requests).toEqual([])
  })

  it.each([
    [200, '{"receivers":["/other/","/"]}', true],
    [503, '{"receivers":["/hooks"]}', true],
    [404, '{"receivers":["/hooks/ada"]}', true],
    [404, '{"receivers":["/hooks/a"]}', false],
    [404, '{"receivers":["hooks/ada",""]}', false],
    [404, '["/"]', false],
    [404, undefined, false],
  ])(
    'a receiver that answers a challenge with %d is verified if its origin publishes it: with %s it is %s',
    async (status, file, isVerified) => {
      const world = new WebhookGateway()
      const { subscribe, note } = await world.process()
      const url = 'https://ada.example/hooks/ada?key=7'
      const place = 'https://ada.example/.well-known/mcp-webhook-receiver.json'
      world.dialer.mute.set(url, status)
      if (file !== undefined) world.dialer.files.set(place, file)
      const refused = await subscribe(wanted({}, { url })).catch((error: unknown) => error)
      expect(refused).toMatchObject(isVerified ? { id: expect.any(String) } : { rpc: -32027 })
      await note(1)
      expect(world.numbers).toEqual(isVerified ? [1] : [])
      expect(world.dialer.read).toEqual([place])
    },
  )

  it('reads no file of an origin that echoes, that cannot be reached, or that failed ten times within a minute', async () => {
    const world = new WebhookGateway()
    const { subscribe } = await world.process()
    await subscribe()
    expect(world.dialer.read).toEqual([])
    const url = 'http://10.0.0.1/hook'
    const { subscribe: trusting } = await world.process({ allow: ['http://10.0.0.1'] })
    world.dialer.mute.set(url, 404)
    await expect(trusting(wanted({}, { url }))).rejects.toMatchObject({ rpc: -32027 })
    expect(world.dialer.read).toEqual([])
    world.dialer.mute.set(HOOK, 404)
    for (let n = 0; n < 12; n++)
      await expect(subscribe(wanted(), { principal: { id: `caller ${n}` } })).rejects.toMatchObject({
        rpc: -32027,
      })
    expect(world.dialer.read).toHaveLength(10)
  })

  it('E9 sends one challenge for a caller and a URL, whatever the arguments, and another one for other callers', async () => {
    const world = new WebhookGateway()
    const { subscribe } = await world.process()
    await subscribe(wanted({ arguments: { list: 'a' } }))
    await subscribe(wanted({ arguments: { list: 'b' } }))
    expect(world.challenges).toBe(1)
    await subscribe(wanted({ arguments: { list: 'a' } }), { principal: bob })
    expect(world.challenges).toBe(2)
    const other = await world.process()
    await other.subscribe(wanted({ arguments: { list: 'c' } }))
    expect(world.challenges).toBe(2)
  })

  it.each([
    ['E10 a name that is private at the delivery', '127.0.0.1'],
    ['E12 a metadata address', '169.254.169.254'],
    ['E12 a unique local address', 'fd00::1'],
    ['E12 a mapped address', '::ffff:10.0.0.1'],
    ['E12 the unspecified address', '0.0.0.0'],
  ])('%s is not connected to', async (_title, address) => {
    const world = new WebhookGateway()
    let addresses = ['8.8.8.8']
    const connected: string[] = []
    const dialer = createDialer({
      allow: [],
      resolve: async () => addresses,
      connect: ({ hostname }, callback) => {
        connected.push(hostname)
        callback(new Error('there is no network here'), null)
      },
    })
    const { subscribe, note } = await world.process({ dialer })
    const rejected = { rpc: -32027, extra: { data: { reason: 'connection_refused' } } }
    await expect(subscribe()).rejects.toMatchObject(rejected)
    expect(connected).toEqual(['8.8.8.8'])
    // It was verified at its public address before.
    const earlier = await world.process()
    await earlier.subscribe()
    await earlier.deliveries.close()
    const { length } = world.dialer.requests
    addresses = [address]
    await world.clock.advance(60_000)
    await note(1)
    await world.clock.advance(10_000)
    expect(world.outcomes).toContain('retried')
    expect([connected, world.dialer.requests.length]).toEqual([['8.8.8.8'], length])
  })

  it('E18 grants what is asked within bounds: a time is always granted, and none only where the store is durable', async () => {
    const world = new WebhookGateway()
    const { subscribe } = await world.process({ maxTtlMs: 2 * HOUR })
    const granted = async (params: Json): Promise<number | null> => {
      const { refreshBefore } = await subscribe(wanted(params))
      return refreshBefore === null
        ? null
        : Math.round((Date.parse(String(refreshBefore)) - Date.now()) / 1000)
    }
    expect(await granted({})).toBe(3600)
    expect(await granted({ ttlMs: 1_800_000 })).toBe(1800)
    expect(await granted({ ttlMs: 1e15 })).toBe(7200)
    expect(await granted({ ttlMs: 0 })).toBe(60)
    expect(await granted({ ttlMs: -5 })).toBe(60)
    expect(await granted({ ttlMs: null })).toBeNull()
    expect(await granted({ ttlMs: 1_800_000 })).toBe(1800)
    const inMemory = await world.process({ maxTtlMs: 2 * HOUR, stubs: { isStoreShared: false } })
    const { refreshBefore } = await inMemory.subscribe(wanted({ ttlMs: null }))
    expect(Date.parse(String(refreshBefore)) - Date.now()).toBeGreaterThan(2 * HOUR - 10_000)
  })

  it('E16 signs with both secrets for a quarter of an hour after a change, and then with the new one alone', async () => {
    const world = new WebhookGateway()
    const { subscribe, note } = await world.process()
    await subscribe()
    await subscribe(wanted({}, { secret: secretOf(2).reveal() }))
    await note(1)
    await world.clock.advance(15 * 60_000 + 1000)
    await note(2)
    const signedBy = (index: number) =>
      [1, 2].filter((seed) => {
        const { headers = {}, body = '', at = 0 } = world.dialer.events[index] ?? {}
        return verifySigned(headers, body, { secrets: [secretOf(seed)], now: at }).kind === 'valid'
      })
    expect(world.numbers).toEqual([1, 2])
    expect([signedBy(0), signedBy(1)]).toEqual([[1, 2], [2]])
  })

  it('E20 E21 begins now without a cursor, at a cursor, or at the oldest event for one that is not known', async () => {
    const world = new WebhookGateway()
    const { subscribe, unsubscribe, note } = await world.process()
    const { cursor } = await subscribe(wanted())
    await note(1, 2)
    const [{ cursor: afterFirst }] = [world.bodies[1] ?? {}]
    await unsubscribe()
    expect(await subscribe(wanted({ cursor: null }))).toMatchObject({ truncated: false })
    await unsubscribe()
    expect(await subscribe(wanted({ cursor }))).toMatchObject({ truncated: false })
    expect(world.numbers).toEqual([1, 2, 1, 2])
    await unsubscribe()
    // The cursor that came with the second event is the position before it.
    expect(await subscribe(wanted({ cursor: afterFirst }))).toMatchObject({ truncated: false })
    expect(world.numbers.slice(4)).toEqual([2])
    await unsubscribe()
    expect(await subscribe(wanted({ cursor: 'x' }))).toMatchObject({ truncated: true })
    expect(world.numbers.slice(5)).toEqual([1, 2])
    await unsubscribe()
    expect(await subscribe(wanted({ cursor, maxAgeMs: 0 }))).toMatchObject({ truncated: true })
    expect(world.numbers.slice(7)).toEqual([])
  })

  it('is refused to a caller with too many subscriptions, without a challenge', async () => {
    const world = new WebhookGateway()
    const { subscribe, deliveries } = await world.process()
    deliveries.subscriptions.mayAdd = () => Promise.resolve(false)
    await expect(subscribe()).rejects.toMatchObject({
      rpc: -32025,
      extra: { data: { limit: 'subscriptions', max: 1000 } },
    })
    expect(world.dialer.requests).toEqual([])
  })

  it('keeps the source of its events open', async () => {
    const world = new WebhookGateway()
    let kept = 0
    world.types = () => [{ ...noted, retain: async () => void kept++ }]
    const { subscribe } = await world.process()
    await subscribe()
    expect(kept).toBeGreaterThan(0)
    const before = kept
    await world.clock.advance(10 * 60_000)
    expect(kept - before).toBeGreaterThanOrEqual(9)
  })

  it('keeps the source open while events are delivered, too', async () => {
    const world = new WebhookGateway()
    let kept = 0
    world.types = () => [{ ...noted, retain: async () => void kept++ }]
    const { subscribe, note } = await world.process()
    await subscribe()
    const before = kept
    for (let n = 0; n < 30; n++) {
      await note(n)
      await world.clock.advance(20_000)
    }
    expect(world.numbers).toHaveLength(30)
    expect(kept - before).toBeGreaterThanOrEqual(9)
  })
})

describe('events/unsubscribe', () => {
  it('ends deliveries, and E24 finds nothing the second time', async () => {
    const world = new WebhookGateway()
    const { subscribe, unsubscribe, note } = await world.process()
    await subscribe()
    world.dialer.answers.set(HOOK, () => response(503))
    await note(1)
    await expect(unsubscribe(wanted(), { principal: bob })).rejects.toMatchObject({ rpc: -32023 })
    expect(await unsubscribe({ name: 'noted', delivery: { url: HOOK } })).toEqual({})
    await note(2)
    await world.clock.advance(HOUR)
    expect(world.numbers).toEqual([1])
    await expect(unsubscribe()).rejects.toMatchObject({
      rpc: -32023,
      extra: { data: { kind: 'subscription' } },
    })
  })

  it('works for a type that does not exist any more', async () => {
    const world = new WebhookGateway()
    const { subscribe, unsubscribe } = await world.process()
    await subscribe()
    world.types = () => []
    expect(await unsubscribe()).toEqual({})
    expect(await world.store.scan('subscription')).toEqual(new Map())
  })
})

it('secrets of subscriptions are encrypted in the store', async () => {
  const world = new WebhookGateway()
  const { subscribe } = await world.process()
  await subscribe(wanted(), { principal: ada })
  const [record = ''] = (await world.store.scan('subscription')).values()
  expect(record).toContain(HOOK)
  expect(record).not.toContain(secretOf(1).reveal().slice(6, 40))
})
