/** Checks arguments and results against the schemas of the server's tools, and repairs what is harmless. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError, unknownTool } from '../../core/error.ts'
import { isAnswer } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
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
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'features'>

interface Settings {
  readonly output: 'off' | 'warn' | 'strict'
}

/** Refuses calls a server could only fail at: of a tool it does not have, or with arguments that do not fit. */
export const validate: Feature<Settings> = {
  name: 'validate',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      output: {
        enum: ['off', 'warn', 'strict'],
        default: 'warn',
        description:
          'What happens where a result does not fit the output schema of its tool: nothing, one word in the log, or an error.',
      },
    },
  },
  create: (settings, deps) => {
    const checks = createChecks(deps.log)
    const nulls = createNullTolerance(deps.log)
    return {
      middleware: ({ upstream, method }) => {
        if (method === 'tools/list') return (next) => async (call) => repaired(await next(call))
        if (method !== 'tools/call') return undefined
        const output = createOutputCheck(settings(upstream).output, checks, deps.log)
        return (next) => (call) => checked(call, { next, checks, nulls, output, deps })
      },
    }
  },
}

interface Around {
  readonly next: Handler
  readonly checks: Checks
  readonly nulls: NullTolerance
  readonly output: OutputCheck
  readonly deps: Deps
}

function checked(call: Call, around: Around): Promise<Outcome> {
  const { name, arguments: given } = call.params.fields
  if (typeof name !== 'string' || name === '') return refuse('name', 'must be a string')
  if (given !== undefined && !isObject(given)) return refuse('arguments', 'must be an object')
  // A server that cannot list its tools says itself what is wrong.
  if (call.toolError !== undefined) return around.next(call)
  return make(call, given ?? none, around)
}

function make(call: Call, given: Readonly<Record<string, unknown>>, around: Around): Promise<Outcome> {
  const { next, checks, output } = around
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
    !around.nulls.isOnlyNulls(given, problems, { check, upstream, tool: entry.name })
  )
    return makeWithKey(call, entry, { around, check, problems })
  return output(next(call), entry)
}

interface Misfit {
  readonly around: Around
  readonly check: ReturnType<Checks['of']>
  readonly problems: readonly SchemaProblem[]
}

/** What the arguments lack may be the idempotency key, which the server gets among them. @throws INVALID_INPUT */
async function makeWithKey(
  call: Call,
  entry: Descriptor,
  { around, check, problems }: Misfit,
): Promise<Outcome> {
  const filled = argumentsWithKey(call, entry, around.deps)
  const left = filled === undefined ? problems : check(filled)
  if (left !== 'unchecked' && left.length > 0) throw mismatchError(left)
  return around.output(around.next(call), entry)
}

const none = {}

/** How deep arguments may be nested. */
const MAX_DEPTH = 200

function isDeep(value: unknown, left: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (left === 0) return true
  for (const key in value) {
    // Its own members alone: it was parsed from JSON.
    const member: unknown = (value as Readonly<Record<string, unknown>>)[key]
    if (typeof member === 'object' && isDeep(member, left - 1)) return true
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

function refuse(field: string, why: string): Promise<never> {
  return Promise.reject(
    new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${why}.`, { field, reason: 'type' }),
  )
}

/** The arguments of a call with its idempotency key where its server wants one; nothing where that adds nothing. @throws INVALID_INPUT */
function argumentsWithKey(call: Call, entry: Descriptor, deps: Deps): unknown {
  const { upstream, name } = entry
  if (call.target.isBuiltin || !hasIdempotencyKey(call) || !deps.features.isOn('idempotency', upstream))
    return undefined
  const setting = settingOf(deps.servers.settings(upstream)?.tools ?? {}, name, 'keyArgument')?.value
  const filled = withKeyArgument(call, idempotencyKeyOf(call), setting, entry)
  return filled === call ? undefined : filled.params.fields.arguments
}

/** One argument that does not fit, in words. */
interface Mismatch {
  /** Where: names and indexes with dots between them; empty for the arguments as a whole. */
  readonly field: string
  /** One word: the rule that is broken. */
  readonly reason: string
  readonly text: string
}

/** How many misfits are named, and how long a name or a list of allowed values may be, in characters. */
const most = { named: 5, listed: 20, field: 200, values: 200 }

/** The refusal of arguments that do not fit the schema of a tool. It repeats no value. */
function mismatchError(problems: readonly SchemaProblem[]): GatewayError {
  const misfits = distinct(telling(problems).map(misfit))
  const named = misfits.slice(0, most.named).map(({ text }) => text)
  const others = misfits.length - named.length
  const more = others > 0 ? ` (and ${others} more)` : ''
  const [first] = misfits
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${named.join('; ')}${more}.`, {
    isResult: true,
    field: first?.field,
    reason: first?.reason,
    suggestion: 'Correct the arguments to fit the input schema of the tool and call again.',
    details: { problems: misfits.slice(0, most.listed).map(({ field, reason }) => ({ field, reason })) },
  })
}

const summaries = new Set(['anyOf', 'oneOf', 'allOf', 'if'])

/** Without those that only sum up others. */
function telling(problems: readonly SchemaProblem[]): readonly SchemaProblem[] {
  const found = problems.filter(({ keyword }) => !summaries.has(keyword))
  return found.length > 0 ? found : problems
}

function misfit({ path, keyword, message, params }: SchemaProblem): Mismatch {
  const inner = [params.missingProperty, params.additionalProperty, params.unevaluatedProperty].find(
    (each) => typeof each === 'string',
  )
  const field = [...path, ...(typeof inner === 'string' ? [inner] : [])].join('.').slice(0, most.field)
  return { field, reason: keyword, text: `${nameOf(field)} ${words(keyword, message, params)}` }
}

function nameOf(field: string): string {
  if (field === '') return 'the arguments'
  return /^[\w.$ -]{1,64}$/.test(field) ? `"${field}"` : 'an argument'
}

function words(keyword: string, message: string, params: Readonly<Record<string, unknown>>): string {
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
  return text.length > most.values ? `${text.slice(0, most.values)}…` : text
}

function distinct(misfits: readonly Mismatch[]): readonly Mismatch[] {
  return [...new Map(misfits.map((each) => [each.text, each])).values()]
}

/** The schema of a tool that takes no arguments. */
const nothing = { type: 'object', additionalProperties: false } as const

/** A list of tools in which each has an input schema: clients refuse the whole list over one that has none. */
function repaired(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result') return outcome
  const { tools } = outcome.result.fields
  if (!Array.isArray(tools) || !tools.some(isBare)) return outcome
  const sound = tools.map((tool: unknown) => (isBare(tool) ? { ...tool, inputSchema: nothing } : tool))
  return { kind: 'result', result: outcome.result.with({ tools: sound }) }
}

/** The input schema of a tool as it is listed. */
function listedSchema({ inputSchema }: Readonly<Record<string, unknown>>): unknown {
  return inputSchema ?? nothing
}

function isBare(tool: unknown): tool is Record<string, unknown> {
  return isObject(tool) && (tool.inputSchema === undefined || tool.inputSchema === null)
}

// Compiled checks of schemas, with their tolerance for nulls and for unusable schemas.

/** What became of looking at a value: the ways in which it does not fit, or why it was not looked at. */
type Verdict = readonly SchemaProblem[] | 'unchecked'

/** Checks values against the schemas of servers; each schema is compiled once, when it is first used. */
interface Checks {
  /** `what` names the schema in the log. */
  of(schema: unknown, what: Readonly<Record<string, unknown>>): (value: unknown) => Verdict
}

/** Makes the checks of schemas. One that cannot be used is logged once, and accepts everything. */
function createChecks(log: Log): Checks {
  const known = new WeakMap<object, (value: unknown) => Verdict>()
  return {
    of: (schema, what) => {
      if (!isObject(schema)) return unchecked
      const found = known.get(schema)
      if (found) return found
      const check = forgiving(schema, what, log)
      known.set(schema, check)
      return check
    },
  }
}

const unchecked = (): Verdict => 'unchecked'

function forgiving(
  schema: JsonSchema,
  what: Readonly<Record<string, unknown>>,
  log: Log,
): (value: unknown) => Verdict {
  let isTold = false
  const tell = (error: unknown): Verdict => {
    if (!(error instanceof UnusableSchema)) throw error
    if (!isTold) log.warn('validate.schema_unusable', { ...what, reason: error.message.slice(0, 300) })
    isTold = true
    return 'unchecked'
  }
  const onUnchecked = (pattern: string): void => {
    log.debug('validate.pattern_unchecked', { ...what, pattern: pattern.slice(0, 200) })
  }
  let check: Check | undefined
  return (value) => {
    try {
      check ??= validator(schema, { onUnchecked })
      return check(value)
    } catch (error) {
      return tell(error)
    }
  }
}

// Arguments whose only fault is `null` where a value may be left out. Clients written in Python and others send an
// optional argument that has no value as `null`, and most servers take that for its absence, though the schema of the
// tool does not name the type. Invariant: what is sent to the server is what the client sent.

/** Finds such arguments. */
interface NullTolerance {
  /** Whether arguments that do not fit would, without the members that are `null`. It is logged once for each tool. */
  isOnlyNulls(given: unknown, problems: readonly SchemaProblem[], checked: Checked): boolean
}

interface Checked {
  readonly check: ReturnType<Checks['of']>
  readonly upstream: string
  readonly tool: string
}

/** For how many tools it is remembered that it was logged. */
const MAX_LOGGED = 1000

/** Begins with nothing logged. */
function createNullTolerance(log: Log): NullTolerance {
  const logged = new Set<string>()
  return {
    isOnlyNulls: (given, problems, { check, upstream, tool }) => {
      // What the schema does not name is not optional.
      if (problems.some(({ keyword }) => keyword.endsWith('Properties'))) return false
      const without = withoutNulls(given)
      const left = without === given ? problems : check(without)
      if (left === 'unchecked' || left.length > 0) return false
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

/** A value without the members of objects that are `null`; the same value where it has none. */
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

/** Looks at what a tool answers. */
type OutputCheck = (answer: Promise<Outcome>, entry: Descriptor) => Promise<Outcome>

/** Makes the check of answers: each has content, and structured content that fits where the tool promises it. */
function createOutputCheck(mode: 'off' | 'warn' | 'strict', checks: Checks, log: Log): OutputCheck {
  /** Tools whose answers were found not to fit. */
  const told = new WeakSet<object>()

  const look = (result: Payload, { definition, upstream, name }: Descriptor): void => {
    const { outputSchema } = definition
    if (!isObject(outputSchema) || (mode === 'warn' && told.has(definition))) return
    const structuredContent = result.member('structuredContent')
    const reason = (): string | undefined => {
      if (structuredContent === undefined) return 'it has no structured content'
      const schema = { upstream, tool: name, schema: 'output' }
      const problems = checks.of(outputSchema, schema)(structuredContent)
      const [first] = problems === 'unchecked' ? [] : problems
      return first && `${['structuredContent', ...first.path].join('.')} ${first.message}`
    }
    const why = reason()
    if (why === undefined) return
    if (!told.has(definition))
      log.warn('validate.output', { upstream, tool: name, reason: why.slice(0, 300) })
    told.add(definition)
    if (mode === 'warn') return
    throw new GatewayError(
      'UPSTREAM_ERROR',
      'The server answered with something its output schema forbids.',
      {
        suggestion: 'The call may have taken effect: check before making it again.',
        details: { classified_by: 'output_schema' },
      },
    )
  }

  return (answer, entry) => {
    const isWatched = mode !== 'off' && isObject(entry.definition.outputSchema)
    return answer.then((outcome) => {
      if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
      const { result } = outcome
      if (isWatched) look(result, entry)
      if (result.member('content') !== undefined) return outcome
      if (result.member('structuredContent') !== undefined) return outcome
      return { kind: 'result', result: result.with({ content: [] }) }
    })
  }
}
