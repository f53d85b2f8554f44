import { WAIT_TIMEOUT_MS } from '../condition.ts'

/** A list that grows, and that can be waited on. */
export class Log<T> {
  readonly items: T[] = []
  readonly #waiting = new Set<() => void>()

  push(item: T): void {
    this.items.push(item)
    for (const check of [...this.#waiting]) check()
  }

  /** Waits until an item, past or to come, satisfies the predicate. */
  until(predicate: (item: T) => boolean, timeoutMs = WAIT_TIMEOUT_MS): Promise<T> {
    return new Promise((resolve, reject) => {
      const check = () => {
        const found = this.items.find(predicate)
        if (found === undefined) return
        clearTimeout(timer)
        this.#waiting.delete(check)
        resolve(found)
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(check)
        reject(new Error(`nothing like it came within ${timeoutMs} ms`))
      }, timeoutMs)
      this.#waiting.add(check)
      check()
    })
  }
}
