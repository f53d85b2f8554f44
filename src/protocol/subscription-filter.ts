/** Filters of `subscriptions/listen` (2026-07-28): which notifications a listener requested. */
import type { Notification } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'

/** The notifications a client requests, as in `subscriptions/listen`. */
export interface SubscriptionFilter {
  readonly toolsListChanged?: boolean
  readonly promptsListChanged?: boolean
  readonly resourcesListChanged?: boolean
  /** Changes of the types of events (SEP-3415). */
  readonly eventsListChanged?: boolean
  readonly resourceSubscriptions?: readonly string[]
}

/** The first message of a subscription: the accepted part of the filter. */
export const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

/** The accepted filter in an acknowledgement. */
export function readFilter(params: Payload | undefined): SubscriptionFilter {
  const notifications = params?.fields.notifications
  if (!isObject(notifications)) return {}
  const uris = notifications.resourceSubscriptions
  const requested = Object.values(changes).filter((member) => notifications[member] === true)
  return {
    ...Object.fromEntries(requested.map((member) => [member, true])),
    ...(Array.isArray(uris) && { resourceSubscriptions: uris.filter((uri) => typeof uri === 'string') }),
  }
}

/** Params with other members of their filter; `undefined` removes one. */
export function withFilter(
  params: Payload = Payload.of({}),
  members: Readonly<Record<string, unknown>>,
): Payload {
  const notifications = params.at('notifications') ?? Payload.of({})
  return params.with({ notifications: notifications.with(members) })
}

/** All changes of lists, which clients of revisions with a handshake get without asking, and the subscribed resources. */
export function filterFor(uris: ReadonlySet<string>): SubscriptionFilter {
  return {
    toolsListChanged: true,
    promptsListChanged: true,
    resourcesListChanged: true,
    ...(uris.size > 0 && { resourceSubscriptions: [...uris] }),
  }
}

/** The notification of an updated resource. */
export const UPDATED = 'notifications/resources/updated'

/** The notification of changed types of events. */
export const EVENTS_CHANGED = 'notifications/events/list_changed'

/** The notification of each kind of change, and the filter member that requests it. */
const changes: Readonly<Record<string, keyof SubscriptionFilter>> = {
  'notifications/tools/list_changed': 'toolsListChanged',
  'notifications/prompts/list_changed': 'promptsListChanged',
  'notifications/resources/list_changed': 'resourcesListChanged',
  [EVENTS_CHANGED]: 'eventsListChanged',
}

/** The filter member that requests a notification; undefined for one that is not about a list. */
export function memberFor(notification: string): keyof SubscriptionFilter | undefined {
  return Object.hasOwn(changes, notification) ? changes[notification] : undefined
}

/** Whether a notification reports a changed list or resource: such a notification is only sent to subscribers. */
export function isChange({ method }: Notification): boolean {
  return memberFor(method) !== undefined || method === UPDATED
}

/** Whether a filter requests the change a notification reports. */
export function asksFor(filter: SubscriptionFilter, { method, params }: Notification): boolean {
  const member = memberFor(method)
  if (member) return filter[member] === true
  const uri = params?.fields.uri
  return filter.resourceSubscriptions?.some((subscription) => covers(subscription, uri)) === true
}

/**
 * The notifications a listener with this filter receives if every list may have changed: of those that the server has, if
 * its capabilities are known.
 */
export function reportedChanges(
  filter: SubscriptionFilter,
  capabilities?: Readonly<Record<string, unknown>>,
): string[] {
  return Object.entries(changes).flatMap(([name, member]) => {
    const list = member.replace('ListChanged', '')
    const isThere = !capabilities || member === 'eventsListChanged' || isObject(capabilities[list])
    return filter[member] === true && isThere ? [name] : []
  })
}

/** A filter with its resource URIs converted to those of the other side. */
export function withUris(filter: SubscriptionFilter, map: (uri: string) => string): SubscriptionFilter {
  const uris = filter.resourceSubscriptions?.map(map)
  return { ...filter, ...(uris && { resourceSubscriptions: uris }) }
}

/** A notification with the URI of an updated resource converted to that of the other side. */
export function withUri(note: Notification, map: (uri: string) => string): Notification {
  const uri = note.params?.fields.uri
  if (note.method !== UPDATED || typeof uri !== 'string') return note
  return { ...note, ...(note.params && { params: note.params.with({ uri: map(uri) }) }) }
}

/** An update may name a sub-resource of a subscription (2025-11-25 server/resources). */
function covers(subscribed: string, updated: unknown): boolean {
  if (typeof updated !== 'string') return false
  return (
    updated === subscribed || updated.startsWith(subscribed.endsWith('/') ? subscribed : `${subscribed}/`)
  )
}
