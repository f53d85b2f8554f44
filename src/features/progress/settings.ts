/** How operations are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const progressSchema = defineSettings({
  name: 'progress',
  description:
    'What callers hear of calls that last, operations and tasks. See [Long-running calls](long-running-calls.md).',
  properties: {
    heartbeat: setting(
      durationSchema,
      '5s',
      'How long a server may be silent before the gateway notifies the caller that the call still runs.',
    ),
    keep: setting(
      durationSchema,
      '10m',
      'How long the outcome of a call that took over a second is kept for `operation/resume`.',
    ),
    tasks: {
      type: 'object',
      additionalProperties: false,
      default: {},
      properties: {
        after: setting(
          durationSchema,
          '20s',
          'How long a call may take before a client that supports tasks gets it as a task.',
        ),
        answer_within: {
          ...durationSchema,
          description:
            'How long a client without tasks waits at most for a result: after that it gets the id of the operation, to request the result later. For clients with a short timeout. Not set by default.',
        },
      },
      description: 'When calls become tasks, and how long clients without tasks wait.',
    },
    compat: flag(
      false,
      'Whether `type`, `operation_id` and `estimated_remaining_seconds` are also beside `progressToken` of progress notifications. By default `off`, and `on` with `compat: proposals`.',
    ),
  },
})

/** The settings of the feature for one server; times are milliseconds. */
export type ProgressSettings = SettingsIn<typeof progressSchema>
