/**
 * Ids and amounts that are easily mistaken for each other: neighbours that a double cannot distinguish, decimals with more
 * digits than it has, the same digits as a number and as text, and small ones. All of them are JSON texts, and simulated
 * clients and servers compare them as such: reading them as the product does would repeat its mistakes.
 */

/** An 18-digit number; the eleventh is `ROUND`. */
const long = (index: number): string => String(725_653_563_933_458_390n + BigInt(index))
/** Ends with a digit that is not zero, so that there is one way to write it. */
const decimal = (index: number): string =>
  `31415926.535897${String(index + Math.floor(index / 9) + 1).padStart(6, '0')}`
const small = (index: number): string => String(index + 1)

const kinds: readonly ((index: number) => string)[] = [
  long,
  (index) => JSON.stringify(long(index)),
  // 20 digits, around 2^64.
  (index) => String(18_446_744_073_709_551_590n + BigInt(index)),
  // From 2^53 + 1.
  (index) => String(9_007_199_254_740_993n + BigInt(index)),
  small,
  (index) => JSON.stringify(small(index)),
  decimal,
  (index) => `-${long(index)}`,
]

/** A number that a double rounds to another one, and the one to which its neighbours are rounded. */
export const [ROUNDED, ROUND] = [long(0), long(10)]

/** Numbers, each of which is given once. */
export class OddNumbers {
  readonly #counts = kinds.map(() => 0)
  readonly #kinds = new Map<string, number>()
  #turn = 0

  /** The next number that is an integer or a string, as ids of requests are. */
  nextId(): string {
    const made = this.next()
    return made.includes('.') ? this.nextId() : made
  }

  /** The next number, as JSON: of another kind than the one before, or the next neighbour of a given one. */
  next(like?: string): string {
    const kind = (like === undefined ? undefined : this.#kinds.get(like)) ?? this.#turn++ % kinds.length
    const index = this.#counts[kind] ?? 0
    this.#counts[kind] = index + 1
    const made = kinds[kind]?.(index) ?? small(index)
    this.#kinds.set(made, kind)
    return made
  }
}

/** The digits of a number that is a JSON text, which may be a string. */
export function digitsOf(number: string): string {
  return number.replaceAll('"', '')
}
