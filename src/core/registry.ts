/**
 * What is under way, by a key. A `Map` whose entries come and go keeps its outgrown tables linked until the next
 * full garbage collection, and with them whatever they held; a plain object does not.
 */
export class Registry<Key extends string | number, Value> {
  // Without a prototype no key is there already.
  readonly #entries: Partial<Record<Key, Value>> = Object.create(null)
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: Key): Value | undefined {
    return this.#entries[key]
  }

  has(key: Key): boolean {
    return this.#entries[key] !== undefined
  }

  set(key: Key, value: Value): void {
    if (this.#entries[key] === undefined) this.#size++
    this.#entries[key] = value
  }

  /** Tells whether there was one. */
  delete(key: Key): boolean {
    if (this.#entries[key] === undefined) return false
    this.#size--
    delete this.#entries[key]
    return true
  }

  /** The value, where there is just one. */
  get only(): Value | undefined {
    return this.#size === 1 ? this.values()[0] : undefined
  }

  values(): Value[] {
    return Object.values(this.#entries)
  }
}
