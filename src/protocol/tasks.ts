/**
 * Tasks on the wire: the core feature of 2025-11-25 (basic/utilities/tasks) and the extension of 2026-07-28 (SEP-2663),
 * which say the same in different members. Reading is lenient toward servers, writing is exact.
 */
import type { Call, Client, Task, TaskStatus } from '../core/call.ts'
import { GatewayError, invalidParam } from '../core/error.ts'
import { toDouble } from '../core/json/exact-number.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { isoTime } from '../core/time/waiting.ts'
import { metaKeys } from './meta-keys.ts'
import { findRevision, tasksExtension } from '../core/revisions.ts'

/** The extension as it is declared, by clients and servers. */
export const declaredTasks: Readonly<Record<string, unknown>> = { [tasksExtension]: {} }

/** What a server of 2025-11-25 with tasks declares. */
export const legacyTaskCapabilities = { list: {}, cancel: {}, requests: { tools: { call: {} } } } as const

/** Whether a client of 2026-07-28 declared that it takes tasks. */
export function declaresTasks({ era, capabilities }: Client): boolean {
  const { extensions } = capabilities
  return era === 'modern' && isObject(extensions) && isObject(extensions[tasksExtension])
}

/** Whether the revision of a client has tasks: those of the core, or those of the extension. */
export function knowsTasks(client: Client): boolean {
  return client.era === 'modern' || hasCoreTasks(client)
}

/** Whether the revision of a client has tasks in its core: 2025-11-25. */
export function hasCoreTasks({ revision }: Client): boolean {
  return findRevision(revision)?.coreTasks === true
}

/** What a client of 2025-11-25 asks for with `task`. @throws INVALID_INPUT */
export function requestedTask({ params, client }: Call): { readonly ttl?: number } | undefined {
  const { task } = params.fields
  // The extension has no such member and says to ignore it, and older revisions have no tasks.
  if (!hasCoreTasks(client) || task === undefined || task === null) return undefined
  if (!isObject(task)) throw invalidParam('task', 'must be an object')
  if (task.ttl === undefined || task.ttl === null) return {}
  const ttl = toDouble(task.ttl)
  if (ttl === undefined || !Number.isFinite(ttl) || ttl < 0)
    throw invalidParam('task.ttl', 'must be a number of milliseconds, 0 or more')
  return { ttl: Math.floor(ttl) }
}

/** The same call without the wish for a task: the gateway alone makes tasks of calls. */
export function withoutTask(call: Call): Call {
  return call.params.fields.task === undefined
    ? call
    : { ...call, params: call.params.with({ task: undefined }) }
}

/** A task in the words of the caller's revision. */
export function taskFields(task: Task, era: Client['era']): Readonly<Record<string, unknown>> {
  const { id, status, statusMessage, createdAt, updatedAt, ttl, pollInterval } = task
  const head = {
    taskId: id,
    status,
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt: isoTime(createdAt),
    lastUpdatedAt: isoTime(updatedAt),
  }
  if (era === 'legacy') return { ...head, ttl, ...(pollInterval !== undefined && { pollInterval }) }
  return { ...head, ttlMs: ttl, ...(pollInterval !== undefined && { pollIntervalMs: pollInterval }) }
}

/** The answer to a call that goes on as a task: what its caller gets in place of the result. */
export function acceptanceOf(task: Task, era: Client['era']): Payload {
  const fields = taskFields(task, era)
  return Payload.of(era === 'legacy' ? { task: fields } : { resultType: 'task', ...fields })
}

/** The task a server answered a call with; undefined where its answer is none. `now` is in milliseconds since 1970. */
export function readAcceptance(result: Payload, era: Client['era'], now: number): Task | undefined {
  if (era === 'modern') return result.member('resultType') === 'task' ? readTask(result, now) : undefined
  const task = result.at('task')
  return task && readTask(task, now)
}

/** A task as a server describes it, in the words of either revision; undefined where it names none. */
export function readTask({ fields }: Payload, now: number): Task | undefined {
  const {
    taskId,
    status,
    statusMessage,
    ttl,
    ttlMs = ttl,
    pollInterval,
    pollIntervalMs = pollInterval,
  } = fields
  if (typeof taskId !== 'string' || taskId === '') return undefined
  const interval = durationOf(pollIntervalMs)
  return {
    id: taskId,
    status: isStatus(status) ? status : 'working',
    ...(typeof statusMessage === 'string' && { statusMessage }),
    createdAt: now,
    updatedAt: now,
    ttl: durationOf(ttlMs) ?? null,
    // Some servers count in fractions.
    ...(interval !== undefined && { pollInterval: interval }),
  }
}

/** The `_meta` that ties a message to a task (2025-11-25 basic/utilities/tasks). */
export function relatedTask(taskId: string): Readonly<Record<string, unknown>> {
  return { [metaKeys.relatedTask]: { taskId } }
}

/** The id of the task that a message of 2025-11-25 is about, if it names one. */
export function relatedTaskOf(params: Payload | undefined): string | undefined {
  const meta = params?.fields._meta
  const related = isObject(meta) ? meta[metaKeys.relatedTask] : undefined
  return isObject(related) && typeof related.taskId === 'string' ? related.taskId : undefined
}

/** Checks that a client of 2026-07-28 declared the extension (SEP-2663). @throws CAPABILITY_REQUIRED */
export function requireTasks(client: Client): void {
  if (client.era === 'legacy' || declaresTasks(client)) return
  throw new GatewayError('CAPABILITY_REQUIRED', 'This request needs a client that takes tasks.', {
    data: { requiredCapabilities: { extensions: declaredTasks } },
    suggestion: `Declare the extension ${tasksExtension} in the capabilities of the request.`,
  })
}

function isStatus(value: unknown): value is TaskStatus {
  return typeof value === 'string' && statuses.has(value)
}

const statuses: ReadonlySet<string> = new Set<TaskStatus>([
  'working',
  'input_required',
  'completed',
  'failed',
  'cancelled',
])

/** Whole milliseconds from 0; undefined for everything else. */
function durationOf(value: unknown): number | undefined {
  const size = toDouble(value) ?? -1
  return size >= 0 && Number.isFinite(size) ? Math.round(size) : undefined
}
