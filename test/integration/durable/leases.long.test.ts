// Leases under real processes that are stopped for longer than the TTL, killed, and whose clocks jump. Whatever happens to
// them, a record that is written under a lease is written by one holder after the other, and there is always a next one.
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { LmdbStore } from '../../../src/store/lmdb/store.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import type { Store } from '../../../src/store/store.ts'
import { contend } from '../../support/lease-field.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'
import { silentLog } from '../../support/silent-log.ts'
import { repetitions, seedOf } from '../../support/soak.ts'

const seed = seedOf('LEASE_SEED', 1)
const rounds = repetitions(4, 150)

interface Opened {
  readonly store: Store
  readonly place: string
}

async function folder(): Promise<Opened> {
  const place = mkdtempSync(join(tmpdir(), 'gatehouse-store-'))
  const store = new LmdbStore(place, silentLog)
  await store.opened()
  onTestFinished(async () => {
    await store.close()
    await rm(place, { recursive: true, force: true })
  })
  return { store, place }
}

async function redis(): Promise<Opened> {
  const server = await startRedis()
  const store = new RedisStore(new Secret(server.url), silentLog)
  await store.opened()
  onTestFinished(async () => {
    await store.close()
    await server.stop()
  })
  return { store, place: server.url }
}

function contention(open: () => Promise<Opened>): void {
  it.each([
    { processes: 2, hasJumps: false },
    { processes: 5, hasJumps: true },
  ])(
    'no write of an earlier holder follows one of a later holder, and none that was promised is missing: $processes processes, clocks that jump: $hasJumps',
    async ({ processes, hasJumps }) => {
      const { store, place } = await open()
      const { runs, promised } = await contend(store, { place, processes, rounds, seed, hasJumps })
      const tokens = runs.map(([token]) => token)
      expect(tokens.length).toBeGreaterThan(rounds)
      expect(tokens).toEqual([...new Set(tokens)].toSorted((one, other) => one - other))
      const written = new Map(runs.map(([token, pid, count]) => [`${pid} ${token}`, count]))
      const missing = [...promised].filter(([writer, count]) => (written.get(writer) ?? 0) < count)
      expect(missing).toEqual([])
    },
    repetitions(120_000, 3_600_000),
  )
}

describe('a lease in a folder', () => {
  contention(folder)
})

describe('a lease in Redis', needsRedis, () => {
  contention(redis)
})
