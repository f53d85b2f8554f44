/** Numbers that look random and are the same for the same seed, so that a run can be repeated. */

/** Numbers from 0 to 1 for a seed, and for what they are used for. */
export function randomFor(seed: number, use: string): () => number {
  let state = seed | 0
  for (const character of use) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x85eb_ca6b) | 0
  return mulberry32(state)
}

/** Numbers from 0 to 1 for a seed, a whole number. Not for secrets. */
export function mulberry32(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b_79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The same items in another order. */
export function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)
}
