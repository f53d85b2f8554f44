/**
 * Input schemas as the clients of all large models can send them. A provider refuses a request because of one tool that it
 * does not understand, and with it all others. What is refused, and where that is documented:
 *
 * - OpenAI: the root must be `type: object` without `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not`; an array needs
 *   `items`; a pattern must compile (https://platform.openai.com/docs/guides/function-calling,
 *   https://platform.openai.com/docs/guides/structured-outputs#supported-schemas).
 * - Anthropic: the schema must be valid under JSON Schema 2020-12, without `anyOf`, `oneOf` and `allOf` at the root; the names
 *   of arguments match `^[a-zA-Z0-9_.-]{1,64}$`; agents take no `$ref`
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
import { isNumber } from '../core/json/exact-number.ts'
import { asObject, isObject, pointerSegment, referredTo } from '../core/json/json.ts'
import { Payload, type Fields } from '../core/payload.ts'
import { type JsonSchema, metaSchemaProblem, rewrittenSchema } from '../core/schema/schema.ts'
import { shortened } from '../core/text/escape.ts'
import { admits, plainRoot, without } from './schema-root.ts'

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
/** The maximum length of a description, in characters: more than any provider documents. */
const MAX_DESCRIPTION_LENGTH = 32_768
/** The maximum number of changes of one schema that are kept. */
const MAX_CHANGES = 20

const nothing: Repair = { changes: [] }

/** Repairs by the digest of the schema's text: an unchanged entry of a list is repaired once. */
const repairs = new LRUCache<string, Repair>({
  max: 20_000,
  maxSize: 8_000_000,
  sizeCalculation: ({ schema }) => (schema ? JSON.stringify(schema).length : 1),
})

/** The entry of a tool as every client can use it. */
export function repairedTool(tool: Payload): RepairedTool {
  const given = tool.at('inputSchema')
  const { schema, changes, unusable } = given && isObject(given.value) ? repairOf(given) : nothing
  if (unusable) return { tool, changes, unusable }
  const { description } = tool.fields
  const isLong = typeof description === 'string' && description.length > MAX_DESCRIPTION_LENGTH
  if (!schema && !isLong) return { tool, changes }
  const edits: Fields = {
    ...(schema && { inputSchema: Payload.of(schema) }),
    ...(isLong && { description: shortened(description, MAX_DESCRIPTION_LENGTH) }),
  }
  const cut = { pointer: '/description', what: `has more than ${MAX_DESCRIPTION_LENGTH} characters: cut` }
  return { tool: tool.with(edits), changes: isLong ? [...changes, cut] : changes }
}

function repairOf(given: Payload): Repair {
  const key = createHash('sha256').update(given.text).digest('base64url')
  const known = repairs.get(key)
  if (known) return known
  const found = repair(asObject(given.value))
  repairs.set(key, found)
  return found
}

function repair(schema: JsonSchema): Repair {
  const repairer = new Repairer(schema)
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
  readonly #isOldDraft: boolean
  /** How many changes let more values fit than the original. */
  #loosened = 0
  #count = 0
  #insertedCount = 0
  /** The references within which the current schema is written out. */
  readonly #within: string[] = []
  /** Whether lists of `items` were written in the form of 2020-12. */
  #isModernized = false

  constructor(schema: JsonSchema) {
    this.#given = schema
    this.#isOldDraft = typeof schema.$schema === 'string' && /draft-0[3-7]/.test(schema.$schema)
  }

  root(): JsonSchema {
    const walked = asObject(this.#schema(this.#given, { at: ROOT, depth: 0 }))
    const repaired = plainRoot(
      { ...walked, type: 'object' },
      {
        changed: (pointer, what) => this.#loosen(`${ROOT}${pointer}`, what),
        unusable: (pointer, what) => {
          throw new Unrepairable(`${ROOT}${pointer}`, what)
        },
      },
    )
    if (this.changes.length === 0) return this.#given
    const removed = [
      ...DEFINITIONS,
      // What they refuse depends on what the other rules say.
      ...(this.#loosened > 0 ? ['unevaluatedProperties', 'unevaluatedItems'] : []),
      ...(this.#isModernized && this.#isOldDraft ? ['$schema'] : []),
    ]
    return rewrittenSchema(repaired, (rules) => without(rules, removed))
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
    const absent = names.filter((name) => !Object.hasOwn(properties, name))
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
    if (key !== 'description' || String(value).length <= MAX_DESCRIPTION_LENGTH) return value
    this.#change(place.at, `has more than ${MAX_DESCRIPTION_LENGTH} characters: cut`)
    return shortened(String(value), MAX_DESCRIPTION_LENGTH)
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
/** The argument is also sent as a header (SEP-2243). */
const MIRROR = 'x-mcp-header'
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
const isList = (value: unknown): boolean => Array.isArray(value)

/** What the values of the other keywords have to be, as the schema of JSON Schema 2020-12 says. */
const VALUES: ReadonlyMap<string, (value: unknown) => boolean> = new Map<string, (value: unknown) => boolean>(
  [
    ...['title', 'description', 'format', '$comment', '$id', '$anchor'].map((key) => [key, isText] as const),
    ...['contentEncoding', 'contentMediaType'].map((key) => [key, isText] as const),
    ...['deprecated', 'readOnly', 'writeOnly', 'uniqueItems'].map((key) => [key, isFlag] as const),
    ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((key) => [key, isNumber] as const),
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
