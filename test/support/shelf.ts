import type { ServiceStubs } from './feature-deps.ts'
import { classify } from '../../src/core/judgement/classify.ts'
import { aliasOf } from '../../src/core/text/alias.ts'
import type { Descriptor, EntryDefinition, ServerRecords, ServerRecord } from '../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../src/core/settings.ts'
import { serverSettings } from './server-settings.ts'
import { serverRecord } from './server-record.ts'

/** A server that lists tools, for features that look at what servers list. */
export interface Shelf {
  readonly tools: readonly EntryDefinition[]
  readonly settings?: Partial<UpstreamSettings>
  readonly record?: Partial<ServerRecord>
}

/** What features see of servers with these tools, by name. */
export function shelves(servers: Readonly<Record<string, Shelf>>): ServiceStubs {
  const all = new Map(
    Object.entries(servers).map(([name, { settings, ...shelf }]) => {
      return [name, { ...shelf, settings: serverSettings({ ...settings, name }) }] as const
    }),
  )
  const entriesOf = (name: string): Descriptor[] => {
    const { tools = [], settings = serverSettings() } = all.get(name) ?? {}
    return tools.map((definition) => {
      const classification = classify(definition, settings)
      return { upstream: name, kind: 'tool', name: String(definition['name']), definition, classification }
    })
  }
  const records = new Map(
    [...all].map(([name, { record }]) => [name, recordOf(name, entriesOf(name), record)]),
  )
  const known: ServerRecords = {
    names: [...all.keys()],
    of: (name) => {
      const found = records.get(name)
      if (!found) throw new TypeError(`There is no server named ${name}.`)
      return found
    },
    last: (name) => records.get(name),
    renew: () => undefined,
    onChange: () => undefined,
  }
  return {
    records: () => known,
    servers: () => [...all.keys()],
    server: (name) => all.get(name)?.settings,
    tools: async (name) => entriesOf(name),
  }
}

function recordOf(
  name: string,
  entries: readonly Descriptor[],
  more: Partial<ServerRecord> = {},
): ServerRecord {
  return serverRecord({
    name,
    capabilities: { tools: {} },
    tools: entries.map((entry) => ({ entry, alias: aliasOf(entry.name), facts: {} })),
    ...more,
  })
}
