/** The requests of a session that are in flight, for cancellation and for the end of the session. */
import { GatewayError } from '../../core/error.ts'
import { Registry } from '../../core/registry.ts'
import { within } from '../../core/time/waiting.ts'
import type { Id, JsonRpcNotification } from '../../protocol/jsonrpc.ts'
import type { ResponseSink } from './response-sink.ts'

/** A request of the client that is not answered yet. */
export interface PendingRequest {
  readonly controller: AbortController
  readonly reply: ResponseSink
  /** It is `initialize`, which cannot be cancelled (2025-11-25 basic/utilities/cancellation). */
  readonly isOpening: boolean
}

/** How long requests that are ended may take to be answered, in milliseconds. */
const DRAIN_TIMEOUT_MS = 400

/** The requests of one session that are not answered yet. */
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

  /** Cancels the request a notification names, where it is under way and can be cancelled. */
  cancel({ params }: JsonRpcNotification): void {
    const id = params.at('requestId')?.text
    const found = id === undefined ? undefined : this.#running.get(id)
    if (!found || found.isOpening) return
    const { reason } = params.fields
    const why = typeof reason === 'string' ? readable(reason) : 'The client cancelled the request.'
    found.controller.abort(new GatewayError('CANCELLED', why))
  }

  /** Ends all of them. Resolves when they are answered, or after a while. */
  end(reason: GatewayError): Promise<void> {
    if (this.size === 0) return Promise.resolve()
    this.#none = Promise.withResolvers()
    for (const { controller } of this.#running.values()) controller.abort(reason)
    return within(this.#none.promise, DRAIN_TIMEOUT_MS, undefined)
  }
}

/** The failure of a request whose session ends first: it may have reached the server. */
export function sessionEnded(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The session ended before the call did, which may have taken effect.',
    {
      suggestion: 'Check whether the call took effect before making it again.',
    },
  )
}

/** How much of a reason goes on to logs and servers, in characters. */
const MAX_REASON_LENGTH = 200

/** A reason without what may be a key or a token: runs of letters and digits that are no words. */
function readable(reason: string): string {
  const short = reason.slice(0, MAX_REASON_LENGTH)
  return short.replaceAll(/(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}=*/gi, '***')
}
