import type { Principal } from '../../core/principal.ts'

/** How many callers are counted at a time. */
const CALLERS = 10_000

interface Count {
  readonly since: number
  count: number
  size: number
}

/** How much may be kept: how many things, and how long they may be together as text. */
interface Most {
  readonly count: number
  readonly size: number
}

/** Bounds how much of what a caller did is kept within any stretch of time, counted anew after it. */
export class Allowance {
  readonly #most: Most
  readonly #counts = new Map<string, Count>()

  constructor(most: Most) {
    this.#most = most
  }

  /** Takes one, if there is one left. `window` and `now` are in milliseconds. */
  take({ id }: Principal, window: number, now: number): boolean {
    const known = this.#counts.get(id)
    const count = known && now - known.since < window ? known : { since: now, count: 0, size: 0 }
    if (count.count >= this.#most.count || count.size >= this.#most.size) return false
    count.count++
    if (count !== known) this.#remember(id, count)
    return true
  }

  /** Takes note of how long what was taken last turned out to be. */
  spend({ id }: Principal, size: number): void {
    const count = this.#counts.get(id)
    if (count) count.size += size
  }

  /** Those counted for longest are forgotten first. */
  #remember(id: string, count: Count): void {
    this.#counts.delete(id)
    this.#counts.set(id, count)
    if (this.#counts.size <= CALLERS) return
    const [oldest] = this.#counts.keys()
    if (oldest !== undefined) this.#counts.delete(oldest)
  }
}
