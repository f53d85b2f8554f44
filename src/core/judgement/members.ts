/** The arguments that an input schema declares, also those of objects and lists that only wrap others. */
import { isObject, referredTo } from '../json/json.ts'
import { wordSet, wordsOf } from '../text/words.ts'

type Schema = Readonly<Record<string, unknown>>

/** An argument of a tool. */
export interface Argument {
  /** Its path as text: `params.force`. */
  readonly name: string
  /** The members that lead to it; `*` stands for all items of an array. */
  readonly path: readonly string[]
  readonly words: readonly string[]
  readonly schema: Schema
  readonly isRequired: boolean
  readonly description: string
  /** The values that it can have, if they are declared. */
  readonly values?: readonly unknown[]
}

const MAX_ARGUMENTS = 200
/** How much of a description is examined, in characters. */
const MAX_DESCRIPTION = 2000
/** The number of schemas that are read of one tool. */
const MAX_SCHEMAS = 2000
const MAX_DEPTH = 3

/** The arguments of an input schema, outermost first. References within the schema are followed. */
export function argumentsOf(schema: unknown): readonly Argument[] {
  const place = { root: schema, path: [], depth: 0, isRequired: true, budget: { left: MAX_SCHEMAS } }
  return membersOf(schema, place).slice(0, MAX_ARGUMENTS)
}

/** Whether an argument is not in another one, or in one that only wraps arguments. */
export function isOuter({ path }: Argument): boolean {
  return path.slice(0, -1).every((step) => wrappers.has(step.toLowerCase()))
}

const wrappers = wordSet('params parameters args arguments input request options payload body action')

interface Place {
  readonly root: unknown
  readonly path: readonly string[]
  readonly depth: number
  readonly isRequired: boolean
  readonly budget: Budget
}

/** How many schemas may still be read: references make a short schema as large as it likes. */
interface Budget {
  left: number
}

function membersOf(given: unknown, place: Place): readonly Argument[] {
  const own = variantsOf(given, place.root, place.budget).flatMap((schema) => ownMembers(schema, place))
  const merged = new Map<string, Argument>()
  for (const each of own) {
    const before = merged.get(each.name)
    merged.set(each.name, before ? joined(before, each) : each)
  }
  const members = [...merged.values()]
  if (place.depth >= MAX_DEPTH) return members
  const inner = members.flatMap((each) => {
    const next = { ...place, path: each.path, depth: place.depth + 1, isRequired: each.isRequired }
    const { items } = each.schema
    return [
      ...membersOf(each.schema, next),
      ...(items === undefined ? [] : membersOf(items, { ...next, path: [...each.path, '*'] })),
    ]
  })
  return [...members, ...inner].slice(0, MAX_ARGUMENTS)
}

function ownMembers(schema: Schema, { root, path: above, isRequired, budget }: Place): readonly Argument[] {
  if (!isObject(schema.properties) || budget.left <= 0) return []
  const required = new Set<unknown>(Array.isArray(schema.required) ? schema.required : [])
  return Object.entries(schema.properties)
    .slice(0, MAX_ARGUMENTS)
    .map(([name, value]): Argument => {
      const own = resolved(value, root) ?? {}
      const path = [...above, name]
      const values = valuesOf(own, root, budget)
      return {
        name: path.filter((step) => step !== '*').join('.'),
        path,
        words: wordsOf(name),
        schema: own,
        isRequired: isRequired && required.has(name),
        description: typeof own.description === 'string' ? own.description.slice(0, MAX_DESCRIPTION) : '',
        ...(values && { values }),
      }
    })
}

/** The same argument in two variants of a schema. */
function joined(one: Argument, other: Argument): Argument {
  const values = one.values && other.values && [...one.values, ...other.values]
  const { values: _ones, ...rest } = one
  return { ...rest, isRequired: one.isRequired && other.isRequired, ...(values && { values }) }
}

/** A schema, and the alternatives that it declares. */
function variantsOf(given: unknown, root: unknown, budget: Budget, depth = 0): readonly Schema[] {
  const schema = resolved(given, root)
  if (!schema || budget.left-- <= 0) return []
  if (depth >= MAX_DEPTH) return [schema]
  const others = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) =>
    Array.isArray(each) ? each : [],
  )
  return [schema, ...others.flatMap((each) => variantsOf(each, root, budget, depth + 1))].slice(
    0,
    MAX_ARGUMENTS,
  )
}

/** The values that a schema lists, also by `const` and in alternatives; undefined if it takes others too. */
function valuesOf(schema: Schema, root: unknown, budget: Budget, depth = 0): readonly unknown[] | undefined {
  if (budget.left-- <= 0) return undefined
  if (Array.isArray(schema.enum)) return schema.enum
  if (schema.const !== undefined) return [schema.const]
  const choices = [schema.anyOf, schema.oneOf].find(Array.isArray)
  if (choices && depth < MAX_DEPTH) {
    const known = choices
      .map((each: unknown) => resolved(each, root))
      .filter((each) => each !== undefined && each.type !== 'null')
      .map((each) => (each ? valuesOf(each, root, budget, depth + 1) : undefined))
    return known.length > 0 && known.every((each) => each !== undefined) ? known.flat() : undefined
  }
  const items = schema.type === 'array' ? resolved(schema.items, root) : undefined
  return items && depth < MAX_DEPTH ? valuesOf(items, root, budget, depth + 1) : undefined
}

/** A schema, or the one in the same document that it refers to. */
function resolved(given: unknown, root: unknown): Schema | undefined {
  if (!isObject(given)) return undefined
  const { $ref: reference } = given
  const isInside = typeof reference === 'string' && reference.startsWith('#')
  const found = isInside ? referredTo(reference, root) : given
  return isObject(found) ? found : undefined
}
