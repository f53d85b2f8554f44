/**
 * Lets models write values for the gateway (keys, transactions, intent) as arguments; they are taken out
 * before the server sees the call.
 */
import { recordServerArguments, namesArgument } from '../core/tool-call.ts'
import { type Call, listedTool, type Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { type SchemaProblem, validator } from '../core/schema/schema.ts'
import { withExtension } from '../protocol/meta-keys.ts'
import type { Feature, Reserved } from './feature.ts'
import type { Services } from './feature.ts'
import { describingTools } from './describing.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'features'>

/** Gives tools arguments for the gateway, as many hosts let a model write nothing but arguments. */
export const injectArguments: Feature<Record<never, never> | false> = {
  name: 'inject_arguments',
  place: 'top',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether tools also take what is for the gateway as arguments, such as `_idempotency_key`: for hosts that let a model write nothing else. Servers never see them.',
    properties: {},
  },
  create: (settings, deps) => ({
    middleware: ({ upstream, method, name, isBuiltin }) => {
      if (isBuiltin || upstream === undefined || settings(upstream) === false) return undefined
      const reserved = deps.features.reserved(upstream)
      if (reserved.length === 0) return undefined
      if (method === 'tools/list')
        return describingTools((tool) => described(tool, upstream, { reserved, deps }))
      return method === 'tools/call' && name !== undefined ? lifting(reserved) : undefined
    },
  }),
}

interface With {
  readonly reserved: readonly Reserved[]
  readonly deps: Deps
}

/** A listed tool with the arguments it has beside its own. */
function described(tool: Payload, upstream: string, { reserved, deps }: With): Payload {
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

/** Takes what is for the gateway out of the arguments of a call, to where every feature looks for it. */
function lifting(reserved: readonly Reserved[]): Middleware {
  return (next) => {
    return async (call) => {
      const { arguments: given } = call.params.fields
      const isAny = isObject(given) && reserved.some(({ argument }) => Object.hasOwn(given, argument))
      if (!isAny || call.internal) return next(call)
      return next(lifted(call, listedTool(call), reserved))
    }
  }
}

/** @throws INVALID_INPUT */
function lifted(call: Call, entry: Descriptor | undefined, reserved: readonly Reserved[]): Call {
  const given = call.params.at('arguments') ?? Payload.of({})
  const found = reserved.filter(
    ({ argument }) =>
      Object.hasOwn(given.fields, argument) && !(entry && namesArgument(entry.definition, argument)),
  )
  if (found.length === 0) return call
  const rest = given.with(Object.fromEntries(found.map(({ argument }) => [argument, undefined])))
  const bare = { ...call, params: call.params.with({ arguments: rest }) }
  recordServerArguments(bare)
  return found.reduce((changed, { argument, value, schema }) => {
    const said = given.fields[argument]
    // Models fill in what they need not: then it means nothing.
    if (said === null || said === '') return changed
    const [problem] = schema ? validator(schema, { trusted: true })(said) : []
    if (problem) throw misfit(argument, problem)
    return withExtension(changed, value, said)
  }, bare)
}

function misfit(field: string, { keyword, message }: SchemaProblem): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid arguments: ${field} ${message}.`, {
    field,
    reason: keyword,
    isResult: true,
  })
}
