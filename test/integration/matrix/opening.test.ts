import { expect, it } from 'vitest'
import { describePairs } from '../../support/matrix.ts'
import { mark } from '../../support/meeting.ts'
import { objectAt, RawJson, textAt } from '../../support/server/json.ts'

describePairs({ server: ({ revision }) => ({ pingClient: revision !== '2026-07-28' }) }, (meeting) => {
  const { client, server } = meeting

  it('tells the client who the server is and what it can do', () => {
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
    })
    expect(initialized['instructions']).toBe(server.titles ? 'Use the fake tools.' : undefined)
  })

  it('answers a ping where the client has pings', async () => {
    const reply = await meeting.request('ping')
    if (!client.modern) return expect(reply.result).toEqual({})
    expect(reply.error).toMatchObject({ code: -32601 })
    if (meeting.isHttp) expect(reply.status).toBe(404)
  })

  it('refuses what the revision of the client has not, without asking the server', async () => {
    const foreign = client.modern
      ? ['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe']
      : ['server/discover', 'subscriptions/listen']
    for (const method of foreign) {
      const reply = await meeting.request(method, { level: 'info', uri: 'fake://static' })
      expect({ method, ...reply.error }).toMatchObject({ method, code: -32601 })
      expect(reply.status).toBe(meeting.isHttp ? (client.modern ? 404 : 200) : 0)
    }
  })

  it('passes a method of a vendor on as it is', async () => {
    const payload = '{"big":12345678901234567890,"float":1.0}'
    const reply = await meeting.request('vendor/ping', { payload: new RawJson(payload) })
    expect(textAt(reply.text, ['result', 'pong'])).toBe(payload)
    expect(reply.result).toMatchObject({ 'x-more': true })
  })

  it('says that a method is not there', async () => {
    const reply = await meeting.request('vendor/nothing')
    expect(reply.error).toMatchObject({ code: -32601 })
    expect(reply.status).toBe(meeting.isHttp ? (client.modern ? 404 : 200) : 0)
  })

  it('passes a notification of a vendor on to the server', async () => {
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
