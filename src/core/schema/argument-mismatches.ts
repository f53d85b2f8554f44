/** Checks the arguments of a written call against the schema of its tool. */
import type { Expression, Value } from '../undo/expression.ts'
import { isNumber } from '../json/exact-number.ts'
import { type Step, type Path, printPath, type Root } from '../json/path.ts'
import { isObject, isSame } from '../json/json.ts'
import { nearest } from '../text/words.ts'
import { couldBe } from '../undo/tool-shape.ts'

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
  const schema = isObject(inputSchema) ? inputSchema : {}
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

/** Whether a schema declares a member, or leaves its members open. */
export function acceptsMember(schema: Schema, name: string): boolean {
  const { properties, additionalProperties: additional, patternProperties } = schema
  if (isObject(properties) && Object.hasOwn(properties, name)) return true
  if (additional === false) return isObject(patternProperties)
  const isOpen =
    additional !== undefined || isObject(patternProperties) || composing.some((key) => key in schema)
  return isOpen || !isObject(properties)
}

/** Keywords that can add members to a schema. */
const composing = ['$ref', '$dynamicRef', 'allOf', 'anyOf', 'oneOf', 'if', 'unevaluatedProperties']

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
