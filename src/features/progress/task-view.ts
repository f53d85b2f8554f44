/** An operation as a task: its status, and its inlined outcome or input requests. */
import { NS } from '../../core/identity.ts'
import type { Call, InputRequest, Task, TaskStatus } from '../../core/call.ts'
import { modernError } from '../../protocol/modern.ts'
import { GatewayError, VERIFY_EFFECT } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { encodeInputRequest } from '../../protocol/input-requests.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import { taskFields } from '../../protocol/tasks.ts'
import { isEnded, type OperationRecord } from '../../records/operations.ts'
import { stillRunning } from './notes.ts'

/** The `_meta` key of the id of an operation in its result. */
export const OPERATION_KEY = `${NS}/operation_id`

/** The interval at which clients may request the status of a task, in milliseconds. */
const POLL_INTERVAL_MS = 1000

/** The longest status message of a task, in characters. */
const MAX_STATUS_LENGTH = 1000

/** An operation as a task; `message` is the latest message of its server, if newer than the record. */
export function taskOf(id: string, record: OperationRecord, message: string | undefined): Task {
  const { startedAt, updatedAt, taskTtl } = record
  const statusMessage = messageOf(record) ?? message ?? record.message
  return {
    id,
    status: statusOf(record),
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt: startedAt,
    updatedAt,
    ttl: taskTtl ?? null,
    pollInterval: POLL_INTERVAL_MS,
  }
}

function statusOf({ state, result }: OperationRecord): TaskStatus {
  // It was executed, and its outcome was too large to keep.
  if (state === 'completed' && !result) return 'failed'
  // An unknown outcome is a failure for clients; the error explains it.
  return state === 'unknown' ? 'failed' : state
}

function messageOf({ state, result, failure }: OperationRecord): string | undefined {
  if (state === 'cancelled') return 'Cancelled by its caller. What the server had done until then stays done.'
  if (state === 'completed' && result) return undefined
  return isEnded({ state }) ? failure?.message.slice(0, MAX_STATUS_LENGTH) : undefined
}

/** A task in the format of 2025-11-25: a result that is an error makes it failed. */
export function legacyTask(task: Task, { result }: OperationRecord): Payload {
  const isFailed = task.status === 'completed' && result?.member('isError') === true
  return Payload.of(taskFields(isFailed ? { ...task, status: 'failed' } : task, 'legacy'))
}

/** A task in the format of 2026-07-28, with its outcome or its input requests (SEP-2663, DetailedTask). */
export function detailedTask(task: Task, record: OperationRecord, call: Call): Payload {
  const head = Payload.of({ resultType: 'complete', ...taskFields(task, 'modern') })
  if (task.status === 'completed') return head.with({ result: record.result })
  if (task.status === 'failed') {
    // The error names the request that failed, not the one that reads it.
    return head.with({ error: modernError(failureOfOperation(record), record.requestId) })
  }
  if (task.status !== 'input_required') return head
  const encoded = openRequests(record).map(([key, request]): [string, Payload] => {
    const { method, params } = encodeInputRequest(request, call.client)
    return [key, Payload.of({ method }).with({ params })]
  })
  return head.with({ inputRequests: Payload.of({}).with(Object.fromEntries(encoded)) })
}

/** The input requests of an operation that have no response yet, by their keys. */
export function openRequests({ input, state }: OperationRecord): readonly [string, InputRequest][] {
  if (!input || state !== 'input_required') return []
  return Object.entries(input.requests).filter(([key]) => !Object.hasOwn(input.responses, key))
}

/** Why an operation failed. */
export function failureOfOperation({ failure, state }: OperationRecord): GatewayError {
  if (failure) return failure
  return state === 'cancelled'
    ? new GatewayError('CANCELLED', 'The operation was cancelled.')
    : new GatewayError('OUTCOME_UNKNOWN', 'What became of the operation cannot be found out.', {
        suggestion: VERIFY_EFFECT,
      })
}

/** The error of an operation whose process ended and whose outcome is unknown; `cause` is why it stays unknown. */
export function interrupted(cause?: GatewayError): GatewayError {
  const message = 'The gateway went down while the call ran, so its outcome is unknown.'
  return new GatewayError('OUTCOME_UNKNOWN', message, {
    ...(cause && { cause, details: { reason: cause.code } }),
    suggestion: VERIFY_EFFECT,
  })
}

/** The error of an operation whose process ended before the call was sent, while it waited for approval. */
export function neverSent(isKeyed: boolean): GatewayError {
  const message = 'The gateway went down while the call waited for approval. The call was not run.'
  return new GatewayError('CANCELLED', message, {
    category: 'permanent',
    isUnsent: true,
    suggestion: `Make the call again${isKeyed ? ' with a new key' : ''}: it uses the approval, or waits for it.`,
  })
}

/** The result for a client whose timeout would end before the call does. */
export function stillRunningResult(id: string, age: number): Payload {
  const error = new GatewayError('OPERATION_TIMEOUT', `The call is ${stillRunning(age, undefined)}.`, {
    suggestion: `Call resume_operation with operation_id "${id}" to wait for its result. Do not make the call anew.`,
    details: { operation_id: id },
  })
  const text = `${error.message} ${error.extra.suggestion}`
  return Payload.of({
    content: [{ type: 'text', text }],
    isError: true,
    _meta: { [OPERATION_KEY]: id, [ERROR_KEY]: error.data },
  })
}
