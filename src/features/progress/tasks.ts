/**
 * The task methods: `tasks/get`, `tasks/update`, `tasks/cancel` of 2026-07-28 (SEP-2663), and `tasks/get`,
 * `tasks/result`, `tasks/list`, `tasks/cancel` of 2025-11-25.
 *
 * Invariant: a caller sees, answers and cancels only its own tasks; a request for the task of another caller fails in the
 * same way, and in the same time, as one for an unknown task.
 */
import type { Call, Handler, InputResponses, Outcome } from '../../core/call.ts'
import { isPermitted, otherCall } from '../own-calls.ts'
import { asToolResult } from '../../protocol/projection.ts'
import { GatewayError, invalidParam, unknownTask } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import { readInputResponse } from '../../protocol/input-requests.ts'
import { unknownMethod } from '../../protocol/methods.ts'
import { knowsTasks, relatedTask, requireTasks } from '../../protocol/tasks.ts'
import { expiryOf, isEnded, type OperationRecord, type StoredOperation } from '../../records/operations.ts'
import { answered, pageOfList } from '../builtin-tool.ts'
import { cancelled, type Deps, type OperationEngine } from './engine.ts'
import { MAX_INPUT_LENGTH } from './input.ts'
import type { Recovery } from './recovery.ts'
import { detailedTask, failureOfOperation, legacyTask, openRequests, taskOf } from './task-view.ts'

/** What answers requests about operations. */
export interface Parts {
  readonly engine: OperationEngine
  readonly recovery: Recovery
  readonly deps: Deps
}

/** The interval at which the record of another process's task is read, in milliseconds. */
const POLL_INTERVAL_MS = 500
/** How long a cancelled task is kept at least, in milliseconds. */
const KEPT_MS = 600_000
/** How many tasks a page of `tasks/list` holds. */
const PAGE_SIZE = 100

/** The handlers of the task methods, by method. */
export function taskMethods(parts: Parts): Readonly<Record<string, Handler>> {
  const methods: Readonly<Record<string, Handler>> = {
    'tasks/get': async (call) => get(call, await find(call, parts), parts),
    'tasks/update': async (call) => update(call, await find(call, parts), parts),
    'tasks/cancel': async (call) => cancel(call, await find(call, parts), parts),
    'tasks/result': async (call) => result(call, await find(call, parts), parts),
    'tasks/list': (call) => list(call, parts),
  }
  const withTasks = Object.entries(methods).map(([method, handle]) => {
    const answer: Handler = async (call) => {
      if (!knowsTasks(call.client)) throw unknownMethod(method)
      return handle(call)
    }
    return [method, answer] as const
  })
  return Object.fromEntries(withTasks)
}

/** The task that a call names, in the state it has now. @throws CAPABILITY_REQUIRED; INVALID_INPUT where it is not the caller's */
async function find(call: Call, parts: Parts): Promise<StoredOperation> {
  requireTasks(call.client)
  const { taskId } = call.params.fields
  if (typeof taskId !== 'string') throw invalidParam('taskId', 'must be a string')
  const key = parts.engine.ids.keyOf(call.principal, taskId)
  const stored = key === undefined ? undefined : await parts.recovery.find(key)
  if (!stored || !isTask(stored.record) || !(await isVisible(stored.record, call, parts.deps)))
    throw unknownTask()
  return stored
}

/** Whether the caller of an operation sees it as a task. */
export function isTask({ taskTtl }: OperationRecord): boolean {
  return taskTtl !== undefined
}

/** Whether the caller of an id may see the operation, at this address and with its present rights. */
export async function isVisible(
  record: OperationRecord,
  call: Call,
  deps: Pick<Deps, 'invoker'>,
): Promise<boolean> {
  return isInReach(record, call) && isReadable(record, call, deps)
}

/** Whether an operation exists at this address: that of one server has only its operations. Anonymous tasks belong to a session. */
function isInReach(record: OperationRecord, { client, principal, target }: Call): boolean {
  if (isTask(record) && principal.isEverybody && record.session !== client.session) return false
  return target.upstream === undefined || target.upstream === record.upstream
}

/** Whether the caller may still call the tool of an operation: rights can be lost while it runs. */
async function isReadable(
  { upstream, tool }: OperationRecord,
  call: Call,
  { invoker }: Pick<Deps, 'invoker'>,
): Promise<boolean> {
  if (!call.principal.scopes) return true
  const target = { upstream, method: 'tools/call', name: tool }
  const params = Payload.of({ name: tool, arguments: {} })
  return isPermitted({ invoker }, otherCall(call, target, params))
}

function get(call: Call, { key, record }: StoredOperation, { engine }: Parts): Outcome {
  const task = taskOf(idIn(call), record, engine.running(key)?.message)
  if (call.client.era === 'legacy') return { kind: 'result', result: legacyTask(task, record) }
  return { kind: 'result', result: detailedTask(task, record, call) }
}

/** Stores responses to input requests; ignores those to unknown or already answered requests (SEP-2663). */
async function update(call: Call, { key }: StoredOperation, { engine }: Parts): Promise<Outcome> {
  const given = call.params.at('inputResponses')
  if (!given || !isObject(given.value)) throw invalidParam('inputResponses', 'must be an object')
  await storeResponses(key, engine, ({ requests, responses: before }) => {
    const responses: Record<string, { readonly result: Payload }> = {}
    for (const [name, request] of Object.entries(requests)) {
      const response = Object.hasOwn(before, name) ? undefined : given.at(name)
      if (!response) continue
      // The first response is final: a malformed one must not be stored.
      if (!isObject(response.value)) throw malformedResponse()
      responses[name] = { result: readInputResponse(request, call.client, response) }
    }
    return responses
  })
  return answered({})
}

function malformedResponse(): GatewayError {
  const message = 'Invalid params: every one of inputResponses must be an object.'
  return new GatewayError('INVALID_INPUT', message, { field: 'inputResponses', reason: 'type' })
}

/** Cancels a task: its server may continue, but the outcome is no longer kept. */
async function cancel(call: Call, { key }: StoredOperation, { engine }: Parts): Promise<Outcome> {
  let isOver = false
  const record = await engine.journal.change(key, (before) => {
    isOver = isEnded(before)
    if (isOver) return undefined
    const { request: _request, input: _input, approval: _approval, ...rest } = before
    return { ...rest, state: 'cancelled', expiresAt: expiryOf(before, KEPT_MS) }
  })
  if (!isOver) engine.running(key)?.call.abort(cancelled())
  if (call.client.era === 'modern') return answered({})
  if (isOver || !record) {
    throw new GatewayError('INVALID_INPUT', `The task has ended: ${record?.state ?? 'expired'}.`, {
      field: 'taskId',
      reason: 'ended',
    })
  }
  return { kind: 'result', result: legacyTask(taskOf(idIn(call), record, undefined), record) }
}

/** Waits for the outcome of a task, and requests input from its client meanwhile (2025-11-25 basic/utilities/tasks). */
async function result(call: Call, first: StoredOperation, parts: Parts): Promise<Outcome> {
  const { engine, recovery } = parts
  const given = Object.entries(call.inputResponses ?? {})
  // Unanswered requests are sent again with the next request for the result.
  if (call.inputResponses)
    await storeResponses(first.key, engine, ({ requests }) =>
      Object.fromEntries(given.filter(([name]) => Object.hasOwn(requests, name))),
    )
  const meta = relatedTask(idIn(call))
  for (;;) {
    const changed = engine.running(first.key)?.changed()
    const record = (await recovery.find(first.key))?.record
    if (!record) throw unknownTask()
    if (record.state === 'completed' && record.result)
      return { kind: 'result', result: asToolResult(record.result, call).withMeta(meta) }
    if (isEnded(record)) throw failureOfOperation(record)
    const open = openRequests(record)
    if (open.length > 0) {
      const requested = open.map(([name, { method, params = Payload.of({}) }]) => {
        return [name, { method, params: params.withMeta(meta) }] as const
      })
      return { kind: 'input_required', inputRequests: Object.fromEntries(requested), requestState: {} }
    }
    await (changed ? untilAborted(changed, call.signal) : pause(POLL_INTERVAL_MS, call.signal))
  }
}

/** Stores responses to the input requests of a task; the first one to each is final. @throws PAYLOAD_TOO_LARGE */
async function storeResponses(
  key: string,
  engine: OperationEngine,
  responsesTo: (input: NonNullable<OperationRecord['input']>) => InputResponses,
): Promise<void> {
  await engine.journal.change(key, (before) => {
    const { input } = before
    if (!input || before.state !== 'input_required') return undefined
    const responses = { ...responsesTo(input), ...input.responses }
    const texts = Object.values(responses).map((each) => ('result' in each ? each.result : each.error).text)
    const actual = texts.reduce((sum, { length }) => sum + length, 0)
    if (actual > MAX_INPUT_LENGTH)
      throw new GatewayError(
        'PAYLOAD_TOO_LARGE',
        'The responses to the input requests of this task are too large.',
        { field: 'inputResponses', details: { limit: MAX_INPUT_LENGTH, actual } },
      )
    return { ...before, input: { ...input, responses } }
  })
}

/** The tasks of the caller, in pages (2025-11-25 alone). */
async function list(call: Call, { engine, deps }: Parts): Promise<Outcome> {
  if (call.params.fields.cursor === null) throw invalidParam('cursor', 'must be a string')
  const { page, ...next } = await pageOfList(call, 'tasks/list', PAGE_SIZE, async () => {
    const all = await engine.journal.operations.of(call.principal.id)
    const tasksInReach = all.filter(({ record }) => isTask(record) && isInReach(record, call))
    return readable(tasksInReach, call, deps)
  })
  const tasks = page.map(({ record }) => legacyTask(taskOf(record.id, record, undefined), record).value)
  return answered({ tasks, ...next })
}

/** The operations of tools that the caller may still call. */
async function readable(
  all: readonly StoredOperation[],
  call: Call,
  deps: Pick<Deps, 'invoker'>,
): Promise<readonly StoredOperation[]> {
  const byTool = Map.groupBy(all, ({ record: { upstream, tool } }) => `${upstream} ${tool}`)
  const kept = new Set<string>()
  for (const [name, [first]] of byTool)
    if (first && (await isReadable(first.record, call, deps))) kept.add(name)
  return all.filter(({ record: { upstream, tool } }) => kept.has(`${upstream} ${tool}`))
}

/** The id as the client knows it. */
function idIn({ params }: Call): string {
  return String(params.fields.taskId)
}
