import { describe, expect, test } from 'vitest'
import { clientOf, gatewayProcessTo, stdioServer } from '../../support/journey.ts'
import { descendants, hasProcessTree } from '../../support/process-tree.ts'
import { follow } from '../../support/event-stream-client.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const revision = '2026-07-28'

function eventsIn(result: Json | undefined): readonly Json[] {
  const events = result?.['events']
  return Array.isArray(events) ? events.filter(isObject) : []
}

describe.skipIf(!hasProcessTree)('the events of a server whose process is killed', () => {
  test('are that it cannot be reached, at once, and that it can be again, once a caller waits for that', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() }, { config: { features: { events: 'on' } } })
    const client = await clientOf(gateway, { revision })
    const [down, up] = await Promise.all(
      ['upstream_down', 'upstream_up'].map(async (name) => {
        const { result } = await client.request('events/poll', { name })
        const cursor = result?.['cursor']
        return async () => eventsIn((await client.request('events/poll', { name, cursor })).result)
      }),
    )
    const [child] = descendants(gateway.pid)
    if (child === undefined || !down || !up) throw new Error('there is no child')
    process.kill(child, 'SIGKILL')
    await expect.poll(down).toMatchObject([{ name: 'upstream_down', data: { server: 'one' } }])
    await expect.poll(up).toMatchObject([{ name: 'upstream_up' }])
    expect(await down()).toHaveLength(1)
    expect(client.violations).toEqual([])
  })
})

test('E23 a changed configuration is a change of the types of events for clients that listen for it', async () => {
  const config = { features: { events: 'on' } }
  const upstreams = { one: stdioServer() }
  const gateway = await gatewayProcessTo(upstreams, { config })
  const filter = { notifications: { eventsListChanged: true } }
  const { received } = await follow(gateway.url, 'subscriptions/listen', filter)
  await expect
    .poll(() => received)
    .toMatchObject([{ params: { notifications: { eventsListChanged: true } } }])
  gateway.configure({ upstreams, features: { events: { writes: 'off' } } })
  await gateway.logged(({ event }) => event === 'config.reloaded')
  await expect.poll(() => received.map(({ what }) => what)).toContain('list_changed')
})
