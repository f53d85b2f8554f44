/** The settings of the small features of the stage upstream: how they are configured, without what they do. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { durationSchema, messageSizeSchema } from '../../core/time/units.ts'

/** The settings of the size of results, and where they are. */
export const resultLimitSchema = {
  name: 'result_limit',
  place: 'limits',
  schema: {
    type: 'object',
    properties: {
      result: {
        ...messageSizeSchema,
        default: '10MB',
        description:
          'The maximum size of a result of a tool or resource. Larger results are shortened, with a notice; if they would no longer match the output schema, they are refused.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of the size of results. */
export type ResultLimitSettings = SettingsIn<typeof resultLimitSchema>

/** The settings of structured content as text. */
export const structuredTextSchema = {
  name: 'structured_text',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether structured content is added as text, if no text of the result contains it. By default `off`, and `on` in the corporate profile.',
    properties: {},
  },
} as const satisfies FeatureSchema

/** The settings of undo, and where they are. */
export const undoSchema = {
  name: 'undo',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      history: {
        ...durationSchema,
        pattern: `^off$|${durationSchema.pattern}`,
        default: '24h',
        errorMessage: 'must be off, or a duration such as 24h or 7d',
        description:
          'How long actions and their compensations are kept for `gatehouse undo`: for each caller and gateway, at most the last 10,000 actions and 64 MB. off keeps only the steps of transactions.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of undo. */
export type UndoSettings = SettingsIn<typeof undoSchema>

/** The settings of retries, and where they are. */
export const retrySchema = {
  name: 'retry',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      attempts: {
        type: 'integer',
        minimum: 0,
        maximum: 5,
        default: 2,
        errorMessage: 'must be a number from 0 to 5',
        description:
          'How often a call that could not be sent to its server is retried, if it only reads or is idempotent.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of retries. */
export type RetrySettings = SettingsIn<typeof retrySchema>

/** The settings of completed lists. */
export const completeSchema = {
  name: 'complete',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether tools that servers list get a title, missing hints, and their risk, effects, limits and rules at the end of the description. By default `off`, and `on` in the corporate profile.',
    properties: {},
  },
} as const satisfies FeatureSchema

/** The settings of the circuit breaker, and where they are. */
export const breakerSchema = {
  name: 'breaker',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      failures: {
        type: 'integer',
        minimum: 1,
        default: 10,
        errorMessage: 'must be a whole number from 1',
        description:
          'The number of consecutive failures after which calls to a server are refused: timeouts, broken connections, HTTP 5xx. Rejected credentials do not count.',
      },
      window: {
        ...durationSchema,
        default: '1m',
        description: 'The time within which these failures must occur.',
      },
      pause: { ...durationSchema, default: '30s', description: 'How long calls are then refused.' },
    },
  },
} as const satisfies FeatureSchema

/** The settings of the circuit breaker. Times are milliseconds. */
export type BreakerSettings = SettingsIn<typeof breakerSchema>
