/** Encodes params and capabilities for a server's revision. */
import { acceptsTaskSlot } from '../../core/slot.ts'
import type { InputResponses, Call, Client } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { type Spool, spoolSlot } from '../../core/spool.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { declaredTasks, declaresTasks } from '../../protocol/tasks.ts'
import type { Revision } from '../../core/revisions.ts'
import { traceEdits, tracedParams } from '../../protocol/trace-context.ts'

const STANDARD = 'io.modelcontextprotocol/'

/** Where the long strings of a result are kept. Only calls of tools have a feature that puts something in their place. */
export function spoolOf(call: Call): Spool | undefined {
  return call.method === 'tools/call' ? spoolSlot.of(call) : undefined
}

/** The params of a call for a server with a handshake: without members specific to 2026-07-28. */
export function legacyParams(call: Call, id: number, revision: Revision): Payload {
  let params = withLegacyMeta(call, id)
  const { inputResponses, requestState, context, task } = params.fields
  // The gateway alone makes tasks of calls.
  if (task !== undefined) params = params.with({ task: undefined })
  if (inputResponses !== undefined) params = params.with({ inputResponses: undefined })
  if (requestState !== undefined) params = params.with({ requestState: undefined })
  const isUnknown =
    call.method === 'completion/complete' && !revision.completionContext && context !== undefined
  return isUnknown ? params.with({ context: undefined }) : params
}

function withLegacyMeta(call: Call, id: number): Payload {
  const { params, meta } = call
  if (params.fields._meta === undefined) return tracedParams(call)
  const keys = Object.keys(meta)
  const foreign = keys.filter((key) => !key.startsWith(STANDARD) || key === metaKeys.relatedTask)
  if (foreign.length === 0) return params.with({ _meta: undefined })
  const edits: Record<string, unknown> = { ...traceEdits(call) }
  for (const key of keys) if (!foreign.includes(key)) edits[key] = undefined
  if (meta.progressToken !== undefined) edits.progressToken = id
  return Object.keys(edits).length > 0 ? params.withMeta(edits) : params
}

/**
 * The params of a call for a server of 2026-07-28: with the envelope, the input responses and the server's own state.
 */
export function modernParams(call: Call, id: number, revision: string, requestState: unknown): Payload {
  const { client, meta } = call
  const { fields } = call.params
  if (
    client.era === 'modern' &&
    client.revision === revision &&
    // A request of the gateway itself has none, such as a list that another gateway needs.
    asObject(fields._meta)[metaKeys.version] !== undefined &&
    (acceptsTaskSlot.of(call) !== true || declaresTasks(client)) &&
    !call.inputResponses &&
    requestState === undefined &&
    // Responses to input requests of the gateway are not sent to the server.
    fields.requestState === undefined &&
    fields.inputResponses === undefined &&
    fields.task === undefined
  ) {
    // The client's own envelope is what the server expects.
    const params = tracedParams(call)
    return meta.progressToken === undefined ? params : params.withMeta({ progressToken: id })
  }
  return call.params
    .with({
      inputResponses: call.inputResponses && responses(call.inputResponses),
      requestState: requestState ?? undefined,
      task: undefined,
    })
    .withMeta({
      [metaKeys.version]: revision,
      [metaKeys.capabilities]: capabilitiesFor(call),
      [metaKeys.clientInfo]: client.info,
      [metaKeys.logLevel]: meta[metaKeys.logLevel],
      ...(meta.progressToken !== undefined && { progressToken: id }),
      ...traceEdits(call),
    })
}

/** Input responses for a server of 2026-07-28, which has no errors among them, but forms can be cancelled. */
function responses(answers: InputResponses): Payload {
  const results = Object.entries(answers).map(([key, answer]) => {
    if ('result' in answer) return [key, answer.result] as const
    const { message } = answer.error.fields
    throw new GatewayError('UPSTREAM_ERROR', `The client refused the server's request: ${String(message)}`, {
      relayed: answer.error,
    })
  })
  return Payload.of({}).with(Object.fromEntries(results))
}

/** The capabilities that a server of 2026-07-28 sees: those of the client, and what a layer above does for it. */
function capabilitiesFor(call: Call): Readonly<Record<string, unknown>> {
  const capabilities = modernCapabilities(call.client)
  return acceptsTaskSlot.of(call) ? declaringTasks(capabilities) : capabilities
}

/** The same capabilities, with the extension for tasks. */
export function declaringTasks(
  capabilities: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const { extensions } = capabilities
  return { ...capabilities, extensions: { ...(isObject(extensions) && extensions), ...declaredTasks } }
}

/** The client's capabilities without those that 2026-07-28 does not have. */
export function modernCapabilities(client: Client): Readonly<Record<string, unknown>> {
  if (client.era === 'modern') return client.capabilities
  const { tasks: _tasks, roots, ...rest } = client.capabilities
  return { ...rest, ...(roots !== undefined && { roots: {} }) }
}
