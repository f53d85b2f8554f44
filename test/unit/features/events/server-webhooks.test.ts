import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { signedHeaders } from '../../../../src/core/standard-webhooks.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { eventsGateway, eventsOf } from '../../../support/events-gateway.ts'
import type { ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { serverSettings } from '../../../support/server-settings.ts'

afterEach(() => void vi.useRealTimers())

interface Delivery {
  readonly url: string
  readonly secret: string
}

/** What a server was asked for, by method. */
interface Asked {
  readonly method: string
  readonly params: Json
}

/** A server that delivers the type `done` to webhooks only; `answer` answers its `events/subscribe`. */
function serverOf(
  answer: (params: Json) => Json | Promise<Json> = () => ({ id: 'sub_1', truncated: false }),
) {
  const asked: Asked[] = []
  const relay = async ({ method, params: { fields } }: Call): Promise<Outcome> => {
    const result = (given: Json): Outcome => ({ kind: 'result', result: Payload.of(given) })
    if (method === 'events/list') return result({ events: [{ name: 'done', delivery: ['webhook'] }] })
    asked.push({ method, params: fields })
    return result(method === 'events/subscribe' ? await answer(fields) : {})
  }
  const discovered = async () => ({ supportedVersions: ['2026-07-28'], capabilities: { events: {} } })
  const given: ServiceStubs = {
    relay,
    discovered,
    server: () => serverSettings({ name: 'one' }),
    publicUrl: 'https://gateway.example',
  }
  const subscribed = (): readonly Json[] =>
    asked.flatMap(({ method, params }) => (method === 'events/subscribe' ? [params] : []))
  const delivery = (index = 0): Delivery => subscribed()[index]?.['delivery'] as Delivery
  return { asked, subscribed, delivery, given }
}

interface Message {
  readonly subscription?: string
  readonly id?: string
  readonly at?: number
}

/** Sends a signed message to a gateway, as a server does. */
function send(
  { instance }: Pick<ReturnType<typeof eventsGateway>, 'instance'>,
  { url, secret }: Delivery,
  fields: Json,
  { subscription = 'sub_1', id = String(fields['eventId'] ?? 'msg_1'), at = Date.now() }: Message = {},
) {
  const body = JSON.stringify(fields)
  const [, server = '', , key = ''] = new URL(url).pathname.split('/').slice(1)
  const signed = signedHeaders({ id, at, body }, [new Secret(secret)])
  const headers = { ...signed, 'x-mcp-subscription-id': subscription }
  const received = instance.http?.receiveHook?.({
    server,
    name: key,
    isOfServer: true,
    headers,
    body: async () => body,
  })
  return received ?? Promise.reject(new TypeError('there is no receiver'))
}

function happened(eventId: string, data: Json = {}): Json {
  return { eventId, name: 'done', timestamp: '2026-10-05T10:00:00Z', data, cursor: `after-${eventId}` }
}

const request = { name: 'done' }
const idsOf = (result: Json) => eventsOf(result).map(({ eventId }) => eventId)

describe('webhooks of a server with events of its own', () => {
  it('are asked for at the public URL, with a secret of the gateway that is sealed in the store', async () => {
    const store = new MemoryStore()
    const written = vi.spyOn(store, 'put')
    const { given, subscribed, delivery } = serverOf()
    await eventsGateway({ ...given, store }).poll({ ...request, arguments: { repo: 'a' } })
    expect(subscribed()).toEqual([
      {
        ...request,
        arguments: { repo: 'a' },
        cursor: null,
        ttlMs: 3_600_000,
        delivery: {
          mode: 'webhook',
          url: expect.stringMatching(/^https:\/\/gateway\.example\/hooks\/one\/events\/[\w-]{22}$/),
          secret: expect.stringMatching(/^whsec_[\w+/]{43}=$/),
        },
      },
    ])
    const kept = JSON.stringify(written.mock.calls)
    expect(kept).toContain('event-callback:one:')
    expect(kept).not.toContain(delivery().secret.slice(6))
  })

  it('are accepted once for an eventId, and for each of two subscriptions', async () => {
    const ids = ['sub_1', 'sub_2']
    const { given, delivery } = serverOf(() => ({ id: ids.shift(), truncated: false }))
    const gateway = eventsGateway(given)
    const a = { ...request, arguments: { repo: 'a' } }
    const b = { ...request, arguments: { repo: 'b' } }
    const [one, two] = [await gateway.poll(a), await gateway.poll(b)]
    for (const id of ['1', '1', '2'])
      await expect(send(gateway, delivery(0), happened(id))).resolves.toBeUndefined()
    // Some servers send each message under an id of its own.
    await send(gateway, delivery(0), happened('2'), { id: 'msg_7' })
    await send(gateway, delivery(1), happened('1'), { subscription: 'sub_2' })
    expect(idsOf(await gateway.poll({ ...a, cursor: one['cursor'] }))).toEqual(['1', '2'])
    expect(idsOf(await gateway.poll({ ...b, cursor: two['cursor'] }))).toEqual(['1'])
  })

  it('need a right signature and time, an object, and the name of the type', async () => {
    const { given, delivery } = serverOf()
    const gateway = eventsGateway(given)
    await gateway.poll(request)
    const secret = `whsec_${Buffer.alloc(32).toString('base64')}`
    await expect(send(gateway, { ...delivery(), secret }, happened('1'))).rejects.toMatchObject({
      httpStatus: 401,
    })
    const stale = { at: Date.now() - 301_000 }
    await expect(send(gateway, delivery(), happened('1'), stale)).rejects.toMatchObject({ httpStatus: 400 })
    const other = { ...happened('1'), name: 'other' }
    await expect(send(gateway, delivery(), other)).rejects.toMatchObject({ httpStatus: 400 })
    for (const ending of ['x', '/../other', 'x'.repeat(10_000)]) {
      const unknown = { ...delivery(), url: `${delivery().url}${ending}` }
      await expect(send(gateway, unknown, happened('1'))).rejects.toMatchObject({ httpStatus: 404 })
    }
  })

  it('are verified before the subscription has an id, and events wait for that', async () => {
    const { promise, resolve } = Promise.withResolvers<Json>()
    const { given, delivery, subscribed } = serverOf(() => promise)
    const gateway = eventsGateway(given)
    const polled = gateway.poll(request)
    await expect.poll(subscribed).toHaveLength(1)
    await expect(send(gateway, delivery(), happened('1'))).rejects.toMatchObject({ httpStatus: 503 })
    const verification = { type: 'verification', challenge: 'c1' }
    for (let times = 0; times < 2; times++)
      expect(await send(gateway, delivery(), verification)).toEqual({ challenge: 'c1' })
    // The challenge said which id the subscription has.
    await expect(send(gateway, delivery(), happened('1'))).resolves.toBeUndefined()
    resolve({ id: 'sub_2', truncated: false })
    await polled
    await expect(send(gateway, delivery(), happened('2'))).rejects.toMatchObject({ httpStatus: 503 })
    await expect(send(gateway, delivery(), happened('2'), { subscription: 'sub_2' })).resolves.toBeUndefined()
  })

  it('are accepted only once they are stored', async () => {
    const store = new MemoryStore()
    const { given, delivery } = serverOf()
    const gateway = eventsGateway({ ...given, store })
    const { cursor } = await gateway.poll(request)
    const failing = vi
      .spyOn(store, 'put')
      .mockRejectedValue(new GatewayError('SERVER_UNAVAILABLE', 'It is full.'))
    await expect(send(gateway, delivery(), happened('1'))).rejects.toMatchObject({ httpStatus: 503 })
    failing.mockRestore()
    await send(gateway, delivery(), happened('1'))
    expect(new Set(idsOf(await gateway.poll({ ...request, cursor })))).toEqual(new Set(['1']))
  })

  it('report gaps and the end to clients, and later requests subscribe anew', async () => {
    vi.useFakeTimers()
    const { given, delivery, subscribed } = serverOf()
    const gateway = eventsGateway(given)
    const { cursor } = await gateway.poll(request)
    const gap = { type: 'gap', cursor: 'c7' }
    for (let times = 0; times < 2; times++) await send(gateway, delivery(), gap, { id: 'msg_gap' })
    const after = await gateway.poll({ ...request, cursor })
    expect(after).toMatchObject({ events: [], truncated: true })
    const error = { code: -32011, message: 'gone', data: { kind: 'event' } }
    await send(gateway, delivery(), { type: 'terminated', error }, { id: 'msg_end' })
    const later = { ...request, cursor: after['cursor'] }
    await expect(gateway.poll(later)).rejects.toMatchObject({ rpc: -32023 })
    await vi.advanceTimersByTimeAsync(11_000)
    expect(subscribed()).toHaveLength(2)
    expect(delivery(1).url).toBe(delivery(0).url)
    expect(delivery(1).secret).not.toBe(delivery(0).secret)
    await expect(gateway.poll(request)).resolves.toMatchObject({ events: [] })
    await expect(send(gateway, delivery(0), happened('2'))).rejects.toMatchObject({ httpStatus: 401 })
  })

  it('are renewed after four fifths of what was granted, from the last cursor and with the same secret', async () => {
    vi.useFakeTimers()
    const { given, delivery, subscribed } = serverOf(() => ({
      id: 'sub_1',
      truncated: false,
      refreshBefore: new Date(Date.now() + 100_000).toISOString(),
    }))
    const gateway = eventsGateway(given)
    await gateway.poll(request)
    await send(gateway, delivery(), happened('1'))
    await vi.advanceTimersByTimeAsync(79_000)
    expect(subscribed()).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(2000)
    expect(subscribed().map(({ cursor }) => cursor)).toEqual([null, 'after-1'])
    expect(delivery(1)).toEqual(delivery(0))
  })

  it('end at the server once no client wants them any more, and not when the gateway stops', async () => {
    vi.useFakeTimers()
    const stopped = serverOf()
    const closed = eventsGateway(stopped.given)
    await closed.poll(request)
    await closed.instance.close?.()
    await vi.advanceTimersByTimeAsync(700_000)
    expect(stopped.asked.map(({ method }) => method)).toEqual(['events/subscribe'])

    const idle = serverOf()
    const gateway = eventsGateway(idle.given)
    await gateway.poll(request)
    await vi.advanceTimersByTimeAsync(700_000)
    const { mode, url } = { mode: 'webhook', url: idle.delivery().url }
    expect(idle.asked.at(-1)).toEqual({
      method: 'events/unsubscribe',
      params: { ...request, arguments: {}, delivery: { mode, url } },
    })
    await expect(send(gateway, idle.delivery(), happened('1'))).rejects.toMatchObject({ httpStatus: 404 })
  })

  it('go to another gateway with the same store, which has no subscription itself', async () => {
    const store = new MemoryStore()
    const { given, delivery, subscribed } = serverOf()
    const one = eventsGateway({ ...given, store })
    const { cursor } = await one.poll(request)
    const two = eventsGateway({ ...given, store, seal: one.deps.identity.seal })
    await send(two, delivery(), happened('1'))
    expect(idsOf(await one.poll({ ...request, cursor }))).toEqual(['1'])
    expect(subscribed()).toHaveLength(1)
  })
})
