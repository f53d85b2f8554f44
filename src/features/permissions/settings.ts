/** How permissions are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag } from '../../core/setting-schemas.ts'
import { scopeNameSchema } from '../../core/principal.ts'

/** The schema of the settings. */
export const permissionsSchema = defineSettings({
  name: 'permissions',
  description: 'Scopes, `allow` and `deny`.',
  default: {},
  properties: {
    hide_unpermitted: flag(
      false,
      'Hide entries that a caller may not use from its lists; otherwise lists are complete and name missing scopes.',
    ),
    elevate_url: {
      type: 'string',
      pattern: '^https?://',
      errorMessage: 'must be a URL such as https://idp.example.com/request-access',
      description: 'Where people request more rights, instead of `auth.elevate_url`.',
    },
    approval: {
      type: 'object',
      default: {},
      propertyNames: { ...scopeNameSchema, 'x-names': 'scope' },
      errorMessage: 'must be a mapping of scopes to auto, ask or never',
      additionalProperties: { enum: ['auto', 'ask', 'never'] },
      description:
        'Whether a session gets a scope that its caller has, by scope or glob: `auto` immediately, `ask` after an approval, `never` not at all.',
      examples: [{ 'admin:*': 'never' }],
    },
  },
})

/** The settings of permissions. */
export type PermissionSettings = SettingsIn<typeof permissionsSchema>
