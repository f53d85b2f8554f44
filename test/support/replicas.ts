/**
 * Tests of gateways that count calls together in one Redis. All numbers are multiples of the limit: `npm test` makes few
 * calls, the long tests make 10,000 against one limit.
 */
import { Agent } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from './condition.ts'
import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts'
import { type FakeServer, startFakeServer } from './fake-server.ts'
import { openSession, toolCall } from './raw-session.ts'
import { type Json, objectAt } from './server/json.ts'
import { needsRedis, type RedisServer, startRedis } from './redis-server.ts'

/** Posts a call on a kept-alive connection; returns the HTTP status. */
type Post = (id: number) => Promise<number>

async function poster(gateway: GatewayProcess, agent: Agent): Promise<Post> {
  const session = await openSession(gateway.url, '2025-11-25')
  const { origin, pathname: path } = new URL(gateway.url)
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...session.headers,
  }
  return async (id) => {
    const body = JSON.stringify(toolCall(id, 'echo'))
    const { statusCode, body: answer } = await agent.request({ origin, path, method: 'POST', headers, body })
    await answer.dump()
    return statusCode
  }
}

/** Makes this many calls, a few at a time, at each gateway in turn; returns the numbers of accepted and refused calls. */
async function flood(posts: readonly Post[], count: number): Promise<{ granted: number; refused: number }> {
  const found = { granted: 0, refused: 0 }
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) {
      const id = ++next
      const status = await posts[id % posts.length]?.(id)
      if (status === 200) found.granted++
      else if (status === 429) found.refused++
      else throw new Error(`HTTP ${status}`)
    }
  }
  await Promise.all(Array.from({ length: 48 }, worker))
  return found
}

/** The tests, for a limit of this many calls per hour. */
export function replicaTests(limit: number): void {
  describe(`three gateways with one Redis, and ${limit} calls per hour,`, needsRedis, () => {
    testsOf(limit)
  })
}

function testsOf(limit: number): void {
  let redis: RedisServer
  let server: FakeServer
  let gateways: GatewayProcess[]
  const agent = new Agent({ connections: 32 })
  const allPosters = (): Promise<Post[]> => Promise.all(gateways.map((gateway) => poster(gateway, agent)))
  const start = (limits: object): Promise<GatewayProcess[]> => {
    const config = { store: redis.url, limits, upstreams: { one: { url: server.url } } }
    return Promise.all([1, 2, 3].map(() => startGatewayProcess(config)))
  }

  beforeAll(async () => {
    redis = await startRedis({ isForgetful: true })
    server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
    gateways = await start({ rate: [`${limit}/hour`, `${50 * limit}/day`] })
  })
  afterAll(async () => {
    await Promise.all(gateways.map((gateway) => gateway.close()))
    await agent.close()
    await server.close()
    await redis.stop()
  })

  it(`C191 accept exactly the limit out of ${5 * limit} calls`, async () => {
    const posts = await allPosters()
    const { granted, refused } = await flood(posts, 5 * limit)
    expect(granted + refused).toBe(5 * limit)
    expect(granted).toBeGreaterThanOrEqual(0.99 * limit)
    expect(granted).toBeLessThanOrEqual(1.01 * limit)
  }, 240_000)

  it('count separately while Redis is down, as /ready reports, and together once it is back', async () => {
    const posts = await allPosters()
    const stores = async (): Promise<unknown[]> => {
      const answers = gateways.map(async ({ origin }) => (await fetch(`${origin}/ready`)).json())
      return (await Promise.all(answers)).map((answer) => objectAt(answer as Json, 'checks')['store'])
    }
    await redis.stop()
    await until(async () => !(await stores()).includes('ok'), 'the gateways to notice')
    const alone = await flood(posts, 3.5 * limit)
    // Each gateway counts the whole limit separately.
    expect(alone.granted).toBe(3 * limit)
    await redis.start()
    await until(async () => (await stores()).every((each) => each === 'ok'), 'Redis to be back')
    for (const gateway of gateways) {
      await gateway.logged(({ event }) => event === 'store.away')
      expect(gateway.log().filter(({ event }) => event === 'store.away')).toHaveLength(1)
    }
    const together = await flood(posts, 1.5 * limit)
    expect(together.granted).toBe(limit)
  }, 240_000)

  it('keep accepting calls while Redis goes down and up under load', async () => {
    const posts = await allPosters()
    await redis.stop()
    await redis.start()
    const flooding = flood(posts, 3 * limit)
    await redis.stop()
    await redis.start()
    const { granted, refused } = await flooding
    expect(granted + refused).toBe(3 * limit)
    // At most the calls that Redis and each gateway separately accept.
    expect(granted).toBeLessThanOrEqual(5 * limit)
  }, 240_000)
}
