// Medians with what is known about how far they repeat.
import { mulberry32 } from '../../src/testkit/server-test/cases.ts'

/** A median with a lower and an upper value around it. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** Two measurements that were made next to each other. */
export interface Pair {
  readonly own: number
  readonly base: number
}

const DRAWS = 1000

/** The median and the quartiles of some numbers; undefined of none. */
export function spread(values: readonly number[]): Spread | undefined {
  if (values.length === 0) return undefined
  return { median: quantile(values, 0.5), low: quantile(values, 0.25), high: quantile(values, 0.75) }
}

/**
 * How many times the base it is: the median over launches of the ratio of the medians of each, which repeats better than
 * the median of the ratios, and the interval that has the true ratio in 95 of 100 cases. It is found by the bootstrap:
 * launches are drawn from those that were made, and pairs from those of each, again and again. Undefined without pairs.
 */
export function ratioOf(launches: readonly (readonly Pair[])[]): Spread | undefined {
  const made = launches.filter((pairs) => pairs.length > 0)
  if (made.length === 0) return undefined
  const random = mulberry32(1)
  const drawn = <Item>(items: readonly Item[]): Item[] =>
    items.map((item) => items[Math.floor(random() * items.length)] ?? item)
  const draws = Array.from({ length: DRAWS }, () => ratio(drawn(made).map((pairs) => drawn(pairs))))
  return { median: ratio(made), low: quantile(draws, 0.025), high: quantile(draws, 0.975) }
}

function ratio(launches: readonly (readonly Pair[])[]): number {
  const ratios = launches.map((pairs) => {
    const own = pairs.map((pair) => pair.own)
    const base = pairs.map((pair) => pair.base)
    return quantile(own, 0.5) / quantile(base, 0.5)
  })
  return quantile(ratios, 0.5)
}

/** The value that a share of some numbers is below, between two of them if it falls there; NaN of none. */
function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const place = share * (sorted.length - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  return below + (above - below) * (place % 1)
}
