/** How transactions are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const transactionsSchema = defineSettings({
  name: 'transactions',
  description: 'Calls that are undone together.',
  isLeftToGateway: true,
  default: {},
  properties: {
    timeout: setting(
      durationSchema,
      '5m',
      'How long a transaction may be idle before it is rolled back, unless its caller specifies it.',
    ),
    max_lifetime: setting(
      durationSchema,
      '1h',
      'The longest duration of a transaction; after that it is rolled back.',
    ),
    uncompensable: {
      enum: ['reject', 'allow'],
      default: 'reject',
      description:
        'How steps without a known compensation are handled: rejected, or executed and reported when the others are undone.',
    },
    auto_undo: flag(
      false,
      'Undo tools without an undo rule with another tool of their server, if names and schemas are unambiguous: what gatehouse plan calls sure.',
    ),
    on_step_failure: {
      enum: ['keep', 'rollback'],
      default: 'keep',
      description:
        'What happens to a transaction when a step fails: nothing, or it is rolled back immediately.',
    },
    retention: setting(
      durationSchema,
      '24h',
      'How long the status of an ended transaction is kept, and its id reserved.',
    ),
    max_active: count(10_000, 100, 'How many transactions each caller may have at a time.'),
    max_steps: count(1000, 100, 'How many steps a transaction may have.'),
    compat: flag(true, 'Whether facts about a step are also sent at `transaction` of its result.'),
  },
})

/** The settings of transactions. Times are milliseconds. */
export type TransactionSettings = SettingsIn<typeof transactionsSchema>

function count(maximum: number, fallback: number, description: string) {
  const errorMessage = `must be a number from 1 to ${maximum}`
  return setting({ type: 'integer', minimum: 1, maximum, errorMessage }, fallback, description)
}
