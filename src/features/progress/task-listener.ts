/**
 * Status notifications of tasks, for clients that listen: of the tasks that they name, which may run in any of the processes that
 * share the store, or of the tasks of their session (2025-11-25).
 *
 * Invariant: whoever names a task is notified of its last state in any case, and of no state twice. States between may be left
 * out where the task runs in another process.
 */
import type { Call, Handler, Notification, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { ACKNOWLEDGED, withFilter } from '../../protocol/subscription-filter.ts'
import { requireTasks } from '../../protocol/tasks.ts'
import { isEnded, type OperationRecord } from '../../records/operations.ts'
import { detailedTask, legacyTask, taskOf } from './task-view.ts'
import { isTask, isVisible, type Parts } from './tasks.ts'

/** The maximum number of tasks that one listener can name. */
const MAX_LISTENED_TASKS = 1000

type Tasks = Pick<Parts, 'engine' | 'deps'>

/** Adds status notifications of tasks to a subscription. */
export async function listenToTasks(call: Call, next: Handler, tasks: Tasks): Promise<Outcome> {
  if (call.client.era === 'legacy') return listenToSession(call, next, tasks)
  const requested = taskIdsIn(call)
  return requested.length === 0 ? next(call) : listenToNamed(call, next, { ...tasks, requested })
}

/** Listens to the tasks that a session creates in this process, where its stream is too. */
async function listenToSession(call: Call, next: Handler, { engine }: Tasks): Promise<Outcome> {
  const { principal, client } = call
  const stop = engine.journal.observe((key, record) => {
    const running = engine.running(key)
    const isOwn =
      running?.call.principal.id === principal.id && running.call.client.session === client.session
    if (isOwn && isTask(record) && running.operation)
      call.emit(statusNote(running.operation.id, record, call))
  })
  try {
    return await next(call)
  } finally {
    stop()
  }
}

/** Listens to the tasks of the caller among those that it named. */
async function listenToNamed(
  call: Call,
  next: Handler,
  { engine, deps, requested }: Tasks & { readonly requested: readonly string[] },
): Promise<Outcome> {
  const ids: string[] = []
  const ends: (() => void)[] = []
  // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
  let early: Notification[] | undefined = []
  try {
    for (const id of requested) {
      const key = engine.ids.keyOf(call.principal, id)
      const stored = key === undefined ? undefined : await engine.journal.operations.find(key)
      if (key === undefined || !stored || !isTask(stored.record)) continue
      if (!(await isVisible(stored.record, call, deps))) continue
      ids.push(id)
      let known = stored.record
      const end = engine.journal.follow(key, (record) => {
        if (!isNews(record, known)) return
        known = record
        const note = statusNote(id, record, call)
        if (early) early.push(note)
        else call.emit(note)
      })
      ends.push(end)
    }
    const emit = (note: Notification): void => {
      if (note.method !== ACKNOWLEDGED) return call.emit(note)
      call.emit(ids.length === 0 ? note : { ...note, params: withFilter(note.params, { taskIds: ids }) })
      for (const each of early ?? []) call.emit(each)
      early = undefined
    }
    return await next({ ...call, params: withFilter(call.params, { taskIds: undefined }), emit })
  } finally {
    for (const end of ends) end()
  }
}

/** Whether a record is later than the one that a listener knows. What was read may be older, and clocks differ between processes. */
function isNews(record: OperationRecord, known: OperationRecord): boolean {
  if (isEnded(known) || (record.state === known.state && record.updatedAt === known.updatedAt)) return false
  return isEnded(record) || record.updatedAt >= known.updatedAt
}

/** @throws CAPABILITY_REQUIRED, INVALID_INPUT */
function taskIdsIn(call: Call): readonly string[] {
  const requested = call.params.at('notifications')?.fields.taskIds
  if (requested === undefined) return []
  requireTasks(call.client)
  if (
    !Array.isArray(requested) ||
    requested.length > MAX_LISTENED_TASKS ||
    !requested.every((id) => typeof id === 'string')
  ) {
    throw new GatewayError('INVALID_INPUT', `taskIds must be a list of at most ${MAX_LISTENED_TASKS} ids.`, {
      field: 'notifications.taskIds',
    })
  }
  return requested
}

/** A status notification of a task, in the format of its listener's revision. */
function statusNote(id: string, record: OperationRecord, call: Call): Notification {
  const task = taskOf(id, record, undefined)
  if (call.client.era === 'modern') {
    const params = detailedTask(task, record, call).with({ resultType: undefined })
    return { method: 'notifications/tasks', params }
  }
  return { method: 'notifications/tasks/status', params: legacyTask(task, record) }
}
