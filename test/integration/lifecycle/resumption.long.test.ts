import { describe, expect, test } from 'vitest'
import type { SseEvent } from '../../support/client/sse-parser.ts'
import { until } from '../../support/condition.ts'
import type { FakeServer } from '../../support/fake-server.ts'
import { textOf } from '../../support/client/options.ts'
import { whole } from '../../support/client/raw.ts'
import { callsOf, clientOf, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import { codeOf } from '../../support/structured-error.ts'

const hasData = ({ data }: SseEvent) => data !== undefined && data !== ''
const hears = (method: string) => (event: SseEvent) => event.data?.includes(method) === true
const gets = (server: FakeServer) => server.seen.filter(({ kind }) => kind === 'get').length
const slow = { ms: 900, steps: 6 }

describe('a client that lost the stream of its call', () => {
  test('C049 gets the missed and remaining events after the last event it received', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const reply = await session.send(toolCall(1, 'slow', slow, 'p'))
    const seen = await eventsUntil(
      reply.events(),
      (event) => messageOf(event)['method'] === 'notifications/progress',
    )
    reply.destroy()
    const resumed = await session.get(seen.at(-1)?.id)
    const rest = await eventsUntil(resumed.events(), (event) => messageOf(event)['id'] === 1)
    const all = [...seen, ...rest].map(messageOf).filter(({ method }) => method === 'notifications/progress')
    expect(all.map(({ params }) => params)).toEqual(
      [1, 2, 3, 4, 5, 6].map((step) => expect.objectContaining({ progress: step })),
    )
    const ids = [...seen, ...rest].map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).not.toContain(undefined)
  })

  test('gets the response that arrived while it was disconnected, and the stream ends', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const reply = await session.send(toolCall(1, 'slow', { ms: 300, steps: 3 }, 'p'))
    const [first] = await eventsUntil(reply.events(), () => true)
    reply.destroy()
    // Another call that takes longer is over, so the first is too.
    await session.post(toolCall(2, 'slow', { ms: 600, steps: 1 }))
    const { events } = await whole(await session.get(first?.id))
    expect(messageOf(events.at(-1))).toMatchObject({ id: 1, result: { content: [{ text: 'took 3 steps' }] } })
  })

  test('can resume it twice', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const reply = await session.post(toolCall(1, 'slow', { ms: 60, steps: 3 }, 'p'))
    const [first] = reply.events
    const again = [await whole(await session.get(first?.id)), await whole(await session.get(first?.id))]
    for (const { events } of again) expect(events).toEqual(reply.events.slice(1))
  })

  test('does not cancel its call', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const begun = Promise.withResolvers<void>()
    const { reply } = client.start(
      'tools/call',
      { name: 'slow', arguments: slow },
      { onProgress: () => begun.resolve() },
    )
    await begun.promise
    await client.resume(client.dropStream() ?? '')
    expect(textOf(await reply)).toBe('took 6 steps')
    expect(server.seen.filter(({ kind }) => kind === 'cancelled')).toEqual([])
    expect([...client.violations, ...server.violations]).toEqual([])
  })
})

describe('the first event of a stream', () => {
  test('has an id and no data for a client of 2025-11-25', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const { events } = await session.post(toolCall(1, 'slow', { ms: 60, steps: 1 }, 'p'))
    expect(events[0]).toMatchObject({ data: '' })
    expect(events[0]?.id).toBeDefined()
  })

  test('has data for an older client, whose parser would fail without data', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-06-18')
    const { events } = await session.post(toolCall(1, 'slow', { ms: 60, steps: 1 }, 'p'))
    expect(events.map(messageOf)).toMatchObject([{ method: 'notifications/progress' }, { id: 1 }])
  })
})

describe('the stream of a session', () => {
  test('moves to the latest request for it, and the one before ends', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    const first = await session.get()
    const second = await session.get()
    expect((await whole(first)).status).toBe(200)
    server.change('tools')
    const [heard] = await eventsUntil(second.events(), hasData)
    expect(messageOf(heard)['method']).toBe('notifications/tools/list_changed')
    second.destroy()
  })

  test('begins with the notifications sent while no client listened', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    await session.post({
      jsonrpc: '2.0',
      id: 1,
      method: 'resources/subscribe',
      params: { uri: 'fake://watched' },
    })
    server.change('watched')
    server.change('tools')
    // The server has sent both before it responds to this.
    await session.post(toolCall(2, 'echo'))
    const stream = await session.get()
    const heard = await eventsUntil(stream.events(), hears('tools/list_changed'))
    expect(heard.map(messageOf).map(({ method }) => method)).toContain('notifications/resources/updated')
    stream.destroy()
  })

  test('continues after the last event a client received, and repeats nothing', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    const stream = await session.get()
    server.change('tools')
    const [seen] = await eventsUntil(stream.events(), hasData)
    stream.destroy()
    server.change('prompts')
    await session.post(toolCall(1, 'echo'))
    const again = await session.get(seen?.id)
    const heard = await eventsUntil(again.events(), hears('prompts/list_changed'))
    expect(heard.filter(hears('tools/list_changed'))).toEqual([])
    again.destroy()
  })

  test('evicts the oldest stored events, not the newest', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const { events } = await session.post(toolCall(1, 'slow', { ms: 20, steps: 1 }, 'p'))
    // More than one session's replay buffer holds.
    for (let id = 10; id < 20; id++)
      await session.post(toolCall(id, 'slow', { ms: 1, steps: 1 }, `${id}`.repeat(250_000)))
    const kept = await session.post(toolCall(50, 'slow', { ms: 20, steps: 1 }, 'p'))
    const again = await whole(await session.get(kept.events[0]?.id))
    expect(messageOf(again.events.at(-1))).toMatchObject({ id: 50 })
    // Evicted events are not repeated; the stream is then that of the session.
    const lost = await session.get(events[0]?.id)
    await session.post(toolCall(60, 'change', { what: ['tools'] }))
    const [heard] = await eventsUntil(lost.events(), hasData)
    expect(messageOf(heard)['method']).toBe('notifications/tools/list_changed')
    lost.destroy()
  })
})

describe('an upstream stream that breaks', () => {
  test('is resumed where it stopped, and the call is not repeated', async () => {
    const server = await httpServer({ resumable: true })
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const reply = await client.request(
      'tools/call',
      { name: 'drop', arguments: { ms: 200 } },
      { progressToken: 'p' },
    )
    expect(textOf(reply)).toBe('resumed')
    expect(reply.notes.map(({ params }) => params['progress'])).toEqual([1, 2])
    expect(callsOf(server, 'drop')).toBe(1)
    const resumed = server.seen.filter(
      ({ kind, headers }) => kind === 'get' && headers['last-event-id'] !== undefined,
    )
    expect(resumed.length).toBeGreaterThan(0)
    expect([...client.violations, ...server.violations]).toEqual([])
  })

  test('and cannot be resumed ends its call with an unknown outcome', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const reply = await client.request('tools/call', { name: 'drop' }, { progressToken: 'p' })
    expect(codeOf(reply)).toBe('OUTCOME_UNKNOWN')
    expect(callsOf(server, 'drop')).toBe(1)
  })

  test('and carries no call is opened again', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const before = gets(server)
    server.dropStreams()
    await until(() => gets(server) > before, 'the stream to be opened again')
    server.change('tools')
    await client.until(({ method }) => method === 'notifications/tools/list_changed')
    expect(client.violations).toEqual([])
  })
})
