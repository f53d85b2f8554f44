/**
 * A map of bounded weight that forgets what was not used for longest. It has two halves: what is used moves to the
 * younger one, and once that is full it becomes the older one, whose place it takes.
 */
export class Generations<Value> {
  readonly #half: number
  readonly #weigh: (value: Value) => number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()
  #weight = 0

  constructor(limit: number, weigh: (value: Value) => number) {
    this.#half = limit / 2
    this.#weigh = weigh
  }

  get(key: string): Value | undefined {
    const found = this.#young.get(key)
    if (found !== undefined) return found
    const older = this.#old.get(key)
    if (older !== undefined) this.set(key, older)
    return older
  }

  set(key: string, value: Value): void {
    const weight = this.#weigh(value) + key.length
    if (this.#weight + weight > this.#half) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#weight += weight
    this.#young.set(key, value)
  }

  delete(key: string): boolean {
    const wasYoung = this.#young.delete(key)
    return this.#old.delete(key) || wasYoung
  }

  /** The keys there are, each once. Looking at their values does not disturb it. */
  keys(): ReadonlySet<string> {
    return new Set([...this.#young.keys(), ...this.#old.keys()])
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
    this.#weight = 0
  }
}
