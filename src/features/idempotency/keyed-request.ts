/** Reads the key of a call and the fingerprint of its arguments, and defines the errors of keyed calls. */
import type { Call } from '../../core/call.ts'
import { world } from '../../core/world.ts'
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
  CAMEL_KEY,
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
  /** How its caller says that a repetition is meant to run, for messages; absent if none needs to. */
  readonly runAgain?: string | undefined
}

/** What a server's settings say about the keys of its calls. */
export interface KeyTerms {
  readonly ttl: number
  readonly maxTtl: number
  readonly runAgain?: string | undefined
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
  { ttl, maxTtl, runAgain }: KeyTerms,
): KeyedRequest | Call {
  const key = hasIdempotencyKey(given) ? idempotencyKeyOf(given) : undefined
  const seconds = hasExtension(given, TTL_VALUE) ? readTtl(given) : undefined
  const call = withoutExtension(given, TTL_VALUE, IDEMPOTENCY_KEY, CAMEL_KEY)
  if (key === undefined) return call
  const requestedTtl = seconds === undefined ? ttl : Math.max(seconds, MIN_TTL_SECONDS) * 1000
  // Keys of callers never contain `~`.
  const scopedKey = call.internal === undefined ? key : `~${call.internal}:${key}`
  const { tool, fingerprint } = identity(call)
  const id = callKey(call.principal.id, upstream, scopedKey)
  return { call, key, tool, fingerprint, id, ttl: Math.min(requestedTtl, maxTtl), runAgain }
}

/** A call without a key: equal calls within the given time, in milliseconds, count as the same call. */
export function autoKeyed(
  call: Call,
  upstream: string,
  { ttl, runAgain }: Omit<KeyTerms, 'maxTtl'>,
): KeyedRequest {
  const request = identity(call)
  return {
    call,
    ttl,
    runAgain,
    ...request,
    id: callKey(call.principal.id, upstream, `~auto:${request.fingerprint}`),
  }
}

/** The call of an operation without a key, whose first attempt was lost with its process. */
export function recovered(call: Call, upstream: string, ttl: number): KeyedRequest {
  const id = callKey(call.principal.id, upstream, `~operation:${operationSlot.of(call)?.key ?? ''}`)
  return { call, ttl, ...identity(call), id }
}

/** A repetition of a call under the record of that call. */
export function repeating(call: Call, id: string, { ttl, runAgain }: Omit<KeyTerms, 'maxTtl'>): KeyedRequest {
  return { call, ttl, runAgain, ...identity(call), id }
}

/** The store key of a new record of a lost call. */
export function lostRecord({ principal }: Call, upstream: string): string {
  return callKey(principal.id, upstream, `~lost:${world.randomUUID()}`)
}

function identity(call: Call): Pick<KeyedRequest, 'tool' | 'fingerprint'> {
  const { params } = call
  const tool = String(params.member('name'))
  const compared = comparableArguments(params.member('arguments'), referencesSlot.of(call))
  const numbers = inexactNumbers(params.at('arguments'), compared)
  // Steps of different transactions are different calls.
  const fingerprint =
    isStep(call) || hasExtension(call, 'step_id')
      ? fingerprintOf(tool, compared, {
          ...extensionField(call, TRANSACTION_ID),
          ...extensionField(call, 'step_id'),
          ...numbers,
        })
      : fingerprintOf(tool, compared, numbers)
  return { tool, fingerprint }
}

function extensionField(call: Call, name: string): Readonly<Record<string, unknown>> {
  return hasExtension(call, name) ? { [name]: extensionOf(call, name) } : {}
}

/** Equal for calls of one server with equal arguments, however they are written. */
export function fingerprintOfCall(call: Call, upstream: string): string {
  return ofServer(upstream, identity(call).fingerprint)
}

/** The fingerprint of a call of one server among those of all. */
export function ofServer(upstream: string, fingerprint: string): string {
  return `${upstream} ${fingerprint}`
}

/** Whether a call is a step of a transaction. */
export function isStep(call: Call): boolean {
  return hasExtension(call, TRANSACTION_ID)
}

/** Whether a call was ended by its deadline. */
export function isTimeout(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'OPERATION_TIMEOUT'
}

function readTtl(call: Call): number {
  const seconds = extensionOf(call, TTL_VALUE)
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
export function inProgress(
  { key }: Pick<KeyedRequest, 'key'>,
  startedAt: number | undefined,
  seconds = 2,
): GatewayError {
  return new GatewayError(
    'IDEMPOTENCY_IN_PROGRESS',
    key === undefined
      ? 'This call is still in progress: it was made before, and that answer was lost.'
      : 'The call with this idempotency key is still in progress.',
    {
      retryAfterSeconds: seconds,
      suggestion:
        key === undefined
          ? 'Repeat the same call later to get its outcome.'
          : 'Repeat the same call with the same key later to get its outcome.',
      details: detailsOf(key, startedAt),
    },
  )
}

/** It is unknown whether the first attempt took effect. */
export function outcomeLost(
  { key, runAgain }: Pick<KeyedRequest, 'key' | 'runAgain'>,
  startedAt: number | undefined,
  verifyError?: string,
): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The response to the first attempt was lost. The tool is not idempotent, so it was not retried.',
    {
      isUserActionable: true,
      suggestion: `Check with a read-only tool whether the call took effect; if it did not, repeat it ${repetition(key, runAgain)}.`,
      details: { ...detailsOf(key, startedAt), ...(verifyError !== undefined && { verify: verifyError }) },
    },
  )
}

/** How a call is repeated so that it runs. */
function repetition(key: string | undefined, runAgain: string | undefined): string {
  if (runAgain === undefined) return 'with a new key'
  return key === undefined ? `with ${runAgain}` : `with a new key and ${runAgain}`
}

/** The call ran, and neither its answer nor its outcome is there any more. */
export function answerNotKept(startedAt: number): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The call was executed before, but that answer was lost, and it was too large to keep.',
    {
      isUserActionable: true,
      suggestion: 'Do not repeat the call; read its effect with another tool.',
      details: detailsOf(undefined, startedAt),
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
