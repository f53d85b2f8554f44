import { isObject } from '../core/json.ts'
import type { JsonSchema } from '../core/schema.ts'

/** A schema with its `$ref` into `root` followed. */
export function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  if (typeof schema.$ref !== 'string') return schema
  const target = schemaAt(schema.$ref, root)
  return isObject(target) ? target : schema
}

/** What a `#/…` pointer names in `root`. */
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
