/** Durations, sizes and rates of the configuration, and the delay that an HTTP header asks for. */

/**
 * The JSON Schema of a duration in the configuration; read it with `milliseconds`. `x-least` and `x-most` are its range in
 * that unit, which no keyword of JSON Schema expresses for text.
 */
export const durationSchema = {
  type: 'string',
  pattern: '^\\d+(\\.\\d+)?(ms|s|m|h|d)$',
  errorMessage: 'must be a duration such as 500ms, 30s, 10m, 24h or 7d',
  'x-unit': 'milliseconds',
  'x-least': 1,
  'x-most': 3650 * 86_400_000,
} as const

/** A duration that may be zero. */
export const pauseSchema = { ...durationSchema, 'x-least': 0 } as const

/** How long a peer may take to respond. A shorter time would fail every call. */
export const timeoutSchema = { ...durationSchema, 'x-least': 100 } as const

/** The JSON Schema of a size in the configuration; read it with `bytes`. A bare number is bytes. */
export const sizeSchema = {
  type: ['string', 'integer'],
  pattern: '^\\d+(\\.\\d+)?(B|KB|MB|GB)$',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  errorMessage: 'must be a size such as 64KB or 1MB (1 KB is 1024 bytes)',
  'x-unit': 'bytes',
} as const

/** The size of a whole message, which is in memory at once. */
export const messageSizeSchema = { ...sizeSchema, 'x-least': 1024, 'x-most': 256 * 1024 ** 2 } as const

const ratePattern = '^[1-9]\\d{0,8}/([1-9]\\d{0,3})?(s|second|m|minute|h|hour|d|day)$'

/** The JSON Schema of one rate, or of several that apply together; read it with `rates`. */
export const rateSchema = {
  type: ['string', 'array'],
  'x-unit': 'rate',
  pattern: ratePattern,
  minItems: 1,
  items: {
    type: 'string',
    'x-unit': 'rate',
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

/** A time as people write it: a duration such as `10m` before now, or a date; undefined if it is neither. Milliseconds since 1970. */
export function timeIn(text: string, now: number): number | undefined {
  const written = text.trim()
  const at = /^\d{4}-\d\d-\d\d/.test(written) ? Date.parse(written) : Number.NaN
  if (!Number.isNaN(at)) return at
  try {
    return now - milliseconds(written)
  } catch {
    return undefined
  }
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
  return quantityText(duration, millisecondsPer, 'ms')
}

/** A size as the configuration has it, such as `64KB`, in the largest unit that gives a whole number. */
export function sizeText(size: number): string {
  return quantityText(size, bytesPer, 'B')
}

function quantityText(value: number, factors: Readonly<Record<string, number>>, smallest: string): string {
  const units = Object.entries(factors).toReversed()
  const [unit, factor] = units.find(([, each]) => value > 0 && value % each === 0) ?? [smallest, 1]
  return `${value / factor}${unit}`
}

/** The quantity that is probably meant by a text in another notation: `30 sec` is `30s`, `10M` is `10MB`. */
export function meantQuantity(written: string | number, unit: unknown): string | undefined {
  const [, count = '', , word = ''] = /^\s*(\d{1,12}(\.\d{1,6})?)\s*([a-z]*)\s*$/i.exec(String(written)) ?? []
  if (count === '') return undefined
  const known = unit === 'bytes' ? sizeWords : durationWords
  const found = Object.entries(known).find(([, pattern]) => pattern.test(word))?.[0]
  return found === undefined ? undefined : `${count}${found}`
}

// A bare number is seconds, as in most other configurations.
const durationWords = {
  ms: /^(?:ms|msecs?|millis|milliseconds?)$/i,
  s: /^(?:|s|secs?|seconds?)$/i,
  m: /^(?:m|mins?|minutes?)$/i,
  h: /^(?:h|hrs?|hours?)$/i,
  d: /^(?:d|days?)$/i,
}
const sizeWords = {
  B: /^(?:b|bytes?)$/i,
  KB: /^(?:k|kb|kib|kilobytes?)$/i,
  MB: /^(?:m|mb|mib|megabytes?)$/i,
  GB: /^(?:g|gb|gib|gigabytes?)$/i,
}

/** The rate that is probably meant by a text in another notation: `10 per min` is `10/minute`, `5rps` is `5/second`. */
export function meantRate(written: string): string | undefined {
  const [, count = '', word = ''] =
    /^\s*(\d{1,9})\s*(?:\/|per|a|an|each)?\s*([a-z]+)\s*$/i.exec(written) ?? []
  const perMinute = /^(?:rpm|mins?|minutes?|m)$/i.test(word) ? 'minute' : undefined
  const perSecond = /^(?:rps|qps|secs?|seconds?|s)$/i.test(word) ? 'second' : undefined
  const other = /^(?:h|hrs?|hours?)$/i.test(word) ? 'hour' : /^(?:d|days?)$/i.test(word) ? 'day' : undefined
  const unit = perMinute ?? perSecond ?? other
  return count === '' || Number(count) === 0 || unit === undefined ? undefined : `${Number(count)}/${unit}`
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
