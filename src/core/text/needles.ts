/**
 * Searches texts for many words at once (Wu and Manber, 1994): the time depends on the length of the text, hardly on the
 * number of words. A text of 1 MB takes about a millisecond, with one word or with 2000.
 */

/** Fewer characters make the search slow, and more do not make it faster. */
const MIN_LENGTH = 4
const MAX_LENGTH = 16
/** The number of entries of the table of shifts: one for each value of `blockAt`. */
const TABLE_SIZE = 65_536

interface Needle<Value> {
  readonly text: string
  readonly value: Value
}

/** Words, each with a value. */
export class Needles<Value> {
  readonly #all: readonly Needle<Value>[]
  /** How many characters of each word are compared at first. */
  readonly #length: number
  /** How far to go on, by the two characters at the place: 0 if a word may end there. */
  readonly #shifts = new Uint8Array(TABLE_SIZE)
  readonly #ends = new Map<number, Needle<Value>[]>()

  /** Words must have 4 characters or more; only the first 16 of them are searched for. */
  constructor(words: Iterable<readonly [text: string, value: Value]>) {
    this.#all = [...words].map(([text, value]) => ({ text: text.slice(0, MAX_LENGTH), value }))
    if (this.#all.some(({ text }) => text.length < MIN_LENGTH)) throw new TypeError('a word is too short')
    this.#length = Math.min(MAX_LENGTH, ...this.#all.map(({ text }) => text.length))
    this.#shifts.fill(this.#length - 1)
    for (const needle of this.#all) this.#add(needle)
  }

  #add(needle: Needle<Value>): void {
    const last = this.#length - 1
    for (let at = 1; at <= last; at++) {
      const block = blockAt(needle.text, at)
      this.#shifts[block] = Math.min(this.#shifts[block] ?? 0, last - at)
    }
    const end = blockAt(needle.text, last)
    const others = this.#ends.get(end)
    if (others) others.push(needle)
    else this.#ends.set(end, [needle])
  }

  /** The values of the words that a text contains, each once. */
  in(text: string): ReadonlySet<Value> {
    if (this.#all.length === 0 || text.length < this.#length) return none
    let found: Set<Value> | undefined
    const before = this.#length - 1
    const shifts = this.#shifts
    for (let at = before; at < text.length;) {
      const block = blockAt(text, at)
      const shift = shifts[block] ?? 0
      const ending = shift === 0 ? this.#ends.get(block)?.filter(isAt(text, at - before)) : undefined
      for (const { value } of ending ?? []) (found ??= new Set()).add(value)
      at += shift === 0 ? 1 : shift
    }
    return found ?? none
  }
}

function isAt(text: string, start: number): (needle: { readonly text: string }) => boolean {
  return (needle) => text.startsWith(needle.text, start)
}

const none: ReadonlySet<never> = new Set([])

/** Two characters as an index; different ones may have the same. */
function blockAt(text: string, at: number): number {
  return ((text.charCodeAt(at - 1) << 8) ^ text.charCodeAt(at)) & (TABLE_SIZE - 1)
}
