/** What the gateway itself asks of servers: calls, subscriptions, requests, and calls made again, with the rights of a caller. */
import { connectionSlot } from '../core/slot.ts'
import { NS } from '../core/identity.ts'
import type { Call, InternalPurpose, Target } from '../core/call.ts'
import type { Services } from './feature.ts'
import { latestModern } from '../core/revisions.ts'
import { ownCall } from '../protocol/lift.ts'
import { undoesSlot } from '../core/exchange.ts'
import { Payload } from '../core/payload.ts'
import { type OperationRef, operationSlot } from '../records/operations.ts'
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
interface ListenOrder {
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

/** Creates an operation whose process ended. Its client is not there any more. */
export function repeatedCall({ operation, ...order }: RepeatedCall): Call {
  return ownCall({ method: order.target.method, ...order, slots: operationSlot.put(operation) })
}

/** A subscription of the gateway itself to notifications of a server. */
export function listenCall({ filter, ...order }: ListenOrder): Call {
  return ofGateway({ ...order, method: 'subscriptions/listen', params: { notifications: filter } })
}

/** A request of the gateway itself to a server. It counts as no call of a client. */
export function serverRequest(order: ServerRequest): Call {
  return { ...ofGateway(order), internal: 'read' }
}

function ofGateway({ upstream, method, params = {}, controller, emit }: ServerRequest): Call {
  const call = ownCall({ method, params: Payload.of(params), target: { upstream, method } })
  const abort = (reason: unknown): void => controller.abort(reason)
  const client = { ...call.client, nonInteractive: true } as const
  return { ...call, client, signal: controller.signal, abort, ...(emit && { emit }) }
}

/** A call that is never made: rights of a caller who is not connected are checked with it, at the address of a server. */
export function callOnBehalf(principal: Principal, upstream: string | undefined): Call {
  const target = { method: 'events/list', ...(upstream !== undefined && { upstream }) }
  const { client } = ownCall()
  return ownCall({
    method: target.method,
    target,
    principal,
    client: { ...client, era: 'modern', revision: latestModern.name, nonInteractive: true },
  })
}

/** A call of a tool call of the gateway itself. */
export function internalCall({
  purpose,
  principal,
  upstream,
  tool,
  during,
  undoes,
  ...order
}: InternalCall): Call {
  const meta = order.idempotencyKey === undefined ? {} : { [`${NS}/idempotency_key`]: order.idempotencyKey }
  const params = Payload.of({ name: tool, arguments: order.arguments, _meta: meta })
  const target = { upstream, method: 'tools/call', name: tool }
  const slots = undoes === undefined ? undefined : undoesSlot.put(undoes)
  const call = ownCall({ method: target.method, params, target, principal, meta, internal: purpose, slots })
  if (!during) return call
  const { client, signal, abort } = during
  const bound = { ...call, client: { ...client, nonInteractive: true } as const, signal, abort }
  const connection = connectionSlot.of(during)
  return connection ? connectionSlot.set(bound, connection) : bound
}

/** Another call of the same caller: what belongs to the method of the given one means nothing there. */
export function otherCall({ inputResponses: _r, ...call }: Call, target: Target, params: Payload): Call {
  return { ...call, method: target.method, target, params }
}

/** Whether the caller is permitted to make a call of a tool; the call is not made. */
export function isPermitted({ invoker }: Pick<Services, 'invoker'>, call: Call): Promise<boolean> {
  return invoker.admit(call).then(
    () => true,
    () => false,
  )
}
