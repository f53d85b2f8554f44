/**
 * Arguments as tables, logs, histories and questions show them: without those that are secrets by their name, or by the
 * schema of their tool (`format: password`, `writeOnly: true`). Calls, and what undoes or repeats them, have the values.
 */
import { isObject, members, referredTo } from './json/json.ts'
import { shortened } from './text/escape.ts'
import { isSecretMember, MASK } from './text/redactor.ts'

type Fields = Readonly<Record<string, unknown>>

const MAX_DEPTH = 16
/** Subschemas whose properties belong to the same arguments, and maps of such schemas. */
const INNER = ['items', 'additionalProperties', 'allOf', 'anyOf', 'oneOf', 'prefixItems', 'then', 'else']
const MAPS = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']

/** The names of the arguments that are secrets by a JSON Schema, at any depth. */
export function secretNames(schema: unknown): readonly string[] {
  if (!isObject(schema)) return noNames
  const names = known.get(schema) ?? findNames(schema)
  known.set(schema, names)
  return names
}

const known = new WeakMap<object, readonly string[]>()
const noNames: readonly string[] = Object.freeze([])

function findNames(schema: Fields): readonly string[] {
  const found = new Set<string>()
  const visit = (each: unknown, depth: number): void => {
    if (depth > MAX_DEPTH) return
    if (Array.isArray(each)) for (const item of each) visit(item, depth + 1)
    if (!isObject(each)) return
    for (const key of INNER) visit(each[key], depth + 1)
    for (const key of MAPS) {
      const map = each[key]
      if (!isObject(map)) continue
      for (const [name, inner] of Object.entries(map)) {
        if (key === 'properties' && isSecret(inner, schema)) found.add(name)
        visit(inner, depth + 1)
      }
    }
  }
  visit(schema, 0)
  return [...found]
}

/** Whether a schema, or one that it consists of, says that a value is a secret. */
function isSecret(schema: unknown, root: Fields, seen = new Set<unknown>(), depth = 0): boolean {
  if (!isObject(schema) || depth > MAX_DEPTH || seen.has(schema)) return false
  seen.add(schema)
  const { format, writeOnly, items, additionalProperties, patternProperties, $ref } = schema
  if (format === 'password' || writeOnly === true) return true
  const parts: readonly unknown[] = ['anyOf', 'oneOf', 'allOf', 'prefixItems'].flatMap(
    (key) => schema[key] ?? [],
  )
  const others = [
    items,
    additionalProperties,
    ...(isObject(patternProperties) ? Object.values(patternProperties) : []),
  ]
  const referred = typeof $ref === 'string' ? referredTo($ref, root) : undefined
  return [...parts, ...others, referred].some((part) => isSecret(part, root, seen, depth + 1))
}

/** The same arguments if none is a secret; `names` are those of `secretNames`. */
export function maskedArguments<Given>(given: Given, names: readonly string[] = []): Given {
  // Only values are replaced, so the type stays the same.
  return masked(given, names, 0) as Given
}

function masked(given: unknown, names: readonly string[], depth: number): unknown {
  if (typeof given !== 'object' || given === null) return given
  if (depth > MAX_DEPTH) return MASK
  if (Array.isArray(given)) {
    const items = given.map((item) => masked(item, names, depth + 1))
    return items.every((item, at) => item === given[at]) ? given : items
  }
  if (!isObject(given)) return given
  let isChanged = false
  const entries = Object.entries(given).map(([key, value]) => {
    const shown = isSecretArgument(key, value, names) ? MASK : masked(value, names, depth + 1)
    isChanged ||= shown !== value
    return [key, shown] as const
  })
  return isChanged ? Object.fromEntries(entries) : given
}

function isSecretArgument(key: string, value: unknown, names: readonly string[]): boolean {
  return isSecretMember(key, value) || (names.includes(key) && value !== undefined && value !== null)
}

/** The text of arguments without secrets; everything else keeps its text. */
export function maskedText(text: string, given: Fields, names: readonly string[] = []): string {
  const shown = maskedArguments(given, names)
  if (shown === given) return text
  let result = ''
  let done = 0
  for (const { key, valueStart, end } of members(text)) {
    // Of duplicate keys, only the last value is known.
    if (shown[key] === given[key]) continue
    result += text.slice(done, valueStart) + JSON.stringify(shown[key])
    done = end
  }
  return result + text.slice(done)
}

/** A call of a tool for display; `secrets` are the names of arguments that are secrets by its schema (`secretNames`). */
export function displayCall(
  tool: string,
  given: Readonly<Record<string, unknown>>,
  { secrets = [] }: { readonly secrets?: readonly string[] | undefined } = {},
): string {
  const displayed = Object.entries(maskedArguments(given, secrets))
    .slice(0, MAX_DISPLAYED_ARGUMENTS)
    .map(([name, value]) => `${name}=${shortened(JSON.stringify(value) ?? 'null', MAX_SHOWN_LENGTH)}`)
  const rest = Object.keys(given).length > MAX_DISPLAYED_ARGUMENTS ? ', …' : ''
  return `${tool}(${displayed.join(', ')}${rest})`
}

/** The maximum number of displayed arguments, and the maximum length of each, in characters. */
const MAX_DISPLAYED_ARGUMENTS = 10
const MAX_SHOWN_LENGTH = 60
