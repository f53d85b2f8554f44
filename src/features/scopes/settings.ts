import { scopeNameSchema } from '../../core/scope.ts'

/** What the configuration says of permissions. */
export interface Settings {
  readonly hide_unpermitted: boolean
  readonly elevate_url?: string
  readonly approval: Readonly<Record<string, ApprovalSetting>>
}

/** Whether a session may be given a scope its caller has: at once, after somebody agreed, or not at all. */
type ApprovalSetting = 'auto' | 'ask' | 'never'

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  default: {},
  properties: {
    hide_unpermitted: {
      type: 'boolean',
      default: false,
      description:
        'Leave what a caller may not use out of its lists; otherwise lists are whole and tell what it lacks.',
    },
    elevate_url: {
      type: 'string',
      pattern: '^https?://',
      errorMessage: 'must be a URL such as https://idp.example.com/request-access',
      description: 'Where people ask for more rights, instead of `auth.elevate_url`.',
    },
    approval: {
      type: 'object',
      default: {},
      propertyNames: { ...scopeNameSchema, 'x-names': 'scope' },
      errorMessage: 'must be a mapping of scopes to auto, ask or never',
      additionalProperties: { enum: ['auto', 'ask', 'never'] },
      description:
        'Whether a session gets a scope that its caller has, by scope or glob: `auto` at once, `ask` after somebody agreed, `never` not at all.',
      examples: [{ 'admin:*': 'never' }],
    },
  },
}
