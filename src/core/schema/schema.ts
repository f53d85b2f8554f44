/**
 * Validates values against JSON Schema with Ajv, which is loaded on demand. The size, references, patterns and run time
 * of untrusted schemas are bounded.
 */
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv'
import { LRUCache } from 'lru-cache'
import { createRequire } from 'node:module'
import { messageOf } from '../error.ts'
import { isMultiple, ExactNumber, numberOf } from '../json/exact-number.ts'
import { canonical, asObject, isObject, pointerSegments } from '../json/json.ts'
import { hasExactNumbers, withDoubles } from '../json/read.ts'
import { compilePattern } from '../text/pattern.ts'
import { shorten } from '../json/shorten.ts'

/** A JSON Schema: 2020-12 unless its `$schema` names draft-07 or older. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** One validation problem of a value. */
export interface SchemaProblem {
  /** The location in the value: the unescaped segments of a JSON pointer. */
  readonly path: readonly string[]
  /** The location in the schema: a JSON pointer with its leading `#`, `$ref`s resolved. */
  readonly schemaPath: string
  readonly keyword: string
  readonly message: string
  readonly params: Readonly<Record<string, unknown>>
}

/** The problems of a value, at most a hundred; empty if it is valid. @throws UnusableSchema */
export type Check = (value: unknown) => readonly SchemaProblem[]

/**
 * A schema that cannot be used: it is malformed or too large, refers to something outside itself, or does not
 * terminate.
 */
export class UnusableSchema extends Error {
  constructor(cause: unknown) {
    super(`the schema cannot be used: ${messageOf(cause)}`, { cause })
    this.name = 'UnusableSchema'
  }
}

interface Trust {
  /**
   * It is the gateway's own: it is not validated itself, which saves 30 ms for the first one, and may use any pattern.
   */
  readonly trusted?: boolean
}

/**
 * The validator of a schema, compiled on first use and shared by all schemas with the same text. The cost of untrusted
 * schemas is bounded: patterns of other dialects, and those that could backtrack without end, are skipped
 * (`uncheckedPatterns`), together with the rules that what they match could decide.
 */
export function validator(schema: JsonSchema, trust: Trust = {}): Check {
  const text = `${trust.trusted === true ? '' : '?'}${JSON.stringify(schema)}`
  const shared = checks.get(text) ?? lazyCheck(schema, trust.trusted === true)
  remember(text, shared)
  return shared
}

const limits = { checks: 1000, characters: 16_000_000, problems: 100, perEngine: 200, steps: 100_000 }
const checks = new Map<string, Check>()
let characters = 0

function remember(text: string, check: Check): void {
  if (!checks.delete(text)) characters += text.length
  checks.set(text, check)
  for (const oldest of checks.keys()) {
    if (checks.size <= limits.checks && characters <= limits.characters) return
    checks.delete(oldest)
    characters -= oldest.length
  }
}

function lazyCheck(schema: JsonSchema, isTrusted: boolean): Check {
  let validate: ValidateFunction | undefined
  let tolerant: Check | undefined
  let failure: UnusableSchema | undefined
  return (value: unknown): readonly SchemaProblem[] => {
    if (failure) throw failure
    try {
      validate ??= compile(schema, isTrusted)
    } catch (error) {
      failure = new UnusableSchema(error)
      throw failure
    }
    steps = 0
    const rounded = withDoubles(value)
    if (attempt(validate, rounded)) return []
    if (rounded !== value || hasExactNumbers(schema))
      return (tolerant ??= lazyCheck(relaxed(withDoubles(schema), ofNumbers), isTrusted))(rounded)
    return (validate.errors ?? []).slice(0, limits.problems).map(problem)
  }
}

/** Rules that a value may violate because it fits a part of the schema, so that it must be known whether it does. */
const ofParts =
  'not if then else contains minContains maxContains unevaluatedItems unevaluatedProperties'.split(' ')
const ofUnknownParts: ReadonlySet<string> = new Set(ofParts)
/** What rounded numbers may violate though the exact ones do not: the server judges those. */
const ofNumbers: ReadonlySet<string> = new Set([
  ...'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf uniqueItems'.split(' '),
  ...ofParts,
])

/** A schema without some keywords. What fits the whole schema fits it, also if it is not certain which parts fit. */
function relaxed(schema: unknown, without: ReadonlySet<string>): JsonSchema {
  return rewrittenSchema(schema, (rules) => {
    const { oneOf, ...others } = rules
    // Several may seem to fit.
    return withoutKeys(oneOf === undefined ? rules : { anyOf: oneOf, ...others }, without)
  })
}

/**
 * A copy of a schema, with the rules of each of its schemas changed. A schema for which `change` gives nothing stays as it
 * is, with all that is in it.
 */
export function rewrittenSchema(schema: unknown, change: (rules: Rules) => Rules | undefined): JsonSchema {
  const copy = (value: unknown, kind: Kind): unknown => {
    if (Array.isArray(value)) return value.map((item) => copy(item, kind))
    if (!isObject(value)) return value
    const changed = kind === 'schema' ? change(value) : value
    if (!changed) return value
    const members = Object.entries(changed)
    return Object.fromEntries(members.map(([key, member]) => [key, copy(member, kindOf(kind, key))] as const))
  }
  return Object(copy(schema, 'schema')) as JsonSchema
}

type Rules = Readonly<Record<string, unknown>>

function withoutKeys(rules: Rules, keys: ReadonlySet<string>): Rules {
  return Object.fromEntries(Object.entries(rules).filter(([key]) => !keys.has(key)))
}

/** @throws UnusableSchema if the validation takes too many steps */
function attempt(validate: ValidateFunction, value: unknown): boolean {
  try {
    return validate(value)
  } catch (error) {
    throw new UnusableSchema(error)
  }
}

/** How many references the current validation has followed. */
let steps = 0

function takeStep(): boolean {
  steps += 1
  if (steps > limits.steps) throw new RangeError('it takes too many steps')
  return true
}

const NAME = 'https://gatehouse.invalid/schema'

function compile(schema: JsonSchema, isTrusted: boolean): ValidateFunction {
  // Without an id of its own a schema could not refer to itself.
  const { $schema, $async: _promises, ...rules }: JsonSchema = { $id: NAME, ...Object(withDoubles(schema)) }
  const isDraft07OrOlder = typeof $schema === 'string' && /draft-0[4-7]/.test($schema)
  const draft = isDraft07OrOlder ? 'draft-07' : '2020-12'
  const chosen = engine(`${draft} ${isTrusted}`, () => newEngine(draft, isTrusted))
  if (isTrusted) return chosen.compile(rules)
  const skipped: UncheckedPattern[] = []
  const bounded = boundedSchema(rules, skipped)
  return chosen.compile(skipped.length > 0 ? relaxed(bounded, ofUnknownParts) : bounded)
}

/** A pattern of a schema that is not checked. */
interface UncheckedPattern {
  /** The keys that lead to it, joined by dots. */
  readonly at: string
  readonly pattern: string
  /** `syntax`: it is not one of ECMA-262; `time`: it cannot be matched in time linear to the text. */
  readonly reason: 'syntax' | 'time'
}

/** The patterns of an untrusted schema that its validator does not check; none if the schema is too large to be used. */
export function uncheckedPatterns(schema: JsonSchema): readonly UncheckedPattern[] {
  const found: UncheckedPattern[] = []
  try {
    boundedSchema(schema, found)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  return found
}

/** Why a pattern is not checked; undefined if it is. */
function patternProblem(source: string): UncheckedPattern['reason'] | undefined {
  try {
    return compilePattern(source) ? undefined : 'time'
  } catch {
    return 'syntax'
  }
}

/**
 * Why a schema cannot be compiled by the official SDK, which compiles the output schemas of all tools when it lists them;
 * undefined if it can.
 */
export function compileProblem(schema: JsonSchema): string | undefined {
  const text = JSON.stringify(schema)
  const known = compileProblems.get(text)
  if (known !== undefined) return known === '' ? undefined : known
  const problem = problemOfCompiling(schema)
  compileProblems.set(text, problem ?? '')
  return problem
}

/** What is wrong in a schema under JSON Schema 2020-12, and where, as a JSON pointer; undefined if nothing is. */
export function metaSchemaProblem(schema: JsonSchema): { pointer: string; message: string } | undefined {
  const { $schema: _draft, ...rules } = Object(withDoubles(schema)) as JsonSchema
  const ajv = engine('meta', () => load('2020-12', { strict: false, logger: false, meta: true }))
  if (ajv.validateSchema(rules) === true) return undefined
  const [problem] = ajv.errors ?? []
  return { pointer: problem?.instancePath ?? '', message: problem?.message ?? 'is no JSON Schema' }
}

/** Empty for schemas that can be compiled. */
const compileProblems = new LRUCache<string, string>({
  max: limits.checks,
  maxSize: limits.characters,
  sizeCalculation: (_problem, text) => text.length + 1,
})

function problemOfCompiling(schema: JsonSchema): string | undefined {
  try {
    boundedSchema(schema, [])
    const rounded = Object(withDoubles(schema)) as JsonSchema
    // The ids of other schemas may be in its way.
    if (!compiles(rounded, engine('listed', newListingEngine))) newListingEngine().compile(rounded)
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

function compiles(schema: JsonSchema, ajv: Ajv): boolean {
  try {
    ajv.compile(schema)
    return true
  } catch {
    return false
  }
}

/** An engine with the options of the SDK. */
function newListingEngine(): Ajv {
  return load('draft-07', {
    strict: false,
    allErrors: true,
    logger: false,
    validateSchema: false,
    validateFormats: false,
    addUsedSchema: false,
  })
}

type Draft = 'draft-07' | '2020-12'
const require = createRequire(import.meta.url)
const engines = new Map<string, { readonly ajv: Ajv; compiled: number }>()

// Ajv retains parts of every schema it compiles, so it is replaced from time to time.
function engine(key: string, make: () => Ajv): Ajv {
  const current = engines.get(key)
  if (current && current.compiled < limits.perEngine) {
    current.compiled += 1
    return current.ajv
  }
  const ajv = make()
  engines.set(key, { ajv, compiled: 1 })
  return ajv
}

// Loading ajv takes 20 ms, which a start without a config file need not pay.
function newEngine(draft: Draft, trusted: boolean): Ajv {
  const options: Options = {
    strict: false,
    allErrors: true,
    logger: false,
    meta: !trusted,
    validateSchema: !trusted,
    validateFormats: false,
    addUsedSchema: false,
    // A tool may have an argument `constructor`.
    ownProperties: !trusted,
    // The gateway's own schemas are used once, at startup: optimizing their code takes longer than it saves.
    code: { regExp: trusted ? regExp : safeRegExp, optimize: !trusted },
  }
  const ajv = load(draft, options)
  return trusted ? ajv : bound(ajv)
}

function load(draft: Draft, options: Options): Ajv {
  if (draft === 'draft-07') {
    const { Ajv }: typeof import('ajv') = require('ajv')
    return new Ajv(options)
  }
  const { Ajv2020 }: typeof import('ajv/dist/2020.js') = require('ajv/dist/2020.js')
  return new Ajv2020(options)
}

/** Replaces keywords whose cost a server could drive up by bounded versions. */
function bound(ajv: Ajv): Ajv {
  ajv.addKeyword({ keyword: STEP_KEYWORD, errors: false, validate: takeStep })
  ajv.removeKeyword('multipleOf')
  // Ajv divides doubles.
  ajv.addKeyword({
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schema: of }) => `must be multiple of ${String(of)}` },
    validate: (of: number, value: number) => isMultiple(value, of),
  })
  ajv.removeKeyword('uniqueItems')
  // Ajv compares each item with every other.
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (isOn: boolean, items: readonly unknown[]) =>
      !isOn || new Set(items.map(canonical)).size === items.length,
  })
  return ajv
}

// Servers write patterns such as `a\-b`, which are errors in Unicode mode only.
const regExp = Object.assign(
  (pattern: string, flags: string): RegExp => {
    try {
      return new RegExp(pattern, flags)
    } catch {
      return new RegExp(pattern)
    }
  },
  { code: 'new RegExp' },
)

// Names of properties that an unchecked pattern could match are accepted.
const safeRegExp = Object.assign(
  (source: string) => {
    const pattern = patternProblem(source) === undefined ? compilePattern(source) : undefined
    // Ajv identifies patterns by their text.
    return { test: (text: string) => pattern?.test(text, true) ?? true, toString: () => source }
  },
  { code: 'safeRegExp' },
)

function problem({ instancePath, schemaPath, keyword, message, params }: ErrorObject): SchemaProblem {
  return {
    path: pointerSegments(instancePath),
    schemaPath,
    keyword,
    message: message ?? 'does not fit',
    params,
  }
}

/** The limits of an untrusted schema: nesting depth, number of values, and characters of its texts. */
const schemaLimits = { depth: 64, values: 20_000, characters: 500_000 }

/** The keyword that counts followed references. */
const STEP_KEYWORD = 'x-gatehouse-step'

/** What a value in a schema is: a schema, a map of schemas by names or by patterns, or data. */
type Kind = 'schema' | 'map' | 'patterns' | 'plain'

/** Keywords whose members are schemas, under any name. */
const maps = new Set(['properties', '$defs', 'definitions', 'dependentSchemas', 'dependencies'])
/** Keywords whose value is not a schema. */
const plain = new Set(['enum', 'const', 'default', 'examples', 'required', 'type'])
const references = ['$ref', '$dynamicRef', '$recursiveRef']

/**
 * A copy of a schema that counts each followed reference as a step, so that a small schema cannot cause unbounded work, and
 * without the patterns that are not checked, which are added to `skipped`.
 * @throws TypeError if the schema is too large
 */
function boundedSchema(schema: JsonSchema, skipped: UncheckedPattern[]): JsonSchema {
  const budget = { values: schemaLimits.values, characters: schemaLimits.characters }

  const spend = (characters: number, depth: number): void => {
    budget.values -= 1
    budget.characters -= characters
    if (budget.values < 0 || budget.characters < 0) throw new TypeError('it is too large')
    if (depth > schemaLimits.depth) throw new TypeError('it is nested too deeply')
  }
  const isSkipped = (pattern: string, at: string): boolean => {
    const reason = patternProblem(pattern)
    if (reason !== undefined) skipped.push({ at, pattern, reason })
    return reason !== undefined
  }
  const copy = (value: unknown, { kind, depth, at }: Place): unknown => {
    spend(typeof value === 'string' ? value.length : 0, depth)
    if (Array.isArray(value))
      return value.map((item, index) => copy(item, { kind, depth: depth + 1, at: below(at, index) }))
    if (!isObject(value)) return value
    const copied = Object.entries(value).flatMap(([key, member]) => {
      spend(key.length, depth)
      const place = { kind: kindOf(kind, key), depth: depth + 1, at: below(at, key) }
      const isPattern = kind === 'schema' && key === 'pattern' && typeof member === 'string'
      if (isPattern && isSkipped(member, place.at)) return []
      return [[key, kind === 'patterns' && isSkipped(key, at) ? true : copy(member, place)] as const]
    })
    const isReference = kind === 'schema' && references.some((key) => typeof value[key] === 'string')
    return Object.fromEntries(isReference ? [...copied, [STEP_KEYWORD, true] as const] : copied)
  }
  const bounded = copy(schema, { kind: 'schema', depth: 0, at: '' })
  return asObject(bounded)
}

/** A place in a schema: the kind of its value, and the keys that lead to it. */
interface Place {
  readonly kind: Kind
  readonly depth: number
  readonly at: string
}

function below(at: string, key: string | number): string {
  return at === '' ? String(key) : `${at}.${key}`
}

function kindOf(parent: Kind, key: string): Kind {
  if (parent === 'plain') return 'plain'
  if (parent !== 'schema') return 'schema'
  if (plain.has(key)) return 'plain'
  if (key === 'patternProperties') return 'patterns'
  return maps.has(key) ? 'map' : 'schema'
}

/**
 * A schema without the patterns that clients cannot compile, which they do with the flag `u`, and without what those would
 * decide about other properties. All that fits the schema fits it.
 */
export function withCompilablePatterns(schema: JsonSchema): JsonSchema {
  let isChanged = false
  const copy = rewrittenSchema(schema, (rules) => {
    const { pattern, patternProperties } = rules
    const names = isObject(patternProperties) ? Object.keys(patternProperties) : []
    const without = new Set([
      ...(typeof pattern === 'string' && !compilesForClients(pattern) ? ['pattern'] : []),
      ...(names.every(compilesForClients)
        ? []
        : ['patternProperties', 'additionalProperties', 'unevaluatedProperties']),
    ])
    isChanged ||= without.size > 0
    return withoutKeys(rules, without)
  })
  return isChanged ? relaxed(copy, ofUnknownParts) : copy
}

function compilesForClients(pattern: string): boolean {
  try {
    return RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/**
 * An integer within bounds of which one is beyond 2^53 and leaves out the small numbers; undefined if small numbers fit, or a
 * bound is no integer.
 */
export function longIntegerFor(schema: Readonly<Record<string, unknown>>): number | ExactNumber | undefined {
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf } = schema
  const above = (bound: unknown): boolean => bound instanceof ExactNumber && Number(bound.text) > 1
  const below = (bound: unknown): boolean => bound instanceof ExactNumber && Number(bound.text) < 1
  if (above(minimum)) return shifted(minimum, 0n)
  if (above(exclusiveMinimum)) return shifted(exclusiveMinimum, 1n)
  if (below(maximum)) return shifted(maximum, 0n)
  if (below(exclusiveMaximum)) return shifted(exclusiveMaximum, -1n)
  return above(multipleOf) ? shifted(multipleOf, 0n) : undefined
}

function shifted(bound: unknown, by: bigint): number | ExactNumber | undefined {
  const text = String(bound)
  return /^-?\d+$/.test(text) ? numberOf(String(BigInt(text) + by)) : undefined
}

/** Structured content with arrays shortened or, if that is not enough, texts too, so that it still matches its schema. */
export function shortenedFor(value: unknown, schema: JsonSchema | undefined, budget: number): unknown {
  for (const strings of [false, true]) {
    const short = shorten(value, budget, strings)
    if (short !== undefined && (!schema || matchesSchema(short, schema))) return short
  }
  return undefined
}

/** Whether a value matches a schema, as far as that can be checked. */
export function matchesSchema(value: unknown, schema: JsonSchema): boolean {
  try {
    return validator(schema)(value).length === 0
  } catch {
    // An unusable schema cannot be enforced.
    return true
  }
}
