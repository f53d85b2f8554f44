import type { IncomingMessage, ServerResponse } from 'node:http'
import { ByteWriter } from './bytes.ts'
import { type Channel, errorReply, type RpcError } from './call.ts'
import { EventStream } from './event-stream.ts'
import type { HeaderMap } from './journal.ts'
import { encode, type Id } from './json.ts'
import type { ServerOptions } from './options.ts'

/** How the answer to a POST may look. */
export interface ReplyForm {
  readonly options: ServerOptions
  readonly headers: Readonly<Record<string, string>>
  readonly form: 'json' | 'sse' | 'auto'
  /** The name of its event stream. */
  readonly name: string
  /** Told when an event stream began. */
  began?(stream: EventStream): void
}

/** The answer to a POST: JSON, or an event stream from the first message on. */
export function httpReply(
  response: ServerResponse,
  { options, headers, form, name, began }: ReplyForm,
): Channel {
  let stream: EventStream | undefined
  const streaming = () => {
    if (stream) return stream
    stream = new EventStream(options, name)
    began?.(stream)
    stream.attach(response, headers)
    return stream
  }
  if (form === 'sse') streaming()
  return {
    send: (message) => {
      if (form !== 'json') streaming().send(message)
    },
    finish: (reply, status = 200) => {
      if (stream) {
        if (reply !== undefined) stream.send(reply)
        return stream.end()
      }
      if (reply === undefined) return void response.destroy()
      response.writeHead(status, { ...headers, 'Content-Type': 'application/json' })
      const writer = new ByteWriter(response, options.chunk)
      writer.write(encode(reply))
      writer.end()
    },
    crash: () => void response.socket?.destroy(),
    drop: () => stream?.detach(),
  }
}

/** Refuses an HTTP request with a JSON-RPC error that belongs to no request, or to the one given. */
export function refuse(response: ServerResponse, status: number, error: RpcError, id?: Id | null): void {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(encode(errorReply(id, error)))
}

/** Reads the whole body of a request. */
export async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

/** The headers of a request as plain strings. */
export function headersOf(request: IncomingMessage): HeaderMap {
  return Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
}

/** What is wrong with the form of a POST of any revision, as a status. */
export function refusalOf(headers: HeaderMap): { status: number; reason: string } | undefined {
  const accept = headers['accept'] ?? ''
  if (!accept.includes('application/json') || !accept.includes('text/event-stream')) {
    return {
      status: 406,
      reason: 'Not Acceptable: the client must accept application/json and text/event-stream',
    }
  }
  if (!(headers['content-type'] ?? '').startsWith('application/json')) {
    return { status: 415, reason: 'Unsupported Media Type: Content-Type must be application/json' }
  }
  return undefined
}

/** What is wrong with where an HTTP request came from, as a reason to refuse it. */
export function foreignOrigin(headers: HeaderMap): string | undefined {
  const isLocal = (host: string) => /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(host)
  const { host = '', origin } = headers
  if (!isLocal(host)) return `Invalid Host: ${host}`
  if (origin !== undefined && !isLocal(origin.replace(/^https?:\/\//, ''))) return `Invalid Origin: ${origin}`
  return undefined
}
