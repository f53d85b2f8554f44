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

  /** The same text for the same number, however it is written. */
  get canonical(): string {
    return decimal(this.text)
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

/** The value of a number of a JSON text: a double if that holds it exactly. */
export function numberOf(text: string): number | ExactNumber {
  const value = Number(text)
  if (text.length <= MAX_SURE_LENGTH && !/[eE]/.test(text)) return value
  return String(value) === text || decimal(String(value)) === decimal(text) ? value : new ExactNumber(text)
}

/** A double holds each number of at most 15 digits. */
const MAX_SURE_LENGTH = 15

/** Whether a value is a number, whether or not a double can hold it. */
export function isNumber(value: unknown): value is number | ExactNumber {
  return typeof value === 'number' || value instanceof ExactNumber
}

/** The double that is nearest to a number; undefined for other values. */
export function toDouble(value: unknown): number | undefined {
  if (value instanceof ExactNumber) return Number(value.text)
  return typeof value === 'number' ? value : undefined
}

/** Numbers with more digits are compared as text. */
const MAX_DIGITS = 1000

/** The same JSON for the same number, however it is written: `<digits>e<exponent>` without zeros at either end, or `0`. */
export function decimal(text: string): string {
  if (text.length > MAX_DIGITS) return text
  const [, sign = '', integer = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? []
  const digits = `${integer}${fraction}`.replace(/^0+/, '')
  const significant = digits.replace(/0+$/, '')
  if (significant === '') return integer === '' ? text : '0'
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`
}
