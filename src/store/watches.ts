/**
 * Who watches which values of a store, for all implementations. How one learns of changes by other processes is its own affair:
 * Redis publishes them, a folder is polled.
 *
 * Invariant: a listener is called once it is certain that later changes are noticed, and after each time in which one may have been
 * missed. So whoever reads the value when called misses nothing.
 */

/** The value may have changed. */
export type ChangeListener = () => void

/** The keys whose values can be watched: a write of another one costs nothing for it. Of logs it is the head. */
const WATCHABLE = /^(?:operation:|circuit:|log:\{[^{}]*\}$)/

/** Whether the value of a key can be watched. */
export function isWatchable(key: string): boolean {
  return WATCHABLE.test(key)
}

/** The listeners of one store, by key. */
export class Watches {
  readonly #listeners = new Map<string, Set<Watch>>()

  get keys(): readonly string[] {
    return [...this.#listeners.keys()]
  }

  get size(): number {
    return this.#listeners.size
  }

  has(key: string): boolean {
    return this.#listeners.has(key)
  }

  /** Adds a listener to a key. The returned function removes it. @throws TypeError if the key cannot be watched */
  add(key: string, listener: ChangeListener): () => void {
    if (!isWatchable(key)) throw new TypeError(`${key} cannot be watched`)
    // The same function may be added twice.
    const watch = { listener }
    const own = this.#listeners.get(key) ?? new Set<Watch>()
    this.#listeners.set(key, own.add(watch))
    return () => {
      own.delete(watch)
      if (own.size === 0 && this.#listeners.get(key) === own) this.#listeners.delete(key)
    }
  }

  /** Calls the listeners of a key; without one all listeners, as changes may have been missed. */
  changed(key?: string): void {
    for (const each of key === undefined ? this.keys : [key])
      for (const { listener } of [...(this.#listeners.get(each) ?? [])]) listener()
  }
}

interface Watch {
  readonly listener: ChangeListener
}
