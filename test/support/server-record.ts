import type { ServerRecord } from '../../src/core/descriptor.ts'

/** What is known of a server that offers nothing, apart from what is given. */
export function serverRecord(given: Partial<ServerRecord> = {}): ServerRecord {
  return {
    name: 'one',
    isUp: true,
    info: {},
    capabilities: {},
    about: {},
    tools: [],
    prompts: [],
    resources: [],
    resourceTemplates: [],
    contentVersion: '0123456789abcdef',
    ...given,
  }
}
