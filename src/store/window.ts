import { SLICES } from './store.ts'

/** What was taken from one bucket within the last window of time, counted by slices. */
export class Window {
  /** A ring: the slice of a time stands at its number modulo the size of the ring. */
  readonly #counts = new Uint32Array(SLICES + 1)
  readonly #length: number
  #newest: number
  #total = 0

  constructor(window: number, now: number) {
    // Whole milliseconds, so that what is said to come back then does.
    this.#length = Math.ceil(window / SLICES)
    this.#newest = Math.floor(now / this.#length)
  }

  /** How many were taken within the window that ends at a time, in milliseconds. */
  taken(now: number): number {
    const slice = Math.floor(now / this.#length)
    const passed = Math.min(slice - this.#newest, this.#counts.length)
    for (let step = 1; step <= passed; step++) {
      const at = (this.#newest + step) % this.#counts.length
      this.#total -= this.#counts[at] ?? 0
      this.#counts[at] = 0
    }
    if (slice > this.#newest) this.#newest = slice
    return this.#total
  }

  /** Takes one, at the time of the last look. */
  add(): void {
    const at = this.#newest % this.#counts.length
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#total++
  }

  /** Gives back the last one that was taken, at the time of the last look. */
  giveBack(): void {
    if (this.#total === 0) return
    for (let slice = this.#newest; slice > this.#newest - this.#counts.length; slice--) {
      const at = ((slice % this.#counts.length) + this.#counts.length) % this.#counts.length
      const count = this.#counts[at] ?? 0
      if (count === 0) continue
      this.#counts[at] = count - 1
      this.#total--
      return
    }
  }

  /** How long from a time until the oldest that was taken comes back, in milliseconds. */
  reset(now: number): number {
    if (this.#total === 0) return 0
    for (let slice = this.#newest - SLICES; slice <= this.#newest; slice++) {
      const at = ((slice % this.#counts.length) + this.#counts.length) % this.#counts.length
      if (this.#counts[at] !== 0) return Math.max(1, Math.ceil((slice + SLICES + 1) * this.#length - now))
    }
    return 0
  }
}
