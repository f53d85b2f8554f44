/**
 * Clients of the official SDKs that make calls which last: plain, with progress, and as a task. The SDK 1.x offers one
 * revision alone, so its transport writes another one into the handshake; nothing else of a client is changed.
 */
import {
  Client as NewClient,
  type JSONRPCMessage,
  StreamableHTTPClientTransport as NewHttp,
  type Transport as NewTransport,
} from '@modelcontextprotocol/client'
import { StdioClientTransport as NewStdio } from '@modelcontextprotocol/client/stdio'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { isObject, type Json, objectAt } from '../server/json.ts'
import type { Revision } from '../server/revisions.ts'
import type { Way } from './client.ts'
import { sdk1Transport } from './sdk1.ts'

/** The extension of 2026-07-28 for tasks. */
const TASKS = 'io.modelcontextprotocol/tasks'

/** A call that was made as a task: its states, oldest first, and what it came to. */
interface Followed {
  readonly taskId: string
  readonly states: readonly string[]
  readonly result: Json
}

/** A client that makes calls which last. */
export interface LastingClient {
  /** The params of every note of progress that its transport received: the client drops those that come with a response. */
  readonly received: readonly Json[]
  /** Calls a tool; with `onProgress` it asks for progress, and hears the params of every note. */
  call(name: string, args: Json, onProgress?: (params: Json) => void): Promise<Json>
  /** Calls a tool as a task and follows it to its end; absent where the revision has no tasks. */
  readonly follow?: (name: string, args: Json) => Promise<Followed>
  /** Makes any request. */
  request(method: string, params: Json): Promise<Json>
  close(): Promise<void>
}

/** A client of a revision over a transport. */
export interface LastingKind {
  readonly title: string
  readonly revision: Revision
  readonly transport: Way['transport']
  connect(way: Way): Promise<LastingClient>
}

/** The SDK 1.x with one of the revisions that have a handshake. */
export function lastingSdk1(revision: Revision, transport: Way['transport']): LastingKind {
  const title = `the SDK 1.x with ${revision} over ${transport}`
  return { title, revision, transport, connect: (way) => connectSdk1(way, revision) }
}

/** The SDK 2.x with any revision. */
export function lastingSdk2(revision: Revision, transport: 'http' | 'stdio'): LastingKind {
  const title = `the SDK 2.x with ${revision} over ${transport}`
  return { title, revision, transport, connect: (way) => connectSdk2(way, revision) }
}

async function connectSdk1(way: Way, revision: Revision): Promise<LastingClient> {
  const client = new Client({ name: 'peer', version: '1.0.0' }, { capabilities: {} })
  const transport = offering(revision, sdk1Transport(way))
  await client.connect(transport)
  const received = progressOf(transport)
  // The list says which tools can be tasks.
  await client.listTools()
  const { tasks } = client.experimental
  return {
    received,
    call: async (name, args, onProgress) => {
      const options = onProgress ? { onprogress: (params: Json) => onProgress(params) } : {}
      return { ...(await client.callTool({ name, arguments: args }, CallToolResultSchema, options)) }
    },
    ...(revision === '2025-11-25' && {
      follow: async (name: string, args: Json) => {
        const states: string[] = []
        let taskId = ''
        const options = { task: { ttl: 60_000 } }
        for await (const step of tasks.callToolStream(
          { name, arguments: args },
          CallToolResultSchema,
          options,
        )) {
          if (step.type === 'error') throw step.error
          if (step.type === 'result') return { taskId, states, result: { ...step.result } }
          ;({ taskId } = step.task)
          states.push(step.task.status)
        }
        throw new Error('the stream of the task ended without a result')
      },
    }),
    request: async (method, params) => client.request({ method, params }, z.looseObject({})),
    close: () => client.close(),
  }
}

/** The same transport, but that the handshake on it offers this revision. */
function offering(revision: Revision, transport: Transport): Transport {
  const send = transport.send.bind(transport)
  transport.send = (message, options) => {
    if (!('method' in message) || message.method !== 'initialize') return send(message, options)
    return send({ ...message, params: { ...message.params, protocolVersion: revision } }, options)
  }
  return transport
}

/** The params of every progress notification that a transport receives from now on. */
function progressOf(transport: { onmessage?: unknown }): readonly Json[] {
  const received: Json[] = []
  const { onmessage } = transport
  transport.onmessage = (message: object, ...rest: unknown[]) => {
    if ('method' in message && message.method === 'notifications/progress')
      received.push(objectAt(message, 'params'))
    if (typeof onmessage === 'function') onmessage.call(transport, message, ...rest)
  }
  return received
}

async function connectSdk2(way: Way, revision: Revision): Promise<LastingClient> {
  const isModern = revision === '2026-07-28'
  const client = new NewClient(
    { name: 'peer', version: '1.0.0' },
    isModern
      ? { versionNegotiation: { mode: { pin: revision } } }
      : { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [revision] },
  )
  const transport = newTransport(way)
  await client.connect(transport)
  const received = progressOf(transport)
  const beside = isModern ? besideClient(transport) : undefined
  return {
    received,
    call: async (name, args, onProgress) => {
      const options = onProgress ? { onprogress: (params: object) => onProgress({ ...params }) } : {}
      return { ...(await client.callTool({ name, arguments: args }, options)) }
    },
    ...(beside && { follow: (name: string, args: Json) => followTask(beside, name, args) }),
    request: (method, params) => {
      if (beside) return beside(method, params)
      throw new TypeError('the SDK 2.x makes no requests of its own in older revisions')
    },
    close: () => client.close(),
  }
}

function newTransport(way: Way): NewTransport {
  if (way.transport === 'stdio') {
    const [command = '', ...args] = way.command
    return new NewStdio({ command, args, stderr: 'ignore' })
  }
  return new NewHttp(new URL(way.url), { fetch: namingTask })
}

/** The transport of the SDK names the target of a request in `Mcp-Name`, but for the tasks of the extension. */
const namingTask: typeof fetch = (url, init) => {
  const message: unknown = typeof init?.body === 'string' ? JSON.parse(init.body) : undefined
  const { taskId } = objectAt(message, 'params')
  if (typeof taskId !== 'string') return fetch(url, init)
  const headers = new Headers(init?.headers)
  headers.set('mcp-name', taskId)
  return fetch(url, { ...init, headers })
}

type Request = (method: string, params: Json) => Promise<Json>

/**
 * Requests on the transport of a client, beside those of the client: the SDK 2.x refuses the results and the methods of the
 * extension for tasks before it sends or returns anything.
 */
function besideClient(transport: NewTransport): Request {
  const waiting = new Map<unknown, (message: Json) => void>()
  const { onmessage } = transport
  transport.onmessage = (message, extra) => {
    const own = 'id' in message ? waiting.get(message.id) : undefined
    if (own) own({ ...message })
    else if (!('method' in message) || !isOwnNote(message)) onmessage?.(message, extra)
  }
  let last = 0
  return async (method, params) => {
    const id = `beside-${++last}`
    const { promise, resolve } = Promise.withResolvers<Json>()
    waiting.set(id, resolve)
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'peer', version: '1.0.0' },
      'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } },
      ...objectAt(params, '_meta'),
    }
    await transport.send({ jsonrpc: '2.0', id, method, params: { ...params, _meta } })
    const { result, error } = await promise.finally(() => waiting.delete(id))
    if (isObject(result)) return result
    throw Object.assign(new Error(JSON.stringify(error)), { error })
  }
}

function isOwnNote(message: JSONRPCMessage): boolean {
  return 'method' in message && message.method.startsWith('notifications/tasks')
}

/** The interval at which a client requests the status of its task, in milliseconds. */
const POLL_INTERVAL_MS = 100

async function followTask(request: Request, name: string, args: Json): Promise<Followed> {
  const accepted = await request('tools/call', { name, arguments: args })
  if (accepted['resultType'] !== 'task') throw new Error(`not a task: ${JSON.stringify(accepted)}`)
  const taskId = String(accepted['taskId'])
  const states = [String(accepted['status'])]
  for (;;) {
    const task = await request('tasks/get', { taskId })
    states.push(String(task['status']))
    if (task['status'] === 'failed') throw new Error(JSON.stringify(task['error']))
    if (task['status'] !== 'working') return { taskId, states, result: objectAt(task, 'result') }
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS))
  }
}
