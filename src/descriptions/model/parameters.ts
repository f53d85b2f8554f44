/** The parameters of tools from their schemas, and example calls. */
import { isNumber } from '../../core/json/exact-number.ts'
import { asObject, isObject, referredTo } from '../../core/json/json.ts'
import { longIntegerFor } from '../../core/schema/schema.ts'
import type { ToolDescription } from './description.ts'
import { clipped, oneLine, clean } from './text.ts'

/** An argument of a tool, or a member of its result. */
export interface Parameter {
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly description?: string
  readonly choices?: readonly unknown[]
  readonly default?: unknown
  /** Other constraints, as short texts. */
  readonly limits?: readonly string[]
  /** Its members, or those of each item. */
  readonly fields?: readonly Parameter[]
}

type Schema = Readonly<Record<string, unknown>>

/** The maximum number of listed members of a schema, and choices of a member. */
const MAX_MEMBERS = 100
const MAX_CHOICES = 40

/** The members of an object schema, recursively. */
export function parametersOf(schema: unknown, depth = 1): readonly Parameter[] {
  return isObject(schema) ? membersOf(schema, { root: schema, depth }) : []
}

/** The root of references, and the remaining depth. */
interface Reading {
  readonly root: Schema
  readonly depth: number
}

function membersOf(schema: Schema, reading: Reading): readonly Parameter[] {
  const { properties, required } = resolved(schema, reading.root)
  if (!isObject(properties)) return []
  const needed = new Set<unknown>(Array.isArray(required) ? required : [])
  return Object.entries(properties)
    .slice(0, MAX_MEMBERS)
    .map(([name, value]) => {
      const details = described(asObject(value), reading)
      return { name: oneLine(name), isRequired: needed.has(name), ...details }
    })
}

function described(written: Schema, { root, depth }: Reading): Omit<Parameter, 'name' | 'isRequired'> {
  const schema = resolved(written, root)
  const description = clipped(oneLine(schema.description), 400)
  const choices = Array.isArray(schema.enum) ? schema.enum.slice(0, MAX_CHOICES) : undefined
  const limits = limitsOf(schema)
  const fields = depth > 0 ? fieldsOf(schema, { root, depth: depth - 1 }) : []
  return {
    type: typeOf(schema, root),
    ...(description !== '' && { description }),
    ...(choices && { choices }),
    ...(schema.default !== undefined && { default: schema.default }),
    ...(limits.length > 0 && { limits }),
    ...(fields.length > 0 && { fields }),
  }
}

function fieldsOf(schema: Schema, reading: Reading): readonly Parameter[] {
  const own = membersOf(schema, reading)
  return own.length === 0 && isObject(schema.items) ? membersOf(schema.items, reading) : own
}

/** Resolves a reference within the same schema. */
function resolved(schema: Schema, root: Schema): Schema {
  const { $ref: reference } = schema
  if (typeof reference !== 'string' || !reference.startsWith('#/')) return schema
  const found = referredTo(reference, root)
  return isObject(found) ? { ...found, ...schema } : schema
}

function typeOf(schema: Schema, root: Schema, depth = 2): string {
  const { type, items, anyOf, oneOf, const: fixed } = schema
  if (Array.isArray(type)) return type.slice(0, 5).map(oneLine).join(' or ')
  const kinds = Array.isArray(anyOf) ? anyOf : oneOf
  if (type === undefined && Array.isArray(kinds) && depth > 0) {
    const named = kinds.slice(0, 8).map((each: unknown) => inner(each, root, depth))
    return [...new Set(named)].join(' or ') || 'any'
  }
  if (type === 'array' && depth > 0)
    return items === undefined ? 'array' : `array of ${inner(items, root, depth)}`
  if (typeof type === 'string') return oneLine(type)
  if (Array.isArray(schema.enum)) return typeof schema.enum[0]
  if (fixed !== undefined) return typeof fixed
  return isObject(schema.properties) ? 'object' : 'any'
}

function inner(schema: unknown, root: Schema, depth: number): string {
  return isObject(schema) ? typeOf(resolved(schema, root), root, depth - 1) : 'any'
}

function limitsOf(schema: Schema): string[] {
  const { pattern, format, const: fixed, multipleOf } = schema
  return [
    range(schema.minLength, schema.maxLength, ' characters'),
    range(schema.minimum, schema.maximum, ''),
    isNumber(schema.exclusiveMinimum) ? `more than ${String(schema.exclusiveMinimum)}` : '',
    isNumber(schema.exclusiveMaximum) ? `less than ${String(schema.exclusiveMaximum)}` : '',
    range(schema.minItems, schema.maxItems, ' items'),
    isNumber(multipleOf) && multipleOf !== 1 ? `a multiple of ${String(multipleOf)}` : '',
    typeof format === 'string' ? `format ${oneLine(format)}` : '',
    typeof pattern === 'string' && pattern.length <= 100 ? `matches ${oneLine(pattern)}` : '',
    fixed === undefined ? '' : `always ${clipped(oneLine(JSON.stringify(fixed)), 80)}`,
  ].filter((each) => each !== '')
}

function range(least: unknown, most: unknown, unit: string): string {
  const from = isMeaningful(least) && !(unit !== '' && least === 0) ? least : undefined
  const to = isMeaningful(most) ? most : undefined
  if (from !== undefined && to !== undefined) return `${from} to ${to}${unit}`
  if (from !== undefined) return `at least ${from}${from === 1 ? unit.replace(/s$/, '') : unit}`
  return to === undefined ? '' : `at most ${to}${to === 1 ? unit.replace(/s$/, '') : unit}`
}

/** Whether a bound is meaningful, not just the range of a number type. */
function isMeaningful(bound: unknown): bound is number {
  return typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER
}

/** An example call of a tool. */
interface Example {
  readonly description: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output?: unknown
}

const MAX_DEPTH = 4

/** Example calls of a tool: the configured ones, else one derived from its schema, if possible. */
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
 * Arguments with a value for each required one; values in `<…>` are placeholders. Undefined if the schema has
 * constraints beyond the simple keywords.
 */
export function inputFor(schema: unknown): Readonly<Record<string, unknown>> | undefined {
  return isObject(schema) ? objectFor(schema, MAX_DEPTH)?.value : undefined
}

interface Made<Value = unknown> {
  readonly value: Value
}

/** Keywords with constraints that examples do not support. */
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
  const own = asObject(properties)
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
  // An example would have to satisfy both the alternatives and the schema's own type or properties.
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

function numberFor(schema: Schema): Made | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  const long = longIntegerFor(schema)
  if (long !== undefined) return { value: long }
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
