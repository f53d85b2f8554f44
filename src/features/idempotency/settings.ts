import { durationSchema, sizeSchema } from '../../core/units.ts'

/** The settings of idempotency keys. Times are milliseconds, sizes bytes. */
export interface Settings {
  readonly ttl: number
  readonly max_ttl: number
  readonly max_keys: number
  readonly max_bytes: number
  readonly compat: boolean
}

/** The JSON Schema of the settings of idempotency keys. */
export const settingsSchema = {
  type: 'object',
  properties: {
    ttl: {
      ...durationSchema,
      default: '24h',
      description: 'How long what came of a call is remembered, where the caller does not say.',
    },
    max_ttl: {
      ...durationSchema,
      default: '7d',
      description: 'How long a caller may have it remembered at most.',
    },
    max_keys: {
      type: 'integer',
      minimum: 1,
      maximum: 1_000_000,
      default: 1000,
      errorMessage: 'must be a whole number from 1',
      description: 'For how many calls each caller has it remembered at a time; further keys are refused.',
    },
    max_bytes: {
      ...sizeSchema,
      default: '64MB',
      description: 'How much is remembered for each caller.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether what is said of the key also stands at `idempotency` of a result.',
    },
  },
} as const
