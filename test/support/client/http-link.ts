import type { HeaderMap } from '../server/journal.ts'
import { encode, type Id, type Json } from '../server/json.ts'
import type { Traits } from '../server/revisions.ts'
import type { Link, LinkEvents, Origin } from './link.ts'
import { lower, open, type OpenReply, usual, whole } from './raw.ts'

/** Streamable HTTP of any revision. */
export class HttpLink implements Link {
  readonly #url: string
  readonly #headers: HeaderMap
  readonly #traits: Traits
  readonly #events: LinkEvents
  readonly #calls = new Map<Id, AbortController>()
  readonly #dropped = new Set<Id>()
  readonly #sides = new Set<OpenReply>()
  #session: string | undefined
  #version: string | undefined
  #lastOfCall: string | undefined
  #lastOfSide: string | undefined

  constructor(url: string, headers: HeaderMap, traits: Traits, events: LinkEvents) {
    this.#url = url
    this.#headers = lower(headers)
    this.#traits = traits
    this.#events = events
  }

  get openStreams(): number {
    return this.#calls.size + this.#sides.size
  }

  /** The session of a legacy client. */
  get session(): string | undefined {
    return this.#session
  }

  /** The version to name in headers from here on. */
  negotiated(version: string): void {
    if (this.#traits.protocolHeader) this.#version = version
  }

  call(id: Id, message: Json, headers: HeaderMap): void {
    void this.#exchange(id, message, headers).catch((error: unknown) => {
      this.#calls.delete(id)
      if (!this.#dropped.has(id))
        this.#events.ended(id, error instanceof Error ? error : new Error(String(error)))
    })
  }

  async #exchange(id: Id, message: Json, headers: HeaderMap): Promise<void> {
    const controller = new AbortController()
    this.#calls.set(id, controller)
    const reply = await this.#post(encode(message), headers, controller.signal)
    this.#events.head(id, reply.status, reply.headers)
    this.#noteSession(message, reply.headers)
    if (isStream(reply)) {
      const lastEventId = await this.#read(reply, { kind: 'call', id })
      this.#calls.delete(id)
      if (!this.#events.waits(id)) return
      if (lastEventId === undefined)
        return this.#events.ended(id, new Error('the stream ended without a reply'))
      // The server may end a stream early; the client takes it up again (2025-11-25 basic/transports).
      return this.listen(lastEventId)
    }
    const text = await reply.text()
    this.#calls.delete(id)
    if (text.startsWith('{') || text.startsWith('[')) this.#events.message(text, { kind: 'call', id })
    this.#events.body(id, text)
  }

  #noteSession(message: Json, headers: HeaderMap): void {
    const session = headers['mcp-session-id']
    if (session === undefined) return
    if (this.#traits.modern)
      this.#events.violation(`Mcp-Session-Id sent to a client of ${this.#traits.revision}`)
    else if (message['method'] === 'initialize') this.#session = session
    else if (session !== this.#session) this.#events.violation('another Mcp-Session-Id after the handshake')
  }

  async send(message: Json): Promise<void> {
    await this.write(encode(message))
  }

  async write(text: string): Promise<void> {
    const { status, headers, text: body } = await whole(await this.#post(text, {}))
    if (status !== 202 || body !== '' || headers['content-type'] !== undefined) {
      this.#events.violation(
        `a notification or answer was answered ${status} ${headers['content-type'] ?? ''} ${body}`.trim(),
      )
    }
  }

  drop(id: Id): void {
    this.#dropped.add(id)
    this.#calls.get(id)?.abort()
    this.#calls.delete(id)
  }

  async listen(lastEventId?: string): Promise<void> {
    const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId }
    const headers = { accept: 'text/event-stream', ...this.#state(), ...resume, ...this.#headers }
    const reply = await open(this.#url, { method: 'GET', headers })
    if (reply.status === 405) return reply.destroy()
    if (!isStream(reply)) {
      this.#events.violation(`GET was answered ${reply.status} ${await reply.text()}`)
      return
    }
    this.#sides.add(reply)
    void this.#read(reply, { kind: lastEventId === undefined ? 'side' : 'shared' })
      .catch(() => {})
      .finally(() => this.#sides.delete(reply))
  }

  dropAll(): string | undefined {
    for (const id of [...this.#calls.keys()]) this.drop(id)
    for (const side of this.#sides) side.destroy()
    return this.#lastOfCall ?? this.#lastOfSide
  }

  async close(): Promise<void> {
    this.dropAll()
    if (this.#session === undefined) return
    const reply = await open(this.#url, { method: 'DELETE', headers: { ...this.#state(), ...this.#headers } })
    await reply.text()
  }

  /** Reads a stream to its end; gives the id of its last event. */
  async #read(reply: OpenReply, origin: Origin): Promise<string | undefined> {
    let last: string | undefined
    for await (const { id, event, data } of reply.events()) {
      // What had arrived with the last event before the stream was dropped is lost with it.
      if (origin.kind === 'call' && this.#dropped.has(origin.id)) throw new Error('dropped')
      if (id !== undefined) {
        last = id
        if (this.#traits.modern) this.#events.violation('an event with an id in a stateless stream')
        if (origin.kind === 'call') this.#lastOfCall = id
        else this.#lastOfSide = id
      }
      if (event !== undefined && event !== 'message') this.#events.violation(`an event of type ${event}`)
      if (data) this.#events.message(data, origin)
      else if (!this.#traits.priming) this.#events.violation('an event without data')
    }
    return last
  }

  #post(body: string, headers: HeaderMap, signal?: AbortSignal): Promise<OpenReply> {
    const all = { ...usual, ...this.#state(), ...this.#headers, ...lower(headers) }
    return open(this.#url, { method: 'POST', headers: all, body, ...(signal && { signal }) })
  }

  #state(): HeaderMap {
    return {
      ...(this.#session !== undefined && { 'mcp-session-id': this.#session }),
      ...(this.#version !== undefined && { 'mcp-protocol-version': this.#version }),
    }
  }
}

function isStream(reply: OpenReply): boolean {
  return reply.status === 200 && (reply.headers['content-type'] ?? '').startsWith('text/event-stream')
}
