import type { ServerResponse } from 'node:http'
import { ByteWriter, sseEvent } from './bytes.ts'
import { encode } from './json.ts'
import type { ServerOptions } from './options.ts'
import { traitsOf } from './revisions.ts'

const head = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
}

/** An event stream that can outlive the connection it goes over. */
export class EventStream {
  readonly name: string
  readonly #options: ServerOptions
  readonly #kept: string[] = []
  #writer: ByteWriter | undefined
  #isEnded = false

  constructor(options: ServerOptions, name: string) {
    this.#options = options
    this.name = name
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Begins, or goes on after the event with this number, over a connection. */
  attach(response: ServerResponse, headers: Readonly<Record<string, string>>, after = 0): void {
    response.writeHead(200, { ...head, ...headers })
    response.flushHeaders()
    const writer = new ByteWriter(response, this.#options.chunk)
    this.#writer = writer
    response.on('close', () => {
      if (this.#writer === writer) this.#writer = undefined
    })
    if (this.#options.resumable && after === 0) this.#prime()
    for (const event of this.#kept.slice(after)) writer.write(event)
    if (this.#isEnded) writer.end()
  }

  send(message: unknown): void {
    const number = this.#kept.length + 1
    const id = this.#options.resumable ? { id: `${this.name}/${number}` } : {}
    const event = sseEvent(this.#options, encode(message), { event: 'message', ...id })
    if (this.#options.resumable) this.#kept.push(event)
    this.#writer?.write(event)
  }

  end(): void {
    this.#isEnded = true
    this.detach()
  }

  /** Ends the connection, not the stream. */
  detach(): void {
    this.#writer?.end()
    this.#writer = undefined
  }

  #prime(): void {
    if (!traitsOf(this.#options.revision).priming) return
    this.#writer?.write(sseEvent(this.#options, '', { id: `${this.name}/0`, retry: 10 }))
  }
}
