/** Facts derived from a description: latency, outputs, costs, scopes, endpoints. */
import type { Cost, RemainingQuota, ToolFacts } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { declaresPages } from '../../core/judgement/pages.ts'
import { wordsOf } from '../../core/text/words.ts'
import type { ToolDescription, ServerDescription } from './description.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60_000

/** The latency of a tool: configured, else measured; undefined if neither is known. */
export function latencyOf({
  words,
  statistics: seen,
}: Pick<ToolDescription, 'words' | 'statistics'>): 'instant' | 'seconds' | 'minutes' | undefined {
  if (words.latency) return words.latency
  if (seen?.p50 === undefined) return undefined
  if (seen.p50 < SECOND_MS) return 'instant'
  return seen.p50 < MINUTE_MS ? 'seconds' : 'minutes'
}

/** The output media types of a tool: configured, else from its schema and results. */
export function outputTypesOf({
  facts,
  words,
  statistics: seen,
  definition,
}: ToolDescription): readonly string[] {
  const structured = isObject(definition.outputSchema) ? ['application/json'] : []
  const observed = new Set([...structured, ...(seen?.types ?? []).toSorted()])
  return words.returns ?? facts.outputTypes ?? [...observed]
}

const paging: ReadonlySet<string> = new Set(
  'cursor page page_number page_token next_token next_cursor starting_after start_cursor offset limit per_page page_size'.split(
    ' ',
  ),
)

/** Whether results are paginated. */
export function paginates(tool: ToolDescription): boolean {
  return tool.statistics?.hasCursor === true || pagingArguments(tool).length > 0
}

/** Whether all pages can be collected with one call. */
export function isCollectable(tool: ToolDescription): boolean {
  const { facts, statistics, definition } = tool
  return facts.isCollectable === true && (statistics?.hasCursor === true || declaresPages(definition))
}

/** The pagination arguments. */
export function pagingArguments({ definition: { inputSchema } }: ToolDescription): string[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  return Object.keys(isObject(properties) ? properties : {}).filter((name) =>
    paging.has(wordsOf(name).join('_')),
  )
}

/** The configured cost of a call. */
export function costOf({ facts, words }: ToolDescription): Cost | undefined {
  return facts.cost ?? words.cost
}

/** A cost as JSON. */
export function costData({ category, units, label }: Cost): Readonly<Record<string, unknown>> {
  return {
    category,
    ...(units !== undefined && { estimated_units: units }),
    ...(label !== undefined && { unit_label: label }),
  }
}

/** The remaining quota as JSON: amount, reset time and kind. */
export function quotaData({ remaining, resetsAt, of }: RemainingQuota): Readonly<Record<string, unknown>> {
  return { remaining, ...(resetsAt !== undefined && { resets_at: new Date(resetsAt).toISOString() }), of }
}

/** A scope and its description. */
export interface ScopeDescription {
  readonly name: string
  readonly description: string
  readonly tools: readonly ToolDescription[]
}

/** The required scopes of a tool: the most restricted one of each group. */
export function requiredScopes({ scopes }: ToolFacts): string[] {
  return [...new Set(scopes?.flatMap(([least]) => least ?? []))]
}

/** The scopes required by tools, ordered by name. */
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

/** The description of a scope, derived from its name. */
function described(name: string, tools: number): string {
  const [prefix, verb] = verbs.find(([start]) => name.startsWith(start)) ?? []
  if (prefix !== undefined && verb !== undefined) return `${verb} ${name.slice(prefix.length)}.`
  return `Opens ${tools === 1 ? 'one tool' : `${tools} tools`}.`
}

type Reached = Pick<ServerDescription, 'name' | 'front' | 'parts'>

/**
 * The URLs of the MCP endpoints in a document, by their names in clients: one for all servers together, or one for
 * each. Empty if clients use stdio.
 */
export function endpointsOf({ name, front, parts }: Reached): Readonly<Record<string, string>> {
  if (front.endpoint !== undefined) return { [name]: front.endpoint }
  return Object.fromEntries(parts.flatMap((part) => Object.entries(endpointsOf(part))))
}

/** Whether servers have only separate endpoints. */
export function isApart({ front, parts }: Pick<ServerDescription, 'front' | 'parts'>): boolean {
  return front.endpoint === undefined && parts.some((part) => part.front.endpoint !== undefined)
}
