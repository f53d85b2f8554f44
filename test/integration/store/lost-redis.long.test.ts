// A store in Redis that is lost, replaced, full, read-only, or may evict records: no keyed call begins, no answered call
// runs again, and `/ready` reports the state, until the right store is back or an operator accepts the loss. Each state
// is produced in a real Redis, under real gateways.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'

const add = (text: string, meta: Json = {}): Json => ({ name: 'add', arguments: { text }, _meta: meta })
const keyed = (key: string): Json => add(key, { idempotency_key: key })

interface Field {
  readonly server: Notes
  readonly redis: RedisServer
  start(): Promise<GatewayProcess>
  run(...words: string[]): Promise<Finished>
}

/** A notes server, and a Redis that gateways and commands share. */
async function field(options: { readonly isForgetful?: boolean } = {}): Promise<Field> {
  const [server, redis, home] = [await notes(), await startRedis(options), folder()]
  onTestFinished(() => redis.stop())
  const env = { XDG_STATE_HOME: join(home, 'state') }
  const file = join(home, 'gateway.config.yaml')
  const config = { store: redis.url, features: 'none', upstreams: { notes: server.upstream } }
  writeFileSync(file, JSON.stringify(config))
  return {
    server,
    redis,
    start: () => gatewayProcessTo({ notes: server.upstream }, { config: { store: redis.url }, env }),
    run: (...words) => runCommand([...words, '--config', file], { env }),
  }
}

async function answered(gateway: GatewayProcess, key: string): Promise<void> {
  const client = await clientOf(gateway, { revision: '2026-07-28' })
  const { result } = await client.request('tools/call', keyed(key))
  expect(result?.['_meta']).toMatchObject({ was_replay: false })
}

async function storeCheck({ origin }: GatewayProcess): Promise<string> {
  const response = await fetch(`${origin}/ready`)
  const { checks } = (await response.json()) as { readonly checks: Json }
  return `${response.status} ${String(checks['store'])}`
}

/** The states, how they are produced, what the log contains, and whether the data is still readable. */
interface State {
  readonly what: string
  readonly isForgetful?: boolean
  readonly lose: (redis: RedisServer) => Promise<void>
  readonly reason: string
  readonly isReadable: boolean
  /** Restores the right state; absent if the operator has to accept the loss. */
  readonly mend?: (redis: RedisServer) => Promise<void>
}

async function restart(redis: RedisServer): Promise<void> {
  await redis.stop()
  await redis.start()
}

const states: readonly State[] = [
  {
    what: 'was emptied',
    lose: (redis) => redis.tell('FLUSHALL'),
    reason: 'its data is gone',
    isReadable: false,
  },
  {
    what: 'was restarted without its data',
    isForgetful: true,
    lose: restart,
    reason: 'its data is gone',
    isReadable: false,
  },
  {
    what: 'was replaced by the store of another gateway',
    lose: async (redis) => {
      await redis.tell('FLUSHALL')
      await redis.tell('SET gatehouse:generation another')
    },
    reason: 'it contains a different store than before',
    isReadable: false,
  },
  {
    what: 'was temporarily swapped for another store',
    lose: (redis) => redis.tell('SWAPDB 0 1'),
    reason: 'its data is gone',
    isReadable: false,
    mend: (redis) => redis.tell('SWAPDB 0 1'),
  },
  {
    what: 'is full',
    lose: (redis) => redis.tell('CONFIG SET maxmemory 1'),
    reason: 'OOM',
    isReadable: true,
    mend: (redis) => redis.tell('CONFIG SET maxmemory 0'),
  },
  {
    what: 'may evict critical data',
    lose: async (redis) => {
      await redis.tell('CONFIG SET maxmemory 100mb')
      await redis.tell('CONFIG SET maxmemory-policy volatile-lru')
    },
    reason: 'maxmemory-policy volatile-lru',
    isReadable: true,
    mend: (redis) => redis.tell('CONFIG SET maxmemory-policy noeviction'),
  },
  {
    what: 'is a read-only replica',
    lose: (redis) => redis.tell('REPLICAOF 127.0.0.1 1'),
    reason: 'READONLY',
    isReadable: true,
    mend: (redis) => redis.tell('REPLICAOF NO ONE'),
  },
  {
    what: 'has too few replicas to write',
    lose: (redis) => redis.tell('CONFIG SET min-replicas-to-write 1'),
    reason: 'NOREPLICAS',
    isReadable: true,
    mend: (redis) => redis.tell('CONFIG SET min-replicas-to-write 0'),
  },
]

const cases = states.map((state): [string, State] => [state.what, state])

describe('a store in Redis that, while a gateway uses it,', needsRedis, () => {
  it.each(cases)('%s: writes are refused, and no answered call runs again', async (_what, state) => {
    const { isForgetful = false, lose, reason, isReadable, mend } = state
    const { server, redis, start, run } = await field({ isForgetful })
    const gateway = await start()
    await answered(gateway, 'before')
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await client.request('transaction/begin', { transaction_id: 't' })
    await lose(redis)
    await until(async () => (await storeCheck(gateway)) === '200 failing', 'the state to be noticed')
    await gateway.logged(({ event, reason: told }) => event === 'store.away' && String(told).includes(reason))

    // Every reader of the store: keys, steps, transactions, and a gateway started only now.
    const { url } = await start()
    const other = await clientOf({ url }, { revision: '2026-07-28' })
    for (const each of [client, other]) {
      expect(codeOf(await each.request('tools/call', keyed('new')))).toBe('SERVER_UNAVAILABLE')
      const step = await each.request('tools/call', add('step', { transaction_id: 't' }))
      expect(codeOf(step)).toBe('SERVER_UNAVAILABLE')
      const begin = await each.request('transaction/begin', { transaction_id: 'u' })
      expect(codeOf(begin)).toBe('SERVER_UNAVAILABLE')
      const again = await each.request('tools/call', keyed('before'))
      if (isReadable) expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
      else expect(codeOf(again)).toBe('SERVER_UNAVAILABLE')
    }
    expect(server.calls).toEqual(['add before'])
    // Calls that record nothing continue.
    expect((await client.request('tools/call', add('bare'))).result?.['isError']).not.toBe(true)
    const check = await run('check')
    expect([check.code, `${check.stdout}${check.stderr}`]).toEqual([1, expect.stringContaining(reason)])
    const tx = await run('tx', 'list')
    expect(tx.code).toBe(isReadable ? 0 : 1)

    if (mend) await mend(redis)
    else expect(await run('store', 'accept')).toMatchObject({ code: 0 })
    await until(async () => (await storeCheck(gateway)) === '200 ok', 'the store to be back')
    await answered(gateway, 'after')
    if (mend) {
      const replay = await client.request('tools/call', keyed('before'))
      expect(replay.result?.['_meta']).toMatchObject({ was_replay: true })
    }
    expect(server.calls).toEqual(['add before', 'add bare', 'add after'])
    expect(await run('check')).toMatchObject({ code: 0 })
  })

  it('is emptied during a call: the result is marked as unrecorded, and the call does not run again', async () => {
    const { server, redis, start } = await field()
    const [gateway, other] = [await start(), await start()]
    // Both have identified the store by then.
    await answered(gateway, 'one')
    await answered(other, 'another')
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const first = client.request('tools/call', keyed('slow'))
    await until(() => server.calls.length === 3, 'the call')
    await redis.tell('FLUSHALL')
    server.release()
    const { result } = await first
    expect(result?.['_meta']).toMatchObject({ 'dev.gatehouse/unrecorded': true })
    const elsewhere = await clientOf(other, { revision: '2026-07-28' })
    expect(codeOf(await elsewhere.request('tools/call', keyed('slow')))).toBe('SERVER_UNAVAILABLE')
    expect(server.calls).toEqual(['add one', 'add another', 'add slow'])
  })

  it('is emptied: even before the loss is detected, no answered call runs again', async () => {
    const { server, redis, start } = await field()
    const gateway = await start()
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await answered(gateway, 'before')
    await redis.tell('FLUSHALL')
    expect(codeOf(await client.request('tools/call', keyed('before')))).toBe('SERVER_UNAVAILABLE')
    expect(server.calls).toEqual(['add before'])
  })
})

describe('a store in Redis without records', needsRedis, () => {
  it('can be emptied, and is used again', async () => {
    const { redis, start } = await field({ isForgetful: true })
    const gateway = await start()
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    expect((await client.request('tools/call', add('bare'))).result?.['isError']).not.toBe(true)
    await restart(redis)
    await until(async () => (await storeCheck(gateway)) === '200 ok', 'Redis to be back')
    await answered(gateway, 'first')
  })
})
