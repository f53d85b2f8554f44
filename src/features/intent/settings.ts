/** How intents are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'

/** The schema of the settings. */
export const intentSchema = defineSettings({
  name: 'intent',
  description: 'The tool that fits the stated intent of a caller.',
  isLeftToGateway: true,
  properties: {
    mode: {
      enum: ['advise', 'redirect'],
      default: 'advise',
      description:
        'What happens if another tool fits the intent of a call better: `advise` makes the call and suggests the other tool, `redirect` only suggests it.',
    },
    margin: setting(
      { type: 'number', minimum: 1, maximum: 100, errorMessage: 'must be a number from 1' },
      1.5,
      'How many times better another tool must match to be suggested.',
    ),
    forward: flag(false, 'Whether the server sees the stated intent.'),
    log_intent: flag(false, 'Whether intents are logged; they may contain personal data.'),
    across: flag(false, 'Whether tools of other servers may be suggested at the combined endpoint.'),
    compat: flag(true, 'Whether a suggestion is also sent at `suggestion` of a result.'),
  },
})

/** The settings of intents. */
export type IntentSettings = SettingsIn<typeof intentSchema>
