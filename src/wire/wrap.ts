import { isObject } from '../core/json.ts'

type Schema = Readonly<Record<string, unknown>>

/**
 * An output schema of any root as one of an object with a member `result`, the form the official SDKs use for
 * clients before 2026-07-28. References to the old root are moved with it.
 */
export function wrapSchema(schema: Schema): Schema {
  const dialect = typeof schema.$schema === 'string' ? { $schema: schema.$schema } : {}
  return { ...dialect, type: 'object', properties: { result: moveRefs(schema) }, required: ['result'] }
}

/** Keywords whose values are data, and those whose values are maps of names to schemas. */
const data = new Set(['const', 'enum', 'default', 'examples'])
const maps = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
  'dependencies',
])

function moveRefs(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(moveRefs)
  if (!isObject(schema) || hasOwnBase(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if ((key === '$ref' || key === '$dynamicRef') && typeof value === 'string') return [key, moved(value)]
      if (data.has(key)) return [key, value]
      if (maps.has(key) && isObject(value)) return [key, mapValues(value)]
      return [key, moveRefs(value)]
    }),
  )
}

function mapValues(schemas: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, moveRefs(schema)]))
}

/** A subtree with an `$id` of its own resolves its references against that. */
function hasOwnBase(schema: Record<string, unknown>): boolean {
  return typeof schema.$id === 'string' && !schema.$id.startsWith('#')
}

function moved(pointer: string): string {
  if (pointer === '#') return '#/properties/result'
  return pointer.startsWith('#/') ? `#/properties/result${pointer.slice(1)}` : pointer
}
