/** What tells keyed calls apart: the tool, and its arguments with all digits of their numbers. Fingerprints are stored. */
import { canonicalHash, exactHash } from '../core/json/canonical-hash.ts'
import { ExactNumber, isNumber, numberOf } from '../core/json/exact-number.ts'
import { exactly, isObject } from '../core/json/json.ts'
import { hasExactNumbers } from '../core/json/read.ts'
import type { Payload } from '../core/payload.ts'

/**
 * A hash of the tool, its arguments and whatever else identifies the call. Equal for equal values, whatever the order
 * of members (RFC 8785, SHA-256).
 */
export function fingerprintOf(
  tool: string,
  given: unknown,
  context: Readonly<Record<string, unknown>> = {},
): string {
  return canonicalHash({ ...context, tool, arguments: given ?? {} })
}

/**
 * What a fingerprint has besides values with doubles, since the server receives numbers as they were sent: the long numbers
 * in the order of the text. Where those do not tell which value has which number, it has the values too.
 */
export function inexactNumbers(
  written: Payload | undefined,
  given: unknown = written?.value,
): { readonly digits?: readonly string[]; readonly exact?: string } {
  const digits = written === undefined ? [] : longNumbers(written.text)
  if (digits.length === 0 && !hasExactNumbers(given)) return NONE
  return {
    ...(digits.length > 0 && { digits }),
    ...(hasExactNumbers(given) && !areTold(numbersOf(given), digits) && { exact: exactHash(given) }),
  }
}

const NONE = {}

/** Whether the long numbers of a text, in its order, tell those of a value, in the order of its keys. */
function areTold(numbers: readonly (number | ExactNumber)[], digits: readonly string[]): boolean {
  const told = new Set(digits.map((each) => exactly(numberOf(each))))
  const spellings = new Map<number, Set<string>>()
  for (const number of numbers) {
    if (number instanceof ExactNumber && !told.has(number.canonical)) return false
    const double = Number(number)
    spellings.set(double, (spellings.get(double) ?? new Set()).add(exactly(number)))
  }
  const isAlike = (number: number | ExactNumber): boolean => (spellings.get(Number(number))?.size ?? 0) > 1
  const alike = (all: readonly (number | ExactNumber)[]): string => exactly(all.filter(isAlike))
  return alike(numbers) === alike(digits.map(numberOf))
}

/** The numbers in a value, in the order of its keys. */
function numbersOf(value: unknown): readonly (number | ExactNumber)[] {
  const found: (number | ExactNumber)[] = []
  const pending = [value]
  while (pending.length > 0) {
    const next = pending.pop()
    if (isNumber(next)) found.push(next)
    else if (Array.isArray(next)) for (const each of next.toReversed()) pending.push(each)
    else if (isObject(next))
      for (const key of Object.keys(next).toSorted().toReversed()) pending.push(next[key])
  }
  return found
}

/** Numbers that a double cannot represent exactly. Stored fingerprints have them. */
function longNumbers(text: string): readonly string[] {
  if (!/\d{16}|\d[eE][+-]?\d{3}/.test(text)) return []
  return numbersIn(text).filter((number) => number.length > 15 || isOutOfRange(number))
}

/** Whether a number overflows a double, or underflows to zero. */
function isOutOfRange(number: string): boolean {
  if (!/\d[eE]/.test(number)) return false
  const value = Number(number)
  return !Number.isFinite(value) || (value === 0 && /^[^eE]*[1-9]/.test(number))
}

/** The numbers of a JSON text. A regular expression would overflow its stack on long texts. */
function numbersIn(json: string): readonly string[] {
  const numbers: string[] = []
  for (let at = 0; at < json.length; at++) {
    const sign = json[at] ?? ''
    if (sign === '"') at = endOfString(json, at)
    else if (inNumber.has(sign)) {
      const start = at
      while (inNumber.has(json[at + 1] ?? '')) at++
      numbers.push(json.slice(start, at + 1))
    }
  }
  return numbers
}

const inNumber: ReadonlySet<string> = new Set('0123456789-+.eE')

/** Where the string ends that starts here. */
function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at
}
