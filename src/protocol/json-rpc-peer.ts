/**
 * One side of a JSON-RPC connection: pending requests by id, cancellation, progress. Knows no transport and no
 * method.
 */
import { type Notification } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { Registry } from '../core/registry.ts'
import {
  encodeErrorObject,
  encodeNotification,
  encodeRequest,
  encodeResult,
  idOf,
  type Id,
  type JsonRpcMessage,
  type JsonRpcNotification,
  parseMessages,
  type JsonRpcRequest,
  type JsonRpcResponse,
} from './jsonrpc.ts'

/** What a channel may want to know of a request it sends. */
export interface OutgoingRequest {
  /** The request's id; absent for notifications and replies. */
  readonly id?: number | undefined
  readonly method?: string | undefined
  /** Transport headers of this one message. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The peer's request that this message answers or belongs to. */
  readonly about?: Id | undefined
}

/** Carries messages to the other side. What arrives is given to `Peer.receive`. */
export interface Transport {
  /** Whether letting go of a request's stream is how it is cancelled (2026-07-28 over HTTP). */
  readonly cancelsByRelease?: boolean
  /** Sends one message. A rejection fails the request it carried; nothing means it is on its way. */
  send(message: string, exchange: OutgoingRequest): Promise<void> | undefined
  /** Releases what is held for a request that is no longer awaited. */
  release?(id: number): void
}

/** What the other side may start. `about` is the request of ours whose stream carried it, where that is known. */
export interface IncomingMessages {
  request(request: JsonRpcRequest, about: number | undefined): void
  notification(note: JsonRpcNotification, about: number | undefined): void
  /** Text that is no message. */
  noise(text: string, error: unknown): void
}

interface Options {
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly about?: Id | undefined
  onProgress?(note: Notification): void
}

/** A request that waits for its answer. */
class Pending {
  readonly onProgress: ((note: Notification) => void) | undefined
  readonly #end: () => void
  readonly #signal: AbortSignal | undefined
  readonly #onAbort: () => void
  readonly #turn = Promise.withResolvers<Payload>()

  constructor({ signal, onProgress }: Options, onAbort: () => void, end: () => void) {
    this.onProgress = onProgress
    this.#signal = signal
    this.#onAbort = onAbort
    this.#end = end
    signal?.addEventListener('abort', onAbort)
  }

  get promise(): Promise<Payload> {
    return this.#turn.promise
  }

  resolve(result: Payload): void {
    this.#settle()
    this.#turn.resolve(result)
  }

  reject(error: unknown): void {
    this.#settle()
    this.#turn.reject(error)
  }

  #settle(): void {
    this.#end()
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

/** Two-way JSON-RPC: sends requests and matches what comes back, whatever the transport. */
export class JsonRpcPeer {
  readonly #channel: Transport
  readonly #incoming: IncomingMessages
  readonly #pending = new Registry<number, Pending>()
  #lastId = 0

  constructor(channel: Transport, incoming: IncomingMessages) {
    this.#channel = channel
    this.#incoming = incoming
  }

  /** How many requests wait for an answer. */
  get waiting(): number {
    return this.#pending.size
  }

  /**
   * Sends a request; `params` may be made from the id it gets, which is also its progress token.
   * @throws UPSTREAM_ERROR with the peer's error, CANCELLED, or what the channel or `fail` threw
   */
  request(method: string, params: (id: number) => Payload, options: Options = {}): Promise<Payload> {
    const id = ++this.#lastId
    const { signal, about } = options
    if (signal?.aborted) return Promise.reject(cancelled(signal))
    let text: string
    try {
      text = encodeRequest(`${id}`, method, params(id))
    } catch (error) {
      return Promise.reject(error)
    }
    const onAbort = (): void => this.#cancel(id, method, options)
    const pending = new Pending(options, onAbort, () => this.#pending.delete(id))
    this.#pending.set(id, pending)
    const sent = this.#channel.send(text, { id, method, headers: options.headers, about })
    sent?.catch((error: unknown) => this.reject(id, error))
    return pending.promise
  }

  notify(method: string, params?: Payload, exchange: OutgoingRequest = {}): Promise<void> {
    return (
      this.#channel.send(encodeNotification(method, params), { method, ...exchange }) ?? Promise.resolve()
    )
  }

  respond(id: Id, result: Payload): Promise<void> {
    return this.#channel.send(encodeResult(id, result), { about: id }) ?? Promise.resolve()
  }

  respondError(id: Id, error: Payload): Promise<void> {
    return this.#channel.send(encodeErrorObject(id, error), { about: id }) ?? Promise.resolve()
  }

  /** Takes in text that arrived; `about` is the request of ours whose stream carried it. Never throws. */
  receive(text: string, about?: number): void {
    try {
      const message = parseMessages(text)
      // 2025-03-26 servers may join their answers in an array.
      if (message.kind === 'batch') for (const each of message.texts) this.receive(each, about)
      else this.#take(message, about)
    } catch (error) {
      this.#incoming.noise(text, error)
      const value = readJson(text)
      // A malformed answer is one nevertheless: nothing better will come.
      const isAnswer = isObject(value) && !Object.hasOwn(value, 'method')
      if (isAnswer) this.#find(idOf(text), about)?.reject(malformed(error))
    }
  }

  /** Fails one request, if it still waits. */
  reject(id: number, error: unknown): void {
    this.#pending.get(id)?.reject(error)
  }

  isWaiting(id: number): boolean {
    return this.#pending.has(id)
  }

  /** Fails every request that waits. */
  fail(error: unknown): void {
    for (const pending of this.#pending.values()) pending.reject(error)
  }

  #take(message: JsonRpcMessage, about: number | undefined): void {
    switch (message.kind) {
      case 'response':
        return this.#settle(message, about)
      case 'notification':
        return this.#note(message, about)
      case 'request':
        if (message.method !== 'ping') return this.#incoming.request(message, about)
        void this.respond(message.id, Payload.text('{}')).catch(() => undefined)
    }
  }

  #settle(response: JsonRpcResponse, about: number | undefined): void {
    const pending = this.#find(response.id, about)
    if (!pending) return
    if (response.error) return pending.reject(upstreamError(response.error))
    if (response.id === undefined) {
      // Only an error may come without an id (JSON-RPC 2.0, section 5). Its own stream brings no other answer.
      if (about !== undefined) pending.reject(malformed(new Error('a result without an id')))
      return
    }
    if (response.result) pending.resolve(response.result)
  }

  /**
   * Servers have answered `"7"` to 7, and `null` where they could not read the id. A request's own stream answers
   * no other: it may be another caller's.
   */
  #find(id: Id | undefined, about: number | undefined): Pending | undefined {
    if (id === undefined) return about === undefined ? this.#pending.only : this.#pending.get(about)
    const given = Number(id.startsWith('"') ? id.slice(1, -1) : id)
    return about === undefined || about === given ? this.#pending.get(given) : undefined
  }

  #note(note: JsonRpcNotification, about: number | undefined): void {
    if (note.method === 'notifications/progress') {
      // A token that is not of a request in flight is dropped: strict clients end the connection over one.
      this.#pending.get(Number(note.params.fields.progressToken))?.onProgress?.(note)
      return
    }
    this.#incoming.notification(note, about)
  }

  #cancel(id: number, method: string, { signal, about }: Options): void {
    const pending = this.#pending.get(id)
    if (!pending) return
    pending.reject(cancelled(signal))
    // `initialize` must not be cancelled (2025-11-25 basic/utilities/cancellation).
    if (!this.#channel.cancelsByRelease && method !== 'initialize') {
      const params = Payload.of({ requestId: id, reason: reasonOf(signal) })
      void this.notify('notifications/cancelled', params, { about }).catch(() => undefined)
    }
    this.#channel.release?.(id)
  }
}

/** A server's JSON-RPC error as a failure that relays it. */
function upstreamError(error: Payload): GatewayError {
  const { message } = error.fields
  const text = typeof message === 'string' ? message : 'The server answered with an error.'
  return new GatewayError('UPSTREAM_ERROR', text, { relayed: error })
}

function malformed(cause: unknown): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The server answered with a malformed message.', { cause })
}

function cancelled(signal: AbortSignal | undefined): unknown {
  const reason: unknown = signal?.reason
  if (reason instanceof DOMException && reason.name === 'TimeoutError') {
    return new GatewayError('OPERATION_TIMEOUT', 'The server did not answer in time.', { cause: reason })
  }
  return reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', reasonOf(signal))
}

function reasonOf(signal: AbortSignal | undefined): string {
  const reason: unknown = signal?.reason
  return reason instanceof GatewayError ? reason.message : 'The request was cancelled.'
}
