// A server on Python with events of its own, which it delivers to webhooks only, behind the gateway.
import { experimental_createMCPClient as createMCPClient } from '@ai-sdk/mcp'
import { expect, onTestFinished, test } from 'vitest'
import { aiSdkReceiver } from '../support/ai-sdk-receiver.ts'
import { tokenHash } from '../support/auth/token-hash.ts'
import { gatewayTo } from '../support/journey.ts'
import { StatelessClient } from '../support/stateless-client.ts'
import { steadyPort } from '../support/steady-port.ts'
import { serveOverHttp } from './journey.ts'
import { buildEventsServer } from './toolchains.ts'

const built = await buildEventsServer()
const TOKEN = 'token-of-the-subscriber'
const name = 'ticket.updated'

test('the events of a server that has webhooks alone reach an older client by webhook and a modern one by poll', async ({
  skip,
}) => {
  if ('missing' in built) return skip(built.missing)
  const server = await serveOverHttp(built.server)
  onTestFinished(() => server.close())
  const receiver = await aiSdkReceiver()
  const port = await steadyPort()
  const scopes = ['tickets', 'read:tickets', 'write:tickets', 'delete:tickets']
  const config = {
    listen: { public_url: `http://127.0.0.1:${port}` },
    auth: { opaque: { tokens: [{ hash: tokenHash(TOKEN), id: 'subscriber', scopes }] } },
    features: { events: { webhooks: { allow: [receiver.origin] } } },
  }
  const upstreams = { tickets: { url: server.url } }
  const gateway = await gatewayTo(upstreams, { config, args: ['--port', String(port)] })
  const url = `${gateway.url}/tickets`
  const older = await createMCPClient({
    transport: { type: 'http', url, headers: { authorization: `Bearer ${TOKEN}` } },
    protocolVersionDiscovery: false,
    capabilities: { events: {} },
    experimental_events: { store: receiver.store },
  })
  onTestFinished(() => older.close())
  const request = { name, arguments: { ticket_id: 'T-1' } }
  const delivery = { mode: 'webhook', url: receiver.url, allowInsecureLocalhost: true } as const
  await older.experimental_events.subscribe({ ...request, delivery })
  const modern = new StatelessClient({ url, token: TOKEN })
  const { cursor } = (await modern.send('events/poll', request)).fields

  // One subscription of the gateway serves both, so the server delivers once, before it answers.
  const { texts } = await modern.call('reply', { ticket_id: 'T-1', summary: 'Solved.' })
  expect(texts).toEqual(['1 1'])
  expect((await modern.call('reply', { ticket_id: 'T-2', summary: 'Other.' })).texts).toEqual(['0 0'])
  const data = { ticket_id: 'T-1', summary: 'Solved.' }
  const polled = await modern.send('events/poll', { ...request, cursor })
  expect(polled.fields).toMatchObject({ events: [{ name, data }], truncated: false })
  await expect.poll(() => receiver.received).toMatchObject([{ name, data }])
})
