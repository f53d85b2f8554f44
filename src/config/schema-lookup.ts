/**
 * Finds the schema of a path and the alternative that a value matches, and fills in what it says of valid values: defaults,
 * units, switches and secrets.
 */
import { asObject, isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import { Secret } from '../core/text/secret.ts'
import { bytes, milliseconds } from '../core/time/units.ts'

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
  const named = asObject(properties)
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

/**
 * Fills in the defaults of a schema and converts durations to milliseconds, sizes to bytes, switches to
 * booleans and secrets to `Secret`s. The value must be valid.
 */
export function complete(value: unknown, schema: JsonSchema): unknown {
  if (value === undefined) return schema.default === undefined ? undefined : complete(schema.default, schema)
  const meant = branchFor(value, schema)
  if (Array.isArray(value))
    return value.map((item) => (isObject(meant.items) ? complete(item, meant.items) : item))
  if (isObject(value)) return completeObject(value, meant)
  return converted(value, meant)
}

function completeObject(value: Readonly<Record<string, unknown>>, schema: JsonSchema): unknown {
  const known = isObject(schema.properties) ? Object.keys(schema.properties) : []
  const keys = new Set([...known, ...Object.keys(value)])
  const entries = [...keys].map((key) => {
    const rules = schemaOf(schema, key)
    const own = Object.hasOwn(value, key) ? value[key] : undefined
    return [key, rules ? complete(own, rules) : own] as const
  })
  return Object.fromEntries(entries.filter(([, entry]) => entry !== undefined))
}

function converted(value: unknown, schema: JsonSchema): unknown {
  if (schema['x-secret'] === true) return new Secret(String(value))
  // A schema may accept `off` instead of a quantity.
  if (schema['x-unit'] !== undefined && value === 'off') return value
  if (schema['x-unit'] === 'milliseconds' && typeof value === 'string') return milliseconds(value)
  if (schema['x-unit'] === 'bytes' && (typeof value === 'string' || typeof value === 'number'))
    return bytes(value)
  const isSwitch = typeof value === 'string' && [schema.type].flat().includes('boolean')
  if (!isSwitch) return value
  if (value === 'on' || value === 'true') return true
  return value === 'off' || value === 'false' ? false : value
}

// Of several alternatives, the type of the value determines which one applies.
function branchFor(value: unknown, schema: JsonSchema): JsonSchema {
  const branches = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? []
  const type = Array.isArray(value) ? 'array' : typeof value
  const fitting = branches.filter(isObject).find((branch) => fits(type, value, branch))
  return fitting ? { ...schema, ...fitting } : schema
}

function fits(type: string, value: unknown, branch: JsonSchema): boolean {
  if (Array.isArray(branch.enum)) return branch.enum.includes(value)
  if (typeof branch.pattern === 'string' && typeof value === 'string')
    return new RegExp(branch.pattern).test(value)
  const types = [branch.type].flat()
  return types.includes(type) || (type === 'number' && types.includes('integer'))
}

/** The same schema with `on` and `off` accepted wherever booleans are: YAML 1.1 and 1.2 disagree about them. */
export function withSwitches(schema: JsonSchema): JsonSchema {
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, widened(value)]))
}

function widened(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(widened)
  if (!isObject(value)) return value
  const types: readonly unknown[] = [value.type].flat()
  // One that accepts texts says which.
  if (!types.includes('boolean') || types.includes('string')) return withSwitches(value)
  return {
    errorMessage: 'must be on or off',
    ...withSwitches(value),
    type: [...types, 'string'],
    pattern: '^(on|off|true|false)$',
  }
}
