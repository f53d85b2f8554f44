/**
 * The table of MCP methods: where the target's name is, whether a method lists, requests input or caches, and who may
 * send it.
 */
import { GatewayError } from '../core/error.ts'
/** The properties of a protocol method. */
interface Method {
  /** The member of `params` that names its target; mirrored in `Mcp-Name` by 2026-07-28. */
  readonly nameIn?: string
  /** Published clients leave `Mcp-Name` out: it is compared only if it is sent. */
  readonly isNameOptional?: true
  /** The server may respond with input requests (2026-07-28 basic/patterns/mrtr). */
  readonly asks?: true
  /** Its result carries `ttlMs` and `cacheScope` (2026-07-28 server/utilities/caching). */
  readonly caches?: true
  /** The list member of its result, if it is a list. */
  readonly list?: string
  /** The server capability it requires. */
  readonly capability?: string
  /** The era that has it, if only one does. */
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
  'tasks/get': { nameIn: 'taskId', isNameOptional: true },
  'tasks/update': { nameIn: 'taskId', isNameOptional: true, only: 'modern' },
  'tasks/cancel': { nameIn: 'taskId', isNameOptional: true },
  'tasks/result': { nameIn: 'taskId', only: 'legacy' },
  'tasks/list': { only: 'legacy' },
}

const unknown: Method = {}

/** The properties of a method; a vendor's method has none. */
export function method(name: string): Method {
  return Object.hasOwn(methods, name) ? (methods[name] ?? unknown) : unknown
}

/** Whether the protocol has a message of this name that a client may send to servers. */
export function isProtocolMethod(name: string): boolean {
  return Object.hasOwn(methods, name) || name === rootsChanged
}

/** Whether a request is not part of the protocol, so that its effect on a server is unknown. */
export function isVendorRequest(name: string): boolean {
  return !name.startsWith('notifications/') && !Object.hasOwn(methods, name)
}

/**
 * Whether it is a method of MCP or of an extension that the gateway may answer itself: tasks (2025-11-25 and SEP-2663),
 * SEP-2631, SEP-2640, SEP-3415.
 */
export function isExtensionMethod(name: string): boolean {
  return extensionMethods.has(name)
}

const extensionMethods: ReadonlySet<string> = new Set([
  'tasks/get',
  'tasks/update',
  'tasks/cancel',
  'tasks/result',
  'tasks/list',
  'skills/list',
  'skills/get',
  'events/list',
  'events/poll',
  'events/stream',
  'events/subscribe',
  'events/unsubscribe',
  'files/authorizeUpload',
  'files/authorizeDownload',
])

/**
 * Whether a request lasts as long as its client listens: its notifications carry its id, and neither deadlines nor limits
 * of concurrent calls apply to it (2026-07-28 basic/utilities/subscriptions, SEP-3415).
 */
export function isListening(name: string): boolean {
  return name === 'subscriptions/listen' || name === 'events/stream'
}

/** The notification of the progress of a request. */
export const PROGRESS = 'notifications/progress'

/** Messages that never leave the connection they arrived on. */
const local: ReadonlySet<string> = new Set(['notifications/initialized', 'notifications/cancelled', PROGRESS])

/**
 * Whether a client's notification is forwarded to servers. A notification with the name of a request is not: a server
 * that treats it as a request would have side effects, such as restarting its session.
 */
export function isForServers(notification: string): boolean {
  return notification.startsWith('notifications/') && !local.has(notification)
}

/** Notifications every client may send to servers: about its roots, and about its tasks. */
export function isProtocolNotification(name: string): boolean {
  return name === rootsChanged || name === 'notifications/tasks/status'
}

/** Whether a notification reports the status of a task, in 2025-11-25 or 2026-07-28. */
export function isTaskStatus(notification: string): boolean {
  return notification === 'notifications/tasks/status' || notification === 'notifications/tasks'
}

/** The notification of changed roots; 2026-07-28 no longer has it. */
export const rootsChanged = 'notifications/roots/list_changed'

/** The syslog levels of log messages, least severe first (RFC 5424). */
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

/** The severity of a log level, from 0, or -1 if it is not a log level. */
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

/** The method name of a page of the gateway. */
export function pageMethod(path: string): string {
  return `${PAGE_METHOD_PREFIX}${path}`
}

/** The method name of a path over HTTP whose requests are calls. */
export function routeMethod({ verb, path }: { readonly verb: string; readonly path: string }): string {
  return `${verb} ${path}`
}

/** Whether a method name is that of a page. */
export function isPage(method: string): boolean {
  return method.startsWith(PAGE_METHOD_PREFIX)
}

const PAGE_METHOD_PREFIX = 'GET '
