import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import type { Heard, PeerClient } from '../../support/peers/client.ts'
import { peerKinds } from '../../support/peers/clients.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

const servers = ['everything', 'everything-http'] as const
const meetings = peerKinds.flatMap((kind) => servers.map((server) => ({ ...kind, server })))

let house: House
beforeAll(async () => {
  house = await openHouse(servers)
})
afterAll(() => house.close())

describe.each(meetings)(
  'a client of the $title that listens to $server',
  ({ server, transport, connect }) => {
    let client: PeerClient
    beforeAll(async () => {
      client = await connect(house.way(transport, server))
    })
    afterAll(() => client.close())

    it('receives updates of the resource it subscribed to', async () => {
      const uri = 'demo://resource/dynamic/text/1'
      await client.subscribe(uri)
      await client.call('toggle-subscriber-updates')
      const note = await until(() => heard(client, 'notifications/resources/updated')[0], 'an update')
      expect(note.params).toMatchObject({ uri })
      await client.call('toggle-subscriber-updates')
    })
  },
)

const isLegacy = ({ era }: { era: string }): boolean => era === 'legacy'

describe.each(meetings.filter(isLegacy))('the log of $server for a client of the $title', (meeting) => {
  it('is received from the level that the client requests', async () => {
    const { server, transport, connect } = meeting
    const client = await connect(house.way(transport, server))
    const [shown, hidden] = [nextUri(), nextUri()]
    await client.log('debug')
    await client.subscribe(shown)
    await until(() => logged(client, shown), 'a log message')
    await client.log('error')
    await client.subscribe(hidden)
    await client.call('echo', { message: 'later' })
    expect(logged(client, hidden)).toBe(false)
    await client.close()
  })
})

describe.each(meetings.filter((meeting) => !isLegacy(meeting)))(
  'the log of $server for a client of the $title',
  (meeting) => {
    it('is not received if the client did not request it', async () => {
      const { server, transport, connect } = meeting
      const client = await connect(house.way(transport, server))
      await client.subscribe(nextUri())
      await client.call('echo', { message: 'later' })
      expect(heard(client, 'notifications/message')).toEqual([])
      await client.close()
    })
  },
)

let resources = 100

// A resource without subscribers, so that the server receives the subscription and logs it.
function nextUri(): string {
  return `demo://resource/dynamic/text/${++resources}`
}

function logged(client: PeerClient, text: string): boolean {
  return heard(client, 'notifications/message').some(({ params }) => String(params?.['data']).includes(text))
}

function heard(client: PeerClient, method: string): Heard[] {
  return client.heard.filter((note) => note.method === method)
}
