/** Values for schemas whose bounds a double cannot hold. */
import { ExactNumber, numberOf } from '../json/exact-number.ts'

/**
 * An integer within bounds of which one is beyond 2^53 and leaves out the small numbers; undefined if small numbers fit, or a
 * bound is no integer.
 */
export function longIntegerFor(schema: Readonly<Record<string, unknown>>): number | ExactNumber | undefined {
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf } = schema
  const above = (bound: unknown): boolean => bound instanceof ExactNumber && Number(bound.text) > 1
  const below = (bound: unknown): boolean => bound instanceof ExactNumber && Number(bound.text) < 1
  if (above(minimum)) return shifted(minimum, 0n)
  if (above(exclusiveMinimum)) return shifted(exclusiveMinimum, 1n)
  if (below(maximum)) return shifted(maximum, 0n)
  if (below(exclusiveMaximum)) return shifted(exclusiveMaximum, -1n)
  return above(multipleOf) ? shifted(multipleOf, 0n) : undefined
}

function shifted(bound: unknown, by: bigint): number | ExactNumber | undefined {
  const text = String(bound)
  return /^-?\d+$/.test(text) ? numberOf(String(BigInt(text) + by)) : undefined
}
