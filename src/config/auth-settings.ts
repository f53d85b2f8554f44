import type { AuthSettings, BasicUser, IntrospectSettings, JwtSettings } from '../core/auth-settings.ts'
import { isObject } from '../core/json.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import type { Secret } from '../core/secret.ts'
import { isHttpUrl } from './addresses.ts'
import { authSchema } from './auth-schema.ts'
import { complete } from './complete.ts'
import { withSwitches } from './switches.ts'

/** The settings of `auth` from the checked value of the file, with every default filled in. */
export function authSettings(written: unknown): AuthSettings {
  // The value fits the schema, which has these types and gives these defaults.
  const values = complete(isObject(written) ? written : {}, withSwitches(authSchema)) as AuthValues
  const { realm, jwt, opaque, basic, oauth, principal, session, elevate_url: elevateUrl } = values
  return {
    realm,
    ...(jwt && { jwt: jwtSettings(jwt) }),
    ...(opaque?.introspect && { introspect: introspectSettings(opaque.introspect) }),
    tokens: (opaque?.tokens ?? []).map(({ hash, id, scopes }) => ({
      hash,
      id,
      ...(scopes !== undefined && { scopes: [scopes].flat() }),
    })),
    users: (basic?.users ?? []).map(userSettings),
    authorizationServers: oauth ? [oauth.authorization_servers].flat() : issuerOf(jwt),
    scopesSupported: [oauth?.scopes_supported ?? []].flat(),
    anonymous: values.anonymous,
    principal: principal ? principalOf(principal) : anonymous,
    session: { maxTtl: session.max_ttl, idle: session.idle },
    ...(elevateUrl !== undefined && { elevateUrl }),
    scopeMap: Object.fromEntries(
      Object.entries(values.scope_map).map(([scope, names]) => [scope, [names].flat()]),
    ),
  }
}

type Texts = string | readonly string[]

interface AuthValues {
  readonly realm: string
  readonly jwt?: JwtValues
  readonly opaque?: {
    readonly introspect?: IntrospectValues
    readonly tokens: readonly { readonly hash: Secret; readonly id: string; readonly scopes?: Texts }[]
  }
  readonly basic?: { readonly users: readonly UserValues[] }
  readonly oauth?: { readonly authorization_servers: Texts; readonly scopes_supported: Texts }
  readonly anonymous: readonly string[]
  readonly principal?: PrincipalValues
  readonly session: { readonly max_ttl: number; readonly idle: number }
  readonly elevate_url?: string
  readonly scope_map: Readonly<Record<string, Texts>>
}

interface JwtValues {
  readonly issuer: string
  readonly audience?: Texts
  readonly jwks?: string
  readonly algorithms?: readonly string[]
  readonly required_claims: Texts
  readonly scope_claim: string
  readonly secret?: Secret
  readonly client_id?: string
  readonly client_secret?: Secret
}

interface IntrospectValues {
  readonly url: string
  readonly client_id: string
  readonly client_secret: Secret
  readonly require_audience: boolean
}

interface PrincipalValues {
  readonly id: string
  readonly scopes?: Texts
}

function jwtSettings({ issuer, audience, jwks, algorithms, secret, ...rest }: JwtValues): JwtSettings {
  const { client_id: id, client_secret: clientSecret } = rest
  return {
    issuer,
    audiences: [audience ?? []].flat(),
    ...(jwks !== undefined && { jwks }),
    algorithms: algorithms ?? (secret ? ['HS256'] : ['RS256', 'ES256']),
    requiredClaims: [rest.required_claims].flat(),
    scopeClaim: rest.scope_claim,
    ...(secret && { secret }),
    ...(id !== undefined && { client: { id, ...(clientSecret && { secret: clientSecret }) } }),
  }
}

function introspectSettings(values: IntrospectValues): IntrospectSettings {
  const { url, client_id: clientId, client_secret: clientSecret, require_audience: requiresAudience } = values
  return { url, clientId, clientSecret, requiresAudience }
}

function issuerOf(jwt: JwtValues | undefined): readonly string[] {
  return jwt && jwt.secret === undefined && isHttpUrl(jwt.issuer) ? [jwt.issuer] : []
}

function principalOf({ id, scopes }: PrincipalValues): Principal {
  return { id, ...(scopes !== undefined && { scopes: new Set([scopes].flat()) }) }
}

interface UserValues {
  readonly name: string
  readonly password_hash: Secret
  readonly approves_as?: string
}

function userSettings({ name, password_hash: passwordHash, approves_as: approvesAs }: UserValues): BasicUser {
  return { name, passwordHash, ...(approvesAs !== undefined && { approvesAs }) }
}
