/** Clients and servers for tests of tasks: the task server of the fixtures behind a gateway, and clients of both shapes. */
import { fileURLToPath } from 'node:url'
import type { ConnectOptions, Reply } from './client/options.ts'
import { until } from './condition.ts'
import type { FakeClient } from './fake-client.ts'
import { clientOf } from './journey.ts'
import { type Json, objectAt } from './server/json.ts'

/** The two shapes of tasks, by the revision that has them. */
export const shapes = ['2025-11-25', '2026-07-28'] as const
export type Shape = (typeof shapes)[number]

const TASKS = 'io.modelcontextprotocol/tasks'
const program = fileURLToPath(new URL('../fixtures/task-server/main.ts', import.meta.url))

/** The settings of the task server: `plain` knows no tasks, `core` has those of 2025-11-25, `extension` those of 2026-07-28. */
export function taskServer(mode: 'plain' | 'core' | 'extension' = 'plain', more: Json = {}): Json {
  return { command: [process.execPath, program], env: { MODE: mode }, ...more }
}

/** Tasks come early in these tests: slower than the handshake of a server, quicker than every tool that is to be a task. */
export const early: Json = { progress: { tasks: { after: '350ms' } } }

/** What a client declares that answers forms, and takes tasks where its revision has it say so. */
export function taskCapabilities(revision: string): Json {
  return { elicitation: {}, ...(revision === '2026-07-28' && { extensions: { [TASKS]: {} } }) }
}

/** A client that takes tasks and answers forms, until the test is over. */
export function taskClient(
  gateway: { readonly url: string },
  shape: Shape,
  more: Partial<ConnectOptions> = {},
): Promise<FakeClient> {
  return clientOf(gateway, { revision: shape, capabilities: taskCapabilities(shape), auto: false, ...more })
}

/** Calls a tool as a task; gives the task as it was accepted. */
export async function beginTask(
  client: FakeClient,
  name: string,
  args: Json,
  more: Json = {},
): Promise<Json> {
  const isModern = client.traits.modern
  const params = { name, arguments: args, ...(!isModern && { task: { ttl: 60_000 } }), ...more }
  const { result, text } = await client.request('tools/call', params)
  const task = isModern ? (result ?? {}) : objectAt(result, 'task')
  if (typeof task['taskId'] !== 'string') throw new Error(`not a task: ${text}`)
  return task
}

/** The methods by which a client of this shape gets at a task. */
export function taskMethods(shape: Shape): readonly string[] {
  return shape === '2026-07-28'
    ? ['tasks/get', 'tasks/update', 'tasks/cancel']
    : ['tasks/get', 'tasks/result', 'tasks/cancel']
}

/** Makes a request about a task; `more` is what its method needs besides. */
export function askOf(client: FakeClient, method: string, taskId: unknown, more: Json = {}): Promise<Reply> {
  const update = method === 'tasks/update' ? { inputResponses: {} } : {}
  return client.request(method, { taskId, ...update, ...more })
}

/** The key of the question that a task of 2026-07-28 asks; waits until it asks one. */
export function questionOf(client: FakeClient, taskId: unknown): Promise<string> {
  return until(async () => {
    const { result } = await askOf(client, 'tasks/get', taskId)
    return Object.keys(objectAt(result, 'inputRequests'))[0]
  }, 'the question')
}

/** Resumes an operation; the id of a task is that of its operation. */
export function resume(client: FakeClient, operation_id: unknown): Promise<Reply> {
  return client.request('operation/resume', { operation_id })
}

/** An error without what differs from one request to the next. */
export function refusal({ error, result, status }: Reply): Json {
  const { requestId: _requestId, ...data } = objectAt(error, 'data')
  return { status, code: error?.['code'], message: error?.['message'], data, result }
}
