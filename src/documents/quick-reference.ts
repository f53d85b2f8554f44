import type { ServerDescription, ToolDescription } from './portrait.ts'
import { bullets, code, inline, sentence, upper } from './text.ts'

/** Tools that belong together. */
export interface Group {
  readonly group: string
  readonly tools: readonly ToolDescription[]
}

/** How many tools are summed up, and how many others named. */
const MAX_SUMMARIZED_TOOLS = 20
const MAX_NAMED_TOOLS = 300

/** Tools by what they are about; where several servers are one, by the server. Lone tools are together. */
export function grouped({ tools, parts, name }: ServerDescription): Group[] {
  const key = (tool: ToolDescription): string => (parts.length > 0 ? tool.upstream : tool.category)
  const all = new Map<string, ToolDescription[]>()
  for (const tool of tools) all.set(key(tool), [...(all.get(key(tool)) ?? []), tool])
  const groups = [...all].map(([group, own]) => ({ group, tools: last(own) }))
  if (parts.length > 0) return groups
  const lone = groups.filter(({ tools: own }) => own.length === 1)
  if (lone.length < 2) return groups
  const others = groups.filter(({ tools: own }) => own.length > 1)
  const rest = {
    group: others.length > 0 ? 'other' : name,
    tools: last(lone.flatMap(({ tools: own }) => own)),
  }
  return [...others, rest]
}

/** Every tool with a few words: the first twenty each on a line, the others by their names. */
export function quickReference(description: ServerDescription): string {
  if (description.tools.length === 0) return 'This server has no tools.'
  const groups = grouped(description)
  const share =
    description.tools.length > MAX_SUMMARIZED_TOOLS
      ? Math.max(1, Math.floor(MAX_SUMMARIZED_TOOLS / groups.length))
      : MAX_SUMMARIZED_TOOLS
  let named = 0
  let left = 0
  const parts = groups.map(({ group, tools }) => {
    const rest = tools.slice(share).map(({ name }) => code(name))
    const kept = rest.slice(0, Math.max(0, MAX_NAMED_TOOLS - named))
    named += kept.length
    left += rest.length - kept.length
    const lines = bullets(tools.slice(0, share).map(toolLine))
    const also = kept.length > 0 ? `\n- also ${kept.join(', ')}` : ''
    return groups.length > 1 ? `**${inline(upper(group))}:**\n\n${lines}${also}` : `${lines}${also}`
  })
  const more = left > 0 ? [`${left} more tools stand in tools/list.`] : []
  return [...parts, ...more].join('\n\n')
}

/** A tool on a line: what it does, and what there is to mind. */
function toolLine({ name, summary, classification, facts, isDeprecated }: ToolDescription): string {
  const minds = [
    classification.risk === 'destructive' ? 'destructive' : '',
    facts.confirmation ? 'a person is asked first' : '',
    isDeprecated ? 'deprecated' : '',
  ].filter((each) => each !== '')
  return `${code(name)}: ${sentence(inline(summary))}${minds.length > 0 ? ` (${minds.join(', ')})` : ''}`
}

/** What is deprecated comes last. */
function last(tools: readonly ToolDescription[]): ToolDescription[] {
  return tools.toSorted((one, other) => Number(one.isDeprecated) - Number(other.isDeprecated))
}
