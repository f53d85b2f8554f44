/** A median between the quartiles. */
export interface Middle {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** The median and the quartiles of some numbers; undefined of none. */
export function middleOf(values: readonly number[]): Middle | undefined {
  if (values.length === 0) return undefined
  const sorted = values.toSorted((one, other) => one - other)
  const at = (share: number): number => {
    const place = share * (sorted.length - 1)
    const below = sorted[Math.floor(place)] ?? 0
    return below + ((sorted[Math.ceil(place)] ?? below) - below) * (place % 1)
  }
  return { median: at(0.5), low: at(0.25), high: at(0.75) }
}
