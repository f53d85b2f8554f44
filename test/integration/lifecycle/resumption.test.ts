import { describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { whole } from '../../support/client/raw.ts'
import { callsOf, clientOf, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'

const slow = { ms: 900, steps: 6 }

describe('a client that lost the stream of its call', () => {
  test('gets what it missed, and the rest, after the last event it saw', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const reply = await session.send(toolCall(1, 'slow', slow, 'p'))
    const seen = await eventsUntil(reply.events(), (event) => messageOf(event)['method'] === 'notifications/progress')
    reply.destroy()
    const resumed = await session.get(seen.at(-1)?.id)
    const rest = await eventsUntil(resumed.events(), (event) => messageOf(event)['id'] === 1)
    const all = [...seen, ...rest].map(messageOf).filter(({ method }) => method === 'notifications/progress')
    expect(all.map(({ params }) => params)).toEqual([1, 2, 3, 4, 5, 6].map((step) => expect.objectContaining({ progress: step })))
    const ids = [...seen, ...rest].map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).not.toContain(undefined)
  })

  test('gets the answer that came while it was away, and the stream ends', async () => {
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

  test('can take it up twice', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const reply = await session.post(toolCall(1, 'slow', { ms: 60, steps: 3 }, 'p'))
    const [first] = reply.events
    const again = [await whole(await session.get(first?.id)), await whole(await session.get(first?.id))]
    for (const { events } of again) expect(events).toEqual(reply.events.slice(1))
  })

  test('is not taken for one that cancels', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const { reply } = client.start('tools/call', { name: 'slow', arguments: slow }, { progressToken: 'p' })
    await server.until(({ message }) => message?.['method'] === 'tools/call')
    const before = client.dropStream()
    await client.resume(before ?? '1-0')
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

  test('has data for an older client, whose parser would fail without', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-06-18')
    const { events } = await session.post(toolCall(1, 'slow', { ms: 60, steps: 1 }, 'p'))
    expect(events.map(messageOf)).toMatchObject([{ method: 'notifications/progress' }, { id: 1 }])
  })
})

describe('the stream of a session', () => {
  test('is given to whoever asks for it last; the one before ends', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    const first = await session.get()
    const second = await session.get()
    expect((await whole(first)).status).toBe(200)
    server.change('tools')
    const [heard] = await eventsUntil(second.events(), (event) => event.data !== '')
    expect(messageOf(heard)['method']).toBe('notifications/tools/list_changed')
    second.destroy()
  })

  test('begins with what was said while nobody listened', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    await session.post({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'fake://watched' } })
    server.change('watched')
    server.change('tools')
    // The server has said both before it answers this.
    await session.post(toolCall(2, 'echo'))
    const stream = await session.get()
    const heard = await eventsUntil(stream.events(), (event) => event.data.includes('tools/list_changed'))
    expect(heard.map(messageOf).map(({ method }) => method)).toContain('notifications/resources/updated')
    stream.destroy()
  })

  test('goes on after the last event a client saw, and repeats nothing', async () => {
    const server = await httpServer()
    const session = await openSession((await gatewayTo({ one: { url: server.url } })).url, '2025-11-25')
    const stream = await session.get()
    server.change('tools')
    const [seen] = await eventsUntil(stream.events(), (event) => event.data !== '')
    stream.destroy()
    server.change('prompts')
    await session.post(toolCall(1, 'echo'))
    const again = await session.get(seen?.id)
    const heard = await eventsUntil(again.events(), (event) => event.data.includes('prompts'))
    expect(heard.filter(({ data }) => data.includes('tools'))).toEqual([])
    again.destroy()
  })

  test('keeps what is late for a client within bounds', async () => {
    const gateway = await gatewayTo({ one: stdioServer() })
    const session = await openSession(gateway.url, '2025-11-25')
    const ids: string[] = []
    for (let call = 1; call <= 4; call++) {
      const reply = await session.send(toolCall(call, 'slow', { ms: 20, steps: 1 }, 'p'))
      const [first] = await eventsUntil(reply.events(), () => true)
      ids.push(first?.id ?? '')
    }
    const big = async (id: number): Promise<string> => {
      const reply = await session.post({ ...toolCall(id, 'ask_form', { message: 'x'.repeat(900_000) }) })
      return reply.events[0]?.id ?? ''
    }
    for (let call = 10; call < 20; call++) ids.push(await big(call))
    const { status } = await session.post(toolCall(99, 'echo'))
    expect(status).toBe(200)
  })
})

describe('a stream of the server that breaks', () => {
  test('is taken up where it stopped; the call is not made again', async () => {
    const server = await httpServer({ resumable: true })
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const reply = await client.request('tools/call', { name: 'drop', arguments: { ms: 200 } }, { progressToken: 'p' })
    expect(textOf(reply)).toBe('resumed')
    expect(reply.notes.map(({ params }) => params['progress'])).toEqual([1, 2])
    expect(callsOf(server, 'drop')).toBe(1)
    const gets = server.seen.filter(({ kind, headers }) => kind === 'get' && headers['last-event-id'] !== undefined)
    expect(gets.length).toBeGreaterThan(0)
    expect([...client.violations, ...server.violations]).toEqual([])
  })

  test('and can not be taken up is told as an outcome nobody knows', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const { error } = await client.request('tools/call', { name: 'drop' }, { progressToken: 'p' })
    expect(error).toMatchObject({ code: -32603, data: { code: 'OUTCOME_UNKNOWN' } })
    expect(callsOf(server, 'drop')).toBe(1)
  })

  test('and carries no call is opened again', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url } }))
    const before = server.seen.filter(({ kind }) => kind === 'get').length
    server.dropStreams()
    await server.until(() => server.seen.filter(({ kind }) => kind === 'get').length > before, 10_000)
    // It is open once its head was read; until then the server says nothing on it.
    server.change('tools')
    await client.until(({ method }) => method === 'notifications/tools/list_changed', 10_000)
    expect(client.violations).toEqual([])
  })
})
