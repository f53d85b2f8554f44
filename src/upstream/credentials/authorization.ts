/**
 * The first half of the authorization code flow: the address at which a person signs in (RFC 6749 §4.1.1), always with
 * PKCE (RFC 7636) and a state. The second half is in token-endpoint.ts.
 *
 * Both kinds of sign-in use it: that of users to servers (sign-in.ts) and that of people to the gateway's own pages
 * (page-sign-in.ts).
 */
import { type AuthorizationServer, calculatePKCECodeChallenge } from 'oauth4webapi'
import { GatewayError } from '../../core/error.ts'
import { checkUrl } from './oauth-http.ts'

interface Asked {
  readonly client: string
  readonly redirectUri: string
  readonly state: string
  /** The PKCE verifier, which only the token endpoint gets. */
  readonly verifier: string
  readonly scopes: readonly string[]
  readonly resource?: string | undefined
  /** What the statement about the person has to repeat (OpenID Connect Core §3.1.2.1). */
  readonly nonce?: string
}

/** Where a person signs in; `mayBePrivate` as for `createOAuthHttp`. @throws SERVER_UNAVAILABLE where that would not be safe */
export async function authorizationUrl(
  server: AuthorizationServer,
  { client, redirectUri, state, verifier, scopes, resource, nonce }: Asked,
  mayBePrivate: boolean,
): Promise<URL> {
  if (server.authorization_endpoint === undefined) {
    throw new GatewayError('SERVER_UNAVAILABLE', 'The authorization server has no page to sign in at.')
  }
  const url = checkUrl(server.authorization_endpoint, mayBePrivate)
  const asked = {
    response_type: 'code',
    client_id: client,
    redirect_uri: redirectUri,
    state,
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...(resource !== undefined && { resource }),
    ...(nonce !== undefined && { nonce }),
    // OpenID Connect Core §11: offline access is granted only where the user is asked.
    ...(scopes.includes('offline_access') && { prompt: 'consent' }),
  }
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value)
  return url
}
