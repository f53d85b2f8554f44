/** Holds a value until it is removed. */
interface Cell<Value> {
  value: Value | undefined
}

/**
 * What is under way, by a key. A `Map` whose entries come and go keeps its outgrown tables linked until the next
 * full garbage collection, with whatever they held then; so here a removed value is also let go of by its cell.
 */
export class Registry<Key extends string | number, Value> {
  readonly #cells = new Map<Key, Cell<Value>>()

  get size(): number {
    return this.#cells.size
  }

  /** The value, where there is just one. */
  get only(): Value | undefined {
    return this.size === 1 ? this.values()[0] : undefined
  }

  get(key: Key): Value | undefined {
    return this.#cells.get(key)?.value
  }

  has(key: Key): boolean {
    return this.#cells.has(key)
  }

  set(key: Key, value: Value): void {
    this.#cells.set(key, { value })
  }

  /** Tells whether there was one. */
  delete(key: Key): boolean {
    const cell = this.#cells.get(key)
    if (!cell) return false
    cell.value = undefined
    return this.#cells.delete(key)
  }

  values(): Value[] {
    const values: Value[] = []
    for (const { value } of this.#cells.values()) if (value !== undefined) values.push(value)
    return values
  }
}
