// The feature events around a server with two tools that write, and clients of it without the events extension.
import type { Call, ClientStream, Notification } from '../../src/core/call.ts'
import type { Descriptor } from '../../src/core/descriptor.ts'
import { Payload } from '../../src/core/payload.ts'
import type { Principal } from '../../src/core/principal.ts'
import { createSeal } from '../../src/core/seal.ts'
import { events } from '../../src/features/events/events.ts'
import type { FeatureInstance } from '../../src/features/feature.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { answering, fieldsOf } from './chain.ts'
import { eventSettings } from './event-settings.ts'
import { ProcessScope } from '../../src/durable/process-scope.ts'
import { featureDeps, type ServiceStubs, withTool } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { toolCall } from './tool-call.ts'

type Settings = Exclude<ReturnType<Parameters<typeof events.create>[0]>, false>

export const ada: Principal = { id: 'ada' }
export const bob: Principal = { id: 'bob' }

/** The event of the tool `add_note`. */
export const added = 'add_note.succeeded'

/** A tool of the server `one`. */
export function noteTool(name: string, op: Descriptor['classification']['op']): Descriptor {
  const inputSchema = { type: 'object', properties: { list: {}, text: {}, password: {}, n: {} } }
  const classification = { op, risk: 'safe', idempotent: op === 'read', evidence: [] } as const
  return { upstream: 'one', kind: 'tool', name, definition: { name, inputSchema }, classification }
}

const tools = [noteTool('add_note', 'write'), noteTool('drop_note', 'delete'), noteTool('list_notes', 'read')]

/** What lasts longer than one generation of the feature. */
export function eventWorld() {
  return {
    store: new MemoryStore(),
    seal: createSeal(Date.now),
    membership: featureDeps().identity.membership,
    scope: new ProcessScope(),
  }
}

/** One generation of the feature, and what its clients can do with it. */
export function eventGateway(
  world: ReturnType<typeof eventWorld>,
  given: ServiceStubs = {},
  settings: Partial<Settings> = {},
) {
  const deps = featureDeps({
    ...world,
    // Requests do not wait for gateways in other processes.
    isStoreShared: false,
    servers: () => ['one'],
    tools: async () => tools,
    entry: ({ target: { name } }) => tools.find((each) => each.name === name),
    // A server that never sends anything.
    relay: () => new Promise(() => undefined),
    ...given,
  })
  const instance = events.create(() => eventSettings(settings), deps)
  const request = async (method: string, params: Json, call: Partial<Call> = {}): Promise<Json> => {
    const target = { method, upstream: 'one', isBuiltin: true } as const
    const handle = instance.builtins?.methods?.[method]
    if (!handle) throw new TypeError(`there is no ${method}`)
    return fieldsOf(
      await handle(toolCall({ method, target, params: Payload.of(params), principal: ada, ...call })),
    )
  }
  const callTool = async (name: string, args: Json, call: Partial<Call> = {}): Promise<Json> => {
    const target = { method: 'tools/call', upstream: 'one', name, isBuiltin: true } as const
    const found = instance.builtins?.tools?.find(({ definition }) => definition.name === name)
    if (!found) throw new TypeError(`there is no ${name}`)
    const params = Payload.of({ name, arguments: args })
    return fieldsOf(await found.handle(toolCall({ target, params, principal: ada, ...call })))
  }
  const write = async (name: string, args: Json, call: Partial<Call> = {}) => {
    const target = { upstream: 'one', name, ...call.target, method: 'tools/call' }
    const middleware = withTool(instance, deps).calls?.middleware(target)
    if (!middleware) return undefined
    const params = Payload.of({ name, arguments: args })
    return middleware(answering({ content: [] }))(toolCall({ params, principal: ada, ...call, target }))
  }
  return {
    instance,
    request,
    callTool,
    write,
    add: (args: Json, call: Partial<Call> = {}) => write('add_note', args, call),
    subscribe: (params: Json, call: Partial<Call> = {}) => request('event/subscribe', params, call),
    poll: async (params: Json, call: Partial<Call> = {}): Promise<Json> => {
      const { structuredContent, isError, error } = await callTool('poll_events', params, call)
      if (isError === true) throw Object.assign(new Error('it failed'), { error })
      return structuredContent as Json
    },
  }
}

/** A session of a client of 2025-11-25 with a stream, and what it received. */
export function eventSession(principal = ada) {
  const received: { readonly method: string; readonly params: Json; readonly id: string | undefined }[] = []
  const closing = new AbortController()
  const state = { isOpen: true, drained: Promise.resolve(), principal }
  const stream: ClientStream = {
    isOpen: () => state.isOpen,
    closed: closing.signal,
    emit: ({ method, params }: Notification, id) =>
      received.push({ method, params: params?.fields ?? {}, id }),
    drained: () => state.drained,
  }
  const client = { era: 'legacy', revision: '2025-11-25', capabilities: {}, session: 's1' } as const
  const call: Partial<Call> = { client, stream, principal, presentCaller: async () => state.principal }
  const events = () =>
    received.filter(({ method }) => method === 'notifications/event').map(({ params }) => params)
  return { call, state, received, events, texts: () => textsIn(events()), close: () => closing.abort() }
}

/** The argument `text` of the calls that events report. */
export function textsIn(all: unknown): unknown[] {
  return (all as Json[]).map(({ payload }) => ((payload as Json)['arguments'] as Json)['text'])
}

/** Closes generations. */
export async function closeAll(opened: FeatureInstance[]): Promise<void> {
  await Promise.all(opened.splice(0).map(async (each) => each.close?.()))
}
