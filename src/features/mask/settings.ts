/** How masking is configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings } from '../../core/setting-schemas.ts'

const globs = { type: ['string', 'array'], items: { type: 'string', minLength: 1 }, minLength: 1 } as const

/** The schema of the settings. */
export const maskSchema = defineSettings({
  name: 'mask',
  description: 'Masking of personal data; off by default.',
  default: 'off',
  properties: {
    rules: {
      type: 'array',
      default: [],
      errorMessage: 'must be a list of { path } or { pattern }',
      description:
        'What is masked in responses of servers: by `path` or `pattern`. The rules of a server replace those for all servers. Lists of tools, prompts and resources are not masked.',
      items: {
        type: 'object',
        additionalProperties: false,
        errorMessage: 'must be a mapping with `path:` or `pattern:`',
        properties: {
          path: {
            type: 'string',
            minLength: 1,
            errorMessage: 'must be a path such as $.items[*].email',
            description:
              'Where in JSON: of structured content, and of texts that are JSON. It starts with $; then come .name, [0], [*] or .* steps.',
            examples: ['$.items[*].email'],
          },
          pattern: {
            type: 'string',
            minLength: 1,
            errorMessage: 'must be a regular expression',
            description: 'A regular expression: its matches are masked everywhere.',
            examples: ['[\\w.+-]+@[\\w-]+\\.[\\w.]+'],
          },
          tools: {
            ...globs,
            'x-names': 'tool',
            errorMessage: 'must be the name of a tool, a glob, or a list of them',
            description: 'The tools to whose responses it applies; all responses if not given.',
          },
          replace: {
            type: 'string',
            default: '***',
            errorMessage: 'must be a text',
            description: 'The replacement text.',
          },
        },
      },
      examples: [[{ path: '$.items[*].email' }, { pattern: '\\b\\d{3}-\\d{2}-\\d{4}\\b', replace: '[SSN]' }]],
    },
  },
})

/** The settings of masking. */
export type MaskSettings = SettingsIn<typeof maskSchema>

/** A configured rule: masks by a path or a pattern. */
export type RuleSettings = MaskSettings['rules'][number]
