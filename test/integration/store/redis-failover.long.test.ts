// Redis as several servers: a master that sentinels or a cluster replace by one of its replicas. Calls with a key run once
// through it, or are refused before they run; real servers, under real gateways.
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { collectionContract } from '../../support/collection-contract.ts'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { type Notes, notes } from '../../support/notes.ts'
import { type RedisFleet, startCluster, startSentinels } from '../../support/redis-fleet.ts'
import { needsRedis } from '../../support/redis-server.ts'
import type { Json } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'
import { storeContract } from '../../support/store-contract.ts'

const add = (text: string, meta: Json = {}): Json => ({ name: 'add', arguments: { text }, _meta: meta })
const keyed = (key: string): Json => add(key, { idempotency_key: key })

const kinds = [
  ['sentinels', () => startSentinels()],
  ['a cluster', () => startCluster()],
] as const

describe.each(kinds)('a store in Redis behind %s', needsRedis, (_kind, start) => {
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

interface Field {
  readonly server: Notes
  readonly fleet: RedisFleet
  start(): Promise<GatewayProcess>
}

async function field(start: () => Promise<RedisFleet>): Promise<Field> {
  const [server, fleet, home] = [await notes(), await start(), folder()]
  onTestFinished(() => fleet.stop())
  const options = { config: { store: fleet.url }, env: { XDG_STATE_HOME: home } }
  return { server, fleet, start: () => gatewayProcessTo({ notes: server.upstream }, options) }
}

/** Repeats a call until it is answered; the codes of what was refused before. */
async function answered(client: FakeClient, key: string): Promise<readonly unknown[]> {
  const refusals: unknown[] = []
  await until(async () => {
    const reply = await client.request('tools/call', keyed(key))
    const code = codeOf(reply)
    if (code === undefined) return true
    refusals.push(code)
    await pause(50)
    return false
  }, `the answer to ${key}`)
  return refusals
}

function modern(gateway: GatewayProcess): Promise<FakeClient> {
  return clientOf(gateway, { revision: '2026-07-28' })
}

describe.each(kinds)('calls with a key while %s replace the master', needsRedis, (_kind, start) => {
  it.each(['is killed', 'hangs'] as const)('run once when it %s', async (how) => {
    const { server, fleet, ...world } = await field(start)
    const gateways = await Promise.all([world.start(), world.start()])
    const clients = await Promise.all(gateways.map((gateway) => modern(gateway)))
    for (const client of clients) await answered(client, `first-${clients.indexOf(client)}`)
    const master = await fleet.master()
    const replaced = Promise.withResolvers<void>()
    let asked = 0
    const refusals = new Set<unknown>()
    // Both gateways get every key, so each is claimed by two processes, before, during and after.
    const work = clients.map(async (client) => {
      for (let key = 0; key < 60; key++) {
        if (++asked === 40) {
          if (how === 'is killed') await master.kill()
          else master.freeze()
          replaced.resolve()
        }
        for (const code of await answered(client, `key-${key}`)) refusals.add(code)
      }
    })
    await replaced.promise
    await until(async () => (await fleet.master()) !== master, 'another master')
    if (how === 'is killed') await master.start()
    else master.thaw()
    await Promise.all(work)
    for (const gateway of gateways)
      expect((await gateway.logged(({ event }) => event === 'store.moved'))['to']).not.toContain(
        `:${master.port}`,
      )
    expect(server.calls.toSorted()).toEqual([...new Set(server.calls)].toSorted())
    expect(server.calls).toHaveLength(62)
    expect([...refusals].filter((code) => code !== 'SERVER_UNAVAILABLE' && code !== 'CONFLICT')).toEqual([])
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

  it('goes on without them where the URL says so', async () => {
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
