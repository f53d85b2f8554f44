import { isObject } from '../core/json.ts'
import type { Payload } from '../core/payload.ts'

/** What a client wants to hear of, as `subscriptions/listen` has it. */
export interface Filter {
  readonly toolsListChanged?: boolean
  readonly promptsListChanged?: boolean
  readonly resourcesListChanged?: boolean
  readonly resourceSubscriptions?: readonly string[]
}

/** The first message of a listening call: what of the filter is honoured. */
export const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'

/** The honoured filter of an acknowledgement. */
export function readFilter(params: Payload | undefined): Filter {
  const notifications = params?.fields.notifications
  if (!isObject(notifications)) return {}
  const uris = notifications.resourceSubscriptions
  return {
    ...(notifications.toolsListChanged === true && { toolsListChanged: true }),
    ...(notifications.promptsListChanged === true && { promptsListChanged: true }),
    ...(notifications.resourcesListChanged === true && { resourcesListChanged: true }),
    ...(Array.isArray(uris) && { resourceSubscriptions: uris.filter((uri) => typeof uri === 'string') }),
  }
}

/** The notification of each kind of change, and the member of a filter that asks for it. */
const changes: Readonly<Record<string, keyof Filter>> = {
  'notifications/tools/list_changed': 'toolsListChanged',
  'notifications/prompts/list_changed': 'promptsListChanged',
  'notifications/resources/list_changed': 'resourcesListChanged',
}

/** The member of a filter that asks for a notification; nothing for one that is not about a list. */
export function memberFor(notification: string): keyof Filter | undefined {
  return Object.hasOwn(changes, notification) ? changes[notification] : undefined
}

/** The notifications a listener with this filter gets when every list may have changed. */
export function toldChanges(filter: Filter): string[] {
  return Object.entries(changes).flatMap(([name, member]) => (filter[member] === true ? [name] : []))
}
