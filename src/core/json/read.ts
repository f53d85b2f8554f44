/**
 * The one reader of JSON texts. `JSON.parse` rounds numbers that a double cannot hold and keeps the last of members with
 * the same key, and V8 may read a key with an escape as another key of an earlier text. So its value is taken where that is
 * known to be right, which is the case for nearly all texts; the others are read here.
 */
import { ExactNumber, numberOf } from './exact-number.ts'

/** A number with an exponent that a double may not have. Most texts that have one are within a string, such as a UUID. */
const LARGE_EXPONENT = /\d[eE][+-]?\d{3}/
const NUMBER_WITH_LARGE_EXPONENT = /(?:^|[:,[\s])-?\d[\d.]*[eE][+-]?\d{3}/
/** A double may not hold a number of so many digits and dots. */
const LONG = 16

/**
 * The value of a JSON text. Numbers that a double cannot hold are an `ExactNumber`; of members with the same key the last
 * one counts. @throws SyntaxError as `JSON.parse` does; its message quotes the text
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  if (!hasEscapedKey(text) && !hasInexactNumbers(text)) return value
  return isWrittenAs(value, text) ? value : new Reader(text).read()
}

/** Whether a value is written as this text, as most are. So the text has no key twice and no number that was rounded. */
function isWrittenAs(value: unknown, text: string): boolean {
  try {
    return JSON.stringify(value) === text
  } catch (error) {
    // It is nested too deeply to be written.
    if (error instanceof RangeError) return false
    throw error
  }
}

/**
 * A value with the nearest doubles in the place of its exact numbers, for what compares sizes; the value itself if it has
 * none.
 */
export function withDoubles(value: unknown): unknown {
  return hasExactNumbers(value) ? JSON.parse(JSON.stringify(value)) : value
}

/** Whether a value has numbers that a double cannot hold. Without recursion, since values may be nested deeply. */
export function hasExactNumbers(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const pending: object[] = [value]
  for (let next = pending.pop(); next; next = pending.pop()) {
    if (next instanceof ExactNumber) return true
    const inner: unknown[] = Array.isArray(next) ? next : Object.values(next)
    for (const each of inner) if (typeof each === 'object' && each !== null) pending.push(each)
  }
  return false
}

/** Whether a key of a JSON text has an escape: a backslash is in a string, which is a key if a colon follows it. */
function hasEscapedKey(text: string): boolean {
  for (let at = text.indexOf('\\'); at !== -1; at = text.indexOf('\\', at)) {
    while (text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
    do at++
    while (SPACES.has(text.charCodeAt(at)))
    if (text.charCodeAt(at) === COLON) return true
  }
  return false
}

/** Whether a JSON text may have numbers that a double cannot hold. One character of each `LONG` is read, not all. */
function hasInexactNumbers(text: string): boolean {
  for (let at = LONG - 1; at < text.length; at += LONG) {
    if (!isDigitOrDot(text.charCodeAt(at))) continue
    let start = at
    while (isDigitOrDot(text.charCodeAt(start - 1))) start--
    while (isDigitOrDot(text.charCodeAt(at + 1))) at++
    if (at - start + 1 >= LONG) return true
  }
  return LARGE_EXPONENT.test(text) && NUMBER_WITH_LARGE_EXPONENT.test(text)
}

function isDigitOrDot(code: number): boolean {
  return code >= 46 && code <= 57 && code !== 47
}

/** The place of the first key that an object of a JSON text has twice, such as `arguments.path`; undefined if none has. */
export function duplicateKey(text: string, value: unknown): string | undefined {
  if (quotedColonsIn(text) === keysIn(value) || isWrittenAs(value, text)) return undefined
  const reader = new Reader(text)
  reader.read()
  return reader.duplicate
}

/** How many quotes are before a colon: as many as the objects of a JSON text have members, or more. */
function quotedColonsIn(text: string): number {
  let count = 0
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    let before = at - 1
    while (SPACES.has(text.charCodeAt(before))) before--
    if (text.charCodeAt(before) === QUOTE) count++
  }
  return count
}

function keysIn(value: unknown): number {
  let count = 0
  const pending = [value]
  while (pending.length > 0) {
    const next = pending.pop()
    if (typeof next !== 'object' || next === null || next instanceof ExactNumber) continue
    const inner: unknown[] = Array.isArray(next) ? next : Object.values(next)
    if (!Array.isArray(next)) count += inner.length
    for (const each of inner) pending.push(each)
  }
  return count
}

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_ARRAY = 91
const BACKSLASH = 92
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** An object or array whose end has not been read yet. */
interface Open {
  readonly value: Record<string, unknown> | unknown[]
  /** The key of the member that is read now. */
  key: string
}

/** Reads a text that is known to be valid JSON; without recursion, since texts may be nested deeply. */
class Reader {
  readonly #text: string
  readonly #open: Open[] = []
  #at = 0
  /** The place of the first key that an object has twice. */
  duplicate: string | undefined

  constructor(text: string) {
    this.#text = text
  }

  read(): unknown {
    for (;;) {
      const code = this.#next()
      const isContainer = code === OPEN_OBJECT || code === OPEN_ARRAY
      if (isContainer) this.#enter(code === OPEN_OBJECT ? {} : [])
      if (isContainer && this.#hasMore(true)) continue
      let value = isContainer ? this.#open.pop()?.value : this.#scalar(code)
      while (this.#open.length > 0) {
        this.#add(value)
        if (this.#hasMore(false)) break
        value = this.#open.pop()?.value
      }
      if (this.#open.length === 0) return value
    }
  }

  #enter(value: Open['value']): void {
    this.#at++
    this.#open.push({ value, key: '' })
  }

  /** Goes to the next element, or behind the key of the next member; false, behind the bracket, if there is none. */
  #hasMore(isFirst: boolean): boolean {
    const open = this.#open.at(-1)
    if (!open) return false
    let code = this.#next()
    if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      this.#at++
      return false
    }
    if (!isFirst && code === COMMA) {
      this.#at++
      code = this.#next()
    }
    if (Array.isArray(open.value)) return true
    open.key = this.#string()
    if (this.duplicate === undefined && Object.hasOwn(open.value, open.key)) this.duplicate = this.#place()
    if (this.#next() === COLON) this.#at++
    return true
  }

  #add(value: unknown): void {
    const open = this.#open.at(-1)
    if (!open) return
    if (Array.isArray(open.value)) open.value.push(value)
    else setOwn(open.value, open.key, value)
  }

  #scalar(code: number): unknown {
    if (code === QUOTE) return this.#string()
    const start = this.#at
    while (!ENDS.has(this.#text.charCodeAt(this.#at)) && this.#at < this.#text.length) this.#at++
    const word = this.#text.slice(start, this.#at)
    if (word === 'true') return true
    if (word === 'false') return false
    return word === 'null' ? null : numberOf(word)
  }

  #string(): string {
    const start = this.#at
    let end = this.#text.indexOf('"', start + 1)
    const isPlain = (): boolean => !this.#text.slice(start, end).includes('\\')
    if (isPlain()) {
      this.#at = end + 1
      return this.#text.slice(start + 1, end)
    }
    for (end = start + 1; this.#text.charCodeAt(end) !== QUOTE;)
      end += this.#text.charCodeAt(end) === BACKSLASH ? 2 : 1
    this.#at = end + 1
    return String(JSON.parse(this.#text.slice(start, this.#at)))
  }

  /** The code of the next character that is not white space. */
  #next(): number {
    while (SPACES.has(this.#text.charCodeAt(this.#at))) this.#at++
    return this.#text.charCodeAt(this.#at)
  }

  #place(): string {
    return this.#open
      .map(({ value, key }) => (Array.isArray(value) ? `[${value.length}]` : `.${key}`))
      .join('')
      .replace(/^\./, '')
  }
}

const SPACES: ReadonlySet<number> = new Set([9, 10, 13, 32])
const ENDS: ReadonlySet<number> = new Set([...SPACES, COMMA, CLOSE_ARRAY, CLOSE_OBJECT])

/** Sets an own member of any name: an assignment to `__proto__` would set the prototype. */
export function setOwn(value: Record<string, unknown>, key: string, member: unknown): void {
  if (key !== '__proto__') value[key] = member
  else
    Object.defineProperty(value, key, { value: member, writable: true, enumerable: true, configurable: true })
}
