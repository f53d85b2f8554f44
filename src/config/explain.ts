/** Messages for violations of the schema, with suggestions. */
import { asObject, isObject } from '../core/json/json.ts'
import { ExactNumber } from '../core/json/exact-number.ts'
import { type JsonSchema, type SchemaProblem, validator } from '../core/schema/schema.ts'
import { upstreamName } from './names.ts'
import { nearest } from '../core/text/words.ts'
import { type Finding, withoutEchoes } from './problem.ts'
import { narrowed, resolved, schemaAt, schemaOf } from './schema-lookup.ts'
import { bytes, durationText, meantQuantity, meantRate, milliseconds, sizeText } from '../core/time/units.ts'

/** Finds what violates the schema, and how to fix it. */
export function misfitsOf(value: unknown, schema: JsonSchema): Finding[] {
  const check = validator(narrowed(schema, value), { trusted: true })
  return withoutEchoes(explain(check(withoutLongNumbers(value)), schema, value), outOfRange(value, schema))
}

/** Durations and sizes outside of the range of their setting (`x-least`, `x-most`). */
function outOfRange(root: unknown, schema: JsonSchema): Finding[] {
  const visit = (value: unknown, given: JsonSchema, path: readonly string[]): Finding[] => {
    const rules = resolved(given, schema)
    const branches = [rules.anyOf, rules.oneOf, rules.allOf].filter(Array.isArray).flat().filter(isObject)
    const inBranches = branches.flatMap((branch) => visit(value, branch, path))
    if (Array.isArray(value)) {
      const { items } = rules
      const found = isObject(items) ? value.map((item, at) => visit(item, items, [...path, String(at)])) : []
      return [...inBranches, ...found.flat()]
    }
    if (isObject(value)) {
      const found = Object.entries(value).flatMap(([key, each]) => {
        const own = schemaOf(rules, key)
        return own ? visit(each, own, [...path, key]) : []
      })
      return [...inBranches, ...found]
    }
    const message = rangeMistake(value, rules)
    return message === undefined ? inBranches : [...inBranches, { path, message }]
  }
  return visit(root, schema, [])
}

const DAY_MS = 86_400_000

function rangeMistake(value: unknown, schema: JsonSchema): string | undefined {
  const { pattern, 'x-unit': unit, 'x-least': least = 0, 'x-most': most = Infinity } = schema
  const isSize = unit === 'bytes'
  if ((!isSize && unit !== 'milliseconds') || typeof least !== 'number' || typeof most !== 'number')
    return undefined
  const isBare = isSize && Number.isSafeInteger(value) && Number(value) >= 0
  const isText = typeof value === 'string' && value !== 'off' && new RegExp(String(pattern)).test(value)
  if (!isBare && !isText) return undefined
  const quantity = isSize ? bytes(isBare ? Number(value) : String(value)) : milliseconds(String(value))
  if (quantity >= least && quantity <= most) return undefined
  const text = isSize ? sizeText : (each: number) => (each === DAY_MS ? '24h' : durationText(each))
  const range =
    most === Infinity ? `must be at least ${text(least)}` : `must be from ${text(least)} to ${text(most)}`
  return isBare ? `${range}: a number without a unit is bytes` : range
}

/** A value in which numbers that a double cannot hold are of a type that no setting has. */
function withoutLongNumbers(value: unknown): unknown {
  if (value instanceof ExactNumber) return 0n
  if (Array.isArray(value)) return value.map(withoutLongNumbers)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutLongNumbers(each)]))
}

/** Explains violations of the schema. */
function explain(problems: readonly SchemaProblem[], schema: JsonSchema, value: unknown): Finding[] {
  return withoutOtherBranches(problems).map((problem) => {
    const owner = schemaAt(problem.schemaPath.replace(/\/[^/]*$/, ''), schema)
    return finding(problem, asObject(owner), {
      root: schema,
      value: valueAt(value, problem.path),
    })
  })
}

function finding(
  { path, keyword, params, message }: SchemaProblem,
  schema: JsonSchema,
  { root, value }: { readonly root: JsonSchema; readonly value: unknown },
): Finding {
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties') {
    const key = String(params.additionalProperty ?? params.unevaluatedProperty)
    return { path: [...path, key], at: 'key', message: unknownKey(key, schema, root) }
  }
  if (keyword === 'propertyNames') return badName(path, String(params.propertyName), schema)
  if (keyword === 'required') {
    return { path, at: 'key', message: missing(String(params.missingProperty), schema) }
  }
  if (value instanceof ExactNumber) return { path, message: TOO_LONG }
  if (keyword === 'enum') return { path, message: notAmong(schema, value) }
  if (typeof schema.errorMessage === 'string')
    return { path, message: withMeant(schema.errorMessage, meantBy(value, schema)) }
  if (keyword === 'anyOf' || keyword === 'oneOf') return { path, message: choiceWords(schema[keyword]) }
  return { path, message: generic(keyword, params) ?? message }
}

const TOO_LONG = 'has more digits than a number here can have: shorten it, or put it in quotes if it is text'

/** How many keys a message lists; where there are more, the page of the configuration has them. */
const MAX_LISTED_KEYS = 16

function unknownKey(key: string, schema: JsonSchema, root: JsonSchema): string {
  const { properties, 'x-instead': instead } = schema
  const known = isObject(properties) ? Object.keys(properties) : []
  const advice = isObject(instead) && Object.hasOwn(instead, key) ? instead[key] : undefined
  if (typeof advice === 'string') return `unknown key: ${advice}`
  const meant = nearest(key, known)
  if (meant !== undefined) return `unknown key; did you mean \`${meant}\`?`
  const section = known.find((each) => hasKey(schemaOf(schema, each), key, root))
  if (section !== undefined) return `unknown key; did you mean \`${section}: { ${key}: … }\`?`
  if (known.length === 0) return 'unknown key; no keys are allowed here'
  const more = known.length - MAX_LISTED_KEYS
  const rest = more > 0 ? `, and ${more} more, which docs/configuration.md lists` : ''
  return `unknown key; allowed here: ${known.slice(0, MAX_LISTED_KEYS).join(', ')}${rest}`
}

function hasKey(section: JsonSchema | undefined, key: string, root: JsonSchema): boolean {
  const { properties } = section ? resolved(section, root) : {}
  return isObject(properties) && Object.hasOwn(properties, key)
}

function missing(key: string, schema: JsonSchema): string {
  const rule = schemaOf(schema, key)?.errorMessage
  return typeof rule === 'string' ? `needs \`${key}\`, which ${rule}` : `needs \`${key}\``
}

function badName(path: readonly string[], name: string, { propertyNames }: JsonSchema): Finding {
  const rule = isObject(propertyNames) ? propertyNames.errorMessage : undefined
  const message = typeof rule === 'string' ? `the name ${rule}` : 'this name cannot be used'
  const isUpstream = path.length === 1 && path[0] === 'upstreams'
  const advice = isUpstream ? `; for example \`${upstreamName(name)}\`` : ''
  return { path: [...path, name], at: 'key', message: message + advice }
}

function notAmong(schema: JsonSchema, value: unknown): string {
  const words = Array.isArray(schema.enum) ? schema.enum.map(String) : []
  return withMeant(`must be one of ${words.join(', ')}`, meantBy(value, schema))
}

function withMeant(message: string, meant: string | undefined): string {
  return meant === undefined ? message : `${message}; did you mean \`${meant}\`?`
}

/** The permitted value that is probably meant: the nearest word, one that means the same, or a quantity in another notation. */
function meantBy(value: unknown, schema: JsonSchema): string | undefined {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean') return undefined
  const written = String(value).trim()
  const unit = schema['x-unit']
  if (unit !== undefined && typeof value !== 'boolean') {
    const quantity = unit === 'rate' ? meantRate(written) : meantQuantity(written, unit)
    if (quantity !== undefined) return quantity
  }
  const words = wordsOf(schema)
  const same = words.find((word) => word.toLowerCase() === written.toLowerCase())
  const [first = ''] = written.split(/[\s,.!]/, 1)
  return (
    same ??
    synonymOf(first, words) ??
    nearest(written, words) ??
    nearest(first, words) ??
    synonymOf(nearest(first, SWITCH_WORDS) ?? '', words)
  )
}

/** The words that a schema permits, apart from free text. */
function wordsOf(schema: JsonSchema): readonly string[] {
  if (Array.isArray(schema.enum)) return schema.enum.filter((each) => typeof each === 'string')
  if (Array.isArray(schema['x-words'])) return schema['x-words'].map(String)
  const { pattern } = schema
  if (typeof pattern !== 'string') return []
  const listed = /\^\(?(?:\?:)?((?:[a-z_]+\|)*[a-z_]+)\)?\$/.exec(pattern)?.[1]?.split('|') ?? []
  return listed.filter((word) => word !== 'true' && word !== 'false')
}

/** Words of other formats, such as the booleans of YAML 1.1, and the words for the same here, in the order of preference. */
const synonyms: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^(?:no?|nope|off|false|never|none|null|disabled?|deny|skip|0)$/i, ['never', 'off', 'none', 'deny']],
  [/^(?:y|yes|on|true|always|enabled?|required?|ask|prompt|confirm|1)$/i, ['on', 'always', 'auto']],
]

const SWITCH_WORDS = ['true', 'false', 'yes', 'always', 'never', 'enabled', 'disabled']

function synonymOf(written: string, words: readonly string[]): string | undefined {
  const [, same = []] = synonyms.find(([pattern]) => pattern.test(written)) ?? []
  return same.find((word) => words.includes(word))
}

function generic(keyword: string, params: SchemaProblem['params']): string | undefined {
  const limit = String(params.limit)
  if (keyword === 'type') return `must be ${typeWords(params.type)}`
  if (keyword === 'const') return `must be ${JSON.stringify(params.allowedValue)}`
  if (keyword === 'minimum') return `must be at least ${limit}`
  if (keyword === 'maximum') return `must be at most ${limit}`
  if (keyword === 'exclusiveMinimum') return `must be more than ${limit}`
  if (keyword === 'exclusiveMaximum') return `must be less than ${limit}`
  if (keyword === 'minLength')
    return limit === '1' ? 'must not be empty' : `must have at least ${limit} characters`
  if (keyword === 'minItems' || keyword === 'minProperties') return `must have at least ${limit}`
  return undefined
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'text (put it in quotes)',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'on or off',
  object: 'a mapping',
  array: 'a list',
  null: 'empty',
}

function typeWords(types: unknown): string {
  const names = Array.isArray(types) ? types.map(String) : String(types).split(',')
  return names.map((name) => typeNames[name] ?? name).join(' or ')
}

function choiceWords(choices: unknown): string {
  const ways = (Array.isArray(choices) ? choices : []).filter(isObject).map((way) => {
    if (Array.isArray(way.enum)) return way.enum.map(String).join(', ')
    if (way.const !== undefined) return JSON.stringify(way.const)
    return typeof way.errorMessage === 'string'
      ? way.errorMessage.replace(/^must be /, '')
      : typeWords(way.type)
  })
  return `must be ${ways.join(', or ')}`
}

// A choice reports one problem for itself and others for each alternative: the alternative that matches the type of the value is the most relevant.
function withoutOtherBranches(problems: readonly SchemaProblem[]): SchemaProblem[] {
  const choices = problems.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')
  const dropped = new Set<SchemaProblem>()
  for (const choice of choices) {
    const inside = problems.filter(({ schemaPath }) => schemaPath.startsWith(`${choice.schemaPath}/`))
    const meant = branchMeant(choice, inside)
    for (const problem of inside)
      if (meant === undefined || branchOf(problem, choice) !== meant) dropped.add(problem)
    if (meant !== undefined) dropped.add(choice)
  }
  return problems.filter((problem) => {
    return (
      !dropped.has(problem) && !/\/propertyNames\/[^/]+$/.test(problem.schemaPath) && problem.keyword !== 'if'
    )
  })
}

function branchOf(problem: SchemaProblem, choice: SchemaProblem): string {
  return problem.schemaPath.slice(choice.schemaPath.length + 1).split('/')[0] ?? ''
}

function branchMeant(choice: SchemaProblem, inside: readonly SchemaProblem[]): string | undefined {
  const branches = new Set(inside.map((problem) => branchOf(problem, choice)))
  const depth = choice.path.length
  return [...branches].find((branch) => {
    const own = inside.filter((problem) => branchOf(problem, choice) === branch)
    return own.every(
      ({ path, keyword }) => path.length > depth || !['type', 'enum', 'const'].includes(keyword),
    )
  })
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let found = value
  for (const segment of path) {
    if (Array.isArray(found)) found = found[Number(segment)]
    else found = isObject(found) ? found[segment] : undefined
  }
  return found
}
