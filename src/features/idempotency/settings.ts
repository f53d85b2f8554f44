/** How idempotency keys are configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const idempotencySchema = {
  name: 'idempotency',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      ttl: {
        ...durationSchema,
        default: '24h',
        description: 'How long the outcome of a call is remembered, unless the caller specifies it.',
      },
      max_ttl: {
        ...durationSchema,
        default: '7d',
        description: 'The longest time that a caller may specify.',
      },
      max_keys: {
        type: 'integer',
        minimum: 1,
        maximum: 1_000_000,
        default: 1000,
        errorMessage: 'must be a whole number from 1',
        description: 'How many keys are remembered for each caller; further keys are refused.',
      },
      max_bytes: {
        ...sizeSchema,
        'x-least': 1024,
        default: '64MB',
        description: 'How many bytes are remembered for each caller.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description: 'Whether facts about the key are also sent at `idempotency` of a result.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of idempotency keys. Times are milliseconds, sizes bytes. */
export type IdempotencySettings = SettingsIn<typeof idempotencySchema>
