/**
 * What is specific to messages of 2026-07-28: the client in `_meta`, results with `resultType`, errors and their
 * statuses.
 */
import { toDouble } from '../core/json/exact-number.ts'
import type { Call, Client, Outcome, InputRequests } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { self } from '../core/identity.ts'
import { ERROR_KEY, metaKeys } from './meta-keys.ts'
import { checkStandardHeaders, type Headers, mismatch } from './headers.ts'
import { errorObject, type JsonRpcRequest } from './jsonrpc.ts'
import { method, severity, unknownMethod } from './methods.ts'
import { encodeInputRequest } from './input-requests.ts'
import { acceptanceOf } from './tasks.ts'
import { findRevision, modernRevisions, revisionNames } from '../core/revisions.ts'

/**
 * Reads the client from a request of the stateless era, checking its envelope and, over HTTP, its headers.
 * @throws INVALID_INPUT, HEADER_MISMATCH, UNSUPPORTED_VERSION
 */
export function readClient(request: JsonRpcRequest, headers?: Headers): Client {
  const meta = request.params.fields._meta
  const fields = asObject(meta)
  const version = fields[metaKeys.version]
  if (typeof version !== 'string') throw envelope(metaKeys.version, 'must be a string')
  if (headers) checkVersionHeader(headers['mcp-protocol-version'], version)
  if (findRevision(version)?.era !== 'modern') throw unsupported(version)
  const capabilities = fields[metaKeys.capabilities]
  if (!isObject(capabilities)) throw envelope(metaKeys.capabilities, 'must be an object')
  const info = fields[metaKeys.clientInfo]
  if (info !== undefined && !isObject(info)) throw envelope(metaKeys.clientInfo, 'must be an object')
  const level = fields[metaKeys.logLevel]
  if (level !== undefined && severity(level) < 0) throw envelope(metaKeys.logLevel, 'is not a log level')
  if (method(request.method).only === 'legacy') throw unknownMethod(request.method)
  if (headers) checkStandardHeaders(headers, request.method, request.params)
  return { era: 'modern', revision: version, capabilities, ...(info && { info }) }
}

/** The result of a call encoded for 2026-07-28; `seal` encrypts the state of an input request. */
export function modernResult(
  call: Call,
  outcome: Outcome,
  seal: (state: Call['requestState']) => string,
): Payload {
  if (outcome.kind === 'input_required') {
    return Payload.of({ resultType: 'input_required' }).with({
      inputRequests: encodedRequests(outcome.inputRequests, call.client),
      requestState: seal(outcome.requestState),
      _meta: { [metaKeys.serverInfo]: self },
    })
  }
  const result = outcome.kind === 'task' ? acceptanceOf(outcome.task, 'modern') : outcome.result
  const { fields } = result
  const missing: Record<string, unknown> = {}
  if (typeof fields.resultType !== 'string') missing.resultType = 'complete'
  if (method(call.method).caches) {
    if ((toDouble(fields.ttlMs) ?? -1) < 0) missing.ttlMs = 0
    if (fields.cacheScope !== 'public' && fields.cacheScope !== 'private') missing.cacheScope = 'private'
  }
  const meta = fields._meta
  const hasInfo = isObject(meta) && Object.hasOwn(meta, metaKeys.serverInfo)
  if (meta === undefined) missing._meta = ownMeta
  const shaped = shape(call.method, result)
  const complete = Object.keys(missing).length > 0 ? shaped.with(missing) : shaped
  return hasInfo || meta === undefined ? complete : complete.withMeta({ [metaKeys.serverInfo]: self })
}

/** The `_meta` of a result without one. */
const ownMeta = Payload.text(JSON.stringify({ [metaKeys.serverInfo]: self }))

/** The JSON-RPC error object of a failure encoded for 2026-07-28. */
export function modernError(error: GatewayError, requestId?: string): Payload {
  const object = errorObject(error, requestId)
  if (!error.extra.relayed) return object
  // basic/index: -32002 and -32042 must not be emitted; of -32020…-32099 only what the specification defines.
  if (error.rpc === -32002) return object.with({ code: -32602 })
  if (error.rpc <= -32020 && error.rpc >= -32099 && !isAboutCapabilities(object)) {
    const data = { ...error.data, ...(requestId !== undefined && { requestId }) }
    const upstream = object.with({ data: ownDataOf(object.fields.data, error) })
    return Payload.of({ code: -32603, message: error.message }).with({
      data: Payload.of(data).with({ upstream }),
    })
  }
  return object
}

/** The JSON-RPC code these clients receive for a failure. */
export function modernErrorCode(error: GatewayError): number {
  return error.extra.relayed ? Number(modernError(error).fields.code) : error.rpc
}

/** Whether an error names missing client capabilities; servers with a handshake may use the code for something else. */
function isAboutCapabilities({ fields: { code, data } }: Payload): boolean {
  return code === -32021 && isObject(data) && isObject(data.requiredCapabilities)
}

/** The server's own data of a relayed error; undefined if it sent none. */
function ownDataOf(given: unknown, { data }: GatewayError): unknown {
  if (!isObject(given)) return given
  const { [ERROR_KEY]: _added, requestId: _ours, ...rest } = given
  // Its own data has no structured error among its members.
  if (typeof rest.category !== 'string') return rest
  const members = Object.entries(rest).filter(([key]) => !Object.hasOwn(data, key))
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

/** The HTTP status that goes with a JSON-RPC error code of an answered call (2026-07-28 basic/transports). */
export function modernStatus(code: unknown): number {
  if (code === -32601) return 404
  return code === -32020 || code === -32021 || code === -32022 ? 400 : 200
}

function encodedRequests(questions: InputRequests, client: Client): Payload {
  const entries = Object.entries(questions).map(([key, question]) => {
    const { method: name, params } = encodeInputRequest(question, client)
    return [key, Payload.of({ method: name }).with({ params })] as const
  })
  return Payload.of({}).with(Object.fromEntries(entries))
}

/** Removes what older servers send and 2026-07-28 does not have. */
function shape(name: string, result: Payload): Payload {
  if (name === 'server/discover') {
    const capabilities = result.at('capabilities')?.with({ tasks: undefined })
    return result.with({
      supportedVersions: revisionNames.toReversed(),
      ...(capabilities && { capabilities }),
    })
  }
  const { tools } = result.fields
  if (name !== 'tools/list' || !Array.isArray(tools)) return result
  if (!tools.some((tool) => isObject(tool) && Object.hasOwn(tool, 'execution'))) return result
  return result.withItems('tools', (tool) =>
    Object.hasOwn(tool.fields, 'execution') ? tool.with({ execution: undefined }) : tool,
  )
}

function checkVersionHeader(header: Headers[string], version: string): void {
  if (header === undefined) throw mismatch('MCP-Protocol-Version', 'is missing')
  if (header !== version) throw mismatch('MCP-Protocol-Version', 'differs from the body')
}

function unsupported(requested: string): GatewayError {
  return new GatewayError('UNSUPPORTED_VERSION', `Unsupported protocol version: ${requested.slice(0, 64)}`, {
    data: { supported: modernRevisions, requested },
  })
}

function envelope(key: string, why: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: _meta["${key}"] ${why}.`)
}
