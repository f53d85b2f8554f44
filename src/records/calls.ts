/** Records of keyed calls: executing, done or unknown. Field names are persisted and do not change. */
import { type Category, type ErrorCode, GatewayError, isErrorCode } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { hasMembers } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** A call with an idempotency key. Stored under `call:…` as JSON; times are milliseconds since 1970. */
export interface CallRecord {
  /** When the record expires; fixed when the call first started. */
  readonly expiresAt: number
  /** Hash of the tool and its arguments: `fingerprintOf` in `fingerprint.ts`. */
  readonly fingerprint: string
  readonly tool: string
  /** `unknown` if the response was lost and the server may or may not have executed the call. */
  readonly state: 'executing' | 'done' | 'unknown'
  /** The gateway that made the last attempt (`Membership.id`), and the id of that attempt. */
  readonly owner: string
  readonly attempt: string
  /** When the call first started, and when the last attempt did. */
  readonly startedAt: number
  readonly attemptedAt: number
  /** Until when input responses for the server can still arrive; after that the call counts as abandoned. */
  readonly openUntil?: number
  /** When the response of the last attempt was found to be lost. */
  readonly lostAt?: number
  /** The last attempt could become a task: its server may be silent for as long as a call may take. */
  readonly canLast?: true
  readonly result?: Payload
  readonly failure?: GatewayError
}

/** A record, and the text it is stored as. */
export interface StoredCall {
  readonly record: CallRecord
  readonly text: string
}

/** The collection of all records of a caller. */
export function callCollection(principal: string): string {
  return `call:${callerHash(principal)}`
}

/** The key of a record. Idempotency keys are scoped to the principal, never to the session. */
export function callKey(principal: string, upstream: string, key: string): string {
  return `${callCollection(principal)}/${upstream}:${key}`
}

/** The record of a key, if it exists and has not expired. @throws errors of the store */
export async function findCall(store: Store, key: string): Promise<StoredCall | undefined> {
  const text = await store.get(key)
  return text === undefined ? undefined : decodeCall(text)
}

/** A record as text. Results keep their original text, so that large integers survive. */
export function encodeCall({ result, failure, ...head }: CallRecord): string {
  return withOutcome(JSON.stringify(head), { result, failure })
}

interface StoredOutcome {
  readonly result?: Payload | undefined
  readonly failure?: GatewayError | undefined
}

function withOutcome(head: string, { result, failure }: StoredOutcome): string {
  const end = result ? `,"result":${result.text}}` : failure ? `,"failure":${encodeFailure(failure)}}` : '}'
  return head.slice(0, -1) + end
}

/** How a call that was executing starts. */
export type StartedCall = Omit<CallRecord, 'result' | 'failure' | 'openUntil' | 'lostAt'>

/** The record of a call that starts. */
export function startedCall(record: StartedCall): StoredCall {
  return { record, text: JSON.stringify(record) }
}

const EXECUTING = '"state":"executing"'

/** A record of a call that was executing, and is done: its text is the one before, with the outcome. */
export function doneCall(
  { record, text }: StoredCall,
  outcome: Pick<CallRecord, 'result' | 'failure'>,
): StoredCall {
  const done: CallRecord = { ...record, ...outcome, state: 'done' }
  // A quote within a string has a backslash before it, so only the member has this text.
  const isPlain = record.state === 'executing' && !record.result && !record.failure
  if (!isPlain || !text.includes(EXECUTING)) return { record: done, text: encodeCall(done) }
  return { record: done, text: withOutcome(text.replace(EXECUTING, '"state":"done"'), outcome) }
}

const isCall = hasMembers<CallRecord>({
  string: ['fingerprint', 'tool', 'state', 'owner', 'attempt'],
  number: ['expiresAt', 'startedAt', 'attemptedAt'],
})

const states: readonly string[] = ['executing', 'done', 'unknown'] satisfies CallRecord['state'][]

/** Parses a record; undefined if the text is not one, which only another program can have written. */
export function decodeCall(text: string): StoredCall | undefined {
  const value = readJson(text)
  if (!isCall(value) || !states.includes(value.state)) return undefined
  const payload = Payload.text(text, value)
  const { result: _result, failure: _failure, openUntil, lostAt, canLast, ...head } = value
  const result = payload.at('result')
  const failed = payload.at('failure')
  const failure = failed && decodeFailure(failed)
  if (head.state === 'done' && !result && !failure) return undefined
  const record: CallRecord = {
    ...head,
    ...(typeof openUntil === 'number' && { openUntil }),
    ...(typeof lostAt === 'number' && { lostAt }),
    ...(canLast === true && { canLast }),
    ...(result && { result }),
    ...(failure && { failure }),
  }
  return { record, text }
}

export function encodeFailure({ code, message, extra }: GatewayError): string {
  const { relayed, cause: _cause, ...rest } = extra
  const text = JSON.stringify({ code, message, ...rest })
  return relayed ? `${text.slice(0, -1)},"relayed":${relayed.text}}` : text
}

export function decodeFailure(payload: Payload): GatewayError | undefined {
  const { code, message, category, field, reason, suggestion, data, details, ...rest } = payload.fields
  if (!isErrorCode(code) || typeof message !== 'string') return undefined
  const { retryAfterSeconds, isResult } = rest
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

function isText(value: unknown): value is string {
  return typeof value === 'string'
}
