/** Successes of tools that write: each with its arguments, without secrets and masked data. */
import type { Call, Middleware, Outcome, Target } from '../../../core/call.ts'
import type { Descriptor } from '../../../core/descriptor.ts'
import { asGatewayError } from '../../../core/error.ts'
import { asObject } from '../../../core/json/json.ts'
import { asCalled } from '../../../core/judgement/call.ts'
import { maskedArguments, secretNames } from '../../../core/masked-arguments.ts'
import { writtenArguments, referencesSlot } from '../../../core/used-reference.ts'
import { cleanedValue, withoutSecrets } from '../../../core/text/redact.ts'
import { callerHash } from '../../../records/principal.ts'
import type { Services } from '../../feature.ts'
import { masked } from '../../offers.ts'
import {
  type EventSource,
  type EventType,
  filterSchema,
  hasFields,
  isBy,
  mayCall,
  type SourceContext,
} from '../types.ts'
import type { ServerEvents } from '../server-events.ts'
import type { Writes } from '../../settings/effect.ts'
import { withinLimits } from './declared.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'features' | 'invoker' | 'gateway'>

/** The longest argument in an event, and all of them together, in characters of JSON. */
const MAX_ARGUMENT_LENGTH = 4000
const MAX_ARGUMENTS_LENGTH = 32_000

/** The successes of the tools of a server. Those who may call a tool may have its type. */
export function writeEvents({ deps, events, writes }: SourceContext): EventSource {
  return {
    name: 'writes',
    eventOf: (tool) => successType(tool, writes(tool.upstream)),
    middleware: (target) =>
      writes(target.upstream) === 'off' ? undefined : logWrites(target, events(target.upstream), deps),
    types: async (upstream) => {
      if (upstream === undefined || writes(upstream) === 'off') return []
      return (await deps.servers.tools(upstream))
        .filter((entry) => successType(entry, writes(upstream)) !== undefined)
        .map((entry) => toolType(entry, writes(upstream), deps))
    },
  }
}

function toolType({ upstream, name, definition }: Descriptor, writes: Writes, deps: Deps): EventType {
  const { inputSchema } = definition
  const properties = asObject(asObject(inputSchema).properties)
  return {
    upstream,
    name: successOf(name),
    description: `The tool ${name} was called through the gateway, and succeeded.`,
    inputSchema: filterSchema(Object.keys(properties)),
    payloadSchema: {
      type: 'object',
      properties: {
        tool: { type: 'string' },
        arguments: {
          type: 'object',
          description: 'The arguments of the call, without secrets and masked data.',
        },
        omitted: {
          type: 'array',
          items: { type: 'string' },
          description: 'The arguments that are too long.',
        },
      },
      required: ['tool', 'arguments'],
    },
    isRequested: (given, { data }) => hasFields(data.arguments, given),
    present: (data) => ({
      ...data,
      arguments: masked(deps, data.arguments, { upstream, method: 'tools/call', name }),
    }),
    mayReceive: async ({ by, data }, call) => {
      if (writes !== 'all' && !isBy(by, call.principal)) return false
      const target = { upstream, method: 'tools/call', name }
      const given = asObject(data.arguments)
      return mayCall(call, target, { name, arguments: given }, deps)
    },
  }
}

/** The name of the successes of a tool, if they are events. */
export function successType(
  { name, kind, classification, isUnlisted }: Descriptor,
  writes: Writes,
): string | undefined {
  if (writes === 'off' || kind !== 'tool' || classification.op === 'read' || isUnlisted) return undefined
  return successOf(name)
}

/** The name of the successes of a tool. */
function successOf(tool: string): string {
  return `${tool}.succeeded`
}

/** The middleware that logs the successes of a tool. */
function logWrites(target: Target, events: ServerEvents, deps: Deps): Middleware {
  const { redactor } = deps.gateway
  const clean = (value: unknown): unknown =>
    cleanedValue(masked(deps, value, target), (text) => withoutSecrets(redactor.text(text)))
  return (next) => async (call) => {
    const outcome = await next(call)
    if (!hasWritten(call, outcome)) return outcome
    const { name = '' } = target
    try {
      // Where the store does not say, the event is added, which asks again for a while and reports a loss.
      if (!(await events.isRetained().catch(() => true))) return outcome
      // Who reads the events may have no right to the data of references.
      const written = writtenArguments(call.params, referencesSlot.of(call))?.value
      const given = clean(maskedArguments(written, secretNames(call.tool?.definition.inputSchema)))
      const limits = { each: MAX_ARGUMENT_LENGTH, all: MAX_ARGUMENTS_LENGTH }
      const { kept, omitted } = withinLimits(asObject(given), limits)
      const data = { tool: name, arguments: kept, ...(omitted.length > 0 && { omitted }) }
      await events.add({ name: successOf(name), by: callerHash(call.principal.id), data })
    } catch (error) {
      // The call has taken effect, so it does not fail.
      const { message: reason } = asGatewayError(error)
      deps.log.warn('events.not_kept', { upstream: target.upstream, tool: name, reason })
    }
    return outcome
  }
}

function hasWritten(call: Call, outcome: Outcome): boolean {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true || !call.tool) return false
  return asCalled(call.tool, call).classification.op !== 'read'
}
