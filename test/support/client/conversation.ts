import type { HeaderMap } from '../server/journal.ts'
import { type Id, isId, isObject, type Json, objectAt, parse } from '../server/json.ts'
import { Log } from '../server/log.ts'
import type { Traits } from '../server/revisions.ts'
import { errorFaults, noteFaults, resultFaults } from './checks.ts'
import type { Origin } from './link.ts'
import type { ConnectOptions, Note, Reply, RequestOptions } from './options.ts'

/** A request that waits for its reply. */
export interface Pending {
  readonly id: Id
  readonly method: string
  readonly progressToken: Id | undefined
  readonly options: RequestOptions
  readonly notes: Note[]
  /** Takes the notifications of a subscription instead of `notes`. */
  readonly heard?: (note: Note) => void
  readonly resolve: (reply: Reply) => void
  readonly reject: (error: Error) => void
}

/** Matches what a server sends with what a client asked, and notes every breach. */
export class Conversation {
  readonly violations: string[] = []
  /** Notifications about no request. */
  readonly notes = new Log<Note>()
  /** Replies to requests that were cancelled before. */
  readonly late: string[] = []
  readonly #traits: Traits
  readonly #answer: (id: Id, method: string, params: Json) => void
  readonly #record: ConnectOptions['records']
  readonly #pending = new Map<Id, Pending>()
  readonly #heads = new Map<Id, { status: number; headers: HeaderMap }>()
  readonly #done = new Set<Id>()
  /** Ids and progress tokens of requests given up: what is still under way for them is nobody's fault. */
  readonly #abandoned: unknown[] = []
  readonly #progress = new Map<Id, number>()

  constructor(
    traits: Traits,
    answer: (id: Id, method: string, params: Json) => void,
    record?: ConnectOptions['records'],
  ) {
    this.#traits = traits
    this.#answer = answer
    this.#record = record
  }

  open(pending: Pending): void {
    this.#pending.set(pending.id, pending)
  }

  /** Gives a request up. */
  abandon(id: Id, reason: Error): void {
    const pending = this.#close(id)
    if (!pending) return
    this.#abandoned.push(id, ...(pending.progressToken === undefined ? [] : [pending.progressToken]))
    pending.reject(reason)
  }

  isOpen(id: Id): boolean {
    return this.#pending.has(id)
  }

  head(id: Id, status: number, headers: HeaderMap): void {
    this.#heads.set(id, { status, headers })
  }

  /** Ends a request whose HTTP answer was no reply, or an error that names no request. */
  body(id: Id, text: string): void {
    const pending = this.#close(id)
    if (!pending) return
    const message = parse(text)
    const error = objectAt(message, 'error')
    pending.resolve(this.#reply(pending, { text, ...(Object.keys(error).length > 0 && { error }) }))
  }

  /** Fails the request whose stream ended, or all of them. */
  ended(id: Id | undefined, reason: Error): void {
    for (const open of id === undefined ? [...this.#pending.keys()] : [id]) this.abandon(open, reason)
  }

  /** Takes one message. */
  message(text: string, origin: Origin): void {
    const value = parse(text)
    if (!Array.isArray(value)) return this.#one(value, text, origin)
    if (!this.#traits.batch) this.violations.push(`a batch sent to a client of ${this.#traits.revision}`)
    for (const item of value) this.#one(item, JSON.stringify(item), origin)
  }

  #one(value: unknown, text: string, origin: Origin): void {
    if (!isObject(value)) return void this.violations.push(`not a message: ${text}`)
    if (value['jsonrpc'] !== '2.0') this.violations.push(`jsonrpc is not "2.0": ${text}`)
    const { id, method } = value
    this.#record?.(value, isId(id) ? this.#pending.get(id)?.method : undefined)
    if (typeof method !== 'string') return this.#response(id, value, text, origin)
    if ('params' in value && !isObject(value['params'])) this.violations.push(`params is no object: ${text}`)
    const params = objectAt(value, 'params')
    if (!('id' in value)) return this.#note({ method, params, text }, origin)
    if (!isId(id)) return void this.violations.push(`a request with the id ${JSON.stringify(id)}`)
    this.#answer(id, method, params)
  }

  #response(id: unknown, message: Json, text: string, origin: Origin): void {
    const { result, error } = message
    if (isObject(result) === isObject(error))
      this.violations.push(`neither result nor error, or both: ${text}`)
    if (!isId(id)) {
      // An error that could not be tied to a request may come without an id or with null.
      if (id !== undefined && id !== null) this.violations.push(`a reply with the id ${JSON.stringify(id)}`)
      if (id === null && this.#traits.modern)
        this.violations.push(`a reply with the id null in ${this.#traits.revision}`)
      if (origin.kind !== 'call') this.violations.push(`a reply without an id: ${text}`)
      return
    }
    if (origin.kind === 'call' && origin.id !== id)
      this.violations.push(`reply ${id} on the stream of ${origin.id}`)
    if (origin.kind === 'side') this.violations.push(`reply ${id} on the stream for unsolicited messages`)
    const pending = this.#close(id)
    if (!pending) return this.#stray(id, text)
    if (isObject(error)) this.violations.push(...errorFaults(this.#traits, error))
    if (isObject(result)) this.violations.push(...resultFaults(this.#traits, pending.method, result))
    pending.resolve(
      this.#reply(pending, { text, ...(isObject(result) && { result }), ...(isObject(error) && { error }) }),
    )
  }

  #stray(id: Id, text: string): void {
    if (this.#done.has(id)) this.late.push(text)
    else this.violations.push(`a reply to nothing: ${text}`)
  }

  #note(note: Note, origin: Origin): void {
    const { method, params } = note
    this.violations.push(...noteFaults(this.#traits, method, params))
    const pending = this.#concerned(note, origin)
    if (pending && method === 'notifications/progress') this.#checkProgress(pending, params)
    if (pending?.heard) return pending.heard(note)
    if (pending) {
      pending.notes.push(note)
      if (method === 'notifications/progress') pending.options.onProgress?.(params)
      return
    }
    const isOverdue = origin.kind === 'call' && this.#abandoned.includes(origin.id)
    if (isOverdue || this.#abandoned.includes(params['progressToken'])) return
    if (method === 'notifications/progress') this.violations.push(`progress for nothing: ${note.text}`)
    this.notes.push(note)
  }

  /** Finds the request a notification is about. */
  #concerned({ method, params }: Note, origin: Origin): Pending | undefined {
    if (origin.kind === 'call') return this.#pending.get(origin.id)
    const open = [...this.#pending.values()]
    const token = params['progressToken']
    if (method === 'notifications/progress')
      return open.find(({ progressToken }) => progressToken === token && token !== undefined)
    const subscription = objectAt(params, '_meta')['io.modelcontextprotocol/subscriptionId']
    if (subscription !== undefined) return open.find(({ id, heard }) => heard && id === subscription)
    const calls = open.filter(({ heard }) => !heard)
    return method === 'notifications/message' && origin.kind === 'shared' && calls.length === 1
      ? calls[0]
      : undefined
  }

  #checkProgress({ id, progressToken }: Pending, params: Json): void {
    const { progress } = params
    if (params['progressToken'] !== progressToken) {
      this.violations.push(
        `progress with the token ${JSON.stringify(params['progressToken'])}, not ${JSON.stringify(progressToken)}`,
      )
    }
    if (typeof progress !== 'number') return void this.violations.push('progress without a number')
    const last = this.#progress.get(id) ?? Number.NEGATIVE_INFINITY
    if (progress <= last) this.violations.push(`progress ${progress} after ${last}`)
    this.#progress.set(id, progress)
  }

  #close(id: Id): Pending | undefined {
    const pending = this.#pending.get(id)
    this.#pending.delete(id)
    this.#progress.delete(id)
    if (pending) this.#done.add(id)
    return pending
  }

  #reply({ id, notes }: Pending, rest: { text: string; result?: Json; error?: Json }): Reply {
    const { status, headers } = this.#heads.get(id) ?? { status: 0, headers: {} }
    return { id, notes, status, headers, rounds: 1, ...rest }
  }
}
