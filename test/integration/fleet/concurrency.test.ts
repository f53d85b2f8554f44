// The limit of concurrent calls that several gateways with one store have together.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { callsOf, clientOf, codeOf, folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { hasRedis, startRedis } from '../../support/redis-server.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const stores = hasRedis() ? (['folder', 'redis'] as const) : (['folder'] as const)

/** How many calls of a caller may run. */
const LIMIT = 4

async function storeOf(kind: (typeof stores)[number]): Promise<string> {
  if (kind === 'folder') return folder()
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  return redis.url
}

/** Three gateways, which know of each other, in front of a server. */
async function threeGateways(kind: (typeof stores)[number], url: string): Promise<readonly GatewayProcess[]> {
  const config = { store: await storeOf(kind), limits: { concurrency: LIMIT } }
  const gateways = await Promise.all([1, 2, 3].map(() => gatewayProcessTo({ one: { url } }, { config })))
  // One that was alone finds the others with a call after some time.
  await sleep(2000)
  for (const gateway of gateways) await made(gateway, 'echo')
  return gateways
}

async function made({ url }: Pick<GatewayProcess, 'url'>, tool: string): Promise<unknown> {
  const { error } = await new StatelessClient({ url }).call(tool, { text: 'a' })
  return error ? error.data['code'] : 'answered'
}

describe.each(stores)('three gateways with a store in %s', (kind) => {
  test('run as many calls of a caller as the limit says', async () => {
    const server = await httpServer()
    const gateways = await threeGateways(kind, server.url)
    const at = (index: number): GatewayProcess => gateways[index % 3] ?? expect.unreachable()

    // As many run one after another, at all of them, as may run at once.
    const caller = async (): Promise<unknown[]> => {
      const found: unknown[] = []
      for (let index = 0; index < 10; index++) found.push(await made(at(index), 'echo'))
      return found
    }
    const all = await Promise.all(Array.from({ length: LIMIT }, caller))
    expect(new Set(all.flat())).toEqual(new Set(['answered']))

    // The calls of an older client run at one of them: it has the whole limit.
    const client = await clientOf(at(1))
    const ended = new AbortController()
    const older: unknown[] = []
    const running = Array.from({ length: LIMIT + 1 }, async () => {
      const reply = await client.request('tools/call', { name: 'hang' }, { signal: ended.signal })
      older.push(codeOf(reply))
    })
    await expect.poll(() => older).toEqual(['OVERLOADED'])
    await expect.poll(() => callsOf(server, 'hang')).toBe(LIMIT)
    expect(await made(at(2), 'echo')).toBe('OVERLOADED')
    ended.abort()
    await Promise.allSettled(running)

    // Wherever they are made, those beyond the limit are refused; and those of a gateway that was killed are over.
    await expect.poll(() => made(at(0), 'echo')).toBe('answered')
    const codes: unknown[] = []
    const calls = Array.from({ length: LIMIT }, (_each, index) =>
      made(at(index), 'hang').catch(() => 'killed'),
    )
    await expect.poll(() => callsOf(server, 'hang')).toBe(2 * LIMIT)
    for (let index = 0; index < 3; index++) codes.push(await made(at(index), 'echo'))
    expect(codes).toEqual(Array(3).fill('OVERLOADED'))
    at(0).signal('SIGKILL')
    await expect.poll(() => made(at(1), 'echo'), { timeout: 20_000 }).toBe('answered')
    await server.close()
    await Promise.all(calls)
  })
})
