import type { UpstreamSettings } from '../../src/core/settings.ts'

/** The settings of a command named `files`, apart from what is given. */
export function serverSettings(given: Partial<UpstreamSettings> = {}): UpstreamSettings {
  return {
    name: 'files',
    prefix: 'auto',
    reach: { kind: 'command', command: 'files', args: [], env: {} },
    transport: 'auto',
    revision: 'auto',
    isolation: 'auto',
    trust: true,
    roots: 'off',
    reconnect: 0,
    startTimeout: 1000,
    idle: 1000,
    renames: {},
    tools: {},
    scopes: {},
    allow: {},
    deny: {},
    errors: [],
    about: {},
    intent: [],
    recommend: [],
    ...given,
  }
}
