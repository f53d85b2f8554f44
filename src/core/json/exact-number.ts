/** Numbers of JSON texts that a double cannot hold, such as ids of 64 bits (RFC 8259 section 6). */

/** The only part of `JSON.rawJSON` that is used here (ECMAScript 2026): a value that is written as this text. */
const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): unknown }

/**
 * A number of a JSON text that a double cannot hold: it keeps its text, and `JSON.stringify` and string conversion write
 * it as it came. It is compared with `isSame`, by value: `===` compares objects.
 */
export class ExactNumber {
  /** As it was written, such as `725653563933458433`. */
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** The same text for the same number, however it is written; what a double holds is written as that. */
  get canonical(): string {
    const digits = decimal(this.text)
    const double = String(Number(this.text))
    return decimal(double) === digits ? double : digits
  }

  toString(): string {
    return this.text
  }

  toJSON(): unknown {
    return rawJSON(this.text)
  }

  /** How `util.inspect` prints it. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.text
  }
}

/** The value of a number of a JSON text: a double if that holds it exactly, and is not written with an exponent instead. */
export function numberOf(text: string): number | ExactNumber {
  const value = Number(text)
  if (text.length <= MAX_SURE_LENGTH && !/[eE]/.test(text)) return value
  if (LONG_INTEGER.test(text)) return new ExactNumber(text)
  return String(value) === text || decimal(String(value)) === decimal(text) ? value : new ExactNumber(text)
}

/** A double holds each number of at most 15 digits. */
const MAX_SURE_LENGTH = 15
/** From 1e21 on, doubles are written with an exponent, and servers would read another type of number. */
const LONG_INTEGER = /^-?\d{22,}$/

/** Whether a value is a number, whether or not a double can hold it. */
export function isNumber(value: unknown): value is number | ExactNumber {
  return typeof value === 'number' || value instanceof ExactNumber
}

/** The double that is nearest to a number; undefined for other values. */
export function toDouble(value: unknown): number | undefined {
  if (value instanceof ExactNumber) return Number(value.text)
  return typeof value === 'number' ? value : undefined
}

/** `<digits>e<exponent>` without zeros at either end, or `0`. Senders choose how long a text is, so each character is read once. */
function decimal(text: string): string {
  // `String` writes numbers beyond the largest double as words.
  if (!/^-?\d/.test(text)) return text
  const sign = text.startsWith('-') ? '-' : ''
  const [mantissa = '', exponent = '0'] = text.slice(sign.length).split(/e/i)
  const [integer = '', fraction = ''] = mantissa.split('.')
  const digits = `${integer}${fraction}`
  let start = 0
  while (digits[start] === '0') start++
  if (start === digits.length) return '0'
  let end = digits.length
  while (digits[end - 1] === '0') end--
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}

/**
 * A number in plain digits, without an exponent or zeros at the end of a fraction: the same text however it is written. As it
 * is, if it would have hundreds of zeros.
 */
export function plainDigits(number: number | ExactNumber): string {
  const text = String(number)
  return plain(decimal(text)) ?? text
}

/** Whether a number is a multiple of another one by their decimal digits: 19.99 is one of 0.01, although no double says so. */
export function isMultiple(number: number, of: number): boolean {
  const [one, other] = [parts(String(number)), parts(String(of))]
  if (!one || !other || other.digits === 0n) return true
  const [part, whole] = aligned(one, other)
  return part % whole === 0n
}

/** A decimal number without rounding: `digits` times ten to the power of `exponent`. */
export interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

export const ZERO: Decimal = { digits: 0n, exponent: 0 }

const MAX_DECIMAL_LENGTH = 802

/** The exact value of a number, or of a text with one in plain digits; undefined for others, and beyond 400 digits. */
export function decimalOf(value: unknown): Decimal | undefined {
  const isText = typeof value === 'string' && /^-?\d{1,400}(?:\.\d{1,400})?$/.test(value)
  const text = isText || isNumber(value) ? String(value) : ''
  const found = text === '' || text.length > MAX_DECIMAL_LENGTH ? undefined : parts(text)
  return found && Math.abs(found.exponent) <= MAX_ZEROS ? found : undefined
}

/** The sum of two numbers; `times` is 1, or -1 for the difference. */
export function plus(one: Decimal, other: Decimal, times: 1n | -1n = 1n): Decimal {
  const [first, second] = aligned(one, other)
  return { digits: first + times * second, exponent: Math.min(one.exponent, other.exponent) }
}

/** Whether a number is greater than another one. */
export function isMore(one: Decimal, other: Decimal): boolean {
  return plus(one, other, -1n).digits > 0n
}

/** The number in plain digits. */
export function decimalText({ digits, exponent }: Decimal): string {
  const canonical = decimal(`${digits}e${exponent}`)
  return plain(canonical) ?? canonical
}

/** Both numbers in units of the smaller one's last digit. */
function aligned(one: Decimal, other: Decimal): readonly [bigint, bigint] {
  const exponent = Math.min(one.exponent, other.exponent)
  const scaled = ({ digits, exponent: own }: Decimal): bigint => digits * 10n ** BigInt(own - exponent)
  return [scaled(one), scaled(other)]
}

/** Undefined for what is no finite number. */
function parts(text: string): Decimal | undefined {
  const canonical = decimal(text)
  if (canonical === '0') return ZERO
  const [, digits, exponent] = /^(-?\d+)e(-?\d+)$/.exec(canonical) ?? []
  return digits === undefined ? undefined : { digits: BigInt(digits), exponent: Number(exponent) }
}

/** How many zeros an exponent may stand for in plain digits. */
const MAX_ZEROS = 400

/** What `decimal` returns in plain digits; undefined if that would be too long. */
function plain(canonical: string): string | undefined {
  const [, sign = '', digits = '', exponent = ''] = /^(-?)(\d+)e(-?\d+)$/.exec(canonical) ?? []
  const shift = Number(exponent)
  if (digits === '' || Math.abs(shift) > digits.length + MAX_ZEROS) return undefined
  if (shift >= 0) return `${sign}${digits}${'0'.repeat(shift)}`
  const whole = digits.padStart(1 - shift, '0')
  return `${sign}${whole.slice(0, shift)}.${whole.slice(shift)}`
}
