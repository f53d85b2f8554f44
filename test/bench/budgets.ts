// What the gateway may cost, in proportion to the bare program that does the same.
import type { Row } from './summary.ts'
import type { Spread } from './statistics.ts'

/** One budget and what became of it. */
export interface Verdict {
  readonly name: string
  /** The target that it is about; of budgets for several, the one that needs most. */
  readonly target?: string
  readonly unit: string
  /** The most that is allowed, and what is aimed at. */
  readonly limit: number
  readonly stretch?: number
  /** Absent if it could not be measured. */
  readonly value?: number
  readonly met: boolean
  readonly stretchMet: boolean
}

interface Limits {
  readonly limit: number
  readonly stretch?: number
}

/** CPU per call, × the baseline of the target, at each number of calls at once with replies of 1 KB. */
const cpuBudgets: Readonly<Record<string, Limits>> = {
  none: { limit: 1.25, stretch: 1.1 },
  default: { limit: 1.5, stretch: 1.3 },
  guarded: { limit: 1.8, stretch: 1.5 },
  'keyed-memory': { limit: 2, stretch: 1.6 },
  'keyed-disk': { limit: 2.2, stretch: 1.8 },
  'none-modern-legacy': { limit: 1.4, stretch: 1.3 },
  'default-stdio': { limit: 1.4, stretch: 1.2 },
}
/** × the baseline, at 64 calls at once. */
const P99_BUDGET: Limits = { limit: 1.5, stretch: 1.2 }
/** In MB. The peak is that of the resident set, which also has the pages of a store's file that were used. */
const IDLE_BUDGET: Limits = { limit: 100, stretch: 85 }
const PEAK_BUDGET: Limits = { limit: 200, stretch: 150 }
/** The targets whose memory has a budget: not those whose store is what calls fill. */
const memoryTargets = ['none', 'default', 'guarded']
/** In milliseconds until `/health` answers. */
const START_BUDGET: Limits = { limit: 600 }

/** What of a run there is to judge. */
interface Judged {
  readonly startMs: Spread | undefined
  /** The names of its targets. */
  readonly chosen: readonly string[]
  readonly concurrencies: readonly number[]
}

/** Holds the working copy against every budget that is about one of the targets. */
export function judge(rows: readonly Row[], { startMs, chosen, concurrencies }: Judged): Verdict[] {
  const own = rows.filter(({ build, bytes }) => build === undefined && bytes === 1024)
  const at = (target: string, concurrency: number): Row | undefined =>
    own.find((row) => row.target === target && row.concurrency === concurrency)
  const cpu = Object.entries(cpuBudgets)
    .filter(([target]) => chosen.includes(target))
    .flatMap(([target, limits]) =>
      concurrencies.map((concurrency) => {
        const name = `CPU per call, ${target}, ${concurrency} at once`
        return verdict(
          { name, target, unit: '× baseline', ...limits },
          at(target, concurrency)?.toBase?.cpu?.median,
        )
      }),
    )
  const tail = {
    ...P99_BUDGET,
    name: 'p99, default, 64 at once',
    target: 'default',
    unit: '× baseline',
  }
  const kept = own.filter(({ target }) => memoryTargets.includes(target))
  return [
    ...cpu,
    ...(chosen.includes('default') ? [verdict(tail, at('default', 64)?.toBase?.p99?.median)] : []),
    ...(memoryTargets.some((target) => chosen.includes(target))
      ? [
          largest({ name: 'idle memory', ...IDLE_BUDGET }, kept, ({ idle }) => idle),
          largest({ name: 'peak memory', ...PEAK_BUDGET }, kept, ({ peak }) => peak),
        ]
      : []),
    verdict({ name: 'start until /health answers', unit: 'ms', ...START_BUDGET }, startMs?.median),
  ]
}

function largest(
  about: Limits & { readonly name: string },
  rows: readonly Row[],
  pick: (row: Row) => number | undefined,
): Verdict {
  const [most] = rows.toSorted((one, other) => (pick(other) ?? 0) - (pick(one) ?? 0))
  const target = most && { target: most.target }
  return verdict({ ...about, ...target, unit: 'MB' }, most && pick(most))
}

function verdict(about: Omit<Verdict, 'value' | 'met' | 'stretchMet'>, value: number | undefined): Verdict {
  if (value === undefined) return { ...about, met: false, stretchMet: false }
  return { ...about, value, met: value <= about.limit, stretchMet: value <= (about.stretch ?? about.limit) }
}
