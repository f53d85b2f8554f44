/** The settings of guides. */
export interface Settings {
  readonly listed?: boolean
  readonly public: boolean
}

/** The JSON Schema of the settings of guides. */
export const settingsSchema = {
  type: 'object',
  description: 'Guides for agents: `ai_help`, and over HTTP `/ai-help`, `/llms.txt` and `/llms-full.txt`.',
  properties: {
    listed: {
      type: 'boolean',
      description: 'Whether `ai_help` stands in lists of tools; as `meta_tools` says unless given.',
    },
    public: {
      type: 'boolean',
      default: false,
      description: 'Whether `/llms.txt` and `/llms-full.txt` can be read without authentication.',
    },
  },
} as const
