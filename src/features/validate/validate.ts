import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import type { SchemaProblem } from '../../core/schema.ts'
import { unknownTool } from '../../core/unknown.ts'
import { attempt } from '../../core/waiting.ts'
import type { Deps, Feature } from '../feature.ts'
import { type Checks, createChecks } from './checks.ts'
import { argumentsWithKey } from './keyed.ts'
import { mismatchError } from './misfits.ts'
import { createNullTolerance, type NullTolerance } from './nulls.ts'
import { createOutputCheck, type OutputCheck } from './output.ts'
import { listedSchema, repaired } from './repair.ts'

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
  const entry = attempt(() => around.deps.entry(call))
  if (!(entry instanceof Promise)) return make(call, entry, around)
  return entry.then(
    (found) => make(call, found, around),
    // A server that can not list its tools says itself what is wrong.
    () => around.next(call),
  )
}

function make(call: Call, entry: Descriptor | undefined, around: Around): Promise<Outcome> {
  const { next, checks, output } = around
  const { name, arguments: given = none } = call.params.fields
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
