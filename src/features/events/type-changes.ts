/**
 * Sends `notifications/events/list_changed` to clients that subscribe to it with `subscriptions/listen` (SEP-3415): when
 * the tools of a server have changed, from which types are made, when a server says that its own types have, and when the
 * configuration is loaded again.
 */
import type { Call, Middleware, Notification, Outcome } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { ACKNOWLEDGED, EVENTS_CHANGED, memberFor, readFilter } from '../../protocol/subscription-filter.ts'

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
