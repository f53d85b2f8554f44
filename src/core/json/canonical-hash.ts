/**
 * The hash of a value whatever the order of its members (SHA-256 of `canonical` or `exactly`). The text is hashed while it is written,
 * so a value of many megabytes is not held a second time.
 */
import { createHash, hash, type Hash } from 'node:crypto'
import { ExactNumber } from './exact-number.ts'
import { isObject } from './json.ts'

/** How much text is collected before it is hashed, and how long a part of a long string is, in characters. */
const MAX_PART_LENGTH = 65_536

/** The SHA-256 of the canonical JSON of a value, in hex: equal to the hash of `canonical(value)`, which rounds numbers. */
export function canonicalHash(value: unknown): string {
  return hashOf(value, new HashedText())
}

/** The same with all digits of numbers: equal to the hash of `exactly(value)`. */
export function exactHash(value: unknown): string {
  return hashOf(value, new HashedText(true))
}

function hashOf(value: unknown, text: HashedText): string {
  write(value, text)
  return text.digest()
}

class HashedText {
  /** Absent while the text is short: nearly all texts are hashed at once, which costs a third. */
  #hash: Hash | undefined
  readonly #isExact: boolean
  #waiting = ''

  constructor(isExact = false) {
    this.#isExact = isExact
  }

  addNumber(number: ExactNumber): void {
    this.add(this.#isExact ? number.canonical : JSON.stringify(Number(number.text)))
  }

  add(text: string): void {
    this.#waiting += text
    if (this.#waiting.length < MAX_PART_LENGTH) return
    this.#hash = (this.#hash ?? createHash('sha256')).update(this.#waiting)
    this.#waiting = ''
  }

  digest(): string {
    if (this.#hash) return this.#hash.update(this.#waiting).digest('hex')
    return hash('sha256', this.#waiting)
  }
}

function write(value: unknown, text: HashedText): void {
  if (typeof value === 'string') return writeString(value, text)
  if (Array.isArray(value)) {
    text.add('[')
    for (const [index, item] of value.entries()) {
      if (index > 0) text.add(',')
      write(item, text)
    }
    return text.add(']')
  }
  if (value instanceof ExactNumber) return text.addNumber(value)
  if (!isObject(value)) return text.add(JSON.stringify(value) ?? 'null')
  let separator = '{'
  for (const key of Object.keys(value).sort()) {
    if (value[key] === undefined) continue
    text.add(`${separator}${JSON.stringify(key)}:`)
    write(value[key], text)
    separator = ','
  }
  text.add(separator === '{' ? '{}' : '}')
}

function writeString(value: string, text: HashedText): void {
  if (value.length <= MAX_PART_LENGTH) return text.add(JSON.stringify(value))
  text.add('"')
  for (let from = 0; from < value.length;) {
    const end = endOfPart(value, from)
    text.add(JSON.stringify(value.slice(from, end)).slice(1, -1))
    from = end
  }
  text.add('"')
}

/** Halves of a surrogate pair stay together: alone, each would be written as an escape. */
function endOfPart(value: string, from: number): number {
  const end = from + MAX_PART_LENGTH
  const isSplit = /[\uD800-\uDBFF]/.test(value.charAt(end - 1)) && /[\uDC00-\uDFFF]/.test(value.charAt(end))
  return isSplit ? end - 1 : end
}
