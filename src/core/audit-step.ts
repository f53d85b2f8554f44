/** What the audit log records besides calls: decisions, operator commands, refusals and sign-ins. */
import type { GatewayError } from './error.ts'
import type { Cookie } from './web.ts'

/** A person's decision on a call that required approval. */
export interface ApprovalStep {
  /** The id of the approval. */
  readonly approval: string
  readonly by: string
  /** How the person was authenticated. */
  readonly via: string
  readonly verdict: 'approved' | 'denied'
  /** The caller. */
  readonly caller: string
  readonly upstream: string
  readonly tool: string
  /** The arguments of the call. */
  readonly given: Readonly<Record<string, unknown>>
  /** The arguments that the person changed. */
  readonly changed?: readonly string[]
}

/** An operator's action on a transaction, an operation, a subscription, kept data, a server, a gateway, a person, a channel, or all writes. */
export interface OrderStep {
  /** `undo` creates transactions of its own for the compensations; `forget` erases a person. */
  readonly order:
    | 'undo'
    | 'rollback'
    | 'ack'
    | 'cancel'
    | 'unsubscribe'
    | 'redeliver'
    | 'get'
    | 'put'
    | 'drop'
    | 'forget'
    | 'restart'
    | 'drain'
    | 'undrain'
    | 'doctor'
    | 'pause'
    | 'resume'
    | 'test'
  readonly by: string
  /** How the person was authenticated. Default: `command_line`. */
  readonly via?: string
  readonly reason?: string
  /** When the pause of writes ends by itself, in milliseconds since 1970. */
  readonly until?: number
  /** Whether it overwrites what others changed since. */
  readonly force?: true
  /** The keys of actions that are not undone, because something else changed since what they left. */
  readonly left?: readonly string[]
  /** The id of the transaction, the name of the operation, or the id of the subscription, and its caller. */
  readonly transaction?: string
  readonly operation?: string
  /** The key of the record of an action. */
  readonly action?: string
  readonly subscription?: string
  /** The id of kept data, and its hash. */
  readonly reference?: string
  readonly sha256?: string
  /** The id of the event that is delivered again. */
  readonly eventId?: string
  /** The server. */
  readonly upstream?: string
  /** The id of the gateway. */
  readonly gateway?: string
  /** The channel that a test message was sent by. */
  readonly channel?: string
  /** A hash of the id of the person that is forgotten, and how many records of the store were erased. */
  readonly person?: string
  readonly records?: number
  /** The caller of what it acts on; absent if it concerns a server, a person, a channel, or all callers. */
  readonly caller?: string
  /** The error with which it failed; of a message, why it was not accepted. */
  readonly code?: string
}

/** A request that was refused before it became a call. */
export interface Refusal {
  /** Identifies the request in logs and in the response. */
  readonly requestId: string
  readonly error: GatewayError
  /** The requested HTTP method and path, without the query. */
  readonly request: string
  /** The remote network address. */
  readonly address?: string | undefined
  /** The authenticated caller, if known. */
  readonly principal?: string | undefined
}

/** A step of a user's sign-in to a server or to the gateway's pages. */
export interface SignInStep {
  readonly step: 'begun' | 'finished' | 'failed'
  /** The server; absent for the pages. */
  readonly upstream?: string
  /** The user. */
  readonly principal: string
  /** Why it failed: the error code, and the error of the authorization server if it sent one. */
  readonly code?: string
  readonly reason?: string | undefined
}

/** The issuer's claims about a signed-in person. */
export type IdentityClaims = Readonly<Record<string, unknown>>

/** Finds a cookie of a request by name. */
export type FindCookie = (name: string) => string | undefined

/** Sign-in of people to the gateway's pages, at the issuer of their tokens. */
export interface PageSignIn {
  /** The URL at which sign-in begins and continues to `next`; undefined if sign-in is not configured. */
  link(next: string): string | undefined
  /**
   * Begins a sign-in: the URL at the issuer and the cookie to set. @throws UNSUPPORTED_OPERATION, SERVER_UNAVAILABLE,
   * OVERLOADED
   */
  begin(next: string | undefined): Promise<{ readonly url: string; readonly cookie: Cookie }>
  /**
   * Completes a sign-in: the page to continue at, and the cookies of the new session.
   * @throws STATE_INVALID, AUTHENTICATION_REQUIRED, SERVER_UNAVAILABLE, OVERLOADED
   */
  finish(
    params: URLSearchParams,
    cookieOf: FindCookie,
  ): Promise<{ readonly next: string; readonly cookies: readonly Cookie[]; readonly subject: string }>
  /** The claims about the person whose session a request belongs to; undefined without a session. */
  identity(cookieOf: FindCookie): Promise<IdentityClaims | undefined>
  /** Ends the session of a request: the page to continue at, and the cookie that clears the session. */
  end(cookieOf: FindCookie): Promise<{ readonly next: string; readonly cookie: Cookie } | undefined>
}
