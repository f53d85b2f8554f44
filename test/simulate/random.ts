/** Numbers that look random and are the same for the same seed. */
import { mulberry32 } from '../../src/testkit/server-test/cases.ts'

/** A stream of such numbers. */
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
  const next = mulberry32(seed)
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    next,
    below,
    pick: (items) => items[below(items.length)] ?? items[0],
    chance: (probability) => next() < probability,
  }
}
