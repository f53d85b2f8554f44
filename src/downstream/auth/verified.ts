/** From verified claims to a principal, and the refusals of what cannot be verified. */
import type { AuthSettings } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { Secret } from '../../core/text/secret.ts'

/** A token that was found good. */
export interface Verified {
  readonly principal: Principal
  /** What the token is meant for; absent where it was given out for this gateway alone. */
  readonly audiences?: readonly string[]
  /** Until when that is known, in milliseconds since 1970. */
  readonly until: number
}

type Claims = Readonly<Record<string, unknown>>

/** How far clocks may be apart, in seconds. */
export const CLOCK_SKEW = 30

/** Until when a caller's token is taken, in milliseconds since 1970. */
export function endOf({ claims }: Principal): number {
  return typeof claims?.exp === 'number' ? (claims.exp + CLOCK_SKEW) * 1000 : Infinity
}

/** The longest a good token is believed without another look, in milliseconds. */
export const MAX_CACHE_MS = 10 * 60_000

/** Whether a claim is a usable name: other values would all be the same principal. */
export function isName(claim: unknown): claim is string {
  return typeof claim === 'string' && claim !== ''
}

/** Who the claims of a token speak of, or those of the issuer about a person who signed in. @throws AUTHENTICATION_REQUIRED where they name no subject */
export function principalOf(
  token: string | undefined,
  claims: Claims,
  scopeClaim: string,
  map: ScopeMap,
): Principal {
  const { sub, client_id: client } = claims
  const isOfClient = sub === undefined || sub === null
  const name = isOfClient ? client : sub
  const named = isName(name) ? `${isOfClient ? 'client' : 'user'}:${name}` : undefined
  if (named === undefined || named.length > MAX_NAME_LENGTH)
    throw unauthorized('claims', 'The token names no subject.')
  const scopes = mapScopes(scopesIn(claims[scopeClaim]), map)
  return { id: named, scopes, claims, ...(token !== undefined && { token: new Secret(token) }) }
}

const MAX_NAME_LENGTH = 512

/** The audiences a claim names. */
export function audiencesIn(aud: unknown): readonly string[] {
  return [aud].flat().filter((each): each is string => typeof each === 'string')
}

/** The scopes here that belong to a token with these scopes. */
function mapScopes(scopes: readonly string[], map: ScopeMap): ReadonlySet<string> {
  const meant = scopes.flatMap((scope) => (Object.hasOwn(map, scope) ? (map[scope] ?? []) : [scope]))
  return new Set([...meant, ...(map['*'] ?? [])])
}

/** The scopes a client must ask for so that its token has these scopes here. */
export function scopesToAskFor(scopes: readonly string[], map: ScopeMap): readonly string[] {
  const names = scopes.map((scope) => {
    const found = Object.entries(map).find(([name, meant]) => name !== '*' && meant.includes(scope))
    return found ? found[0] : scope
  })
  return [...new Set(names)]
}

type ScopeMap = AuthSettings['scopeMap']

/** The scopes in a claim: a text with spaces between, or a list. */
export function scopesIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((scope) => scope !== '')
  return audiencesIn(claim)
}

/** Why a caller was not let in, in one word for logs and metrics. */
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

/** The refusal of a caller without good credentials. */
export function unauthorized(reason: Reason, message: string, cause?: unknown): GatewayError {
  const code = reason === 'expired' ? 'TOKEN_EXPIRED' : 'AUTHENTICATION_REQUIRED'
  return new GatewayError(code, message, {
    suggestion: 'Get a token for this server and send it as Authorization: Bearer <token>.',
    reason,
    cause,
  })
}

/** The refusal of a caller whose credentials cannot be checked for a while. */
export function unavailable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    reason: 'unavailable',
    retryAfterSeconds: 5,
    cause,
  })
}
