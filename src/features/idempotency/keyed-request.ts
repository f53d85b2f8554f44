/** Reads the key of a call and the fingerprint of its arguments, and defines the errors of keyed calls. */
import type { Call } from '../../core/call.ts'
import { operationSlot } from '../../records/operations.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { comparableArguments, referencesSlot } from '../../core/used-reference.ts'
import {
  extensionOf,
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  TRANSACTION_ID,
  withoutExtension,
  withoutIdempotencyKey,
  IDEMPOTENCY_KEY,
} from '../../protocol/meta-keys.ts'
import { callKey } from '../../records/calls.ts'
import { fingerprintOf, inexactNumbers } from '../../records/fingerprint.ts'

/** A call to be executed once. */
export interface KeyedRequest {
  /** Without the values of this feature. */
  readonly call: Call
  /** The caller's key; absent if the gateway generated one. */
  readonly key?: string
  readonly tool: string
  readonly fingerprint: string
  /** The store key of its record. */
  readonly id: string
  /** How long its outcome is remembered, in milliseconds. */
  readonly ttl: number
}

/** The name of the TTL among the values for features. */
const TTL_VALUE = 'idempotency_ttl_seconds'
/** The shortest TTL, in seconds. */
const MIN_TTL_SECONDS = 60

/** Whether a call carries any value for this feature. */
export function hasIdempotencyValues(call: Call): boolean {
  return hasIdempotencyKey(call) || hasExtension(call, TTL_VALUE)
}

/** Reads the values of this feature; returns just the call if there is no key. @throws INVALID_INPUT */
export function readKeyed(
  given: Call,
  upstream: string,
  { ttl, maxTtl }: { readonly ttl: number; readonly maxTtl: number },
): KeyedRequest | Call {
  const key = hasIdempotencyKey(given) ? idempotencyKeyOf(given) : undefined
  const seconds = readTtl(given)
  const call = withoutIdempotencyKey(withoutExtension(given, TTL_VALUE))
  if (key === undefined) return call
  const requestedTtl = seconds === undefined ? ttl : Math.max(seconds, MIN_TTL_SECONDS) * 1000
  // Keys of callers never contain `~`.
  const scopedKey = call.internal === undefined ? key : `~${call.internal}:${key}`
  const request = { call, key, ttl: Math.min(requestedTtl, maxTtl) }
  return { ...request, ...identity(call), id: callKey(call.principal.id, upstream, scopedKey) }
}

/** A call without a key: equal calls within the given time, in milliseconds, count as the same call. */
export function autoKeyed(call: Call, upstream: string, ttl: number): KeyedRequest {
  const request = identity(call)
  return {
    call,
    ttl,
    ...request,
    id: callKey(call.principal.id, upstream, `~auto:${request.fingerprint}`),
  }
}

/** The call of an operation without a key, whose first attempt was lost with its process. */
export function recovered(call: Call, upstream: string, ttl: number): KeyedRequest {
  const id = callKey(call.principal.id, upstream, `~operation:${operationSlot.of(call)?.key ?? ''}`)
  return { call, ttl, ...identity(call), id }
}

function identity(call: Call): Pick<KeyedRequest, 'tool' | 'fingerprint'> {
  const { params } = call
  const { name, arguments: given } = params.fields
  const compared = comparableArguments(given, referencesSlot.of(call))
  const fingerprint = fingerprintOf(String(name), compared, {
    ...extensionField(call, TRANSACTION_ID),
    ...extensionField(call, 'step_id'),
    ...inexactNumbers(params.at('arguments'), compared),
  })
  return { tool: String(name), fingerprint }
}

/** Steps of different transactions are different calls. */
function extensionField(call: Call, name: string): Readonly<Record<string, unknown>> {
  return hasExtension(call, name) ? { [name]: extensionOf(call, name) } : {}
}

/** Whether a call is a step of a transaction. */
export function isStep(call: Call): boolean {
  return hasExtension(call, TRANSACTION_ID)
}

function readTtl(call: Call): number | undefined {
  const seconds = extensionOf(call, TTL_VALUE)
  if (seconds === undefined) return undefined
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds >= 0) return seconds
  throw invalidParam(TTL_VALUE, 'must be a whole number of seconds')
}

/** The key belongs to a different call. */
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

/** The call is still in flight. */
export function inProgress({ key }: KeyedRequest, startedAt: number | undefined, seconds = 2): GatewayError {
  return new GatewayError(
    'IDEMPOTENCY_IN_PROGRESS',
    'The call with this idempotency key is still in progress.',
    {
      retryAfterSeconds: seconds,
      suggestion: 'Repeat the same call with the same key later to get its outcome.',
      details: detailsOf(key, startedAt),
    },
  )
}

/** It is unknown whether the first attempt took effect. */
export function outcomeLost(
  { key }: KeyedRequest,
  startedAt: number | undefined,
  verifyError?: string,
): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The response to the first attempt was lost. The tool is not idempotent, so it was not retried.',
    {
      isUserActionable: true,
      suggestion:
        'Check with a read-only tool whether the call took effect; if it did not, repeat it with a new key.',
      details: { ...detailsOf(key, startedAt), ...(verifyError !== undefined && { verify: verifyError }) },
    },
  )
}

/** The response was lost, and a read has not found an effect so far: it can be repeated with the same key. */
export function repeatable(error: unknown): unknown {
  if (!(error instanceof GatewayError) || error.code !== 'OUTCOME_UNKNOWN') return error
  return error.with({
    isUserActionable: true,
    suggestion: 'Repeat the same call with the same key: the gateway first checks whether it took effect.',
  })
}

/** The caller has reached its limit of keys. */
export function exhausted(limit: string, retryAfterSeconds: number | undefined): GatewayError {
  return new GatewayError(
    'QUOTA_EXHAUSTED',
    `This caller has reached its limit of ${limit} remembered for idempotency keys.`,
    {
      retryAfterSeconds,
      suggestion: 'Wait until the first keys expire, or send a shorter idempotency_ttl_seconds.',
    },
  )
}

/** Keyed calls are not executed if they cannot be recorded. */
export function storeUnavailable(cause: unknown): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The call was not made: its idempotency key could not be recorded.',
    { cause, isUnsent: true, suggestion: 'Try again later with the same key.' },
  )
}

/** Too many calls are in flight. */
export function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many calls with idempotency keys are in progress.', {
    isUnsent: true,
  })
}

/** The replay of a call whose result was too large to keep. */
export function resultNotKept(): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    'The call was executed, but its result was too large to keep.',
    {
      category: 'permanent',
      isResult: true,
      suggestion: 'Do not repeat the call; read its effect with another tool.',
    },
  )
}

function detailsOf(key: string | undefined, startedAt: number | undefined): Record<string, unknown> {
  return {
    ...(key !== undefined && { [IDEMPOTENCY_KEY]: key }),
    ...(startedAt !== undefined && { original_timestamp: isoTime(startedAt) }),
  }
}
