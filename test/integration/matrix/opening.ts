// What a client learns when it connects, and the methods that its revision has. Older servers ping their clients.
import { expect, it } from 'vitest'
import { subject } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { objectAt, RawJson, textAt } from '../../support/server/json.ts'

export const opening = subject('matrix/opening', (meeting) => {
  const { client, server } = meeting

  it("reports the server's name and capabilities to the client", () => {
    const { initialized } = meeting.connected
    const info = client.modern
      ? objectAt(initialized, '_meta')['io.modelcontextprotocol/serverInfo']
      : initialized['serverInfo']
    expect(info).toMatchObject({ name: 'fake-server', version: '1.0.0' })
    expect(initialized['capabilities']).toEqual({
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      logging: {},
      ...(server.completions && { completions: {} }),
      experimental: { 'com.example/fake': { level: 1 } },
      ...(client.modern && { extensions: { 'io.modelcontextprotocol/tasks': {} } }),
      ...(client.coreTasks && { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }),
    })
    expect(initialized['instructions']).toBe(server.titles ? 'Use the fake tools.' : undefined)
  })

  it("answers a ping if the client's revision has pings", async () => {
    const reply = await meeting.request('ping')
    if (!client.modern) return expect(reply.result).toEqual({})
    expect(reply.error).toMatchObject({ code: -32601 })
    if (meeting.isHttp) expect(reply.status).toBe(404)
  })

  it("refuses methods that the client's revision does not have, without a request to the server", async () => {
    const foreign = client.modern
      ? ['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']
      : ['server/discover', 'subscriptions/listen']
    for (const method of foreign) {
      const reply = await meeting.request(method, { level: 'info', uri: 'fake://static' })
      expect({ method, ...reply.error }).toMatchObject({ method, code: -32601 })
      expect(reply.status).toBe(meeting.isHttp ? (client.modern ? 404 : 200) : 0)
    }
  })

  it('forwards a vendor method unchanged', async () => {
    const payload = '{"big":12345678901234567890,"float":1.0}'
    const reply = await meeting.request('vendor/ping', { payload: new RawJson(payload) })
    expect(textAt(reply.text, ['result', 'pong'])).toBe(payload)
    expect(reply.result).toMatchObject({ 'x-more': true })
  })

  it('refuses an unknown method', async () => {
    const reply = await meeting.request('vendor/nothing')
    expect(reply.error).toMatchObject({ code: -32601 })
    expect(reply.status).toBe(meeting.isHttp ? (client.modern ? 404 : 200) : 0)
  })

  it('forwards a vendor notification to the server', async () => {
    const news = mark()
    await meeting.connected.notify('notifications/vendor', { news })
    const { message } = await meeting.until(({ text }) => text.includes(news))
    expect(message).toMatchObject({ method: 'notifications/vendor', params: { news } })
  })

  if (server.modern) return
  it('answers the pings of the server', async () => {
    const { message } = await meeting.until(({ message: each }) => each?.['result'] !== undefined)
    expect(message).toMatchObject({ id: 1, result: {} })
  })
})
