/**
 * Bounds the requests in flight: for each receiver, for each caller and in all, so that a slow receiver, or a caller
 * with many of them, costs the others nothing.
 */

/** How many requests may be in flight to one receiver, to the receivers of one caller, and in all. */
const MAX_PER_RECEIVER = 16
const MAX_PER_OWNER = 64
const MAX_IN_FLIGHT = 256

/** Whom a request goes to. */
interface Destination {
  readonly owner: string
  readonly url: string
}

/** Counts the requests in flight, and knows who waits for a place. */
export class DeliverySlots {
  readonly #taken = new Map<string, number>()
  /** Waiting lanes, by what they wait for. */
  readonly #waiting = new Map<string, Set<string>>()

  /** Takes a place for a request of a lane; false if there is none, and then the lane is waiting for one. */
  take(destination: Destination, lane: string): boolean {
    const limits = limitsOf(destination)
    const full = limits.find(([key, limit]) => (this.#taken.get(key) ?? 0) >= limit)
    if (full) {
      const [key] = full
      this.#waiting.set(key, (this.#waiting.get(key) ?? new Set()).add(lane))
      return false
    }
    for (const [key] of limits) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)
    return true
  }

  /** Returns a place; the lanes that waited for one like it try again. */
  free(destination: Destination): readonly string[] {
    return limitsOf(destination).flatMap(([key]) => {
      const taken = (this.#taken.get(key) ?? 1) - 1
      if (taken > 0) this.#taken.set(key, taken)
      else this.#taken.delete(key)
      const lanes = [...(this.#waiting.get(key) ?? [])]
      this.#waiting.delete(key)
      return lanes
    })
  }
}

function limitsOf({ owner, url }: Destination): readonly (readonly [string, number])[] {
  return [
    [`receiver ${owner} ${url}`, MAX_PER_RECEIVER],
    [`owner ${owner}`, MAX_PER_OWNER],
    ['all', MAX_IN_FLIGHT],
  ]
}
