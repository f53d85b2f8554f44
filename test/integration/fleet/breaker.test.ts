// The breaker of a server that several gateways with one store have.
import { describe, expect, onTestFinished, test } from 'vitest'
import { callsOf, folder, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { hasRedis, startRedis } from '../../support/redis-server.ts'
import { alone } from '../../support/scattered.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

alone('the gateways are those of a fleet, of which the test chooses one')

const stores = hasRedis() ? (['folder', 'redis'] as const) : (['folder'] as const)

async function storeOf(kind: (typeof stores)[number]): Promise<string> {
  if (kind === 'folder') return folder()
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  return redis.url
}

describe.each(stores)('with a store in %s', (kind) => {
  test('is open at all of them once it opens at one', async () => {
    const server = await httpServer()
    const features = { confirm: 'off', idempotency: 'off', breaker: { failures: 2, pause: '1m' } }
    const upstreams = { one: { url: server.url } }
    const config = { store: await storeOf(kind), features, upstreams }
    const gateways = [await localGateway(config), await localGateway(config)] as const
    onTestFinished(async () => void (await Promise.all(gateways.map((gateway) => gateway.close()))))
    const [one, other] = gateways.map(({ url }) => new StatelessClient({ url }))
    if (!one || !other) return expect.unreachable()
    for (const client of [one, other])
      expect((await client.call('echo', { text: 'a' })).error).toBeUndefined()
    for (let index = 0; index < 2; index++) await one.call('crash')
    const refused = { data: expect.objectContaining({ code: 'SERVER_UNAVAILABLE' }) }
    await expect
      .poll(async () => (await other.call('echo', { text: 'b' })).error, { interval: 5 })
      .toMatchObject(refused)
    expect(callsOf(server, 'crash')).toBe(2)
    const events = gateways.map(({ lines }) =>
      lines.map(({ event }) => event).filter((event) => String(event).startsWith('upstream.circuit')),
    )
    expect(events).toEqual([['upstream.circuit_open'], ['upstream.circuit_open']])
  })
})
