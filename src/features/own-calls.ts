/** What the gateway itself asks of servers: calls, subscriptions, requests, and calls made again. */
import type { Call, InternalPurpose } from '../core/call.ts'
import type { OperationRef } from '../records/operations.ts'
import type { Principal } from '../core/principal.ts'
import type { SubscriptionFilter } from '../protocol/subscription-filter.ts'

/** A call of a tool that the gateway makes itself. */
export interface InternalCall {
  readonly purpose: InternalPurpose
  /** The principal whose rights apply. */
  readonly principal: Principal
  readonly upstream: string
  /** The tool's name on its server. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly idempotencyKey?: string
  /** The trace of the action that it undoes (W3C `traceparent`). */
  readonly undoes?: string | undefined
  /** The call that it belongs to: it takes the same route to the server, and ends with it. */
  readonly during?: Call
}

/** A subscription to notifications of a server that the gateway makes itself. */
export interface ListenOrder {
  readonly upstream: string
  readonly filter: SubscriptionFilter
  /** Ends it. */
  readonly controller: AbortController
  readonly emit: Call['emit']
}

/** A request that the gateway itself makes to a server, with the gateway's own rights. */
export interface ServerRequest {
  readonly upstream: string
  readonly method: string
  readonly params?: Readonly<Record<string, unknown>>
  /** Ends it. */
  readonly controller: AbortController
  /** Receives the notifications about it. */
  readonly emit?: Call['emit']
}

/** A call to be made again, from its record. */
export type RepeatedCall = Pick<
  Call,
  'requestId' | 'params' | 'meta' | 'client' | 'principal' | 'target' | 'requestState'
> & { readonly operation: OperationRef }
