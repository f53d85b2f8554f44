import type { ToolFacts } from '../core/record.ts'
import type { ServerDescription, ToolDescription } from './portrait.ts'

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
