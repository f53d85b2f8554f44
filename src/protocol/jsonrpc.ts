/**
 * JSON-RPC 2.0 messages (https://www.jsonrpc.org/specification): parsing that keeps the text of params and results,
 * encoding, and the era of a message. Messages in the usual form are read without a full parse.
 */
import { GatewayError } from '../core/error.ts'
import { elements, isDeeperThan, isObject, members } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { metaKeys } from './meta-keys.ts'
import { claimsModern, findRevision } from '../core/revisions.ts'
import { duplicateKey, parseJson } from '../core/json/read.ts'
import { toDouble } from '../core/json/exact-number.ts'

/** A request id as its original JSON text, so that it is returned unchanged: `7`, `"7"`, `9007199254740993`. */
export type Id = string

export interface JsonRpcRequest {
  readonly kind: 'request'
  readonly id: Id
  readonly method: string
  readonly params: Payload
}

export interface JsonRpcNotification {
  readonly kind: 'notification'
  readonly method: string
  readonly params: Payload
}

export interface JsonRpcResponse {
  readonly kind: 'response'
  /** Absent if the sender did not know it. */
  readonly id?: Id
  readonly result?: Payload
  readonly error?: Payload
}

export type JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse

/** A batch of messages, each as text (2025-03-26). */
export interface Batch {
  readonly kind: 'batch'
  readonly texts: readonly string[]
}

/** The maximum nesting of a client's message: code that traverses or stores it is recursive. */
const MAX_NESTING = 1000

/** Refuses a client's message that is nested too deeply to be processed. @throws INVALID_REQUEST */
export function checkNesting(text: string): void {
  if (isDeeperThan(text, MAX_NESTING)) throw invalid(`it is nested deeper than ${MAX_NESTING} levels`)
}

/** Parses JSON text from a peer. @throws PARSE_ERROR */
export function parsePeerJson(text: string): unknown {
  try {
    return parseJson(text)
  } catch (cause) {
    throw new GatewayError('PARSE_ERROR', 'Parse error: the message is not valid JSON.', { cause })
  }
}

/** Reads one JSON-RPC message. @throws PARSE_ERROR, INVALID_REQUEST */
export function parseMessage(text: string): JsonRpcMessage {
  return readUsual(text) ?? readMessage(text, parsePeerJson(text))
}

/** Reads a JSON-RPC message or a batch. @throws PARSE_ERROR, INVALID_REQUEST */
export function parseMessages(text: string): JsonRpcMessage | Batch {
  const usual = readUsual(text)
  if (usual) return usual
  const value = parsePeerJson(text)
  return Array.isArray(value) ? { kind: 'batch', texts: elements(text) } : readMessage(text, value)
}

function readMessage(text: string, value: unknown): JsonRpcMessage {
  if (!isObject(value)) throw invalid('a message must be a JSON object')
  if (value.jsonrpc !== '2.0') throw invalid('"jsonrpc" must be "2.0"')
  const part = slicer(text, value)
  if (typeof value.method !== 'string') return readResponse(value, part)
  refuseDuplicates(text, value)
  if (value.method === '') throw invalid('"method" must not be empty')
  const params = value.params === null ? undefined : value.params
  if (params !== undefined && !isObject(params)) throw invalid('"params" must be an object')
  const payload = params === undefined ? noParams : part('params')
  if (!Object.hasOwn(value, 'id')) return { kind: 'notification', method: value.method, params: payload }
  if (!isId(value.id)) throw invalid('"id" must be a string or an integer')
  return { kind: 'request', id: part('id').text, method: value.method, params: payload }
}

/** The id of a possibly malformed message, or `null`: an error response contains it if it can be read, and is one. */
export function idOf(text: string): Id {
  try {
    const value: unknown = parseJson(text)
    if (!isObject(value) || !isId(value.id)) return 'null'
    const ids = members(text).flatMap(({ key, valueStart, end }) =>
      key === 'id' ? [text.slice(valueStart, end)] : [],
    )
    const [id = 'null'] = ids
    return ids.every((each) => each === id) ? id : 'null'
  } catch {
    return 'null'
  }
}

export function encodeRequest(id: Id, method: string, params: Payload | undefined): string {
  const body = params === undefined ? '' : `,"params":${params.text}`
  return `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}${body}}`
}

export function encodeNotification(method: string, params?: Payload): string {
  const body = params === undefined || params === noParams ? '' : `,"params":${params.text}`
  return `{"jsonrpc":"2.0","method":${JSON.stringify(method)}${body}}`
}

export function encodeResult(id: Id, result: Payload): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${result.text}}`
}

export function encodeErrorObject(id: Id, error: Payload): string {
  return `{"jsonrpc":"2.0","id":${id},"error":${error.text}}`
}

/**
 * The JSON-RPC error object of a failure: the server's own if it is relayed, otherwise the gateway's with its data and
 * the request id, if there is one.
 */
export function errorObject(error: GatewayError, requestId?: string): Payload {
  if (error.extra.relayed) return error.extra.relayed
  const data = requestId === undefined ? error.data : { ...error.data, requestId }
  return Payload.of({ code: error.rpc, message: error.message, data })
}

export function encodeError(id: Id, error: GatewayError, requestId?: string): string {
  return encodeErrorObject(id, errorObject(error, requestId))
}

/** The params of a message that has none: where it is sent again, it has none either. */
export const noParams = Payload.text('{}')

/**
 * The text around the params or the result of a message, as nearly all clients write it: the other members come first
 * or last.
 */
const FIRST = /^\{"jsonrpc":"2\.0","id":(0|[1-9]\d{0,14}),(?:"method":"([\w/.-]{1,100})","params"|"result"):/
const LEAD = /^\{(?:"method":"([\w/.-]{1,100})","params"|"result"):/
const TRAILING_MEMBERS = /^,"jsonrpc":"2\.0","id":(0|[1-9]\d{0,14})\}$/

/**
 * Reads a message in the usual form, parsing only its params or result: if that is exactly one JSON value, the message
 * has no members besides the known ones.
 */
function readUsual(text: string): JsonRpcMessage | undefined {
  const first = FIRST.exec(text)
  if (first)
    return text.endsWith('}') ? usual(first[1], first[2], text.slice(first[0].length, -1)) : undefined
  const lead = LEAD.exec(text)
  const end = lead ? text.lastIndexOf(',"jsonrpc"') : -1
  const last = end === -1 ? null : TRAILING_MEMBERS.exec(text.slice(end))
  return lead && last ? usual(last[1], lead[1], text.slice(lead[0].length, end)) : undefined
}

function usual(id = '', method: string | undefined, body: string): JsonRpcMessage | undefined {
  if (!body.startsWith('{') || !body.endsWith('}')) return undefined
  let value: unknown
  try {
    value = parseJson(body)
  } catch {
    return undefined
  }
  const payload = Payload.text(body, value)
  if (method === undefined) return { kind: 'response', id, result: payload }
  refuseDuplicates(body, value)
  return { kind: 'request', id, method, params: payload }
}

/** Who reads the last of two members sees another request than who reads the first. @throws INVALID_REQUEST */
export function refuseDuplicates(text: string, value: unknown): void {
  const key = duplicateKey(text, value)
  if (key !== undefined) throw invalid(`it has the key ${JSON.stringify(key.slice(0, MAX_KEY_LENGTH))} twice`)
}

/** How much of a key is named in an error, in characters. */
const MAX_KEY_LENGTH = 200

function readResponse(value: Record<string, unknown>, part: (key: string) => Payload): JsonRpcResponse {
  if (Object.hasOwn(value, 'method')) throw invalid('"method" must be a string')
  const id = isId(value.id) ? part('id').text : undefined
  if (isObject(value.error)) {
    const { code, message } = value.error
    const error = part('error')
    const text = typeof message === 'string' ? message : written(message)
    const isSound = Number.isInteger(code) && message === text
    const sound = isSound
      ? error
      : error.with({ code: Number.isInteger(code) ? code : -32603, message: text })
    return { kind: 'response', ...(id !== undefined && { id }), error: sound }
  }
  if (!isObject(value.result))
    throw invalid('a message must have a "method", a "result" object or an "error" object')
  return { kind: 'response', ...(id !== undefined && { id }), result: part('result') }
}

/** An error message that is not a string, as JSON; empty if it is absent or null. */
function written(value: unknown): string {
  return value === undefined || value === null ? '' : JSON.stringify(value)
}

/** Extracts members of a message's text. A duplicate key is ambiguous, so it is refused. */
function slicer(text: string, value: Record<string, unknown>): (key: string) => Payload {
  const found = members(text)
  if (found.length !== Object.keys(value).length) throw invalid('the message contains a duplicate key')
  return (key) => {
    const member = found.find((item) => item.key === key)
    const slice = member ? text.slice(member.valueStart, member.end) : 'null'
    return Payload.text(slice, value[key])
  }
}

function isId(id: unknown): boolean {
  return typeof id === 'string' || Number.isInteger(toDouble(id))
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `Invalid request: ${why}.`)
}

/**
 * Determines the era of a message: by its body, or by the version header if the body does not show it (2026-07-28
 * basic/lifecycle). @throws INVALID_INPUT if the header claims what the body lacks
 */
export function classify(message: JsonRpcMessage, versionHeader: string | undefined): 'legacy' | 'modern' {
  if (message.kind === 'response') return 'legacy'
  if (hasClaim(message)) return 'modern'
  const isModernHeader = versionHeader !== undefined && claimsModern(versionHeader)
  if (message.kind === 'notification') return isModernHeader ? 'modern' : 'legacy'
  if (!isModernHeader || message.method === 'initialize') return 'legacy'
  throw new GatewayError('INVALID_INPUT', `Invalid params: _meta lacks ${metaKeys.version}.`, {
    suggestion: `A request of revision ${versionHeader} carries ${metaKeys.version} and ${metaKeys.capabilities} in params._meta.`,
  })
}

/** Whether a version header names a revision whose rules the gateway does not know. */
export function isUnknownVersion(versionHeader: string | undefined): boolean {
  return versionHeader !== undefined && findRevision(versionHeader) === undefined
}

function hasClaim(message: JsonRpcMessage): boolean {
  if (message.kind === 'response') return false
  const meta = message.params.fields._meta
  return isObject(meta) && Object.hasOwn(meta, metaKeys.version)
}
