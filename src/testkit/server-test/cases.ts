/**
 * The calls with which a tool is tested, made from its input schema. Each case changes one thing, and its id says which.
 * Whether the server has to refuse it is not assumed: the schema itself decides.
 */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'
import { hostileTexts } from './hostile.ts'
import { fieldsOf, fits, lengthOf, ofLength, resolved, sampleOf, typeOf } from './samples.ts'
import { randomFor, shuffled } from './seed.ts'
import { parseJson } from '../../core/json/read.ts'

export type CaseKind = 'valid' | 'missing' | 'wrong-type' | 'boundary' | 'extra' | 'hostile'

/** One call of a tool. */
export interface Case {
  /** Its kind, and what it changes: unique for its tool. */
  readonly id: string
  readonly kind: CaseKind
  /** The arguments; anything but an object is wrong by itself. */
  readonly arguments: unknown
  /** Why the schema does not allow the arguments; absent if it allows them. */
  readonly broken?: string
}

/** The cases of a tool, and what could not be made. */
export interface Cases {
  readonly cases: readonly Case[]
  /** Why there is no valid call. */
  readonly problem?: string
}

interface Options {
  readonly seed: number
  /** Arguments of example calls, from the owner of the server. */
  readonly examples: readonly unknown[]
  /** The maximum number of cases. */
  readonly most: number
  /** The kinds of cases to make; all by default. */
  readonly kinds?: readonly CaseKind[]
}

/** Nested members are tested down to this depth. */
const MAX_DEPTH = 3
/** How many values of an enumeration are tried. */
const MAX_CHOICES = 3
/** Of how many texts of a tool every kind of hostile text is tried. */
const MAX_HOSTILE_MEMBERS = 2
/** The length of a text where no maximum is given, in characters. */
const LONG_TEXT = 10_000

/** Makes the cases of a tool, the same ones for the same seed. */
export function casesOf(
  { name, inputSchema }: Fields,
  { seed, examples, most, kinds = order }: Options,
): Cases {
  if (!isObject(inputSchema)) return { cases: [], problem: 'its input schema is no object' }
  const random = randomFor(seed, String(name))
  try {
    validator(inputSchema)({})
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error
    return { cases: [], problem: `its input schema cannot be used: ${error.message.slice(0, 200)}` }
  }
  const valid = validCases(inputSchema, examples)
  // An example succeeds, and a call with all arguments shows most changes.
  const bases = ['valid/example-1', 'valid/all', 'valid/required']
  const base = bases.flatMap((id) => valid.find((each) => each.id === id) ?? [])[0]
  const given = base
    ? fieldsOf(base.arguments)
    : fieldsOf(sampleOf(inputSchema, { root: inputSchema, extent: 'required' }))
  const changed = [
    ...changedCases(inputSchema, given),
    ...(base ? hostileCases(inputSchema, given, random) : []),
  ].flatMap((each) => judged(each, inputSchema))
  const cases = limited(
    [...valid, ...changed].filter(({ kind }) => kinds.includes(kind)),
    most,
    random,
  )
  return { cases, ...(!base && { problem: 'no valid arguments can be made from its input schema' }) }
}

function validCases(schema: Fields, given: readonly unknown[]): readonly Case[] {
  const own: readonly unknown[] = Array.isArray(schema.examples) ? schema.examples : []
  const examples = [...given, ...own]
  const all = sampleOf(schema, { root: schema, extent: 'all' })
  const made: [string, unknown][] = [
    ['required', sampleOf(schema, { root: schema, extent: 'required' })],
    ['all', all],
    ...examples
      .slice(0, MAX_CHOICES)
      .map((example, index): [string, unknown] => [`example-${index + 1}`, example]),
    ...choices(schema, fieldsOf(all)),
  ]
  const seen = new Set<string>()
  return made.flatMap(([id, value]) => {
    const text = JSON.stringify(value)
    if (!isObject(value) || seen.has(text) || !fits(value, schema, schema)) return []
    seen.add(text)
    return [{ id: `valid/${id}`, kind: 'valid' as const, arguments: value }]
  })
}

/** A call with each further value of an enumeration. */
function choices(schema: Fields, all: Fields): [string, unknown][] {
  return Object.entries(fieldsOf(schema.properties)).flatMap(([name, member]) => {
    const own = resolved(member, schema)
    const values: readonly unknown[] =
      own && Array.isArray(own.enum) ? own.enum : own && typeOf(own) === 'boolean' ? [false] : []
    return values
      .slice(0, MAX_CHOICES)
      .map((value): [string, unknown] => [`${name}=${String(value).slice(0, 40)}`, { ...all, [name]: value }])
  })
}

type Draft = Omit<Case, 'broken'>

/** A case with why its arguments are not allowed; none if it should have broken the schema and does not. */
function judged(draft: Draft, schema: Fields): Case[] {
  const [problem] = validator(schema)(draft.arguments)
  if (!problem) return draft.kind === 'boundary' || draft.kind === 'hostile' ? [draft] : []
  const where = problem.path.length === 0 ? 'the arguments' : problem.path.join('.')
  return [{ ...draft, broken: `${where} ${problem.message}` }]
}

function changedCases(schema: Fields, given: Fields): Draft[] {
  const extra = { ...given, gatehouse_unknown_argument: 'text' }
  const polluted: unknown = parseJson('{"__proto__": {"polluted": true}, "constructor": {"prototype": {}}}')
  return [
    { id: 'wrong-type/arguments', kind: 'wrong-type', arguments: ['text'] },
    { id: 'extra/argument', kind: 'extra', arguments: extra },
    { id: 'hostile/prototype', kind: 'hostile', arguments: { ...given, ...fieldsOf(polluted) } },
    ...memberCases(schema, schema, given).map(({ id, kind, value }) => ({ id, kind, arguments: value })),
  ]
}

interface MemberCase {
  readonly id: string
  readonly kind: CaseKind
  /** The object with the changed member. */
  readonly value: Fields
}

/** The cases of the members of an object, and of the objects in it. */
function memberCases(schema: Fields, root: Fields, given: Fields, path = ''): MemberCase[] {
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(fieldsOf(schema.properties)).flatMap(([name, member]): MemberCase[] => {
    const at = `${path}${name}`
    const own = resolved(member, root)
    const { [name]: value, ...others } = given
    const missing: MemberCase[] = required.includes(name)
      ? [{ id: `missing/${at}`, kind: 'missing', value: others }]
      : []
    if (!own) return missing
    const changed = [...wrongTypes(own), ...boundaries(own, value)].map(
      ({ what, kind, value: replaced }): MemberCase => ({
        id: `${kind}/${at}${what === '' ? '' : `/${what}`}`,
        kind,
        value: { ...given, [name]: replaced },
      }),
    )
    const isNested = typeOf(own) === 'object' && isObject(value) && path.split('.').length < MAX_DEPTH
    const inner = isNested ? memberCases(own, root, value, `${at}.`) : []
    return [
      ...missing,
      ...changed,
      ...inner.map((each) => ({ ...each, value: { ...given, [name]: each.value } })),
    ]
  })
}

interface Change {
  readonly what: string
  readonly kind: 'wrong-type' | 'boundary'
  readonly value: unknown
}

/** A value of a type that servers which convert values cannot take for the right one. */
function wrongTypes(schema: Fields): Change[] {
  const value: unknown = typeOf(schema) === 'string' ? { unexpected: true } : 'not a value of this type'
  const isList = typeOf(schema) === 'array'
  return [
    { what: '', kind: 'wrong-type', value },
    { what: 'null', kind: 'wrong-type', value: null },
    ...(isList ? [{ what: 'item', kind: 'wrong-type' as const, value: [{ unexpected: true }] }] : []),
  ]
}

function boundaries(schema: Fields, value: unknown): Change[] {
  const found: Change[] = []
  const add = (what: string, changed: unknown): void =>
    void found.push({ what, kind: 'boundary', value: changed })
  if (Array.isArray(schema.enum)) add('not-in-enum', 'gatehouse-not-in-enum')
  else if (typeof value === 'string') textBoundaries(schema, value, add)
  if (typeof value === 'number') numberBoundaries(schema, add)
  if (Array.isArray(value)) listBoundaries(schema, value, add)
  return found
}

type Add = (what: string, value: unknown) => void

function textBoundaries(schema: Fields, value: string, add: Add): void {
  const least = lengthOf(schema.minLength)
  const most = lengthOf(schema.maxLength)
  add('empty', '')
  if (least !== undefined && least > 1) {
    add('min-length', ofLength(value, least, least))
    add('too-short', ofLength(value, 0, least - 1))
  }
  if (most === undefined) return add('large', ofLength(value, LONG_TEXT, LONG_TEXT))
  if (most > LONG_TEXT * 10) return
  add('max-length', ofLength(value, most, most))
  add('too-long', ofLength(value, most + 1, most + 1))
}

function numberBoundaries(
  { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, type }: Fields,
  add: Add,
): void {
  const unit = typeof multipleOf === 'number' && multipleOf > 0 ? multipleOf : 1
  if (typeof minimum === 'number') add('minimum', minimum)
  if (typeof minimum === 'number') add('below-minimum', minimum - unit)
  if (typeof exclusiveMinimum === 'number') add('below-minimum', exclusiveMinimum)
  if (typeof maximum === 'number') add('maximum', maximum)
  if (typeof maximum === 'number') add('above-maximum', maximum + unit)
  if (typeof exclusiveMaximum === 'number') add('above-maximum', exclusiveMaximum)
  if (type === 'integer') add('fraction', 1.5)
  if (minimum === undefined && exclusiveMinimum === undefined) add('negative', -unit)
}

function listBoundaries(schema: Fields, value: readonly unknown[], add: Add): void {
  const least = lengthOf(schema.minItems)
  const most = lengthOf(schema.maxItems)
  const [first] = value
  add('empty', [])
  if (least !== undefined && least > 1) add('too-few', value.slice(0, least - 1))
  if (most !== undefined && most < 1000)
    add(
      'too-many',
      Array.from({ length: most + 1 }, () => first),
    )
}

function hostileCases(schema: Fields, given: Fields, random: () => number): Draft[] {
  const texts = Object.entries(fieldsOf(schema.properties)).filter(([name, member]) => {
    const own = resolved(member, schema)
    return own && typeOf(own) === 'string' && !Array.isArray(own.enum) && typeof given[name] === 'string'
  })
  return shuffled(texts, random)
    .slice(0, MAX_HOSTILE_MEMBERS)
    .flatMap(([name]) =>
      hostileTexts.map(({ what, text }): Draft => ({
        id: `hostile/${name}/${what}`,
        kind: 'hostile',
        arguments: { ...given, [name]: text },
      })),
    )
}

/** The order in which kinds are taken when there are too many cases, and in which cases run. */
const order: readonly CaseKind[] = ['valid', 'missing', 'wrong-type', 'boundary', 'extra', 'hostile']

/** At most so many cases: one of each kind after the other, so that no kind is missing. */
function limited(cases: readonly Case[], most: number, random: () => number): readonly Case[] {
  const unique = [...new Map(cases.map((each) => [each.id, each])).values()]
  const byKind = order.map((kind) => {
    const own = unique.filter((each) => each.kind === kind)
    return kind === 'valid' || unique.length <= most ? own : shuffled(own, random)
  })
  const longest = Math.max(...byKind.map((own) => own.length))
  const taken = Array.from({ length: longest }, (_, at) => byKind.flatMap((own) => own[at] ?? [])).flat()
  const kept = new Set(taken.slice(0, most))
  return order.flatMap((kind) => unique.filter((each) => each.kind === kind && kept.has(each)))
}
