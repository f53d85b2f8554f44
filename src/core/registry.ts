/** A map for ascending keys: a ring of cells without hashing, for requests in flight. */

/** A holder that releases its value when the key is removed. */
interface Cell<Value> {
  value: Value | undefined
}

/** The number of ascending keys that fit into the ring at once. */
const RING_SIZE = 256

/**
 * Requests in flight by key. Ascending keys, as numbers or as digits, each have a cell in a ring, which costs next to
 * nothing; all others are in a map. A `Map` whose entries come and go keeps its outgrown tables linked until the next
 * full garbage collection, with everything they referenced; a cell therefore releases its value.
 */
export class Registry<Key extends string | number, Value> {
  readonly #keys: (Key | undefined)[] = []
  readonly #values: (Value | undefined)[] = []
  readonly #overflow = new Map<Key, Cell<Value>>()
  #inRing = 0

  get size(): number {
    return this.#inRing + this.#overflow.size
  }

  /** The value, if there is exactly one. */
  get only(): Value | undefined {
    return this.size === 1 ? this.values()[0] : undefined
  }

  get(key: Key): Value | undefined {
    const place = placeOf(key)
    if (this.#keys[place] === key) return this.#values[place]
    return this.#overflow.size === 0 ? undefined : this.#overflow.get(key)?.value
  }

  has(key: Key): boolean {
    return this.#keys[placeOf(key)] === key || this.#overflow.has(key)
  }

  set(key: Key, value: Value): void {
    const place = placeOf(key)
    const occupant = this.#keys[place]
    if (occupant === key) this.#values[place] = value
    else if (place < 0 || occupant !== undefined || this.#overflow.has(key))
      this.#overflow.set(key, { value })
    else this.#occupy(place, key, value)
  }

  /** Returns whether the key existed. */
  delete(key: Key): boolean {
    const place = placeOf(key)
    if (this.#keys[place] === key) {
      this.#keys[place] = this.#values[place] = undefined
      this.#inRing--
      return true
    }
    const cell = this.#overflow.get(key)
    if (cell) cell.value = undefined
    return this.#overflow.delete(key)
  }

  /** All values; if the keys are numbers, in ascending order. */
  values(): Value[] {
    const found: [Key, Value][] = []
    for (const [key, { value }] of this.#overflow) if (value !== undefined) found.push([key, value])
    if (this.#inRing > 0) {
      for (const [place, key] of this.#keys.entries()) {
        const value = this.#values[place]
        if (key !== undefined && value !== undefined) found.push([key, value])
      }
    }
    return found.toSorted(([one], [other]) => Number(one) - Number(other)).map(([, value]) => value)
  }

  #occupy(place: number, key: Key, value: Value): void {
    while (this.#keys.length < place) {
      this.#keys.push(undefined)
      this.#values.push(undefined)
    }
    this.#keys[place] = key
    this.#values[place] = value
    this.#inRing++
  }
}

/** The place of a key in the ring; -1 if it has none. */
function placeOf(key: string | number): number {
  if (typeof key === 'number') return key & (RING_SIZE - 1)
  if (key.length > 9) return -1
  let number = 0
  for (let at = 0; at < key.length; at++) {
    const digit = key.charCodeAt(at) - 48
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number & (RING_SIZE - 1)
}
