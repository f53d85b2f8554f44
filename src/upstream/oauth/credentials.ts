/**
 * Which credentials the requests to a server carry: none, a token, a grant of its own, or one of each user.
 */
import type { Middleware } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { OAuthSettings, UpstreamSettings, UrlReach } from '../../core/settings.ts'
import { isNearHost, createOAuthHttp, type OAuthHttp } from './oauth-http.ts'
import { findIssuer, type Issuer } from './discovery.ts'
import { createGrants } from './grants.ts'
import { signInGuard } from './sign-in-guard.ts'
import { clientCredentials, tokenExchange } from './client-credentials.ts'
import { clientFor, configured, type Site } from './registration.ts'
import { createSignIns, type SignInRecord } from './sign-in.ts'
import type { TokenConversation } from './token-endpoint.ts'
import type { TokenVault } from './token-vault.ts'
import type { Login } from '../transport/auth-retry.ts'

/** How the gateway proves to one server for whom it calls. The caller's own token is never what it shows. */
export interface Credentials {
  /** Each caller has its own, so connections are never shared. */
  readonly isPersonal: boolean
  login(principal: Principal): Login
  /** Asks callers to sign in where they have to. */
  readonly guard?: Middleware
  /** Takes in a user who comes back from signing in. @throws SERVER_UNAVAILABLE */
  finish?(record: SignInRecord, params: URLSearchParams): Promise<void>
  close(): Promise<void>
}

/** What all servers' credentials share. */
export interface OAuthSite {
  readonly vault: TokenVault
  /** The URL by which browsers reach the gateway; undefined where they cannot. */
  site(): Site | undefined
  /** A user was sent on the way to sign in. */
  begun(upstream: string, principal: string): void
}

/** How long what is known of an authorization server is good, in milliseconds. */
const KNOWN = 3_600_000

/** The credentials of a server, where they take more than fixed headers. */
export function createCredentials(
  { name, reach }: UpstreamSettings,
  shared: OAuthSite,
): Credentials | undefined {
  if (reach.kind !== 'url' || !reach.oauth) return undefined
  const { oauth, url } = reach
  // Addresses from the configuration may be anywhere; those a server of the internet names may not.
  const isGiven = oauth.issuer !== undefined || oauth.tokenEndpoint !== undefined
  const mayBePrivate = isGiven || isNearHost(new URL(url).hostname)
  const http = createOAuthHttp(mayBePrivate)
  const issuer = issuerOf(reach, oauth, http)
  if (oauth.grant === 'authorization_code') {
    return byUser(name, reach, oauth, { ...shared, http, issuer, mayBePrivate })
  }

  const conversation = async (): Promise<TokenConversation> => {
    const { server } = await issuer()
    return { server, client: configured(oauth, oauth.clientId ?? '', server), http }
  }
  const parameters = async () => {
    const { resource, scopes } = await issuer()
    const asked = oauth.scopes.length > 0 ? oauth.scopes : scopes
    return {
      scope: asked.length > 0 ? asked.join(' ') : undefined,
      resource,
      audience: oauth.audience,
    }
  }
  const isPersonal = oauth.grant === 'token_exchange'
  const make = isPersonal ? tokenExchange : clientCredentials
  return { isPersonal, login: make({ conversation, parameters }), close: () => http.close() }
}

interface Shared extends OAuthSite {
  readonly http: OAuthHttp
  readonly mayBePrivate: boolean
  issuer(): Promise<Issuer>
}

function byUser(name: string, { url }: UrlReach, oauth: OAuthSettings, shared: Shared): Credentials {
  const { http, vault, issuer, mayBePrivate } = shared
  const grants = createGrants({ audience: [name, url], vault, http, issuer })
  const signIns = createSignIns({
    upstream: name,
    vault,
    http,
    grants,
    mayBePrivate,
    scopes: oauth.scopes,
    issuer,
    client: (server, site) => clientFor(server, site, { oauth, vault, http }),
    site: () => shared.site() ?? unreachable(),
    onBegun: (principal) => shared.begun(name, principal),
  })
  return {
    isPersonal: true,
    login: (principal) => grants.login(principal),
    guard: signInGuard({
      upstream: name,
      login: ({ principal }) => grants.login(principal),
      begin: (principal, wanted) => signIns.begin(principal, wanted),
      current: (principal) => signIns.current(principal),
    }),
    finish: (record, params) => signIns.finish(record, params),
    close: () => http.close(),
  }
}

/** Who issues tokens, found out once in a while. */
function issuerOf({ url, headers }: UrlReach, oauth: OAuthSettings, http: OAuthHttp): () => Promise<Issuer> {
  let known: { readonly issuer: Promise<Issuer>; readonly until: number } | undefined
  return () => {
    if (known && Date.now() < known.until) return known.issuer
    const revealed = Object.entries(headers).map(([key, value]) => [key, value.reveal()] as const)
    const issuer = findIssuer({ url, headers: Object.fromEntries(revealed), oauth, http })
    const found = { issuer, until: Date.now() + KNOWN }
    known = found
    issuer.catch(() => {
      if (known === found) known = undefined
    })
    return issuer
  }
}

function unreachable(): never {
  throw new GatewayError('SERVER_UNAVAILABLE', 'Users cannot sign in: no browser can reach the gateway.', {
    suggestion: 'Serve over HTTP, and set listen.public_url where the address is not of this machine alone.',
  })
}
