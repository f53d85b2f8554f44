// A Redis that answers, and refuses for a while: it loads its data, is no master yet, or its slot is down or being moved. Calls with
// a key are refused with SERVER_UNAVAILABLE, or made once; real servers, under real gateways.
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../../support/child-process.ts'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { codeOf } from '../../support/journey.ts'
import { answered, keyed, modern, redisField } from '../../support/redis-field.ts'
import { redisNode, type RedisNode, startSentinels } from '../../support/redis-fleet.ts'
import { needsRedis } from '../../support/redis-server.ts'

async function nodeWith(...lines: string[]): Promise<RedisNode> {
  const node = await redisNode(lines)
  onTestFinished(async () => {
    await node.kill()
    node.remove()
  })
  return node
}

/** Waits until a gateway has seen how its Redis refuses, and that a call is refused like that and not made. */
async function refused(gateway: GatewayProcess, client: FakeClient, reason: string): Promise<void> {
  await gateway.logged(
    ({ event, ...line }) => event === 'store.away' && String(line['reason']).includes(reason),
  )
  expect(codeOf(await client.request('tools/call', keyed('during')))).toBe('SERVER_UNAVAILABLE')
}

async function isReplayed(client: FakeClient, key: string): Promise<void> {
  const { result } = await client.request('tools/call', keyed(key))
  expect(result?.['_meta']).toMatchObject({ was_replay: true })
}

describe('a Redis that loads its data', needsRedis, () => {
  it('refuses calls with a key until it has, and knows all that were made', async () => {
    const redis = await nodeWith('appendonly yes', 'appendfsync no', 'save ""', 'key-load-delay 1000')
    const { server, start } = await redisField(`redis://127.0.0.1:${redis.port}`)
    const gateway = await start()
    const client = await modern(gateway)
    await answered(client, 'before')
    await redis.tell(`EVAL "for i = 1, 6000 do redis.call('SET', 'filler:' .. i, i) end" 0`)
    await redis.kill()
    await redis.start()
    await refused(gateway, client, 'LOADING')
    await answered(client, 'during')
    await isReplayed(client, 'before')
    expect(server.calls).toEqual(['add before', 'add during'])
  })
})

describe('a server that sentinels call the master, and that is none yet', needsRedis, () => {
  it('is asked for again and again, and used once it is promoted', async () => {
    const fleet = await startSentinels()
    onTestFinished(() => fleet.stop())
    const { server, start } = await redisField(fleet.url)
    const gateway = await start()
    const client = await modern(gateway)
    await answered(client, 'before')
    const [master] = fleet.nodes
    await master?.tell('REPLICAOF 127.0.0.1 1')
    await refused(gateway, client, 'READONLY')
    await master?.tell('REPLICAOF NO ONE')
    await answered(client, 'during')
    await isReplayed(client, 'before')
    expect(server.calls).toEqual(['add before', 'add during'])
    // It is not logged each time that it was still none.
    expect(gateway.log().filter(({ event }) => event === 'store.away').length).toBeLessThan(10)
  })
})

interface Cluster {
  readonly url: string
  readonly slot: number
  readonly owner: RedisNode
  readonly other: RedisNode
}

/** Two nodes, of which one has all slots. */
async function cluster(): Promise<Cluster> {
  const [bus, otherBus] = [await freePort(), await freePort()]
  const lines = ['appendonly yes', 'appendfsync no', 'save ""', 'cluster-enabled yes']
  const owner = await nodeWith(...lines, `cluster-port ${bus}`)
  const other = await nodeWith(...lines, `cluster-port ${otherBus}`)
  await owner.tell('CLUSTER ADDSLOTSRANGE 0 16383')
  await other.tell(`CLUSTER MEET 127.0.0.1 ${owner.port} ${bus}`)
  const isReady = async ({ tell }: RedisNode): Promise<boolean> =>
    (await tell('CLUSTER INFO')).includes('cluster_state:ok')
  await until(async () => (await isReady(owner)) && (await isReady(other)), 'the cluster')
  const slot = Number(/:(\d+)/.exec(await owner.tell('CLUSTER KEYSLOT {gatehouse}'))?.[1])
  const url = `redis+cluster://127.0.0.1:${owner.port},127.0.0.1:${other.port}?replicas=0`
  return { url, slot, owner, other }
}

async function idOf({ tell }: RedisNode): Promise<string> {
  return /[\da-f]{40}/.exec(await tell('CLUSTER MYID'))?.[0] ?? ''
}

describe('a cluster', needsRedis, () => {
  it('of which no node has the slot refuses calls with a key until one has', async () => {
    const { url, slot, owner } = await cluster()
    const { server, start } = await redisField(url)
    const gateway = await start()
    const client = await modern(gateway)
    await answered(client, 'before')
    await owner.tell(`CLUSTER DELSLOTS ${slot}`)
    await refused(gateway, client, 'CLUSTERDOWN')
    await owner.tell(`CLUSTER ADDSLOTS ${slot}`)
    await answered(client, 'during')
    await isReplayed(client, 'before')
    expect(server.calls).toEqual(['add before', 'add during'])
  })

  it('that moves the slot refuses what was moved until it is done, and makes no call twice', async () => {
    const { url, slot, owner, other } = await cluster()
    const { server, start } = await redisField(url)
    const gateways = [await start(), await start()]
    const clients = await Promise.all(gateways.map((each) => modern(each)))
    const [gateway] = gateways
    const [client] = clients
    if (!gateway || !client) throw new Error('there is no gateway')
    await answered(client, 'before')
    const [from, to] = [await idOf(owner), await idOf(other)]
    await other.tell(`CLUSTER SETSLOT ${slot} IMPORTING ${from}`)
    await owner.tell(`CLUSTER SETSLOT ${slot} MIGRATING ${to}`)
    await refused(gateway, client, 'ASK')
    await isReplayed(client, 'before')
    const during = Promise.all(clients.map((each) => answered(each, 'during')))
    await until(async () => {
      const key = /\r\n\$\d+\r\n(.*)\r\n/.exec(await owner.tell(`CLUSTER GETKEYSINSLOT ${slot} 1`))?.[1]
      if (key !== undefined) await owner.tell(`MIGRATE 127.0.0.1 ${other.port} ${key} 0 5000`)
      return key === undefined
    }, 'all keys to be moved')
    expect(server.calls).toEqual(['add before'])
    for (const { tell } of [other, owner]) await tell(`CLUSTER SETSLOT ${slot} NODE ${to}`)
    await during
    for (const each of clients) await isReplayed(each, 'before')
    for (const each of gateways) await each.logged(({ event }) => event === 'store.moved')
    expect(server.calls).toEqual(['add before', 'add during'])
  })
})
