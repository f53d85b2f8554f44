import { wordsOf } from '../core/words.ts'
import { isObject } from '../core/json.ts'
import type { ToolDescription } from './portrait.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60_000

/** How long a tool takes: what its owner says, else what was seen; nothing where neither is known. */
export function latencyOf({
  words,
  statistics: seen,
}: Pick<ToolDescription, 'words' | 'statistics'>): 'instant' | 'seconds' | 'minutes' | undefined {
  if (words.latency) return words.latency
  if (seen?.p50 === undefined) return undefined
  if (seen.p50 < SECOND_MS) return 'instant'
  return seen.p50 < MINUTE_MS ? 'seconds' : 'minutes'
}

/** The media types of what a tool gives: what its owner says, else what its schema and its results show. */
export function outputTypesOf({
  facts,
  words,
  statistics: seen,
  definition,
}: ToolDescription): readonly string[] {
  const structured = isObject(definition.outputSchema) ? ['application/json'] : []
  const shown = new Set([...structured, ...(seen?.types ?? []).toSorted()])
  return facts.outputTypes ?? words.returns ?? [...shown]
}

const paging: ReadonlySet<string> = new Set(
  'cursor page page_number page_token next_token next_cursor starting_after start_cursor offset limit per_page page_size'.split(
    ' ',
  ),
)

/** Whether results come in pages. */
export function paginates(tool: ToolDescription): boolean {
  return tool.statistics?.hasCursor === true || pagingArguments(tool).length > 0
}

/** The arguments that choose a page. */
export function pagingArguments({ definition: { inputSchema } }: ToolDescription): string[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  return Object.keys(isObject(properties) ? properties : {}).filter((name) =>
    paging.has(wordsOf(name).join('_')),
  )
}
