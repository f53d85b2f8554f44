import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import type { GatewayError } from '../core/error.ts'
import { self } from '../core/self.ts'
import { metaKeys, tasksExtension } from './extensions.ts'
import { encodeErrorObject, encodeResult, errorObject, type Id } from './jsonrpc.ts'
import { lowerResult } from './project.ts'
import type { Revision } from './revisions.ts'

/** The answer to `initialize`, made from what the server said of itself. */
export function initializeResult(discovered: Payload, revision: Revision): Payload {
  const meta = discovered.fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const capabilities = discovered.at('capabilities') ?? Payload.of({})
  return discovered
    .with({
      protocolVersion: revision.name,
      capabilities: withoutTasks(capabilities),
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
 * The response for a failure. A missing capability is something a model can read about in a tool's result; the
 * codes of 2026-07-28 mean nothing to these clients.
 */
export function encodeLegacyError(id: Id, name: string, error: GatewayError): string {
  const object = errorObject(error)
  const code = error.rpc
  if (code === -32021 && name === 'tools/call') {
    const text = `This tool needs something the client does not offer: ${missing(object)}. ${error.message}`
    return encodeResult(id, Payload.of({ content: [{ type: 'text', text }], isError: true }))
  }
  if (code === -32021) return encodeErrorObject(id, object.with({ code: -32602 }))
  if (code === -32020) return encodeErrorObject(id, object.with({ code: -32603 }))
  const data = object.fields.data
  const isNotFound =
    name === 'resources/read' && code === -32602 && isObject(data) && typeof data.uri === 'string'
  return encodeErrorObject(id, isNotFound ? object.with({ code: -32002 }) : object)
}

function missing(error: Payload): string {
  const { data } = error.fields
  const required = isObject(data) ? data.requiredCapabilities : undefined
  return isObject(required) ? Object.keys(required).join(', ') : 'a client capability'
}

/** The tasks extension is not what these clients know as tasks. */
function withoutTasks(capabilities: Payload): Payload {
  const extensions = capabilities.at('extensions')
  if (!extensions || !Object.hasOwn(extensions.fields, tasksExtension)) return capabilities
  const rest = extensions.with({ [tasksExtension]: undefined })
  return capabilities.with({ extensions: Object.keys(rest.fields).length > 0 ? rest : undefined })
}
