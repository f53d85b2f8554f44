import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'

/**
 * An output schema of any root as one of an object with a member `result`, the form the official SDKs use for
 * clients before 2026-07-28. Content that is an object is not wrapped, so where the root allows for one it may also
 * stand for itself. References to the old root are moved with it.
 */
export function wrapSchema(schema: Payload): Payload {
  const { $schema, type } = schema.fields
  const whole = Payload.of({ ...(typeof $schema === 'string' && { $schema }), type: 'object' })
  const mayBeObject = type === undefined || (Array.isArray(type) && type.includes('object'))
  if (!mayBeObject) return whole.with(resultOf(moved(schema, '#/properties/result')))
  const wrapped = Payload.of(resultOf({ $ref: EITHER }))
  return whole.with({ anyOf: Payload.text(`[${wrapped.text},${moved(schema, EITHER).text}]`) })
}

/** Where the schema of an object that is not wrapped stands. */
const EITHER = '#/anyOf/1'

function resultOf(schema: unknown): Record<string, unknown> {
  const properties = Payload.of({}).with({ result: schema })
  return { properties, required: ['result'] }
}

/** A schema whose references to its own root lead to its place; without any it keeps its text. */
function moved(schema: Payload, root: string): Payload {
  const hasReferences = /"\$(?:dynamicR|r)ef"/.test(schema.text)
  return hasReferences ? Payload.of(moveRefs(schema.value, root)) : schema
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

function moveRefs(schema: unknown, root: string): unknown {
  if (Array.isArray(schema)) return schema.map((each) => moveRefs(each, root))
  if (!isObject(schema) || hasOwnBase(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => {
      if ((key === '$ref' || key === '$dynamicRef') && typeof value === 'string')
        return [key, pointer(value, root)]
      if (data.has(key)) return [key, value]
      if (maps.has(key) && isObject(value)) return [key, mapValues(value, root)]
      return [key, moveRefs(value, root)]
    }),
  )
}

function mapValues(schemas: Record<string, unknown>, root: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, moveRefs(schema, root)]))
}

/** A subtree with an `$id` of its own resolves its references against that. */
function hasOwnBase(schema: Record<string, unknown>): boolean {
  return typeof schema.$id === 'string' && !schema.$id.startsWith('#')
}

function pointer(reference: string, root: string): string {
  if (reference === '#') return root
  return reference.startsWith('#/') ? `${root}${reference.slice(1)}` : reference
}
