/** The in-flight requests of a session: each can be cancelled, and all of them end with the session. */
import { GatewayError } from '../../core/error.ts'
import { Registry } from '../../core/registry.ts'
import { within } from '../../core/time/waiting.ts'
import type { Id, JsonRpcNotification, JsonRpcRequest } from '../../protocol/jsonrpc.ts'
import { encodeLegacyError, legacyErrorCode } from '../../protocol/legacy.ts'
import type { ResponseSink } from './response-sink.ts'

/** An in-flight request of the client. */
export interface PendingRequest {
  readonly request: JsonRpcRequest
  readonly controller: AbortController
  readonly reply: ResponseSink
  /** Whether it is `initialize`, which cannot be cancelled (2025-11-25 basic/utilities/cancellation). */
  readonly isOpening: boolean
  /** Its call goes on without the session. */
  isRetained?: true
  /** It was answered before its call ended. */
  isAnswered?: true
}

/** The time aborted requests have to be answered, in milliseconds. */
const DRAIN_TIMEOUT_MS = 400

/** The in-flight requests of one session. */
export class PendingRequests {
  readonly #running = new Registry<Id, PendingRequest>()
  #none = Promise.withResolvers<void>()

  get size(): number {
    return this.#running.size
  }

  get(id: Id): PendingRequest | undefined {
    return this.#running.get(id)
  }

  add(id: Id, running: PendingRequest): void {
    this.#running.set(id, running)
  }

  delete(id: Id): void {
    this.#running.delete(id)
    if (this.size === 0) this.#none.resolve()
  }

  /** Cancels the request named in a notification, if it is in flight and can be cancelled. */
  cancel({ params }: JsonRpcNotification): void {
    const id = params.at('requestId')?.text
    const found = id === undefined ? undefined : this.#running.get(id)
    if (!found || found.isOpening) return
    const { reason } = params.fields
    const why = typeof reason === 'string' ? readable(reason) : 'The client cancelled the request.'
    found.controller.abort(new GatewayError('CANCELLED', why))
  }

  /** Keeps the call of a request from ending with the session. */
  retain(id: Id): void {
    const found = this.#running.get(id)
    if (found) found.isRetained = true
  }

  /**
   * Aborts all requests but those whose calls go on, which are answered after a timeout. Resolves when all of them are
   * answered.
   */
  async end(reason: GatewayError): Promise<void> {
    if (this.size === 0) return
    this.#none = Promise.withResolvers()
    for (const { controller, isRetained } of this.#running.values()) if (!isRetained) controller.abort(reason)
    await within(this.#none.promise, DRAIN_TIMEOUT_MS, undefined)
    for (const pending of [...this.#running.values()]) if (pending.isRetained) this.#answer(pending, reason)
  }

  #answer(pending: PendingRequest, reason: GatewayError): void {
    const { request, reply } = pending
    pending.isAnswered = true
    this.delete(request.id)
    if (reason.code === 'CANCELLED') return reply.end()
    reply.end(encodeLegacyError(request, reason, reply.requestId), legacyErrorCode(request, reason))
  }
}

/** The maximum length of a reason in logs and to servers, in characters. */
const MAX_REASON_LENGTH = 200

/** Masks possible keys and tokens in a reason: runs of letters and digits that are not words. */
function readable(reason: string): string {
  const short = reason.slice(0, MAX_REASON_LENGTH)
  return short.replaceAll(/(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}=*/gi, '***')
}
