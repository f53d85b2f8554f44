/** Calls of tools that tools of the gateway make for their caller: with all its rights, at the same address. */
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { invalidParam } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { tasksExtension } from '../../protocol/meta-keys.ts'
import type { Services } from '../feature.ts'

/** A tool to call, by its name at an address: of one server, or of all if `upstream` is absent. */
export interface InnerTool {
  readonly upstream?: string | undefined
  readonly name: string
}

/**
 * A call of a tool in the course of another call. Its outcome is that of the outer one: input requests reach the client,
 * which repeats the outer call, and so the inner one. It is never a task, since the outer call has to see its result.
 */
export function innerCall(
  call: Call,
  { upstream, name }: InnerTool,
  args: Payload,
  meta: Readonly<Record<string, unknown>> = {},
): Call {
  const target = { method: 'tools/call', name, ...(upstream !== undefined && { upstream }) }
  const all = { ...call.meta, ...meta }
  return {
    ...call,
    method: target.method,
    params: Payload.of({ name, _meta: all }).with({ arguments: args }),
    target,
    meta: all,
    client: withoutTasks(call.client),
    // The log line of the outer call names its own target.
    logFields: new Map(),
  }
}

/** The descriptor of a tool to call; undefined if it is unknown, or if listing fails, which the call of it reports. */
export async function findTool(
  call: Call,
  tool: InnerTool,
  servers: Pick<Services['servers'], 'tool'>,
): Promise<Descriptor | undefined> {
  try {
    return await servers.tool(innerCall(call, tool, Payload.of({})))
  } catch {
    return undefined
  }
}

function withoutTasks(client: Call['client']): Call['client'] {
  const { extensions, ...capabilities } = client.capabilities
  if (!isObject(extensions) || extensions[tasksExtension] === undefined) return client
  const { [tasksExtension]: _tasks, ...others } = extensions
  return { ...client, capabilities: { ...capabilities, extensions: others } }
}

/** The arguments for a tool, in the arguments of the tool that calls it. @throws INVALID_INPUT */
export function innerArguments({ params }: Call): Payload {
  const given = params.at('arguments') ?? Payload.of({})
  if (!isObject(given.value)) throw invalidParam('arguments', 'must be an object')
  return given
}

/** A text among the arguments, if it is there. @throws INVALID_INPUT */
export function optionalText({ params }: Call, name: string): string | undefined {
  const value = params.fields[name]
  if (value === undefined || (typeof value === 'string' && value !== '')) return value
  throw invalidParam(name, 'must be a text')
}
