/** Compares two schemas: which changes are breaking, and which are additions. */
import { exactly, isObject } from '../json/json.ts'
import { toDouble } from '../json/exact-number.ts'
import { wordSet } from '../text/words.ts'

/** The impact of a change on callers: `major` may break them, `minor` adds something, `patch` is wording. */
export type ChangeLevel = 'major' | 'minor' | 'patch'

/** One change of a schema: its path and a description that contains no values. */
interface SchemaChange {
  readonly level: ChangeLevel
  /** Such as `title` or `items[].name`; empty at the top. */
  readonly path: string
  readonly text: string
}

/** Whether values of a schema are sent to a tool or returned by it. */
type Side = 'input' | 'output'

type Schema = Readonly<Record<string, unknown>>

/** Annotations for people, and keywords that are not validated. */
const wording: ReadonlySet<string> = new Set([
  'title',
  'description',
  'examples',
  'example',
  '$comment',
  '$id',
  'deprecated',
  'readOnly',
  'writeOnly',
])

/** Named subschemas; a name keeps its meaning as long as no reference to it changes. */
const named = wordSet('properties $defs definitions patternProperties dependentSchemas')
const lowest: ReadonlySet<string> = wordSet(
  'minimum exclusiveMinimum minLength minItems minProperties minContains',
)
const highest: ReadonlySet<string> = wordSet(
  'maximum exclusiveMaximum maxLength maxItems maxProperties maxContains',
)
/** Keywords whose presence restricts the valid values. */
const narrowing: ReadonlySet<string> = wordSet(
  'pattern multipleOf uniqueItems format propertyNames contains not dependentRequired contentEncoding contentMediaType',
)

/** Subschemas nested deeper than this are compared as text. */
const MAX_DEPTH = 64

/**
 * The changes between two versions of a schema. Empty only if they are equal; a change that is not understood counts as
 * breaking. A new optional argument is an addition, and so is a new member of a result.
 */
export function schemaChanges(before: unknown, after: unknown, side: Side): readonly SchemaChange[] {
  if (exactly(before) === exactly(after)) return []
  const found = compare(before, after, { side, path: '', depth: 0 })
  return found.length > 0 ? found : [{ level: 'patch', path: '', text: 'has a new description' }]
}

interface Place {
  readonly side: Side
  readonly path: string
  readonly depth: number
}

function compare(before: unknown, after: unknown, place: Place): SchemaChange[] {
  const one = asSchema(before)
  const other = asSchema(after)
  if (!one || !other || place.depth > MAX_DEPTH)
    return exactly(before) === exactly(after) ? [] : [change('major', place, 'has a different schema')]
  const keys = new Set([...Object.keys(one), ...Object.keys(other)])
  return [...keys]
    .toSorted()
    .filter((key) => exactly(one[key]) !== exactly(other[key]))
    .flatMap((key) => compareKeyword(key, one, other, place))
}

/** `true` accepts everything, `false` nothing. */
function asSchema(schema: unknown): Schema | undefined {
  if (schema === true) return {}
  if (schema === false) return { not: {} }
  return isObject(schema) ? schema : undefined
}

function compareKeyword(key: string, before: Schema, after: Schema, place: Place): SchemaChange[] {
  const [one, other] = [before[key], after[key]]
  if (wording.has(key)) return []
  if (key === '$schema') return [change('minor', place, 'declares another dialect of JSON Schema')]
  if (key === 'default') return compareDefault(one, other, place)
  if (key === 'type') return compareTypes(before, after, place)
  if (key === 'enum' || key === 'const') return compareValues(key, before, after, place)
  if (key === 'required') return compareRequired(one, other, place)
  if (key === 'additionalProperties' || key === 'unevaluatedProperties')
    return compareRest(key, one, other, place)
  if (named.has(key)) return compareNamed(key, one, other, place)
  if (key === 'items') return compareItems(one, other, place)
  if (key === 'anyOf' || key === 'oneOf' || key === 'allOf') return compareChoices(key, one, other, place)
  if (lowest.has(key)) return compareBound(key, one, other, { place, isLower: true })
  if (highest.has(key)) return compareBound(key, one, other, { place, isLower: false })
  if (narrowing.has(key) && one === undefined) return [fewer(place, `has a new ${key}`)]
  if (narrowing.has(key) && other === undefined) return [more(place, `no longer has ${key}`)]
  return [change('major', place, `has a different ${key}`)]
}

function compareDefault(before: unknown, after: unknown, place: Place): SchemaChange[] {
  if (before === undefined) return [change('minor', place, 'has a default')]
  if (after === undefined) return [change('minor', place, 'no longer has a default')]
  return [change(place.side === 'input' ? 'major' : 'minor', place, 'has another default')]
}

const types = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']

function compareTypes(before: Schema, after: Schema, place: Place): SchemaChange[] {
  return compareSets(typesOf(before), typesOf(after), place, 'type')
}

/** The accepted types; a number may be an integer. */
function typesOf({ type }: Schema): ReadonlySet<string> {
  const found = type === undefined ? types : [type].flat().map(String)
  return new Set(found.includes('number') ? [...found, 'integer'] : found)
}

function compareValues(key: 'enum' | 'const', before: Schema, after: Schema, place: Place): SchemaChange[] {
  if (before[key] === undefined) return [fewer(place, 'accepts fewer values')]
  if (after[key] === undefined) return [more(place, 'accepts more values')]
  return compareSets(valuesOf(before[key], key), valuesOf(after[key], key), place, 'values')
}

function valuesOf(value: unknown, key: 'enum' | 'const'): ReadonlySet<string> {
  return new Set((key === 'enum' && Array.isArray(value) ? value : [value]).map(exactly))
}

function compareSets(
  before: ReadonlySet<string>,
  after: ReadonlySet<string>,
  place: Place,
  what: string,
): SchemaChange[] {
  const hasGone = [...before].some((item) => !after.has(item))
  const hasCome = [...after].some((item) => !before.has(item))
  if (hasGone && hasCome) return [change('major', place, `${what}: some were added, some removed`)]
  if (hasGone) return [fewer(place, `${what}: fewer than before`)]
  return hasCome ? [more(place, `${what}: more than before`)] : []
}

function compareRequired(before: unknown, after: unknown, place: Place): SchemaChange[] {
  const [one, other] = [namesOf(before), namesOf(after)]
  const added = [...other].filter((name) => !one.has(name))
  const dropped = [...one].filter((name) => !other.has(name))
  return [
    ...added.map((name) =>
      fewer(at(place, name), place.side === 'input' ? 'is required' : 'is always present'),
    ),
    ...dropped.map((name) =>
      more(at(place, name), place.side === 'input' ? 'is no longer required' : 'may be missing'),
    ),
  ]
}

function namesOf(value: unknown): ReadonlySet<string> {
  return new Set(Array.isArray(value) ? value.map(String) : [])
}

/** Compares schemas under names: properties, or the other keywords of which each has a map of schemas. */
function compareNamed(key: string, before: unknown, after: unknown, place: Place): SchemaChange[] {
  const [one, other] = [membersOf(before), membersOf(after)]
  const isMeaning = key === 'patternProperties' || key === 'dependentSchemas'
  return [...new Set([...one.keys(), ...other.keys()])].toSorted().flatMap((name) => {
    const inside = at(place, key === 'properties' ? name : `${key}/${name}`)
    if (!one.has(name)) return [isMeaning ? fewer(inside, 'was added') : change('minor', inside, 'was added')]
    if (!other.has(name)) return [change('major', inside, 'was removed')]
    return compare(one.get(name), other.get(name), inside)
  })
}

/** Changes of additional members; additional members of a result break no client. */
function compareRest(key: string, before: unknown, after: unknown, place: Place): SchemaChange[] {
  const [one, other] = [before ?? true, after ?? true]
  if (exactly(one) === exactly(other)) return []
  if (place.side === 'output' && [one, other].every((item) => typeof item === 'boolean'))
    return [change('minor', place, `has a different ${key}`)]
  if (other === true) return [more(place, 'may have additional members')]
  if (one === true) return [fewer(place, 'accepts fewer additional members')]
  if (one === false) return [more(place, 'may have additional members')]
  if (other === false) return [fewer(place, 'may have no additional members')]
  return compare(one, other, at(place, '*'))
}

function compareItems(before: unknown, after: unknown, place: Place): SchemaChange[] {
  const inside = { ...place, path: `${place.path}[]`, depth: place.depth + 1 }
  if (before === undefined) return [fewer(inside, 'is described')]
  if (after === undefined) return [more(inside, 'is no longer described')]
  return compare(before, after, inside)
}

function compareChoices(key: string, before: unknown, after: unknown, place: Place): SchemaChange[] {
  const [one, other] = [before, after].map((item) => (Array.isArray(item) ? item : undefined))
  const isAll = key === 'allOf'
  if (!one) return [fewer(place, `has a new ${key}`)]
  if (!other) return [more(place, `no longer has ${key}`)]
  if (one.length === other.length)
    return one.flatMap((item, index) =>
      compare(item, other[index], { ...place, path: `${place.path}|${index + 1}`, depth: place.depth + 1 }),
    )
  const [ones, others] = [one, other].map((item) => new Set(item.map(exactly)))
  const isLonger = [...(ones ?? [])].every((item) => others?.has(item))
  const isShorter = [...(others ?? [])].every((item) => ones?.has(item))
  // An added alternative of `oneOf` can make two alternatives match where exactly one must.
  if (isLonger && key === 'anyOf') return [more(place, 'has more alternatives')]
  if (isShorter && key === 'anyOf') return [fewer(place, 'has fewer alternatives')]
  if (isAll && isLonger) return [fewer(place, 'must match more schemas')]
  if (isAll && isShorter) return [more(place, 'must match fewer schemas')]
  return [change('major', place, `has a different ${key}`)]
}

function compareBound(
  key: string,
  before: unknown,
  after: unknown,
  { place, isLower }: { readonly place: Place; readonly isLower: boolean },
): SchemaChange[] {
  if (before === undefined) return [fewer(place, `has a new ${key}`)]
  if (after === undefined) return [more(place, `no longer has ${key}`)]
  const [was, is] = [toDouble(before), toDouble(after)]
  if (was === undefined || is === undefined) return [change('major', place, `has a different ${key}`)]
  if (was === is) return []
  const isTighter = isLower ? is > was : is < was
  return [isTighter ? fewer(place, `${key} is tighter`) : more(place, `${key} is looser`)]
}

/** Fewer values are valid: callers may send values that no longer are, but receive nothing unknown. */
function fewer(place: Place, text: string): SchemaChange {
  return change(place.side === 'input' ? 'major' : 'minor', place, text)
}

/** More values are valid: callers may send what they sent before, but may receive unknown values. */
function more(place: Place, text: string): SchemaChange {
  return change(place.side === 'input' ? 'minor' : 'major', place, text)
}

function change(level: ChangeLevel, { path }: Place, text: string): SchemaChange {
  return { level, path, text }
}

function at(place: Place, name: string): Place {
  return { ...place, path: place.path === '' ? name : `${place.path}.${name}`, depth: place.depth + 1 }
}

function membersOf(value: unknown): ReadonlyMap<string, unknown> {
  return new Map(isObject(value) ? Object.entries(value) : [])
}
