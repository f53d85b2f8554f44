/** Durations, sizes and rates of the configuration, and the delay that an HTTP header asks for. */

/** The JSON Schema of a duration in the configuration; read it with `milliseconds`. */
export const durationSchema = {
  type: 'string',
  pattern: '^\\d+(\\.\\d+)?(ms|s|m|h|d)$',
  errorMessage: 'must be a duration such as 500ms, 30s, 10m, 24h or 7d',
  'x-unit': 'milliseconds',
} as const

/** The JSON Schema of a size in the configuration; read it with `bytes`. A bare number is bytes. */
export const sizeSchema = {
  type: ['string', 'integer'],
  pattern: '^\\d+(\\.\\d+)?(B|KB|MB|GB)$',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  errorMessage: 'must be a size such as 64KB or 1MB (1 KB is 1024 bytes)',
  'x-unit': 'bytes',
} as const

const ratePattern = '^[1-9]\\d{0,8}/([1-9]\\d{0,3})?(s|second|m|minute|h|hour|d|day)$'

/** The JSON Schema of one rate, or of several that apply together; read it with `rates`. */
export const rateSchema = {
  type: ['string', 'array'],
  pattern: ratePattern,
  minItems: 1,
  items: {
    type: 'string',
    pattern: ratePattern,
    errorMessage: 'must be a rate such as 10/minute or 100/10s',
  },
  errorMessage: 'must be a rate such as 10/minute or 100/10s, or a list of rates',
} as const

/** A number of calls within a period in milliseconds. */
export interface Rate {
  readonly limit: number
  readonly window: number
}

/** Parses a rate such as `10/minute` or `100/10s`, or several. @throws TypeError if one is invalid */
export function rates(written: string | readonly string[]): Rate[] {
  return [written].flat().map((text) => {
    const [, limit, count, unit = ''] = /^(\d+)\/(\d*)([a-z]+)$/.exec(text) ?? []
    const factor = millisecondsPer[unit.charAt(0) as 's' | 'm' | 'h' | 'd']
    if (limit === undefined || !new RegExp(ratePattern).test(text))
      throw new TypeError(rateSchema.errorMessage)
    return { limit: Number(limit), window: Number(count === '' ? 1 : count) * factor }
  })
}

/** Parses a duration such as `30s`; a number is milliseconds. @throws TypeError if it is invalid */
export function milliseconds(duration: string | number): number {
  return quantity(duration, durationSchema, millisecondsPer)
}

/**
 * The time in a `Retry-After` header, in seconds: a number or a date (RFC 9110 §10.2.3). `now` is in milliseconds since
 * 1970; undefined if there is no such time.
 */
export function retryAfterSeconds(header: string | undefined, now: number): number | undefined {
  const value = header?.trim() ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const until = Date.parse(value)
  return Number.isNaN(until) ? undefined : Math.max(0, (until - now) / 1000)
}

/** A duration as the configuration has it, such as `90s`, in the largest unit that gives a whole number. */
export function durationText(duration: number): string {
  const units = Object.entries(millisecondsPer).toReversed()
  const [unit, factor] = units.find(([, each]) => duration > 0 && duration % each === 0) ?? ['ms', 1]
  return `${duration / factor}${unit}`
}

/** Parses a size such as `64KB`; a number is bytes. @throws TypeError if it is invalid */
export function bytes(size: string | number): number {
  return quantity(size, sizeSchema, bytesPer)
}

const millisecondsPer = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const bytesPer = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

function quantity(
  value: string | number,
  unit: { readonly pattern: string; readonly errorMessage: string },
  factors: Readonly<Record<string, number>>,
): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  const text = String(value)
  const suffix = /[a-z]+$/i.exec(text)?.[0] ?? ''
  const factor = factors[suffix]
  if (factor === undefined || !new RegExp(unit.pattern).test(text)) throw new TypeError(unit.errorMessage)
  return Math.round(Number(text.slice(0, -suffix.length)) * factor)
}
