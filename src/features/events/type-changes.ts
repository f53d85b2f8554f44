/**
 * What clients learn of changed types (SEP-3415). `notifications/events/list_changed` goes to those that subscribe to it
 * with `subscriptions/listen`: when the tools of a server have changed, from which types are made, when a server says that
 * its own types have, and when the configuration is loaded again. What is subscribed to ends if its type has changed in a
 * way that breaks clients.
 */
import type { Call, Middleware, Notification, Outcome } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { schemaChanges } from '../../core/schema/schema-change.ts'
import { ACKNOWLEDGED, EVENTS_CHANGED, memberFor, readFilter } from '../../protocol/subscription-filter.ts'
import { schemaChanged } from './errors.ts'
import type { EventType } from './event-types.ts'

/**
 * Why a subscription to a type ends whose schemas are others now; undefined if they are the same, or only have additions.
 */
export function breakOf(before: SourcedType, after: SourcedType): GatewayError | undefined {
  // While a server cannot be asked for its own type, one of the gateway can have its name.
  if (before.source !== after.source) return undefined
  const [one, other] = [before.type, after.type]
  if (isBreaking(one.inputSchema, other.inputSchema, 'input')) return schemaChanged('inputSchema')
  const isOtherData = isBreaking(one.payloadSchema, other.payloadSchema, 'output')
  return isOtherData ? schemaChanged('payloadSchema') : undefined
}

interface SourcedType {
  readonly source: string
  readonly type: Pick<EventType, 'inputSchema' | 'payloadSchema'>
}

function isBreaking(before: unknown, after: unknown, side: 'input' | 'output'): boolean {
  return before !== after && schemaChanges(before, after, side).some(({ level }) => level === 'major')
}

interface Options {
  /** Whether the gateway has events at the address of a call. */
  isOn(call: Call): boolean
  /** Called before clients are notified. */
  onChange(): void
}

/** The clients that want to know of changed types. */
export class TypeChanges {
  readonly #options: Options
  readonly #listeners = new Set<() => void>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Wraps the requests with which clients listen. */
  readonly subscribe: Middleware = (next) => (call) => {
    const isWanted = readFilter(call.params).eventsListChanged === true && this.#options.isOn(call)
    return isWanted ? this.#listen(call, next) : next(call)
  }

  /** All types may have changed: another configuration takes over. */
  close(): void {
    for (const notify of this.#listeners) notify()
  }

  async #listen(call: Call, next: (call: Call) => Promise<Outcome>): Promise<Outcome> {
    const notify = (): void => call.emit({ method: EVENTS_CHANGED })
    const { toolsListChanged: wantsTools = false } = readFilter(call.params)
    const emit = (note: Notification): void => {
      if (note.method === ACKNOWLEDGED) {
        call.emit(acknowledgement(note, wantsTools))
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        this.#listeners.add(notify)
        return
      }
      const member = memberFor(note.method)
      const isOfTools = member === 'toolsListChanged'
      const isOfTypes = isOfTools || member === 'eventsListChanged'
      if (!isOfTypes || (isOfTools && wantsTools)) call.emit(note)
      if (!isOfTypes) return
      this.#options.onChange()
      notify()
    }
    const { notifications } = call.params.fields
    const filter = { ...(isObject(notifications) && notifications), toolsListChanged: true }
    try {
      return await next({ ...call, params: call.params.with({ notifications: filter }), emit })
    } finally {
      this.#listeners.delete(notify)
    }
  }
}

/** An acknowledgement that accepts changed types, and changed tools only if the client wants them. */
function acknowledgement(note: Notification, wantsTools: boolean): Notification {
  const params = note.params ?? Payload.of({})
  const accepted = params.at('notifications') ?? Payload.of({})
  const notifications = accepted.with({
    eventsListChanged: true,
    ...(!wantsTools && { toolsListChanged: undefined }),
  })
  return { ...note, params: params.with({ notifications }) }
}
