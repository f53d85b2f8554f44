import { isObject } from './json.ts'
import type { JsonSchema } from './schema.ts'

/** How much a schema of somebody else may be: nested values, values in all, and characters of its words. */
const maxSteps = { depth: 64, values: 20_000, characters: 500_000 }

/** The keyword that counts how often references are followed. */
export const STEP_KEYWORD = 'x-gatehouse-step'

/** Keywords whose members are schemas, whatever they are called. */
const maps = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
/** Keywords whose value is no schema. */
const plain = new Set(['enum', 'const', 'default', 'examples', 'required', 'type'])
const references = ['$ref', '$dynamicRef', '$recursiveRef']

/**
 * A copy of a schema in which following a reference counts as a step, so that a small schema can not stand for
 * endless work. @throws TypeError where the schema is too large
 */
export function boundedSchema(schema: JsonSchema): JsonSchema {
  const left = { values: maxSteps.values, characters: maxSteps.characters }

  const spend = (characters: number, depth: number): void => {
    left.values -= 1
    left.characters -= characters
    if (left.values < 0 || left.characters < 0) throw new TypeError('it is too large')
    if (depth > maxSteps.depth) throw new TypeError('it is nested too deeply')
  }
  const copy = (value: unknown, depth: number, kind: 'schema' | 'map' | 'plain'): unknown => {
    spend(typeof value === 'string' ? value.length : 0, depth)
    if (Array.isArray(value)) return value.map((each) => copy(each, depth + 1, kind))
    if (!isObject(value)) return value
    const copied = Object.entries(value).map(([key, member]) => {
      spend(key.length, depth)
      return [key, copy(member, depth + 1, kindOf(kind, key))] as const
    })
    const isReference = kind === 'schema' && references.some((key) => typeof value[key] === 'string')
    return Object.fromEntries(isReference ? [...copied, [STEP_KEYWORD, true] as const] : copied)
  }
  const bounded = copy(schema, 0, 'schema')
  return isObject(bounded) ? bounded : {}
}

function kindOf(parent: 'schema' | 'map' | 'plain', key: string): 'schema' | 'map' | 'plain' {
  if (parent === 'plain') return 'plain'
  if (parent === 'map') return 'schema'
  if (plain.has(key)) return 'plain'
  return maps.has(key) ? 'map' : 'schema'
}
