// From single turns to one row for each target, build and shape of load.
import type { Idle, Sample, Shape } from './measure.ts'
import { type Pair, ratioOf, spread, type Spread } from './statistics.ts'

/** The medians of all turns of one target with one shape of load. */
export interface Row extends Shape {
  readonly target: string
  /** Absent if it is the working copy, or no gateway. */
  readonly build?: string
  readonly rate: number
  readonly p50: number
  readonly p99: number
  /**
   * The resident set before the first call, and the largest during a turn of this row, in MB: medians over launches.
   * Absent where no processes are its own.
   */
  readonly idle?: number
  readonly peak?: number
  /** Microseconds per call, with the quartiles of all turns. */
  readonly cpu?: Spread
  /** In proportion to the bare proxy, in the same rounds. */
  readonly toBase?: Ratios
  /** Of an earlier build: the working copy in proportion to it, in the same rounds. */
  readonly toBuild?: Ratios
}

/** Ratios with their 95 % intervals: of CPU per call, of p50, of p99, and of the largest resident set. */
interface Ratios {
  readonly cpu?: Spread
  readonly p50?: Spread
  readonly p99?: Spread
  readonly peak?: Spread
}

/** One row per target, build and shape, in the order in which the samples have them; `baselines` by target. */
export function summarize(
  samples: readonly Sample[],
  baselines: Readonly<Record<string, string>>,
  idle: readonly Idle[] = [],
): Row[] {
  const groups = Map.groupBy(samples, (each) => keyOf(each, each.target, each.build))
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    if (!first) return []
    const { target, build } = first
    const baseline = baselines[target]
    const bare = baseline === undefined ? [] : (groups.get(keyOf(first, baseline)) ?? [])
    const working = build === undefined ? [] : (groups.get(keyOf(first, target)) ?? [])
    const toBase = ratiosOf(group, bare)
    const toBuild = ratiosOf(working, group)
    const before = spread(
      idle.flatMap((each) => (each.target === target && each.build === build ? each.megabytes : [])),
    )
    return [
      {
        ...rowOf(first, group),
        ...(before && { idle: before.median }),
        ...(toBase && { toBase }),
        ...(toBuild && { toBuild }),
      },
    ]
  })
}

function keyOf({ concurrency, bytes }: Shape, target: string, build = ''): string {
  return `${concurrency} ${bytes} ${target} ${build}`
}

function rowOf({ target, build, concurrency, bytes }: Sample, group: readonly Sample[]): Row {
  const median = (pick: (sample: Sample) => number) => spread(group.map(pick))?.median ?? Number.NaN
  const cpu = spread(group.flatMap((each) => each.cpu ?? []))
  const launches = Map.groupBy(group, ({ launch }) => launch)
  const peaks = [...launches.values()].flatMap((turns) => {
    const each = turns.flatMap(({ peak }) => peak ?? [])
    return each.length > 0 ? Math.max(...each) : []
  })
  const peak = spread(peaks)
  return {
    target,
    ...(build !== undefined && { build }),
    concurrency,
    bytes,
    rate: median((each) => each.rate),
    p50: median((each) => each.p50),
    p99: median((each) => each.p99),
    ...(peak && { peak: peak.median }),
    ...(cpu && { cpu }),
  }
}

function ratiosOf(own: readonly Sample[], base: readonly Sample[]): Ratios | undefined {
  const cpu = ratioOf(pairsOf(own, base, (each) => each.cpu))
  const p50 = ratioOf(pairsOf(own, base, (each) => each.p50))
  const p99 = ratioOf(pairsOf(own, base, (each) => each.p99))
  const peak = ratioOf(pairsOf(own, base, (each) => each.peak))
  if (!cpu && !p50 && !p99) return undefined
  return { ...(cpu && { cpu }), ...(p50 && { p50 }), ...(p99 && { p99 }), ...(peak && { peak }) }
}

/** What both have of the same round, by launch. */
function pairsOf(
  own: readonly Sample[],
  base: readonly Sample[],
  pick: (sample: Sample) => number | undefined,
): readonly (readonly Pair[])[] {
  const launches = Map.groupBy(own, ({ launch }) => launch)
  return [...launches.values()].map((samples) =>
    samples.flatMap((sample) => {
      const beside = base.find(({ launch, round }) => launch === sample.launch && round === sample.round)
      const [one, other] = [pick(sample), beside && pick(beside)]
      return one === undefined || other === undefined ? [] : [{ own: one, base: other }]
    }),
  )
}
