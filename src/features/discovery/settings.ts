/** How recommendations are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings } from '../../core/setting-schemas.ts'

/** The schema of the settings. */
export const discoverySchema = defineSettings({
  name: 'discovery',
  description: 'Recommends a server for a task, and the likely tool for a wrong name.',
  isLeftToGateway: true,
  properties: {
    registry: {
      type: ['string', 'boolean'],
      default: 'off',
      pattern: '^(off|false|https://\\S+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:\\d+)?(/\\S*)?)$',
      not: { const: true },
      errorMessage: 'must be off, or the URL of an MCP registry with https://',
      description:
        'The MCP registry in which servers outside of this gateway are searched. It receives what callers search for.',
      examples: ['https://catalog.example.com'],
    },
    publishers: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a namespace or glob' },
      default: [],
      errorMessage: 'must be a list of namespaces or globs such as io.github.modelcontextprotocol',
      description:
        'The publishers whose servers may be recommended: the part of their name before the slash, or a glob of it. Empty by default: none.',
      examples: [['io.github.modelcontextprotocol', 'com.example.*']],
    },
  },
})

/** Where servers are searched besides the configuration and this gateway. */
export type DiscoverySettings = SettingsIn<typeof discoverySchema>
