import { describe, expect, test } from 'vitest'
import { eventsServer } from '../../fixtures/events-server/start.ts'
import { ask, follow, type Received } from '../../support/event-stream-client.ts'
import { gatewayTo } from '../../support/journey.ts'
import { alone } from '../../support/scattered.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const config = { features: { events: 'on' } }

function eventsIn(result: Json): readonly Json[] {
  const events = result['events']
  return Array.isArray(events) ? events.filter(isObject) : []
}

function idsIn(result: Json): readonly unknown[] {
  return eventsIn(result).map(({ eventId }) => eventId)
}

function idsOf(received: readonly Received[]): readonly unknown[] {
  return received.filter(({ what }) => what === 'event').map(({ params }) => params['eventId'])
}

describe('the events that a server has itself', () => {
  test('are listed with those of the gateway, which they hide if they have the same name', async () => {
    alone('the gateway has no public URL')
    const server = await eventsServer()
    const other = await eventsServer({ KEY: 'sketch' })
    const gateway = await gatewayTo({ one: { url: server.url }, two: { url: other.url } }, { config })
    const own = eventsIn(await ask(`${gateway.origin}/mcp/one`, 'events/list'))
    const byName = new Map(own.map((type) => [type['name'], type]))
    expect(byName.get('build.done')).toMatchObject({
      description: 'The event build.done.',
      delivery: expect.arrayContaining(['poll', 'push']),
      inputSchema: { properties: { repo: { type: 'string' } } },
    })
    expect([...byName.keys()]).toEqual(expect.arrayContaining(['issue.updated', 'prompts_changed']))
    expect(byName.has('hook.only')).toBe(false)
    expect(own.filter(({ name }) => name === 'tools_changed')).toMatchObject([
      { description: 'The event tools_changed.' },
    ])
    const all = eventsIn(await ask(gateway.url, 'events/list')).map(({ name }) => name)
    expect(all).toEqual(expect.arrayContaining(['one_build.done', 'two_build.done', 'two_issue.updated']))
  })

  test.each(['build.done', 'issue.updated'])(
    '%s is delivered by poll and by stream, once, under its id',
    async (name) => {
      const server = await eventsServer()
      const gateway = await gatewayTo({ one: { url: server.url } }, { config })
      const request = { name, arguments: { repo: 'a' } }
      const stream = await follow(gateway.url, 'events/stream', request)
      await expect
        .poll(() => stream.received)
        .toMatchObject([{ what: 'active', params: { truncated: false } }])
      const { cursor } = await ask(gateway.url, 'events/poll', request)
      server.emit('e1', name, { repo: 'a' })
      server.emit('e2', name, { repo: 'b' })
      server.emit('e3', name, { repo: 'a' })
      const polled = async () => ask(gateway.url, 'events/poll', { ...request, cursor })
      await expect.poll(async () => idsIn(await polled())).toEqual(['e1', 'e3'])
      expect(await polled()).toMatchObject({
        truncated: false,
        events: [
          {
            name,
            timestamp: '2026-10-05T10:00:00.000Z',
            data: { repo: 'a' },
            _meta: { 'dev.gatehouse/untrusted': true },
          },
          {},
        ],
      })
      await expect.poll(() => idsOf(stream.received)).toEqual(['e1', 'e3'])
    },
  )

  test('are delivered under the name of their server at the address of all servers', async () => {
    const server = await eventsServer()
    const other = await eventsServer()
    const gateway = await gatewayTo({ one: { url: server.url }, two: { url: other.url } }, { config })
    const request = { name: 'two_build.done' }
    const { cursor } = await ask(gateway.url, 'events/poll', request)
    server.emit('of-one', 'build.done', {})
    other.emit('of-two', 'build.done', {})
    const polled = async () => eventsIn(await ask(gateway.url, 'events/poll', { ...request, cursor }))
    await expect.poll(polled).toMatchObject([{ eventId: 'of-two', name: 'two_build.done' }])
  })

  test.each(['build.done', 'issue.updated'])(
    'of the time in which the server was away arrive once if it keeps them: %s',
    async (name) => {
      const server = await eventsServer()
      const gateway = await gatewayTo({ one: { url: server.url } }, { config })
      const stream = await follow(gateway.url, 'events/stream', { name })
      await expect.poll(() => stream.received).toHaveLength(1)
      server.emit('before', name, {})
      await expect.poll(() => idsOf(stream.received)).toEqual(['before'])
      await server.kill()
      server.emit('meanwhile', name, {})
      await server.start()
      server.emit('after', name, {})
      const all = ['before', 'meanwhile', 'after']
      await expect.poll(() => idsOf(stream.received)).toEqual(all)
      expect(stream.received.filter(({ what }) => what === 'active')).toHaveLength(1)
    },
  )

  test('of the time in which the server was away are a gap if it does not keep them', async () => {
    const server = await eventsServer({ FORGETS: 'on' })
    const gateway = await gatewayTo({ one: { url: server.url } }, { config })
    const stream = await follow(gateway.url, 'events/stream', { name: 'build.done' })
    await expect.poll(() => stream.received).toHaveLength(1)
    server.emit('before', 'build.done', {})
    await expect.poll(() => idsOf(stream.received)).toEqual(['before'])
    await server.kill()
    server.emit('meanwhile', 'build.done', {})
    await server.start()
    const gaps = () => stream.received.filter(({ params }) => params['truncated'] === true)
    await expect.poll(gaps).toMatchObject([{ what: 'active' }])
    server.emit('after', 'build.done', {})
    await expect.poll(() => idsOf(stream.received)).toEqual(['before', 'after'])
  })

  test('end when the server ends them, with the code that the client expects', async () => {
    const server = await eventsServer()
    const gateway = await gatewayTo({ one: { url: server.url } }, { config })
    const request = { name: 'build.done' }
    const sketch = { capabilities: { events: {} } }
    const first = await follow(gateway.url, 'events/stream', request)
    await expect.poll(() => first.received).toHaveLength(1)
    // Of several gateways, one listens to the server by now: the other stream gets no gap for that.
    const second = await follow(gateway.url, 'events/stream', request, sketch)
    await expect.poll(() => second.received).toHaveLength(1)
    const { cursor } = await ask(gateway.url, 'events/poll', request)
    const error = { code: -32012, message: 'no more', data: { reason: 'revoked' } }
    server.emit('end', 'build.done', {}, { error })
    for (const [{ ended, received }, code] of [
      [first, -32024],
      [second, -32012],
    ] as const) {
      expect(objectAt(await ended, 'result')).toMatchObject({ resultType: 'complete' })
      expect(received.at(-1)).toMatchObject({
        what: 'terminated',
        params: { error: { code, data: { reason: 'revoked' } } },
      })
    }
    expect(await ask(gateway.url, 'events/poll', { ...request, cursor })).toMatchObject({
      error: { code: -32024 },
    })
  })

  test('are refused as their server refuses them', async () => {
    const server = await eventsServer()
    const gateway = await gatewayTo({ one: { url: server.url } }, { config })
    const request = { name: 'build.done', arguments: { repo: 'secret' } }
    expect(await ask(gateway.url, 'events/poll', request)).toMatchObject({
      error: { code: -32024, data: { reason: 'policy' } },
    })
    const sketch = { capabilities: { events: {} } }
    expect(await ask(gateway.url, 'events/poll', request, sketch)).toMatchObject({ error: { code: -32012 } })
  })
})
