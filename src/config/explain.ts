/** Messages for violations of the schema, with suggestions. */
import { isObject } from '../core/json/json.ts'
import { ExactNumber } from '../core/json/exact-number.ts'
import { type JsonSchema, type SchemaProblem, validator } from '../core/schema/schema.ts'
import { upstreamName } from './names.ts'
import { nearest } from '../core/text/words.ts'
import type { Finding } from './problem.ts'
import { narrowed, schemaAt, schemaOf } from './schema-lookup.ts'

/** Finds what violates the schema, and how to fix it. */
export function misfitsOf(value: unknown, schema: JsonSchema): Finding[] {
  const check = validator(narrowed(schema, value), { trusted: true })
  return explain(check(withoutLongNumbers(value)), schema, value)
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
  return withoutEchoes(problems).map((problem) => {
    const owner = schemaAt(problem.schemaPath.replace(/\/[^/]*$/, ''), schema)
    return finding(problem, isObject(owner) ? owner : {}, valueAt(value, problem.path))
  })
}

function finding(
  { path, keyword, params, message }: SchemaProblem,
  schema: JsonSchema,
  value: unknown,
): Finding {
  if (keyword === 'additionalProperties' || keyword === 'unevaluatedProperties') {
    const key = String(params.additionalProperty ?? params.unevaluatedProperty)
    return { path: [...path, key], at: 'key', message: unknownKey(key, schema) }
  }
  if (keyword === 'propertyNames') return badName(path, String(params.propertyName), schema)
  if (keyword === 'required') {
    return { path, at: 'key', message: missing(String(params.missingProperty), schema) }
  }
  if (value instanceof ExactNumber) return { path, message: TOO_LONG }
  if (keyword === 'enum') return { path, message: notAmong(schema.enum, value) }
  if (typeof schema.errorMessage === 'string') return { path, message: schema.errorMessage }
  if (keyword === 'anyOf' || keyword === 'oneOf') return { path, message: choiceWords(schema[keyword]) }
  return { path, message: generic(keyword, params) ?? message }
}

const TOO_LONG = 'has more digits than a number here can have: shorten it, or put it in quotes if it is text'

function unknownKey(key: string, { properties }: JsonSchema): string {
  const known = isObject(properties) ? Object.keys(properties) : []
  const meant = nearest(key, known)
  if (meant !== undefined) return `unknown key; did you mean \`${meant}\`?`
  return known.length === 0
    ? 'unknown key; no keys are allowed here'
    : `unknown key; allowed here: ${known.join(', ')}`
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

function notAmong(allowed: unknown, value: unknown): string {
  const words = Array.isArray(allowed) ? allowed.map(String) : []
  const meant = typeof value === 'string' ? nearest(value, words) : undefined
  const list = `must be one of ${words.join(', ')}`
  return meant === undefined ? list : `${list}; did you mean \`${meant}\`?`
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
function withoutEchoes(problems: readonly SchemaProblem[]): SchemaProblem[] {
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
