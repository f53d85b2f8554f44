/** Server-sent events (HTML, section 9.2): encoding, and a bounded reader. */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { singleLine } from './lines.ts'

/** One event of a stream. */
export type ServerEvent = Readonly<EventSourceMessage>

/** A comment that keeps an idle stream open through proxies. */
export const keepAlive = ': keepalive\n\n'

/** An SSE event with a JSON-RPC message. */
export function encodeEvent(message: string, id?: string): string {
  const head = id === undefined ? '' : `id: ${id}\n`
  return `${head}event: message\ndata: ${singleLine(message)}\n\n`
}

/** How long a client waits before it reconnects after its stream was cut off, in milliseconds; the default of the official SDKs. */
const RETRY_MS = 1000

/** An event with an id and no data: a client can resume from it, after a time (2025-11-25 basic/transports). */
export function encodePriming(id: string): string {
  return `id: ${id}\nretry: ${RETRY_MS}\ndata: \n\n`
}

/** The first event of an HTTP+SSE stream: the URL for posts (2024-11-05 basic/transports). A client that reconnects sends the id. */
export function encodeEndpoint(path: string, id: string): string {
  return `id: ${id}\nretry: ${RETRY_MS}\nevent: endpoint\ndata: ${path}\n\n`
}

interface Events {
  onEvent(event: ServerEvent): void
  onRetry?(milliseconds: number): void
  /** Called when an event exceeds the limit; the stream cannot be read further. */
  onOverflow(): void
}

/** Reads SSE from bytes in arbitrary chunks. `limit` is the maximum length of an event, in characters. */
export function readEvents(limit: number, events: Events): (chunk: Uint8Array) => void {
  const decoder = new TextDecoder('utf-8')
  let isOver = false
  const parser = createParser({
    onEvent: (event) => {
      events.onEvent(event)
    },
    ...(events.onRetry && { onRetry: events.onRetry }),
    onError: (error) => {
      if (error.type !== 'max-buffer-size-exceeded') return
      isOver = true
      events.onOverflow()
    },
    maxBufferSize: limit,
  })
  return (chunk) => {
    if (!isOver) parser.feed(decoder.decode(chunk, { stream: true }))
  }
}
