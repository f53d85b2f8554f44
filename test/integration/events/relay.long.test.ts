import { expect, test } from 'vitest'
import { eventsServer } from '../../fixtures/events-server/start.ts'
import { ask } from '../../support/event-stream-client.ts'
import { folder, gatewayProcessTo } from '../../support/journey.ts'
import { isObject } from '../../support/server/json.ts'

test('events of a server that happen while the gateway is away arrive once, with a store in a folder', async () => {
  const server = await eventsServer()
  const store = folder()
  const upstreams = { one: { url: server.url } }
  const options = { config: { features: { events: 'on' }, store } }
  const first = await gatewayProcessTo(upstreams, options)
  const request = { name: 'build.done' }
  const { cursor } = await ask(first.url, 'events/poll', request)
  server.emit('before', 'build.done', {})
  const from = (url: string) => async () => {
    const { events } = await ask(url, 'events/poll', { ...request, cursor })
    return Array.isArray(events) ? events.filter(isObject).map(({ eventId }) => eventId) : []
  }
  await expect.poll(from(first.url)).toEqual(['before'])
  first.signal('SIGKILL')
  await first.ended
  server.emit('meanwhile', 'build.done', {})
  const second = await gatewayProcessTo(upstreams, options)
  await expect.poll(from(second.url)).toEqual(['before', 'meanwhile'])
  expect(await ask(second.url, 'events/poll', { ...request, cursor })).toMatchObject({ truncated: false })
})
