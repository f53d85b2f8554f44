/**
 * The table of MCP methods: where the name of the target is, whether it lists, asks or caches, and who may
 * send it.
 */
import { GatewayError } from '../core/error.ts'
/** What the gateway must know of a method of the protocol. */
interface Method {
  /** The member of `params` that names the thing it is for; mirrored in `Mcp-Name` at 2026-07-28. */
  readonly nameIn?: string
  /** The server may answer with questions (2026-07-28 basic/patterns/mrtr). */
  readonly asks?: true
  /** Its result carries `ttlMs` and `cacheScope` (2026-07-28 server/utilities/caching). */
  readonly caches?: true
  /** The list its result holds, where it is a list. */
  readonly list?: string
  /** The server capability it belongs to. */
  readonly capability?: string
  /** Which era has it, where not both. */
  readonly only?: 'legacy' | 'modern'
}

const methods: Readonly<Record<string, Method>> = {
  'server/discover': { caches: true, only: 'modern' },
  'subscriptions/listen': { only: 'modern' },
  'tools/list': { caches: true, list: 'tools', capability: 'tools' },
  'tools/call': { nameIn: 'name', asks: true, capability: 'tools' },
  'prompts/list': { caches: true, list: 'prompts', capability: 'prompts' },
  'prompts/get': { nameIn: 'name', asks: true, capability: 'prompts' },
  'resources/list': { caches: true, list: 'resources', capability: 'resources' },
  'resources/templates/list': { caches: true, list: 'resourceTemplates', capability: 'resources' },
  'resources/read': { nameIn: 'uri', asks: true, caches: true, capability: 'resources' },
  'completion/complete': { capability: 'completions' },
  initialize: { only: 'legacy' },
  ping: { only: 'legacy' },
  'logging/setLevel': { only: 'legacy' },
  'resources/subscribe': { nameIn: 'uri', only: 'legacy' },
  'resources/unsubscribe': { nameIn: 'uri', only: 'legacy' },
  'tasks/get': { nameIn: 'taskId' },
  'tasks/update': { nameIn: 'taskId', only: 'modern' },
  'tasks/cancel': { nameIn: 'taskId' },
  'tasks/result': { nameIn: 'taskId', only: 'legacy' },
  'tasks/list': { only: 'legacy' },
}

const unknown: Method = {}

/** What is known of a method; a vendor's method has no properties. */
export function method(name: string): Method {
  return Object.hasOwn(methods, name) ? (methods[name] ?? unknown) : unknown
}

/** Whether the protocol has a message of this name that a client may send for others. */
export function isProtocolMethod(name: string): boolean {
  return Object.hasOwn(methods, name) || name === rootsChanged
}

/** Whether a request is one the protocol does not have, so that a server may do anything for it. */
export function isVendorRequest(name: string): boolean {
  return !name.startsWith('notifications/') && !Object.hasOwn(methods, name)
}

/** Whether it is a method of an official extension of the protocol that the gateway may answer itself (SEP-2640). */
export function isExtensionMethod(name: string): boolean {
  return name === 'skills/list' || name === 'skills/get'
}

/** Messages that never leave the connection they arrived on. */
const local: ReadonlySet<string> = new Set([
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
])

/**
 * Whether a client's notification is passed on to servers. One that is named like a request is not: a server it
 * was made a request to would have side effects, such as restarting its session.
 */
export function isForServers(notification: string): boolean {
  return notification.startsWith('notifications/') && !local.has(notification)
}

/** What every client may tell servers: of its roots, and of tasks it has of theirs. */
export function isProtocolNotification(name: string): boolean {
  return name === rootsChanged || name === 'notifications/tasks/status'
}

/** Whether a notification tells how a task fares, in 2025-11-25 or in 2026-07-28. */
export function isTaskStatus(notification: string): boolean {
  return notification === 'notifications/tasks/status' || notification === 'notifications/tasks'
}

/** What a client tells a server that may know its roots; 2026-07-28 has it no more. */
export const rootsChanged = 'notifications/roots/list_changed'

/** The syslog levels of log messages, least severe first (RFC 5424). */
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

/** How severe a log level is, from 0, or -1 for a word that is none. */
export function severity(level: unknown): number {
  return typeof level === 'string' ? levels.indexOf(level) : -1
}

/** The name of a severity. */
export function levelOf(rank: number): string {
  return levels[rank] ?? 'emergency'
}

/** The error for a method the gateway or the server does not have. */
export function unknownMethod(name: string): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', `Method not found: ${name}`)
}

/** What a page of the gateway itself is called among methods. */
export function pageMethod(path: string): string {
  return `${PAGE_METHOD_PREFIX}${path}`
}

/** Whether it is one of those. */
export function isPage(method: string): boolean {
  return method.startsWith(PAGE_METHOD_PREFIX)
}

const PAGE_METHOD_PREFIX = 'GET '
