import { type OpenReply, open, post, type RawReply, usual } from './client/raw.ts'
import type { SseEvent } from './client/sse-parser.ts'
import type { HeaderMap } from './server/journal.ts'
import { isObject, type Json } from './server/json.ts'

/** A session over Streamable HTTP of which a test sees every stream and every event. */
export interface RawSession {
  readonly headers: HeaderMap
  /** Posts a message and gives the answer once its head is there. */
  send(message: unknown): Promise<OpenReply>
  /** Posts a message and gives the whole answer. */
  post(message: unknown): Promise<RawReply>
  /** Opens the session's own stream, or takes one up after an event. */
  get(lastEventId?: string): Promise<OpenReply>
}

/** Shakes hands by hand. */
export async function openSession(
  url: string,
  revision: string,
  capabilities: Json = {},
  more: HeaderMap = {},
): Promise<RawSession> {
  const clientInfo = { name: 'raw', version: '1' }
  const params = { protocolVersion: revision, capabilities, clientInfo }
  const opening = await post(
    url,
    JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params }),
    more,
  )
  const headers: HeaderMap = {
    ...more,
    'mcp-session-id': opening.headers['mcp-session-id'] ?? '',
    ...(revision >= '2025-06-18' && { 'mcp-protocol-version': revision }),
  }
  await post(url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', headers)
  return {
    headers,
    send: (message) => {
      return open(url, { method: 'POST', headers: { ...usual, ...headers }, body: JSON.stringify(message) })
    },
    post: (message) => post(url, JSON.stringify(message), headers),
    get: (lastEventId) => {
      const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId }
      return open(url, { method: 'GET', headers: { accept: 'text/event-stream', ...headers, ...resume } })
    },
  }
}

/** A `tools/call` as a message. */
export function toolCall(id: number | string, name: string, args: Json = {}, progressToken?: string): Json {
  const meta = progressToken === undefined ? {} : { _meta: { progressToken } }
  return { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args, ...meta } }
}

/** Reads events until one satisfies the predicate; gives all of them. */
export async function eventsUntil(
  events: AsyncIterator<SseEvent>,
  predicate: (event: SseEvent) => boolean,
): Promise<SseEvent[]> {
  const read: SseEvent[] = []
  for (;;) {
    const next = await events.next()
    if (next.done === true) throw new Error(`the stream ended after ${JSON.stringify(read)}`)
    read.push(next.value)
    if (predicate(next.value)) return read
  }
}

/** The message an event carries; empty for one without data. */
export function messageOf(event: SseEvent | undefined): Json {
  const value: unknown = event?.data ? JSON.parse(event.data) : undefined
  return isObject(value) ? value : {}
}
