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
