import type { Call } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json.ts'
import type { Headers } from './headers.ts'

/** `_meta` keys of 2026-07-28 (basic/index, `_meta`), and what 2025-11-25 ties messages to a task with. */
export const metaKeys = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
} as const

/** The tasks extension of 2026-07-28. */
export const tasksExtension = 'io.modelcontextprotocol/tasks'

/** The prefix of every key, method and extension the gateway invents. */
export const NS = 'dev.gatehouse'

/** Where in the `_meta` of a tool's result the structured error stands. */
export const ERROR_KEY = `${NS}/error`

/** Whether a call carries a value for a feature, wherever `extensionOf` would find it. */
export function hasExtension({ meta, params }: Call, name: string): boolean {
  return meta[keyOf(name)] !== undefined || meta[name] !== undefined || params.fields[name] !== undefined
}

/**
 * A value a client sends for a feature: in `_meta` under our own key or its bare name, or beside the other params.
 * @throws INVALID_INPUT where two places differ
 */
export function extensionOf({ meta, params }: Call, name: string): unknown {
  const found = [meta[keyOf(name)], meta[name], params.fields[name]].filter((each) => each !== undefined)
  const [first, ...others] = found
  if (others.every((other) => canonical(other) === canonical(first))) return first
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${name} is given twice, with different values.`, {
    data: { reason: 'mismatch' },
  })
}

/** The same call without a value that is for a feature alone. */
export function withoutExtension(call: Call, name: string): Call {
  const { [keyOf(name)]: _own, [name]: _bare, ...meta } = call.meta
  const written = call.params.fields._meta
  const isWritten = isObject(written) && (Object.hasOwn(written, keyOf(name)) || Object.hasOwn(written, name))
  const params = isWritten
    ? call.params.withMeta({ [keyOf(name)]: undefined, [name]: undefined })
    : call.params
  return {
    ...call,
    meta,
    params: params.fields[name] === undefined ? params : params.with({ [name]: undefined }),
  }
}

/** The narrowing session token of a request's headers. */
export function headerToken(headers: Headers): string | undefined {
  const token = headers['x-mcp-session-token']
  return typeof token === 'string' ? token : undefined
}

/** The members of `_meta` with the session token of the transport; where they have another, both are kept. */
export function withToken(
  meta: Readonly<Record<string, unknown>>,
  token: string | undefined,
): Readonly<Record<string, unknown>> {
  if (token === undefined) return meta
  const key = keyOf(SESSION_TOKEN)
  const own = meta[key]
  if (own === token) return meta
  return own === undefined ? { ...meta, [key]: token } : { ...meta, [SESSION_TOKEN]: token }
}

const keys = new Map<string, string>()

/** Our own key of a value; every call is looked at for it, so it is made once. */
function keyOf(name: string): string {
  const known = keys.get(name)
  if (known !== undefined) return known
  const key = `${NS}/${name}`
  keys.set(name, key)
  return key
}

/** The session token's name among the values for features. */
export const SESSION_TOKEN = 'session_token'
