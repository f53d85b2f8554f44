/** The listening call that stands for a session's subscriptions, opened anew with each change. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Handler, Call, Notification } from '../../core/call.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { excerpt } from '../../core/text/redact.ts'
import {
  ACKNOWLEDGED,
  type SubscriptionFilter,
  readFilter,
  reportedChanges,
} from '../../protocol/subscription-filter.ts'

interface SubscriptionsOptions {
  readonly handle: Handler
  /** Makes the listening call; its emitted notes go to `emit`. */
  call(params: Payload, controller: AbortController, emit: (note: Notification) => void): Call
  onNote(note: Notification): void
  readonly log: Log
}

/** How long to wait before listening again, in milliseconds. */
const RETRY_DELAY_MS = 250

/** The long-lived call that stands for everything a client of an older revision hears outside its requests. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions
  #current: AbortController | undefined
  #changes: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Listens for this from here on; resolves with what is honoured. The one before ends when this one is up. */
  open(filter: SubscriptionFilter): Promise<SubscriptionFilter> {
    const change = this.#changes.then(() => this.#replace(filter))
    this.#changes = change.catch(() => undefined)
    return change
  }

  close(): void {
    this.#isClosed = true
    this.#current?.abort()
  }

  async #replace(filter: SubscriptionFilter): Promise<SubscriptionFilter> {
    const controller = new AbortController()
    const acknowledged = Promise.withResolvers<SubscriptionFilter>()
    const call = this.#options.call(Payload.of({ notifications: filter }), controller, (note) => {
      if (note.method === ACKNOWLEDGED) acknowledged.resolve(readFilter(note.params))
      else this.#options.onNote(note)
    })
    const ended = this.#options.handle(call)
    ended.then(() => acknowledged.resolve({}), acknowledged.reject)
    const honoured = await acknowledged.promise
    background(this.#follow(ended, filter, controller.signal), this.#options.log)
    this.#current?.abort()
    this.#current = controller
    if (this.#isClosed) controller.abort()
    return honoured
  }

  /** Where the listening call ends by itself, as when the configuration changed, it is made again. */
  async #follow(ended: Promise<unknown>, filter: SubscriptionFilter, signal: AbortSignal): Promise<void> {
    await ended.catch((error: unknown) =>
      this.#options.log.debug('listen.ended', { error: excerpt(String(error)) }),
    )
    await wait(RETRY_DELAY_MS, undefined, { signal, ref: false }).catch(() => undefined)
    if (signal.aborted || this.#isClosed) return
    await this.open(filter)
    for (const method of reportedChanges(filter)) this.#options.onNote({ method })
  }
}
