/**
 * What has to happen without a request: replies are kept alive, and streams end with the token of their caller. One timer
 * of each listener serves all of them, so that thousands of open streams cost no timer each.
 */
import { Registry } from '../../core/registry.ts'

/** Something that is looked after until it is removed. */
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

  /** Looks after something from now on. Returns the key that removes it. */
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
