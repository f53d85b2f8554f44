/** Numbers that look random and are the same for the same seed (mulberry32). Not for secrets. */
export interface Seeded {
  /** From 0, below 1. */
  next(): number
  /** A whole number from 0, below a limit. */
  below(limit: number): number
  /** One of several. */
  pick<Item>(items: readonly [Item, ...Item[]]): Item
  /** Whether something happens that happens with this probability. */
  chance(probability: number): boolean
}

/** Begins with a seed: a whole number. */
export function seeded(seed: number): Seeded {
  let state = seed | 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    next,
    below,
    pick: (items) => items[below(items.length)] ?? items[0],
    chance: (probability) => next() < probability,
  }
}
