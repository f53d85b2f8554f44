/** Fills in what a schema says of valid values: defaults, units, switches and secrets. */
import { isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import { Secret } from '../core/text/secret.ts'
import { bytes, milliseconds } from '../core/time/units.ts'
import { schemaOf } from './schema-lookup.ts'

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

/** The same schema with `on` and `off` accepted for booleans: YAML 1.1 and 1.2 disagree about them. */
export function withSwitches(schema: JsonSchema): JsonSchema {
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, widened(value)]))
}

function widened(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(widened)
  if (!isObject(value)) return value
  if (value.type !== 'boolean') return withSwitches(value)
  return {
    errorMessage: 'must be on or off',
    ...value,
    type: ['boolean', 'string'],
    pattern: '^(on|off|true|false)$',
  }
}
