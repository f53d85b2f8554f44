/** Requests to token endpoints, through oauth4webapi. */
import * as oauth from 'oauth4webapi'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { OAuthHttp } from './oauth-http.ts'
import type { Token } from './token-renewal.ts'

/** The gateway's client at an authorization server. */
export interface OAuthClient {
  readonly id: string
  readonly secret?: string
  readonly auth: ClientAuth
}

export type ClientAuth = 'none' | 'client_secret_basic' | 'client_secret_post'

/** A response of a token endpoint. */
export interface Grant extends Token {
  readonly refresh?: string
  readonly scope?: string
}

/** An authorization server, the gateway's client there, and the HTTP client. */
export interface TokenConversation {
  readonly server: oauth.AuthorizationServer
  readonly client: OAuthClient
  readonly http: OAuthHttp
}

/** Requests a token with any grant type. @throws SERVER_UNAVAILABLE */
export async function requestToken(
  { server, client, http }: TokenConversation,
  grantType: string,
  parameters: Readonly<Record<string, string | undefined>>,
): Promise<Grant> {
  const given = Object.entries(parameters).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const as = { ...server }
  const own = { client_id: client.id }
  return attempt(async () => {
    const auth = authOf(client)
    const response = await oauth.genericTokenEndpointRequest(as, own, auth, grantType, given, through(http))
    return grantOf(await oauth.processGenericTokenEndpointResponse(as, own, await withoutIdToken(response)))
  })
}

/** Redeems an authorization code for a grant, validating the issuer (RFC 9207). @throws SERVER_UNAVAILABLE */
export async function redeemCode(
  conversation: TokenConversation,
  answer: CodeAnswer,
  redemption: Redemption,
): Promise<Grant> {
  const { server, client } = conversation
  const own = { client_id: client.id }
  return attempt(async () => {
    const response = await sendCode(conversation, answer, redemption)
    return grantOf(await oauth.processAuthorizationCodeResponse(server, own, await withoutIdToken(response)))
  })
}

/**
 * Redeems an authorization code for the claims about the person, with signature and nonce validated (OpenID Connect
 * Core §3.1.3.7). The accompanying tokens are ignored. @throws SERVER_UNAVAILABLE
 */
export async function redeemIdentity(
  conversation: TokenConversation,
  answer: CodeAnswer,
  redemption: Redemption & { readonly nonce: string },
): Promise<oauth.IDToken> {
  const { server, client, http } = conversation
  const own = { client_id: client.id, [oauth.clockTolerance]: CLOCK_SKEW }
  return attempt(async () => {
    const response = await sendCode(conversation, answer, redemption)
    const options = { expectedNonce: redemption.nonce, requireIdToken: true }
    const granted = await oauth.processAuthorizationCodeResponse(server, own, response, options)
    await oauth.validateApplicationLevelSignature(server, response, through(http))
    const claims = oauth.getValidatedIdTokenClaims(granted)
    if (!claims) throw new GatewayError('SERVER_UNAVAILABLE', 'The issuer returned no ID token.')
    return claims
  })
}

/** The tolerated clock difference, in seconds. */
const CLOCK_SKEW = 30

/** The parameters of a callback, and the expected state. */
interface CodeAnswer {
  readonly params: URLSearchParams
  readonly state: string
}

/** Sends the code to the token endpoint, after the issuer was validated (RFC 9207). */
async function sendCode(
  { server, client, http }: TokenConversation,
  { params, state }: CodeAnswer,
  { redirectUri, verifier, resource }: Redemption,
): Promise<Response> {
  const own = { client_id: client.id }
  const checked = oauth.validateAuthResponse(server, own, params, state)
  const additionalParameters = resource === undefined ? {} : { resource }
  const options = { ...through(http), additionalParameters }
  const auth = authOf(client)
  return oauth.authorizationCodeGrantRequest(server, own, auth, checked, redirectUri, verifier, options)
}

/**
 * A response without the ID token: nothing here reads it, and the library would refuse the whole grant if it cannot
 * verify it.
 */
async function withoutIdToken(response: Response): Promise<Response> {
  const value: unknown = await response
    .clone()
    .json()
    .catch(() => undefined)
  if (!isObject(value) || value.id_token === undefined) return response
  const { id_token: _ignored, ...rest } = value
  return new Response(JSON.stringify(rest), { status: response.status, headers: response.headers })
}

interface Redemption {
  readonly redirectUri: string
  readonly verifier: string
  readonly resource?: string | undefined
}

/** The authentication method of a client with a secret, among those the authorization server supports. */
export function clientAuth(supported: readonly string[] | undefined): ClientAuth {
  // RFC 8414 §2: the default if the metadata lists none.
  const authMethods = supported ?? ['client_secret_basic']
  if (authMethods.includes('client_secret_basic')) return 'client_secret_basic'
  return authMethods.includes('client_secret_post') ? 'client_secret_post' : 'client_secret_basic'
}

/** The OAuth error code that made a request fail. */
export function oauthError(error: unknown): string | undefined {
  const code = error instanceof GatewayError ? error.extra.details?.oauth_error : undefined
  return typeof code === 'string' ? code : undefined
}

/** The options of every library request: all of them use the HTTP client that checks addresses. */
export function through(http: OAuthHttp) {
  return {
    [oauth.allowInsecureRequests]: true,
    [oauth.customFetch]: async (url: string, { method, headers, body }: Given): Promise<Response> => {
      const response = await http.send(url, { method, headers, ...(body && { body: body.toString() }) })
      // The error in the body is more specific than the challenge to authenticate the client.
      response.headers.delete('www-authenticate')
      return response
    },
  }
}

interface Given {
  readonly method: string
  readonly headers: Record<string, string>
  readonly body?: URLSearchParams | string | null | undefined
}

/** Runs a step; its failure omits the response body, which may contain a token. @throws SERVER_UNAVAILABLE */
export async function attempt<Result>(step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof GatewayError) throw error
    const code = errorCode(error)
    const why = code ?? (error instanceof Error ? error.message : 'it failed')
    throw new GatewayError('SERVER_UNAVAILABLE', `The authorization server issued no token (${why}).`, {
      // A refusal, which is no evidence for other callers.
      ...(code !== undefined && { details: { http_status: 401, oauth_error: code } }),
    })
  }
}

function errorCode(error: unknown): string | undefined {
  if (!(error instanceof oauth.ResponseBodyError) && !(error instanceof oauth.AuthorizationResponseError)) {
    return undefined
  }
  return /^[\w.-]{1,64}$/.test(error.error) ? error.error : 'an error'
}

function authOf({ secret, auth }: OAuthClient): oauth.ClientAuth {
  if (secret === undefined || auth === 'none') return oauth.None()
  return auth === 'client_secret_post' ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret)
}

function grantOf(response: oauth.TokenEndpointResponse): Grant {
  if (response.token_type !== 'bearer') {
    throw new GatewayError('SERVER_UNAVAILABLE', 'The authorization server issued no bearer token.')
  }
  // A single-line token: it becomes a header.
  if (!/^[\x21-\x7e]+$/.test(response.access_token)) {
    throw new GatewayError('SERVER_UNAVAILABLE', 'The authorization server issued a malformed token.')
  }
  const { expires_in: seconds, refresh_token: refresh, scope } = response
  return {
    value: response.access_token,
    expiresAt: seconds === undefined ? Number.MAX_SAFE_INTEGER : Date.now() + seconds * 1000,
    ...(refresh !== undefined && { refresh }),
    ...(scope !== undefined && { scope }),
  }
}
