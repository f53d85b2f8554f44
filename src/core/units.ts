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
  errorMessage: 'must be a size such as 64KB or 1MB (1 KB is 1024 bytes)',
  'x-unit': 'bytes',
} as const

/** Reads a duration such as `30s`; a number is milliseconds already. @throws TypeError when it is not one. */
export function milliseconds(duration: string | number): number {
  return quantity(duration, durationSchema, millisecondsPer)
}

/** Reads a size such as `64KB`; a number is bytes already. @throws TypeError when it is not one. */
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
