/**
 * `$id`s in the output schemas of several servers. Clients with an official SDK compile all output schemas of a list with
 * one engine, where an id is that of one schema: with another one, they use the wrong schema, or refuse the whole list.
 * Invariant: in a shared list, the id of an output schema is in no other one.
 */
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import { compileProblem } from '../core/schema/schema.ts'

/** Tools of several servers, without the ids of output schemas that are also in others. */
export function withDistinctIds(tools: readonly Payload[]): readonly Payload[] {
  const schemas = new Map<string, Set<string>>()
  for (const schema of tools.map(schemaWithIds)) {
    for (const id of idsIn(schema?.value)) {
      const known = schemas.get(id)
      if (known) known.add(schema?.text ?? '')
      else schemas.set(id, new Set([schema?.text ?? '']))
    }
  }
  const isShared = (id: string): boolean => (schemas.get(normal(id))?.size ?? 0) > 1
  return tools.map((tool) => {
    const schema = schemaWithIds(tool)
    const id = schema?.fields.$id
    if (!schema || typeof id !== 'string' || !isShared(id)) return tool
    const bare = schema.with({ $id: undefined })
    // One that refers to itself by its id cannot be used without it.
    return tool.with({ outputSchema: compileProblem(bare.fields) === undefined ? bare : undefined })
  })
}

function schemaWithIds(tool: Payload): Payload | undefined {
  const schema = tool.text.includes('"$id"') ? tool.at('outputSchema') : undefined
  return isObject(schema?.value) ? schema : undefined
}

/** The ids in a part of a schema, also as URLs where a base of them makes one. */
function idsIn(value: unknown, base?: string): string[] {
  if (typeof value !== 'object' || value === null) return []
  const id = isObject(value) && typeof value.$id === 'string' ? normal(value.$id) : ''
  const url = id !== '' && URL.canParse(id, base) ? normal(new URL(id, base).href) : ''
  const own = [id, url].filter((each) => each !== '')
  return [...own, ...Object.values(value).flatMap((each) => idsIn(each, url === '' ? base : url))]
}

/** An id without an empty fragment, which is the same one. */
function normal(id: string): string {
  return id.replace(/#\/?$/, '')
}
