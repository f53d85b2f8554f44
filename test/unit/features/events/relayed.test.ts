import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { until } from '../../../support/condition.ts'
import { ada, bob, eventsGateway, eventsOf, namesOf } from '../../../support/events-gateway.ts'
import type { ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { serverSettings } from '../../../support/server-settings.ts'

afterEach(() => void vi.useRealTimers())

const discovered = async () => ({
  supportedVersions: ['2026-07-28'],
  capabilities: { extensions: { 'io.modelcontextprotocol/events': {} } },
})

function refusal(code: number, data: Json = {}): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.of({ code, message: 'no', data }) })
}

/** A server with the type `done`: what it answers to each poll, and its open streams. */
function serverOf(delivery: 'poll' | 'push', answers: (Json | Error)[] = []) {
  const polls: Json[] = []
  const streams: Call[] = []
  const relay = async (call: Call): Promise<Outcome> => {
    const result = (fields: Json): Outcome => ({ kind: 'result', result: Payload.of(fields) })
    if (call.method === 'events/list') return result({ events: [{ name: 'done', delivery: [delivery] }] })
    if (call.method === 'events/poll') {
      polls.push(call.params.fields)
      const answer = answers.shift() ?? { events: [], cursor: 'last', nextPollMs: 60_000 }
      if (answer instanceof Error) throw answer
      return result(answer)
    }
    streams.push(call)
    return new Promise((_resolve, reject) => {
      call.signal.addEventListener('abort', () => reject(call.signal.reason))
    })
  }
  const notify = (what: string, params: Json): void => {
    streams.at(-1)?.emit({ method: `notifications/events/${what}`, params: Payload.of(params) })
  }
  return { relay, polls, streams, notify, given: { relay, discovered } satisfies ServiceStubs }
}

function happened(eventId: string, data: Json = {}): Json {
  return { eventId, name: 'done', timestamp: '2026-10-05T10:00:00Z', data }
}

const request = { name: 'done' }
const idsOf = (result: Json) => eventsOf(result).map(({ eventId }) => eventId)

describe('events of a server, by polls', () => {
  it('continues from the cursor of the server, at once if it has more, and otherwise a second later at least', async () => {
    vi.useFakeTimers()
    const { polls, given } = serverOf('poll', [
      { events: [], cursor: 'a', nextPollMs: 1 },
      { events: [happened('1')], cursor: 'b', hasMore: true, nextPollMs: 1 },
      { events: [happened('2')], cursor: 'c', nextPollMs: 1 },
    ])
    const { poll } = eventsGateway(given)
    const { cursor } = await poll(request)
    expect(polls).toEqual([{ name: 'done', arguments: {}, cursor: null }])
    await vi.advanceTimersByTimeAsync(990)
    expect(polls).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(20)
    expect(polls.map((each) => each['cursor'])).toEqual([null, 'a', 'b'])
    expect(idsOf(await poll({ ...request, cursor }))).toEqual(['1', '2'])
  })

  it('E26 logs an event once, also if the process ended before it could store its position', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const first = serverOf('poll', [
      { events: [], cursor: 'a', nextPollMs: 1 },
      { events: [happened('1')], cursor: 'b', nextPollMs: 1 },
    ])
    const before = eventsGateway({ ...first.given, store })
    const { cursor } = await before.poll(request)
    const put = vi
      .spyOn(store, 'put')
      .mockRejectedValue(new GatewayError('SERVER_UNAVAILABLE', 'It is full.'))
    await vi.advanceTimersByTimeAsync(1100)
    put.mockRestore()
    await before.instance.close?.()
    const second = serverOf('poll', [{ events: [happened('1'), happened('2'), happened('2')], cursor: 'c' }])
    const after = eventsGateway({ ...second.given, store, seal: before.deps.identity.seal })
    const found = await after.poll({ ...request, cursor })
    expect(second.polls).toMatchObject([{ cursor: 'a' }])
    expect(idsOf(found)).toEqual(['1', '2'])
    expect(found['truncated']).toBe(false)
  })

  it('says that events may be missing if the server says so, or sends one that is too large', async () => {
    vi.useFakeTimers()
    const large = happened('large', { text: 'x'.repeat(300_000) })
    for (const answer of [
      { events: [], cursor: 'b', truncated: true },
      { events: [large], cursor: 'b' },
    ]) {
      const { given } = serverOf('poll', [{ events: [], cursor: 'a', nextPollMs: 1 }, answer])
      const { poll } = eventsGateway(given)
      const { cursor } = await poll(request)
      await vi.advanceTimersByTimeAsync(1100)
      expect(await poll({ ...request, cursor })).toMatchObject({ events: [], truncated: true })
    }
  })

  it('tries again after a failure that may pass, and continues from the same cursor', async () => {
    vi.useFakeTimers()
    const { polls, given } = serverOf('poll', [
      { events: [], cursor: 'a', nextPollMs: 1 },
      new GatewayError('SERVER_UNAVAILABLE', 'It is away.'),
      { events: [happened('1')], cursor: 'b' },
    ])
    const { poll } = eventsGateway(given)
    const { cursor } = await poll(request)
    await vi.advanceTimersByTimeAsync(2000)
    expect(polls.map((each) => each['cursor'])).toEqual([null, 'a', 'a'])
    expect(await poll({ ...request, cursor })).toMatchObject({ events: [{ eventId: '1' }], truncated: false })
  })

  it.each([
    [-32012, { rpc: -32024, data: { reason: 'policy' } }],
    [-32024, { rpc: -32024, data: { reason: 'policy' } }],
    [-32011, { rpc: -32023, data: { kind: 'event' } }],
    [-32602, { rpc: -32602 }],
  ])('E30 refuses what the server refuses with %d', async (code, expected) => {
    const { given } = serverOf('poll', [refusal(code, { reason: 'policy' })])
    await expect(eventsGateway(given).poll(request)).rejects.toMatchObject(expected)
  })

  it('refuses what the server refused another gateway with the same store, until it serves it', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const { polls, given } = serverOf('poll', [refusal(-32024, { reason: 'policy' })])
    const first = eventsGateway({ ...given, store })
    const second = eventsGateway({ ...given, store, seal: first.deps.identity.seal })
    const refused = { rpc: -32024, data: { reason: 'policy' } }
    await expect(first.poll(request)).rejects.toMatchObject(refused)
    await expect(second.poll(request)).rejects.toMatchObject(refused)
    expect(polls).toHaveLength(1)
    // The first one tries again.
    await vi.advanceTimersByTimeAsync(30_000)
    expect(polls).toHaveLength(2)
    await expect(second.poll(request)).resolves.toMatchObject({ events: [] })
    await expect(first.poll(request)).resolves.toMatchObject({ events: [] })
  })

  it('subscribes once for equal requests, and a caller may have a quarter of all subscriptions', async () => {
    const { polls, given } = serverOf('poll')
    const { poll } = eventsGateway(given)
    const of = (index: number, principal = ada) => poll({ ...request, arguments: { index } }, { principal })
    for (let index = 0; index < 25; index++) await of(index)
    await of(3, bob)
    expect(polls).toHaveLength(25)
    await expect(of(25)).rejects.toMatchObject({ rpc: -32025, data: { limit: 'subscriptions', max: 100 } })
    await expect(of(25, bob)).resolves.toBeDefined()
  })
})

describe('events of a server, by its stream', () => {
  it('have the id of the server, also one that cannot be sent in a header, and masked data', async () => {
    const { notify, streams, given } = serverOf('push')
    const masked = () => ({ secret: '***' })
    const { poll, follow } = eventsGateway({ ...given, masked })
    const opened = poll(request)
    await until(() => streams.length === 1, 'the stream')
    notify('active', { cursor: 'a', truncated: false })
    const { cursor } = await opened
    const seen = await follow(request)
    notify('event', { ...happened('1', { secret: 'x' }), cursor: 'b' })
    notify('event', { ...happened('ü', { secret: 'x' }), cursor: 'c' })
    await expect.poll(seen).toEqual([{ secret: '***' }, { secret: '***' }])
    expect(idsOf(await poll({ ...request, cursor }))).toEqual(['1', expect.stringMatching(/^evt_[\w-]{22}$/)])
  })

  it('are requested again, from the last cursor, if the server is silent for three heartbeats', async () => {
    vi.useFakeTimers()
    const { notify, streams, given } = serverOf('push')
    const { poll } = eventsGateway(given)
    const opened = poll(request)
    await vi.advanceTimersByTimeAsync(10)
    notify('active', { cursor: 'a', truncated: false })
    await opened
    await vi.advanceTimersByTimeAsync(80_000)
    notify('heartbeat', { cursor: 'b' })
    await vi.advanceTimersByTimeAsync(80_000)
    expect(streams).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(15_000)
    expect(streams.map(({ params }) => params.fields['cursor'])).toEqual([null, 'b'])
  })

  it('end for those who stream and poll them, and begin anew for a later request', async () => {
    const { notify, streams, given } = serverOf('push')
    const { poll, stream, deps } = eventsGateway(given)
    const opened = poll(request)
    await until(() => streams.length === 1, 'the stream')
    notify('active', { cursor: 'a', truncated: false })
    const { cursor } = await opened
    const { sent, ended } = stream(request)
    await until(() => sent.length === 1, 'the stream of the client')
    notify('event', { ...happened('1'), cursor: 'b' })
    notify('terminated', { error: { code: -32011, message: 'gone', data: { kind: 'event' } } })
    expect(await ended).toEqual({})
    expect(sent.map(({ what }) => what)).toEqual(['active', 'event', 'terminated'])
    expect(sent.at(-1)).toMatchObject({ params: { error: { code: -32023, data: { kind: 'event' } } } })
    await expect(poll({ ...request, cursor })).rejects.toMatchObject({ rpc: -32023 })
    expect([...(await deps.store.scan('event-position')).keys()]).toEqual([])
  })
})

describe('servers whose events are not relayed', () => {
  it.each<[string, ServiceStubs]>([
    [
      'do not declare the extension',
      { discovered: async () => ({ supportedVersions: [], capabilities: {} }) },
    ],
    ['are older than 2026-07-28', { discovered: async () => ({ capabilities: { events: {} } }) }],
    [
      'have credentials for each user',
      {
        server: () =>
          serverSettings({
            reach: {
              kind: 'url',
              url: 'https://one.example',
              headers: {},
              oauth: { grant: 'authorization_code', scopes: [] },
            },
          }),
      },
    ],
    ['the caller may not ask for events', { isPermitted: async ({ method }) => method !== 'events/poll' }],
  ])('%s', async (_what, stubs) => {
    const { request: send } = eventsGateway({ ...serverOf('poll').given, ...stubs })
    expect(namesOf(await send('events/list', {}))).not.toContain('done')
  })

  it('a server that cannot be asked does not hide the events of the gateway', async () => {
    const away = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
    const { poll } = eventsGateway({ discovered: away, tools: away })
    await expect(poll({ name: 'upstream_up' })).resolves.toMatchObject({ events: [] })
    await expect(poll(request)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})
