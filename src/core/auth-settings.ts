/** The settings of authentication. */
import type { Principal } from './principal.ts'
import type { Secret } from './text/secret.ts'

/** Who may call and how callers prove who they are. Durations are milliseconds. */
export interface AuthSettings {
  /** The name of this service in challenges and metadata. */
  readonly realm: string
  /** Tokens that are checked here, by the keys of who issued them. */
  readonly jwt?: JwtSettings
  /** Where to ask about tokens only their issuer can read. */
  readonly introspect?: IntrospectSettings
  /** Tokens known by their hashes. */
  readonly tokens: readonly ListedToken[]
  /** Who may use service paths with a password. */
  readonly users: readonly BasicUser[]
  /** Where clients get tokens: the issuers that stand in the metadata of the protected resource. */
  readonly authorizationServers: readonly string[]
  /** Scopes a client may ask for at once; empty where it learns of each one when it needs it. */
  readonly scopesSupported: readonly string[]
  /** Methods that need no token. */
  readonly anonymous: readonly string[]
  /** Who the one client of `gatehouse stdio` is. */
  readonly principal: Principal
  /** How long narrowed sessions last, in all and unused. */
  readonly session: { readonly maxTtl: number; readonly idle: number }
  /** Where people ask for more rights. */
  readonly elevateUrl?: string
  /** The scopes here that a scope of a token stands for; those under `*` belong to every token. */
  readonly scopeMap: Readonly<Record<string, readonly string[]>>
}

/** How a signed token must look. */
export interface JwtSettings {
  readonly issuer: string
  /** What a token may be meant for, besides the URL that is called. */
  readonly audiences: readonly string[]
  /** Where the issuer's keys are; found through its metadata where absent. */
  readonly jwks?: string
  readonly algorithms: readonly string[]
  /** Claims a token must have besides iss, aud, sub, exp and iat. */
  readonly requiredClaims: readonly string[]
  readonly scopeClaim: string
  /** The shared key of HS256, for development alone. */
  readonly secret?: Secret
  /** What the gateway is at the issuer, where people sign in to its pages. */
  readonly client?: PageClient
}

/** The gateway as a client of the issuer (OpenID Connect). */
export interface PageClient {
  readonly id: string
  /** Absent for a public client. */
  readonly secret?: Secret
}

/** A token introspection endpoint (RFC 7662) and what the gateway is there. */
export interface IntrospectSettings {
  readonly url: string
  readonly clientId: string
  readonly clientSecret: Secret
  /** Whether an answer must say that the token is meant for this server. */
  readonly requiresAudience: boolean
}

/** A token whose hash is configured, and who holds it. */
export interface ListedToken {
  /** `sha256:<salt>:<hex>`, the SHA-256 of salt and token one after the other. */
  readonly hash: Secret
  readonly id: string
  /** Absent where nothing limits it. */
  readonly scopes?: readonly string[]
}

/** A name and password for service paths. */
export interface BasicUser {
  readonly name: string
  /** `scrypt:<salt>:<hex>`, 32 bytes of scrypt with N 16384, r 8 and p 1. */
  readonly passwordHash: Secret
  /** Who this person is among those who approve calls, as a caller too where it is one; absent for who may not. */
  readonly approvesAs?: string
}

/** Whether callers must show who they are. */
export function isProtected({
  jwt,
  introspect,
  tokens,
}: Pick<AuthSettings, 'jwt' | 'introspect' | 'tokens'>): boolean {
  return jwt !== undefined || introspect !== undefined || tokens.length > 0
}
