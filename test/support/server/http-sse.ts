import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomUUID } from 'node:crypto'
import { ByteWriter, sseEvent } from './bytes.ts'
import { bodyOf, headersOf } from './http-reply.ts'
import { encode } from './json.ts'
import { openPipe, type Pipe } from './pipe.ts'
import type { World } from './world.ts'

/** The HTTP+SSE transport: one event stream per client, messages posted to the address it names. */
export class SseServer {
  readonly #world: World
  readonly #pipes = new Map<string, { pipe: Pipe; response: ServerResponse }>()

  constructor(world: World) {
    this.#world = world
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = headersOf(request)
    const { journal } = this.#world
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1')
    if (pathname === '/sse' && request.method === 'GET') {
      journal.record({ kind: 'get', text: '', headers })
      return this.#open(response)
    }
    if (pathname !== '/messages' || request.method !== 'POST') {
      response
        .writeHead(pathname === '/sse' ? 405 : 404, { 'Content-Type': 'text/plain' })
        .end('no such endpoint')
      return
    }
    const text = await bodyOf(request)
    for (const name of ['mcp-session-id', 'mcp-protocol-version', 'mcp-method']) {
      if (headers[name] !== undefined) journal.violation(`${name} sent over HTTP+SSE`)
    }
    const open = this.#pipes.get(searchParams.get('sessionId') ?? '')
    if (!open) {
      journal.violation('a message to no HTTP+SSE session')
      response.writeHead(404, { 'Content-Type': 'text/plain' }).end('Session not found')
      return
    }
    response.writeHead(202, { 'Content-Type': 'text/plain' }).end('Accepted')
    open.pipe.receive(text, headers)
  }

  /** Breaks every event stream. */
  dropSides(): void {
    for (const { response } of this.#pipes.values()) response.destroy()
  }

  #open(response: ServerResponse): void {
    const { options } = this.#world
    const id = randomUUID()
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' })
    const writer = new ByteWriter(response, options.chunk)
    writer.write(
      sseEvent({ ...options, multilineData: false }, `/messages?sessionId=${id}`, { event: 'endpoint' }),
    )
    const pipe = openPipe(this.#world, {
      send: (message) => writer.write(sseEvent(options, encode(message), { event: 'message' })),
      crash: () => void response.destroy(),
    })
    this.#pipes.set(id, { pipe, response })
    response.on('close', () => {
      this.#pipes.delete(id)
      pipe.close()
    })
  }
}
