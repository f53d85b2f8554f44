import type { Principal } from '../../core/principal.ts'

/** How many callers are counted at a time. */
const CALLERS = 10_000

interface Count {
  readonly since: number
  count: number
}

/** Bounds how much of what a caller did is kept: so many within any stretch of time, counted anew after it. */
export class Allowance {
  readonly #most: number
  readonly #counts = new Map<string, Count>()

  constructor(most: number) {
    this.#most = most
  }

  /** Takes one, if there is one left. `window` and `now` are in milliseconds. */
  take({ id }: Principal, window: number, now: number): boolean {
    const known = this.#counts.get(id)
    const count = known && now - known.since < window ? known : { since: now, count: 0 }
    if (count.count >= this.#most) return false
    count.count++
    if (count !== known) this.#remember(id, count)
    return true
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
