/**
 * The types of events that a server has through the gateway: changes it notifies, changes that the
 * gateway finds, and successes of its tools that write.
 * A type of a tool exists for those who may call the tool.
 */
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { fits } from '../../core/text/pattern.ts'
import { asksFor, type SubscriptionFilter, UPDATED } from '../../protocol/subscription-filter.ts'
import type { Services } from '../feature.ts'
import type { LoggedEvent } from './server-events.ts'

type Deps = Pick<Services, 'servers' | 'invoker' | 'features'>

type Fields = Readonly<Record<string, unknown>>

/** A type of events of one server. */
export interface EventType {
  readonly upstream: string
  /** The name in the log of the server. */
  readonly name: string
  readonly description: string
  /** The arguments of a subscription: each narrows the events to those with this value. */
  readonly inputSchema: Fields
  readonly payloadSchema: Fields
  /** The tool whose successes these are. */
  readonly tool?: string
}

/** The name of the updates of a resource. */
export const RESOURCE_UPDATED = 'resource_updated'

/**
 * The name under which the log says that listening to a server began: what the server notified before may be missing. It
 * is no type of events.
 */
export const LISTENING_BEGAN = 'listening_began'

/** The types for changed lists, and the filter member with which a server notifies them. */
export const listTypes: Readonly<Record<string, keyof SubscriptionFilter>> = {
  tools_changed: 'toolsListChanged',
  prompts_changed: 'promptsListChanged',
  resources_changed: 'resourcesListChanged',
}

/** The name of the successes of a tool. */
export function successOf(tool: string): string {
  return `${tool}.succeeded`
}

/** The types of events of a server that a caller may have. @throws what listing throws */
export async function eventTypes(
  upstream: string,
  call: Call,
  deps: Deps,
  hasWrites: boolean,
): Promise<readonly EventType[]> {
  const lists = Object.keys(listTypes).map((name) => listType(upstream, name))
  const notified = isPersonal(upstream, deps) ? [] : [...lists, resourceType(upstream)]
  const changes = deps.features.isOn('contract', upstream) ? [...notified, contractType(upstream)] : notified
  if (!hasWrites) return changes
  const writing = (await deps.servers.tools(upstream)).filter(
    ({ classification, isUnlisted }) => classification.op !== 'read' && !isUnlisted,
  )
  const isPermitted = await Promise.all(
    writing.map(({ name }) => mayCall(call, { upstream, tool: name }, {}, deps)),
  )
  return [...changes, ...writing.filter((_tool, index) => isPermitted[index]).map(toolType)]
}

/** Whether each user has credentials of a server: the gateway itself has none to listen with. */
function isPersonal(upstream: string, { servers }: Deps): boolean {
  const reach = servers.settings(upstream)?.reach
  const grant = reach?.kind === 'url' ? reach.oauth?.grant : undefined
  return grant === 'authorization_code' || grant === 'token_exchange'
}

/** Whether a caller may receive an event of a type now. */
export async function mayReceive(
  { tool, upstream, name }: EventType,
  { data }: Pick<LoggedEvent, 'data'>,
  call: Call,
  deps: Deps,
): Promise<boolean> {
  if (tool !== undefined) return mayCall(call, { upstream, tool }, data.arguments, deps)
  if (name !== RESOURCE_UPDATED || typeof data.uri !== 'string') return true
  const method = 'resources/read'
  const target = { upstream, method, name: data.uri }
  return deps.invoker.isPermitted({ ...asked(call), method, target, params: Payload.of({ uri: data.uri }) })
}

/** Whether the arguments of a subscription request an event: those of a tool are compared with the arguments of its call. */
export function isRequested({ tool, name }: EventType, wanted: Fields, { data }: LoggedEvent): boolean {
  if (name === RESOURCE_UPDATED)
    return asksFor(
      { resourceSubscriptions: [String(wanted.uri)] },
      { method: UPDATED, params: Payload.of(data) },
    )
  const given = tool === undefined ? data : data.arguments
  const fields = isObject(given) ? given : {}
  return Object.entries(wanted).every(([field, value]) => {
    const actual = Object.hasOwn(fields, field) ? fields[field] : undefined
    return [value].flat().some((each) => isMatch(each, actual))
  })
}

/** Whether events of a type may be missing before an entry of the log. */
export function isGapOf({ name }: EventType, wanted: Fields, entry: LoggedEvent): boolean {
  if (entry.name !== LISTENING_BEGAN) return false
  const { uri } = entry.data
  return uri === undefined ? Object.hasOwn(listTypes, name) : name === RESOURCE_UPDATED && uri === wanted.uri
}

function isMatch(wanted: unknown, actual: unknown): boolean {
  if (typeof wanted === 'string' && typeof actual === 'string') return fits(wanted, actual)
  return wanted === actual
}

function mayCall(
  call: Call,
  { upstream, tool }: { readonly upstream: string; readonly tool: string },
  given: unknown,
  { invoker }: Deps,
): Promise<boolean> {
  const method = 'tools/call'
  const params = Payload.of({ name: tool, arguments: isObject(given) ? given : {} })
  return invoker.isPermitted({ ...asked(call), method, target: { upstream, method, name: tool }, params })
}

/** What a check of permissions needs of a call: not the members that belong to its method. */
function asked(call: Call): Call {
  const { inputResponses: _responses, ...rest } = call
  return { ...rest, emit: () => undefined }
}

function listType(upstream: string, name: string): EventType {
  const list = name.slice(0, name.indexOf('_'))
  return {
    upstream,
    name,
    description: `The server's list of ${list} has changed.`,
    inputSchema: { type: 'object', additionalProperties: false },
    payloadSchema: { type: 'object' },
  }
}

function resourceType(upstream: string): EventType {
  const uri = { type: 'string', description: 'The URI of the resource.' }
  return {
    upstream,
    name: RESOURCE_UPDATED,
    description: 'A resource was updated.',
    inputSchema: { type: 'object', properties: { uri }, required: ['uri'], additionalProperties: false },
    payloadSchema: { type: 'object', properties: { uri }, required: ['uri'] },
  }
}

function contractType(upstream: string): EventType {
  const version = { type: 'string', description: 'A version of what the server offers.' }
  return {
    upstream,
    name: 'contract_changed',
    description:
      'What the server offers has changed in a way that clients can notice, and has another version.',
    inputSchema: { type: 'object', additionalProperties: false },
    payloadSchema: {
      type: 'object',
      properties: { before: version, after: version },
      required: ['before', 'after'],
    },
  }
}

function toolType({ upstream, name, definition }: Descriptor): EventType {
  const { inputSchema } = definition
  const properties = isObject(inputSchema) && isObject(inputSchema.properties) ? inputSchema.properties : {}
  const filters = Object.keys(properties).map((field) => {
    return [field, { description: 'A value, or a list of values; * in a text stands for any text.' }] as const
  })
  return {
    upstream,
    name: successOf(name),
    description: `The tool ${name} was called through the gateway, and succeeded.`,
    inputSchema: { type: 'object', properties: Object.fromEntries(filters), additionalProperties: false },
    payloadSchema: {
      type: 'object',
      properties: {
        tool: { type: 'string' },
        arguments: {
          type: 'object',
          description: 'The arguments of the call, without secrets and masked data.',
        },
        omitted: {
          type: 'array',
          items: { type: 'string' },
          description: 'The arguments that are too long.',
        },
      },
      required: ['tool', 'arguments'],
    },
    tool: name,
  }
}
