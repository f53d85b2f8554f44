/**
 * The timer of a listener: it keeps open replies alive, and ends streams when the token of their caller expires. One timer
 * serves all of them, so that thousands of open streams cost no timer each.
 */
import { Registry } from '../../core/registry.ts'

/** Called at each tick until it is removed; `now` is in milliseconds since 1970. */
interface Ticking {
  tick(now: number): void
}

const TICK_MS = 500

/** The replies and streams of one listener. */
export class Ticker {
  readonly #all = new Registry<number, Ticking>()
  #last = 0
  readonly #timer = setInterval(() => {
    const now = Date.now()
    for (const each of this.#all.values()) each.tick(now)
  }, TICK_MS).unref()

  /** Returns the key that removes it. */
  add(each: Ticking): number {
    const key = ++this.#last
    this.#all.set(key, each)
    return key
  }

  remove(key: number): void {
    this.#all.delete(key)
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
