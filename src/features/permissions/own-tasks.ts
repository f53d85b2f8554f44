/**
 * Keeps tasks to those who began them: another caller's task is refused with the words for one that does not exist, and
 * is left out of lists and notifications. So are tasks the gateway began for itself. It holds whatever is configured,
 * since a server that sees all callers as one cannot tell them apart (2025-11-25 basic/utilities/tasks, SEP-2663).
 */
import type { Call, Handler, Notification, Outcome, Middleware, Target } from '../../core/call.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { unknownTask } from '../../core/unknown.ts'
import type { TaskOwners } from '../../records/task-owners.ts'
import { acceptedTask, mayBeginTask } from '../../protocol/meta-keys.ts'
import { isTaskStatus } from '../../protocol/methods.ts'

/** What is done about tasks in the calls of a target; nothing where they have none. */
export function ownTasks(
  { method, upstream, isBuiltin: isOwn }: Target,
  owners: TaskOwners,
  log: Log,
): Middleware | undefined {
  if (upstream === undefined || isOwn) return undefined
  switch (method) {
    case 'tools/call':
      return (next) => (call) =>
        mayBeginTask(call)
          ? next(call).then((outcome) => recordOwner(call, outcome, { owners, log }))
          : next(call)
    case 'tasks/list':
      return (next) => async (call) => filterTasks(call, await next(call), owners)
    case 'subscriptions/listen':
      return (next) => (call) =>
        next({ ...call, emit: (note) => forwardOwnStatus(note, call, { owners, log }) })
    default:
      return method.startsWith('tasks/') ? (next) => (call) => refuseUnlessOwn(call, next, owners) : undefined
  }
}

interface Dependencies {
  readonly owners: TaskOwners
  readonly log: Log
}

/** Has the caller own the task it was answered with, before it hears of it. */
async function recordOwner(call: Call, outcome: Outcome, { owners, log }: Dependencies): Promise<Outcome> {
  const task = outcome.kind === 'result' ? acceptedTask(outcome.result) : undefined
  if (!task) return outcome
  try {
    await owners.put(call, task.id, task.ttlMs)
  } catch (error) {
    // The server works on the task already, so its id must not be lost. This process still knows whose it is.
    log.warn('task.owner_not_kept', { error: String(error) })
  }
  return outcome
}

async function refuseUnlessOwn(call: Call, next: Handler, owners: TaskOwners): Promise<Outcome> {
  const { taskId } = call.params.fields
  if (typeof taskId !== 'string' || !(await owners.isOwn(call, taskId))) throw unknownTask()
  return next(call)
}

async function filterTasks(call: Call, outcome: Outcome, owners: TaskOwners): Promise<Outcome> {
  if (outcome.kind !== 'result') return outcome
  const { tasks } = outcome.result.fields
  if (!Array.isArray(tasks)) return outcome
  const entries = outcome.result.at('tasks')?.items ?? []
  const own = await Promise.all(
    entries.map(async ({ fields: { taskId } }) => typeof taskId === 'string' && owners.isOwn(call, taskId)),
  )
  const kept = entries.filter((_entry, index) => own[index])
  return kept.length === entries.length
    ? outcome
    : {
        kind: 'result',
        result: outcome.result.with({ tasks: Payload.text(`[${kept.map(({ text }) => text).join(',')}]`) }),
      }
}

/** Passes a notification on, unless it is about a task of another caller. */
function forwardOwnStatus(note: Notification, call: Call, { owners, log }: Dependencies): void {
  if (!isTaskStatus(note.method)) return call.emit(note)
  const taskId = note.params?.fields.taskId
  if (typeof taskId !== 'string') return
  const pass = (isOwn: boolean): void => {
    if (isOwn) call.emit(note)
  }
  const isOwn = owners.isOwn(call, taskId)
  if (isOwn instanceof Promise) background(isOwn.then(pass), log)
  else pass(isOwn)
}
