/**
 * A JSON Schema in the subset of OpenAPI 3.0 that Gemini takes (https://ai.google.dev/api/caching#Schema): one type for each
 * schema and the keywords of that type alone, `enum` of text, alternatives as `anyOf` without anything beside it. It accepts
 * all that the schema accepts: types in a list become alternatives, parts of `allOf` are united, and what cannot be said is
 * left out. Values and formats that are left out are in the description.
 */
import { isNumber } from '../core/json/exact-number.ts'
import { asObject, exactly, isObject, pointerSegment } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { shortened } from '../core/text/escape.ts'
import { MIRROR, withSentence, without } from './schema-root.ts'

/** How a schema is written. */
export interface SubsetOptions {
  /** How it permits `null`: with `nullable`, or by an alternative of this type. */
  readonly nulls: 'nullable' | 'alternative'
  /** Called with what is left out: where, as a JSON pointer in the schema, and in words. */
  onChange(pointer: string, what: string): void
}

/** What says something about a schema, and restricts nothing. */
const ANNOTATIONS = ['title', 'description', 'default', MIRROR]
/** Members beside those of each type that are replaced without loss. */
const REPLACED = ['type', 'nullable', 'anyOf', 'oneOf', 'allOf', 'const', 'enum', '$schema']
/** The keywords of each type, with the formats that Gemini takes. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern'],
  number: ['minimum', 'maximum'],
  integer: ['minimum', 'maximum'],
  boolean: [],
  array: ['items', 'minItems', 'maxItems'],
  object: ['properties', 'required', 'minProperties', 'maxProperties'],
  null: [],
}
const FORMATS: Readonly<Record<string, readonly string[]>> = {
  string: ['date-time'],
  number: ['float', 'double'],
  integer: ['int32', 'int64'],
}
const TYPES = Object.keys(KEYWORDS)
/** Keywords of which something is kept, and which alternatives may not be beside. */
const RESTRICTING = new Set([
  ...Object.values(KEYWORDS).flat(),
  ...['prefixItems', 'exclusiveMinimum', 'exclusiveMaximum', 'const', 'enum'],
])
/** The maximum number of values in a description, and the length of what it says. */
const MAX_DESCRIBED = 20
const MAX_NOTE_LENGTH = 300

/** The schema of an argument, or of all arguments, in the subset. */
export function inSubset(schema: Fields, options: SubsetOptions): Fields {
  return converted(schema, '', options)
}

/** A schema in the subset, which has no schema for `null` alone where that is not an alternative. */
function converted(given: unknown, at: string, options: SubsetOptions): Fields {
  const found = alternative(given, at, options)
  const isNull = found.type === 'null' && options.nulls === 'nullable'
  return isNull ? { ...found, type: 'string', nullable: true } : found
}

/** A schema in the subset, or that of `null`. */
function alternative(given: unknown, at: string, options: SubsetOptions): Fields {
  const rules = united(given)
  const key = ['anyOf', 'oneOf'].find((each) => Array.isArray(rules[each]))
  const notes = pick(rules, ANNOTATIONS)
  const own = without(rules, [...ANNOTATIONS, 'anyOf', 'oneOf'])
  const choices = key === undefined ? undefined : rules[key]
  if (Array.isArray(choices) && !Object.keys(own).some((each) => RESTRICTING.has(each))) {
    const branches = [...choices, ...(own.nullable === true ? [{ type: 'null' }] : [])]
      .filter((each) => each !== false)
      .map((each: unknown, index) => alternative(typed(each, own), `${at}/${key}/${index}`, options))
    if (branches.length > 0) return together(branches, notes, options)
  }
  if (key !== undefined) options.onChange(`${at}/${key}`, 'is beside other rules: removed')
  return byType(own, { notes, at }, options)
}

/** An alternative with the type that is required beside it. */
function typed(branch: unknown, { type }: Fields): unknown {
  return isObject(branch) && type !== undefined && !Object.hasOwn(branch, 'type')
    ? { type, ...branch }
    : branch
}

/** A schema with the rules of its `allOf`. Of two rules about the same, one is enough: it accepts more. */
function united(given: unknown): Fields {
  const { allOf, ...rules } = asObject(given)
  if (!Array.isArray(allOf)) return rules
  // The first of them takes precedence, after the schema itself.
  const parts = [...allOf.map(united).toReversed(), rules]
  const properties = merged(parts.map((part) => asObject(part.properties)))
  const required = [...new Set(parts.flatMap((part) => part.required ?? []))]
  return {
    ...merged(parts),
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  }
}

function merged(parts: readonly Fields[]): Fields {
  return Object.fromEntries(parts.flatMap((part) => Object.entries(part)))
}

interface Described {
  /** The annotations of the schema. */
  readonly notes: Fields
  readonly at: string
}

/** The rules of each type that a schema admits, as alternatives. */
function byType(rules: Fields, { notes, at }: Described, options: SubsetOptions): Fields {
  const values = valuesOf(rules)
  const types = typesOf(rules, values)
  const known = [...types.flatMap((type) => KEYWORDS[type] ?? []), ...REPLACED]
  const lost = Object.keys(rules).filter((key) => !known.includes(key))
  const branches = types.map((type) => ofType(type, { rules, values, at }, options))
  const isListed = branches.every((each) => each.type === 'null' || Object.hasOwn(each, 'enum'))
  const isFormatted = branches.some((each) => Object.hasOwn(each, 'format'))
  const words = [
    values !== undefined && !isListed && valuesText(values),
    typeof rules.format === 'string' && !isFormatted && `Format: ${rules.format}.`,
  ]
  const sentence = words.filter((each) => typeof each === 'string').join(' ')
  const gone = [
    ...lost.filter((key) => key !== 'format' || !isFormatted),
    ...(values && !isListed ? ['enum'] : []),
  ]
  if (gone.length > 0) options.onChange(at, `has ${gone.join(', ')}, which Gemini does not take: removed`)
  const description = sentence === '' ? notes.description : withSentence(notes.description, sentence)
  const described = description === undefined ? notes : { ...notes, description }
  return branches.length === 0 ? described : together(branches, described, options)
}

/** The values that fit, if the schema lists them. */
function valuesOf(rules: Fields): readonly unknown[] | undefined {
  if (Object.hasOwn(rules, 'const')) return [rules.const]
  return Array.isArray(rules.enum) ? rules.enum : undefined
}

/** The types that a schema admits; none if that is not known, and does not matter. */
function typesOf(rules: Fields, values: readonly unknown[] | undefined): readonly string[] {
  const listed = [rules.type ?? []].flat().filter((type) => typeof type === 'string')
  const isAny = listed.length === 0
  const nulls = rules.nullable === true && !listed.includes('null') ? ['null'] : []
  if (values) {
    const fitting = (isAny ? TYPES : listed).filter((type) => values.some((value) => isOfType(value, type)))
    // An integer is a number as well: one of the two is enough.
    return fitting.filter((type) => type !== 'integer' || !isAny || !fitting.includes('number')).concat(nulls)
  }
  if (!isAny) return [...listed, ...nulls]
  const isStructured = ['properties', 'items', 'prefixItems'].some((key) => Object.hasOwn(rules, key))
  return isStructured ? TYPES.filter((type) => type !== 'integer') : []
}

function isOfType(value: unknown, type: string): boolean {
  if (isNumber(value)) return type === 'number' || (type === 'integer' && Number.isInteger(Number(value)))
  if (value === null) return type === 'null'
  return type === (Array.isArray(value) ? 'array' : typeof value)
}

interface Rules {
  readonly rules: Fields
  readonly values: readonly unknown[] | undefined
  readonly at: string
}

/** The rules for values of one type. */
function ofType(type: string, { rules, values, at }: Rules, options: SubsetOptions): Fields {
  const kept: Record<string, unknown> = { type, ...pick(rules, KEYWORDS[type] ?? []) }
  if (typeof rules.format === 'string' && FORMATS[type]?.includes(rules.format) === true)
    kept.format = rules.format
  if (type === 'string' && values) {
    const texts = values.filter((value) => typeof value === 'string')
    // Gemini refuses an empty value.
    if (!texts.includes('')) kept.enum = texts
  }
  if (type === 'number' || type === 'integer') return { ...kept, ...boundsOf(rules) }
  for (const key of COUNTS) if (Number(kept[key] ?? 0) > Number.MAX_SAFE_INTEGER) delete kept[key]
  if (type === 'array') kept.items = itemsOf(rules, at, options)
  if (type === 'object' && isObject(rules.properties))
    kept.properties = Object.fromEntries(
      Object.entries(rules.properties).map(([name, each]) => [
        name,
        converted(each, `${at}/properties/${pointerSegment(name)}`, options),
      ]),
    )
  return kept
}

const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties']

/** The bounds of a number; those that exclude their value include it. */
function boundsOf(rules: Fields): Fields {
  const bound = (key: 'minimum' | 'maximum', exclusive: string): Fields => {
    const value = Object.hasOwn(rules, key) ? rules[key] : rules[exclusive]
    return value === undefined ? {} : { [key]: value }
  }
  return { ...bound('minimum', 'exclusiveMinimum'), ...bound('maximum', 'exclusiveMaximum') }
}

/** What each item fits: the schema of its place, or that of the rest. */
function itemsOf({ items, prefixItems }: Fields, at: string, options: SubsetOptions): Fields {
  if (!Array.isArray(prefixItems)) return converted(items, `${at}/items`, options)
  const all = [...prefixItems, ...(items === false ? [] : [items ?? {}])]
  return converted({ anyOf: all }, `${at}/prefixItems`, options)
}

/** Alternatives as one schema, with annotations. */
function together(given: readonly Fields[], notes: Fields, { nulls }: SubsetOptions): Fields {
  const flat = given.flatMap((each) => (Array.isArray(each.anyOf) ? each.anyOf.map(asObject) : [each]))
  const others = flat.filter(({ type }) => type !== 'null')
  const isNullable = others.length < flat.length || others.some((each) => each.nullable === true)
  // What may be anything is an alternative to nothing.
  if (others.some(({ type }) => type === undefined)) return notes
  const distinct = [...new Map(others.map((each) => [exactly(each), each])).values()]
  const isInTurn = nulls === 'nullable' && distinct.length > 0
  const branches = isInTurn
    ? distinct.map((each) => (isNullable ? { ...each, nullable: true } : each))
    : [...distinct, ...(isNullable ? [{ type: 'null' }] : [])]
  const [first = {}, ...rest] = branches
  if (rest.length === 0) return { ...first, ...notes }
  // Vertex AI refuses everything beside anyOf.
  return isInTurn ? { anyOf: [{ ...notes, ...first }, ...rest] } : { ...notes, anyOf: branches }
}

function valuesText(values: readonly unknown[]): string {
  const listed = values.slice(0, MAX_DESCRIBED).map((value) => JSON.stringify(value))
  const more = values.length > MAX_DESCRIBED ? ' …' : ''
  return shortened(`One of ${listed.join(', ')}${more}.`, MAX_NOTE_LENGTH)
}

function pick(given: Fields, keys: readonly string[]): Fields {
  return Object.fromEntries(
    keys.flatMap((key) => (Object.hasOwn(given, key) ? [[key, given[key]] as const] : [])),
  )
}
