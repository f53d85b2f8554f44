/** Converts verified claims to a principal, and creates the errors for credentials that cannot be verified. */
import type { AuthSettings } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { isSubject, type Principal } from '../../core/principal.ts'
import { Secret } from '../../core/text/secret.ts'

/** A valid token. */
export interface Verified {
  readonly principal: Principal
  /** The audiences of the token; absent if it was issued for this gateway only. */
  readonly audiences?: readonly string[]
  /** The end of the validity of this result, in milliseconds since 1970. */
  readonly until: number
}

type Claims = Readonly<Record<string, unknown>>

/** The allowed difference between clocks, in seconds. */
export const CLOCK_SKEW = 30

/** The expiry of a caller's token, in milliseconds since 1970. */
export function endOf({ claims }: Principal): number {
  return typeof claims?.exp === 'number' ? (claims.exp + CLOCK_SKEW) * 1000 : Infinity
}

/** How long a valid token is cached at most, in milliseconds. */
export const MAX_CACHE_MS = 10 * 60_000

/** The principal of the claims of a token, or of a signed-in person. @throws AUTHENTICATION_REQUIRED if they contain no subject */
export function principalOf(
  token: string | undefined,
  claims: Claims,
  scopeClaim: string,
  map: ScopeMap,
): Principal {
  const { sub, client_id: client } = claims
  const isOfClient = sub === undefined || sub === null
  const name = isOfClient ? client : sub
  const named = isSubject(name) ? `${isOfClient ? 'client' : 'user'}:${name}` : undefined
  if (named === undefined || named.length > MAX_NAME_LENGTH)
    throw unauthorized('claims', 'The token has no subject.')
  const scopes = mapScopes(scopesIn(claims[scopeClaim]), map)
  return { id: named, scopes, claims, ...(token !== undefined && { token: new Secret(token) }) }
}

const MAX_NAME_LENGTH = 512

/** The audiences in a claim. */
export function audiencesIn(aud: unknown): readonly string[] {
  return [aud].flat().filter((each): each is string => typeof each === 'string')
}

/** Maps the scopes of a token to scopes of the gateway. */
function mapScopes(scopes: readonly string[], map: ScopeMap): ReadonlySet<string> {
  const meant = scopes.flatMap((scope) => (Object.hasOwn(map, scope) ? (map[scope] ?? []) : [scope]))
  return new Set([...meant, ...(map['*'] ?? [])])
}

/** The scopes a client must request to receive these scopes of the gateway. */
export function scopesToAskFor(scopes: readonly string[], map: ScopeMap): readonly string[] {
  const names = scopes.map((scope) => {
    const found = Object.entries(map).find(([name, meant]) => name !== '*' && meant.includes(scope))
    return found ? found[0] : scope
  })
  return [...new Set(names)]
}

type ScopeMap = AuthSettings['scopeMap']

/** The scopes in a claim: a space-separated string, or an array. */
export function scopesIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((scope) => scope !== '')
  return audiencesIn(claim)
}

/** Why authentication failed, as a label for logs and metrics. */
export type Reason =
  | 'missing'
  | 'scheme'
  | 'malformed'
  | 'too_large'
  | 'query'
  | 'algorithm'
  | 'issuer'
  | 'unknown_key'
  | 'signature'
  | 'expired'
  | 'not_yet_valid'
  | 'claims'
  | 'audience'
  | 'inactive'
  | 'unknown_token'
  | 'password'
  | 'unavailable'
  | 'overloaded'

/** The error for a caller without valid credentials. */
export function unauthorized(reason: Reason, message: string, cause?: unknown): GatewayError {
  const code = reason === 'expired' ? 'TOKEN_EXPIRED' : 'AUTHENTICATION_REQUIRED'
  return new GatewayError(code, message, {
    suggestion: 'Get a token for this server and send it as Authorization: Bearer <token>.',
    reason,
    cause,
  })
}

/** The error for a caller whose credentials cannot be verified temporarily. */
export function unavailable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    reason: 'unavailable',
    retryAfterSeconds: 5,
    cause,
  })
}
