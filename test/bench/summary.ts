import type { Sample, Shape } from './measure.ts'

/** The medians of all turns of one target with one shape of load. */
export interface Row extends Shape {
  readonly target: string
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly cpu?: Spread
  /** CPU per call divided by the baseline's: of the medians, between the quartiles of the single rounds. */
  readonly ratio?: Spread
}

/** A median with the quartiles around it. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

const baselines: Readonly<Record<string, string>> = {
  nginx: 'pass-through',
  'gateway-legacy': 'pass-through',
  'gateway-guarded': 'pass-through',
  'gateway-full': 'pass-through',
  'gateway-undescribed': 'pass-through',
  'gateway-keyed': 'pass-through',
  'gateway-plain': 'pass-through',
  'gateway-safe': 'pass-through',
  'gateway-modern': 'pass-through-modern',
  'gateway-modern-modern': 'pass-through-modern',
  'gateway-stdio': 'line-mux',
}

/** One row per target and shape, in the order of the samples' first appearance. */
export function summarize(samples: readonly Sample[]): Row[] {
  const groups = Map.groupBy(samples, (each) => `${each.concurrency} ${each.bytes} ${each.target}`)
  return [...groups.values()].flatMap((group) => {
    const [first] = group
    return first ? [row(first, group, samples)] : []
  })
}

/** The median and the quartiles of some numbers; undefined of none. */
export function spread(values: readonly number[]): Spread | undefined {
  if (values.length === 0) return undefined
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => {
    const place = share * (sorted.length - 1)
    const below = sorted[Math.floor(place)] ?? 0
    const above = sorted[Math.ceil(place)] ?? 0
    return below + (above - below) * (place % 1)
  }
  return { median: at(0.5), low: at(0.25), high: at(0.75) }
}

function row(first: Sample, group: readonly Sample[], samples: readonly Sample[]): Row {
  const { target, concurrency, bytes } = first
  const middle = (pick: (sample: Sample) => number) => spread(group.map(pick))?.median ?? 0
  const cpu = spread(group.flatMap((each) => each.cpu ?? []))
  const ratio = ratioOf(group, samples)
  return {
    target,
    concurrency,
    bytes,
    rate: middle((each) => each.rate),
    p50: middle((each) => each.p50),
    p99: middle((each) => each.p99),
    ...(cpu ? { cpu } : {}),
    ...(ratio ? { ratio } : {}),
  }
}

// The ratio of the medians repeats better than the median of the ratios, which carries the noise of both.
function ratioOf(group: readonly Sample[], samples: readonly Sample[]): Spread | undefined {
  const pairs = group.flatMap((sample) => {
    const base = samples.find((other) => isBaseline(other, sample))?.cpu
    return sample.cpu === undefined || base === undefined ? [] : [{ own: sample.cpu, base }]
  })
  const own = spread(pairs.map((pair) => pair.own))
  const base = spread(pairs.map((pair) => pair.base))
  const rounds = spread(pairs.map((pair) => pair.own / pair.base))
  return own && base && rounds && { ...rounds, median: own.median / base.median }
}

function isBaseline(other: Sample, sample: Sample): boolean {
  if (other.target !== baselines[sample.target] || other.round !== sample.round) return false
  return other.concurrency === sample.concurrency && other.bytes === sample.bytes
}
