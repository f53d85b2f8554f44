/** The settings of the small features of the stage upstream: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, setting } from '../../core/setting-schemas.ts'
import { durationSchema, messageSizeSchema } from '../../core/time/units.ts'

/** The settings of the size of results, and where they are. */
export const resultLimitSchema = defineSettings({
  name: 'result_limit',
  place: 'limits',
  properties: {
    result: setting(
      messageSizeSchema,
      '10MB',
      'The maximum size of a result of a tool or resource. Larger results are shortened, with a notice; if they would no longer match the output schema, they are refused with `PAYLOAD_TOO_LARGE`.',
    ),
  },
})

/** The settings of the size of results. */
export type ResultLimitSettings = SettingsIn<typeof resultLimitSchema>

/** The settings of structured content as text. */
export const structuredTextSchema = defineSettings({
  name: 'structured_text',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether structured content is added as text, if no text of the result contains it. By default `off`, and `on` in the corporate profile. Independently of this, clients before 2026-07-28 get it as text if the result has no text.',
})

/** The settings of undo, and where they are. */
export const undoSchema = defineSettings({
  name: 'undo',
  description: 'The history of calls that changed something, and how they are undone.',
  isLeftToGateway: true,
  properties: {
    history: setting(
      {
        ...durationSchema,
        pattern: `^off$|${durationSchema.pattern}`,
        errorMessage: 'must be off, or a duration such as 24h or 7d',
      },
      '24h',
      'How long actions and their compensations are kept for `gatehouse undo`: for each caller and gateway, at most the last 10,000 actions and 64 MB. off keeps only the steps of transactions.',
    ),
  },
})

/** The settings of undo. */
export type UndoSettings = SettingsIn<typeof undoSchema>

/** The settings of retries, and where they are. */
export const retrySchema = defineSettings({
  name: 'retry',
  description: 'Retries of calls that could not be sent.',
  properties: {
    attempts: setting(
      { type: 'integer', minimum: 0, maximum: 5, errorMessage: 'must be a number from 0 to 5' },
      2,
      'How often a call that could not be sent to its server is retried, if it only reads or is idempotent.',
    ),
  },
})

/** The settings of retries. */
export type RetrySettings = SettingsIn<typeof retrySchema>

/** The settings of completed lists. */
export const completeSchema = defineSettings({
  name: 'complete',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether tools that servers list get a title, missing hints, and their risk, effects, limits and rules at the end of the description. By default `off`, and `on` in the corporate profile.',
})

/** The settings of the circuit breaker, and where they are. */
export const breakerSchema = defineSettings({
  name: 'breaker',
  description: 'A pause for servers that do not respond.',
  properties: {
    failures: setting(
      { type: 'integer', minimum: 1, errorMessage: 'must be a whole number from 1' },
      10,
      'The number of consecutive failures after which calls to a server are refused: timeouts, broken connections, HTTP 5xx. Rejected credentials do not count.',
    ),
    window: setting(durationSchema, '1m', 'The time within which these failures must occur.'),
    pause: setting(durationSchema, '30s', 'How long calls are then refused.'),
  },
})

/** The settings of the circuit breaker. Times are milliseconds. */
export type BreakerSettings = SettingsIn<typeof breakerSchema>
