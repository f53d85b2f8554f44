/** The inputs and outputs of a tool, as needed for undo rules. */
import { asObject, isObject } from '../json/json.ts'
import { wordsOf } from '../text/words.ts'

/** An argument of a tool, or a member of its result. */
export interface Field {
  readonly name: string
  readonly words: readonly string[]
  readonly isRequired: boolean
  readonly schema: Readonly<Record<string, unknown>>
}

/** A listed tool with its parsed inputs and outputs. */
export interface ToolShape {
  readonly name: string
  readonly words: readonly string[]
  /** Undefined if the schema does not list them unambiguously. */
  readonly inputs: readonly Field[] | undefined
  /** Undefined if the server does not declare its output. */
  readonly outputs: readonly Field[] | undefined
  /** The server's readOnlyHint, if any. */
  readonly isRead: boolean | undefined
  /** Its description says that it is deprecated. */
  readonly isDeprecated: boolean
  /** It may have no effect, or overwrite what exists, according to its annotations or description. */
  readonly mayReuseExisting: boolean
  /** Its description says that it fails if the object already exists. */
  readonly failsIfExists: boolean
  /** Its description says that it removes more than its arguments name. */
  readonly removesRelated: boolean
}

/** Parses an entry of `tools/list`. */
export function shapeOf(definition: Readonly<Record<string, unknown>>): ToolShape {
  const name = String(definition.name)
  const { annotations } = definition
  const description = typeof definition.description === 'string' ? definition.description : ''
  const hints = asObject(annotations)
  const hint = hints.readOnlyHint
  return {
    name,
    words: wordsOf(name),
    inputs: fieldsOf(definition.inputSchema),
    outputs: definition.outputSchema === undefined ? undefined : fieldsOf(definition.outputSchema),
    isRead: typeof hint === 'boolean' ? hint : undefined,
    isDeprecated: /\bdeprecated\b/i.test(description),
    failsIfExists: failsIfExistsPattern.test(description),
    removesRelated: removesRelatedPattern.test(description),
    mayReuseExisting:
      hints.idempotentHint === true ||
      reusesExistingPattern.test(`${wordsOf(name).join(' ')} ${description}`),
  }
}

const existingTarget = String.raw`\b(?:destination|target|already)\b(?! (?:\w+ ){0,2}(?:not|doesn't|don't)\b)[^.]{0,40}`
const failing = String.raw`\b(?:fail|error|refus|reject)`
const failsIfExistsPattern = new RegExp(
  String.raw`${existingTarget}\bexist[^.]{0,60}${failing}|${failing}[^.]{0,60}${existingTarget}\bexist`,
  'i',
)
const removesRelatedPattern =
  /\b(?:and|with|including|plus) (?:all )?(?:of )?(?:its|their|associated|related|any|every|all)\b/i

/** Texts of tools that reuse or overwrite existing objects. */
const reusesExistingPattern =
  /\b(?:upsert|ensure|idempotent|overwr|replac)|\bor (?:\w+ )?(?:updat|edit|modif|get|find|reus|return)|\bif (?:\w+ ){0,3}(?:does not|doesn't|do not|don't|not)(?: \w+)? exist|\bmerge[sd]? (?:in)?to\b/i

/** The members of an object schema; undefined if it does not list them plainly. */
export function fieldsOf(schema: unknown): readonly Field[] | undefined {
  if (!isObject(schema)) return undefined
  const { properties, required } = schema
  const isVaried = ['$ref', 'anyOf', 'oneOf', 'allOf', 'if', 'not'].some((key) => schema[key] !== undefined)
  if (isVaried || (properties !== undefined && !isObject(properties))) return undefined
  const needed = new Set<unknown>(Array.isArray(required) ? required : [])
  const named: Readonly<Record<string, unknown>> = properties ?? {}
  const unnamed = [...needed].filter((item) => typeof item === 'string' && !Object.hasOwn(named, item))
  return [...Object.keys(named), ...unnamed.map(String)].map((name) => {
    const own = Object.hasOwn(named, name) ? named[name] : {}
    return { name, words: wordsOf(name), isRequired: needed.has(name), schema: asObject(own) }
  })
}

/** Whether a value of one schema can be used for another, according to their types. */
export function couldBe(given: Field['schema'], wanted: Field['schema']): boolean {
  const [ones, others] = [typesOf(given), typesOf(wanted)]
  if (!ones || !others) return true
  const common = [...ones].filter((type) => others.has(type))
  if (common.length === 0) return false
  if (!common.every((type) => type === 'array' || type === 'object')) return true
  return common.some((type) => (type === 'array' ? couldHold(given, wanted) : couldHave(given, wanted)))
}

/** Whether a schema accepts a list of what the other one describes. */
export function couldList(given: Field['schema'], wanted: Field['schema']): boolean {
  if (!typesOf(wanted)?.has('array') || typesOf(given)?.has('array') !== false) return false
  return isObject(wanted.items) && couldBe(given, wanted.items)
}

/** Whether a schema declares a type. */
export function isTyped(schema: Field['schema']): boolean {
  return typesOf(schema) !== undefined
}

function couldHold(given: Field['schema'], wanted: Field['schema']): boolean {
  return !isObject(given.items) || !isObject(wanted.items) || couldBe(given.items, wanted.items)
}

function couldHave(given: Field['schema'], wanted: Field['schema']): boolean {
  const [own, needed] = [fieldsOf(given), fieldsOf(wanted)]
  if (!own || !needed || own.length === 0) return true
  return needed.every(({ name, isRequired, schema }) => {
    const found = own.find((item) => item.name === name)
    return found ? couldBe(found.schema, schema) : !isRequired
  })
}

/** The accepted types of a schema, with `integer` as `number`; undefined if it declares none. */
function typesOf(schema: Field['schema']): Set<string> | undefined {
  const { type, anyOf, oneOf, enum: values } = schema
  const choices = Array.isArray(anyOf) ? anyOf : oneOf
  if (type === undefined && Array.isArray(choices)) {
    const all = choices.map((choice: unknown) => (isObject(choice) ? typesOf(choice) : undefined))
    return all.every((item) => item !== undefined) ? new Set(all.flatMap((item) => [...item])) : undefined
  }
  if (type === undefined && Array.isArray(values)) return named(values.map((value: unknown) => typeof value))
  return type === undefined ? undefined : named([type].flat())
}

function named(types: readonly unknown[]): Set<string> {
  const known = types.map((item) => (item === 'integer' ? 'number' : String(item)))
  return new Set(known.filter((item) => item !== 'null'))
}
