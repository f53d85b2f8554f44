// Requests whose session another process has, and what depends on the token of their caller, which does not travel.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Issuer, startIssuer } from '../../support/auth/issuer.ts'
import { open, post } from '../../support/client/raw.ts'
import { folder, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { alone } from '../../support/scattered.ts'

alone('the gateways are those of a fleet, of which each test chooses one')

const PUBLIC = 'https://gate.example'
let issuer: Issuer
beforeAll(async () => void (issuer = await startIssuer()))
afterAll(() => issuer.close())

/** Two gateways whose tool `echo` needs a scope. */
async function sharing() {
  const server = await httpServer()
  const config = {
    auth: { jwt: { issuer: issuer.url } },
    features: { confirm: 'off' },
    store: folder(),
    listen: { legacy_sse: true, public_url: PUBLIC },
    upstreams: { one: { url: server.url, tools: { echo: { scopes: 'use:echo' } } } },
  }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  onTestFinished(async () => void (await Promise.all(gateways.map((each) => each.close()))))
  return gateways
}

async function bearer(audience: string, scope = ''): Promise<{ authorization: string }> {
  return { authorization: `Bearer ${await issuer.sign({ aud: `${PUBLIC}${audience}`, scope })}` }
}

test('a caller without a scope is told to get a token with it, and continues with that one', async () => {
  const [one, other] = await sharing()
  const session = await openSession(one.url, '2025-11-25', {}, await bearer('/mcp'))
  const call = async (scope: string) => {
    const headers = { ...session.headers, ...(await bearer('/mcp', scope)) }
    return post(other.url, JSON.stringify(toolCall(1, 'echo', { text: 'a' })), headers)
  }
  const refused = await call('')
  expect(refused.status).toBe(403)
  expect(refused.headers['www-authenticate']).toContain('error="insufficient_scope"')
  expect((await call('use:echo')).status).toBe(200)
})

test('a token for the HTTP+SSE endpoint of one server is accepted with its messages, and with no others', async () => {
  const [one, other] = await sharing()
  const headers = { accept: 'text/event-stream', ...(await bearer('/sse/one')) }
  const stream = await open(`${one.origin}/sse/one`, { method: 'GET', headers })
  onTestFinished(() => stream.destroy())
  const { value } = await stream.events().next()
  const to = `${other.origin}${value?.data}`
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
  expect((await post(to, ping, await bearer('/sse/one'))).status).toBe(202)
  expect((await post(to, ping, await bearer('/sse/two'))).status).toBe(401)
  expect((await post(to.replace(/&at=.*/, ''), ping, await bearer('/sse/one'))).status).toBe(401)
})
