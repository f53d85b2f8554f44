/**
 * The central types of the gateway: a `Handler` turns a `Call` into an `Outcome` or throws a `GatewayError`; a
 * `Middleware` wraps a handler. Calls are immutable. Read this file first.
 */
import type { Descriptor } from './descriptor.ts'
import type { DryRun } from './dry-run.ts'
import { GatewayError } from './error.ts'
import type { ClientPeer } from './exchange.ts'
import type { Payload } from './payload.ts'
import type { Principal } from './principal.ts'
import type { Spool } from './spool.ts'
import type { Task } from './task.ts'
import type { ResolvedReferences } from './used-reference.ts'

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

/** The state of the rate limit that has the least left for a caller. */
export interface RateLimitStatus {
  /** A short name of the limit. */
  readonly name: string
  readonly limit: number
  readonly remaining: number
  /** The length of the window, and the time until some of the limit is restored, in seconds. */
  readonly window: number
  readonly reset: number
}

/** Reports rate limits outside of the result, where the transport supports it (such as HTTP headers). */
export interface RateLimitReporter {
  /** Reports the state of a limit; ignored once the response has begun. */
  reportRateLimit?(status: RateLimitStatus): void
}

/**
 * Why the gateway makes a call itself, with the rights of the caller it acts for: to read something, or to undo an
 * earlier call. Internal calls need no confirmation and cost nothing.
 */
export type InternalPurpose = 'read' | 'compensate'

/** The transaction step that a call belongs to. */
export interface TransactionStepRef {
  readonly transaction: string
  readonly step: string
  /** The key of the record of its action. */
  readonly deed: string
  /** The step must not run if it could not be undone. */
  readonly mustBeUndoable: boolean
}

/** An operation of another process that a call goes on with. */
export interface OperationRef {
  /** Its id for its caller, and the key of its record. */
  readonly id: string
  readonly key: string
  /** When the call began that was lost, in milliseconds since 1970; absent where its own key or its server's task is known. */
  readonly lostSince?: number
  /** Set if its caller has it as a task. Without one, no client can answer input requests of the call. */
  readonly isTask?: true
}

/** The `reason` of the error if the context that a server kept for a client is lost. */
export const CONTEXT_LOST = 'context_lost'

/**
 * The connection to a server that belongs to one client of a caller, so that later calls of the client find the context
 * that the server keeps for it. Used by no other caller.
 */
export interface ClientConnection {
  /** Chosen by the gateway, and secret: whoever has it uses the connection. */
  readonly id: string
  /** An earlier call used it; if it is not open any more, its context is lost. */
  readonly isKnown: boolean
  /** Whether the call may run in a new context if its own is lost; otherwise it fails with `CONFLICT`. */
  readonly mayReplace: boolean
  /** Called if a connection was opened for it, before the call is sent: with its id, and whether another one was lost. */
  onOpen(opened: { readonly id: string; readonly isLost: boolean }): void
}

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

/** The HTTP request behind a call whose request or response is bytes, and the way to answer it. */
export interface ByteExchange {
  readonly verb: 'GET' | 'HEAD' | 'POST' | 'PUT'
  /** The last segment of the path where the route names it, decoded; otherwise empty. */
  readonly name: string
  /** May contain credentials. */
  readonly query: URLSearchParams
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The body while it arrives, to be read once. Fails with CANCELLED if the client disconnects, or sends nothing for long. */
  readonly body: AsyncIterable<Uint8Array>
  /** Whether the request cannot come from a page of another origin. */
  readonly isFromHere: boolean
  /**
   * The caller whom the person of the request may act for: signed in to the pages, or with a password. Undefined where people
   * cannot be identified. @throws what authentication throws
   */
  person(): Promise<string | undefined>
  /** The link to sign in to the pages and return here; undefined where that is not configured. */
  readonly signInLink: string | undefined
  /** Sends the response, once. Resolves when all of it is written. @throws CANCELLED if the client disconnects */
  send(response: ByteResponse): Promise<void>
}

/** A response over HTTP. The body of a response to HEAD is not sent. */
export interface ByteResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | AsyncIterable<Uint8Array>
}

/** One request on its way through the gateway. Immutable: pass a changed copy on. */
export interface Call {
  /** Identifies the call in logs, errors, the audit log and requests to servers. */
  readonly requestId: string
  /** The JSON-RPC id of the request, as the original JSON text; absent for notifications. */
  readonly rpcId?: string
  readonly method: string
  /** The method the client used, where it differs: the handshake of older revisions. */
  readonly calledAs?: 'initialize'
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
  /** The connection of its client over HTTP; absent on other transports, and on calls of the gateway itself. */
  readonly peer?: ClientPeer | undefined
  /** Called when the call is sent to its server, again for each attempt; set where its spans are recorded. */
  onSent?(request: SentRequest): void
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
  /** The trace of the call that this one undoes (W3C `traceparent`). */
  readonly undoes?: string
  /** Set if the call is a dry run: what its gates found so far. */
  readonly dryRun?: DryRun
  /** Set if the call is a step of a transaction. */
  readonly step?: TransactionStepRef
  /** The stated intent of the caller, if any; unverified. */
  readonly intent?: string
  /** The idempotency key for the server, if it accepts one. */
  readonly idempotencyKey?: string
  /** The references that the arguments had, if any; the arguments have the data in their places. */
  readonly references?: ResolvedReferences
  /** Receives the ids of the references, before the call goes on: a layer above may have to make it again. */
  usesReferences?(ids: readonly string[]): void
  /** What is kept of the result stays at least until then, in milliseconds since 1970: a layer above records the result. */
  readonly keepsResultUntil?: number
  /** Keeps the long strings of the result: whoever sets it puts something in their place. */
  readonly spool?: Spool | undefined
  /** The connection to use, if it is not the one of all calls of its caller. */
  readonly connection?: ClientConnection
  /** The arguments that the caller left out, and the gateway filled in from earlier calls. */
  readonly remembered?: readonly string[]
  /** Pauses the call's deadline while it waits for a person; the returned function resumes it. */
  pauseDeadline?(): () => void
  /** Restarts the timeout of the call: its server has responded, and the call makes another request to it. */
  renewTimeout?(): void
  /**
   * Resolves once the client has read what was sent about this call, or is gone. Layers that send more than a slow
   * client can take wait for it; absent where there is nothing to wait for. Never rejects.
   */
  drained?(): Promise<void>
  /** Has the call go on when its client disconnects or its session ends; absent where no client can be lost. */
  readonly retain?: (() => void) | undefined
  /** Whether the call has no request any more, so that its server may be silent; set where calls can become tasks. */
  isDetached?(): boolean
  /** Whether a server may answer the call with a task: a layer above follows it. */
  readonly acceptsTask?: true
  /** Set if the call is for one of several pages, which a layer above puts together. */
  readonly isPage?: true
  /** The operation that the call goes on with, after the process that ran it ended. */
  readonly operation?: OperationRef
  /** Fields for the log line of this call; the only mutable part of a call. */
  readonly logFields: Map<string, unknown>
  /** Rewrites the result on the way out, where clients know things by other names than the server. */
  rewriteResult?(result: Payload): Payload
  /** Absent if the call did not come from a client. */
  readonly rateLimitReporter?: RateLimitReporter | undefined
  /** The stream of the client's session, or of the request; absent where there is none beside the response. */
  readonly stream?: ClientStream | undefined
  /** Set on calls of a route for bytes; their handler answers by it, and the outcome is only for logs. */
  readonly exchange?: ByteExchange | undefined
  /** Sends a notification about this call to the client, before the outcome. Never throws and never blocks. */
  emit(note: Notification): void
}

/** A request to a server, as its spans describe it. */
export interface SentRequest {
  /** Its JSON-RPC id. */
  readonly id: number
  /** The revision of the connection. */
  readonly revision: string
  /** The session that the server keeps for the connection: whoever knows it can use it. */
  readonly session?: string | undefined
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
