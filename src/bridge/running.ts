import { GatewayError } from '../core/error.ts'
import type { Registry } from '../core/registry.ts'
import type { Id, Notification } from '../wire/jsonrpc.ts'
import type { Reply } from './reply.ts'

/** A request of the client that is not answered yet. */
export interface Running {
  readonly controller: AbortController
  readonly reply: Reply
  /** It is `initialize`, which can not be cancelled (2025-11-25 basic/utilities/cancellation). */
  readonly isOpening: boolean
}

/** Cancels the request a notification names, where it is under way and can be cancelled. */
export function cancelRunning(running: Registry<Id, Running>, { params }: Notification): void {
  const id = params.at('requestId')?.text
  const found = id === undefined ? undefined : running.get(id)
  if (!found || found.isOpening) return
  const { reason } = params.fields
  const why = typeof reason === 'string' ? readable(reason) : 'The client cancelled the request.'
  found.controller.abort(new GatewayError('CANCELLED', why))
}

/** How much of a reason goes on to logs and servers, in characters. */
const LONGEST = 200

/** A reason without what may be a key or a token: runs of letters and digits that are no words. */
function readable(reason: string): string {
  const short = reason.slice(0, LONGEST)
  return short.replaceAll(/(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}=*/gi, '***')
}
