import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { startIssuer } from '../../support/auth/issuer.ts'
import { open, type OpenReply, post, usual } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { initialize, modern } from '../../support/fronts.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import type { HeaderMap } from '../../support/server/journal.ts'

const issuer = await startIssuer()
let fake: FakeServer
let gateway: LocalGateway

beforeAll(async () => {
  // Only the clock is faked: I/O and timers continue normally.
  vi.useFakeTimers({ toFake: ['Date'] })
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await localGateway({
    listen: { legacy_sse: true },
    auth: { jwt: { issuer: issuer.url, jwks: issuer.jwks, audience: 'gateway' } },
    upstreams: { fake: fake.url },
  })
})
afterAll(async () => {
  await gateway.close()
  await fake.close()
  await issuer.close()
  vi.useRealTimers()
})

async function bearer(seconds: number): Promise<HeaderMap> {
  const exp = Math.floor(Date.now() / 1000) + seconds
  return { authorization: `Bearer ${await issuer.sign({ exp })}` }
}

/** Advances the clock to a time at which a token of this many seconds is not accepted any more. */
function pass(seconds: number): void {
  vi.setSystemTime(Date.now() + (seconds + 31) * 1000)
}

function stream(url: string, headers: HeaderMap): Promise<OpenReply> {
  return open(url, { method: 'GET', headers: { accept: 'text/event-stream', ...headers } })
}

async function sessionOf(caller: HeaderMap): Promise<HeaderMap> {
  const { headers } = await post(gateway.url, JSON.stringify(initialize()), caller)
  return { 'mcp-session-id': headers['mcp-session-id'] ?? '', 'mcp-protocol-version': '2025-11-25' }
}

describe('an open stream ends when the token it was opened with expires', () => {
  it('ends a session stream, which another token can reopen', async () => {
    const session = await sessionOf(await bearer(60))
    const first = await stream(gateway.url, { ...session, ...(await bearer(60)) })
    expect(first.status).toBe(200)
    pass(60)
    await first.text()
    const again = await stream(gateway.url, { ...session, ...(await bearer(3600)) })
    expect(again.status).toBe(200)
    again.destroy()
  })

  it('ends an HTTP+SSE stream', async () => {
    const first = await stream(`${gateway.origin}/sse`, await bearer(60))
    pass(60)
    expect(await first.text()).toContain('event: endpoint')
  })

  it('ends a 2026-07-28 stream with an error that gives the reason', async () => {
    const { message, headers } = modern('subscriptions/listen', { notifications: { toolsListChanged: true } })
    const listening = await open(gateway.url, {
      method: 'POST',
      headers: { ...usual, ...headers, ...(await bearer(60)) },
      body: JSON.stringify(message),
    })
    pass(60)
    const text = await listening.text()
    expect(text).toContain('notifications/subscriptions/acknowledged')
    expect(text).toContain('TOKEN_EXPIRED')
  })

  it('keeps an HTTP+SSE stream open if its caller has presented a newer token since', async () => {
    alone('it moves the clock, after which gateways take each other as gone until their next heartbeats')
    const first = await stream(`${gateway.origin}/sse`, await bearer(60))
    const other = await stream(`${gateway.origin}/sse`, await bearer(60))
    const events = first.events()
    const { value } = await events.next()
    const to = gateway.origin + String(value?.data)
    await post(to, JSON.stringify(initialize()), await bearer(7200))
    await events.next()
    pass(60)
    await other.text()
    await post(to, '{"jsonrpc":"2.0","id":"still","method":"ping"}', await bearer(7200))
    expect((await events.next()).value?.data).toContain('"still"')
    first.destroy()
  })
})
