import { isObject } from '../core/json.ts'
import type { JsonSchema } from '../core/schema.ts'
import { resolved, schemaOf } from './subschema.ts'

/** Turns text that came out of a reference, as in `port: ${PORT}`, into a number where the schema wants one. */
export function readNumbers(value: unknown, schema: JsonSchema, interpolated: ReadonlySet<string>): unknown {
  const visit = (item: unknown, rules: JsonSchema | undefined, path: readonly string[]): unknown => {
    if (rules === undefined) return item
    const own = resolved(rules, schema)
    if (isObject(item)) {
      const entries = Object.entries(item)
      return Object.fromEntries(
        entries.map(([key, entry]) => [key, visit(entry, schemaOf(own, key), [...path, key])]),
      )
    }
    if (typeof item !== 'string' || !interpolated.has(path.join('\n'))) return item
    const types = [own.type].flat()
    const isNumber = types.includes('integer') || types.includes('number')
    // Where text is taken too, its form tells: a size without a unit is a number.
    const isText =
      types.includes('string') && new RegExp(typeof own.pattern === 'string' ? own.pattern : '').test(item)
    return isNumber && !isText && /^-?\d+(\.\d+)?$/.test(item) ? Number(item) : item
  }
  return visit(value, schema, [])
}
