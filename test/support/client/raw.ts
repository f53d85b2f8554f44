import { type IncomingMessage, request as httpRequest } from 'node:http'
import type { HeaderMap } from '../server/journal.ts'
import { type SseEvent, SseParser } from './sse-parser.ts'

/** A request of which every byte is given. */
export interface RawRequest {
  readonly method: string
  readonly headers: HeaderMap
  readonly body?: string | Buffer
  /** Breaks the connection. */
  readonly signal?: AbortSignal
}

/** An answer whose head has arrived. */
export interface OpenReply {
  readonly status: number
  readonly headers: HeaderMap
  /** The events of the body, as they come. */
  events(): AsyncGenerator<SseEvent>
  /** The rest of the body. */
  text(): Promise<string>
  /** Breaks the connection. */
  destroy(): void
}

/** A whole answer. */
export interface RawReply {
  readonly status: number
  readonly headers: HeaderMap
  readonly text: string
  /** The events in the text, when it is an event stream. */
  readonly events: readonly SseEvent[]
}

/** Sends a request and waits for the head of the answer. */
export function open(url: string, { body, ...options }: RawRequest): Promise<OpenReply> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { ...options, agent: false }, (response) => resolve(openReply(response)))
    request.on('error', reject)
    request.end(body)
  })
}

/** Posts a body and waits for the whole answer. */
export async function post(url: string, body: string | Buffer, headers: HeaderMap = {}): Promise<RawReply> {
  return whole(await open(url, { method: 'POST', headers: { ...usual, ...lower(headers) }, body }))
}

/** The headers of a POST as every client of Streamable HTTP sends them. */
export const usual: HeaderMap = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
}

/** Opens an event stream with GET and gives its events as they come. */
export async function* events(url: string, headers: HeaderMap = {}): AsyncGenerator<SseEvent> {
  const reply = await open(url, {
    method: 'GET',
    headers: { accept: 'text/event-stream', ...lower(headers) },
  })
  try {
    yield* reply.events()
  } finally {
    reply.destroy()
  }
}

/** Waits for the rest of an answer. */
export async function whole(reply: OpenReply): Promise<RawReply> {
  const text = await reply.text()
  const isStream = (reply.headers['content-type'] ?? '').startsWith('text/event-stream')
  return {
    status: reply.status,
    headers: reply.headers,
    text,
    events: isStream ? new SseParser().push(text) : [],
  }
}

/** Headers with lower-case names, so that one can replace another. */
export function lower(headers: HeaderMap): HeaderMap {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
}

function openReply(response: IncomingMessage): OpenReply {
  const headers = Object.fromEntries(
    Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
  )
  // A connection that breaks shows in whoever reads the body; nobody may be reading.
  response.on('error', () => {})
  return {
    status: response.statusCode ?? 0,
    headers,
    events: () => eventsOf(response),
    text: async () => {
      const parts: Buffer[] = []
      for await (const part of response) parts.push(part)
      return Buffer.concat(parts).toString()
    },
    destroy: () => void response.destroy(),
  }
}

async function* eventsOf(response: IncomingMessage): AsyncGenerator<SseEvent> {
  const decoder = new TextDecoder()
  const parser = new SseParser()
  for await (const bytes of response) yield* parser.push(decoder.decode(bytes, { stream: true }))
}
