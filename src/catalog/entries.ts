import type { Entry } from '../core/entry.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { classify } from './classify.ts'

type Definition = Readonly<Record<string, unknown>>

/** Makes entries of what servers list, once for each definition. */
export function createEntries(): (definition: Definition, settings: UpstreamSettings) => Entry {
  const entries = new WeakMap<Definition, Entry>()
  return (definition, settings) => {
    const known = entries.get(definition)
    if (known) return known
    const name = String(definition.name)
    const nature = classify(definition, settings)
    const entry: Entry = { upstream: settings.name, kind: 'tool', name, definition, nature }
    entries.set(definition, entry)
    return entry
  }
}
