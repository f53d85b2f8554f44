/**
 * Values that fit a JSON Schema: from what the schema gives (const, enum, examples, default), or else the smallest one
 * of its type. The caller validates them: keywords that are not read here, such as `not` or `dependentSchemas`, may
 * exclude a value.
 */
import type { Fields } from '../../core/payload.ts'
import { isObject, referredTo } from '../../core/json/json.ts'
import { longIntegerFor } from '../../core/schema/exact-bound.ts'
import { validator } from '../../core/schema/schema.ts'

/** Which members of objects a value has. */
type Extent = 'required' | 'all'

/** The schema that references in it refer to, and how much of a value to make. */
export interface Sampling {
  readonly root: Fields
  readonly extent: Extent
}

/** Below this depth, objects have only required members, and lists no items beyond the required ones. */
const MAX_FULL_DEPTH = 4
/** No value is made below this depth: schemas can contain themselves. */
const MAX_DEPTH = 12
const MAX_REFERENCES = 16
/** The maximum number of items and characters that are made to reach a minimum. */
const MAX_ITEMS = 100
const MAX_LENGTH = 100_000

/** A value that fits a schema; undefined if none can be made. `name` is that of its member, which may hint at a format. */
export function sampleOf(schema: unknown, sampling: Sampling, name = '', depth = 0): unknown {
  if (schema === true) return 'text'
  const own = resolved(schema, sampling.root)
  if (!own || depth > MAX_DEPTH) return undefined
  for (const given of givenValues(own)) if (fits(given, own, sampling.root)) return given
  return typeOf(own) === 'object'
    ? objectOf(own, sampling, depth)
    : plainValue(own, { sampling, name, depth })
}

/** A schema with its references followed, and the first usable alternative of it merged; undefined for none. */
export function resolved(schema: unknown, root: Fields, depth = 0): Fields | undefined {
  if (!isObject(schema) || depth > MAX_REFERENCES) return undefined
  if (typeof schema.$ref === 'string') {
    const { $ref, ...siblings } = schema
    const target = resolved(referredTo($ref, root), root, depth + 1)
    return target && { ...target, ...siblings }
  }
  const { allOf, anyOf, oneOf, ...own } = schema
  const parts = Array.isArray(allOf) ? allOf.map((each) => resolved(each, root, depth + 1)) : []
  const all = parts.reduce<Fields>((whole, part) => merged(whole, part ?? {}), own)
  const alternatives: readonly unknown[] | undefined = [anyOf, oneOf].find((each) => Array.isArray(each))
  if (!alternatives) return all
  const usable = alternatives.flatMap((each): readonly Fields[] => {
    const own = resolved(each, root, depth + 1)
    return own ? [own] : []
  })
  const chosen = usable.find((each) => typeOf(each) !== 'null') ?? usable[0]
  return chosen && merged(all, chosen)
}

function merged(one: Fields, other: Fields): Fields {
  const properties = { ...fieldsOf(one.properties), ...fieldsOf(other.properties) }
  const required = [one.required, other.required].flatMap((each) => (Array.isArray(each) ? each : []))
  return {
    ...one,
    ...other,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  }
}

/** The members of a value, if it is an object. */
export function fieldsOf(value: unknown): Fields {
  return isObject(value) ? value : {}
}

/** The type of the values of a schema: the first one, if there are several. */
export function typeOf(schema: Fields): unknown {
  const { type, properties, items } = schema
  if (Array.isArray(type)) return type.find((each) => each !== 'null') ?? 'null'
  if (type !== undefined) return type
  if (properties !== undefined) return 'object'
  return items === undefined ? undefined : 'array'
}

function givenValues({ const: only, enum: choices, examples, default: usual }: Fields): readonly unknown[] {
  const lists = [choices, examples].flatMap((each): readonly unknown[] => (Array.isArray(each) ? each : []))
  return [only, ...lists, usual].filter((each) => each !== undefined)
}

/** Whether a value fits a schema; references in it refer to the root. */
export function fits(value: unknown, schema: Fields, root: Fields): boolean {
  const { $defs, definitions } = root
  const whole = {
    ...schema,
    ...($defs !== undefined && { $defs }),
    ...(definitions !== undefined && { definitions }),
  }
  try {
    return validator(whole)(value).length === 0
  } catch {
    return false
  }
}

interface Place {
  readonly sampling: Sampling
  readonly name: string
  readonly depth: number
}

function plainValue(schema: Fields, place: Place): unknown {
  switch (typeOf(schema)) {
    case 'string':
    case undefined:
      return textOf(schema, place)
    case 'integer':
    case 'number':
      return longIntegerFor(schema) ?? numberOf(schema)
    case 'boolean':
      return true
    case 'array':
      return listOf(schema, place)
    case 'null':
      return null
    default:
      return undefined
  }
}

function objectOf(schema: Fields, sampling: Sampling, depth: number): unknown {
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
  const isFull = sampling.extent === 'all' && depth < MAX_FULL_DEPTH
  const entries: [string, unknown][] = []
  for (const [name, member] of Object.entries(fieldsOf(schema.properties))) {
    const isRequired = required.includes(name)
    if (!isRequired && !isFull) continue
    const value = sampleOf(member, sampling, name, depth + 1)
    if (value !== undefined) entries.push([name, value])
    else if (isRequired) return undefined
  }
  return Object.fromEntries(entries)
}

function listOf(schema: Fields, { sampling, name, depth }: Place): unknown {
  const least = lengthOf(schema.minItems) ?? 0
  const wanted = Math.min(
    Math.max(least, sampling.extent === 'all' && depth < MAX_FULL_DEPTH ? 1 : 0),
    MAX_ITEMS,
  )
  if (wanted < least) return undefined
  const first: readonly unknown[] = Array.isArray(schema.prefixItems) ? schema.prefixItems : []
  const items: unknown[] = []
  for (let at = 0; at < wanted; at++) {
    const item = sampleOf(first[at] ?? schema.items ?? true, sampling, name, depth + 1)
    if (item === undefined) return least === 0 ? [] : undefined
    items.push(item)
  }
  return items
}

function numberOf({
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
  multipleOf,
  type,
}: Fields): unknown {
  const step = typeof multipleOf === 'number' && multipleOf > 0 ? multipleOf : undefined
  const unit = step ?? (type === 'integer' ? 1 : undefined)
  const low =
    numberIn(minimum) ??
    (numberIn(exclusiveMinimum) === undefined ? undefined : Number(exclusiveMinimum) + (unit ?? 0.5))
  const high =
    numberIn(maximum) ??
    (numberIn(exclusiveMaximum) === undefined ? undefined : Number(exclusiveMaximum) - (unit ?? 0.5))
  const wanted = Math.min(Math.max(1, low ?? 1), high ?? Number.MAX_SAFE_INTEGER)
  if (unit === undefined) return wanted
  const rounded = Math.ceil(wanted / unit) * unit
  return high !== undefined && rounded > high ? Math.floor(wanted / unit) * unit : rounded
}

function numberIn(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

/** A limit of lengths; undefined if there is none. */
export function lengthOf(limit: unknown): number | undefined {
  return typeof limit === 'number' && Number.isInteger(limit) && limit >= 0 ? limit : undefined
}

function textOf(schema: Fields, { sampling, name }: Place): unknown {
  const least = lengthOf(schema.minLength) ?? 0
  if (least > MAX_LENGTH) return undefined
  const most = lengthOf(schema.maxLength) ?? MAX_LENGTH
  const formats = textsByFormat.get(String(schema.format)) ?? []
  const hinted = hints.flatMap(([pattern, text]) => (pattern.test(name) ? [text] : []))
  const candidates = [...formats, ...hinted, ...plainTexts]
  const sized = candidates.flatMap((each) => [each, ofLength(each, least, most)])
  return sized.find((each) => fits(each, schema, sampling.root))
}

/** A text of at least and at most so many characters. */
export function ofLength(text: string, least: number, most: number): string {
  return text.length >= least ? text.slice(0, most) : text.padEnd(least, text === '' ? 'a' : text)
}

const textsByFormat: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    'date-time': ['2026-01-02T03:04:05Z'],
    date: ['2026-01-02'],
    time: ['03:04:05Z', '03:04:05'],
    duration: ['PT1H'],
    email: ['name@example.com'],
    hostname: ['example.com'],
    ipv4: ['192.0.2.1'],
    ipv6: ['2001:db8::1'],
    uri: ['https://example.com/'],
    url: ['https://example.com/'],
    'uri-reference': ['/a'],
    uuid: ['123e4567-e89b-42d3-a456-426614174000'],
    regex: ['a'],
    'json-pointer': ['/a'],
    byte: ['YQ=='],
  }),
)

/** Values for arguments whose names say what they are. */
const hints: readonly (readonly [RegExp, string])[] = [
  [/ur[il]$/i, 'https://example.com/'],
  [/e-?mail/i, 'name@example.com'],
  [/date$/i, '2026-01-02'],
  [/path|file/i, 'example.txt'],
]

/** Texts of which one fits many patterns. */
const plainTexts = [
  'text',
  'a',
  'A',
  '1',
  '1.0.0',
  'ABC',
  'a-b',
  'a_b',
  'a/b',
  '/a',
  '#ffffff',
  '2026-01-02',
  '12345',
  'a:1',
  'v1',
  'name@example.com',
  'https://example.com/',
  'en-US',
  'EUR',
  '+4912345678',
  '123e4567-e89b-42d3-a456-426614174000',
]
