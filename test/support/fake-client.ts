import { Answering, type Asked } from './client/answering.ts'
import { Conversation } from './client/conversation.ts'
import { HttpLink } from './client/http-link.ts'
import type { Link, LinkEvents } from './client/link.ts'
import { Listening } from './client/listening.ts'
import { clientInfo, enveloped, mirrorHeaders, rememberSchemas } from './client/modern-request.ts'
import {
  AnswerError,
  type ConnectOptions,
  type Note,
  type Reply,
  type RequestOptions,
} from './client/options.ts'
import { SseLink } from './client/sse-link.ts'
import { StdioLink } from './client/stdio-link.ts'
import { type Id, type Json, objectAt } from './server/json.ts'
import { type Traits, traitsOf } from './server/revisions.ts'
import { WAIT_TIMEOUT_MS } from './condition.ts'

const maxRounds = 10

interface SendOptions extends RequestOptions {
  /** Takes the notifications of a subscription. */
  readonly heard?: (note: Note) => void
}

/** Connects a client of any revision and finishes the opening exchange. */
export async function connect(options: ConnectOptions): Promise<FakeClient> {
  const client = new FakeClient(options)
  try {
    await client.reach()
    if (options.handshake !== false) await client.open()
  } catch (error) {
    await client.close()
    throw error
  }
  return client
}

/** A client that controls every byte it sends and judges what it gets. */
export class FakeClient {
  /** The result of `initialize` or `server/discover`. */
  initialized: Json = {}
  readonly traits: Traits
  readonly #options: ConnectOptions
  readonly #conversation: Conversation
  readonly #answering: Answering
  readonly #schemas = new Map<string, unknown>()
  #link: Link | undefined
  #nextId = 1

  /** Use {@link connect}. */
  constructor(options: ConnectOptions) {
    this.#options = options
    this.traits = traitsOf(options.revision)
    this.#conversation = new Conversation(
      this.traits,
      (id, method, params) => void this.#asked(id, method, params),
      options.records,
    )
    this.#answering = new Answering(this.traits, options, this.#conversation.violations)
  }

  /** Every breach of the protocol by the server. */
  get violations(): readonly string[] {
    return this.#conversation.violations
  }

  /** Notifications about no request. */
  get notes(): readonly Note[] {
    return this.#conversation.notes.items
  }

  /** Everything the server asked, in requests or in `input_required` results. */
  get asked(): readonly Asked[] {
    return this.#answering.asked
  }

  /** The texts of replies that came after their request was cancelled. */
  get late(): readonly string[] {
    return this.#conversation.late
  }

  /** The way to the server; a `StdioLink` also has the process, an `HttpLink` the session. */
  get link(): Link {
    if (!this.#link) throw new Error('not connected')
    return this.#link
  }

  /** Waits until a notification about no request satisfies the predicate. */
  until(predicate: (note: Note) => boolean, timeoutMs?: number): Promise<Note> {
    return this.#conversation.notes.until(predicate, timeoutMs)
  }

  /** Opens the connection. */
  async reach(): Promise<void> {
    this.#link = await this.#linked()
  }

  /** Does the opening exchange. */
  async open(): Promise<void> {
    const { link } = this
    if (this.traits.modern) {
      this.initialized = resultOf(await this.request('server/discover'))
      return
    }
    const { revision } = this.#options
    const { capabilities } = this.#answering
    this.initialized = resultOf(
      await this.request('initialize', { protocolVersion: revision, capabilities, clientInfo }),
    )
    const version = String(this.initialized['protocolVersion'])
    if (version !== revision) this.#conversation.violations.push(`asked for ${revision}, got ${version}`)
    if (link instanceof HttpLink) link.negotiated(version)
    await this.notify('notifications/initialized')
    if (this.#options.getStream !== false) await link.listen()
  }

  /** Makes a request and, where the revision wants that, makes it again with the answers to its questions. */
  async request(method: string, params?: Json, options: RequestOptions = {}): Promise<Reply> {
    let reply = await this.start(method, params, options).reply
    const notes = [...reply.notes]
    let rounds = 1
    while (reply.result?.['resultType'] === 'input_required' && this.#options.auto !== false) {
      if (++rounds > maxRounds) throw new Error(`asked more than ${maxRounds} times`)
      const { requestState } = reply.result
      const inputResponses = await this.#answering.answerAll(reply.result)
      const again = {
        ...params,
        ...(reply.result['inputRequests'] !== undefined && { inputResponses }),
        ...(requestState !== undefined && { requestState }),
      }
      reply = await this.start(method, again, options).reply
      notes.push(...reply.notes)
    }
    rememberSchemas(reply.result, this.#schemas)
    return { ...reply, notes, rounds }
  }

  /** Makes a request once; gives its id at once and its reply later. */
  start(method: string, params?: Json, options: RequestOptions = {}): { id: Id; reply: Promise<Reply> } {
    const id = this.#newId()
    return { id, reply: this.#send(id, method, params, options) }
  }

  /** Sends a notification. */
  async notify(method: string, params?: Json): Promise<void> {
    await this.link.send({ jsonrpc: '2.0', method, ...(params && { params }) })
  }

  /** Cancels a request in the way of the revision and the transport. */
  async cancel(id: Id, reason = 'cancelled'): Promise<void> {
    this.#conversation.abandon(id, new Error(reason))
    if (this.traits.modern && this.#options.transport === 'http') return this.link.drop(id)
    await this.notify('notifications/cancelled', { requestId: id, reason })
  }

  /** Subscribes to changes as 2026-07-28 does. */
  listen(filter: Json): Listening {
    if (!this.traits.modern) throw new TypeError(`${this.traits.revision} has no subscriptions/listen`)
    const id = this.#newId()
    const start = (heard: (note: Note) => void) =>
      this.#send(id, 'subscriptions/listen', { notifications: filter }, { timeoutMs: 600_000, heard })
    return new Listening(id, this.#conversation.violations, start, () => this.cancel(id))
  }

  /** Subscribes to a resource; gives the subscription where the revision has one. */
  async subscribe(uri: string): Promise<Listening | undefined> {
    if (!this.traits.modern) {
      await this.request('resources/subscribe', { uri })
      return undefined
    }
    const listening = this.listen({ resourceSubscriptions: [uri] })
    await listening.acknowledged
    return listening
  }

  /** Breaks every stream without a word; gives the id of the last event of a call. */
  dropStream(): string | undefined {
    return this.link.dropAll()
  }

  /** Takes a broken stream up again after an event. */
  resume(lastEventId: string): Promise<void> {
    return this.link.listen(lastEventId)
  }

  async close(): Promise<void> {
    await this.#link?.close()
  }

  async #linked(): Promise<Link> {
    const { transport, url, headers = {} } = this.#options
    const conversation = this.#conversation
    const events: LinkEvents = {
      message: (text, origin) => conversation.message(text, origin),
      head: (id, status, replyHeaders) => conversation.head(id, status, replyHeaders),
      waits: (id) => conversation.isOpen(id),
      ended: (id, reason) => conversation.ended(id, reason),
      body: (id, text) => conversation.body(id, text),
      violation: (text) => void conversation.violations.push(text),
    }
    if (transport === 'stdio') return new StdioLink(this.#options, events)
    if (url === undefined) throw new TypeError('The URL is missing')
    return transport === 'http'
      ? new HttpLink(url, headers, this.traits, events)
      : SseLink.open(url, headers, events)
  }

  #newId(): Id {
    const number = this.#nextId++
    const { ids = 'number' } = this.#options
    const isString = ids === 'string' || (ids === 'mixed' && number % 2 === 1)
    return isString ? `call-${number}` : number
  }

  #send(id: Id, method: string, params: Json | undefined, options: SendOptions): Promise<Reply> {
    const { timeoutMs = WAIT_TIMEOUT_MS, signal, onProgress, heard } = options
    const progressToken = options.progressToken ?? (onProgress ? `progress-${id}` : undefined)
    const full = this.#complete(params, progressToken, options)
    const { promise, resolve, reject } = Promise.withResolvers<Reply>()
    const timer = setTimeout(() => {
      this.#conversation.abandon(id, new Error(`no reply to ${method} within ${timeoutMs} ms`))
    }, timeoutMs)
    const cancel = () => void this.cancel(id).catch(() => {})
    signal?.addEventListener('abort', cancel, { once: true })
    const listener = heard ? { heard } : {}
    this.#conversation.open({ id, method, progressToken, options, notes: [], ...listener, resolve, reject })
    const headers = this.traits.modern ? mirrorHeaders(method, full ?? {}, this.#schemas) : {}
    const message = { jsonrpc: '2.0', id, method, ...(full && { params: full }) }
    this.link.call(id, message, { ...headers, ...options.headers })
    return promise.finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', cancel)
    })
  }

  #complete(
    params: Json | undefined,
    progressToken: Id | undefined,
    options: RequestOptions,
  ): Json | undefined {
    const withToken = { ...params, _meta: { ...objectAt(params, '_meta'), progressToken } }
    const known = progressToken === undefined ? params : withToken
    if (!this.traits.modern) return known
    const logLevel = options.logLevel ?? this.#options.logLevel
    return enveloped(known ?? {}, this.#options.revision, this.#answering.capabilities, logLevel)
  }

  async #asked(id: Id, method: string, params: Json): Promise<void> {
    if (this.traits.modern) {
      this.#conversation.violations.push(`${method} requested from a client of ${this.traits.revision}`)
      return
    }
    const body = await this.#answering.answer(method, params).then(
      (result) => ({ result }),
      (error: unknown) => {
        const code = error instanceof AnswerError ? error.code : -32603
        return { error: { code, message: error instanceof Error ? error.message : String(error) } }
      },
    )
    await this.link.send({ jsonrpc: '2.0', id, ...body })
  }
}

function resultOf(reply: Reply): Json {
  if (reply.result) return reply.result
  throw new Error(`the opening exchange failed: ${reply.status} ${reply.text}`)
}
