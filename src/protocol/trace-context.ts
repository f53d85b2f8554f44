/** W3C Trace Context and baggage, in headers and in `_meta`. */
import type { Call } from '../core/call.ts'
import { idempotencyKeySlot } from '../core/tool-call.ts'
import { isObject } from '../core/json/json.ts'
import type { Payload, Fields } from '../core/payload.ts'
import type { Headers } from './headers.ts'

/** The trace of a request, with the header names of W3C Trace Context and W3C Baggage. */
export interface TraceContext {
  readonly traceparent?: string
  readonly tracestate?: string
  readonly baggage?: string
}

/** The keys of a trace context, in headers and in `_meta` (2026-07-28 basic/index, `_meta`). */
const keys = ['traceparent', 'tracestate', 'baggage'] as const

/** Neither id is all zeros, and version ff is forbidden (W3C Trace Context, traceparent). */
const parent = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/
const PARENT_LENGTH = 55
const MAX_PARENT = 512
const MAX_STATE = 512
const MAX_BAGGAGE = 8192
const printable = /^[\x20-\x7e]+$/

/** The trace context of a request's headers; undefined without a valid one. */
export function headerTrace(headers: Headers): TraceContext | undefined {
  const { traceparent, baggage } = headers
  if (traceparent === undefined && baggage === undefined) return undefined
  return validTrace(headers)
}

/** The valid part of a trace context. */
function validTrace({ traceparent, tracestate, baggage }: Fields): TraceContext | undefined {
  const isTraced = isParent(traceparent)
  const isCarried = isText(baggage, MAX_BAGGAGE)
  if (!isTraced && !isCarried) return undefined
  return {
    ...(isTraced && { traceparent }),
    ...(isTraced && isText(tracestate, MAX_STATE) && { tracestate }),
    ...(isCarried && { baggage }),
  }
}

/** The members of `_meta` with a valid trace context: its own, otherwise that of the transport. */
export function withTrace(meta: Fields, transportContext: TraceContext | undefined): Fields {
  if (transportContext === undefined && !hasTrace(meta)) return meta
  const own = validTrace(meta)
  const { traceparent, tracestate } = own?.traceparent === undefined ? (transportContext ?? {}) : own
  const baggage = own?.baggage ?? transportContext?.baggage
  const { traceparent: _parent, tracestate: _state, baggage: _baggage, ...rest } = meta
  return {
    ...rest,
    ...(traceparent !== undefined && { traceparent }),
    ...(tracestate !== undefined && { tracestate }),
    ...(baggage !== undefined && { baggage }),
  }
}

/** The edits of `_meta` that add the trace context of the call to params. */
export function traceEdits({ params, meta }: Call): Fields | undefined {
  const written = params.fields._meta
  const sent = isObject(written) ? written : none
  let edits: Record<string, unknown> | undefined
  for (const key of keys) if (sent[key] !== meta[key]) (edits ??= {})[key] = meta[key]
  return edits
}

/** The params of a call with its trace context in `_meta`. */
export function tracedParams(call: Call): Payload {
  const edits = traceEdits(call)
  return edits ? call.params.withMeta(edits) : call.params
}

/** The HTTP headers for the call, its trace, and its idempotency key if the server accepts one. */
export function callHeaders(call: Call): Record<string, string> {
  const { requestId, meta } = call
  const idempotencyKey = idempotencyKeySlot.of(call)
  const headers: Record<string, string> = { 'x-request-id': requestId }
  // A quoted string (RFC 9651 §3.3.3), as in draft-ietf-httpapi-idempotency-key-header.
  if (idempotencyKey !== undefined) headers['idempotency-key'] = `"${idempotencyKey}"`
  if (!hasTrace(meta)) return headers
  for (const key of keys) {
    const value = meta[key]
    if (typeof value === 'string') headers[key] = value
  }
  return headers
}

const none: Fields = {}

function hasTrace(meta: Fields): boolean {
  return meta.traceparent !== undefined || meta.tracestate !== undefined || meta.baggage !== undefined
}

function isParent(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > MAX_PARENT || !parent.test(value)) return false
  if (value.length === PARENT_LENGTH) return true
  // Later versions may append fields.
  return !value.startsWith('00') && value[PARENT_LENGTH] === '-' && printable.test(value)
}

function isText(value: unknown, limit: number): value is string {
  return typeof value === 'string' && value.length <= limit && printable.test(value)
}
