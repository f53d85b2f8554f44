/** Which lists a listener wants changes of, and how a discovery result declares them. */
import type { Call, Notification } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { readFilter } from '../protocol/subscription-filter.ts'

/** A list clients hear changes of. */
export type List = 'tools' | 'prompts' | 'resources'

/** The lists there are. */
export const lists: readonly List[] = ['tools', 'prompts', 'resources']

/** The lists whose changes a call that listens wants to hear of. */
export function listsWanted({ params }: Call): readonly List[] {
  const filter = readFilter(params)
  return lists.filter((list) => filter[`${list}ListChanged`] === true)
}

/** An acknowledgement that honours changes of these lists too, which the gateway tells of itself. */
export function acknowledged(note: Notification, honoured: readonly List[]): Notification {
  const params = note.params ?? Payload.of({})
  const notifications = params.at('notifications') ?? Payload.of({})
  const added = Object.fromEntries(honoured.map((list) => [`${list}ListChanged`, true]))
  return { ...note, params: params.with({ notifications: notifications.with(added) }) }
}

/** What a server says of itself, with the capability to tell of changes of those of these lists it has. */
export function withListChanged(result: Payload, told: readonly List[]): Payload {
  const capabilities = result.at('capabilities')
  const changed = told.flatMap((list) => {
    const own = capabilities?.at(list)
    if (!own || !isObject(own.value) || own.fields.listChanged === true) return []
    return [[list, own.with({ listChanged: true })] as const]
  })
  if (!capabilities || changed.length === 0) return result
  return result.with({ capabilities: capabilities.with(Object.fromEntries(changed)) })
}
