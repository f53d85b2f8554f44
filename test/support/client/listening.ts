import { type Id, isObject, type Json, objectAt } from '../server/json.ts'
import { Log } from '../server/log.ts'
import type { Note, Reply } from './options.ts'

const subscriptionKey = 'io.modelcontextprotocol/subscriptionId'

const filterNames: Readonly<Record<string, string>> = {
  'notifications/tools/list_changed': 'toolsListChanged',
  'notifications/prompts/list_changed': 'promptsListChanged',
  'notifications/resources/list_changed': 'resourcesListChanged',
  'notifications/resources/updated': 'resourceSubscriptions',
  'notifications/tasks': 'taskIds',
}

/** One subscription of a 2026-07-28 client. */
export class Listening {
  readonly id: Id
  /** The reply that ends the subscription. */
  readonly ended: Promise<Reply>
  /** What the server agreed to send. */
  readonly acknowledged: Promise<Json>
  readonly #close: () => Promise<void>
  readonly #violations: string[]
  readonly #log = new Log<Note>()
  #honoured: Json | undefined
  readonly #acknowledge: (filter: Json) => void

  constructor(
    id: Id,
    violations: string[],
    start: (heard: (note: Note) => void) => Promise<Reply>,
    close: () => Promise<void>,
  ) {
    this.id = id
    this.#violations = violations
    this.#close = close
    const { promise, resolve, reject } = Promise.withResolvers<Json>()
    this.acknowledged = promise
    this.#acknowledge = resolve
    this.ended = start((note) => this.#heard(note)).then((reply) => this.#checkEnd(reply))
    // Whoever waits for the acknowledgement learns of a refusal; whoever waits for the end sees the reply.
    this.ended.then((reply) => reject(new Error(`refused: ${reply.text}`)), reject)
    promise.catch(() => {})
    this.ended.catch(() => {})
  }

  /** The events so far, without the acknowledgement. */
  get notes(): readonly Note[] {
    return this.#log.items
  }

  /** Waits until an event satisfies the predicate. */
  until(predicate: (note: Note) => boolean, timeoutMs?: number): Promise<Note> {
    return this.#log.until(predicate, timeoutMs)
  }

  /** Ends the subscription from this side. */
  close(): Promise<void> {
    return this.#close()
  }

  #heard(note: Note): void {
    const { method, params, text } = note
    const subscription = objectAt(params, '_meta')[subscriptionKey]
    if (subscription !== this.id)
      this.#violations.push(`subscriptionId is ${JSON.stringify(subscription)}: ${text}`)
    if (!this.#honoured) {
      if (method !== 'notifications/subscriptions/acknowledged') {
        this.#violations.push(`${method} before the acknowledgement`)
        return
      }
      this.#honoured = objectAt(params, 'notifications')
      return this.#acknowledge(this.#honoured)
    }
    this.#checkEvent(method, params, this.#honoured)
    this.#log.push(note)
  }

  #checkEvent(method: string, params: Json, honoured: Json): void {
    const wanted = honoured[filterNames[method] ?? '']
    const isWanted = Array.isArray(wanted)
      ? wanted.includes(params['uri'] ?? params['taskId'])
      : wanted === true
    if (!isWanted) this.#violations.push(`${method} was not subscribed to: ${JSON.stringify(params)}`)
  }

  #checkEnd(reply: Reply): Reply {
    const subscription = isObject(reply.result) ? objectAt(reply.result, '_meta')[subscriptionKey] : this.id
    if (subscription !== this.id)
      this.#violations.push(`the subscription ended without its id: ${reply.text}`)
    return reply
  }
}
