/**
 * Calls that servers answer with a task. A caller above that follows tasks gets the task, and continues the same call with
 * the state it came with; for every other caller the task is followed here, so that it looks like a plain call.
 */
import { acceptsTaskSlot } from '../../core/slot.ts'
import { tasksExtension } from '../../core/revisions.ts'
import { world } from '../../core/world.ts'
import { type Call, type Outcome, type RequestState, SERVER_TASK_KEY, type Task } from '../../core/call.ts'
import { GatewayError, VERIFY_EFFECT } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { pause } from '../../core/time/waiting.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { readAcceptance, readTask } from '../../protocol/tasks.ts'
import type { ListedTool } from '../../protocol/found-tool.ts'

/** How often a server is asked for the status of a task: at most, and where the server does not say, in milliseconds. */
const MIN_POLL_INTERVAL_MS = 250
const POLL_INTERVAL_MS = 1000

/** The task of the server that a call continues; undefined where the call is new. */
export function continuedTask({ requestState }: Call): string | undefined {
  const state = requestState[SERVER_TASK_KEY]
  return isObject(state) && typeof state.id === 'string' ? state.id : undefined
}

/** What continues a task, in the state of its call. */
export function taskState({ id, pollInterval }: Pick<Task, 'id' | 'pollInterval'>): RequestState {
  return { [SERVER_TASK_KEY]: { id, ...(pollInterval !== undefined && { pollInterval }) } }
}

/** How often the server of a continued task may be asked for its status, in milliseconds. */
function continuedInterval({ requestState }: Call): number {
  const state = requestState[SERVER_TASK_KEY]
  const interval = isObject(state) ? state.pollInterval : undefined
  return typeof interval === 'number' ? interval : MIN_POLL_INTERVAL_MS
}

/** The task of a call in its state, for outcomes that come before its end. */
export function keptTaskState({ requestState }: Call): RequestState {
  const state = requestState[SERVER_TASK_KEY]
  return state === undefined ? {} : { [SERVER_TASK_KEY]: state }
}

/** Requests about one call to its server. */
interface Requests {
  readonly signal: AbortSignal
  /** Makes the call with changed params. */
  call(edit: (params: Payload) => Payload): Promise<Payload>
  /** Makes another request for the same caller, who gets the server's input requests. */
  request(method: string, params: Payload): Promise<Payload>
  /** Sends a request whose response nothing waits for. */
  send(method: string, params: Payload): void
}

/** A call of a tool at a server of 2025-11-25 that runs tools as tasks (basic/utilities/tasks). */
export async function callLegacyTool(
  call: Call,
  tool: ListedTool | undefined | Promise<ListedTool | undefined>,
  requests: Requests,
): Promise<Outcome> {
  const continued = continuedTask(call)
  if (continued !== undefined) return followLegacy(continued, requests)
  // A server that cannot list its tools may still run the call.
  const support = (await Promise.resolve(tool).catch(() => undefined))?.taskSupport
  const asTask = support === 'required' || (support === 'optional' && acceptsTaskSlot.of(call) === true)
  if (!asTask) return { kind: 'result', result: await requests.call((params) => params) }
  const created = await requests.call((params) => params.with({ task: {} }))
  const task = readAcceptance(created, 'legacy', world.now())
  if (!task) return { kind: 'result', result: created }
  if (acceptsTaskSlot.of(call)) return { kind: 'task', task, requestState: taskState(task) }
  return followLegacy(task.id, requests)
}

/** The result of a task: its server answers `tasks/result` once there is one. */
async function followLegacy(taskId: string, { signal, request, send }: Requests): Promise<Outcome> {
  const params = Payload.of({ taskId })
  return cancelling(
    signal,
    () => send('tasks/cancel', params),
    async () => {
      const result = await request('tasks/result', params).catch(async (error: unknown) => {
        // The task may have failed with this error, or its server may not know it any more.
        if (isRefused(error)) await askOf(request, 'tasks/get', params)
        throw error
      })
      // The caller knows no task this could refer to.
      return { kind: 'result', result: result.withMeta({ [metaKeys.relatedTask]: undefined }) }
    },
  )
}

/** Whether a server of 2026-07-28 refuses a call because it only runs it as a task. */
export function needsTasks({ rpc, extra: { relayed } }: GatewayError): boolean {
  const data = rpc === -32021 ? relayed?.fields.data : undefined
  const required = isObject(data) ? data.requiredCapabilities : undefined
  const extensions = isObject(required) ? required.extensions : undefined
  return isObject(extensions) && extensions[tasksExtension] !== undefined
}

/** The response of a server of 2026-07-28 to a call: its result, or what the task comes to (SEP-2663). */
export function afterModernCall(
  call: Call,
  result: Payload,
  requests: Omit<Requests, 'call'>,
): Outcome | Promise<Outcome> {
  const task = readAcceptance(result, 'modern', world.now())
  if (!task) return { kind: 'result', result }
  if (acceptsTaskSlot.of(call)) return { kind: 'task', task, requestState: taskState(task) }
  return followModern(call, task, requests)
}

/** Continues the task of a call, with the input responses that its caller brings. */
export async function continueModern(
  call: Call,
  id: string,
  requests: Omit<Requests, 'call'>,
): Promise<Outcome> {
  // The responses go with the request like those of any other call.
  if (call.inputResponses && Object.keys(call.inputResponses).length > 0)
    await askOf(requests.request, 'tasks/update', Payload.of({ taskId: id }))
  return followModern(call, { id, pollInterval: continuedInterval(call) }, requests)
}

/** Asks for the status of a task until it ends or needs input. @throws what it failed with */
function followModern(
  call: Call,
  { id, ...first }: Pick<Task, 'id' | 'pollInterval'>,
  { signal, request, send }: Omit<Requests, 'call'>,
): Promise<Outcome> {
  const params = Payload.of({ taskId: id })
  return cancelling(
    signal,
    () => send('tasks/cancel', params),
    async () => {
      for (let interval = first.pollInterval; ;) {
        await pause(Math.max(interval ?? POLL_INTERVAL_MS, MIN_POLL_INTERVAL_MS), signal)
        const got = await askOf(request, 'tasks/get', params)
        const ended = endOf(call, got)
        if (ended) return ended
        interval = readTask(got, world.now())?.pollInterval
      }
    },
  )
}

/** The response to a request about a task. @throws OUTCOME_UNKNOWN if its server does not know it any more */
async function askOf(
  request: Requests['request'],
  method: 'tasks/get' | 'tasks/update',
  params: Payload,
): Promise<Payload> {
  try {
    return await request(method, params)
  } catch (cause) {
    if (!isRefused(cause)) throw cause
    throw new GatewayError('OUTCOME_UNKNOWN', 'The server does not know the task of this call any more.', {
      cause,
      suggestion: VERIFY_EFFECT,
    })
  }
}

/** Whether a server responded to a request with an error. */
function isRefused(error: unknown): boolean {
  return error instanceof GatewayError && error.extra.relayed !== undefined
}

/** How a task ended, or what it needs; undefined while its server works. @throws what it failed with */
function endOf(call: Call, got: Payload): Outcome | undefined {
  const { status, inputRequests } = got.fields
  const result = got.at('result')
  if (status === 'completed') {
    if (!result) throw new GatewayError('UPSTREAM_ERROR', 'The server completed the task without a result.')
    return { kind: 'result', result }
  }
  if (status === 'failed') {
    const relayed = got.at('error')
    const { message } = relayed?.fields ?? {}
    throw new GatewayError('UPSTREAM_ERROR', typeof message === 'string' ? message : 'The task failed.', {
      ...(relayed && { relayed }),
    })
  }
  if (status === 'cancelled') throw new GatewayError('UPSTREAM_ERROR', 'The server cancelled the task.')
  if (status !== 'input_required' || !isObject(inputRequests)) return undefined
  const requests = got.at('inputRequests')
  // The server may not have read the responses yet; a task uses no key twice.
  const answered = continuedTask(call) === undefined ? {} : (call.inputResponses ?? {})
  const asked = Object.entries(inputRequests).flatMap(([key, value]) => {
    if (!isObject(value) || typeof value.method !== 'string') return []
    if (Object.hasOwn(answered, key)) return []
    const params = requests?.at(key)?.at('params')
    return [[key, { method: value.method, ...(params && { params }) }] as const]
  })
  if (asked.length === 0) return undefined
  return {
    kind: 'input_required',
    inputRequests: Object.fromEntries(asked),
    requestState: keptTaskState(call),
    isOpen: true,
  }
}

/** Runs what follows a task; where that is aborted, the server is asked to cancel it. */
async function cancelling<Value>(
  signal: AbortSignal,
  cancel: () => void,
  follow: () => Promise<Value>,
): Promise<Value> {
  // It can be aborted between the response that named the task and the call that continues it.
  if (signal.aborted) cancel()
  signal.throwIfAborted()
  signal.addEventListener('abort', cancel, { once: true })
  try {
    return await follow()
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}
