import { createHash } from 'node:crypto'
import type { Contract, PromptContract, ToolContract } from '../../core/contract.ts'
import { errorCodes } from '../../core/error.ts'
import { canonical, isObject } from '../../core/json.ts'
import type { Definition } from '../../core/record.ts'
import type { ServerDescription, ToolDescription } from '../../documents/portrait.ts'

/** How many resources are looked at: a server may list as many as it has files. */
const RESOURCES = 1000

/** What callers of a server rely on, of what is known of it. */
export function exposedContract(
  { tools, prompts, resources, templates }: ServerDescription,
  front: Pick<Contract, 'entrances' | 'isGuarded'>,
): Contract {
  return {
    ...front,
    errorCodes: errorCodes.toSorted(),
    tools: byKey(tools.map((tool) => [tool.name, toolContract(tool)])),
    prompts: byKey(prompts.map((each) => [text(each.name), promptContract(each)])),
    resources: byKey(resources.slice(0, RESOURCES).map((each) => [text(each.uri), text(each.mimeType)])),
    templates: byKey(templates.map((each) => [text(each.uriTemplate), text(each.mimeType)])),
  }
}

function toolContract({ definition, facts, words }: ToolDescription): ToolContract {
  const { inputSchema, outputSchema, annotations, title, description } = definition
  const { title: hint, ...hints } = isObject(annotations) ? annotations : {}
  return {
    input: inputSchema ?? {},
    ...(outputSchema !== undefined && { output: outputSchema }),
    scopes: facts.scopes ?? [],
    returns: words.returns ?? [],
    hints,
    ...(words.deprecated !== undefined && { deprecated: words.deprecated }),
    wording: hashed([title, hint, description]),
  }
}

function promptContract({ arguments: wanted, title, description }: Definition): PromptContract {
  const all = Array.isArray(wanted) ? wanted.filter(isObject) : []
  return {
    arguments: byKey(all.map((each) => [text(each.name), each.required === true])),
    wording: hashed([title, description, all.map((each) => [each.name, each.title, each.description])]),
  }
}

/** Names are those of servers: none of them may be more than a name. */
function byKey<Value>(entries: readonly (readonly [string, Value])[]): Readonly<Record<string, Value>> {
  return Object.fromEntries(entries)
}

function hashed(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex').slice(0, 12)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
