/** Where servers are looked for, besides the configuration and this gateway. */
export interface Settings {
  /** The URL of an MCP registry; it is told which words are looked for. */
  readonly registry: string
  /** Whose servers of the registry may be named. */
  readonly publishers: string | readonly string[]
}

/** The JSON Schema of the settings of recommending servers. */
export const settingsSchema = {
  type: 'object',
  properties: {
    registry: {
      type: ['string', 'boolean'],
      default: 'off',
      pattern: '^(off|false|https://\\S+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:\\d+)?(/\\S*)?)$',
      not: { const: true },
      errorMessage: 'must be off, or the URL of an MCP registry with https://',
      description:
        'The MCP registry that is asked for servers this gateway does not have. It learns what callers look for.',
      examples: ['https://catalog.example.com'],
    },
    publishers: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a namespace or glob' },
      default: [],
      errorMessage: 'must be a list of namespaces or globs such as io.github.modelcontextprotocol',
      description:
        'Whose servers of the registry may be named, by the part of their name before the slash, or a glob of it. Nobody’s, unless they stand here.',
      examples: [['io.github.modelcontextprotocol', 'com.example.*']],
    },
  },
} as const
