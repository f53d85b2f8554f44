/** How intents are configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema } from '../../core/settings.ts'

/** The settings of intents. */
export interface IntentSettings {
  /** Whether a call with a better alternative is made, with a suggestion, or not made. */
  readonly mode: 'advise' | 'redirect'
  /** How many times better than the called tool another one must match. */
  readonly margin: number
  /** Whether servers see the intent too. */
  readonly forward: boolean
  readonly log_intent: boolean
  /** Whether tools of other servers may be suggested at the combined endpoint. */
  readonly across: boolean
  readonly compat: boolean
}

/** The schema of the settings. */
export const intentSchema: FeatureSchema = {
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
}
