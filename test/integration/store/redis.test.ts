import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { blobContract } from '../../support/blob-contract.ts'
import { until } from '../../support/condition.ts'
import { logContract } from '../../support/log-contract.ts'
import { collectionContract } from '../../support/collection-contract.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { silentLog } from '../../support/silent-log.ts'
import { storeContract } from '../../support/store-contract.ts'

/** How long the store waits for Redis, in milliseconds. */
const COMMAND_TIMEOUT_MS = 2000

describe('the store in Redis', needsRedis, () => {
  let redis: RedisServer
  let store: RedisStore
  const warnings: unknown[] = []
  const log = {
    ...silentLog,
    warn: (event: string, fields?: object) => void warnings.push({ event, ...fields }),
  }

  beforeAll(async () => {
    redis = await startRedis()
    store = new RedisStore(new Secret(redis.url), log)
    await store.opened()
  })
  afterAll(async () => {
    await store.close()
    await redis.stop()
  })

  storeContract(() => ({ store, pass: (milliseconds) => pause(milliseconds + 5) }))
  describe('collections', () => {
    collectionContract(() => ({ store, pass: (milliseconds) => pause(milliseconds + 5) }))
  })
  describe('blobs', () => {
    blobContract(() => store.blobs, true)
  })
  logContract(() => ({ store, pass: (milliseconds) => pause(milliseconds + 5) }))

  it('C191 counts for several gateways together', async () => {
    const other = new RedisStore(new Secret(redis.url), log)
    await other.opened()
    const bucket = { key: 'rate:{together}', limit: 100, window: 60_000 }
    const takes = Array.from({ length: 300 }, async (_each, index) =>
      (index % 2 === 0 ? store : other).takeTokens([bucket]),
    )
    const granted = (await Promise.all(takes)).filter(({ isGranted }) => isGranted)
    expect(granted).toHaveLength(100)
    // By the clock of Redis, a token returns when a slice of the window ends.
    for (const each of [store, other]) {
      const { at, reset } = await each.peekTokens([bucket])
      expect((at + (reset[0] ?? 0)) % 2000).toBe(0)
    }
    await other.close()
  })

  it('counts locally while Redis is down, warns once, and returns to Redis once it is back', async () => {
    warnings.length = 0
    const bucket = { key: 'rate:{away}', limit: 2, window: 60_000 }
    await store.takeTokens([bucket])
    await redis.stop()
    await until(() => store.unavailableReason !== undefined, 'the store to notice')
    expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: true, remaining: [1] })
    expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: true, remaining: [0] })
    expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: false })
    await expect(store.get('session:x')).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    await expect(store.put('session:x', 'y', 1000)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(warnings).toEqual([expect.objectContaining({ event: 'store.away' })])
    await redis.start()
    await until(() => store.unavailableReason === undefined, 'the store to be back')
    expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: true, remaining: [0] })
    await store.put('session:x', 'y', 1000)
    expect(await store.get('session:x')).toBe('y')
  })

  it('learns of changes that it missed while Redis was down, and of those of a user who may not publish', async () => {
    const key = 'operation:watched/1'
    let calls = 0
    const end = store.watch(key, () => void calls++)
    await until(() => calls > 0, 'the beginning')
    await redis.stop()
    const before = calls
    await redis.start()
    await until(() => calls > before, 'the connection to be back')
    await redis.tell('ACL SETUSER limited on >secret ~* +@all resetchannels')
    const limited = new RedisStore(new Secret(redis.url.replace('//', '//limited:secret@')), silentLog)
    await limited.opened()
    let seen = 0
    limited.watch(key, () => void seen++)
    await limited.put(key, 'written', 60_000)
    // Its connection for commands may be back a moment later than the one for changes.
    const read = () => store.get(key).catch(() => undefined)
    await until(async () => (await read()) === 'written', 'the value')
    await until(() => seen > 2, 'the user who may not subscribe to read again')
    await limited.close()
    end()
  })

  it('waits a bounded time for a Redis that hangs, and then not at all', async () => {
    const bucket = { key: 'rate:{hangs}', limit: 10, window: 3_600_000 }
    redis.freeze()
    expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: true, remaining: [9] })
    const start = performance.now()
    for (const left of [8, 7, 6, 5, 4, 3, 2, 1, 0])
      expect(await store.takeTokens([bucket])).toMatchObject({ isGranted: true, remaining: [left] })
    expect(performance.now() - start).toBeLessThan(9 * COMMAND_TIMEOUT_MS)
    redis.thaw()
    await until(async () => {
      await store.put('session:z', 'z', 1000)
      return store.unavailableReason === undefined
    }, 'the store to be back')
  })

  it.for([
    ['is full', 'CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0'],
    ['is a replica', 'REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE'],
  ] as const)(
    'still reads from a Redis that %s, and warns once until it accepts writes again',
    async ([, refuse, accept]) => {
      await store.put('session:kept', 'y', 60_000)
      warnings.length = 0
      await redis.tell(refuse)
      try {
        for (let round = 0; round < 3; round++) {
          const failed: unknown = await store.put('session:new', 'y', 1000).catch((error: unknown) => error)
          expect(failed).toMatchObject({
            code: 'SERVER_UNAVAILABLE',
            message: expect.stringContaining('used'),
          })
          expect(await store.get('session:kept')).toBe('y')
          expect(await store.setIfAbsent('session:kept', 'z', 1000)).toBe('y')
          expect(store.unavailableReason).toBeDefined()
          await pause(600)
        }
        expect(warnings).toEqual([expect.objectContaining({ event: 'store.away' })])
      } finally {
        await redis.tell(accept)
      }
      await until(() => store.unavailableReason === undefined, 'the store to take something')
      await store.put('session:new', 'y', 1000)
    },
  )

  it('never logs the password of its URL', async () => {
    const secretive = new RedisStore(new Secret('redis://user:hunter2@127.0.0.1:1'), log)
    await secretive.opened()
    expect(secretive.unavailableReason).toBeDefined()
    expect(JSON.stringify([warnings, secretive.unavailableReason])).not.toContain('hunter2')
    await secretive.close()
  })
})
