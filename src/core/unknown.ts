/** Failures of calls that name something unknown. Hidden things fail with the same words. */
import { GatewayError } from './error.ts'

/** The failure of a call of an unknown tool; a hidden tool is refused with the same words. */
export function unknownTool(name: string): GatewayError {
  return new GatewayError('UNKNOWN_TOOL', `Unknown tool${shown(name)}`, {
    field: 'name',
    reason: 'unknown',
    suggestion: 'List the tools to see which there are.',
  })
}

/** The same for a prompt, or for what is completed. */
export function unknownPrompt(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Unknown prompt or reference${shown(name)}`)
}

/** The same for a resource. */
export function unknownResource(uri: string): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found${shown(uri)}`, { data: { uri } })
}

/** The same for a task (2025-11-25 basic/utilities/tasks). */
export function unknownTask(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'Task not found', {
    field: 'taskId',
    reason: 'unknown',
    suggestion:
      'Only the caller that began a task can use it. Without authentication that is the session that began it.',
  })
}

/** A name as it may stand in a message: only where it is short and harmless. */
function shown(name: string): string {
  return /^[\w.+:/-]{1,64}$/.test(name) ? `: ${name}` : ''
}
