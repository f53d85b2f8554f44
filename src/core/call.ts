/**
 * The one type of the gateway: a `Handler` turns a `Call` into an `Outcome` or throws a `GatewayError`; a
 * `Middleware` wraps a handler. Calls are never changed in place. Read this file first.
 */
import type { Descriptor } from './descriptor.ts'
import { GatewayError } from './error.ts'
import type { Payload } from './payload.ts'
import type { Principal } from './principal.ts'

/** What a server may ask of the client before it can finish: elicitation, sampling or roots, by a key. */
export type InputRequests = Readonly<Record<string, InputRequest>>

export interface InputRequest {
  readonly method: string
  readonly params?: Payload
}

/** What the client said to each question. An error can only come from clients older than 2026-07-28. */
export type InputResponses = Readonly<Record<string, InputResponse>>

export type InputResponse = { readonly result: Payload } | { readonly error: Payload }

/** What each layer that asked wants to remember until the answers come; sealed at the edge. */
export type RequestState = Readonly<Record<string, unknown>>

/**
 * How a call ends well: with a result, or with questions that the caller answers by making the same call again.
 * Failures are thrown.
 */
export type Outcome =
  | { readonly kind: 'result'; readonly result: Payload }
  | {
      readonly kind: 'input_required'
      readonly inputRequests: InputRequests
      readonly requestState: RequestState
      /** Aborted when the answers are no longer wanted; only callers in this process can see it. */
      readonly withdrawn?: AbortSignal
      /** The server has begun, and goes on with the call while it is asked about. */
      readonly isOpen?: true
    }

/** A message without an answer, about a call or from a server. */
export interface Notification {
  readonly method: string
  readonly params?: Payload
}

/** Who calls: what the client is and can do. */
export interface Client {
  readonly era: 'legacy' | 'modern'
  /** The protocol revision the client speaks. */
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly info?: Readonly<Record<string, unknown>>
  /** One client's session: where its revision has sessions, or where a connection is one client's alone. */
  readonly session?: string
  /** Set on calls through which nothing can be asked, whatever the capabilities say. */
  readonly nonInteractive?: true
}

/** Where a caller stands with the limit that leaves it least. */
export interface RateLimitStatus {
  /** What is limited, and how: as short as a name. */
  readonly name: string
  readonly limit: number
  readonly remaining: number
  /** How long the limit counts, and until something of it comes back, in seconds. */
  readonly window: number
  readonly reset: number
}

/** What goes around the answer to a call, where its transport has something around answers. */
export interface RateLimitReporter {
  /** Tells where the caller stands; nothing happens where the answer has begun. */
  reportRateLimit?(status: RateLimitStatus): void
}

/**
 * What the gateway makes a call for by itself, with the rights of the caller it does it for: to look something up,
 * or to undo what was done. It needs no confirmation and costs nothing.
 */
export type InternalPurpose = 'read' | 'compensate'

/** The step of a transaction that a call is. */
export interface TransactionStepRef {
  readonly transaction: string
  readonly step: string
  /** The key of what is written down of it. */
  readonly deed: string
  /** It does not run where it could not be undone. */
  readonly mustBeUndoable: boolean
}

/** One request on its way through the gateway. Never changed in place: pass a changed copy on. */
export interface Call {
  /** Names the call in logs, in errors, in the audit log and toward servers. */
  readonly requestId: string
  /** The JSON-RPC id of the request, as the JSON text it came in; absent where no answer is expected. */
  readonly rpcId?: string
  readonly method: string
  /** What the client called it, where that is another method: the handshake of older revisions. */
  readonly calledAs?: 'initialize'
  /** The params object as the client sent it, `_meta` included. */
  readonly params: Payload
  readonly target: Target
  /**
   * The descriptor of the tool that a `tools/call` names, set once before the features see the call; undefined where
   * its server does not list the tool.
   */
  readonly tool?: Descriptor | undefined
  /** Why the list of the server could not be had; `tool` says nothing then. */
  readonly toolError?: Error | undefined
  readonly principal: Principal
  readonly client: Client
  /** The members of `params._meta`; a trace context the transport carried stands here like one written there. */
  readonly meta: Readonly<Record<string, unknown>>
  readonly inputResponses?: InputResponses
  readonly requestState: RequestState
  /** Aborted when the outcome is no longer wanted. */
  readonly signal: AbortSignal
  /** Ends the call: it fails with this reason, and what is under way for it is cancelled. */
  abort(reason: GatewayError): void
  /** Set where the gateway makes the call itself, for a caller. */
  readonly internal?: InternalPurpose
  /** The trace of the call that this one undoes (W3C `traceparent`). */
  readonly undoes?: string
  /** Set where the call is a step of a transaction. */
  readonly step?: TransactionStepRef
  /** What the caller says it wants, where it does; unverified. */
  readonly intent?: string
  /** The idempotency key for the server, where it accepts one. */
  readonly idempotencyKey?: string
  /** Stops the clock of the call's deadline, while a person is waited for, until what it returns is called. */
  pauseDeadline?(): () => void
  /** What the log line of this call should say; the one thing on a call that is written to. */
  readonly logFields: Map<string, unknown>
  /** What its result becomes on the way out, where things have other names there than the server gives them. */
  rewriteResult?(result: Payload): Payload
  /** Absent where the call did not come from a client. */
  readonly rateLimitReporter?: RateLimitReporter | undefined
  /** Sends a notification about this call back to the client, before the outcome. Never throws, never waits. */
  emit(note: Notification): void
}

/** Does what a call asks. Throws `GatewayError` on failure. */
export type Handler = (call: Call) => Promise<Outcome>

/** Wraps a handler. Built once per target when the configuration is loaded, never per call. */
export type Middleware = (next: Handler) => Handler

/** The result of what cannot end with a question. @throws SERVER_ERROR where it did */
export function resultOf(outcome: Outcome): Payload {
  if (outcome.kind === 'result') return outcome.result
  throw new GatewayError('SERVER_ERROR', 'A question was left over.')
}

/** The tool a call names, for rules that must not be passed unseen. @throws why the server's list could not be had */
export function listedTool({ tool, toolError }: Call): Descriptor | undefined {
  if (toolError !== undefined) throw toolError
  return tool
}

/** Composes policies around a handler; the first one listed is the outermost. */
export function compose(policies: readonly (Middleware | undefined)[], end: Handler): Handler {
  let handler = end
  for (const policy of policies.toReversed()) if (policy) handler = policy(handler)
  return handler
}

/** What a call is for: one method of one server and, where the method has one, the thing it names. */
export interface Target {
  /** The server's name in the configuration; absent while the call is for all of them together. */
  readonly upstream?: string
  readonly method: string
  /** Tool or prompt name, or resource URI, as the server knows it. */
  readonly name?: string
  /** Set where the gateway answers itself instead of a server. */
  readonly isBuiltin?: true
}
