/**
 * Which part of the events extension a client has. The extension belongs to 2026-07-28 (SEP-3415), but deployed clients
 * follow the design sketch that preceded it, some of them in older revisions: those have webhooks alone, as ChatGPT
 * does. Other older clients do not know the extension, and for them its methods do not exist.
 */
import type { Client } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import { eventsExtension } from '../../protocol/meta-keys.ts'

/** The error codes of SEP-3415, or those of the sketch. */
export type Column = 'sep' | 'sketch'

/** What a client has of the extension. */
interface EventsProfile {
  /** The methods that exist for it. */
  readonly methods: 'all' | 'webhooks' | 'none'
  /** Which error codes it expects; a client of the sketch also expects that a second unsubscription succeeds. */
  readonly codes: Column
}

/** The name of a client that follows the sketch, whatever it declares. */
const SKETCH_CLIENTS = /\b(?:chatgpt|openai)/i

/** The profile of a client, by what it declares and by its name. */
export function profileOf({
  era,
  info,
  capabilities,
}: Pick<Client, 'era' | 'info' | 'capabilities'>): EventsProfile {
  const { events, extensions } = capabilities
  const isNamed = typeof info?.name === 'string' && SKETCH_CLIENTS.test(info.name)
  const declaresSketch = isObject(events)
  const declaresExtension = isObject(extensions) && isObject(extensions[eventsExtension])
  if (era === 'modern')
    return { methods: 'all', codes: isNamed || (declaresSketch && !declaresExtension) ? 'sketch' : 'sep' }
  return { methods: isNamed || declaresSketch || declaresExtension ? 'webhooks' : 'none', codes: 'sketch' }
}

/** The methods of clients that have webhooks alone. */
const webhookMethods: ReadonlySet<string> = new Set(['events/list', 'events/subscribe', 'events/unsubscribe'])

/** Whether a method of the extension exists for a client. */
export function hasMethod(client: Client, method: string): boolean {
  const { methods } = profileOf(client)
  return methods === 'all' || (methods === 'webhooks' && webhookMethods.has(method))
}
