/** Reads the key of a call and the fingerprint of its arguments, and words the refusals of keyed calls. */
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isoTime } from '../../core/time/waiting.ts'
import {
  extensionOf,
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  TRANSACTION_ID,
  withoutExtension,
  withoutIdempotencyKey,
  withoutTasks,
  IDEMPOTENCY_KEY,
} from '../../protocol/meta-keys.ts'
import { callKey, fingerprintOf } from '../../records/calls.ts'

/** A call that is to be made once. */
export interface KeyedRequest {
  /** Without what is for this feature alone. */
  readonly call: Call
  /** The key as the caller knows it; absent where the gateway made one. */
  readonly key?: string
  readonly tool: string
  readonly fingerprint: string
  /** Where its record is kept. */
  readonly id: string
  /** How long what came of it is remembered, in milliseconds. */
  readonly ttl: number
}

/** The name of how long a key is remembered among the values for features. */
const TTL_VALUE = 'idempotency_ttl_seconds'
/** The shortest time it can be remembered, in seconds. */
const MIN_TTL_SECONDS = 60

/** Whether a call carries anything that is for this feature. */
export function isForUs(call: Call): boolean {
  return hasIdempotencyKey(call) || hasExtension(call, TTL_VALUE)
}

/** Reads a call that carries something for this feature; nothing but the call where that is no key. @throws INVALID_INPUT */
export function readKeyed(
  given: Call,
  upstream: string,
  { ttl, longest }: { readonly ttl: number; readonly longest: number },
): KeyedRequest | Call {
  const key = hasIdempotencyKey(given) ? idempotencyKeyOf(given) : undefined
  const seconds = readTtl(given)
  const call = withoutIdempotencyKey(withoutExtension(given, TTL_VALUE))
  if (key === undefined) return call
  const wanted = seconds === undefined ? ttl : Math.max(seconds, MIN_TTL_SECONDS) * 1000
  // No key of a caller has a sign of this kind.
  const own = call.internal === undefined ? key : `~${call.internal}:${key}`
  const known = { call: withoutTasks(call), key, ttl: Math.min(wanted, longest) }
  return { ...known, ...identity(call), id: callKey(call.principal.id, upstream, own) }
}

/** A call without a key that counts as one with every equal call, for so many milliseconds. */
export function autoKeyed(call: Call, upstream: string, ttl: number): KeyedRequest {
  const known = identity(call)
  return {
    call: withoutTasks(call),
    ttl,
    ...known,
    id: callKey(call.principal.id, upstream, `~auto:${known.fingerprint}`),
  }
}

function identity(call: Call): Pick<KeyedRequest, 'tool' | 'fingerprint'> {
  const { params } = call
  const { name, arguments: given } = params.fields
  const fingerprint = fingerprintOf(String(name), given, {
    ...told(call, TRANSACTION_ID),
    ...told(call, 'step_id'),
    ...losesDigits(params.at('arguments')?.text),
  })
  return { tool: String(name), fingerprint }
}

/** A step of one transaction is no step of another one. */
function told(call: Call, name: string): Readonly<Record<string, unknown>> {
  return hasExtension(call, name) ? { [name]: extensionOf(call, name) } : {}
}

/** Whether a call is a step of a transaction. */
export function isStep(call: Call): boolean {
  return hasExtension(call, TRANSACTION_ID)
}

/** Numbers that no double holds, or not with all digits: the server gets them as they were sent. */
function losesDigits(text: string | undefined): { readonly digits?: readonly string[] } {
  if (text === undefined || !/\d{16}|\d[eE][+-]?\d{3}/.test(text)) return {}
  const digits = numbersIn(text).filter((number) => number.length > 15 || isBeyond(number))
  return digits.length > 0 ? { digits } : {}
}

/** Whether a number is larger than any double, or smaller and not zero. */
function isBeyond(number: string): boolean {
  if (!/\d[eE]/.test(number)) return false
  const value = Number(number)
  return !Number.isFinite(value) || (value === 0 && /^[^eE]*[1-9]/.test(number))
}

/** The numbers of a JSON text. Of a text as long as it likes no expression finds them: its stack has an end. */
function numbersIn(json: string): readonly string[] {
  const numbers: string[] = []
  for (let at = 0; at < json.length; at++) {
    const sign = json[at] ?? ''
    if (sign === '"') at = endOfString(json, at)
    else if (inNumber.has(sign)) {
      const start = at
      while (inNumber.has(json[at + 1] ?? '')) at++
      numbers.push(json.slice(start, at + 1))
    }
  }
  return numbers
}

const inNumber: ReadonlySet<string> = new Set('0123456789-+.eE')

/** Where a string ends that begins here. */
function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at
}

function readTtl(call: Call): number | undefined {
  const seconds = extensionOf(call, TTL_VALUE)
  if (seconds === undefined) return undefined
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds >= 0) return seconds
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${TTL_VALUE} must be a whole number of seconds.`, {
    field: TTL_VALUE,
    reason: 'type',
  })
}

/** The key belongs to another call. */
export function conflict({ key }: KeyedRequest, tool: string, startedAt: number): GatewayError {
  return new GatewayError(
    'IDEMPOTENCY_CONFLICT',
    'This idempotency key belongs to a call of another tool or with other arguments.',
    {
      field: IDEMPOTENCY_KEY,
      suggestion: 'Use a new key for a new call; keep tool and arguments the same to retry.',
      details: { ...detailsOf(key, startedAt), tool },
    },
  )
}

/** A task is answered when it is accepted: that answer says nothing of what becomes of the call. */
export function noTask(): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    'A call that is to run once, by an idempotency key or by auto_key, cannot be made as a task.',
    {
      field: 'task',
      reason: 'unsupported',
      suggestion:
        'Make the call without "task": the gateway waits for its result. Or make it as a task without an idempotency key.',
    },
  )
}

/** The call is still under way. */
export function inProgress({ key }: KeyedRequest, startedAt: number | undefined, seconds = 2): GatewayError {
  return new GatewayError(
    'IDEMPOTENCY_IN_PROGRESS',
    'The call with this idempotency key is still under way.',
    {
      retryAfterSeconds: seconds,
      suggestion: 'Make the same call with the same key again later: you get what came of it.',
      details: detailsOf(key, startedAt),
    },
  )
}

/** It is not known whether the first attempt took effect. */
export function lost({ key }: KeyedRequest, startedAt: number | undefined, why?: string): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The answer to the first attempt was lost, and this tool may do its work twice, so it was not run again.',
    {
      isUserActionable: true,
      suggestion:
        'Find out with a tool that reads whether the call took effect; if it did not, make it again with a new key.',
      details: { ...detailsOf(key, startedAt), ...(why !== undefined && { verify: why }) },
    },
  )
}

/** The answer was lost, and a read did not find yet that the call took effect: it is made again by the same key. */
export function repeatable(error: unknown): unknown {
  if (!(error instanceof GatewayError) || error.code !== 'OUTCOME_UNKNOWN') return error
  return error.with({
    isUserActionable: true,
    suggestion: 'Make the same call with the same key again: it is looked up first whether it took effect.',
  })
}

/** The caller has as many keys as it may have. */
export function exhausted(most: string, retryAfterSeconds: number | undefined): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `This caller has ${most} remembered by idempotency keys.`, {
    retryAfterSeconds,
    suggestion: 'Wait until the first of them are over, or send a shorter idempotency_ttl_seconds.',
  })
}

/** Nothing can be remembered, so nothing is done. */
export function storeAway(cause: unknown): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The call was not made: its idempotency key could not be written down.',
    { cause, isUnsent: true, suggestion: 'Try again later with the same key.' },
  )
}

/** Too much is under way. */
export function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many calls with idempotency keys are under way.', {
    isUnsent: true,
  })
}

/** The replay where there was no room for the result. */
export function notKept(): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    'The call was done, but there was no room to keep its result.',
    {
      category: 'permanent',
      isResult: true,
      suggestion: 'Do not make the call again; read what it did with another tool.',
    },
  )
}

function detailsOf(key: string | undefined, startedAt: number | undefined): Record<string, unknown> {
  return {
    ...(key !== undefined && { [IDEMPOTENCY_KEY]: key }),
    ...(startedAt !== undefined && { original_timestamp: isoTime(startedAt) }),
  }
}
