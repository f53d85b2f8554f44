// Sessions of HTTP+SSE behind a load balancer that is not sticky: the stream is in one process, the messages reach all of them.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect, onTestFinished, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { callsOf, folder, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { scatteringFront } from '../../support/scattering-front.ts'

alone('the gateways are those of a fleet, of which each test chooses one')

async function sharing() {
  const server = await httpServer()
  const config = {
    features: { confirm: 'off' },
    store: folder(),
    listen: { legacy_sse: true },
    upstreams: { one: { url: server.url } },
  }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  onTestFinished(async () => void (await Promise.all(gateways.map((each) => each.close()))))
  return { server, gateways }
}

test('they call, answer forms and are notified', async () => {
  const { server, gateways } = await sharing()
  const front = await scatteringFront(gateways)
  const client = new Client({ name: 'sdk', version: '1' }, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { name: 'Ada' } }))
  await client.connect(new SSEClientTransport(new URL('/sse/one', front.url)))
  onTestFinished(() => client.close())
  for (let index = 0; index < 4; index++) {
    const { content } = await client.callTool({ name: 'echo', arguments: { text: `call ${index}` } })
    expect(JSON.stringify(content)).toContain(`call ${index}`)
  }
  const { content } = await client.callTool({ name: 'ask_form', arguments: {} })
  expect(JSON.stringify(content)).toContain('Ada')
  expect(callsOf(server, 'echo')).toBe(4)
  expect(Math.min(...front.counts)).toBeGreaterThan(2)
})

test('a message for a process that is gone, or with a place that is forged, finds no session', async () => {
  const { gateways } = await sharing()
  const [one, other] = gateways
  const response = await fetch(`${one.origin}/sse/one`, { headers: { accept: 'text/event-stream' } })
  const reader = response.body?.getReader()
  const { value } = (await reader?.read()) ?? {}
  const path = /data: (\S+)/.exec(Buffer.from(value ?? []).toString())?.[1] ?? ''
  expect(path).toMatch(/^\/messages\?session_id=[\da-f-]{36}&at=[\w-]+$/)
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  expect((await post(`${other.origin}${path}`, ping, {})).status).toBe(202)
  const forged = path.replace(/at=.{8}/, 'at=AAAAAAAA')
  expect((await post(`${other.origin}${forged}`, ping, {})).status).toBe(404)
  await reader?.cancel()
  await one.close()
  expect((await post(`${other.origin}${path}`, ping, {})).status).toBe(404)
})
