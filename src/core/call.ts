/**
 * The central types of the gateway: a `Handler` turns a `Call` into an `Outcome` or throws a `GatewayError`; a
 * `Middleware` wraps a handler. Calls are immutable. Read this file first.
 */
import type { Descriptor } from './descriptor.ts'
import { GatewayError } from './error.ts'
import type { Payload } from './payload.ts'
import type { Principal } from './principal.ts'
import type { Slots } from './slot.ts'

/** What a server may request from the client before it can finish, by key: elicitation, sampling or roots. */
export type InputRequests = Readonly<Record<string, InputRequest>>

export interface InputRequest {
  readonly method: string
  readonly params?: Payload
}

/** The client's response to each request. An error can only come from clients older than 2026-07-28. */
export type InputResponses = Readonly<Record<string, InputResponse>>

export type InputResponse = { readonly result: Payload } | { readonly error: Payload }

/** What each layer that requested input stores until the responses come; encrypted before it leaves the gateway. */
export type RequestState = Readonly<Record<string, unknown>>

/**
 * How a call succeeds: with a result, or with input requests that the caller answers by making the same call again.
 * Failures are thrown.
 */
export type Outcome =
  | { readonly kind: 'result'; readonly result: Payload }
  | {
      readonly kind: 'input_required'
      readonly inputRequests: InputRequests
      readonly requestState: RequestState
      /** Aborted when the responses are no longer needed; visible only to callers in this process. */
      readonly withdrawn?: AbortSignal
      /** The server has begun, and continues the call while the input is requested. */
      readonly isOpen?: true
    }
  /**
   * The call goes on after this answer. Below the feature `progress` it is a task of the server, continued by the same
   * call with `requestState`; above it, it is a task of the gateway, for its client.
   */
  | { readonly kind: 'task'; readonly task: Task; readonly requestState: RequestState }

/** An outcome that is not the end of its call. */
export type InterimOutcome = Exclude<Outcome, { readonly kind: 'result' }>

/** Whether the server has begun, and continues the call after an interim outcome. */
export function isOpen(outcome: InterimOutcome): boolean {
  return outcome.kind === 'task' || outcome.isOpen === true
}

/** What continues a call at its server, by its key in the state of the call: the call that waits there, or the task. Persisted with operations. */
export const WAITING_CALL_KEY = 'park'
export const SERVER_TASK_KEY = 'upstream_task'

/** Whether the server of a call has begun in an earlier round, so that the call is not sent again. */
export function hasBegun({ requestState }: { readonly requestState: RequestState }): boolean {
  return requestState[WAITING_CALL_KEY] !== undefined || requestState[SERVER_TASK_KEY] !== undefined
}

/** A message without a response, about a call or from a server. */
export interface Notification {
  readonly method: string
  readonly params?: Payload
  /** Set if no later notification replaces this one: it is never dropped, whatever the client reads. */
  readonly mustArrive?: true
}

/** The client that calls, and its capabilities. */
export interface Client {
  readonly era: 'legacy' | 'modern'
  /** The protocol revision the client speaks. */
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly info?: Readonly<Record<string, unknown>>
  /** The session of one client: where its revision has sessions, or where a connection belongs to one client. */
  readonly session?: string
  /** Set on calls that cannot request input, whatever the capabilities say. */
  readonly nonInteractive?: true
}

/**
 * Why the gateway makes a call itself, with the rights of the caller it acts for: to read something, or to undo an
 * earlier call. Internal calls need no confirmation and cost nothing.
 */
export type InternalPurpose = 'read' | 'compensate'

/**
 * Where a client receives what is not about one of its requests. Features may keep it beyond the call that brought it.
 */
export interface ClientStream {
  /** Whether the client reads it now; it may read it again later. */
  isOpen(): boolean
  /** Aborted once nothing can be sent any more. */
  readonly closed: AbortSignal
  /** Sends a notification. Where the transport has ids of events, `id` is the one to resume from. Never throws. */
  emit(note: Notification, id?: string): void
  /** Resolves once the client has read what was sent, or is gone. Never rejects. */
  drained(): Promise<void>
  /** Ends it, if it belongs to one subscription. */
  end?(): void
}

/** One request on its way through the gateway. Immutable: pass a changed copy on. */
export interface Call {
  /** Identifies the call in logs, errors, the audit log and requests to servers. */
  readonly requestId: string
  /** The JSON-RPC id of the request, as the original JSON text; absent for notifications. */
  readonly rpcId?: string
  readonly method: string
  /** The params object as the client sent it, `_meta` included. */
  readonly params: Payload
  readonly target: Target
  /**
   * The descriptor of the tool that a `tools/call` names, set once before the features see the call; undefined if its
   * server does not list the tool.
   */
  readonly tool?: Descriptor | undefined
  /** Why the server's list could not be read; `tool` is undefined then. */
  readonly toolError?: Error | undefined
  readonly principal: Principal
  /**
   * The caller with its present rights, for what lasts longer than the call: after a reload, the same credentials can
   * have other ones. Absent where they cannot change. @throws what authentication throws
   */
  presentCaller?(): Principal | Promise<Principal>
  readonly client: Client
  /** The members of `params._meta`, including a trace context that the transport carried. */
  readonly meta: Readonly<Record<string, unknown>>
  readonly inputResponses?: InputResponses
  readonly requestState: RequestState
  /** Aborted when the outcome is no longer needed. */
  readonly signal: AbortSignal
  /** Ends the call: it fails with this reason, and its pending work is cancelled. */
  abort(reason: GatewayError): void
  /** Set if the gateway makes the call itself, on behalf of a caller. */
  readonly internal?: InternalPurpose
  /**
   * Resolves once the client has read what was sent about this call, or is gone. Layers that send more than a slow
   * client can take wait for it; absent where there is nothing to wait for. Never rejects.
   */
  drained?(): Promise<void>
  /** Fields for the log line of this call; the only mutable part of a call. */
  readonly logFields: Map<string, unknown>
  /** Rewrites the result on the way out, where clients know things by other names than the server. */
  rewriteResult?(result: Payload): Payload
  /** The stream of the client's session, or of the request; absent where there is none beside the response. */
  readonly stream?: ClientStream | undefined
  /** What single parts of the gateway added (`core/slot.ts`): the step of a transaction, for example. */
  readonly slots?: Slots | undefined
  /** Sends a notification about this call to the client, before the outcome. Never throws and never blocks. */
  emit(note: Notification): void
}

/** Runs a call. Throws `GatewayError` on failure. */
export type Handler = (call: Call) => Promise<Outcome>

/** Wraps a handler. Built once per target when the configuration is loaded, never per call. */
export type Middleware = (next: Handler) => Handler

/**
 * A call with the present rights of its caller, to go on after a wait in which the configuration may have changed. The
 * expiry of the token with which it began does not end it. @throws what authentication throws
 */
export async function withPresentCaller(call: Call): Promise<Call> {
  try {
    const principal = await call.presentCaller?.()
    if (!principal || principal === call.principal) return call
    if (principal.id === call.principal.id) return { ...call, principal }
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'TOKEN_EXPIRED') return call
    throw error
  }
  throw new GatewayError(
    'AUTHENTICATION_REQUIRED',
    'The credentials of this call are those of another caller now.',
  )
}

/** The result of a call that cannot request input. @throws SERVER_ERROR if it did */
export function resultOf(outcome: Outcome): Payload {
  if (outcome.kind === 'result') return outcome.result
  throw new GatewayError('SERVER_ERROR', 'The call requested input where none is possible.')
}

/**
 * The tool a call names, for rules that must fail closed. @throws the reason why the server's list could not be read
 */
export function listedTool({ tool, toolError }: Call): Descriptor | undefined {
  if (toolError !== undefined) throw toolError
  return tool
}

/** Composes middleware around a handler; the first one is the outermost. */
export function compose(middlewares: readonly (Middleware | undefined)[], end: Handler): Handler {
  let handler = end
  for (const middleware of middlewares.toReversed()) if (middleware) handler = middleware(handler)
  return handler
}

/** The target of a call: one method of one server and, if the method has one, the item it names. */
export interface Target {
  /** The server's name in the configuration; absent while the call is for all servers. */
  readonly upstream?: string
  readonly method: string
  /** Tool or prompt name, or resource URI, as the server knows it. */
  readonly name?: string
  /** Set if the gateway itself answers instead of a server. */
  readonly isBuiltin?: true
}

/** Where a task stands, in the words of the specification (2025-11-25 basic/utilities/tasks, SEP-2663). */
export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A task, free of the words of one revision. Times are milliseconds since 1970. */
export interface Task {
  readonly id: string
  readonly status: TaskStatus
  readonly statusMessage?: string | undefined
  readonly createdAt: number
  readonly updatedAt: number
  /** How long it is kept from its creation on, in milliseconds; null where it has no end. */
  readonly ttl: number | null
  /** How often its status may be asked for, in milliseconds. */
  readonly pollInterval?: number | undefined
}
