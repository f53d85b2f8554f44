/**
 * One side of a JSON-RPC connection: pending requests by id, cancellation, progress. Independent of transports and
 * methods.
 */
import { type Notification } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import type { Exchange } from '../core/exchange.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { Registry } from '../core/registry.ts'
import type { Spool } from '../core/spool.ts'
import { world } from '../core/world.ts'
import {
  encodeErrorObject,
  encodeNotification,
  encodeRequest,
  encodeResult,
  errorObject,
  idOf,
  type Id,
  type JsonRpcMessage,
  type JsonRpcNotification,
  parseMessages,
  type JsonRpcRequest,
  type JsonRpcResponse,
} from './jsonrpc.ts'

/** Properties of an outgoing message for the transport. */
export interface OutgoingRequest {
  /** The request's id; absent for notifications and responses. */
  readonly id?: number | undefined
  readonly method?: string | undefined
  /** Transport headers of this message. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The peer's request that this message answers or belongs to. */
  readonly about?: Id | undefined
}

/** Sends messages to the other side. Received messages are passed to `JsonRpcPeer.receive`. */
export interface Transport {
  /** Whether closing a request's stream cancels the request (2026-07-28 over HTTP). */
  readonly cancelsByRelease?: boolean
  /** Sends one message. A rejection fails its request; undefined means that it is being sent. */
  send(message: string, exchange: OutgoingRequest): Promise<void> | undefined
  /** Releases the resources of a request whose response is no longer awaited. */
  release?(id: number): void
}

/**
 * Handlers for messages the other side initiates. `about` is the local request whose stream carried the message, if
 * known.
 */
export interface IncomingMessages {
  request(request: JsonRpcRequest, about: number | undefined): void
  notification(note: JsonRpcNotification, about: number | undefined): void
  /** Text that is not a message. */
  noise(text: string, error: unknown): void
  /** A request or notification to the other side was answered, or failed; absent where nothing is counted. */
  exchanged?: ((exchange: Exchange) => void) | undefined
}

interface RequestContext {
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly about?: Id | undefined
  /** Keeps the long strings of the result; without one they are in it. */
  readonly spool?: Spool | undefined
  /** The tool or prompt that the request names, for what counts it. */
  readonly name?: string | undefined
  onProgress?(note: Notification): void
}

type Message = ReturnType<typeof parseMessages>

interface Restoring {
  readonly spool: Spool
  readonly about: number | undefined
  readonly isRedacted: boolean
}

/** A request that waits for its response. */
class Pending {
  readonly onProgress: ((note: Notification) => void) | undefined
  readonly spool: Spool | undefined
  /** Its response has come, and gets its strings back: the end of the connection does not matter any more. */
  isAnswered = false
  /** Whether its own stream ended without the response, which may come on another one. */
  isElsewhere = false
  /** The response that came on the stream of another request before that. */
  early: (() => void) | undefined
  readonly #end: (result: Payload | undefined, error: unknown) => void
  readonly #signal: AbortSignal | undefined
  readonly #onAbort: () => void
  readonly #turn = Promise.withResolvers<Payload>()

  constructor(
    { signal, onProgress, spool }: RequestContext,
    onAbort: () => void,
    end: (result: Payload | undefined, error: unknown) => void,
  ) {
    this.onProgress = onProgress
    this.spool = spool
    this.#signal = signal
    this.#onAbort = onAbort
    this.#end = end
    signal?.addEventListener('abort', onAbort)
  }

  get promise(): Promise<Payload> {
    return this.#turn.promise
  }

  resolve(result: Payload): void {
    this.#settle(result)
    this.#turn.resolve(result)
  }

  reject(error: unknown): void {
    this.#settle(undefined, error)
    this.#turn.reject(error)
  }

  #settle(result: Payload | undefined, error?: unknown): void {
    this.#end(result, error)
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

/** Bidirectional JSON-RPC over any transport: sends requests and matches the responses. */
export class JsonRpcPeer {
  readonly #channel: Transport
  readonly #incoming: IncomingMessages
  readonly #pending = new Registry<number, Pending>()
  /** Those that kept strings of messages of this connection. */
  readonly #spools = new Set<Spool>()
  /** The end of putting strings back into messages, which are received one after the other. */
  #restored: Promise<void> = Promise.resolve()
  #lastId: number

  /** Ids of requests follow `lastId`. */
  constructor(channel: Transport, incoming: IncomingMessages, lastId = 0) {
    this.#channel = channel
    this.#incoming = incoming
    this.#lastId = lastId
  }

  /** The number of pending requests. */
  get waiting(): number {
    return this.#pending.size
  }

  /**
   * Sends a request; `params` may be built from its id, which is also its progress token.
   * @throws UPSTREAM_ERROR with the peer's error, CANCELLED, or what the transport or `fail` threw
   */
  request(method: string, params: (id: number) => Payload, options: RequestContext = {}): Promise<Payload> {
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
    const { exchanged } = this.#incoming
    const start = exchanged ? world.monotonic() : 0
    const end = (result: Payload | undefined, error: unknown): void => {
      // A request can be ended twice, for example by its transport after it was cancelled.
      if (!this.#pending.delete(id)) return
      exchanged?.({ method, name: options.name, seconds: secondsSince(start), result, error })
    }
    const pending = new Pending(options, onAbort, end)
    this.#pending.set(id, pending)
    const sent = this.#channel.send(text, { id, method, headers: options.headers, about })
    sent?.catch((error: unknown) => this.reject(id, error))
    return pending.promise
  }

  async notify(method: string, params?: Payload, exchange: OutgoingRequest = {}): Promise<void> {
    const start = world.monotonic()
    const ended = (error?: unknown): void =>
      this.#incoming.exchanged?.({ method, seconds: secondsSince(start), error })
    try {
      await this.#channel.send(encodeNotification(method, params), { method, ...exchange })
      ended()
    } catch (error) {
      ended(error)
      throw error
    }
  }

  respond(id: Id, result: Payload): Promise<void> {
    return this.#channel.send(encodeResult(id, result), { about: id }) ?? Promise.resolve()
  }

  respondError(id: Id, error: Payload): Promise<void> {
    return this.#channel.send(encodeErrorObject(id, error), { about: id }) ?? Promise.resolve()
  }

  /**
   * Where long strings of the message that arrives now are kept, if it may be a response to a request that wants that.
   */
  spool(about?: number): Spool | undefined {
    const waiting = about === undefined ? [...this.#pending.values()] : [this.#pending.get(about)]
    const spool = waiting.find((pending) => pending?.spool)?.spool
    if (spool) this.#spools.add(spool)
    return spool
  }

  /**
   * Handles received text; `about` is the local request whose stream carried it. `isRedacted` if it had secrets, which
   * the result then says (`Payload.isRedacted`). Never throws.
   */
  receive(text: string, about?: number, isRedacted = false): void {
    try {
      const message = parseMessages(text)
      for (const spool of this.#spools)
        if (spool.isIn(text) && !this.#expects(spool, message, about))
          return this.#restore(text, message, { spool, about, isRedacted })
      // 2025-03-26 servers may send responses as a batch.
      if (message.kind === 'batch') for (const item of message.texts) this.receive(item, about, isRedacted)
      else this.#take(message, about, isRedacted)
    } catch (error) {
      for (const spool of this.#spools) if (spool.isIn(text)) spool.discard(text)
      this.#incoming.noise(text, error)
      const value = readJson(text)
      // A malformed response ends its request: no better one will follow.
      const isAnswer = isObject(value) && !Object.hasOwn(value, 'method')
      if (isAnswer) this.#find(idOf(text), about)?.reject(malformed(error))
      else this.#refuse(idOf(text), error)
    }
  }

  /** Fails one request, if it is still pending. */
  reject(id: number, error: unknown): void {
    const pending = this.#pending.get(id)
    if (pending?.isAnswered === false) pending.reject(error)
  }

  isWaiting(id: number): boolean {
    return this.#pending.get(id)?.isAnswered === false
  }

  /** The stream of a request ended without its response, which may come, or has come, on the stream of another one. */
  answeredElsewhere(id: number): void {
    const pending = this.#pending.get(id)
    if (!pending) return
    pending.isElsewhere = true
    pending.early?.()
  }

  /** Fails every pending request. */
  fail(error: unknown): void {
    for (const pending of this.#pending.values()) if (!pending.isAnswered) pending.reject(error)
  }

  #take(message: JsonRpcMessage, about: number | undefined, isRedacted: boolean): void {
    switch (message.kind) {
      case 'response':
        return this.#settle(message, about, isRedacted)
      case 'notification':
        return this.#note(message, about)
      case 'request':
        if (message.method !== 'ping') return this.#incoming.request(message, about)
        void this.respond(message.id, Payload.text('{}')).catch(() => undefined)
    }
  }

  /** Answers a request that cannot be read: the other side would wait for it. */
  #refuse(id: Id, error: unknown): void {
    if (id !== 'null') void this.respondError(id, errorObject(asGatewayError(error))).catch(() => undefined)
  }

  /** Whether a message is the final result of a request that has its long strings kept there. */
  #expects(spool: Spool, message: Message, about: number | undefined): boolean {
    if (message.kind !== 'response' || !message.result) return false
    const { resultType = 'complete', task } = message.result.fields
    return resultType === 'complete' && task === undefined && this.#find(message.id, about)?.spool === spool
  }

  /** Receives a message again, with its long strings in it; unless it is a response without a pending request. */
  #restore(text: string, message: Message, { spool, about, isRedacted }: Restoring): void {
    const pending =
      message.kind === 'response'
        ? this.#find(message.id, about)
        : message.kind === 'batch' && about !== undefined
          ? this.#pending.get(about)
          : undefined
    if (message.kind === 'response' && !pending) return spool.discard(text)
    if (pending) pending.isAnswered = true
    const received = async (): Promise<void> => {
      try {
        this.receive(await spool.restored(text), about, isRedacted)
        // A batch need not have the response that was expected.
        pending?.reject(malformed(new Error('the response is missing')))
      } catch (error) {
        this.#incoming.noise(text, error)
        pending?.reject(error)
      }
    }
    this.#restored = this.#restored.then(received)
  }

  #settle(response: JsonRpcResponse, about: number | undefined, isRedacted: boolean): void {
    const pending = this.#find(response.id, about)
    if (!pending) {
      const other = this.#find(response.id, undefined)
      if (other && response.id !== undefined)
        other.early ??= () => this.#settle(response, undefined, isRedacted)
      return
    }
    if (response.error) return pending.reject(upstreamError(response.error))
    if (response.id === undefined) {
      // Only an error may lack an id (JSON-RPC 2.0, section 5). The stream of a request carries no other response.
      if (about !== undefined) pending.reject(malformed(new Error('the result has no id')))
      return
    }
    if (response.result) pending.resolve(isRedacted ? response.result.asRedacted() : response.result)
  }

  /**
   * Some servers answer `"7"` to 7, and `null` if they could not read the id. The stream of a request answers no other
   * request, which may belong to another caller, unless that one's own stream ended without a response.
   */
  #find(id: Id | undefined, about: number | undefined): Pending | undefined {
    if (id === undefined) return about === undefined ? this.#pending.only : this.#pending.get(about)
    const given = Number(id.startsWith('"') ? id.slice(1, -1) : id)
    const pending = this.#pending.get(given)
    return about === undefined || about === given || pending?.isElsewhere === true ? pending : undefined
  }

  #note(note: JsonRpcNotification, about: number | undefined): void {
    if (note.method === 'notifications/progress') {
      // Progress tokens of unknown requests are dropped: strict clients close the connection over one.
      this.#pending.get(Number(note.params.fields.progressToken))?.onProgress?.(note)
      return
    }
    this.#incoming.notification(note, about)
  }

  #cancel(id: number, method: string, { signal, about }: RequestContext): void {
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

function secondsSince(start: number): number {
  return (world.monotonic() - start) / 1000
}

/** Relays a server's JSON-RPC error as a `GatewayError`. */
function upstreamError(error: Payload): GatewayError {
  const { message } = error.fields
  const text = typeof message === 'string' ? message : 'The server answered with an error.'
  return new GatewayError('UPSTREAM_ERROR', text, { relayed: error })
}

function malformed(cause: unknown): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The server sent a malformed response.', { cause })
}

function cancelled(signal: AbortSignal | undefined): unknown {
  const reason: unknown = signal?.reason
  if (reason instanceof DOMException && reason.name === 'TimeoutError') {
    return new GatewayError('OPERATION_TIMEOUT', 'The server did not respond in time.', { cause: reason })
  }
  return reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', reasonOf(signal))
}

function reasonOf(signal: AbortSignal | undefined): string {
  const reason: unknown = signal?.reason
  return reason instanceof GatewayError ? reason.message : 'The request was cancelled.'
}
