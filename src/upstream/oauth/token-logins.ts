/**
 * Logins without a sign-in: with the gateway's own credentials (RFC 6749 §4.4), for an assertion (RFC 7523), or with tokens
 * exchanged for those of callers (RFC 8693).
 */
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import { exchangesTokens, type IdentityProvider, type OAuthSettings } from '../../core/settings.ts'
import type { Secret } from '../../core/text/secret.ts'
import type { Login } from '../transport/auth-retry.ts'
import { findProvider, identityAssertion, JWT_BEARER, tokenInFile } from './assertion-grant.ts'
import type { Issuer } from './discovery.ts'
import { type DpopKey, dpopKeyFor } from './dpop.ts'
import { createIssuers, type Issuers } from './issuer-cache.ts'
import { createOAuthHttp, type OAuthHttp } from './oauth-http.ts'
import { configured } from './registration.ts'
import { type Grant, requestToken, TOKEN_EXCHANGE, type TokenParameters } from './token-endpoint.ts'
import { RenewingLogin } from './token-renewal.ts'

interface Options {
  readonly oauth: OAuthSettings
  readonly issuers: Issuers
  readonly http: OAuthHttp
  readonly proxies: FindProxy
}

/** The logins of all callers at one server. */
interface TokenLogins {
  /** Whether each caller has its own. */
  readonly isPersonal: boolean
  login(principal: Principal): Login
  close(): Promise<void>
}

/** What is presented for a token: the grant type, and its parameters. */
type Presented = readonly [grantType: string, parameters: TokenParameters]
/** Makes it for the issuer, from the token of a caller where it depends on one. */
type Present = (issuer: Issuer, scope: string | undefined, callerToken: string) => Promise<Presented>

/** The logins for a server whose users do not sign in. */
export function createTokenLogins(options: Options): TokenLogins {
  const { oauth } = options
  const { identityProvider } = oauth
  if (oauth.grant === 'jwt_bearer' && identityProvider) return byIdentity(options, identityProvider)
  const close = (): Promise<void> => Promise.resolve()
  if (oauth.grant === 'token_exchange')
    return {
      isPersonal: true,
      login: byCaller(options, async (_issuer, _scope, token) => exchanged(token)),
      close,
    }
  return { isPersonal: false, login: forAll(options, () => ownGrant(oauth)), close }
}

async function ownGrant({ grant, assertionFile = '' }: OAuthSettings): Promise<Presented> {
  if (grant !== 'jwt_bearer') return ['client_credentials', {}]
  return [JWT_BEARER, { assertion: await tokenInFile(assertionFile) }]
}

function exchanged(token: string): Presented {
  const type = 'urn:ietf:params:oauth:token-type:access_token'
  return [TOKEN_EXCHANGE, { subject_token: token, subject_token_type: type, requested_token_type: type }]
}

/** The identity of each caller, or of the one person, asserted by an identity provider. */
function byIdentity(options: Options, provider: IdentityProvider): TokenLogins {
  // The configuration names the identity provider, which may have a private address.
  const http = createOAuthHttp(true, options.proxies)
  const providers = createIssuers(options.oauth, () => findProvider(provider, http))
  const { subjectTokenFile } = provider
  const present: Present = async ({ server, resource }, scope, callerToken) => {
    const token = subjectTokenFile === undefined ? callerToken : await tokenInFile(subjectTokenFile)
    const purpose = { audience: server.issuer, resource, scope }
    const { server: own } = await providers.current()
    return [
      JWT_BEARER,
      { assertion: await identityAssertion(provider, token, purpose, { server: own, http }) },
    ]
  }
  const isPersonal = exchangesTokens(options.oauth)
  const login = isPersonal ? byCaller(options, present) : forAll(options, present)
  return { isPersonal, login, close: () => http.close() }
}

/** One login for all callers. */
function forAll(options: Options, present: Present): () => Login {
  const login = new RenewingLogin(obtaining(options, (issuer, scope) => present(issuer, scope, '')))
  return () => login
}

/** A login for each token of a caller. */
function byCaller(options: Options, present: Present): (principal: Principal) => Login {
  // Tokens of the same caller may have different permissions, so they are not interchangeable.
  const logins = new LRUCache<string, RenewingLogin>({ max: 10_000 })
  return ({ token, claims }) => {
    if (!token) return tokenless
    const known = logins.get(token.digest)
    if (known) return known
    const login = new RenewingLogin(until(expiryOfCaller(claims), ofCaller(options, token, present)))
    logins.set(token.digest, login)
    return login
  }
}

type Obtain = (refused: string | undefined) => Promise<Grant>

function ofCaller(options: Options, token: Secret, present: Present): Obtain {
  return obtaining(options, (issuer, scope) => present(issuer, scope, token.reveal()))
}

/** Obtains tokens, all bound to one key if they have to be. */
function obtaining(
  { oauth, issuers, http }: Options,
  present: (issuer: Issuer, scope: string | undefined) => Promise<Presented>,
): Obtain {
  let dpop: DpopKey | undefined
  return async (refused) => {
    if (refused !== undefined) issuers.doubt()
    const issuer = await issuers.current()
    const { server, resource, scopes } = issuer
    dpop ??= await dpopKeyFor(oauth, issuer)
    const requested = oauth.scopes.length > 0 ? oauth.scopes : scopes
    const scope = requested.length > 0 ? requested.join(' ') : undefined
    const [grantType, parameters] = await present(issuer, scope)
    const client = configured(oauth, oauth.clientId ?? '', server)
    return requestToken({ server, client, http, dpop }, grantType, {
      scope,
      resource,
      audience: oauth.audience,
      ...parameters,
    })
  }
}

/** A token for the one of a caller must not outlive it. */
function until(expiry: number, obtain: Obtain): Obtain {
  return async (refused) => {
    const granted = await obtain(refused)
    return { ...granted, expiresAt: Math.min(granted.expiresAt, expiry) }
  }
}

function expiryOfCaller(claims: Principal['claims']): number {
  return typeof claims?.exp === 'number' ? claims.exp * 1000 : Number.MAX_SAFE_INTEGER
}

/** The login of a caller without a token. */
const tokenless: Login = {
  headers: () => Promise.reject(noToken()),
  refused: () => Promise.resolve(false),
}

function noToken(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    "This server requires a token exchanged for the caller's token, but the request has no token.",
    {
      category: 'permanent',
      suggestion: 'Call the gateway with a bearer token.',
      details: { http_status: 401 },
    },
  )
}
