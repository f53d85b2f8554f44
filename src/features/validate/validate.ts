/** Checks arguments and results against the schemas of the server's tools, and repairs harmless defects. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError, invalidParam, unknownTool } from '../../core/error.ts'
import { isAnswer } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import { duplicateKey } from '../../core/json/read.ts'
import type { Log } from '../../core/log.ts'
import type { Payload } from '../../core/payload.ts'
import {
  type SchemaProblem,
  type Check,
  type JsonSchema,
  UnusableSchema,
  validator,
} from '../../core/schema/schema.ts'
import { settingOf } from '../../core/settings.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import { hasIdempotencyKey, idempotencyKeyOf } from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { type ValidateSettings, validateSchema } from '../settings/authorize.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'features'>

/** Refuses calls that can only fail: of unknown tools, or with invalid arguments. */
export const validate: Feature<ValidateSettings> = {
  ...validateSchema,
  create: (settings, deps) => {
    const checks = createChecks(deps.log)
    const nullTolerance = createNullTolerance(deps.log)
    return {
      middleware: ({ upstream, method }) => {
        if (method === 'tools/list') return (next) => async (call) => withInputSchemas(await next(call))
        if (method !== 'tools/call') return undefined
        const output = createOutputCheck(settings(upstream).output, checks, deps.log)
        return (next) => (call) => checked(call, { next, checks, nullTolerance, output, deps })
      },
    }
  },
}

interface ValidateContext {
  readonly next: Handler
  readonly checks: Checks
  readonly nullTolerance: NullTolerance
  readonly output: OutputCheck
  readonly deps: Deps
}

function checked(call: Call, context: ValidateContext): Promise<Outcome> {
  const { name, arguments: given } = call.params.fields
  if (typeof name !== 'string' || name === '') return refuse('name', 'must be a string')
  if (given !== undefined && !isObject(given)) return refuse('arguments', 'must be an object')
  // A server that cannot list its tools reports the problem itself.
  if (call.toolError !== undefined) return context.next(call)
  return validateAndRun(call, given ?? none, context)
}

function validateAndRun(
  call: Call,
  given: Readonly<Record<string, unknown>>,
  context: ValidateContext,
): Promise<Outcome> {
  const { next, checks, output } = context
  const { tool: entry } = call
  const { name } = call.params.fields
  if (!entry) return call.target.isBuiltin ? next(call) : Promise.reject(unknownTool(String(name)))
  if (isDeep(given, MAX_DEPTH)) return Promise.reject(tooDeep())
  if (entry.isUnlisted) {
    call.logFields.set('validated', false)
    return next(call)
  }
  const { definition, upstream } = entry
  const what = { upstream, tool: entry.name, schema: 'input' }
  const check = checks.of(listedSchema(definition), what)
  const problems = check(given)
  if (problems === 'unchecked') call.logFields.set('validated', false)
  else if (
    problems.length > 0 &&
    !context.nullTolerance.isOnlyNulls(given, problems, { check, upstream, tool: entry.name })
  )
    return runWithKey(call, entry, { context, check, problems })
  return output(next(call), entry)
}

interface InvalidCall {
  readonly context: ValidateContext
  readonly check: ReturnType<Checks['of']>
  readonly problems: readonly SchemaProblem[]
}

/** The missing argument may be the idempotency key, which the gateway adds. @throws INVALID_INPUT */
async function runWithKey(
  call: Call,
  entry: Descriptor,
  { context, check, problems }: InvalidCall,
): Promise<Outcome> {
  const filled = argumentsWithKey(call, entry, context.deps)
  const remaining = filled === undefined ? problems : check(filled)
  if (remaining !== 'unchecked' && remaining.length > 0) throw mismatchError(remaining)
  return context.output(context.next(call), entry)
}

const none = {}

/** The maximum nesting of arguments. */
const MAX_DEPTH = 200

function isDeep(value: unknown, remaining: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (remaining === 0) return true
  for (const key in value) {
    // Only own members, because it was parsed from JSON.
    const member: unknown = (value as Readonly<Record<string, unknown>>)[key]
    if (typeof member === 'object' && isDeep(member, remaining - 1)) return true
  }
  return false
}

function tooDeep(): GatewayError {
  return new GatewayError('INVALID_INPUT', `The arguments are nested more than ${MAX_DEPTH} levels deep.`, {
    isResult: true,
    field: 'arguments',
    reason: 'depth',
    suggestion: 'Send arguments that are less deeply nested.',
  })
}

function refuse(field: string, problemText: string): Promise<never> {
  return Promise.reject(invalidParam(field, problemText))
}

/** The arguments with the idempotency key, if the tool takes one as an argument; undefined if nothing is added. @throws INVALID_INPUT */
function argumentsWithKey(call: Call, entry: Descriptor, deps: Deps): unknown {
  const { upstream, name } = entry
  if (call.target.isBuiltin || !hasIdempotencyKey(call) || !deps.features.isOn('idempotency', upstream))
    return undefined
  const setting = settingOf(deps.servers.settings(upstream)?.tools ?? {}, name, 'keyArgument')?.value
  const filled = withKeyArgument(call, idempotencyKeyOf(call), setting, entry)
  return filled === call ? undefined : filled.params.fields.arguments
}

/** An invalid argument. */
interface Mismatch {
  /** Its path: names and indexes joined by dots; empty for the arguments as a whole. */
  readonly field: string
  /** The keyword of the violated rule. */
  readonly reason: string
  readonly text: string
}

/** How many problems are named, and the maximum length of a name and of a list of allowed values, in characters. */
const MAX_PROBLEM = { named: 5, listed: 20, field: 200, values: 200 }

/** The refusal of invalid arguments. It repeats no values. */
function mismatchError(problems: readonly SchemaProblem[]): GatewayError {
  const mismatches = distinct(withoutSummaries(problems).map(describeProblem))
  const named = mismatches.slice(0, MAX_PROBLEM.named).map(({ text }) => text)
  const remainingCount = mismatches.length - named.length
  const more = remainingCount > 0 ? ` (and ${remainingCount} more)` : ''
  const [first] = mismatches
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${named.join('; ')}${more}.`, {
    isResult: true,
    field: first?.field,
    reason: first?.reason,
    suggestion: 'Correct the arguments to match the input schema of the tool, and call it again.',
    details: {
      problems: mismatches.slice(0, MAX_PROBLEM.listed).map(({ field, reason }) => ({ field, reason })),
    },
  })
}

const summaries = new Set(['anyOf', 'oneOf', 'allOf', 'if'])

/** The problems without those that only summarise others. */
function withoutSummaries(problems: readonly SchemaProblem[]): readonly SchemaProblem[] {
  const found = problems.filter(({ keyword }) => !summaries.has(keyword))
  return found.length > 0 ? found : problems
}

function describeProblem({ path, keyword, message, params }: SchemaProblem): Mismatch {
  const inner = [params.missingProperty, params.additionalProperty, params.unevaluatedProperty].find(
    (each) => typeof each === 'string',
  )
  const field = [...path, ...(typeof inner === 'string' ? [inner] : [])].join('.').slice(0, MAX_PROBLEM.field)
  return { field, reason: keyword, text: `${nameOf(field)} ${describeRule(keyword, message, params)}` }
}

function nameOf(field: string): string {
  if (field === '') return 'the arguments'
  return /^[\w.$ -]{1,64}$/.test(field) ? `"${field}"` : 'an argument'
}

function describeRule(keyword: string, message: string, params: Readonly<Record<string, unknown>>): string {
  switch (keyword) {
    case 'required':
      return 'is required'
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return 'is not an argument of this tool'
    case 'enum':
      return `must be one of ${listed(params.allowedValues)}`
    case 'const':
      return `must be ${listed([params.allowedValue])}`
    default:
      return message
  }
}

function listed(values: unknown): string {
  const text = (Array.isArray(values) ? values : []).map((each) => JSON.stringify(each)).join(', ')
  return text.length > MAX_PROBLEM.values ? `${text.slice(0, MAX_PROBLEM.values)}…` : text
}

function distinct(mismatches: readonly Mismatch[]): readonly Mismatch[] {
  return [...new Map(mismatches.map((each) => [each.text, each])).values()]
}

/** The schema of a tool without arguments. */
const NO_ARGUMENTS = { type: 'object', additionalProperties: false } as const

/** A tool list with an input schema for each tool: clients reject the whole list if one has none. */
function withInputSchemas(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result') return outcome
  const { tools } = outcome.result.fields
  if (!Array.isArray(tools) || !tools.some(lacksInputSchema)) return outcome
  const repairedTools = tools.map((tool: unknown) =>
    lacksInputSchema(tool) ? { ...tool, inputSchema: NO_ARGUMENTS } : tool,
  )
  return { kind: 'result', result: outcome.result.with({ tools: repairedTools }) }
}

/** The input schema of a tool as it is listed. */
function listedSchema({ inputSchema }: Readonly<Record<string, unknown>>): unknown {
  return inputSchema ?? NO_ARGUMENTS
}

function lacksInputSchema(tool: unknown): tool is Record<string, unknown> {
  return isObject(tool) && (tool.inputSchema === undefined || tool.inputSchema === null)
}

// Compiled checks of schemas, tolerant of nulls and of unusable schemas.

/** The problems of a value, or `unchecked`. */
type CheckResult = readonly SchemaProblem[] | 'unchecked'

/** Checks values against the schemas of servers; each schema is compiled on first use. */
interface Checks {
  /** `what` identifies the schema in the log. */
  of(schema: unknown, what: Readonly<Record<string, unknown>>): (value: unknown) => CheckResult
}

/** Creates the checks. An unusable schema is logged once, and accepts everything. */
function createChecks(log: Log): Checks {
  const known = new WeakMap<object, (value: unknown) => CheckResult>()
  return {
    of: (schema, what) => {
      if (!isObject(schema)) return unchecked
      const found = known.get(schema)
      if (found) return found
      const check = tolerantCheck(schema, what, log)
      known.set(schema, check)
      return check
    },
  }
}

const unchecked = (): CheckResult => 'unchecked'

function tolerantCheck(
  schema: JsonSchema,
  what: Readonly<Record<string, unknown>>,
  log: Log,
): (value: unknown) => CheckResult {
  let isLogged = false
  const unusable = (error: unknown): CheckResult => {
    if (!(error instanceof UnusableSchema)) throw error
    if (!isLogged) log.warn('validate.schema_unusable', { ...what, reason: error.message.slice(0, 300) })
    isLogged = true
    return 'unchecked'
  }
  let check: Check | undefined
  return (value) => {
    try {
      check ??= validator(schema)
      return check(value)
    } catch (error) {
      return unusable(error)
    }
  }
}

// Arguments whose only defect is `null` for an optional value. Clients in Python and other languages send an optional
// argument without a value as `null`, and most servers accept that, although the schema does not name the type.
// Invariant: the server receives what the client sent.

/** Recognises such arguments. */
interface NullTolerance {
  /** Whether invalid arguments would be valid without their `null` members. Logged once for each tool. */
  isOnlyNulls(given: unknown, problems: readonly SchemaProblem[], checked: Checked): boolean
}

interface Checked {
  readonly check: ReturnType<Checks['of']>
  readonly upstream: string
  readonly tool: string
}

/** For how many tools it is remembered that this was logged. */
const MAX_LOGGED = 1000

/** Creates the tolerance, with nothing logged. */
function createNullTolerance(log: Log): NullTolerance {
  const logged = new Set<string>()
  return {
    isOnlyNulls: (given, problems, { check, upstream, tool }) => {
      // An additional property is not an optional one.
      if (problems.some(({ keyword }) => keyword.endsWith('Properties'))) return false
      const without = withoutNulls(given)
      const remaining = without === given ? problems : check(without)
      if (remaining === 'unchecked' || remaining.length > 0) return false
      const key = `${upstream} ${tool}`
      if (!logged.has(key) && logged.size < MAX_LOGGED) {
        logged.add(key)
        const hint = 'the input schema does not name the type null: leave the argument out instead'
        log.warn('validate.null_taken', { upstream, tool, hint })
      }
      return true
    },
  }
}

/** A value without `null` members of objects; the same value if it has none. */
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withoutNulls)
    return items.every((item, index) => item === value[index]) ? value : items
  }
  if (!isObject(value)) return value
  const entries = Object.entries(value)
  const kept = entries.flatMap(([key, member]) =>
    member === null ? [] : [[key, withoutNulls(member)] as const],
  )
  const isSame =
    kept.length === entries.length && kept.every(([, member], index) => member === entries[index]?.[1])
  return isSame ? value : Object.fromEntries(kept)
}

/** Results that are longer are not searched for duplicate keys, in characters. */
const MAX_SCANNED = 262_144

/** Checks the results of a tool. */
type OutputCheck = (answer: Promise<Outcome>, entry: Descriptor) => Promise<Outcome>

/** Creates the check: a result has content, and structured content that matches the output schema, if there is one. */
function createOutputCheck(mode: 'off' | 'warn' | 'strict', checks: Checks, log: Log): OutputCheck {
  /** Tools with known mismatches, and those with known duplicate keys. */
  const reported = new WeakSet<object>()
  const ambiguous = new WeakSet<object>()

  // The call was executed, so its result is relayed; who reads the first member sees another value than who reads the last.
  const reportDuplicates = (result: Payload, { definition, upstream, name }: Descriptor): void => {
    if (ambiguous.has(definition) || result.text.length > MAX_SCANNED) return
    const key = duplicateKey(result.text, result.value)
    if (key === undefined) return
    ambiguous.add(definition)
    log.warn('validate.duplicate_key', { upstream, tool: name, key: key.slice(0, MAX_PROBLEM.field) })
  }

  const checkResult = (result: Payload, { definition, upstream, name }: Descriptor): void => {
    const { outputSchema } = definition
    if (!isObject(outputSchema) || (mode === 'warn' && reported.has(definition))) return
    const structuredContent = result.member('structuredContent')
    const reason = (): string | undefined => {
      if (structuredContent === undefined) return 'it has no structured content'
      const schema = { upstream, tool: name, schema: 'output' }
      const problems = checks.of(outputSchema, schema)(structuredContent)
      const [first] = problems === 'unchecked' ? [] : problems
      return first && `${['structuredContent', ...first.path].join('.')} ${first.message}`
    }
    const problemText = reason()
    if (problemText === undefined) return
    if (!reported.has(definition))
      log.warn('validate.output', { upstream, tool: name, reason: problemText.slice(0, 300) })
    reported.add(definition)
    if (mode === 'warn') return
    throw new GatewayError(
      'UPSTREAM_ERROR',
      'The result of the server does not match the output schema of the tool.',
      {
        suggestion: 'The call may have taken effect: check before repeating it.',
        details: { classified_by: 'output_schema' },
      },
    )
  }

  return (answer, entry) => {
    const isChecked = mode !== 'off' && isObject(entry.definition.outputSchema)
    return answer.then((outcome) => {
      if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
      const { result } = outcome
      if (mode !== 'off') reportDuplicates(result, entry)
      if (isChecked) checkResult(result, entry)
      if (result.member('content') !== undefined) return outcome
      if (result.member('structuredContent') !== undefined) return outcome
      return { kind: 'result', result: result.with({ content: [] }) }
    })
  }
}
