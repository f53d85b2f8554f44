// Redis as several servers: a master that sentinels or a cluster replace by one of its replicas. Calls with a key run once
// through it, or are refused before they run; real servers, under real gateways.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { seeded } from '../../simulate/random.ts'
import { collectionContract } from '../../support/collection-contract.ts'
import { until } from '../../support/condition.ts'
import { codeOf } from '../../support/journey.ts'
import { add, answered, keyed, modern, type RedisField, redisField } from '../../support/redis-field.ts'
import {
  needsCluster,
  redisNode,
  type RedisFleet,
  startCluster,
  startSentinels,
} from '../../support/redis-fleet.ts'
import { needsRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'
import { repetitions, seedOf } from '../../support/soak.ts'
import { storeContract } from '../../support/store-contract.ts'

/** FAILOVER_SEED reproduces when masters are lost. */
const SEED = seedOf('FAILOVER_SEED', 20_265)
const KEYS = repetitions(60, 400)

async function field(start: () => Promise<RedisFleet>): Promise<RedisField & { readonly fleet: RedisFleet }> {
  const fleet = await start()
  onTestFinished(() => fleet.stop())
  return { ...(await redisField(fleet.url)), fleet }
}

const kinds = [
  ['sentinels', () => startSentinels()],
  ['a cluster', () => startCluster()],
] as const

describe.each(kinds)('a store in Redis behind %s', needsCluster, (_kind, start) => {
  let fleet: RedisFleet
  let store: RedisStore
  beforeAll(async () => {
    fleet = await start()
    store = new RedisStore(new Secret(fleet.url), silentLog)
    await store.opened()
  })
  afterAll(async () => {
    await store.close()
    await fleet.stop()
  })

  storeContract(() => ({ store, pass: (milliseconds) => pause(milliseconds + 5) }))
  collectionContract(() => ({ store, pass: (milliseconds) => pause(milliseconds + 5) }))

  it('has everything, and tells of changes, after the master is gone', async () => {
    await store.put('call:kept', 'kept', 600_000)
    let changes = 0
    onTestFinished(store.watch('operation:watched/1', () => void changes++))
    await until(() => changes > 0, 'the watch to begin')
    const master = await fleet.master()
    await master.kill()
    await until(
      async () => (await store.get('call:kept').catch(() => undefined)) === 'kept',
      'the new master',
    )
    await master.start()
    await until(() => store.unavailableReason === undefined, 'its replica to confirm')
    const before = changes
    const other = new RedisStore(new Secret(fleet.url), silentLog)
    await other.opened()
    await other.put('operation:watched/1', 'new', 60_000)
    await until(() => changes > before, 'the change to be told')
    await other.close()
  })
})

/** What a call may be refused with while the master is not known, or while another gateway makes it. */
const REFUSALS = ['SERVER_UNAVAILABLE', 'IDEMPOTENCY_IN_PROGRESS']

describe.each(kinds)('calls with a key while %s replace the master', needsCluster, (kind, start) => {
  it.each(['is killed', 'hangs'] as const)('run once when it %s', { timeout: 300_000 }, async (how) => {
    const { server, fleet, ...world } = await field(start)
    const gateways = await Promise.all([world.start(), world.start()])
    const clients = await Promise.all(gateways.map((gateway) => modern(gateway)))
    for (const client of clients) await answered(client, `first-${clients.indexOf(client)}`)
    const master = await fleet.master()
    const random = seeded(SEED + kind.length + how.length)
    let left = KEYS / 2 + random.below(KEYS)
    const lost = Promise.withResolvers<void>()
    const refusals = new Set<unknown>()
    // Both gateways get every key, several at once, so each is claimed by two processes: before, during and after.
    const work = clients.flatMap((client) => {
      const keys = Array.from({ length: KEYS }, (_each, index) => `key-${index}`)
      return Array.from({ length: 3 }, async () => {
        for (let key = keys.shift(); key !== undefined; key = keys.shift()) {
          if (left-- === 0) {
            if (how === 'is killed') await master.kill()
            else master.freeze()
            lost.resolve()
          }
          for (const code of await answered(client, key)) refusals.add(code)
        }
      })
    })
    await lost.promise
    await until(async () => (await fleet.master()) !== master, 'another master')
    if (how === 'is killed') await master.start()
    else master.thaw()
    await Promise.all(work)
    for (const gateway of gateways) {
      const moved = await gateway.logged(({ event }) => event === 'store.moved')
      expect(moved['to']).not.toContain(`:${master.port}`)
    }
    expect([...refusals].filter((code) => !REFUSALS.includes(String(code)))).toEqual([])
    const made = server.calls.toSorted()
    expect(made, `FAILOVER_SEED=${SEED}`).toEqual([...new Set(made)])
    expect(made).toHaveLength(clients.length + KEYS)
    // A gateway that comes afterwards knows of all of them, too.
    const late = await modern(await world.start())
    for (let index = 0; index < KEYS; index++) {
      const { result } = await late.request('tools/call', keyed(`key-${index}`))
      expect(result?.['_meta']).toMatchObject({ was_replay: true })
    }
    expect(server.calls.toSorted()).toEqual(made)
  })
})

describe('a store in Redis whose replicas confirm nothing', needsRedis, () => {
  it('refuses calls with a key before they run, and makes others, until a replica is back', async () => {
    const { server, fleet, start } = await field(() => startSentinels())
    const client = await modern(await start())
    await answered(client, 'before')
    const replicas = fleet.nodes.slice(1)
    for (const replica of replicas) replica.freeze()
    expect(codeOf(await client.request('tools/call', keyed('refused')))).toBe('SERVER_UNAVAILABLE')
    const plain = await client.request('tools/call', add('plain'))
    expect(codeOf(plain)).toBeUndefined()
    const replay = await client.request('tools/call', keyed('before'))
    expect(replay.result?.['_meta']).toMatchObject({ was_replay: true })
    expect(server.calls).toEqual(['add before', 'add plain'])
    for (const replica of replicas) replica.thaw()
    await answered(client, 'refused')
    expect(server.calls).toEqual(['add before', 'add plain', 'add refused'])
  })

  it('continues without them where the URL says so', async () => {
    const { server, fleet, start } = await field(async () => {
      const found = await startSentinels({ replicas: 1 })
      return { ...found, url: `${found.url}?replicas=auto` }
    })
    const client = await modern(await start())
    await answered(client, 'before')
    await fleet.nodes[1]?.kill()
    await answered(client, 'after')
    expect(server.calls).toEqual(['add before', 'add after'])
  })
})

describe('a server that was replaced, and does not know it', needsRedis, () => {
  it('does not say that there is no task, approval or transaction, and is not asked about others', async () => {
    const master = await redisNode([])
    const replica = await redisNode([`replicaof 127.0.0.1 ${master.port}`])
    const url = new Secret(`redis://127.0.0.1:${master.port}?replicas=1`)
    const store = new RedisStore(url, silentLog)
    onTestFinished(async () => {
      await store.close()
      for (const { kill, remove } of [master, replica]) {
        await kill()
        remove()
      }
    })
    await store.opened()
    await until(() => store.unavailableReason === undefined, 'the replica to confirm')
    const decisive = ['operation:it', 'approval/it', 'transaction/it', 'call:it']
    for (const key of decisive) expect(await store.get(key)).toBeUndefined()
    await store.put('operation:kept', 'kept', 60_000)
    await replica.tell('REPLICAOF NO ONE')
    for (const key of decisive) await expect(store.get(key)).rejects.toThrow('cannot be used')
    expect(await store.get('operation:kept')).toBe('kept')
    expect(await store.get('log:it')).toBeUndefined()
  })
})

describe('a store whose id a failover has lost before a replica had it', needsRedis, () => {
  it('is used with another id, by all who know the first one', async () => {
    const master = await redisNode([])
    const replica = await redisNode([`replicaof 127.0.0.1 ${master.port}`])
    const url = new Secret(`redis://127.0.0.1:${master.port}?replicas=1`)
    const sentinels = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
    const stores = [1, 2].map(() => new RedisStore(url, silentLog, { sentinels }))
    onTestFinished(async () => {
      for (const store of stores) await store.close()
      for (const { kill, remove } of [master, replica]) {
        await kill()
        remove()
      }
      rmSync(sentinels, { recursive: true })
    })
    const [one, other] = stores
    if (!one || !other) return expect.unreachable()
    const areReady = (): boolean => stores.every(({ unavailableReason }) => unavailableReason === undefined)
    await until(areReady, 'the replica to confirm')
    await replica.tell('REPLICAOF NO ONE')
    await expect(one.put('call:it', 'x', 60_000)).rejects.toThrow('cannot be used')
    expect(await other.get('log:it')).toBeUndefined()
    // What the replica does not have is gone with its master.
    expect(await master.tell('FLUSHALL')).toContain('OK')
    await replica.tell(`REPLICAOF 127.0.0.1 ${master.port}`)
    await until(areReady, 'the replica to follow')
    await other.put('call:it', 'y', 60_000)
    expect(await one.get('call:it')).toBe('y')
    await one.put('call:other', 'z', 60_000)
    // The id counts from now on.
    expect(await master.tell('FLUSHALL')).toContain('OK')
    for (const store of stores) await expect(store.get('call:it')).rejects.toThrow('cannot be used')
  })
})

describe('sentinels with a password of their own', needsRedis, () => {
  it('say where the master is, which has another one', async () => {
    const fleet = await startSentinels({
      data: ['requirepass data', 'masterauth data'],
      sentinel: ['requirepass watch', 'sentinel sentinel-pass watch', 'sentinel auth-pass mymaster data'],
    })
    onTestFinished(() => fleet.stop())
    const open = async (url: string): Promise<RedisStore> => {
      const store = new RedisStore(new Secret(url), silentLog)
      onTestFinished(() => store.close())
      await store.opened()
      return store
    }
    const store = await open(`${fleet.url.replace('//', '//:data@')}?sentinel-pass=watch`)
    await until(() => store.unavailableReason === undefined, 'the replicas to confirm')
    await store.put('call:it', 'x', 60_000)
    const stranger = await open(fleet.url.replace('//', '//:data@'))
    expect(stranger.unavailableReason).toMatch(/^no sentinel says where the master is .*NOAUTH/)
    expect(stranger.unavailableReason).not.toContain('data')
  })
})

describe('a master that was emptied', needsRedis, () => {
  it('is no longer used once its replicas have become as empty', async () => {
    const { server, fleet, start } = await field(() => startSentinels())
    const client = await modern(await start())
    await answered(client, 'before')
    await (await fleet.master()).tell('FLUSHALL')
    expect(codeOf(await client.request('tools/call', keyed('before')))).toBe('SERVER_UNAVAILABLE')
    await (await fleet.master()).kill()
    const gateway = await start()
    const ready = async (): Promise<unknown> =>
      ((await (await fetch(`${gateway.origin}/ready`)).json()) as Json)['checks']
    await until(async () => ((await ready()) as Json)['store'] === 'failing', 'the loss to be noticed')
    await gateway.logged(({ reason }) => String(reason).includes('its data is gone'))
    const other = await modern(gateway)
    expect(codeOf(await other.request('tools/call', keyed('before')))).toBe('SERVER_UNAVAILABLE')
    expect(server.calls).toEqual(['add before'])
  })
})
