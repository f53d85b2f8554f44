/** How costs, usage and quotas are configured: their settings with schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings } from '../../core/setting-schemas.ts'

const MINUTE_MS = 60_000
/** The lengths of the periods of budgets, in milliseconds; each starts at a full minute, hour, day or week, UTC. */
export const PERIOD_MS = {
  minute: MINUTE_MS,
  hour: 60 * MINUTE_MS,
  day: 1440 * MINUTE_MS,
  week: 7 * 1440 * MINUTE_MS,
} as const

/** The schema of the settings of costs. */
export const costSchema = defineSettings({
  name: 'cost',
  description: 'The costs of calls, as `cost` of a tool states them, and a budget for each caller.',
  properties: {
    budget: {
      type: 'object',
      required: ['units', 'per'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { units: 100, per: day }',
      properties: {
        units: { type: 'number', minimum: 0, errorMessage: 'must be a number', description: 'How many.' },
        per: {
          enum: ['minute', 'hour', 'day', 'week'],
          errorMessage: 'must be one of minute, hour, day, week',
          description: 'The period; it starts at the full minute, hour, day or week, UTC.',
        },
        label: {
          type: 'string',
          minLength: 1,
          errorMessage: 'must be text',
          description: 'Only costs with this label count; without it, all costs in units.',
        },
      },
      description:
        'How many `units` each caller may spend `per` `minute`, `hour`, `day` or `week`, of one `label` or of all: `{ units: 100, per: day }`.',
      examples: [{ units: 100, per: 'day' }],
    },
  },
})

/** The settings of costs. */
export type CostSettings = SettingsIn<typeof costSchema>

/** How many units each caller may spend per period. */
export type Budget = NonNullable<CostSettings['budget']>

/** The schema of the settings of quotas in lists. */
export const quotaSchema = defineSettings({
  name: 'quota',
  isLeftToGateway: true,
  description:
    'Whether tool lists and the manifest contain the remaining quota of the caller, for tools with a rate limit or budget of their own and for servers that report their limit.',
})

/** The schema of the settings of usage in results. */
export const usageSchema = defineSettings({
  name: 'usage',
  isLeftToGateway: true,
  description:
    'Whether results report the usage of the call, if known: its units, its duration, and what remains.',
})
