import type { Descriptor } from './entry.ts'
import { isObject } from './json.ts'
import { createRanking, type Described, type Ranking } from './ranking.ts'
import type { ServerRecord } from './record.ts'

/** A tool as it is ranked. */
export interface DescribedTool extends Described {
  readonly entry: Descriptor
}

/** A tool with the words that say what it does; `name` where clients call it by another name than its server. */
export function describedTool(entry: Descriptor, name: string = entry.name): DescribedTool {
  const { title, annotations, description, inputSchema } = entry.definition
  const { properties } = isObject(inputSchema) ? inputSchema : {}
  const shown = [title, isObject(annotations) ? annotations.title : undefined].find(isText)
  return {
    name,
    entry,
    ...(shown !== undefined && { title: shown }),
    ...(isText(description) && { description }),
    ...(isObject(properties) && { parameters: Object.keys(properties).slice(0, PARAMETERS) }),
  }
}

/** Rankings of what servers have, each made again only when what its servers list changed. */
export function rankingsOf<Of extends Described>(
  describe: (record: ServerRecord) => readonly Of[],
): (records: readonly ServerRecord[]) => Ranking<Of> {
  const known = new Map<string, { readonly version: string; readonly ranking: Ranking<Of> }>()
  return (records) => {
    const key = records.map(({ name }) => name).join()
    const version = records.map(({ contentVersion }) => contentVersion).join()
    const found = known.get(key)
    if (found?.version === version) return found.ranking
    const ranking = createRanking(records.flatMap((record) => describe(record)))
    // One for each server, and one for all of them: there are never more.
    known.set(key, { version, ranking })
    return ranking
  }
}

/** How many parameters of a tool are looked at. */
const PARAMETERS = 100

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
