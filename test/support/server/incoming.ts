import type { HeaderMap, Journal } from './journal.ts'
import { type Id, isId, isObject, type Json, keysWith, objectAt, parse } from './json.ts'

/** A message that reached the server, sorted by what it is. */
export type Incoming = { readonly text: string; readonly headers: HeaderMap } & (
  | { readonly kind: 'request'; readonly id: Id; readonly method: string; readonly params: Json }
  | { readonly kind: 'notification'; readonly method: string; readonly params: Json }
  | { readonly kind: 'response'; readonly id: unknown; readonly message: Json }
  | { readonly kind: 'junk'; readonly code: number; readonly reason: string; readonly value: unknown }
)

/** Records a message, sorts it, and notes what is wrong with its form. */
export function sort(text: string, headers: HeaderMap, journal: Journal): Incoming {
  const value = parse(text)
  journal.record({ kind: 'message', text, headers, ...(isObject(value) && { message: value }) })
  const incoming = sorted(value, text, headers)
  if (incoming.kind === 'junk' && !Array.isArray(value))
    journal.violation(`${incoming.reason}: ${clip(text)}`)
  return incoming
}

function sorted(value: unknown, text: string, headers: HeaderMap): Incoming {
  const common = { text, headers }
  const junk = (reason: string, code = -32600) => ({ ...common, kind: 'junk' as const, code, reason, value })
  if (value === undefined) return junk('not JSON', -32700)
  if (Array.isArray(value)) return junk('a batch')
  if (!isObject(value)) return junk('no JSON object')
  const { jsonrpc, id, method, params = {} } = value
  if (jsonrpc !== '2.0') return junk('jsonrpc is not "2.0"')
  if (method === undefined) return sortedResponse(value, common) ?? junk('neither result nor error')
  if (typeof method !== 'string') return junk('the method is no string')
  if (!isObject(params)) return junk('params is no object')
  if (!('id' in value)) return { ...common, kind: 'notification', method, params }
  return isId(id)
    ? { ...common, kind: 'request', id, method, params }
    : junk('the id is no string or integer')
}

function sortedResponse(value: Json, common: { text: string; headers: HeaderMap }): Incoming | undefined {
  const { result, error, id } = value
  const isError = isObject(error) && Number.isInteger(error['code']) && typeof error['message'] === 'string'
  if (isObject(result) === isError) return undefined
  return { ...common, kind: 'response', id, message: value }
}

/** Notes metadata of 2026-07-28 in a message to a legacy server. A probe may carry it. */
export function checkLegacyMeta(method: string, params: Json, revision: string, journal: Journal): void {
  if (method === 'server/discover') return
  const known = revision === '2025-11-25' ? ['io.modelcontextprotocol/related-task'] : []
  for (const key of keysWith(objectAt(params, '_meta'), 'io.modelcontextprotocol/')) {
    if (!known.includes(key)) journal.violation(`${key} sent to ${revision} with ${method}`)
  }
  for (const key of ['inputResponses', 'requestState']) {
    if (key in params) journal.violation(`${key} sent to ${revision} with ${method}`)
  }
}

/** The beginning of a text, for a message to a person. */
export function clip(text: string): string {
  return text.length > 120 ? `${text.slice(0, 120)}…` : text
}
