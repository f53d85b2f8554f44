// Log messages reach a client from the level that it requests, in the way of its revision.
import { beforeAll, expect, it } from 'vitest'
import type { FakeClient } from '../../support/fake-client.ts'
import { subject } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import type { Json } from '../../support/server/json.ts'

const levels = ['debug', 'info', 'warning', 'error', 'emergency']
const message = 'notifications/message'

export const logs = subject('matrix/logs', (meeting) => {
  const { client, server } = meeting
  let own: FakeClient

  // Each set of client capabilities has its own connection, so no other client has set the server's log level. A gateway on
  // stdio has no other client.
  beforeAll(async () => {
    const isAlone = meeting.kinds.client.transport === 'stdio'
    own = isAlone
      ? meeting.connected
      : await meeting.connect({ capabilities: { experimental: { [mark()]: {} } } })
  })

  it(`${title(client.modern, server.modern)}`, async () => {
    const heard = await logged(own, 'log', { levels })
    if (client.modern || server.modern) return expect(heard).toEqual([])
    expect(heard).toEqual(levels)
  })

  it('sends the log messages of a call from the level that the client requests', async () => {
    for (const level of ['error', 'info', 'warning']) {
      if (!client.modern) expect((await own.request('logging/setLevel', { level })).result).toEqual({})
      const heard = await logged(own, 'log', { levels }, client.modern ? level : undefined)
      expect(heard).toEqual(levels.slice(levels.indexOf(level)))
    }
  })

  it('refuses an unknown log level', async () => {
    const reply = client.modern
      ? await own.request('tools/call', { name: 'log', arguments: { levels } }, { logLevel: 'loud' })
      : await own.request('logging/setLevel', { level: 'loud' })
    expect(reply.error).toMatchObject({ code: -32602 })
    if (meeting.isHttp) expect(reply.status).toBe(client.modern ? 400 : 200)
  })

  if (client.modern) {
    it('sends no log messages to a call that did not request them, after one that did', async () => {
      expect(await logged(own, 'log', { levels }, 'debug')).toEqual(levels)
      expect(await logged(own, 'log', { levels })).toEqual([])
    })
  }

  it('forwards a vendor notification to the client', async () => {
    const before = own.notes.length
    const { notes } = await own.request('tools/call', { name: 'change', arguments: { what: ['vendor'] } })
    const heard = [...notes, ...own.notes.slice(before)]
    expect(heard).toMatchObject([{ method: 'notifications/vendor', params: { news: true } }])
  })
})

function title(isModernClient: boolean, isModernServer: boolean): string {
  if (isModernClient) return 'sends no log messages to a client that requested none'
  return isModernServer
    ? 'sends no log messages of a server that logs only on request'
    : 'sends all log messages of a server that logs by default'
}

/** The levels of the messages that came with a call, in order. */
async function logged(client: FakeClient, name: string, args: Json, logLevel?: string): Promise<unknown[]> {
  const before = client.notes.length
  const params = { name, arguments: args }
  const { notes } = await client.request('tools/call', params, logLevel === undefined ? {} : { logLevel })
  return [...notes, ...client.notes.slice(before)]
    .filter(({ method }) => method === message)
    .map(({ params: { level } }) => level)
}
