import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { metaKeys } from '../wire/extensions.ts'
import type { IndexedTool } from './tools.ts'

interface TaskOptions {
  readonly tool: IndexedTool | undefined | Promise<IndexedTool | undefined>
  readonly signal: AbortSignal
  /** Makes the call with changed params. */
  call(edit: (params: Payload) => Payload): Promise<Payload>
  /** Makes another request for the same caller, who is asked what the server asks meanwhile. */
  request(method: string, params: Payload): Promise<Payload>
  cancel(params: Payload): void
}

/** Whether a server of 2025-11-25 runs tools as tasks. */
export function takesTasks({ fields: { capabilities } }: Payload): boolean {
  const tasks = isObject(capabilities) ? capabilities.tasks : undefined
  const requests = isObject(tasks) ? tasks.requests : undefined
  return isObject(requests) && isObject(requests.tools) && isObject(requests.tools.call)
}

/**
 * Calls a tool; one that only runs as a task is run as one, and its result waited for, since the caller did not
 * ask for a task (2025-11-25 basic/utilities/tasks).
 */
export async function runAsTask({ tool, signal, call, request, cancel }: TaskOptions): Promise<Payload> {
  // A server that can not list its tools may do the call nevertheless.
  const found = await Promise.resolve(tool).catch(() => undefined)
  if (found?.isTask !== true) return call((params) => params)
  const created = await call((params) => params.with({ task: {} }))
  const taskId = created.at('task')?.fields.taskId
  if (typeof taskId !== 'string') return created
  const params = Payload.of({ taskId })
  const stop = (): void => cancel(params)
  signal.addEventListener('abort', stop, { once: true })
  try {
    const result = await request('tasks/result', params)
    // The caller knows of no task that this could be related to.
    return result.withMeta({ [metaKeys.relatedTask]: undefined })
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
