/** Settings of authentication. */
import type { Principal } from './principal.ts'
import type { Secret } from './text/secret.ts'

/** Who may call, and how callers authenticate. Durations are in milliseconds. */
export interface AuthSettings {
  /** The name of this service in challenges and metadata. */
  readonly realm: string
  /** Tokens validated by the gateway with the keys of their issuer. */
  readonly jwt?: JwtSettings
  /** The introspection endpoint for tokens that only their issuer can read. */
  readonly introspect?: IntrospectSettings
  /** Tokens known by their hashes. */
  readonly tokens: readonly ListedToken[]
  /** Who may use service paths with a password. */
  readonly users: readonly BasicUser[]
  /** Where clients get tokens: the issuers listed in the protected resource metadata. */
  readonly authorizationServers: readonly string[]
  /** Scopes a client may request at once; empty where it learns of each scope when it needs it. */
  readonly scopesSupported: readonly string[]
  /** Methods that need no token. */
  readonly anonymous: readonly string[]
  /** The principal of the only client of `gatehouse stdio`. */
  readonly principal: Principal
  /** The maximum lifetime and the idle timeout of sessions with narrowed scopes. */
  readonly session: { readonly maxTtl: number; readonly idle: number }
  /** Where people request more permissions. */
  readonly elevateUrl?: string
  /** The local scopes that a scope of a token maps to; those under `*` are granted to every token. */
  readonly scopeMap: Readonly<Record<string, readonly string[]>>
}

/** Requirements for signed tokens. */
export interface JwtSettings {
  readonly issuer: string
  /** Accepted audiences of a token, besides the URL that is called. */
  readonly audiences: readonly string[]
  /** The URL of the issuer's keys; discovered through its metadata if absent. */
  readonly jwks?: string
  readonly algorithms: readonly string[]
  /** Claims a token must have besides iss, aud, sub, exp and iat. */
  readonly requiredClaims: readonly string[]
  readonly scopeClaim: string
  /** The shared key of HS256, for development only. */
  readonly secret?: Secret
  /** The client registration of the gateway at the issuer, for people who sign in to its pages. */
  readonly client?: PageClient
}

/** The gateway as a client of the issuer (OpenID Connect). */
export interface PageClient {
  readonly id: string
  /** Absent for a public client. */
  readonly secret?: Secret
}

/** A token introspection endpoint (RFC 7662) and the gateway's credentials there. */
export interface IntrospectSettings {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: Secret
  /** Whether a response must state that the token is meant for this server. */
  readonly requiresAudience: boolean
}

/** A token whose hash is configured, and its owner. */
export interface ListedToken {
  /** `sha256:<salt>:<hex>`, the SHA-256 of the salt followed by the token. */
  readonly hash: Secret
  readonly id: string
  /** Absent for unlimited access. */
  readonly scopes?: readonly string[]
}

/** A name and password for service paths. */
export interface BasicUser {
  readonly name: string
  /** `scrypt:<salt>:<hex>`, 32 bytes of scrypt with N 16384, r 8 and p 1. */
  readonly passwordHash: Secret
  /** The principal this person approves calls as, which can also be a caller; absent if the person may not approve. */
  readonly approvesAs?: string
  /** What this name may do on the pages; empty for a name that is for other service paths alone. */
  readonly roles: readonly PageRole[]
}

/** What a person may do on the pages: see them, decide on calls, or everything. */
export type PageRole = 'viewer' | 'approver' | 'operator'

/** The scope that gives a role. */
export const roleScopes: Readonly<Record<PageRole, string>> = {
  viewer: 'gatehouse:view',
  approver: 'gatehouse:approve',
  operator: 'gatehouse:operate',
}

/** Whether callers must authenticate. */
export function isProtected({
  jwt,
  introspect,
  tokens,
}: Pick<AuthSettings, 'jwt' | 'introspect' | 'tokens'>): boolean {
  return jwt !== undefined || introspect !== undefined || tokens.length > 0
}
