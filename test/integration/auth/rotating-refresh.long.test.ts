import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { authorizationServer, followLink } from '../../support/authorization-server.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { clientOf, codeOf, folder } from '../../support/journey.ts'
import { protectedServer, unauthorized } from '../../support/protected-server.ts'

/** How long an access token is good. It is renewed up to five seconds before. */
const TTL_S = 7
const SESSIONS = 50
const RUN_MS = 16_000
const KILL_INTERVAL_MS = 3000
const call = { name: 'echo', arguments: { text: 'hello' } }

it('four gateways with 50 sessions use each refresh token once, though gateways are killed', async () => {
  const authority = await authorizationServer({ ttl: TTL_S, rotates: true })
  const server = await protectedServer(async (token, url) => {
    const claims = token && (await authority.verify(token, url).catch(() => undefined))
    return claims ? undefined : unauthorized(url, 'read')
  })
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  const config = {
    store: folder(),
    upstreams: { one: { url: server.url, oauth: {}, trust: true } },
    features: { confirm: 'off' },
  }
  const gateways: GatewayProcess[] = []
  onTestFinished(async () => void (await Promise.all(gateways.map((each) => each.close()))))
  const start = async (at: number): Promise<void> => void (gateways[at] = await startGatewayProcess(config))
  for (const at of [0, 1, 2, 3]) await start(at)
  const gatewayAt = (at: number): GatewayProcess => gateways[at % gateways.length] as GatewayProcess

  const first = await clientOf(gatewayAt(0), { revision: '2025-06-18', capabilities: {} })
  const { result, error } = await first.request('tools/call', call)
  const link = /http:\/\/127\.0\.0\.1:\d+\/oauth\/start\/[\w-]+/.exec(JSON.stringify(result ?? error))?.[0]
  expect(await followLink(link ?? '', 'alice')).toContain('You are signed in to one.')

  const until = performance.now() + RUN_MS
  const codes = new Map<unknown, number>()
  let answered = 0
  const session = async (number: number): Promise<void> => {
    let client: FakeClient | undefined
    while (performance.now() < until) {
      try {
        client ??= await clientOf(gatewayAt(number))
        const reply = await client.request('tools/call', call)
        const code = codeOf(reply)
        if (code === undefined && reply.result?.['isError'] !== true) answered++
        else codes.set(code, (codes.get(code) ?? 0) + 1)
      } catch {
        // Its gateway was killed.
        client = undefined
      }
      await pause(100 + number)
    }
  }
  // A process that ends between the answer of the authorization server and its record takes the only usable token along.
  const betweenRenewals = async (): Promise<void> => {
    for (let before = -1; before !== authority.grants.length; await pause(500))
      before = authority.grants.length
  }
  const kills = async (): Promise<void> => {
    for (let at = 1; performance.now() < until - KILL_INTERVAL_MS; at++) {
      await pause(KILL_INTERVAL_MS)
      await betweenRenewals()
      const killed = gatewayAt(at)
      killed.signal('SIGKILL')
      await killed.ended
      await start(at % gateways.length)
    }
  }
  await Promise.all([...Array.from({ length: SESSIONS }, (_, number) => session(number)), kills()])

  const used = authority.grants
    .filter((grant) => grant.get('grant_type') === 'refresh_token')
    .map((grant) => grant.get('refresh_token'))
  expect(answered).toBeGreaterThan(SESSIONS * 10)
  expect(used.length).toBeGreaterThanOrEqual(2)
  expect(new Set(used).size).toBe(used.length)
  expect(used.length).toBeLessThanOrEqual(Math.ceil(RUN_MS / 1000 / (TTL_S - 5)) + 1)
  expect(authority.revoked).toBe(0)
  expect([...codes.keys()]).not.toContain('AUTHENTICATION_REQUIRED')
}, 90_000)
