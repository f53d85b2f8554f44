// A session is in the store before its client learns its id, so a kill of the gateway at that moment does not end it.
import { expect, onTestFinished, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { initialize } from '../../support/fronts.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { folder, httpServer } from '../../support/journey.ts'
import { toolCall } from '../../support/raw-session.ts'
import { steadyPort } from '../../support/steady-port.ts'

test('a session of every older revision survives a kill right after its handshake', async () => {
  const [server, store, port] = [await httpServer(), folder(), await steadyPort()]
  const config = { store, features: { confirm: 'off' }, upstreams: { one: { url: server.url } } }
  const start = (): Promise<GatewayProcess> => startGatewayProcess(config, { port })
  let gateway = await start()
  onTestFinished(() => gateway.close())
  const { url } = gateway
  for (const revision of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const opened = await post(url, JSON.stringify(initialize(revision)))
    gateway.signal('SIGKILL')
    await gateway.close()
    gateway = await start()
    const headers = { 'mcp-session-id': opened.headers['mcp-session-id'] ?? '' }
    const initialized = await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', headers)
    expect(initialized.status).toBe(202)
    const called = await post(url, JSON.stringify(toolCall(2, 'echo', { text: 'still here' })), headers)
    expect(called.text).toContain('still here')
  }
  expect(server.violations).toEqual([])
})
