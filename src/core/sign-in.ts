import type { Cookie } from './cookie.ts'

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
