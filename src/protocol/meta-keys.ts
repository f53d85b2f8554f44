/**
 * All `_meta` keys and extensions of the gateway, and the values that callers may send with them. Keys under
 * `dev.gatehouse/` are public; servers that imitate them are stripped of them.
 */
import type { Call } from '../core/call.ts'
import { NS } from '../core/identity.ts'
import { GatewayError } from '../core/error.ts'
import { asObject, isObject, isSame, cutMembers } from '../core/json/json.ts'
import type { Headers } from './headers.ts'

type Fields = Readonly<Record<string, unknown>>

/**
 * `_meta` keys of 2026-07-28 (basic/index, `_meta`), and the key that associates messages with a task in 2025-11-25.
 */
export const metaKeys = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
} as const

/** The path of the public keys of the gateway's signatures. */
export const KEYS_PATH = '/.well-known/jwks.json'

/** The `_meta` key of the contract version of a server. */
export const CONTRACT_KEY = `${NS}/contract`

/** The key of when a server that cannot be reached listed an entry last, in `_meta` of the entry. */
export const LAST_KNOWN_KEY = `${NS}/last_known`

/** The key of what a session had set up and its server lost, in `_meta` of a result. */
export const CONTEXT_LOST_KEY = `${NS}/context_lost`

/** The key of the structured error in `_meta` of a tool's result. */
export const ERROR_KEY = `${NS}/error`

/** The key of the confirmation in `_meta` of a result. */
export const CONFIRMATION_KEY = `${NS}/confirmation`

/** The key of the facts about the call whose lost answer a result is, in `_meta` of the result. */
export const LOST_ANSWER_KEY = `${NS}/lost_answer`

/** The key of what an approver changed of the arguments of a call, in `_meta` of its result. */
export const EDITED_KEY = `${NS}/edited`

/** The key of the provenance in `_meta` of a result. */
export const PROVENANCE_KEY = `${NS}/provenance`

/** The key of the number of masked values, and of the sizes of a shortened result, in `_meta` of a result. */
export const MASKED_KEY = `${NS}/masked`
export const TRUNCATED_KEY = `${NS}/truncated`

/** The keys of kept data that a result refers to, in `_meta`: the first of it, and all if there is more. */
export const REFERENCE_KEY = `${NS}/data_reference`
export const REFERENCES_KEY = `${NS}/data_references`

/** The key of why a large result was not kept, in its `_meta`. */
export const NOT_KEPT_KEY = `${NS}/not_kept`

/** The key of what was collected of a tool's pages, in `_meta` of a request and of its result. */
export const STREAM_KEY = `${NS}/stream`

/** The key of one page of a result in `_meta` of a progress notification. */
export const CHUNK_KEY = `${NS}/chunk`

/** The keys of the session state, whether it changed, and the visible part of the session, in `_meta` of a result. */
export const SESSION_STATE_KEY = `${NS}/session_state`
export const STATE_CHANGED_KEY = `${NS}/state_changed`
export const SESSION_KEY = `${NS}/session`

/** A value for capabilities: the schema of 2026-07-28 (JSONValue) does not allow null there, so nulls are dropped. */
export function amongCapabilities(members: Fields, { era }: Call['client']): Fields {
  return era === 'modern' ? withoutNulls(members) : members
}

function withoutNulls(members: Fields): Fields {
  const listed = Object.entries(members).filter(([, value]) => value !== null)
  return Object.fromEntries(
    listed.map(([key, value]) => [key, isObject(value) ? withoutNulls(value) : value]),
  )
}

/** The names of values used by several features. */
export const SESSION_TOKEN = 'session_token'
export const IDEMPOTENCY_KEY = 'idempotency_key'
export const RUN_AGAIN = 'run_again'
export const TRANSACTION_ID = 'transaction_id'
export const SESSION_STATE = 'session_state'
export const DRY_RUN = 'dry_run'

/** The key of the report of a dry run in `_meta` of its result. */
export const DRY_RUN_KEY = `${NS}/${DRY_RUN}`

/** Whether a call carries a value for a feature, in any place `extensionOf` reads. */
export function hasExtension({ meta, params }: Pick<Call, 'meta' | 'params'>, name: string): boolean {
  // Every call is checked for each of them.
  if (meta !== noMeta && (meta[keyOf(name)] !== undefined || meta[name] !== undefined)) return true
  return params.member(name) !== undefined
}

/**
 * Whether a client reads a `_meta` key: it lists the key among its extensions, or requests it with `true` in the
 * request.
 */
export function isAskedFor({ client, meta }: Call, key: string): boolean {
  const { extensions } = client.capabilities
  return (isObject(extensions) && isObject(extensions[key])) || meta[key] === true
}

/** The call without the flag that requests a key: servers do not read it. */
export function withoutFlag(call: Call, key: string): Call {
  if (call.meta[key] === undefined) return call
  const { [key]: _flag, ...meta } = call.meta
  return { ...call, meta, params: call.params.withMeta({ [key]: undefined }) }
}

/** The `_meta` of calls without one. */
export const noMeta: Fields = {}

/**
 * A value a client sends for a feature: in `_meta` under the prefixed key or its bare name, or next to the other
 * params.
 * @throws INVALID_INPUT if two places differ
 */
export function extensionOf({ meta, params }: Call, name: string): unknown {
  const found = [meta[keyOf(name)], meta[name], params.fields[name]].filter((item) => item !== undefined)
  const [first, ...others] = found
  if (others.every((other) => isSame(other, first))) return first
  throw mismatch(name)
}

function mismatch(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${name} is set twice, with different values.`, {
    field: name,
    data: { reason: 'mismatch' },
  })
}

/** The call with a value for a feature; if it has a different one already, it has both. */
export function withExtension(call: Call, name: string, value: unknown): Call {
  return { ...call, meta: withGatewayMetadata(call.meta, [[name, value]]) }
}

/** The call with a value in its params, for a server that also reads it. */
export function withWritten(call: Call, name: string): Call {
  const { [name]: beside, _meta: meta } = call.params.fields
  const isWritten = beside !== undefined || (isObject(meta) && isAmong(meta, name))
  return isWritten ? call : { ...call, params: call.params.withMeta({ [name]: extensionOf(call, name) }) }
}

function isAmong(meta: Fields, name: string): boolean {
  return Object.hasOwn(meta, keyOf(name)) || Object.hasOwn(meta, name)
}

/** The call without values that are only for a feature. */
export function withoutExtension(call: Call, ...names: readonly string[]): Call {
  const { params } = call
  const meta: Record<string, unknown> = { ...call.meta }
  const written = asObject(params.member('_meta'))
  const fromMeta: Record<string, undefined> = {}
  const fromParams: Record<string, unknown> = {}
  let isWritten = false
  let isBeside = false
  for (const name of names) {
    for (const key of [keyOf(name), name]) {
      delete meta[key]
      if (!Object.hasOwn(written, key)) continue
      fromMeta[key] = undefined
      isWritten = true
    }
    if (params.member(name) === undefined) continue
    fromParams[name] = undefined
    isBeside = true
  }
  if (isWritten) fromParams._meta = params.metaWith(fromMeta)
  return { ...call, meta, params: isWritten || isBeside ? params.with(fromParams) : params }
}

/** Values for features that were carried outside of the message, each with its name. */
export type GatewayMetadata = readonly (readonly [name: string, value: unknown])[]

/** The headers that carry values for features. */
const carriers = [
  ['x-mcp-session-token', SESSION_TOKEN],
  ['idempotency-key', IDEMPOTENCY_KEY],
  ['x-idempotency-key', IDEMPOTENCY_KEY],
  ['x-mcp-dry-run', DRY_RUN],
] as const

/** The names of these headers, in lower case. */
export const valueHeaders: readonly string[] = carriers.map(([header]) => header)

/** The values for features in a request's headers; undefined if there are none. */
export function gatewayMetadataOf(headers: Headers): GatewayMetadata | undefined {
  let carried: (readonly [string, unknown])[] | undefined
  for (const [header, name] of carriers) {
    const value = headers[header]
    if (typeof value === 'string') (carried ??= []).push([name, bare(header, value)])
  }
  return carried
}

/** `Idempotency-Key` is a quoted string (RFC 9651 §3.3.3); many clients omit the quotes. A header has no other type than text. */
function bare(header: string, value: string): string | boolean {
  if (header === 'x-mcp-dry-run' && (value === 'true' || value === 'false')) return value === 'true'
  return header === 'idempotency-key' ? (/^"([^"\\]*)"$/.exec(value)?.[1] ?? value) : value
}

/** The members of `_meta` merged with the values of the transport; if they differ, both are kept. */
export function withGatewayMetadata(meta: Fields, carried: GatewayMetadata | undefined): Fields {
  if (carried === undefined) return meta
  const merged: Record<string, unknown> = { ...meta }
  for (const [name, value] of carried) {
    const key = keyOf(name)
    const own = merged[key]
    if (own === undefined) merged[key] = value
    else if (own !== value) merged[name] = value
  }
  return merged
}

const keys = new Map<string, string>()

/** The prefixed key of a value, cached. */
function keyOf(name: string): string {
  const known = keys.get(name)
  if (known !== undefined) return known
  const key = `${NS}/${name}`
  keys.set(name, key)
  return key
}

/** The alternative name of the idempotency key. */
export const CAMEL_KEY = 'idempotencyKey'

/** The valid format of an idempotency key. */
export const keyShape = /^[a-zA-Z0-9_\-:.]{1,128}$/

/** Whether a call carries an idempotency key, in any format. */
export function hasIdempotencyKey(call: Pick<Call, 'meta' | 'params'>): boolean {
  return hasExtension(call, IDEMPOTENCY_KEY) || hasExtension(call, CAMEL_KEY)
}

/** The idempotency key of a call. @throws INVALID_INPUT */
export function idempotencyKeyOf(call: Call): string {
  const [plain, camel] = [extensionOf(call, IDEMPOTENCY_KEY), extensionOf(call, CAMEL_KEY)]
  if (plain !== undefined && camel !== undefined && plain !== camel) throw mismatch(IDEMPOTENCY_KEY)
  const key = plain ?? camel
  // The gateway derives keys of its own from names that others chose.
  if (typeof key === 'string' && (keyShape.test(key) || call.internal !== undefined)) return key
  const field = plain === undefined ? CAMEL_KEY : placeOf(call)
  throw new GatewayError(
    'INVALID_INPUT',
    `Invalid params: ${field} must be 1 to 128 letters, digits, or characters of "_-:.".`,
    { field, reason: typeof key === 'string' ? 'pattern' : 'type' },
  )
}

/** The place of the key for error messages: if the client did not write it, it was a header. */
function placeOf({ params }: Call): string {
  const { [IDEMPOTENCY_KEY]: beside, _meta: meta } = params.fields
  const written: Fields = asObject(meta)
  if (beside !== undefined || written[IDEMPOTENCY_KEY] !== undefined) return IDEMPOTENCY_KEY
  const own = keyOf(IDEMPOTENCY_KEY)
  return written[own] === undefined ? 'Idempotency-Key' : own
}

// Members with the gateway's prefix are statements of the gateway: an approval, a receipt, the state of a key. A server
// that sends them would forge such statements, so they are removed from every message of a server on arrival, before
// anything reads it. Invariant: everything else in the message keeps its exact text. `structuredContent` is data of a
// tool, where no client looks for statements of the gateway, so it is not searched.

/** Whether one server may use a reserved member name, as a trusted peer. */
export type MayKeep = (key: string) => boolean

/** A message of a server without reserved members. */
interface Cleaned {
  readonly text: string
  /** The names of the removed members: unique, shortened, and limited in number. */
  readonly removed: readonly string[]
}

const MAX_REPORTED_NAMES = 10
const MAX_NAME_LENGTH = 80

/** A letter of the prefix written as an escape: `\u0064ev.gatehouse` is the same name. */
const ESCAPED_LETTER = /\\u00(?:2[eE]|6[14578fF]|7[3-6])/

/** Whether a member name is reserved for the gateway. */
export function isReservedKey(key: string): boolean {
  return key === NS || key.startsWith(`${NS}/`) || key.startsWith(`${NS}.`)
}

/** Removes reserved members from the JSON text of a message, at any depth. */
export function withoutReservedKeys(text: string, mayKeep?: MayKeep): Cleaned {
  if (!mayHoldReservedKey(text)) return { text, removed: [] }
  const removed = new Set<string>()
  const cleaned = cutMembers(text, (key) => {
    if (key === 'structuredContent') return 'skip'
    if (!isReservedKey(key) || mayKeep?.(key) === true) return 'enter'
    if (removed.size < MAX_REPORTED_NAMES) removed.add(key.slice(0, MAX_NAME_LENGTH))
    return 'cut'
  })
  return { text: cleaned, removed: [...removed] }
}

/**
 * Every message of a server is checked, and nearly none contains one. V8 finds a string of fewer than seven characters
 * with a rare first one twenty times faster than the whole prefix, and `u00` as much faster than with the backslash
 * before it.
 */
function mayHoldReservedKey(text: string): boolean {
  return text.includes(RARE_PART) || (text.includes('u00') && ESCAPED_LETTER.test(text))
}

/** A part of the prefix. */
const RARE_PART = NS.slice(2, 8)
