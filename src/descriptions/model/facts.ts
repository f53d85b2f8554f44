/** Facts derived from a description: latency, outputs, costs, scopes, endpoints. */
import type { Cost, RemainingQuota, ToolFacts } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { wordsOf } from '../../core/text/words.ts'
import type { ToolDescription, ServerDescription } from './description.ts'

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
  const observed = new Set([...structured, ...(seen?.types ?? []).toSorted()])
  return facts.outputTypes ?? words.returns ?? [...observed]
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

/** What a call of a tool costs, as its owner says. */
export function costOf({ facts, words }: ToolDescription): Cost | undefined {
  return facts.cost ?? words.cost
}

/** A cost as programs read it. */
export function costData({ category, units, label }: Cost): Readonly<Record<string, unknown>> {
  return {
    category,
    ...(units !== undefined && { estimated_units: units }),
    ...(label !== undefined && { unit_label: label }),
  }
}

/** What is left, as documents and results tell it: how much, until when, and of what. */
export function quotaData({ remaining, resetsAt, of }: RemainingQuota): Readonly<Record<string, unknown>> {
  return { remaining, ...(resetsAt !== undefined && { resets_at: new Date(resetsAt).toISOString() }), of }
}

/** A scope and what it opens. */
export interface ScopeDescription {
  readonly name: string
  readonly description: string
  readonly tools: readonly ToolDescription[]
}

/** The scopes a caller needs for a tool: of each group the one that opens least. */
export function requiredScopes({ scopes }: ToolFacts): string[] {
  return [...new Set(scopes?.flatMap(([least]) => least ?? []))]
}

/** The scopes that tools ask for, in the order of their names. */
export function scopesOf({ tools }: ServerDescription): ScopeDescription[] {
  const opened = new Map<string, ToolDescription[]>()
  for (const tool of tools) {
    for (const scope of requiredScopes(tool.facts)) opened.set(scope, [...(opened.get(scope) ?? []), tool])
  }
  return [...opened]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, own]) => ({
      name,
      description: described(name, own.length),
      tools: own,
    }))
}

const verbs: readonly (readonly [string, string])[] = [
  ['read:', 'Read from'],
  ['write:', 'Change things in'],
  ['delete:', 'Delete or overwrite in'],
  ['admin:', 'Administer'],
]

/** What a scope opens, as far as its name says. */
function described(name: string, tools: number): string {
  const [prefix, verb] = verbs.find(([start]) => name.startsWith(start)) ?? []
  if (prefix !== undefined && verb !== undefined) return `${verb} ${name.slice(prefix.length)}.`
  return `Opens ${tools === 1 ? 'one tool' : `${tools} tools`}.`
}

type Reached = Pick<ServerDescription, 'name' | 'front' | 'parts'>

/**
 * The URLs of the MCP endpoints a document is about, by the names clients are to know them by: one of all servers
 * together, or those of each. None where clients start the gateway.
 */
export function endpointsOf({ name, front, parts }: Reached): Readonly<Record<string, string>> {
  if (front.endpoint !== undefined) return { [name]: front.endpoint }
  return Object.fromEntries(parts.flatMap((part) => Object.entries(endpointsOf(part))))
}

/** Whether servers have endpoints of their own alone. */
export function isApart({ front, parts }: Pick<ServerDescription, 'front' | 'parts'>): boolean {
  return front.endpoint === undefined && parts.some((part) => part.front.endpoint !== undefined)
}
