/** How intents are configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'

/** The schema of the settings. */
export const intentSchema = {
  name: 'intent',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      mode: {
        enum: ['advise', 'redirect'],
        default: 'advise',
        description:
          'What happens if another tool fits the intent of a call better: `advise` makes the call and suggests the other tool, `redirect` only suggests it.',
      },
      margin: {
        type: 'number',
        minimum: 1,
        maximum: 100,
        default: 1.5,
        errorMessage: 'must be a number from 1',
        description: 'How many times better another tool must match to be suggested.',
      },
      forward: {
        type: 'boolean',
        default: false,
        description: 'Whether the server sees the stated intent.',
      },
      log_intent: {
        type: 'boolean',
        default: false,
        description: 'Whether intents are logged; they may contain personal data.',
      },
      across: {
        type: 'boolean',
        default: false,
        description: 'Whether tools of other servers may be suggested at the combined endpoint.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description: 'Whether a suggestion is also sent at `suggestion` of a result.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of intents. */
export type IntentSettings = SettingsIn<typeof intentSchema>
