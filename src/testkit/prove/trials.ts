/**
 * The arguments of the calls of a proof: given in a file or the configuration, or made from the schema. Each trial has
 * texts of its own, so that no trial finds what another one left behind.
 */
import { asList, asObject, isObject } from '../../core/json/json.ts'
import { isWidening, isTrial } from '../../core/undo/selectors.ts'
import { type Field, fieldsOf } from '../../core/undo/tool-shape.ts'
import { longIntegerFor, UnusableSchema, validator } from '../../core/schema/schema.ts'
import { wordsOf } from '../../core/text/words.ts'
import { isPathName, outsideOf, type Sandbox } from './sandbox.ts'
import type { Json, ProofCall } from './target.ts'
import { parseJson } from '../../core/json/read.ts'

/** One call of the tool that a proof is about, and the calls before it. */
export interface Trial {
  readonly before: readonly ProofCall[]
  readonly arguments: Json
}

/** The trials of a tool, or why there are none. */
export type Trials =
  | { readonly make: (unique: string) => Trial; readonly isGenerated: boolean }
  | { readonly problem: string; readonly isArgumentNeeded?: true }

/** What a file says about the calls of a tool. Texts may contain `{unique}` and `{sandbox}`. */
export interface GivenCalls {
  readonly before: readonly ProofCall[]
  readonly arguments: Json
  /** Calls that read what the tool changes, in place of those that are found. */
  readonly reads: readonly ProofCall[]
}

/** Reads a file of arguments. @throws Error that names the place and what is wrong */
export function readGivenCalls(text: string, file: string): ReadonlyMap<string, GivenCalls> {
  let value: unknown
  try {
    value = parseJson(text)
  } catch {
    throw new Error(`${file} is not JSON`)
  }
  if (!isObject(value)) throw new Error(`${file}: give an object with an entry for each tool`)
  const read = Object.entries(value).map(
    ([tool, given]) => [tool, givenCalls(given, `${file}: ${tool}`)] as const,
  )
  return new Map(read)
}

function givenCalls(given: unknown, place: string): GivenCalls {
  if (!isObject(given) || !isObject(given.arguments))
    throw new Error(`${place}: give an object with "arguments", and optionally "before" and "reads"`)
  const unknown = Object.keys(given).find((key) => !['arguments', 'before', 'reads'].includes(key))
  if (unknown !== undefined)
    throw new Error(`${place}: "${unknown}" is not expected; there are arguments, before and reads`)
  const calls = (key: 'before' | 'reads'): ProofCall[] => {
    const list: unknown = given[key] ?? []
    if (!Array.isArray(list)) throw new Error(`${place}: "${key}" must be a list of calls`)
    return list.map((each: unknown, index) => {
      if (!isObject(each) || typeof each.tool !== 'string' || !isObject(each.arguments))
        throw new Error(`${place}: ${key}[${index}] must be {"tool": NAME, "arguments": {…}}`)
      return { tool: each.tool, arguments: each.arguments }
    })
  }
  return { arguments: given.arguments, before: calls('before'), reads: calls('reads') }
}

/** A given value with its placeholders replaced. */
export function filledIn<Value>(value: Value, sandbox: Sandbox, unique: string): Value {
  const fill = (each: unknown): unknown => {
    if (typeof each === 'string')
      return each.replaceAll('{unique}', unique).replaceAll('{sandbox}', sandbox.folders[0] ?? '{sandbox}')
    if (Array.isArray(each)) return each.map(fill)
    if (!isObject(each)) return each
    return Object.fromEntries(Object.entries(each).map(([key, member]) => [key, fill(member)]))
  }
  // Only texts change.
  return fill(value) as Value
}

interface TrialSources {
  readonly sandbox: Sandbox
  readonly given: GivenCalls | undefined
  /** Examples of the configuration, then those of the schema. */
  readonly examples: readonly Json[]
}

/** How trials of a tool are made. */
export function trialsOf(definition: Json, { sandbox, given, examples }: TrialSources): Trials {
  if (given) {
    const make = (unique: string): Trial =>
      filledIn({ before: given.before, arguments: given.arguments }, sandbox, unique)
    return checked({ make, isGenerated: false }, definition, sandbox)
  }
  for (const example of examples) {
    const found = checked(
      { make: () => ({ before: [], arguments: example }), isGenerated: false },
      definition,
      sandbox,
    )
    if ('make' in found) return found
  }
  const make = (unique: string): Trial => ({
    before: [],
    arguments: new Generator(sandbox, unique).arguments(definition),
  })
  return checked({ make, isGenerated: true }, definition, sandbox)
}

function checked(
  trials: Extract<Trials, { readonly isGenerated: boolean }>,
  definition: Json,
  sandbox: Sandbox,
): Trials {
  let trial: Trial
  try {
    trial = trials.make('check')
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error), isArgumentNeeded: true }
  }
  const { arguments: args, before } = trial
  const misfit = mismatch(definition.inputSchema, args)
  if (misfit !== undefined) {
    const who = trials.isGenerated
      ? 'no arguments can be made from its schema'
      : 'its arguments do not fit its schema'
    return { problem: `${who} (${misfit})`, isArgumentNeeded: true }
  }
  const outside =
    outsideOf(sandbox, args, { mustBind: true }) ??
    before.flatMap((call) => outsideOf(sandbox, call.arguments, { mustBind: false }) ?? [])[0]
  return outside === undefined ? trials : { problem: outside }
}

function mismatch(schema: unknown, args: Json): string | undefined {
  if (!isObject(schema)) return undefined
  try {
    const [problem] = validator(schema)(args)
    return (
      problem && `${problem.path.length === 0 ? 'the arguments' : problem.path.join('.')} ${problem.message}`
    )
  } catch (error) {
    if (error instanceof UnusableSchema) return undefined
    throw error
  }
}

/**
 * The deepest nesting of generated values, and the number of elements of their lists: more than one, to find rules that
 * undo only the first.
 */
const MAX_DEPTH = 8
const ELEMENTS = 2

/** Makes arguments with texts that no other call has. */
class Generator {
  readonly #sandbox: Sandbox
  readonly #unique: string
  #texts = 0

  constructor(sandbox: Sandbox, unique: string) {
    this.#sandbox = sandbox
    this.#unique = unique
  }

  /** @throws Error if the schema is beyond what can be made */
  arguments({ inputSchema, name }: Json): Json {
    const isFolder = wordsOf(String(name)).some((word) => /^(?:dir|directory|folder)$/.test(word))
    return this.#object(asObject(inputSchema), { depth: 0, isFolder })
  }

  #object(schema: Json, place: Place): Json {
    const fields = fieldsOf(schema)
    if (!fields) throw new Error('its schema has alternatives')
    const wanted = fields.filter((field) => field.isRequired || this.#sandbox.named.has(field.name))
    return Object.fromEntries(wanted.map((field) => [field.name, this.#value(field, place)]))
  }

  #value(field: Field, { depth, isFolder }: Place): unknown {
    const { schema, name } = field
    if (depth > MAX_DEPTH) throw new Error('its schema is nested too deeply')
    const place = { depth: depth + 1, isFolder }
    const type = typeOf(schema)
    if (type === 'string' && (this.#sandbox.named.has(name) || isPathName(name)))
      return this.#place(name, isFolder)
    const [known] = [schema.const, schema.default, ...asList(schema.examples), ...asList(schema.enum)].filter(
      (each) => each !== undefined,
    )
    if (isTrial(field) || isWidening(field)) return false
    if (known !== undefined) return known
    const [alternative] = [...asList(schema.anyOf), ...asList(schema.oneOf)].filter(isObject)
    if (type === undefined && alternative) return this.#value({ ...field, schema: alternative }, place)
    if (type === 'string') return this.#text(schema)
    if (type === 'boolean') return true
    if (type === 'integer' || type === 'number') return longIntegerFor(schema) ?? numberIn(schema)
    if (type === 'array') return this.#list(field, place)
    return this.#object(schema, place)
  }

  #list({ schema, ...field }: Field, place: Place): unknown[] {
    const { items, minItems = 0, maxItems = ELEMENTS } = schema
    const count = Math.min(Number(maxItems), Math.max(Number(minItems), ELEMENTS))
    if (!isObject(items)) return []
    return Array.from({ length: Math.min(count, MAX_ELEMENTS) }, () =>
      this.#value({ ...field, schema: items }, place),
    )
  }

  #text({ minLength = 0, maxLength = 1000, format }: Json): string {
    if (format === 'date') return '2030-01-31'
    if (format === 'date-time') return '2030-01-31T12:00:00Z'
    const text = this.#next()
    if (format === 'email') return `${text}@example.com`
    return text.padEnd(Number(minLength), 'x').slice(-Number(maxLength))
  }

  #place(name: string, isFolder: boolean): string {
    const own = this.#sandbox.named.get(name) ?? this.#sandbox.folders[0]
    const file = `${this.#next()}${isFolder ? '' : '.txt'}`
    if (own === undefined) return file
    if (own.endsWith('*')) return `${own.slice(0, -1)}${this.#next()}`
    return this.#sandbox.folders.includes(own) || /^(?:[\\/]|[A-Za-z]:)/.test(own) ? `${own}/${file}` : own
  }

  #next(): string {
    this.#texts += 1
    return `${this.#unique}-${this.#texts}`
  }
}

interface Place {
  readonly depth: number
  /** The tool makes folders, not files. */
  readonly isFolder: boolean
}

const MAX_ELEMENTS = 10

function typeOf({ type, properties }: Json): unknown {
  const [first] = [type].flat().filter((each) => each !== 'null')
  return first ?? (isObject(properties) ? 'object' : undefined)
}

function numberIn({ minimum, exclusiveMinimum, multipleOf }: Json): number {
  const least =
    typeof minimum === 'number' ? minimum : typeof exclusiveMinimum === 'number' ? exclusiveMinimum + 1 : 1
  return typeof multipleOf === 'number' ? Math.ceil(least / multipleOf) * multipleOf : Math.ceil(least)
}
