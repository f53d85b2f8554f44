import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, type ExpectStatic, test } from 'vitest'
import { type KillPoint, planKills, referencePoints, type WritePoint } from '../../support/kill-plan.ts'
import { keep, Tally, use } from '../../support/reference-client.ts'
import { type ReferenceField, startReferenceField, TTL_MS } from '../../support/reference-field.ts'
import { skipWithout } from '../../support/needs.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'
import { seeded } from '../../simulate/random.ts'
import { repetitions, seedOf } from '../../support/soak.ts'

/** REFERENCE_SEED reproduces the points at which processes are killed, and the sizes. */
const SEED = seedOf('REFERENCE_SEED', 20_265)
/** How often a process is killed at each point; at each moment once in the ordinary run. */
const TIMES = { LMDB: repetitions(5, 25), Redis: repetitions(5, 20) }
const CLIENTS = 6
/** The sizes of results, in bytes; the long ones are kept while they arrive. */
const MIN_BYTES = 70_000
const MAX_BYTES = 900_000
const LONG_BYTES = 1_200_000
/** For how long planned kills are waited for, in milliseconds. */
const KILLING_MS = repetitions(200_000, 600_000)
/** How long the last data may take to expire, in milliseconds. */
const EXPIRY_TIMEOUT_MS = 4 * TTL_MS

const every = ['before', 'during', 'soon', 'after', 'later'] as const
/** In a folder, data is written at once. */
const points: Readonly<Record<'LMDB' | 'Redis', readonly WritePoint[]>> = {
  LMDB: referencePoints.filter((point) => point !== 'chunk'),
  Redis: referencePoints,
}

describe('kept data while gateways are killed', () => {
  let redis: RedisServer | undefined
  beforeAll(async () => {
    redis = hasRedis() ? await startRedis() : undefined
  })
  afterAll(() => redis?.stop())

  // They wait for processes most of the time.
  test.concurrent.for(['LMDB', 'Redis'] as const)(
    'is whole or not there, is not lost, and nothing is left of it: store in %s',
    async (store, context) => {
      const { expect } = context
      if (store === 'Redis') skipWithout(needsRedis, context)
      const field = await startReferenceField(store === 'Redis' ? redis?.url : undefined)
      const tally = new Tally()
      try {
        const plan = planFor(points[store], TIMES[store])
        expect(plan).toHaveLength(points[store].length * TIMES[store])
        const kills = field.killing(plan)
        await runAll(field, tally, kills.isOver)
        const unmet = await kills.stop()
        // What was promised is still there after the last restart.
        for (const promised of tally.promised) await use(field.gateways, seeded(SEED), { promised, tally })
        process.stdout.write(`${figuresOf(store, tally)}; ${plan.length - unmet.length} kills\n`)
        expect(tally.faults, `REFERENCE_SEED=${SEED}`).toEqual([])
        expect(unmet, `points that were not met, REFERENCE_SEED=${SEED}`).toEqual([])
        expect(tally.promised.length).toBeGreaterThan(plan.length / 2)
        expect(Math.min(tally.reads, tally.resolved, tally.lost)).toBeGreaterThan(plan.length / 10)
        await judge(field, expect)
      } finally {
        await field.close()
      }
    },
  )
})

/** Each point at each moment, again and again. */
function planFor(these: readonly WritePoint[], times: number): readonly KillPoint[] {
  const moments = Array.from({ length: times }, (_none, index) => every[index % every.length] ?? 'during')
  return planKills(seeded(SEED), () => moments, these)
}

async function runAll(field: ReferenceField, tally: Tally, isKilled: () => boolean): Promise<void> {
  const end = Date.now() + KILLING_MS
  const isOver = (): boolean => isKilled() || Date.now() > end
  const work = async (index: number): Promise<void> => {
    const random = seeded(SEED + index)
    while (!isOver()) {
      const isLong = random.below(8) === 0
      const bytes = isLong ? LONG_BYTES : MIN_BYTES + random.below(MAX_BYTES - MIN_BYTES)
      const promised = await keep(field.gateways, random, { bytes, tally })
      if (!promised) await pause(100)
      for (let uses = random.below(3); promised && uses > 0; uses--) {
        await use(field.gateways, random, { promised, tally })
        await pause(random.below(100))
      }
    }
  }
  const age = async (): Promise<void> => {
    // The store may be busy.
    for (; !isOver(); await pause(300)) await field.age().catch(() => undefined)
  }
  await Promise.all([age(), ...Array.from({ length: CLIENTS }, (_none, index) => work(index))])
}

/** After a sweep, the bytes are those of the records; once these have expired, nothing is left. */
async function judge(field: ReferenceField, expect: ExpectStatic): Promise<void> {
  await field.kill()
  // A record may expire between the sweep and the look at what is left.
  const difference = async (): Promise<unknown> => {
    const { records, blobs, names } = await field.swept()
    const sizes = new Map(records.map(({ blob, size }) => [blob, size]))
    return {
      unlike: [...blobs].filter(([id, size]) => sizes.get(id) !== size),
      missing: [...sizes.keys()].filter((id) => !new Map(blobs).has(id)),
      strange: names.filter((name) => ![...sizes.keys()].some((id) => name.includes(id))),
    }
  }
  await expect.poll(difference).toEqual({ unlike: [], missing: [], strange: [] })
  const nothing = { records: [], blobs: new Map(), names: [] }
  await expect.poll(() => field.swept(), { timeout: EXPIRY_TIMEOUT_MS }).toEqual(nothing)
}

function figuresOf(store: string, { promised, reads, resolved, lost, notKept }: Tally): string {
  const size = promised.reduce((sum, { bytes }) => sum + bytes, 0)
  return [
    `${store}: ${promised.length} results kept for ${TTL_MS / 1000} s, ${(size / 1e6).toFixed(0)} MB`,
    `read ${reads} times and resolved ${resolved} times; ${lost} calls without a response`,
    `passed on as they were: ${JSON.stringify([...notKept])}`,
  ].join('; ')
}
