// What a store can commit: as many keyed calls as there could be if they cost nothing but their two writes.
import { mkdirSync } from 'node:fs'
import { request } from 'undici'
import { launchScript } from './launch.ts'
import type { Pinning } from './pin.ts'
import { hasRedis, launchRedis } from './redis.ts'
import { spread } from './statistics.ts'
import type { Row } from './summary.ts'

/** What one store can commit with so many calls at once: medians over launches. */
export interface Ceiling extends Commits {
  readonly store: 'disk' | 'redis'
  /** The rate of keyed calls of the working copy in proportion to `rate`; absent if they were not measured. */
  readonly share?: number
}

/** What `commit-load.ts` prints. */
export interface Commits {
  readonly concurrency: number
  /** Calls per second, of two writes each: the call begins, and it ends with a result of 1 KB. */
  readonly rate: number
  /** Microseconds of CPU for each call, in the process that writes. */
  readonly cpu: number
}

/** Measures the stores that keyed calls of these targets use, in a process with the core of a gateway. */
export async function measureCommits(
  folder: string,
  {
    chosen,
    concurrencies,
    pin,
  }: {
    readonly chosen: readonly string[]
    readonly concurrencies: readonly number[]
    readonly pin: Pinning | undefined
  },
): Promise<Ceiling[]> {
  mkdirSync(folder)
  const measure = async (store: Ceiling['store'], address: string): Promise<Ceiling[]> => {
    const writer = await launchScript('commit-load.ts', [address, ...concurrencies.map(String)])
    pin?.measured(writer.pid)
    try {
      const { body } = await request(writer.url)
      const commits = (await body.json()) as Commits[]
      return commits.map((each) => ({ store, ...each }))
    } finally {
      await writer.stop()
    }
  }
  const disk = chosen.includes('keyed-disk') ? await measure('disk', `${folder}/store`) : []
  if (!chosen.includes('keyed-redis') || !hasRedis()) return disk
  const redis = await launchRedis(`${folder}/redis`)
  pin?.others(redis.pid)
  try {
    return [...disk, ...(await measure('redis', redis.url))]
  } finally {
    await redis.stop()
  }
}

/** The medians of all launches, and what share of them keyed calls reach. */
export function ceilingsOf(measured: readonly Ceiling[], rows: readonly Row[]): Ceiling[] {
  const groups = Map.groupBy(measured, ({ store, concurrency }) => `${store} ${concurrency}`)
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    const rate = spread(group.map((each) => each.rate))?.median
    const cpu = spread(group.map((each) => each.cpu))?.median
    if (!first || rate === undefined || cpu === undefined) return []
    const { store, concurrency } = first
    const row = rows.find(
      ({ target, build, ...shape }) =>
        target === `keyed-${store}` &&
        build === undefined &&
        shape.concurrency === concurrency &&
        shape.bytes === 1024,
    )
    return { store, concurrency, rate, cpu, ...(row && { share: row.rate / rate }) }
  })
}
