/** What the audit log records besides calls: decisions, orders, refusals, sign-ins. */
import type { GatewayError } from './error.ts'
import type { Cookie } from './web.ts'

/** What a person decided on a call that waited for approval. */
export interface ApprovalStep {
  /** The id of the approval. */
  readonly approval: string
  readonly by: string
  /** How the person was known. */
  readonly via: string
  readonly verdict: 'approved' | 'denied'
  /** Who makes the call. */
  readonly caller: string
  readonly upstream: string
  readonly tool: string
  /** The arguments of the call. */
  readonly given: Readonly<Record<string, unknown>>
}

/** What an operator ordered at the command line about a transaction. */
export interface OrderStep {
  /** `undo` makes a transaction of its own, of what is undone. */
  readonly order: 'undo' | 'rollback' | 'ack'
  readonly by: string
  /** The id of the transaction, and whose it is. */
  readonly transaction: string
  readonly caller: string
}

/** A request that was turned away before it became a call. */
export interface Refusal {
  /** Names the request in logs and in the answer. */
  readonly requestId: string
  readonly error: GatewayError
  /** What was asked for: an HTTP method and path, without the query. */
  readonly request: string
  /** The network address it came from. */
  readonly address?: string | undefined
  /** Who made it, where that is known. */
  readonly principal?: string | undefined
}

/** A step of a user who signs in to a server, or to the pages of the gateway. */
export interface SignInStep {
  readonly step: 'begun' | 'finished' | 'failed'
  /** The server; absent for the pages. */
  readonly upstream?: string
  /** Who signs in. */
  readonly principal: string
  /** Why it failed: the code of the failure, and that of the authorization server where it gave one. */
  readonly code?: string
  readonly reason?: string | undefined
}

/** What the issuer says of a person who signed in. */
export type IdentityClaims = Readonly<Record<string, unknown>>

/** Finds a cookie of a request by its name. */
export type FindCookie = (name: string) => string | undefined

/** The sign-in of people to the pages of the gateway, at the issuer of their tokens. */
export interface PageSignIn {
  /** The URL at which a person begins to sign in, to continue at `next`; undefined where sign-in is not configured. */
  link(next: string): string | undefined
  /** Sends a person on the way to the issuer. @throws UNSUPPORTED_OPERATION, SERVER_UNAVAILABLE, OVERLOADED */
  begin(next: string | undefined): Promise<{ readonly url: string; readonly cookie: Cookie }>
  /**
   * Takes in the person who came back: where to go next, and the cookies of the session that is open from here on.
   * @throws STATE_INVALID, AUTHENTICATION_REQUIRED, SERVER_UNAVAILABLE, OVERLOADED
   */
  finish(
    params: URLSearchParams,
    cookieOf: FindCookie,
  ): Promise<{ readonly next: string; readonly cookies: readonly Cookie[]; readonly subject: string }>
  /** What is known of the person whose session a request belongs to; nothing where it belongs to none. */
  identity(cookieOf: FindCookie): Promise<IdentityClaims | undefined>
  /** Ends the session a request belongs to: where to go then, and the cookie that takes it back. */
  end(cookieOf: FindCookie): Promise<{ readonly next: string; readonly cookie: Cookie } | undefined>
}
