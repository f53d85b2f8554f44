/** Cuts what becomes the data of an event to a size, member by member. */

/** The longest member, and all of them together, in characters of JSON. */
interface Limits {
  readonly each: number
  readonly all: number
}

/** Members, without those that are too long. */
export interface Shortened {
  readonly kept: Readonly<Record<string, unknown>>
  /** The names of the members that were left out. */
  readonly omitted: readonly string[]
}

/** How many omitted members are named, and how much of each name. */
const MAX_OMITTED = 100
const MAX_NAME_LENGTH = 100

/** The members that fit, in order. */
export function shortened(given: Readonly<Record<string, unknown>>, { each, all }: Limits): Shortened {
  let left = all
  const kept: (readonly [string, unknown])[] = []
  const omitted: string[] = []
  for (const [name, value] of Object.entries(given)) {
    const length = (JSON.stringify(value) ?? '').length + name.length
    if (length > Math.min(left, each)) {
      omitted.push(name.slice(0, MAX_NAME_LENGTH))
      continue
    }
    left -= length
    kept.push([name, value])
  }
  return { kept: Object.fromEntries(kept), omitted: omitted.slice(0, MAX_OMITTED) }
}
