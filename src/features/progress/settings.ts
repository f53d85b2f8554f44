/** How operations are configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { durationSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const progressSchema = {
  name: 'progress',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      heartbeat: {
        ...durationSchema,
        default: '5s',
        description:
          'How long a server may be silent before the gateway notifies the caller that the call still runs.',
      },
      keep: {
        ...durationSchema,
        default: '10m',
        description: 'How long the outcome of a call that took over a second is kept for `operation/resume`.',
      },
      tasks: {
        type: 'object',
        additionalProperties: false,
        default: {},
        properties: {
          after: {
            ...durationSchema,
            default: '20s',
            description: 'How long a call may take before a client that supports tasks gets it as a task.',
          },
          answer_within: {
            ...durationSchema,
            description:
              'How long a client without tasks waits at most for a result: after that it gets the id of the operation, to request the result later. For clients with a short timeout. Not set by default.',
          },
        },
        description: 'When calls become tasks.',
      },
      compat: {
        type: 'boolean',
        default: false,
        description:
          'Whether `type`, `operation_id` and `estimated_remaining_seconds` are also beside `progressToken` of progress notifications. By default `off`, and `on` with `compat: proposals`.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of the feature for one server; times are milliseconds. */
export type ProgressSettings = SettingsIn<typeof progressSchema>
