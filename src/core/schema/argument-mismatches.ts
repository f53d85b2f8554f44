/** Checks the arguments of a written call against the schema of its tool. */
import type { Expression, Value } from '../undo/expression.ts'
import { isNumber } from '../json/exact-number.ts'
import { type Step, type Path, printPath, type Root } from '../json/path.ts'
import { asList, asObject, isObject, isSame, referredTo } from '../json/json.ts'
import { nearest } from '../text/words.ts'
import { couldBe } from '../undo/tool-shape.ts'
import { matchesSchema } from './schema.ts'

/** The schemas that path roots refer to, each with the name of its tool. */
type Sources = Readonly<Record<Root, readonly (readonly [string, unknown])[]>>

/**
 * The mismatches between the call of an expression and the input schema of its tool, including the types of the values
 * that its paths refer to, as far as `sources` declare them.
 */
export function argumentMismatches(
  { tool, arguments: given }: Expression,
  inputSchema: unknown,
  sources: Sources = none,
): string[] {
  const schema = asObject(inputSchema)
  const required = Array.isArray(schema.required) ? schema.required : []
  const missing = required.flatMap((name: unknown) =>
    typeof name === 'string' && !given.has(name) ? [`${tool} requires ${name}, which is missing`] : [],
  )
  const wrong = [...given].flatMap(([name, value]) => {
    if (!acceptsMember(schema, name)) return [`${tool} takes no ${name}${hint(name, namesOf(schema))}`]
    const own = memberSchema(schema, name)
    const problem = own && (valueProblem(value, own) ?? typeProblem(value, own, sources))
    return problem === undefined ? [] : [`${name} of ${tool} ${problem}`]
  })
  return [...missing, ...wrong]
}

const none: Sources = { args: [], result: [], snapshot: [] }

/** A type mismatch of the value at a path, or of a value in a list or object. */
function typeProblem(value: Value, wanted: Schema, sources: Sources): string | undefined {
  if (value.kind === 'literal') return undefined
  if (value.kind === 'list') {
    const { items } = wanted
    return isObject(items) ? firstOf(value.items, (item) => partProblem(item, items, sources)) : undefined
  }
  if (value.kind === 'object') {
    return firstOf([...value.members], ([name, each]) => {
      const own = memberSchema(wanted, name)
      return own && partProblem(each, own, sources)
    })
  }
  const { path } = value
  return firstOf(sources[path.root], ([tool, schema]) => {
    const given = schemaAt(path.steps, schema)
    if (!given || couldBe(given, wanted)) return undefined
    return `must be ${typeText(wanted)}, but ${printPath(path)} of ${tool} is ${typeText(given)}`
  })
}

function partProblem(value: Value, wanted: Schema, sources: Sources): string | undefined {
  const problem = valueProblem(value, wanted) ?? typeProblem(value, wanted, sources)
  return problem === undefined ? undefined : `has a part that ${problem}`
}

function firstOf<Each>(all: readonly Each[], look: (each: Each) => string | undefined): string | undefined {
  for (const item of all) {
    const found = look(item)
    if (found !== undefined) return found
  }
  return undefined
}

/** The schema at a path; undefined if it is not declared. */
function schemaAt(steps: readonly Step[], schema: unknown): Schema | undefined {
  const [step, ...rest] = steps
  if (!isObject(schema)) return undefined
  if (step === undefined) return schema
  if (typeof step === 'string') return schemaAt(rest, memberSchema(schema, step))
  const item = schemaAt(rest, schema.items)
  if (typeof step === 'number') return item
  return { type: 'array', ...(item && { items: item }) }
}

function typeText({ type, items }: Schema): string {
  const own = [type].flat().filter((item) => typeof item === 'string')
  if (own.length === 0) return 'something else'
  const inner = isObject(items) && own[0] === 'array' ? typeText(items) : 'something else'
  return inner === 'something else' ? own.join(' or ') : `array of ${inner}`
}

/** The problem of a path into a value with a schema; undefined if the path may exist. */
export function pathMismatch(path: Path, schema: unknown, tool: string): string | undefined {
  let at: unknown = schema
  for (const step of path.steps) {
    if (!isObject(at)) return undefined
    if (typeof step !== 'string') at = at.items
    else if (!acceptsMember(at, step)) return `${tool} has no ${printPath(path)}${hint(step, namesOf(at))}`
    else at = memberSchema(at, step)
  }
  return undefined
}

/** A hint that names the nearest known name, or else all known names. */
export function hint(name: string, known: readonly string[]): string {
  const suggestion = nearest(name, known)
  if (suggestion !== undefined) return `; did you mean ${suggestion}?`
  if (known.length === 0) return ''
  const rest = known.length > MAX_NAMES ? `, and ${known.length - MAX_NAMES} more` : ''
  return `; there ${known.length === 1 ? 'is' : 'are'} ${known.slice(0, MAX_NAMES).join(', ')}${rest}`
}

/** The maximum number of names in a message. */
const MAX_NAMES = 20

type Schema = Readonly<Record<string, unknown>>

/** The members a schema declares. */
export function namesOf({ properties }: Schema): string[] {
  return isObject(properties) ? Object.keys(properties) : []
}

/**
 * Whether a schema declares a member, or leaves its members open. A schema with `properties` and nothing else about its
 * members names all of them, as servers mean it, though JSON Schema permits others.
 */
export function acceptsMember(schema: Schema, name: string): boolean {
  if (Object.hasOwn(asObject(schema.properties), name)) return true
  if (forbidsMember(schema, name, { root: schema, depth: 0, known: new Map() })) return false
  return namesOf(schema).length === 0 || opening.some((key) => key in schema)
}

/** Keywords of schemas that may have more members than those of `properties`. */
const opening =
  '$ref $dynamicRef allOf anyOf oneOf if dependentSchemas dependencies patternProperties propertyNames additionalProperties unevaluatedProperties'.split(
    ' ',
  )

interface Within {
  readonly root: Schema
  readonly depth: number
  /** What is known of schemas that were visited: references lead to the same one in many ways. */
  readonly known: Map<unknown, boolean>
}

/** How deep schemas are followed; those below are not known to forbid anything. */
const MAX_SCHEMA_DEPTH = 16

/** Whether no value with a member of this name fits a schema. */
function forbidsMember(schema: unknown, name: string, within: Within): boolean {
  const { depth, known } = within
  if (schema === false) return true
  if (!isObject(schema) || depth > MAX_SCHEMA_DEPTH) return false
  const before = known.get(schema)
  if (before !== undefined) return before
  // A reference to itself adds nothing.
  known.set(schema, false)
  const found = forbidsItself(schema, name, within)
  known.set(schema, found)
  return found
}

function forbidsItself(schema: Schema, name: string, { root, depth, known }: Within): boolean {
  const inner = (part: unknown): boolean => forbidsMember(part, name, { root, depth: depth + 1, known })
  const { propertyNames, $ref, allOf, anyOf, oneOf } = schema
  if (namesMember(schema, name))
    return Object.hasOwn(asObject(schema.properties), name) && isNever(asObject(schema.properties)[name])
  if (isNever(schema.additionalProperties)) return true
  if (propertyNames !== undefined && !fitsName(name, propertyNames)) return true
  const all = [...asList(allOf), ...(typeof $ref === 'string' ? [referredTo($ref, root)] : [])]
  if (all.some(inner)) return true
  if ([anyOf, oneOf].some((each) => asList(each).length > 0 && asList(each).every(inner))) return true
  const parts = [
    ...all,
    ...asList(anyOf),
    ...asList(oneOf),
    schema.then,
    schema.else,
    ...Object.values(asObject(schema.dependentSchemas)),
  ]
  return isNever(schema.unevaluatedProperties) && !parts.some((part) => evaluatesMember(part, name))
}

/** Whether `properties` or `patternProperties` have a member. */
function namesMember({ properties, patternProperties }: Schema, name: string): boolean {
  if (Object.hasOwn(asObject(properties), name)) return true
  return Object.keys(asObject(patternProperties)).some((pattern) => fitsName(name, { pattern }))
}

/** Whether a part of a schema makes a member one that `unevaluatedProperties` is not about. */
function evaluatesMember(part: unknown, name: string): boolean {
  if (!isObject(part)) return false
  return (
    namesMember(part, name) ||
    ['additionalProperties', 'unevaluatedProperties', '$ref', 'allOf', 'anyOf', 'oneOf'].some(
      (key) => part[key] !== undefined,
    )
  )
}

function fitsName(name: string, schema: unknown): boolean {
  return schema !== false && (!isObject(schema) || matchesSchema(name, schema))
}

/** `{ not: {} }` is how some libraries write `false`. */
function isNever(schema: unknown): boolean {
  return schema === false || (isObject(schema) && isSame(schema, { not: {} }))
}

function memberSchema({ properties }: Schema, name: string): Schema | undefined {
  const found = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined
  return isObject(found) ? found : undefined
}

/** The problem of a literal value. */
function valueProblem(value: Value, schema: Schema): string | undefined {
  if (value.kind === 'path') return undefined
  const types = [schema.type].flat().filter((item) => typeof item === 'string')
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) return `must be ${types.join(' or ')}`
  if (value.kind !== 'literal') return undefined
  const allowed = Array.isArray(schema.enum) ? schema.enum : []
  if (allowed.length > 0 && !allowed.some((each) => isSame(each, value.value)))
    return `must be one of ${allowed
      .slice(0, MAX_NAMES)
      .map((item) => JSON.stringify(item))
      .join(', ')}`
  if (schema.const === undefined || isObject(schema.const) || isSame(schema.const, value.value))
    return undefined
  return `must be ${JSON.stringify(schema.const)}`
}

function isOfType(value: Value, type: string): boolean {
  if (value.kind === 'list') return type === 'array'
  if (value.kind !== 'literal') return type === 'object'
  if (value.value === null) return type === 'null'
  if (!isNumber(value.value)) return type === typeof value.value
  return type === 'number' || (type === 'integer' && Number.isInteger(Number(value.value)))
}
