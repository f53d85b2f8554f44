import type { HeaderMap } from '../server/journal.ts'
import { encode, type Id, type Json } from '../server/json.ts'
import type { Link, LinkEvents } from './link.ts'
import { lower, open, type OpenReply, post } from './raw.ts'

/** HTTP+SSE of 2024-11-05. */
export class SseLink implements Link {
  readonly #headers: HeaderMap
  readonly #events: LinkEvents
  readonly #stream: OpenReply
  readonly #target: string
  #isOpen = true

  private constructor(stream: OpenReply, target: string, headers: HeaderMap, events: LinkEvents) {
    this.#stream = stream
    this.#target = target
    this.#headers = headers
    this.#events = events
  }

  /** Opens the stream and waits for the address to post to. */
  static async open(url: string, extra: HeaderMap, events: LinkEvents): Promise<SseLink> {
    const headers = lower(extra)
    const stream = await open(url, { method: 'GET', headers: { accept: 'text/event-stream', ...headers } })
    if (stream.status !== 200) throw new Error(`GET was answered ${stream.status} ${await stream.text()}`)
    const incoming = stream.events()
    const { value: first } = await incoming.next()
    if (first?.event !== 'endpoint') throw new Error(`the first event is ${JSON.stringify(first)}`)
    const target = new URL(String(first.data), url)
    if (target.origin !== new URL(url).origin)
      throw new Error(`the endpoint has another origin: ${target.origin}`)
    const link = new SseLink(stream, target.href, headers, events)
    void link.#read(incoming)
    return link
  }

  get openStreams(): number {
    return this.#isOpen ? 1 : 0
  }

  call(id: Id, message: Json): void {
    this.#post(encode(message)).catch((error: unknown) => {
      this.#events.ended(id, error instanceof Error ? error : new Error(String(error)))
    })
  }

  send(message: Json): Promise<void> {
    return this.#post(encode(message))
  }

  write(text: string): Promise<void> {
    return this.#post(text)
  }

  drop(): void {}

  listen(): Promise<void> {
    return Promise.resolve()
  }

  dropAll(): undefined {
    this.#stream.destroy()
  }

  close(): Promise<void> {
    this.#stream.destroy()
    return Promise.resolve()
  }

  async #post(text: string): Promise<void> {
    const { status, text: body } = await post(this.#target, text, this.#headers)
    if (status !== 202) throw new Error(`POST was answered ${status} ${body}`)
  }

  async #read(incoming: AsyncIterable<{ event?: string; data?: string }>): Promise<void> {
    try {
      for await (const { event, data } of incoming) {
        if (event !== undefined && event !== 'message') this.#events.violation(`an event of type ${event}`)
        if (data) this.#events.message(data, { kind: 'shared' })
        else this.#events.violation('an event without data')
      }
    } catch {
      // A broken stream ends like any other.
    }
    this.#isOpen = false
    this.#events.ended(undefined, new Error('the stream ended'))
  }
}
