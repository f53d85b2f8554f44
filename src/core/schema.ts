import { createRequire } from 'node:module'
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv'

/** A JSON Schema: 2020-12 unless its `$schema` names draft-07 or older. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** One way in which a value does not fit a schema. */
export interface SchemaProblem {
  /** Where in the value: the unescaped segments of a JSON pointer. */
  readonly path: readonly string[]
  /** Where in the schema: a JSON pointer with its leading `#`, `$ref`s already followed. */
  readonly schemaPath: string
  readonly keyword: string
  readonly message: string
  readonly params: Readonly<Record<string, unknown>>
}

/** Lists the problems of a value, at most a hundred; empty means it fits. @throws UnusableSchema */
export type Check = (value: unknown) => readonly SchemaProblem[]

/** A schema that cannot be compiled: it is malformed, or refers to something outside itself. */
export class UnusableSchema extends Error {
  constructor(cause: unknown) {
    super(`the schema cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    this.name = 'UnusableSchema'
  }
}

/**
 * The check of a schema, compiled when first used and shared by all schemas with the same text.
 * `trusted` schemas are our own: they are not themselves checked, which saves 30 ms at the first one.
 */
export function validator(schema: JsonSchema, { trusted = false } = {}): Check {
  const text = JSON.stringify(schema)
  const known = checks.get(text)
  const check = known ?? lazyCheck(schema, trusted)
  remember(text, check)
  return check
}

const most = { checks: 1000, characters: 16_000_000, problems: 100, perEngine: 200 }
const checks = new Map<string, Check>()
let characters = 0

function remember(text: string, check: Check): void {
  if (!checks.delete(text)) characters += text.length
  checks.set(text, check)
  for (const oldest of checks.keys()) {
    if (checks.size <= most.checks && characters <= most.characters) return
    checks.delete(oldest)
    characters -= oldest.length
  }
}

function lazyCheck(schema: JsonSchema, trusted: boolean): Check {
  let validate: ValidateFunction | undefined
  let failure: UnusableSchema | undefined
  return (value) => {
    if (failure) throw failure
    try {
      validate ??= compile(schema, trusted)
    } catch (error) {
      failure = new UnusableSchema(error)
      throw failure
    }
    if (validate(value)) return []
    return (validate.errors ?? []).slice(0, most.problems).map(problem)
  }
}

function compile(schema: JsonSchema, trusted: boolean): ValidateFunction {
  const { $schema, $async: _promises, ...rules } = schema
  const isOld = typeof $schema === 'string' && /draft-0[4-7]/.test($schema)
  return engine(isOld ? 'draft-07' : '2020-12', trusted).compile(rules)
}

type Draft = 'draft-07' | '2020-12'
const require = createRequire(import.meta.url)
const engines = new Map<string, { readonly ajv: Ajv; compiled: number }>()

// An Ajv keeps something of every schema it ever compiled, so it is replaced after a while.
function engine(draft: Draft, trusted: boolean): Ajv {
  const key = `${draft} ${trusted}`
  const current = engines.get(key)
  if (current && current.compiled < most.perEngine) {
    current.compiled += 1
    return current.ajv
  }
  const ajv = newEngine(draft, trusted)
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
    code: { regExp },
  }
  if (draft === 'draft-07') {
    const { Ajv }: typeof import('ajv') = require('ajv')
    return new Ajv(options)
  }
  const { Ajv2020 }: typeof import('ajv/dist/2020.js') = require('ajv/dist/2020.js')
  return new Ajv2020(options)
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

function problem({ instancePath, schemaPath, keyword, message, params }: ErrorObject): SchemaProblem {
  return { path: segments(instancePath), schemaPath, keyword, message: message ?? 'does not fit', params }
}

function segments(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}
