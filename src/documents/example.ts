import { isObject } from '../core/json.ts'
import type { ToolDescription } from './portrait.ts'
import { clean, oneLine } from './text.ts'

/** A call of a tool, as its owner or its schema has it. */
export interface Example {
  readonly description: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output?: unknown
}

type Schema = Readonly<Record<string, unknown>>

const MAX_DEPTH = 4

/** Calls of a tool: those its owner wrote, else one that its schema lets through, if one can be made. */
export function examplesOf({ words, definition, title }: ToolDescription): Example[] {
  if (words.examples) {
    return words.examples.map(({ description, input, output }) => ({
      description: oneLine(description) || title,
      input,
      ...(output !== undefined && { output }),
    }))
  }
  const input = inputFor(definition.inputSchema)
  return input ? [{ description: title, input }] : []
}

/**
 * Arguments with a value for each one that is required; what stands between `<` and `>` is to be filled in. Nothing
 * where the schema asks for more than can be told from its plain keywords.
 */
export function inputFor(schema: unknown): Readonly<Record<string, unknown>> | undefined {
  return isObject(schema) ? objectFor(schema, MAX_DEPTH)?.value : undefined
}

interface Made<Value = unknown> {
  readonly value: Value
}

/** Keywords that ask for something an example is not made to meet. */
const beyond = [
  '$ref',
  '$dynamicRef',
  'allOf',
  'not',
  'if',
  'dependentRequired',
  'dependentSchemas',
  'dependencies',
  'minProperties',
  'propertyNames',
  'patternProperties',
  'contains',
  'prefixItems',
  'multipleOf',
  'pattern',
]

function isPlain(schema: Schema): boolean {
  return beyond.every((keyword) => schema[keyword] === undefined)
}

function objectFor(schema: Schema, depth: number): Made<Record<string, unknown>> | undefined {
  const { properties, required, anyOf, oneOf } = schema
  if (!isPlain(schema) || anyOf !== undefined || oneOf !== undefined) return undefined
  const own = isObject(properties) ? properties : {}
  const value: Record<string, unknown> = {}
  for (const name of Array.isArray(required) ? required.map(String) : []) {
    const member = Object.hasOwn(own, name) ? own[name] : undefined
    const made = isObject(member) ? valueFor(member, name, depth - 1) : undefined
    if (!made || !/^[\w$.-]+$/.test(name) || name === '__proto__') return undefined
    value[name] = made.value
  }
  return { value }
}

function valueFor(schema: Schema, name: string, depth: number): Made | undefined {
  if (depth < 0) return undefined
  const { default: given, examples, const: fixed, enum: choices, anyOf, oneOf } = schema
  const [first] = [given, fixed, ...list(examples), ...list(choices)].filter((each) => each !== undefined)
  if (first !== undefined) return { value: first }
  if (!isPlain(schema)) return undefined
  const kinds = [...list(anyOf), ...list(oneOf)]
  if (kinds.length === 0) return byType(schema, name, depth)
  // Of several that hold for it, one would have to be told from the others.
  if (schema.type !== undefined || schema.properties !== undefined) return undefined
  for (const kind of anyOf === undefined ? [] : kinds) {
    const made = isObject(kind) ? valueFor(kind, name, depth - 1) : undefined
    if (made) return made
  }
  return undefined
}

function byType(schema: Schema, name: string, depth: number): Made | undefined {
  const [kind] = [schema.type].flat().filter((each) => each !== 'null')
  if (kind === 'string') return stringFor(schema, name)
  if (kind === 'boolean') return { value: true }
  if (kind === 'integer' || kind === 'number') return numberFor(schema)
  if (kind === 'object') return objectFor(schema, depth)
  return kind === 'array' ? arrayFor(schema, name, depth) : undefined
}

function numberFor({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema): Made | undefined {
  if (exclusiveMinimum !== undefined || exclusiveMaximum !== undefined) return undefined
  const least = Math.max(1, typeof minimum === 'number' ? Math.ceil(minimum) : 1)
  const value = typeof maximum === 'number' ? Math.min(least, Math.floor(maximum)) : least
  return typeof minimum === 'number' && value < minimum ? undefined : { value }
}

function arrayFor(
  { items, minItems = 0, maxItems = 1 }: Schema,
  name: string,
  depth: number,
): Made | undefined {
  const isBare = !isObject(items) || maxItems === 0
  if (isBare) return minItems === 0 ? { value: [] } : undefined
  const made = valueFor(items, name, depth - 1)
  return made && (minItems === 0 || minItems === 1) ? { value: [made.value] } : undefined
}

const byFormat: Readonly<Record<string, string>> = {
  uri: 'https://example.com/',
  url: 'https://example.com/',
  date: '1999-12-31',
  'date-time': '1999-12-31T12:00:00Z',
  email: 'user@example.com',
}

function stringFor({ format, minLength = 0, maxLength = 1000 }: Schema, name: string): Made | undefined {
  const known = typeof format === 'string' ? byFormat[format] : undefined
  if (known === undefined && format !== undefined) return undefined
  const value = known ?? `<${clean(name)}>`
  const isFitting = Number(minLength) <= value.length && value.length <= Number(maxLength)
  return isFitting ? { value } : undefined
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
