/**
 * How long the bodies of requests may take to arrive, and how many that are not read any more. Node has one limit for all
 * requests of a server, and files take longer than others, so each request has its own.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Collect, exposedCollect } from '../../core/collect.ts'

/** How long a body may take, in milliseconds. */
const ARRIVAL_TIMEOUT_MS = 30_000
/** Of how many refused requests the rest of the body is discarded at the same time: a client may read no response before it has sent all. */
const MAX_DISCARDED = 16
/** After how many bytes on closed connections their buffers are collected. */
const COLLECTED_BYTES = 8 * 1024 * 1024

/** The requests whose bodies have not arrived. */
export class Arrivals {
  readonly #timeoutMs: number
  readonly #timers = new WeakMap<IncomingMessage, NodeJS.Timeout>()
  readonly #discarded = new Set<object>()
  /** How many bytes came on connections that were closed since the last collection. */
  #uncollected = 0
  #collect: Collect | undefined

  constructor(timeoutMs = ARRIVAL_TIMEOUT_MS) {
    this.#timeoutMs = timeoutMs
  }

  /** Ends the connection of a request if its body takes too long. */
  limit(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = incoming.headers
    if (length === '0' && encoding === undefined) return
    const timer = setTimeout(end, this.#timeoutMs, incoming, outgoing)
    this.#timers.set(incoming, timer)
    incoming.once('close', () => clearTimeout(timer))
    // Node reads on, to use the connection again: what it discards takes memory until the next collection.
    outgoing.once('finish', () => {
      if (!incoming.complete && !this.mayDiscard(incoming)) this.#close(incoming)
    })
  }

  #close({ socket }: IncomingMessage): void {
    this.#uncollected += socket.bytesRead
    socket.destroy()
    if (this.#uncollected < COLLECTED_BYTES) return
    this.#uncollected = 0
    this.#collect ??= exposedCollect()
    this.#collect()
  }

  /** Whether the rest of a body may be read although it is not wanted. If not, its connection has to be closed. */
  mayDiscard(incoming: Pick<IncomingMessage, 'once'>): boolean {
    if (this.#discarded.has(incoming)) return true
    if (this.#discarded.size >= MAX_DISCARDED) return false
    this.#discarded.add(incoming)
    incoming.once('close', () => this.#discarded.delete(incoming))
    return true
  }

  /** Gives a request all the time that the server gives to any. */
  exempt(incoming: IncomingMessage): void {
    clearTimeout(this.#timers.get(incoming))
  }
}

/** As Node does it. */
function end({ complete: isComplete, socket }: IncomingMessage, { headersSent }: ServerResponse): void {
  if (isComplete) return
  if (!headersSent && socket.writable)
    socket.write('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n')
  socket.destroy()
}
