/**
 * The tables of settings in `docs/configuration.md`, from the JSON Schema of the configuration. A table is between two marks,
 * of which the first names keys: `<!-- settings: listen auth -->`. It has a row for each of them and for each key below them,
 * except those of another table: `upstreams.<name>.limits` has one row, as the members are those of `limits`.
 */
import { fileSchema } from '../src/config/schema.ts'
import { resolved } from '../src/config/schema-lookup.ts'
import { isObject } from '../src/core/json/json.ts'
import type { JsonSchema } from '../src/core/schema/schema.ts'
import { featureSchemas } from '../src/features/settings.ts'

const root = fileSchema(featureSchemas)

/** What stands for any name in a key, such as that of a server. */
const ANY_NAME = '<name>'
const SERVER = `upstreams.${ANY_NAME}.`

/** The page with its tables as the schema is. */
export function withSettings(page: string): string {
  const table = /(<!-- settings: (.*) -->\n)[^]*?(?=<!-- end of settings -->)/g
  const described = new Set([...page.matchAll(table)].flatMap(([, , keys = '']) => keys.split(' ')))
  return page.replace(table, (_old, mark: string, keys: string) => {
    const rows = keys.split(' ').flatMap((key) => rowsOf(key, schemaAt(key), described))
    return `${mark}\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n${rows.join('\n')}\n\n`
  })
}

function schemaAt(key: string): JsonSchema {
  return key.split('.').reduce<JsonSchema>((schema, name) => {
    const found = new Map(membersOf(schema)).get(name)
    if (!found) throw new TypeError(`The schema has no ${key}`)
    return found
  }, root)
}

/** The row of a key, if it has a description, and those of its members. */
function rowsOf(key: string, schema: JsonSchema, described: ReadonlySet<string>): string[] {
  const isOverride = key.startsWith(SERVER) && described.has(key.slice(SERVER.length))
  const members = (isOverride ? [] : membersOf(schema))
    .filter(([name]) => !described.has(`${key}.${name}`))
    .flatMap(([name, member]) => rowsOf(`${key}.${name}`, member, described))
  return schema.description === undefined ? members : [row(key, schema), ...members]
}

/** What can be below a key: its members, those of the items of a list, and what any name stands for. */
function membersOf(schema: JsonSchema): [string, JsonSchema][] {
  const { properties, additionalProperties: others, items, anyOf, oneOf } = schema
  const named = isObject(properties) ? Object.entries(properties) : []
  const any: [string, unknown][] = isObject(others) ? [[ANY_NAME, others]] : []
  const own = [...named, ...any].flatMap(([name, member]): [string, JsonSchema][] =>
    isObject(member) && !isForbidden(member) ? [[name, resolved(member, root)]] : [],
  )
  const inside = [items, ...[anyOf, oneOf].filter(Array.isArray).flat()].filter(isObject)
  const all = [...own, ...inside.flatMap((each) => membersOf(resolved(each, root)))]
  return [...new Map(all)]
}

/** Whether the schema accepts nothing: a setting of the gateway alone, in the settings of a server. */
function isForbidden({ not }: JsonSchema): boolean {
  return isObject(not) && Object.keys(not).length === 0
}

function row(key: string, schema: JsonSchema): string {
  const values = [...new Set(valuesOf(schema))].join(', ')
  const everywhere = schema['x-gateway'] === true ? ' For all servers.' : ''
  const meaning = `${String(schema.description)}${everywhere}`
  const cells = [`\`${key}\``, values, defaultOf(schema), meaning].map((cell) => cell.replaceAll('|', '\\|'))
  return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
}

const units: Readonly<Record<string, string>> = { milliseconds: 'duration', bytes: 'size', rate: 'rate' }
const types: Readonly<Record<string, string>> = {
  boolean: '`on`, `off`',
  integer: 'number',
  number: 'number',
  string: 'text',
  array: 'list',
  object: 'mapping',
}

/** The values that a setting can have, in words. */
function valuesOf(schema: JsonSchema): string[] {
  const { enum: words, const: word, type, pattern, anyOf, oneOf } = schema
  if (Array.isArray(words))
    return words.filter((each) => each !== false).map((each) => `\`${switchOr(each)}\``)
  if (word !== undefined) return [`\`${JSON.stringify(word)}\``]
  const unit = units[String(schema['x-unit'])]
  const off = typeof pattern === 'string' && pattern.startsWith('^off$|') ? ['`off`'] : []
  if (unit !== undefined) return [unit, ...off]
  const branches = [anyOf, oneOf].filter(Array.isArray).flat().filter(isObject)
  if (branches.length > 0) return branches.flatMap((each) => valuesOf(resolved(each, root)))
  const [, listed] = /^\^\(?((?:[a-z_]+\|)*[a-z_]+)\)?\$$/.exec(String(pattern)) ?? []
  const switches = (listed ?? '').split('|').filter((each) => !['', 'true', 'false'].includes(each))
  const given = [type].flat().map(String)
  if (switches.length === 0) return given.flatMap((each) => types[each] ?? [])
  const others = given.filter((each) => each !== 'string' && each !== 'boolean')
  return [...others.flatMap((each) => types[each] ?? []), ...switches.map((each) => `\`${each}\``)]
}

function defaultOf({ default: value }: JsonSchema): string {
  if (value === undefined) return ''
  if (typeof value !== 'object') return `\`${switchOr(value)}\``
  return Object.keys(value ?? {}).length === 0
    ? ''
    : `\`${JSON.stringify(value).replaceAll('"', '').replaceAll(/[:,]/g, '$& ')}\``
}

function switchOr(value: unknown): string {
  return value === true ? 'on' : value === false ? 'off' : String(value)
}
