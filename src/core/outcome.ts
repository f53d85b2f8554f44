/** What results and failures mean: answers, accepted tasks, refusals of the gateway. */
import { GatewayError } from './error.ts'
import type { Payload } from './payload.ts'

/** Whether a result is what a tool or a resource says, and neither a failure nor a task that goes on. */
export function isAnswer(result: Payload): boolean {
  if (result.member('isError') === true || isTaskAccepted(result)) return false
  const type = result.member('resultType')
  return type === undefined || type === 'complete'
}

/** Whether a result only says that a task was begun, not what the call came to. */
export function isTaskAccepted(result: Payload): boolean {
  return result.member('task') !== undefined || result.member('resultType') === 'task'
}

/**
 * Tells failures of the gateway's own, before anything was sent to a server, from all others. What is neither known
 * to be answered by a server nor possibly lost on the way is a refusal; a new code counts as one until it is named here.
 */

/** Codes of what a server answered, or of what became of its answer on the way back. */
const answered: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'PAYLOAD_TOO_LARGE'])

/** Codes of calls that may have reached their server. */
const doubtful: ReadonlySet<string> = new Set([
  'OUTCOME_UNKNOWN',
  'OPERATION_TIMEOUT',
  'CANCELLED',
  'SLOW_CLIENT',
  'SERVER_UNAVAILABLE',
  'SERVER_ERROR',
  'OVERLOADED',
  'TOO_MANY_ROUNDS',
  'SESSION_NOT_FOUND',
])

/** Whether a code is that of a call its server answered. */
export function isAnsweredCode(code: string): boolean {
  return answered.has(code)
}

/** Whether the gateway itself refused a call, so that its server never heard of it. */
export function isGatewayRefusal(thrown: unknown): thrown is GatewayError {
  if (!(thrown instanceof GatewayError)) return false
  const { code, extra } = thrown
  if (extra.relayed || extra.details?.http_status !== undefined) return false
  return !answered.has(code) && !doubtful.has(code)
}
