/** A call that goes on after its request: what a server or the gateway answers while it works. */

/** Where a task stands, in the words of the specification (2025-11-25 basic/utilities/tasks, SEP-2663). */
export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A task, free of the words of one revision. Times are milliseconds since 1970. */
export interface Task {
  readonly id: string
  readonly status: TaskStatus
  readonly statusMessage?: string | undefined
  readonly createdAt: number
  readonly updatedAt: number
  /** How long it is kept from its creation on, in milliseconds; null where it has no end. */
  readonly ttl: number | null
  /** How often its status may be asked for, in milliseconds. */
  readonly pollInterval?: number | undefined
}
