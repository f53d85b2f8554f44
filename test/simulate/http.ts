/** HTTP requests of simulated clients, each over a connection of its own, and what comes back: JSON or an event stream. */
import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as begin,
} from 'node:http'
import { SseParser } from '../support/client/sse-parser.ts'
import type { SimulatedSocket } from './network.ts'

/** A request. */
export interface HttpRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Gets each message of the response: the body, or the data of each event. */
  onMessage?(text: string): void
  /** Called once the response begins. */
  onHead?(status: number): void
  /** Closes the connection when it is aborted. */
  readonly signal: AbortSignal
}

/** The response; without a status if the connection ended before. */
export interface HttpResponse {
  readonly status?: number
  readonly headers: IncomingHttpHeaders
}

const JSON_TYPE = 'application/json'

/** Sends a request, and resolves at the end of the response, whether it is whole or not. */
export function exchange(socket: SimulatedSocket, given: HttpRequest): Promise<HttpResponse> {
  const { method, path, body, signal } = given
  return new Promise((resolve) => {
    const lost = (): void => resolve({ headers: {} })
    if (signal.aborted) return lost()
    const headers = {
      host: 'localhost',
      accept: method === 'GET' ? 'text/event-stream' : `${JSON_TYPE}, text/event-stream`,
      ...(body !== undefined && { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) }),
      ...given.headers,
    }
    const sent: ClientRequest = begin({ createConnection: () => socket, method, path, headers })
    signal.addEventListener('abort', () => void sent.destroy())
    let hasBegun = false
    sent.on('response', (response) => {
      hasBegun = true
      read(response, given, resolve)
    })
    // What becomes of a response that has begun is its own matter.
    const over = (): void => (hasBegun ? undefined : lost())
    sent.on('error', over)
    sent.on('close', over)
    sent.end(body)
  })
}

function read(
  response: IncomingMessage,
  { onHead, onMessage }: HttpRequest,
  onEnd: (response: HttpResponse) => void,
): void {
  const { statusCode: status = 0, headers } = response
  const isStream = headers['content-type'] === 'text/event-stream'
  const events = new SseParser()
  let text = ''
  onHead?.(status)
  response.setEncoding('utf8')
  response.on('data', (piece: string) => {
    text += piece
    for (const { data = '' } of isStream ? events.push(piece) : []) if (data !== '') onMessage?.(data)
  })
  response.on('end', () => {
    if (!isStream && text !== '') onMessage?.(text)
    onEnd({ status, headers })
  })
  response.on('error', () => undefined)
  response.on('close', () => onEnd({ status, headers }))
}
