/** Serves one client over a pair of streams. The first message determines its era. */
import type { Readable, Writable } from 'node:stream'
import { world } from '../core/world.ts'
import type { Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import type { Principal } from '../core/principal.ts'
import type { Refusal } from '../core/audit-step.ts'
import type { SessionMeter } from '../core/exchange.ts'
import { newRequestId } from '../core/identity.ts'
import type { AnswerDelivery } from '../core/slot.ts'
import type { RequestStateCodec } from '../protocol/request-state.ts'
import { serveBatch, takeBatch, ClientSession } from './session/session.ts'
import { drained, type ResponseSink } from './session/response-sink.ts'
import { serveStateless } from './stateless.ts'
import {
  classify,
  type Batch,
  checkNesting,
  encodeError,
  encodeErrorObject,
  idOf,
  type Id,
  type JsonRpcMessage,
  parseMessage,
  parseMessages,
} from '../protocol/jsonrpc.ts'
import { lift } from '../protocol/lift.ts'
import { encodeLine, lines } from '../protocol/lines.ts'
import { isForServers } from '../protocol/methods.ts'
import { modernError } from '../protocol/modern.ts'
import { latestModern, modernRevisions } from '../core/revisions.ts'

interface Options {
  readonly handle: Handler
  readonly seal: RequestStateCodec
  readonly upstream?: string
  readonly principal: Principal
  /** The maximum length of a line, in bytes. */
  readonly limit: number
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  /** Called for every rejected message. */
  onRefused?(refusal: Refusal): void
  /** Aborted when the gateway closes. */
  readonly closing?: AbortSignal
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** Serves one client over a pair of streams. Resolves when either of them is closed. */
export function serveStdio(input: Readable, output: Writable, options: Options): Promise<void> {
  const front = new StdioFront(output, options)
  const onOverflow = (bytes: number): void => front.refuse(tooLong(bytes, options.limit))
  const onLine = (line: string, isSound: boolean): void =>
    isSound ? front.receive(line) : front.refuse(notUtf8())
  input.on('data', lines(options.limit, onLine, onOverflow))
  options.closing?.addEventListener('abort', () => front.end())
  return new Promise((resolve) => {
    const end = (): void => {
      front.close()
      resolve()
    }
    input.once('end', end)
    input.once('close', end)
    input.once('error', end)
    // A client that no longer reads will not send requests either.
    output.on('error', end)
  })
}

/** One client on stdio. Its first message determines the era of the connection. */
class StdioFront {
  readonly #output: Writable
  readonly #options: Options
  readonly #session: ClientSession
  /** Unique, because several gateways may share a store. */
  readonly #id = `stdio-${world.randomUUID()}`
  readonly #running = new Map<Id, AbortController>()
  #era: 'legacy' | 'modern' | undefined

  constructor(output: Writable, options: Options) {
    this.#output = output
    this.#options = options
    this.#session = new ClientSession({
      ...options,
      id: this.#id,
      send: (message) => this.#write(message),
      channel: { isOpen: () => !output.destroyed, drained: () => drained(output) },
    })
  }

  receive(line: string): void {
    try {
      const message = this.#era === 'legacy' ? parseMessages(line) : parseMessage(line)
      checkNesting(line)
      if (message.kind === 'batch') return this.#batch(message)
      this.#era ??= message.kind === 'response' ? undefined : classify(message, undefined)
      if (this.#era === 'modern') this.#stateless(message)
      else this.#sessionful(message, line)
    } catch (error) {
      this.refuse(asGatewayError(error), idOf(line))
    }
  }

  refuse(error: GatewayError, id: Id = 'null'): void {
    const requestId = newRequestId()
    this.#reportRefusal(error, requestId)
    this.#write(encodeError(id, error, requestId))
  }

  /** Ends the session. `close()` also cancels the requests outside it. */
  end(): void {
    background(this.#session.end(), this.#options.log)
  }

  close(): void {
    this.#session.close()
    for (const controller of this.#running.values()) controller.abort()
  }

  #sessionful(message: JsonRpcMessage, line: string): void {
    if (message.kind === 'notification') this.#session.notification(message)
    else if (message.kind === 'response') this.#session.response(message, line)
    else background(this.#session.request(message, this.#reply()), this.#options.log)
  }

  #batch(batch: Batch): void {
    const requests = takeBatch(this.#session, batch)
    if (requests.length === 0) return
    const reply = { ...this.#reply(), isStream: false }
    background(serveBatch(this.#session, requests, reply), this.#options.log)
  }

  #stateless(message: JsonRpcMessage): void {
    const { handle, seal, upstream, principal, log } = this.#options
    if (message.kind === 'response') return
    if (message.kind === 'notification') {
      if (message.method === 'notifications/cancelled') {
        this.#running.get(message.params.at('requestId')?.text ?? '')?.abort()
      }
      if (!isForServers(message.method)) return
      const modern = { era: 'modern', revision: latestModern.name } as const
      const client = { ...modern, capabilities: {}, session: this.#id }
      const controller = new AbortController()
      const call = lift(message, {
        requestId: newRequestId(),
        upstream,
        client,
        principal,
        controller,
        emit: () => undefined,
      })
      return background(handle(call), log)
    }
    if (message.method === 'initialize') throw pinned(message.params.fields.protocolVersion)
    if (this.#running.has(message.id))
      throw new GatewayError('INVALID_REQUEST', 'Invalid request: a request with this id is in flight.')
    const controller = new AbortController()
    this.#running.set(message.id, controller)
    const reply = this.#reply()
    const served = serveStateless(message, reply, {
      handle,
      seal,
      upstream,
      principal,
      controller,
      session: this.#id,
      delivery: deliveryUntil(controller.signal),
    })
    const answered = served.catch((thrown: unknown) => {
      const error = asGatewayError(thrown)
      this.#reportRefusal(error, reply.request.requestId)
      this.#write(encodeErrorObject(message.id, modernError(error, reply.request.requestId)))
    })
    background(
      answered.finally(() => this.#running.delete(message.id)),
      log,
    )
  }

  #reportRefusal(error: GatewayError, requestId: string): void {
    const { principal, onRefused } = this.#options
    onRefused?.({ requestId, error, request: 'stdio', principal: principal.id })
  }

  #reply(): ResponseSink {
    return {
      request: { requestId: newRequestId() },
      emit: (message) => this.#write(message),
      drained: () => drained(this.#output),
      end: (message) => {
        if (message !== undefined) this.#write(message)
      },
    }
  }

  #write(message: string): void {
    if (!this.#output.destroyed) this.#output.write(encodeLine(message))
  }
}

/** The answer to a request is lost with its cancellation, or with the connection, which both abort it without a reason. */
function deliveryUntil(signal: AbortSignal): AnswerDelivery {
  const isLost = (): boolean => signal.aborted && !(signal.reason instanceof GatewayError)
  return {
    isLost,
    onLost: (listener) => {
      signal.addEventListener('abort', () => (isLost() ? listener() : undefined))
    },
  }
}

/** Rejects `initialize` on a connection that started without a handshake. */
function pinned(requested: unknown): GatewayError {
  return new GatewayError(
    'UNSUPPORTED_VERSION',
    'Unsupported protocol version: this connection started without a handshake.',
    {
      data: { supported: modernRevisions, requested },
    },
  )
}

function notUtf8(): GatewayError {
  return new GatewayError('PARSE_ERROR', 'Parse error: the message is not valid UTF-8.')
}

function tooLong(bytes: number, limit: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `The message has ${bytes} bytes; the limit is ${limit}.`)
}
