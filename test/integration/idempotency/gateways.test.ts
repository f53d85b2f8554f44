import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { callsOf, clientOf, codeOf, folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'

const write = { op: 'write', idempotent: false, confirm: 'never' }

let redis: RedisServer | undefined
beforeAll(async () => {
  if (hasRedis()) redis = await startRedis()
})
afterAll(async () => redis?.stop())

function gatewaysTo(
  server: { readonly url: string },
  store: string,
  count: number,
): Promise<GatewayProcess[]> {
  const one = { url: server.url, revision: '2025-11-25', tools: { '*': write } }
  return Promise.all(Array.from({ length: count }, () => gatewayProcessTo({ one }, { config: { store } })))
}

const stores = [
  { title: 'Redis', open: () => redis?.url ?? '' },
  { title: 'a folder', open: () => folder() },
]

describe.each(stores)('gateways that share $title', ({ title, open }) => {
  beforeEach((context) => {
    if (title === 'Redis') skipWithout(needsRedis, context)
  })

  it('make one call of a hundred with one key', async () => {
    const server = await httpServer()
    const gateways = await gatewaysTo(server, open(), 3)
    const clients = await Promise.all(gateways.map(({ url }) => clientOf({ url: `${url}/one` })))
    const params = { name: 'slow', arguments: { ms: 200 }, _meta: { idempotency_key: 'hundred' } }
    const replies = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => clients[index % 3]?.request('tools/call', params)),
    )
    expect(callsOf(server, 'slow')).toBe(1)
    const texts = replies.map((reply) => JSON.stringify(reply?.result?.['content']))
    expect([...new Set(texts)]).toEqual(['[{"type":"text","text":"took 3 steps"}]'])
  })

  it('detect at once that one was killed during a call, and never repeat the call', async () => {
    const server = await httpServer()
    const [dying, living] = await gatewaysTo(server, open(), 2)
    if (!dying || !living) throw new TypeError('there are no gateways')
    const params = { name: 'hang', arguments: {}, _meta: { idempotency_key: 'killed' } }
    const first = await clientOf({ url: `${dying.url}/one` })
    first.start('tools/call', params).reply.catch(() => undefined)
    await until(() => callsOf(server, 'hang') === 1, 'the call')
    dying.signal('SIGKILL')
    await dying.ended
    const next = await clientOf({ url: `${living.url}/one` })
    const before = Date.now()
    expect(codeOf(await next.request('tools/call', params))).toBe('OUTCOME_UNKNOWN')
    expect(Date.now() - before).toBeLessThan(8000)
    expect(callsOf(server, 'hang')).toBe(1)
  })

  it('replay a call of a gateway that is gone', async () => {
    const server = await httpServer()
    const [going, staying] = await gatewaysTo(server, open(), 2)
    const params = { name: 'echo', arguments: { x: 1 }, _meta: { idempotency_key: 'gone' } }
    const first = await clientOf({ url: `${going?.url}/one` })
    await first.request('tools/call', params)
    going?.signal('SIGKILL')
    const next = await clientOf({ url: `${staying?.url}/one` })
    const { result } = await next.request('tools/call', params)
    expect(result?.['_meta']).toMatchObject({ was_replay: true })
    expect(callsOf(server, 'echo')).toBe(1)
  })
})

describe('a gateway whose store becomes unavailable', needsRedis, () => {
  it('refuses keyed calls meanwhile, and makes all others', async () => {
    const server = await httpServer()
    const [gateway] = await gatewaysTo(server, redis?.url ?? '', 1)
    const client = await clientOf({ url: `${gateway?.url}/one` })
    const params = { name: 'echo', arguments: {} }
    await redis?.stop()
    const keyed = await client.request('tools/call', { ...params, idempotency_key: 'away' })
    expect(codeOf(keyed)).toBe('SERVER_UNAVAILABLE')
    expect(callsOf(server, 'echo')).toBe(0)
    const { result } = await client.request('tools/call', params)
    expect(result).not.toHaveProperty('isError', true)
    await redis?.start()
    await until(async () => {
      const again = await client.request('tools/call', { ...params, idempotency_key: 'away' })
      return again.error === undefined
    }, 'the store to be back')
    expect(callsOf(server, 'echo')).toBe(2)
  })
})
