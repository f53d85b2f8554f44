/**
 * How much of what a caller did is kept. What does not fit any more pushes out what is oldest, of the caller itself; and
 * where all callers together have too much, of the one that did nothing for longest. Invariant: what is said to be
 * pushed out is not counted any more, so it has to be removed from the store.
 */

/** How much may be kept: how many things, and how long they may be together as text. */
export interface Limit {
  readonly count: number
  readonly size: number
}

interface Held {
  /** The length of each by its key, the oldest first. */
  readonly sizes: Map<string, number>
  size: number
}

/** Counts what is kept, by caller. */
export class HistoryQuota {
  readonly #each: Limit
  readonly #all: number
  /** The caller that did nothing for longest first. */
  readonly #callers = new Map<string, Held>()
  #count = 0

  /** `each` bounds one caller, `all` how many things there are of all callers. */
  constructor(each: Limit, all: number) {
    this.#each = each
    this.#all = all
  }

  /** Takes in a thing of a caller. Returns the keys of what has to go for it. */
  take(caller: string, key: string, size: number): readonly string[] {
    const held = this.#callers.get(caller) ?? { sizes: new Map<string, number>(), size: 0 }
    this.#callers.delete(caller)
    this.#callers.set(caller, held)
    held.size += size - (held.sizes.get(key) ?? 0)
    if (!held.sizes.delete(key)) this.#count++
    held.sizes.set(key, size)
    const gone: string[] = []
    while (held.sizes.size > 1 && (held.sizes.size > this.#each.count || held.size > this.#each.size))
      gone.push(...this.#pushOut(caller, held))
    while (this.#count > this.#all) {
      const [longest] = this.#callers
      if (!longest) break
      gone.push(...this.#pushOut(...longest))
    }
    return gone
  }

  /** Does not count those before `key` any more, of any caller: their time is over. Keys sort by time. */
  forgetBefore(key: string): void {
    for (const [caller, held] of this.#callers) {
      for (const first of held.sizes.keys()) {
        if (first >= key) break
        this.#pushOut(caller, held)
      }
    }
  }

  #pushOut(caller: string, held: Held): readonly string[] {
    const [oldest] = held.sizes
    if (!oldest) return []
    const [key, size] = oldest
    held.sizes.delete(key)
    held.size -= size
    this.#count--
    if (held.sizes.size === 0) this.#callers.delete(caller)
    return [key]
  }
}
