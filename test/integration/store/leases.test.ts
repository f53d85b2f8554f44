import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { LmdbStore } from '../../../src/store/lmdb/store.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { leaseContract } from '../../support/lease-contract.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { silentLog } from '../../support/silent-log.ts'

// A machine that stalls for longer than the TTL loses a lease, as it should: then a test is tried again.
const realTime = { concurrent: true, retry: 2 }
const pass = (milliseconds: number): Promise<void> => pause(milliseconds + 5)

describe('leases in a folder', realTime, () => {
  let folder: string
  let store: LmdbStore
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'gatehouse-store-'))
    store = new LmdbStore(join(folder, 'store'), silentLog)
    await store.opened()
  })
  afterAll(async () => {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  leaseContract(() => ({ store, ttlMs: 2000, pass }))
})

describe('leases in Redis', { ...needsRedis, ...realTime }, () => {
  let redis: RedisServer
  let store: RedisStore
  beforeAll(async () => {
    redis = await startRedis()
    store = new RedisStore(new Secret(redis.url), silentLog)
    await store.opened()
  })
  afterAll(async () => {
    await store.close()
    await redis.stop()
  })
  leaseContract(() => ({ store, ttlMs: 2000, pass }))
})
