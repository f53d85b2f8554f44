/** Finds the schema of a path, and selects the alternative that a value matches. */
import { isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'

/** Resolves the `$ref` of a schema in `root`. */
export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  if (typeof schema.$ref !== 'string') return schema
  const target = schemaAt(schema.$ref, root)
  return isObject(target) ? target : schema
}

/** The schema at a `#/…` pointer in `root`. */
export function schemaAt(pointer: string, root: JsonSchema): unknown {
  let found: unknown = root
  for (const segment of pointer.split('/').slice(1)) {
    const key = decodeURIComponent(segment).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(found)) found = found[Number(key)]
    else found = isObject(found) ? found[key] : undefined
  }
  return found
}

/** The schema of the value under `key`. */
export function schemaOf(schema: JsonSchema, key: string): JsonSchema | undefined {
  const { properties, additionalProperties } = schema
  const named =
    isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : additionalProperties
  return isObject(named) ? named : undefined
}

/**
 * The schema without the rules for members that a value does not have: it finds the same problems, and compiling the
 * complete schema would take longer than the rest of loading.
 */
export function narrowed(schema: JsonSchema, value: unknown): JsonSchema {
  return narrow(schema, [value])
}

function narrow(schema: JsonSchema, values: readonly unknown[]): JsonSchema {
  const { properties, additionalProperties: others, items } = schema
  const objects = values.filter(isObject)
  const valuesOf = (key: string): readonly unknown[] =>
    objects.flatMap((each) => (Object.hasOwn(each, key) ? [each[key]] : []))
  const named = isObject(properties) ? properties : {}
  const unnamed = (): readonly unknown[] =>
    objects.flatMap((each) =>
      Object.keys(each).flatMap((key) => (Object.hasOwn(named, key) ? [] : [each[key]])),
    )
  return {
    ...schema,
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([key, each]) => [key, inner(each, valuesOf(key))]),
      ),
    }),
    ...(isObject(others) && { additionalProperties: inner(others, unnamed()) }),
    ...(isObject(items) && { items: inner(items, values.filter(Array.isArray).flat()) }),
    ...Object.fromEntries(branching.flatMap((key) => branches(key, schema[key], values))),
  }
}

/** The keywords with several schemas for the same value. */
const branching = ['allOf', 'anyOf', 'oneOf'] as const

function branches(key: string, schemas: unknown, values: readonly unknown[]): [string, unknown][] {
  if (!Array.isArray(schemas)) return []
  return [[key, schemas.map((each: unknown) => (isObject(each) ? narrow(each, values) : each))]]
}

/** An empty schema accepts everything. */
function inner(schema: unknown, values: readonly unknown[]): unknown {
  if (values.length === 0) return true
  return isObject(schema) ? narrow(schema, values) : schema
}
