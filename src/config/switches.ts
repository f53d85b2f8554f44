import { isObject } from '../core/json.ts'
import type { JsonSchema } from '../core/schema.ts'

/** The same schema with every boolean also taking the words on and off, as YAML 1.1 and 1.2 disagree on them. */
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
