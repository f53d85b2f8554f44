/**
 * Checks arguments and results against the schemas of the server's tools. By default a server judges itself what it takes: a
 * call that does not fit its schema is passed on unchanged, unless a rule of the configuration depends on what does not fit.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { dryRunSlot } from '../../core/dry-run.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError, invalidParam, unknownTool } from '../../core/error.ts'
import { isAnswer } from '../../core/failure.ts'
import { asObject, isObject } from '../../core/json/json.ts'
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
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import { hasIdempotencyKey, idempotencyKeyOf } from '../../protocol/meta-keys.ts'
import { type Feature, type Services, toolSetting } from '../feature.ts'
import { type ValidateSettings, validateSchema } from '../settings/authorize.ts'
import { secretNames } from '../../core/masked-arguments.ts'
import { yamlKey } from '../../core/text/escape.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import { type Expression, parseExpression, pathsOf } from '../../core/undo/expression.ts'
import { callsOf } from '../../core/undo/judge-undo.ts'
import { undoRuleOf } from '../../core/undo/rules.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'features'>

/** Refuses calls of unknown tools and, where it is strict or a rule requires it, those with arguments that do not fit. */
export const validate: Feature<ValidateSettings> = {
  ...validateSchema,
  create: (settings, deps) => {
    const checks = createChecks(deps.log)
    const reports = createReports(deps.log)
    const rulesOf = cachedRules(deps)
    return {
      calls: {
        judgesArguments: true,
        middleware: ({ upstream, method }) => {
          if (method !== 'tools/call') return undefined
          const { input, output: outputMode } = settings(upstream)
          const output = createOutputCheck(outputMode, checks, deps.log)
          return (next) => (call) => checked(call, { next, input, checks, reports, rulesOf, output, deps })
        },
        dryRun: 'same',
      },
    }
  },
}

interface ValidateContext {
  readonly next: Handler
  readonly input: ValidateSettings['input']
  readonly checks: Checks
  readonly reports: Reports
  readonly output: OutputCheck
  readonly deps: Deps
  rulesOf(entry: Descriptor): readonly ArgumentRule[]
}

function cachedRules({ servers }: Deps): ValidateContext['rulesOf'] {
  const known = new WeakMap<object, readonly ArgumentRule[]>()
  return (entry) => {
    const found = known.get(entry.definition) ?? argumentRulesOf(entry, servers.settings(entry.upstream))
    known.set(entry.definition, found)
    return found
  }
}

function checked(call: Call, context: ValidateContext): Promise<Outcome> {
  const { name, arguments: given } = call.params.fields
  if (typeof name !== 'string' || name === '') return refuse('name', 'must be a string')
  // Servers in several languages read null as no arguments.
  const args = given === undefined || (given === null && context.input !== 'strict') ? none : given
  if (!isObject(args)) return refuse('arguments', 'must be an object')
  // A server that cannot list its tools reports the problem itself.
  if (call.toolError !== undefined) return context.next(call)
  return validateAndRun(call, args, context)
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
  const check = checks.of(definition.inputSchema, { upstream, tool: entry.name, schema: 'input' })
  const problems = check(given)
  if (problems === 'unchecked') call.logFields.set('validated', false)
  else if (problems.length > 0) return runInvalid(call, entry, { context, check, given, problems })
  return output(next(call), entry)
}

interface InvalidCall {
  readonly context: ValidateContext
  readonly check: ReturnType<Checks['of']>
  readonly given: Readonly<Record<string, unknown>>
  readonly problems: readonly SchemaProblem[]
}

/** @throws INVALID_INPUT if the call is not for its server to judge */
async function runInvalid(
  call: Call,
  entry: Descriptor,
  { context, check, given, problems }: InvalidCall,
): Promise<Outcome> {
  const { input, next, output, reports, deps } = context
  // The missing argument may be the idempotency key, which the gateway adds.
  const filled = argumentsWithKey(call, entry, deps) ?? given
  const remaining = filled === given ? problems : check(filled)
  if (remaining === 'unchecked' || remaining.length === 0) return output(next(call), entry)
  if (areOnlyNulls(filled, remaining, check)) {
    reports.add('validate.null_taken', entry, {
      hint: 'the input schema does not name the type null: leave the argument out instead',
    })
    return output(next(call), entry)
  }
  // The gateway itself is the server of its own tools.
  if (input === 'strict' || call.target.isBuiltin === true) throw mismatchError(remaining)
  const keys = Object.keys(filled).filter((key) => !Object.hasOwn(given, key))
  const rules = [...keys.map((argument) => ({ argument, rule: KEY_RULE })), ...context.rulesOf(entry)]
  const undecided = undecidedRule(rules, remaining)
  if (undecided) throw mismatchError(remaining, undecided)
  if (dryRunSlot.of(call)) throw mismatchError(remaining, { rule: DRY_RUN_RULE })
  if (input === 'warn')
    reports.add('validate.input', entry, { reason: mismatchText(remaining).slice(0, MAX_LOGGED_LENGTH) })
  return output(next(call), entry)
}

const KEY_RULE = 'sending the idempotency key'
const DRY_RUN_RULE = 'a dry run without the server'

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
function argumentsWithKey(
  call: Call,
  entry: Descriptor,
  deps: Deps,
): Readonly<Record<string, unknown>> | undefined {
  const { upstream, name } = entry
  if (call.target.isBuiltin || !hasIdempotencyKey(call) || !deps.features.isOn('idempotency', upstream))
    return undefined
  const setting = toolSetting(deps, upstream, name, 'keyArgument')
  const filled = withKeyArgument(call, idempotencyKeyOf(call), setting, entry)
  return filled === call ? undefined : filled.params.at('arguments')?.fields
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

/** Why a call is refused though its server may take it: a rule, and the argument that it depends on. */
interface Cause {
  readonly rule: string
  readonly argument?: string
}

/** The refusal of invalid arguments. It repeats no values. */
function mismatchError(problems: readonly SchemaProblem[], cause?: Cause): GatewayError {
  const mismatches = mismatchesOf(problems)
  const first =
    mismatches.find(({ field }) => cause?.argument !== undefined && field.split('.')[0] === cause.argument) ??
    mismatches[0]
  const why = cause
    ? ` The call was not made, because ${cause.rule} depends on ${nameOf(cause.argument ?? '')}.`
    : ''
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${mismatchText(problems)}.${why}`, {
    isResult: true,
    field: first?.field,
    reason: first?.reason,
    suggestion: 'Correct the arguments to match the input schema of the tool, and call it again.',
    details: {
      problems: mismatches.slice(0, MAX_PROBLEM.listed).map(({ field, reason }) => ({ field, reason })),
      ...(cause && { rule: cause.rule }),
    },
  })
}

function mismatchesOf(problems: readonly SchemaProblem[]): readonly Mismatch[] {
  return distinct(withoutSummaries(problems).map(describeProblem))
}

function mismatchText(problems: readonly SchemaProblem[]): string {
  const mismatches = mismatchesOf(problems)
  const named = mismatches.slice(0, MAX_PROBLEM.named).map(({ text }) => text)
  const remainingCount = mismatches.length - named.length
  return `${named.join('; ')}${remainingCount > 0 ? ` (and ${remainingCount} more)` : ''}`
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

// Compiled checks of schemas, tolerant of unusable ones.

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

/** What is logged once for each tool. */
interface Reports {
  add(event: string, entry: Descriptor, fields: Readonly<Record<string, string>>): void
}

/** For how many tools it is remembered that something was logged. */
const MAX_LOGGED = 1000
/** The maximum length of a logged text, in characters. */
const MAX_LOGGED_LENGTH = 300

function createReports(log: Log): Reports {
  const logged = new Set<string>()
  return {
    add: (event, { upstream, name }, fields) => {
      const key = `${event} ${upstream} ${name}`
      if (logged.has(key) || logged.size >= MAX_LOGGED) return
      logged.add(key)
      log.warn(event, { upstream, tool: name, ...fields })
    },
  }
}

/**
 * Whether invalid arguments would be valid without their `null` members. Clients in Python and other languages send an
 * optional argument without a value as `null`, and most servers accept that, although the schema does not name the type.
 */
function areOnlyNulls(
  given: unknown,
  problems: readonly SchemaProblem[],
  check: ReturnType<Checks['of']>,
): boolean {
  // An additional property is not an optional one.
  if (problems.some(({ keyword }) => keyword.endsWith('Properties'))) return false
  const without = withoutNulls(given)
  const remaining = without === given ? problems : check(without)
  return remaining !== 'unchecked' && remaining.length === 0
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

/*
 * What the configuration says of single arguments of a tool. Such a rule reads the value as the schema declares it. A server
 * may read a value of another type differently, such as "7.0" for 7, so the rule cannot judge a call with one.
 */

/** A rule that depends on an argument. */
interface ArgumentRule {
  /** The argument; undefined for all of them. */
  readonly argument: string | undefined
  /** Where the rule is in the configuration, or what it is. */
  readonly rule: string
  /** It only depends on whether the argument is an object or a list, as the schema says. */
  readonly isOfType?: true
}

/** The rules about arguments of a tool of a server with these settings. */
function argumentRulesOf(
  { name, definition }: Descriptor,
  settings: UpstreamSettings | undefined,
): readonly ArgumentRule[] {
  if (!settings) return maskingRules(definition)
  const server = `upstreams.${yamlKey(settings.name)}`
  return [
    ...permissionRules(settings, name).map(({ path, argument }) => ({ argument, rule: `${server}.${path}` })),
    ...expressionsOf(settings, name).flatMap(({ path, expression }) =>
      argumentsOf(expression).map((argument) => ({ argument, rule: `${server}.tools.${path}` })),
    ),
    ...maskingRules(definition),
  ]
}

interface PathOfRule {
  readonly path: string
  readonly argument: string
}

function permissionRules({ allow, deny }: UpstreamSettings, name: string): readonly PathOfRule[] {
  const denying = Object.keys(deny).filter((glob) => fits(glob, name))
  const [allowing] = fitting(Object.keys(allow), name)
  const found = [
    ...denying.map((glob) => ['deny', glob, deny[glob]] as const),
    ...(allowing === undefined ? [] : [['allow', allowing, allow[allowing]] as const]),
  ]
  return found.flatMap(([key, glob, rule]) =>
    Object.keys(asObject(rule)).map((argument) => ({
      path: `${key}.${yamlKey(glob)}.${yamlKey(argument)}`,
      argument,
    })),
  )
}

/** The calls that verify or undo a call of a tool, as the configuration has them. */
function expressionsOf(
  { tools }: UpstreamSettings,
  name: string,
): readonly { readonly path: string; readonly expression: Expression }[] {
  const verify = settingOf(tools, name, 'verify')
  const undo = undoRuleOf(tools, name)
  return [
    ...(verify
      ? [{ path: `${yamlKey(verify.glob)}.verify`, expression: parseExpression(verify.value) }]
      : []),
    ...(undo ? callsOf(undo.rule) : []).map(({ expression }) => ({
      path: `${yamlKey(undo?.glob ?? name)}.undo`,
      expression,
    })),
  ]
}

function argumentsOf(expression: Expression): readonly (string | undefined)[] {
  return pathsOf(expression).flatMap(({ root, steps: [step] }) => {
    if (root !== 'args') return []
    return [typeof step === 'string' ? step : undefined]
  })
}

/** Secrets inside of an argument are masked by their names, which a text does not have. */
function maskingRules({ inputSchema }: Descriptor['definition']): readonly ArgumentRule[] {
  if (!isObject(inputSchema) || secretNames(inputSchema).length === 0) return []
  const { properties, $defs, definitions } = inputSchema
  return Object.entries(asObject(properties)).flatMap(([argument, schema]) => {
    const isReferring = JSON.stringify(schema).includes('"$ref"')
    const own = { properties: { [argument]: schema }, ...(isReferring && { $defs, definitions }) }
    const isOuter = secretNames(own).some((name) => name !== argument)
    return isOuter ? [{ argument, rule: 'the masking of secret arguments', isOfType: true } as const] : []
  })
}

/** The rule that depends on an argument which does not fit, and that argument. */
interface Undecided {
  readonly rule: string
  readonly argument: string
}

/** The first rule that cannot judge a call with these problems; undefined if all can. */
function undecidedRule(
  rules: readonly ArgumentRule[],
  problems: readonly SchemaProblem[],
): Undecided | undefined {
  for (const { argument, rule, isOfType } of rules) {
    for (const problem of problems) {
      const given = argumentOf(problem)
      if (given === undefined || (isOfType && (problem.path.length !== 1 || problem.keyword !== 'type')))
        continue
      // Some servers ignore the case of argument names.
      if (argument === undefined || fold(argument) === fold(given)) return { rule, argument: given }
    }
  }
  return undefined
}

/** The argument that a problem is about; undefined if it is about all of them. */
function argumentOf({ path: [argument], params }: SchemaProblem): string | undefined {
  const { missingProperty, additionalProperty, unevaluatedProperty, propertyName } = params
  const names: readonly unknown[] = [
    argument,
    missingProperty,
    additionalProperty,
    unevaluatedProperty,
    propertyName,
  ]
  return names.find((each): each is string => typeof each === 'string')
}

function fold(name: string): string {
  return name.normalize('NFKC').toLowerCase()
}
