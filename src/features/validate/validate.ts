/** Checks arguments and results against the schemas of the server's tools, and repairs what is harmless. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { SchemaProblem } from '../../core/schema/schema.ts'
import { settingOf } from '../../core/settings.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import { unknownTool } from '../../core/unknown.ts'
import { hasIdempotencyKey, idempotencyKeyOf } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../services.ts'
import {
  type Checks,
  createChecks,
  createNullTolerance,
  type NullTolerance,
  createOutputCheck,
  type OutputCheck,
} from './checks.ts'

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
