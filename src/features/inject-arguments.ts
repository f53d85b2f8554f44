/**
 * Lets models send values for the gateway (idempotency keys, transactions, intent) as arguments; they are removed before
 * the server sees the call.
 */
import { recordServerArguments, namesArgument } from '../core/tool-call.ts'
import { type Call, listedTool, type Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { type SchemaProblem, validator } from '../core/schema/schema.ts'
import { withExtension } from '../protocol/meta-keys.ts'
import type { Feature, Services } from './feature.ts'
import { type Reserved, reservedFor } from './offers.ts'
import { describingTools } from './tool-lists.ts'
import { injectArgumentsSchema } from './settings/admit.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** Adds arguments for the gateway to tools, because many hosts let models write arguments only. */
export const injectArguments: Feature<Record<never, never> | false> = {
  ...injectArgumentsSchema,
  create: (settings, deps) => ({
    calls: {
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (isBuiltin || upstream === undefined || settings(upstream) === false) return undefined
        const reserved = reservedFor(upstream, deps)
        if (reserved.length === 0) return undefined
        if (method === 'tools/list')
          return describingTools((tool) => withReserved(tool, upstream, reserved, deps))
        return method === 'tools/call' && name !== undefined ? liftValues(reserved) : undefined
      },
      dryRun: 'same',
    },
  }),
}

/** A listed tool with the additional arguments. */
function withReserved(tool: Payload, upstream: string, reserved: readonly Reserved[], deps: Deps): Payload {
  const entry = isObject(tool.value) ? deps.servers.describe(upstream, tool.fields) : undefined
  if (!entry) return tool
  const added = reserved.filter(({ argument, schema, isFor }) => {
    return schema && !namesArgument(entry.definition, argument) && (isFor?.(entry) ?? true)
  })
  if (added.length === 0) return tool
  const listed = tool.at('inputSchema')
  const schema = isObject(listed?.value) ? listed : Payload.of({ type: 'object' })
  const properties = schema.at('properties') ?? Payload.of({})
  const more = Object.fromEntries(added.map(({ argument, schema: own }) => [argument, own]))
  return tool.with({ inputSchema: schema.with({ properties: properties.with(more) }) })
}

/** Moves values for the gateway from the arguments of a call to where every feature looks for them. */
function liftValues(reserved: readonly Reserved[]): Middleware {
  return (next) => {
    return async (call) => {
      const { arguments: given } = call.params.fields
      const hasReserved = isObject(given) && reserved.some(({ argument }) => Object.hasOwn(given, argument))
      if (!hasReserved || call.internal) return next(call)
      return next(liftReserved(call, listedTool(call), reserved))
    }
  }
}

/** @throws INVALID_INPUT */
function liftReserved(call: Call, entry: Descriptor | undefined, reserved: readonly Reserved[]): Call {
  const given = call.params.at('arguments') ?? Payload.of({})
  const found = reserved.filter(
    ({ argument }) =>
      Object.hasOwn(given.fields, argument) && !(entry && namesArgument(entry.definition, argument)),
  )
  if (found.length === 0) return call
  const rest = given.with(Object.fromEntries(found.map(({ argument }) => [argument, undefined])))
  const withoutReserved = { ...call, params: call.params.with({ arguments: rest }) }
  recordServerArguments(withoutReserved)
  return found.reduce((changed, { argument, value: name, schema }) => {
    const value = given.fields[argument]
    // Models fill in optional arguments: null and empty text mean nothing.
    if (value === null || value === '') return changed
    const [problem] = schema ? validator(schema, { trusted: true })(value) : []
    if (problem) throw invalidValue(argument, problem)
    return withExtension(changed, name, value)
  }, withoutReserved)
}

function invalidValue(field: string, { keyword, message }: SchemaProblem): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${field} ${message}.`, {
    field,
    reason: keyword,
    isResult: true,
  })
}
