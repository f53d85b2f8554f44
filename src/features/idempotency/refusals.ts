import { GatewayError } from '../../core/error.ts'
import { isoTime } from '../../core/iso-time.ts'
import { IDEMPOTENCY_KEY } from '../../wire/extensions.ts'
import type { KeyedRequest } from './keyed.ts'

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

/** What is told in place of a result there was no room for. */
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
