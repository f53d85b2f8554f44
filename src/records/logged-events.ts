/**
 * The events of servers in the store: one log for each server, and one for events that belong to no server. Gateways
 * append to them, and commands read them. Field names are persisted and do not change.
 */
import { isObject } from '../core/json/json.ts'
import type { Store } from '../store/store.ts'
import { AppendLog } from '../durable/log.ts'

/** An event. */
export interface LoggedEvent {
  /** The same in every delivery. */
  readonly id: string
  /** The name of its type, without the server. */
  readonly name: string
  /** When it happened, in milliseconds since 1970. */
  readonly at: number
  /** The hash of the caller that caused it, if one did. */
  readonly by?: string
  /** The key of the subscription at the server that it was received for, if the server has it itself. */
  readonly of?: string
  readonly data: Readonly<Record<string, unknown>>
}

/**
 * The name under which the log says that listening to a server began: what the server notified before may be missing. It
 * is no type of events.
 */
export const LISTENING_BEGAN = 'listening_began'

/**
 * The name under which the log says that clients began to request events: those before were not kept. It is no type of
 * events.
 */
export const LOGGING_BEGAN = 'logging_began'

/**
 * What the log of one server holds at most: enough for receivers of webhooks that are away for minutes. A store in memory
 * drops other values for new ones, so there it holds less.
 */
const BOUNDS = { maxEntries: 100_000, maxBytes: 32 * 1024 * 1024 }
const BOUNDS_IN_MEMORY = { maxEntries: 10_000, maxBytes: 8 * 1024 * 1024 }

/**
 * The log of a server, or of the events that belong to no server, in a store that other processes can use or in memory.
 * Events are kept for `ttl` milliseconds.
 */
export function openEventLog(
  store: Store,
  upstream: string | undefined,
  { ttl, isShared }: { readonly ttl: number; readonly isShared: boolean },
): AppendLog {
  return new AppendLog(store, eventLogName(upstream), { ...(isShared ? BOUNDS : BOUNDS_IN_MEMORY), ttl })
}

/** The name of the log of a server, or of the events that belong to no server. */
export function eventLogName(upstream: string | undefined): string {
  return upstream === undefined ? 'events' : `events ${upstream}`
}

/** An event from the log; undefined if another program wrote it. */
export function asEvent(value: unknown): LoggedEvent | undefined {
  if (!isObject(value)) return undefined
  const { id, name, at, by, of, data } = value
  if (typeof id !== 'string' || typeof name !== 'string' || typeof at !== 'number' || !isObject(data))
    return undefined
  const owner = { ...(typeof by === 'string' && { by }), ...(typeof of === 'string' && { of }) }
  return { id, name, at, data, ...owner }
}
