/** The settings of skills. */
export interface Settings {
  readonly listed: boolean
}

/** The JSON Schema of the settings of skills. */
export const settingsSchema = {
  type: 'object',
  description: 'A SKILL.md for each server, for agents that load skills.',
  properties: {
    listed: {
      type: 'boolean',
      default: true,
      description: 'Whether each SKILL.md stands in lists of resources too, for clients that know no skills.',
    },
  },
} as const
