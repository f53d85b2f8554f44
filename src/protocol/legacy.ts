/**
 * What is specific to messages of the revisions with a handshake: the result of `initialize`, results and
 * errors, progress tokens.
 */
import type { Call, Notification } from '../core/call.ts'
import type { GatewayError } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { encodeErrorObject, encodeResult, errorObject, type Id, type JsonRpcRequest } from './jsonrpc.ts'
import { metaKeys } from './meta-keys.ts'
import { legacyTaskCapabilities } from './tasks.ts'
import { lowerResult } from './projection.ts'
import { type Revision, tasksExtension } from '../core/revisions.ts'
import { toDouble } from '../core/json/exact-number.ts'

/** The response to `initialize`, built from the server's description of itself. */
export function initializeResult(discovered: Payload, revision: Revision): Payload {
  const meta = discovered.fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const capabilities = discovered.at('capabilities') ?? Payload.of({})
  return discovered
    .with({
      protocolVersion: revision.name,
      capabilities: withLegacyTasks(capabilities, revision),
      serverInfo: isObject(info) ? info : self,
      supportedVersions: undefined,
      resultType: undefined,
      ttlMs: undefined,
      cacheScope: undefined,
    })
    .withMeta({ [metaKeys.serverInfo]: undefined })
}

/** The response to a client of a revision with a handshake. */
export function encodeLegacyResult(id: Id, name: string, result: Payload, revision: Revision): string {
  return encodeResult(id, lowerResult(name, result, revision))
}

/**
 * The response for a failure. A missing capability is reported in a tool's result, where a model can read it; the codes
 * of 2026-07-28 mean nothing to these clients.
 */
export function encodeLegacyError(request: JsonRpcRequest, error: GatewayError, requestId: string): string {
  const { id } = request
  const object = errorObject(error, requestId)
  const code = legacyErrorCode(request, error)
  if (code === undefined) {
    const text = `This tool requires a capability the client does not declare: ${missing(object)}. ${error.message}`
    return encodeResult(id, Payload.of({ content: [{ type: 'text', text }], isError: true }))
  }
  return encodeErrorObject(id, code === error.rpc ? object : object.with({ code }))
}

/**
 * The JSON-RPC code that these clients receive for a failure; undefined if it becomes the result of a tool. The code of a
 * server with a handshake is kept.
 */
export function legacyErrorCode(
  { method: name }: Pick<JsonRpcRequest, 'method'>,
  error: GatewayError,
): number | undefined {
  const { rpc } = error
  if (error.extra.relayedFrom === 'legacy') return rpc
  if (rpc === -32021) return name === 'tools/call' ? undefined : -32602
  if (rpc === -32020) return -32603
  if (rpc !== -32602) return rpc
  const data = error.extra.relayed ? error.extra.relayed.fields.data : error.data
  const hasUri = isObject(data) && typeof data.uri === 'string'
  const isNotFound = error.code === 'RESOURCE_NOT_FOUND' || (name === 'resources/read' && hasUri)
  return isNotFound ? -32002 : rpc
}

function missing(error: Payload): string {
  const { data } = error.fields
  const required = isObject(data) ? data.requiredCapabilities : undefined
  return isObject(required) ? Object.keys(required).join(', ') : 'a client capability'
}

/** The tasks extension as the core feature of 2025-11-25; older clients do not know tasks. */
function withLegacyTasks(capabilities: Payload, revision: Revision): Payload {
  const extensions = capabilities.at('extensions')
  // A server's own tasks are the gateway's to follow.
  const bare = capabilities.with({ tasks: undefined })
  if (!extensions || !Object.hasOwn(extensions.fields, tasksExtension)) return bare
  const rest = extensions.with({ [tasksExtension]: undefined })
  return bare.with({
    extensions: Object.keys(rest.fields).length > 0 ? rest : undefined,
    ...(revision.coreTasks && { tasks: legacyTaskCapabilities }),
  })
}

/** The progress token of a request, as its original text. */
function progressToken(params: Payload): Payload | undefined {
  return params.at('_meta')?.at('progressToken')
}

/**
 * Forwards progress to a call under the client's own token. Values must increase (2025-11-25 basic/utilities/progress),
 * so one that does not is dropped.
 */
export function progressTo(call: Pick<Call, 'params' | 'emit'>): (note: Notification) => void {
  const token = progressToken(call.params)
  let last = Number.NEGATIVE_INFINITY
  return (note) => {
    const progress = toDouble(note.params?.fields.progress)
    if (!token || progress === undefined || progress <= last) return
    last = progress
    call.emit({
      method: note.method,
      ...(note.params && { params: note.params.with({ progressToken: token }) }),
    })
  }
}
