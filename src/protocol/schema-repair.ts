/**
 * Tools as the providers of models take them. A provider refuses a request because of one tool that it does not understand,
 * and with it all others. What differs between them is in `dialects.ts`. What no tool has, and where that is documented:
 *
 * - OpenAI: the root must be `type: object` without `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not`; an array needs
 *   `items`; a pattern must compile (https://platform.openai.com/docs/guides/function-calling,
 *   https://platform.openai.com/docs/guides/structured-outputs#supported-schemas).
 * - Anthropic: the schema must be valid under JSON Schema 2020-12, without `anyOf`, `oneOf` and `allOf` at the root; agents take
 *   no `$ref`; the request is refused if it has half of a surrogate pair
 *   (https://docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use,
 *   https://platform.claude.com/docs/en/managed-agents/self-hosted-sandboxes).
 * - Gemini: `required` may only name properties that the same schema has; an array needs `items`; `parameters` knows no
 *   `$ref` (https://ai.google.dev/api/caching#Schema).
 *
 * Invariant: whatever the original schema accepts, the repaired one accepts. Only the list has the repaired one: calls are
 * checked against the original.
 */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isNumber, toDouble } from '../core/json/exact-number.ts'
import { asObject, isObject, isSame, pointerSegment, referredTo } from '../core/json/json.ts'
import { Payload, type Fields } from '../core/payload.ts'
import { type JsonSchema, metaSchemaProblem, rewrittenSchema } from '../core/schema/schema.ts'
import { aliasOf, namesByAlias, ownAliasOf } from '../core/text/alias.ts'
import { shortened } from '../core/text/escape.ts'
import { common, type Dialect, MAX_DESCRIPTION_LENGTH } from './dialects.ts'
import { admits, MIRROR, plainRoot, withSentence, without } from './schema-root.ts'
import { inSubset } from './schema-subset.ts'

/** What was changed, or why nothing helps: where, as a JSON pointer in the entry of the tool, and in words. */
interface SchemaChange {
  readonly pointer: string
  readonly what: string
}

/** An entry of `tools/list` as it is listed. */
export interface RepairedTool {
  /** The same payload if nothing is wrong. */
  readonly tool: Payload
  readonly changes: readonly SchemaChange[]
  /** Why the entry cannot be listed at all. */
  readonly unusable?: SchemaChange | undefined
}

/** A repaired schema; no schema if nothing is wrong. */
interface Repair {
  readonly schema?: JsonSchema
  readonly changes: readonly SchemaChange[]
  readonly unusable?: SchemaChange | undefined
}

/** The maximum nesting of schemas, and how often a schema that contains itself is written out within itself. */
const MAX_SCHEMA_DEPTH = 20
const MAX_RECURSION = 1
/** The maximum number of schemas that are written out in place of references; later references keep their type only. */
const MAX_INSERTED_SCHEMAS = 1000
/** The maximum number of schemas in one input schema. */
const MAX_SCHEMAS = 20_000
/** The maximum number of changes of one schema that are kept. */
const MAX_CHANGES = 20

const nothing: Repair = { changes: [] }

/** Repairs for a dialect by the digest of the schema's text: an unchanged entry of a list is repaired once. */
const repairs = new LRUCache<string, Repair>({
  max: 20_000,
  maxSize: 8_000_000,
  sizeCalculation: ({ schema }) => (schema ? JSON.stringify(schema).length : 1),
})

/** The entry of a tool as the clients of a provider can use it; its name stays. */
export function repairedTool(tool: Payload, dialect: Dialect = common): RepairedTool {
  const given = tool.at('inputSchema')
  const { schema, changes, unusable } = given && isObject(given.value) ? repairOf(given, dialect) : nothing
  if (unusable) return { tool, changes, unusable }
  const described = describedTool(tool.fields, dialect)
  if (!schema && !described) return { tool, changes }
  const { change, description, rest } = described ?? {}
  const input = schema ?? (rest === undefined ? undefined : asObject(given?.value))
  const edits: Fields = {
    ...(input && { inputSchema: Payload.of(rest === undefined ? input : withRest(input, rest)) }),
    ...(description !== undefined && { description }),
  }
  return { tool: tool.with(edits), changes: change ? [...changes, change] : changes }
}

/** The tools of a list for a dialect, with names that its provider takes: calls find the tools by these as well. */
export function toolsFor(tools: readonly Payload[], dialect: Dialect): readonly Payload[] {
  const names = tools.flatMap(({ fields: { name } }) => (typeof name === 'string' ? [name] : []))
  const aliases = namesByAlias(names)
  return tools.flatMap((given) => {
    const { tool, unusable } = repairedTool(given, dialect)
    if (unusable) return []
    const { name } = tool.fields
    if (typeof name !== 'string' || dialect.toolName.test(name)) return [tool]
    const alias = aliasOf(name)
    const isFree = aliases.get(alias)?.length === 1 && !names.includes(alias)
    return [tool.with({ name: isFree ? alias : ownAliasOf(name) })]
  })
}

interface DescribedTool {
  readonly change: SchemaChange
  readonly description: string
  /** What is not in the description, for that of the schema. */
  readonly rest?: string
}

/** The description of a tool as a provider takes it; undefined if it stays. */
function describedTool({ description }: Fields, { descriptionLength }: Dialect): DescribedTool | undefined {
  if (typeof description !== 'string') return undefined
  const pointer = '/description'
  if (description.length > descriptionLength) {
    const cut = shortened(description, descriptionLength)
    const end = Math.min(description.length, MAX_DESCRIPTION_LENGTH)
    const isMoved = descriptionLength < MAX_DESCRIPTION_LENGTH
    const what = `has more than ${descriptionLength} characters: ${isMoved ? 'continued in the schema' : 'cut'}`
    return {
      change: { pointer, what },
      description: cut,
      ...(isMoved && { rest: `…${description.slice(descriptionLength - 1, end)}`.toWellFormed() }),
    }
  }
  if (description.isWellFormed()) return undefined
  const what = 'has half of a surrogate pair: replaced by U+FFFD'
  return { change: { pointer, what }, description: description.toWellFormed() }
}

/** A schema whose description begins with the rest of that of its tool. */
function withRest(schema: Fields, rest: string): Fields {
  const { description } = schema
  return {
    ...schema,
    description: withSentence(rest, typeof description === 'string' ? description : undefined),
  }
}

function repairOf(given: Payload, dialect: Dialect): Repair {
  const digest = createHash('sha256').update(given.text).digest('base64url')
  const key = `${digest} ${dialect.argumentName?.source ?? ''} ${dialect.subset ?? ''}`
  const known = repairs.get(key)
  if (known) return known
  const found = repair(asObject(given.value), dialect)
  repairs.set(key, found)
  return found
}

function repair(schema: JsonSchema, dialect: Dialect): Repair {
  const repairer = new Repairer(schema, dialect)
  try {
    const repaired = repairer.root()
    if (repairer.changes.length === 0) return nothing
    const problem = metaSchemaProblem(repaired)
    if (problem)
      return { changes: [], unusable: { pointer: `${ROOT}${problem.pointer}`, what: problem.message } }
    return { schema: repaired, changes: repairer.changes }
  } catch (error) {
    if (error instanceof Unrepairable) return { changes: [], unusable: error.change }
    throw error
  }
}

/** Where the input schema is in its entry. */
const ROOT = '/inputSchema'

/** A schema that no repair makes usable. */
class Unrepairable extends Error {
  readonly change: SchemaChange

  constructor(pointer: string, what: string) {
    super(what)
    this.change = { pointer, what }
  }
}

/** A place in a schema: its JSON pointer, and how many schemas it is in. */
interface Place {
  readonly at: string
  readonly depth: number
}

/** Repairs one input schema. */
class Repairer {
  readonly changes: SchemaChange[] = []
  readonly #given: JsonSchema
  readonly #dialect: Dialect
  readonly #isOldDraft: boolean
  /** How many changes let more values fit than the original. */
  #loosened = 0
  #count = 0
  #insertedCount = 0
  /** The references within which the current schema is written out. */
  readonly #within: string[] = []
  /** Whether lists of `items` were written in the form of 2020-12. */
  #isModernized = false

  constructor(schema: JsonSchema, dialect: Dialect) {
    this.#given = schema
    this.#dialect = dialect
    this.#isOldDraft = typeof schema.$schema === 'string' && /draft-0[3-7]/.test(schema.$schema)
  }

  /** The repaired schema; the given one if nothing is wrong. */
  root(): JsonSchema {
    const plain = this.#plain()
    const { subset } = this.#dialect
    if (!subset) return plain
    const known = this.changes.length
    const onChange = (pointer: string, what: string): void => this.#change(`${ROOT}${pointer}`, what)
    const rules = inSubset(plain, { nulls: subset, onChange })
    if (isSame(rules, plain)) return plain
    if (this.changes.length === known) this.#change(ROOT, 'is not in the subset of Gemini: listed in it')
    return rules
  }

  /** A schema that is valid, with a root that all providers take. */
  #plain(): JsonSchema {
    const { argumentName } = this.#dialect
    // Clients lose an argument with the name of the prototype.
    const isName = (name: string): boolean =>
      argumentName?.test(name) !== false && name.isWellFormed() && name !== '__proto__'
    const walked = asObject(this.#schema(this.#given, { at: ROOT, depth: 0 }))
    const repaired = plainRoot({ ...walked, type: 'object' }, isName, {
      changed: (pointer, what) => this.#loosen(`${ROOT}${pointer}`, what),
      unusable: (pointer, what) => {
        throw new Unrepairable(`${ROOT}${pointer}`, what)
      },
    })
    if (this.changes.length === 0) return this.#given
    const removed = [
      ...DEFINITIONS,
      // What they refuse depends on what the other rules say.
      ...(this.#loosened > 0 ? ['unevaluatedProperties', 'unevaluatedItems'] : []),
      ...(this.#isModernized && this.#isOldDraft ? ['$schema'] : []),
    ]
    return rewrittenSchema(repaired, (rules) => {
      // Without them, a schema that something must not fit refuses more.
      const opposed = this.#loosened > 0 ? [...OPPOSED].filter((key) => hasUnevaluated(rules[key])) : []
      return without(rules, [...removed, ...opposed, ...(opposed.includes('if') ? ['then', 'else'] : [])])
    })
  }

  /** A schema at a place, repaired. */
  #schema(given: unknown, place: Place): unknown {
    if (typeof given === 'boolean') return given
    if (!isObject(given)) {
      const type = typeNamed(given)
      this.#loosen(place.at, `is ${words(given)} and no schema: listed as ${type ? 'that type' : '{}'}`)
      return type === undefined ? {} : { type }
    }
    if (this.#within.length > 0) this.#insertedCount++
    if (++this.#count > MAX_SCHEMAS)
      throw new Unrepairable(place.at, `is one of more than ${MAX_SCHEMAS} schemas`)
    if (place.depth > MAX_SCHEMA_DEPTH) {
      this.#loosen(place.at, `is nested deeper than ${MAX_SCHEMA_DEPTH} schemas: only its type is listed`)
      return outlineOf(given)
    }
    const reference = REFERENCES.find((key) => Object.hasOwn(given, key))
    return reference === undefined ? this.#rules(given, place) : this.#referring(given, reference, place)
  }

  /** A schema with a reference: what it refers to is written out. */
  #referring(given: Fields, reference: string, place: Place): unknown {
    const at = `${place.at}/${pointerSegment(reference)}`
    const own = this.#rules(without(given, REFERENCES), place)
    const name = given[reference]
    const target = typeof name === 'string' ? this.#target(name) : undefined
    if (typeof name !== 'string' || (!isObject(target) && typeof target !== 'boolean')) {
      this.#loosen(at, `is ${words(name)}, which is not in this schema: removed`)
      return own
    }
    const inserted = this.#inserting(name, target, { at, depth: place.depth })
    const annotations = Object.entries(own).filter(([key]) => ANNOTATIONS.has(key))
    const isAlone = annotations.length === Object.keys(own).length
    // What is beside a reference counts for some validators of older drafts, and for others it does not.
    if (this.#isOldDraft && !isAlone) this.#loosen(place.at, 'has rules beside a reference: removed')
    if (this.#isOldDraft || isAlone) return { ...inserted, ...Object.fromEntries(annotations) }
    return { ...own, allOf: [...listOf(own.allOf), inserted] }
  }

  /** The schema that a reference stands for; only its outline where that would be too much. */
  #inserting(name: string, target: Fields | boolean, place: Place): Fields {
    const isRecursive = this.#within.filter((each) => each === name).length > MAX_RECURSION
    if (isRecursive || this.#insertedCount >= MAX_INSERTED_SCHEMAS) {
      const reason = isRecursive ? 'within itself' : `after ${MAX_INSERTED_SCHEMAS} others`
      this.#loosen(place.at, `is ${words(name)} ${reason}: only its type is listed`)
      return outlineOf(asObject(target))
    }
    this.#change(place.at, `is ${words(name)}: replaced by that schema`)
    this.#within.push(name)
    const inserted = this.#schema(target, place)
    this.#within.pop()
    return isObject(inserted) ? inserted : inserted === true ? {} : { not: {} }
  }

  #target(reference: string): unknown {
    const found = referredTo(reference, this.#given)
    if (found !== undefined || !/^#[^/]/.test(reference)) return found
    const anchor = reference.slice(1)
    const named = DEFINITIONS.flatMap((key) => Object.values(asObject(this.#given[key])))
    return named.find((each) => isObject(each) && (each.$anchor === anchor || each.$id === reference))
  }

  /** The rules of a schema without a reference. */
  #rules(given: Fields, { at, depth }: Place): Fields {
    const rules = new Map<string, unknown>()
    let hasLostNames = false
    for (const [key, value] of Object.entries(this.#inNewForm(given, at))) {
      // Only arguments that the original names by itself are mirrored in headers.
      if (key === MIRROR && this.#within.length > 0) continue
      const before = this.#loosened
      const kept = this.#keyword(key, value, { at: `${at}/${pointerSegment(key)}`, depth: depth + 1 })
      hasLostNames ||= NAMING.has(key) && (kept === undefined || this.#hasFewerKeys(kept, value))
      // Of alternatives that accept more than before, several may fit.
      const isUnion = key === 'oneOf' && this.#loosened > before
      if (kept !== undefined && !(isUnion && Object.hasOwn(given, 'anyOf')))
        rules.set(isUnion ? 'anyOf' : key, kept)
    }
    if (hasLostNames) rules.delete('additionalProperties')
    if (!rules.has('if')) for (const key of ['then', 'else']) rules.delete(key)
    if (rules.has('type') && admits(rules.get('type'), 'array') && !rules.has('items')) {
      this.#change(at, 'is an array without items: listed with items {}')
      rules.set('items', {})
    }
    this.#declareRequired(rules, at)
    return Object.fromEntries(rules)
  }

  #hasFewerKeys(kept: unknown, value: unknown): boolean {
    return isObject(value) && Object.keys(asObject(kept)).length < Object.keys(value).length
  }

  /** Forms of older drafts in that of 2020-12. */
  #inNewForm(given: Fields, at: string): Fields {
    const rules: Record<string, unknown> = { ...given }
    for (const [exclusive, bound] of EXCLUSIVE_BOUNDS) {
      if (typeof given[exclusive] !== 'boolean') continue
      this.#change(`${at}/${exclusive}`, `is ${given[exclusive]}: written as a number`)
      delete rules[exclusive]
      if (given[exclusive] !== true || !isNumber(given[bound])) continue
      delete rules[bound]
      rules[exclusive] = given[bound]
    }
    const { items, additionalItems } = given
    if (!Array.isArray(items)) return rules
    this.#loosen(`${at}/items`, 'is a list: written as prefixItems')
    this.#isModernized = true
    delete rules.additionalItems
    return { ...rules, ...(items.length > 0 && { prefixItems: items }), items: additionalItems ?? {} }
  }

  /** Gemini knows no property that is only required. */
  #declareRequired(rules: Map<string, unknown>, at: string): void {
    const required = rules.get('required')
    if (!Array.isArray(required)) return
    const properties = asObject(rules.get('properties'))
    const names = required.filter((name: unknown) => typeof name === 'string')
    const known = names.filter((name) => name.isWellFormed() || Object.hasOwn(properties, name))
    if (known.length < names.length) {
      this.#loosen(`${at}/required`, 'has half of a surrogate pair in a name: without it')
      rules.set('required', known)
    }
    const absent = known.filter((name) => !Object.hasOwn(properties, name))
    if (absent.length === 0) return
    const what = `names ${absent.map((name) => words(name)).join(', ')}, which properties lacks: added there`
    const others = rules.get('additionalProperties')
    if (others === undefined || others === true) this.#change(`${at}/required`, what)
    else this.#loosen(`${at}/required`, what)
    // A pattern may be about them instead.
    const schema = isObject(others) && !rules.has('patternProperties') ? others : {}
    const added = absent.map((name) => [name, schema] as const)
    rules.set('properties', { ...properties, ...Object.fromEntries(added) })
  }

  /** The value of a keyword; undefined if it is removed. */
  #keyword(key: string, value: unknown, place: Place): unknown {
    if (key === 'type') return this.#type(value, place.at)
    if (key === 'required') return this.#names(value, place.at)
    if (SCHEMAS.has(key)) return this.#schema(value, place)
    if (OPPOSED.has(key)) return this.#opposed(value, place)
    if (SCHEMA_LISTS.has(key)) return this.#schemas(value, place)
    if (SCHEMA_MAPS.has(key)) return this.#schemaMap(key, value, place)
    const isValid = VALUES.get(key)
    if (isValid?.(value) === false) return this.#removed(value, place.at)
    if (!isWellFormed(value)) return this.#illFormed(key, value, place.at)
    if (key !== 'description' || String(value).length <= MAX_DESCRIPTION_LENGTH) return value
    this.#change(place.at, `has more than ${MAX_DESCRIPTION_LENGTH} characters: cut`)
    return shortened(String(value), MAX_DESCRIPTION_LENGTH)
  }

  /** Half of a surrogate pair is replaced where that changes nothing; a rule about it is removed. */
  #illFormed(key: string, value: unknown, at: string): unknown {
    const what = 'has half of a surrogate pair'
    if (typeof value === 'string' && TEXTS.has(key)) {
      this.#change(at, `${what}: replaced by U+FFFD`)
      return value.toWellFormed()
    }
    this.#loosen(at, `${what}: removed`)
    return undefined
  }

  #type(value: unknown, at: string): unknown {
    const names = listOf(value).map((each) =>
      each === null && Array.isArray(value) ? 'null' : typeNamed(each),
    )
    const known = [...new Set(names.filter((name) => name !== undefined))]
    const isList = Array.isArray(value)
    if (known.length === 0 || known.length < new Set(names).size) return this.#removed(value, at)
    if (
      isList
        ? known.every((name, index) => name === value[index]) && known.length === value.length
        : known[0] === value
    )
      return value
    const type = isList && known.length > 1 ? known : known[0]
    this.#change(at, `is ${words(value)}: listed as ${JSON.stringify(type)}`)
    return type
  }

  #names(value: unknown, at: string): unknown {
    const names = [...new Set(listOf(value).filter((name) => typeof name === 'string'))]
    if (typeof value === 'boolean' || value === null || (names.length === 0 && !Array.isArray(value)))
      return this.#removed(value, at)
    if (Array.isArray(value) && names.length === value.length) return value
    this.#loosen(at, `is ${words(value)}: listed as ${JSON.stringify(names)}`)
    return names
  }

  /** A schema that something must not fit, or that decides what else must: it is kept only as it is. */
  #opposed(value: unknown, place: Place): unknown {
    const before = this.#loosened
    const kept = this.#schema(value, place)
    if (this.#loosened === before) return kept
    return this.#removed(value, place.at)
  }

  #schemas(value: unknown, { at, depth }: Place): unknown {
    if (!Array.isArray(value) || value.length === 0) return this.#removed(value, at)
    return value.map((each: unknown, index) => this.#schema(each, { at: `${at}/${index}`, depth }))
  }

  #schemaMap(key: string, value: unknown, { at, depth }: Place): unknown {
    if (Array.isArray(value) && value.length === 0) {
      this.#change(at, 'is an empty list: listed as {}')
      return {}
    }
    if (!isObject(value)) {
      if (value !== null || key !== 'properties') return this.#removed(value, at)
      this.#change(at, 'is null: listed as {}')
      return {}
    }
    const entries = Object.entries(value).flatMap(([name, each]) => {
      const place = { at: `${at}/${pointerSegment(name)}`, depth }
      if (key === 'patternProperties' && !isPattern(name)) {
        this.#loosen(place.at, 'is no regular expression: removed')
        return []
      }
      // Names of arguments of the tool are moved to the description, with others that providers refuse.
      if (!name.isWellFormed() && (depth > 1 || key !== 'properties')) {
        this.#loosen(place.at, 'has half of a surrogate pair in its name: removed')
        return []
      }
      if (key === 'dependencies' && Array.isArray(each)) return [[name, each] as const]
      return [[name, this.#schema(each, place)] as const]
    })
    return Object.fromEntries(entries)
  }

  #removed(value: unknown, at: string): undefined {
    this.#loosen(at, `is ${words(value)}: removed`)
  }

  #loosen(at: string, what: string): void {
    this.#loosened++
    this.#change(at, what)
  }

  #change(pointer: string, what: string): void {
    if (this.changes.length < MAX_CHANGES) this.changes.push({ pointer, what })
  }
}

const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef']
const DEFINITIONS = ['$defs', 'definitions']
const EXCLUSIVE_BOUNDS = [
  ['exclusiveMinimum', 'minimum'],
  ['exclusiveMaximum', 'maximum'],
] as const

/** Keywords beside a reference that only describe. */
const ANNOTATIONS = new Set(
  'title description default examples deprecated readOnly writeOnly $comment $schema $id $defs definitions'.split(
    ' ',
  ),
)
/** Keywords that name the properties which `additionalProperties` does not concern. */
const NAMING = new Set(['properties', 'patternProperties'])
/** Keywords of which a looser schema accepts more. */
const SCHEMAS = new Set(
  'items additionalItems additionalProperties unevaluatedItems unevaluatedProperties propertyNames then else contentSchema'.split(
    ' ',
  ),
)
/** Keywords of which a looser schema may accept less. */
const OPPOSED = new Set(['not', 'if', 'contains'])
const SCHEMA_LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const SCHEMA_MAPS = new Set(['properties', 'patternProperties', 'dependentSchemas', 'dependencies'])

const isText = (value: unknown): boolean => typeof value === 'string'
const isFlag = (value: unknown): boolean => typeof value === 'boolean'
const isCount = (value: unknown): boolean =>
  isNumber(value) && Number.isInteger(Number(value)) && Number(value) >= 0
const isFinite = (value: unknown): boolean => Number.isFinite(toDouble(value))
const isList = (value: unknown): boolean => Array.isArray(value)

/** What the values of the other keywords have to be, as the schema of JSON Schema 2020-12 says. */
const VALUES: ReadonlyMap<string, (value: unknown) => boolean> = new Map<string, (value: unknown) => boolean>(
  [
    ...['title', 'description', 'format', '$comment', '$id', '$anchor'].map((key) => [key, isText] as const),
    ...['contentEncoding', 'contentMediaType'].map((key) => [key, isText] as const),
    ...['deprecated', 'readOnly', 'writeOnly', 'uniqueItems'].map((key) => [key, isFlag] as const),
    ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((key) => [key, isFinite] as const),
    ...['minLength', 'maxLength', 'minItems', 'maxItems'].map((key) => [key, isCount] as const),
    ...['minProperties', 'maxProperties', 'minContains', 'maxContains'].map((key) => [key, isCount] as const),
    ['multipleOf', (value) => isNumber(value) && Number(value) > 0],
    ['pattern', (value) => typeof value === 'string' && isPattern(value)],
    ['$schema', (value) => typeof value === 'string' && /^https?:\/\/json-schema\.org\//.test(value)],
    ['enum', (value) => Array.isArray(value) && value.length > 0],
    ['examples', isList],
    ['dependentRequired', (value) => isObject(value) && Object.values(value).every(isList)],
  ],
)

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']
/** What authors write for types, in lower case. */
const TYPE_WORDS: ReadonlyMap<string, string> = new Map([
  ...TYPES.map((name) => [name, name] as const),
  ...['str', 'text'].map((name) => [name, 'string'] as const),
  ...['float', 'double', 'decimal'].map((name) => [name, 'number'] as const),
  ...['int', 'int32', 'int64', 'long'].map((name) => [name, 'integer'] as const),
  ['bool', 'boolean'],
  ['list', 'array'],
  ['dict', 'object'],
])

function hasUnevaluated(schema: unknown): boolean {
  return isObject(schema) && JSON.stringify(schema).includes('"unevaluated')
}

/** Keywords whose text describes. */
const TEXTS = new Set(['title', 'description', '$comment'])

/** Whether every text in a value is without halves of surrogate pairs. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (Array.isArray(value)) return value.every(isWellFormed)
  return !isObject(value) || Object.entries(value).every((entry) => entry.every(isWellFormed))
}

/** The type of JSON Schema that a value names. */
function typeNamed(value: unknown): string | undefined {
  return typeof value === 'string' ? TYPE_WORDS.get(value.toLowerCase()) : undefined
}

/** Whether a pattern is a regular expression of ECMA-262, in either mode: `a\\-b` is one without the flag `u` alone. */
function isPattern(source: string): boolean {
  return ['u', ''].some((flags) => {
    try {
      return new RegExp(source, flags) instanceof RegExp
    } catch {
      return false
    }
  })
}

/** The type and the description of a schema, without what it says of its members. */
function outlineOf({ type, description }: Fields): Fields {
  const names = listOf(type)
  const isKnown = names.length > 0 && names.every((name) => TYPES.some((each) => each === name))
  return {
    ...(isKnown && { type }),
    ...(isKnown && admits(type, 'array') && { items: {} }),
    ...(typeof description === 'string' && { description }),
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined ? [] : [value]
}

const MAX_QUOTED_LENGTH = 60

/** A value in a sentence. */
function words(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (isObject(value)) return 'an object'
  return JSON.stringify(typeof value === 'string' ? shortened(value, MAX_QUOTED_LENGTH) : (value ?? null))
}
