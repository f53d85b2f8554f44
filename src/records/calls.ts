/** Records of keyed calls: executing, done or unknown. Field names are persisted and do not change. */
import { hash } from 'node:crypto'
import { type Category, type ErrorCode, GatewayError, isErrorCode } from '../core/error.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** A call with an idempotency key. Kept under `call:…` as JSON; times are milliseconds since 1970. */
export interface CallRecord {
  /** When it is forgotten: fixed when it first began. */
  readonly expiresAt: number
  /** What was called, and with what: `fingerprintOf`. */
  readonly fingerprint: string
  readonly tool: string
  /** `unknown` once it is lost whether the server did it. */
  readonly state: 'executing' | 'done' | 'unknown'
  /** The gateway that made it last (`Presence.id`), and that attempt's own name. */
  readonly owner: string
  readonly attempt: string
  /** When it first began, and when the last attempt did. */
  readonly startedAt: number
  readonly attemptedAt: number
  /** Until when the input responses for the server can still arrive; after that the call is abandoned. */
  readonly openUntil?: number
  /** When it was found that the answer of the last attempt is lost. */
  readonly lostAt?: number
  readonly result?: Payload
  readonly failure?: GatewayError
}

/** A record, and the text it is kept as. */
export interface StoredCall {
  readonly record: CallRecord
  readonly text: string
}

/** The collection that holds all records of a caller. */
export function callsOf(principal: string): string {
  return `call:${callerHash(principal)}`
}

/** Where the record of a key of a caller is kept. It is who calls that counts, never the session. */
export function callKey(principal: string, upstream: string, key: string): string {
  return `${callsOf(principal)}/${upstream}:${key}`
}

/**
 * The same for the same tool and arguments (RFC 8785, SHA-256), whatever the order of their members, and for what
 * else makes it one call.
 */
export function fingerprintOf(
  tool: string,
  given: unknown,
  others: Readonly<Record<string, unknown>> = {},
): string {
  return hash('sha256', canonical({ ...others, tool, arguments: given ?? {} }))
}

/** The record of a key, if there is one that is not over. @throws what the store throws */
export async function findCall(store: Store, key: string): Promise<StoredCall | undefined> {
  const text = await store.get(key)
  return text === undefined ? undefined : keptCall(text)
}

/** A record as text. Results keep their own text, so that large integers survive. */
export function encodeCall({ result, failure, ...head }: CallRecord): string {
  const text = JSON.stringify(head)
  const end = result ? `,"result":${result.text}}` : failure ? `,"failure":${encodeFailure(failure)}}` : '}'
  return text.slice(0, -1) + end
}

/** A record of text; nothing where it is none, which only another program can have written. */
export function keptCall(text: string): StoredCall | undefined {
  const payload = parsed(text)
  const { expiresAt, fingerprint, tool, state, owner, attempt, startedAt, attemptedAt, openUntil, lostAt } =
    payload?.fields ?? {}
  const words = [fingerprint, tool, owner, attempt]
  const times = [expiresAt, startedAt, attemptedAt]
  if (!payload || !words.every(isText) || !times.every(Number.isFinite) || !isState(state)) return undefined
  const result = payload.at('result')
  const failed = payload.at('failure')
  const failure = failed && decodeFailure(failed)
  if (state === 'done' && !result && !failure) return undefined
  const record: CallRecord = {
    expiresAt: Number(expiresAt),
    fingerprint: String(fingerprint),
    tool: String(tool),
    state,
    owner: String(owner),
    attempt: String(attempt),
    startedAt: Number(startedAt),
    attemptedAt: Number(attemptedAt),
    ...(typeof openUntil === 'number' && { openUntil }),
    ...(typeof lostAt === 'number' && { lostAt }),
    ...(result && { result }),
    ...(failure && { failure }),
  }
  return { record, text }
}

/** When a record is over, read from the beginning of its text alone. */
export function expiryOf(text: string): number | undefined {
  const found = /^\{"expiresAt":(\d{1,16})/.exec(text)?.[1]
  return found === undefined ? undefined : Number(found)
}

function encodeFailure({ code, message, extra }: GatewayError): string {
  const { relayed, cause: _cause, ...rest } = extra
  const text = JSON.stringify({ code, message, ...rest })
  return relayed ? `${text.slice(0, -1)},"relayed":${relayed.text}}` : text
}

function decodeFailure(payload: Payload): GatewayError | undefined {
  const { code, message, category, field, reason, suggestion, data, details, ...others } = payload.fields
  if (!isErrorCode(code) || typeof message !== 'string') return undefined
  const { retryAfterSeconds, isResult } = others
  const relayed = payload.at('relayed')
  return new GatewayError(code satisfies ErrorCode, message, {
    ...(isText(category) && { category: category as Category }),
    ...(isText(field) && { field }),
    ...(isText(reason) && { reason }),
    ...(isText(suggestion) && { suggestion }),
    ...(isObject(data) && { data }),
    ...(isObject(details) && { details }),
    ...(typeof retryAfterSeconds === 'number' && { retryAfterSeconds }),
    ...(isResult === true && { isResult }),
    ...(relayed && { relayed }),
  })
}

function parsed(text: string): Payload | undefined {
  const value = readJson(text)
  return isObject(value) ? Payload.text(text, value) : undefined
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isState(value: unknown): value is CallRecord['state'] {
  return value === 'executing' || value === 'done' || value === 'unknown'
}
