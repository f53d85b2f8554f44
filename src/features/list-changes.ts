/** Which list changes a client subscribes to, and how `server/discover` declares them. */
import type { Call, Notification } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { readFilter } from '../protocol/subscription-filter.ts'

/** A list whose changes clients can subscribe to. */
export type List = 'tools' | 'prompts' | 'resources'

/** All lists. */
export const lists: readonly List[] = ['tools', 'prompts', 'resources']

/** The lists whose changes a subscription requests. */
export function listsWanted({ params }: Call): readonly List[] {
  const filter = readFilter(params)
  return lists.filter((list) => filter[`${list}ListChanged`] === true)
}

/** An acknowledgement that also accepts changes of these lists, which the gateway announces itself. */
export function acknowledged(notification: Notification, accepted: readonly List[]): Notification {
  const params = notification.params ?? Payload.of({})
  const notifications = params.at('notifications') ?? Payload.of({})
  const added = Object.fromEntries(accepted.map((list) => [`${list}ListChanged`, true]))
  return { ...notification, params: params.with({ notifications: notifications.with(added) }) }
}

/** The result of `server/discover`, with `listChanged` for those of these lists that the server has. */
export function withListChanged(result: Payload, announced: readonly List[]): Payload {
  const capabilities = result.at('capabilities')
  const changed = announced.flatMap((list) => {
    const capability = capabilities?.at(list)
    if (!capability || !isObject(capability.value) || capability.fields.listChanged === true) return []
    return [[list, capability.with({ listChanged: true })] as const]
  })
  if (!capabilities || changed.length === 0) return result
  return result.with({ capabilities: capabilities.with(Object.fromEntries(changed)) })
}
