import { isObject } from '../core/json.ts'
import { type JsonSchema, validator } from '../core/schema.ts'
import type { ToolPortrait } from './portrait.ts'
import { clean, oneLine } from './text.ts'

/** A call of a tool, as its owner or its schema has it. */
export interface Example {
  readonly description: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output?: unknown
}

type Schema = Readonly<Record<string, unknown>>

const DEEPEST = 4

/** Calls of a tool: those its owner wrote, else one that its schema lets through, if one can be made. */
export function examplesOf({ words, definition, title }: ToolPortrait): Example[] {
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

/** Arguments with a value for each one that is required; what stands between `<` and `>` is to be filled in. */
export function inputFor(schema: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(schema)) return undefined
  const made = objectFor(schema, DEEPEST)
  return made && fits(schema, made.value) ? made.value : undefined
}

interface Made<Value = unknown> {
  readonly value: Value
}

function objectFor(schema: Schema, depth: number): Made<Record<string, unknown>> | undefined {
  const properties = isObject(schema.properties) ? schema.properties : {}
  const required = Array.isArray(schema.required) ? schema.required.map(String) : []
  const value: Record<string, unknown> = {}
  for (const name of required) {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined
    const made = isObject(own) ? valueFor(own, name, depth - 1) : undefined
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
  for (const choice of [...list(anyOf), ...list(oneOf)]) {
    const made = isObject(choice) ? valueFor(choice, name, depth - 1) : undefined
    if (made) return made
  }
  return byType(schema, name, depth)
}

function byType(schema: Schema, name: string, depth: number): Made | undefined {
  const { type, minimum, items, minItems } = schema
  const [kind] = [type].flat().filter((each) => each !== 'null')
  if (kind === 'string') return stringFor(schema, name)
  if (kind === 'boolean') return { value: true }
  if (kind === 'integer' || kind === 'number') {
    return { value: typeof minimum === 'number' && minimum > 1 ? minimum : 1 }
  }
  if (kind === 'object') return objectFor(schema, depth)
  if (kind !== 'array') return undefined
  if (!isObject(items)) return minItems === undefined || minItems === 0 ? { value: [] } : undefined
  const made = valueFor(items, name, depth - 1)
  return made && { value: [made.value] }
}

const byFormat: Readonly<Record<string, string>> = {
  uri: 'https://example.com/',
  url: 'https://example.com/',
  date: '2026-01-31',
  'date-time': '2026-01-31T12:00:00Z',
  email: 'user@example.com',
}

function stringFor({ format, pattern }: Schema, name: string): Made | undefined {
  if (typeof pattern === 'string') return undefined
  const known = typeof format === 'string' ? byFormat[format] : undefined
  if (known === undefined && format !== undefined) return undefined
  return { value: known ?? `<${clean(name)}>` }
}

function fits(schema: JsonSchema, value: unknown): boolean {
  try {
    return validator(schema)(value).length === 0
  } catch {
    return false
  }
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
