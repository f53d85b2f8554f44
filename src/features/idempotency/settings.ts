/** How idempotency keys are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const idempotencySchema = defineSettings({
  name: 'idempotency',
  description: 'Calls with a key, which run once.',
  isLeftToGateway: true,
  properties: {
    ttl: setting(
      durationSchema,
      '24h',
      'How long the outcome of a call is remembered, unless the caller specifies it.',
    ),
    max_ttl: setting(durationSchema, '7d', 'The longest time that a caller may specify.'),
    max_keys: setting(
      { type: 'integer', minimum: 1, maximum: 1_000_000, errorMessage: 'must be a whole number from 1' },
      1000,
      'How many keys are remembered for each caller; further keys are refused.',
    ),
    max_bytes: setting(
      { ...sizeSchema, 'x-least': 1024 },
      '64MB',
      'How many bytes are remembered for each caller.',
    ),
    compat: flag(true, 'Whether facts about the key are also sent at `idempotency` of a result.'),
  },
})

/** The settings of idempotency keys. Times are milliseconds, sizes bytes. */
export type IdempotencySettings = SettingsIn<typeof idempotencySchema>
