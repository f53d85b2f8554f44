import type { Payload } from './payload.ts'

/** Whether a result is what a tool or a resource says, and neither a failure nor a task that goes on. */
export function isAnswer(result: Payload): boolean {
  if (result.member('isError') === true || result.member('task') !== undefined) return false
  const type = result.member('resultType')
  return type === undefined || type === 'complete'
}
