// The literal request of the proposal of subscriptions: members in `subscribe`, with the server whose events are meant.
import { afterEach, describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { FeatureInstance } from '../../../../src/features/feature.ts'
import { added, closeAll, eventGateway, eventWorld, noteTool } from '../../../support/event-clients.ts'

const opened: FeatureInstance[] = []
afterEach(() => closeAll(opened))

const all: Partial<Call> = { target: { method: 'event/subscribe', isBuiltin: true } }

/** Two servers with the same tool; `one` has another tool, whose event has the name of the first one with its prefix. */
function twoServers() {
  const tools: Record<string, string[]> = { one: ['add_note', 'two_add_note'], two: ['add_note'] }
  const made = eventGateway(eventWorld(), {
    servers: () => ['one', 'two'],
    entry: ({ target: { name = '', upstream = '' } }) => ({ ...noteTool(name, 'write'), upstream }),
    tools: async (upstream) =>
      (tools[upstream] ?? []).map((name) => ({ ...noteTool(name, 'write'), upstream })),
  })
  opened.push(made.instance)
  return made
}

describe('a request to subscribe in its literal form', () => {
  it('has its members in `subscribe`, as method, as tool and over HTTP', async () => {
    const { subscribe, callTool, instance } = twoServers()
    const wrapped = {
      subscribe: {
        server: 'one',
        events: [added],
        filter: { text: 'x' },
        subscription_id: 'sub-notes',
        ttl_seconds: 60,
      },
    }
    const answer = { subscription_id: 'sub-notes', status: 'active' }
    expect(await subscribe(wrapped)).toMatchObject(answer)
    expect(await callTool('subscribe_events', wrapped)).toMatchObject({ structuredContent: answer })
    const route = instance.http?.routes?.find(({ path }) => path === '/subscribe')
    expect(route?.handle).toBeDefined()
    const until = Date.parse(String((await subscribe(wrapped))['expires_at']))
    expect(until - Date.now()).toBeLessThanOrEqual(60_000)
  })

  it.each([{ subscribe: { server: 'two', events: [added] } }, { server: 'two', events: [added] }])(
    'names events as their server does at the address of all servers: %j',
    async (params) => {
      const { subscribe, write, request } = twoServers()
      const { subscription_id: id } = await subscribe(params, all)
      for (const upstream of ['one', 'two'])
        await write(
          'add_note',
          { text: upstream },
          { target: { method: 'tools/call', upstream, name: 'add_note' } },
        )
      const { events } = await request('event/poll', { subscription_id: id }, all)
      expect(events).toMatchObject([{ event: `two_${added}`, payload: { arguments: { text: 'two' } } }])
    },
  )

  it('takes names with the prefix of the server too, unless the server has an event of that name', async () => {
    const { subscribe } = twoServers()
    const named = { server: 'two', events: [`two_${added}`] }
    expect(await subscribe(named, all)).toMatchObject({ status: 'active' })
    expect(await subscribe({ ...named, server: 'one' }, all)).toMatchObject({ status: 'active' })
    expect(await subscribe({ server: 'one', events: ['two_drop_note.succeeded'] }, all)).toMatchObject({
      status: 'denied',
      reason: expect.stringContaining('one_two_drop_note.succeeded'),
    })
  })

  it('names the servers where it does not know the one of the request', async () => {
    const { subscribe } = twoServers()
    const refused = (servers: string) => ({
      code: 'INVALID_INPUT',
      message: `Invalid params: server must be one of ${servers}, or absent.`,
      extra: { field: 'server' },
    })
    for (const server of ['three', '', 7, {}, 'toString'])
      await expect(subscribe({ subscribe: { server, events: [added] } }, all)).rejects.toMatchObject(
        refused('one, two'),
      )
    await expect(subscribe({ server: 'two', events: [added] })).rejects.toMatchObject(refused('one'))
    expect(await subscribe({ server: null, subscribe: null, events: [added] })).toMatchObject({
      status: 'active',
    })
  })

  it.each([
    [{ subscribe: ['x'] }, 'subscribe'],
    [{ subscribe: { server: 'one' } }, 'events'],
    [{ subscribe: { events: [added] }, events: [added] }, 'subscribe.events'],
    [{ subscribe: { subscribe: { events: [added] } } }, 'events'],
  ])('refuses %j, and names the place', async (params, field) => {
    await expect(twoServers().subscribe(params)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      extra: { field },
    })
  })

  it('keeps numbers beyond 2^53 in a filter as they are', async () => {
    const { request, add } = twoServers()
    const text = `{"subscribe":{"events":["${added}"],"filter":{"n":9007199254740993}}}`
    const params = Payload.text(text)
    const { subscription_id: id } = await request('event/subscribe', {}, { params })
    await add({ n: 9007199254740992, text: 'other' })
    expect(await request('event/poll', { subscription_id: id })).toMatchObject({ events: [] })
  })
})
