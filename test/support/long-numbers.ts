/** Generated numbers of JSON texts that a double cannot hold, for properties of what is computed with them. */
import fc from 'fast-check'
import { numberOf } from '../../src/core/json/exact-number.ts'

/** A number, and another one that differs from it in the last digit only. */
export interface Pair {
  readonly number: string
  readonly other: string
}

const digits = (min: number, max: number) =>
  fc.stringMatching(new RegExp(`^[1-9][0-9]{${min - 1},${max - 1}}$`))
const sign = fc.constantFrom('', '-')

/** Integers beyond 2^53, fractions, and numbers with exponents, also such that no double has. */
const numbers = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(sign, digits(17, 40)).map((parts) => parts.join('')) },
  fc.constantFrom('9007199254740993', '-9007199254740993', '18446744073709551615', '725653563933458433'),
  fc
    .tuple(sign, fc.oneof(fc.constant('0'), digits(1, 20)), digits(17, 30))
    .map(([minus, whole, fraction]) => `${minus}${whole}.${fraction}`),
  fc
    .tuple(sign, digits(17, 24), fc.constantFrom('e', 'E', 'e+', 'e-'), fc.integer({ min: 1, max: 400 }))
    .map((parts) => parts.join('')),
)

const pairs: fc.Arbitrary<Pair> = numbers.map((number) => ({ number, other: withOtherDigit(number) }))

function withOtherDigit(number: string): string {
  const [, start = '', last = '', end = ''] = /^(-?[\d.]*)(\d)((?:[eE].*)?)$/v.exec(number) ?? []
  return `${start}${last === '9' ? '8' : Number(last) + 1}${end}`
}

/** How a text without spaces names a number: as it came, or as the double that is the same number. */
export function named(number: string): string {
  return String(numberOf(number))
}

/** Where arguments and results have a number: as a value, in lists, as a text, in JSON inside a text, and as a key. */
export function valueWith(number: string): string {
  const inText = JSON.stringify(`{"id": ${number}}`)
  return `{"id":${number},"of":{"ids":[1,${number}]},"text":"${number}","json":${inText},"by":{"${number}":true}}`
}

/** Checks properties of so many generated pairs. */
export function checking(
  runs: number,
  seed: number,
): (check: (pair: Pair) => Promise<void> | void) => Promise<void> {
  return async (check) => {
    const property = fc.asyncProperty(pairs, async (pair) => {
      await check(pair)
    })
    await fc.assert(property, { numRuns: runs, seed })
  }
}
