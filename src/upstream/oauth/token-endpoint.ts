/**
 * Requests to token endpoints, through oauth4webapi. Their responses are read here, as leniently as clients read them
 * that servers are tested with: everything but the access token may be missing, `null`, or of another type.
 */
import * as oauth from 'oauth4webapi'
import { createPrivateKey } from 'node:crypto'
import { importJWK, type JWK } from 'jose'
import { GatewayError } from '../../core/error.ts'
import { ExactNumber } from '../../core/json/exact-number.ts'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import type { DpopKey } from './dpop.ts'
import { type OAuthHttp, type Failure, refused, unusableAnswer, permanent } from './oauth-http.ts'
import type { HttpAnswer, Login, LoginHeaders, RequestTarget } from '../transport/auth-retry.ts'
import { readChallenge } from './discovery.ts'
import { clientCredentials } from '../../core/text/redactor.ts'
import type { Secret } from '../../core/text/secret.ts'

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
  /** The key that tokens have to be bound to (RFC 9449). */
  readonly dpop?: DpopKey | undefined
}

/** Parameters of a request; those without a value are not sent. */
export type TokenParameters = Readonly<Record<string, string | undefined>>

/** Requests a token with any grant type. @throws SERVER_UNAVAILABLE */
export async function requestToken(
  conversation: TokenConversation,
  grantType: string,
  parameters: TokenParameters,
): Promise<Grant> {
  return grantOf(await requestBody(conversation, grantType, parameters), conversation)
}

/**
 * Requests an assertion by token exchange (RFC 8693 §2.2.1). Whoever gets the
 * assertion must not get anything else that is issued, such as an access token. @throws SERVER_UNAVAILABLE
 */
export async function requestAssertion(
  conversation: TokenConversation,
  parameters: TokenParameters & { readonly requested_token_type: string },
): Promise<string> {
  const body = await requestBody(conversation, TOKEN_EXCHANGE, parameters)
  if (body.issued_token_type !== parameters.requested_token_type)
    throw unusableAnswer('it issued another kind of token than an assertion')
  return tokenIn(body)
}

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

function requestBody(
  conversation: TokenConversation,
  grantType: string,
  parameters: TokenParameters,
): Promise<Body> {
  const { server, client } = conversation
  const given = Object.entries(parameters).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  )
  const own = { client_id: client.id }
  return attempt(() =>
    exchange(conversation, (auth, options) =>
      oauth.genericTokenEndpointRequest({ ...server }, own, auth, grantType, given, options),
    ),
  )
}

/** Redeems an authorization code for a grant, validating the issuer (RFC 9207). @throws SERVER_UNAVAILABLE */
export async function redeemCode(
  conversation: TokenConversation,
  answer: CodeAnswer,
  redemption: Redemption,
): Promise<Grant> {
  return grantOf(await attempt(() => sendCode(conversation, answer, redemption)), conversation)
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
    const body = await sendCode(conversation, answer, redemption)
    const { id_token } = body
    const response = Response.json({ access_token: tokenIn(body), token_type: 'bearer', id_token })
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

interface Redemption {
  readonly redirectUri: string
  readonly verifier: string
  readonly resource?: string | undefined
}

/** Sends the code to the token endpoint, after the issuer was validated (RFC 9207). */
async function sendCode(
  conversation: TokenConversation,
  { params, state }: CodeAnswer,
  { redirectUri, verifier, resource }: Redemption,
): Promise<Body> {
  const { server, client } = conversation
  const own = { client_id: client.id }
  const checked = oauth.validateAuthResponse(server, own, params, state)
  const additionalParameters = resource === undefined ? {} : { resource }
  return exchange(conversation, (auth, given) => {
    const options = { ...given, additionalParameters }
    return oauth.authorizationCodeGrantRequest(server, own, auth, checked, redirectUri, verifier, options)
  })
}

type Body = Readonly<Record<string, unknown>>
type Send = (auth: oauth.ClientAuth, options: ReturnType<typeof through>) => Promise<Response>

/** Sends a request, with each authentication of the client until it is accepted. */
async function exchange(conversation: TokenConversation, send: Send): Promise<Body> {
  const { server, client, http } = conversation
  const key = `${server.issuer} ${client.id}`
  const last = http.accepted.get(key)
  const possible = await authentications(server, client)
  const ordered = possible.toSorted((one, other) => Number(other.name === last) - Number(one.name === last))
  let refusal: unknown
  for (const { name, apply } of ordered) {
    try {
      const body = await sendProved(conversation, apply, send)
      http.accepted.set(key, name)
      return body
    } catch (error) {
      // The client itself was refused, so what it asked for was not looked at.
      if (oauthError(error) !== 'invalid_client') throw error
      refusal ??= error
    }
  }
  throw refusal
}

/** Sends a request, once more with the nonce that the authorization server asks for (RFC 9449 §8). */
async function sendProved(
  { http, dpop }: TokenConversation,
  auth: oauth.ClientAuth,
  send: Send,
): Promise<Body> {
  const options = { ...through(http), ...(dpop && { DPoP: dpop.handle }) }
  try {
    return await readBody(await send(auth, options))
  } catch (error) {
    if (!dpop || oauthError(error) !== 'use_dpop_nonce') throw error
    return readBody(await send(auth, options))
  }
}

/** The JSON object of a successful response, whatever its status and type. @throws SERVER_UNAVAILABLE */
async function readBody(response: Response): Promise<Body> {
  const value = readJson(await response.text())
  const body = asObject(value)
  if (response.ok && textIn(body.access_token) !== undefined) return body
  // RFC 6749 §5.2: the status of a client that failed to authenticate.
  const implied = response.status === 401 ? { code: 'invalid_client' } : {}
  throw refused('issued no token', { ...implied, ...failureOf(response.status, body) })
}

/** What a response says of a failure. Some servers report failures with 200. */
export function failureOf(status: number, { error }: Body): Failure {
  return { status, ...(typeof error === 'string' && error !== '' && { code: wordOf(error) }) }
}

/** An error code as it may be displayed. */
function wordOf(code: string): string {
  return /^[\w.-]{1,64}$/.test(code) ? code : 'an error'
}

/** The OAuth error code that made a request fail. */
export function oauthError(error: unknown): string | undefined {
  const code = error instanceof GatewayError ? error.extra.details?.oauth_error : undefined
  return typeof code === 'string' ? code : undefined
}

/** The options of every library request: all of them use the HTTP client that checks addresses. */
function through(http: OAuthHttp) {
  return {
    [oauth.allowInsecureRequests]: true,
    [oauth.customFetch]: (url: string, { method, headers, body }: Given): Promise<Response> =>
      http.send(url, {
        ...(method !== 'GET' && { method }),
        headers,
        ...(body && { body: body.toString() }),
      }),
  }
}

interface Given {
  readonly method: string
  readonly headers: Record<string, string>
  readonly body?: URLSearchParams | string | null | undefined
}

/** Runs a step; its failure omits the response body, which may contain a token. @throws SERVER_UNAVAILABLE */
async function attempt<Result>(step: () => Promise<Result>): Promise<Result> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof GatewayError) throw error
    if (error instanceof oauth.AuthorizationResponseError)
      throw refused('issued no token', { status: 400, code: wordOf(error.error) })
    throw unusableAnswer(error instanceof Error ? error.message : 'it failed', error)
  }
}

function tokenIn({ access_token: token }: Body): string {
  const text = textIn(token) ?? ''
  // A single-line token: it becomes a header.
  if (!/^[\x21-\x7e]+$/.test(text)) throw unusableAnswer('a malformed token')
  return text
}

function grantOf(body: Body, { dpop }: TokenConversation): Grant {
  const value = tokenIn(body)
  const type = (textIn(body.token_type) ?? 'bearer').trim()
  if (dpop ? !/^dpop$/i.test(type) : !/^bearer\b/i.test(type)) {
    throw unusableAnswer(dpop ? 'its token is bound to no key' : 'it issued no bearer token')
  }
  const [refresh, scope] = [textIn(body.refresh_token), scopeIn(body.scope)]
  return {
    value,
    expiresAt: expiryOfToken(body.expires_in),
    ...(refresh !== undefined && { refresh }),
    ...(scope !== undefined && { scope }),
    ...(dpop && { dpop }),
  }
}

/** When a token expires; one whose lifetime is unknown is used until it is refused. */
function expiryOfToken(seconds: unknown): number {
  const lifetime = Number(textIn(seconds) ?? 0)
  return lifetime > 0
    ? Math.min(Number.MAX_SAFE_INTEGER, Date.now() + lifetime * 1000)
    : Number.MAX_SAFE_INTEGER
}

function scopeIn(scope: unknown): string | undefined {
  return textIn(Array.isArray(scope) ? scope.map((each) => textIn(each) ?? '').join(' ') : scope)
}

/** A text that is not empty, or a number as it was written. */
export function textIn(value: unknown): string | undefined {
  const isNumber = typeof value === 'number' || value instanceof ExactNumber
  const text = isNumber ? String(value) : value
  return typeof text === 'string' && text !== '' ? text : undefined
}

/** An access token and its expiry, in milliseconds since the epoch. */
export interface Token {
  readonly value: string
  readonly expiresAt: number
  /** The key it is bound to (RFC 9449). */
  readonly dpop?: DpopKey
}

/** Obtains a token; `refused` is one that is no longer valid, whatever its expiry. */
type Obtain = (refused: string | undefined) => Promise<Token>

/** The latest renewal before the expiry, in milliseconds. */
const RENEW_AHEAD_MS = 60_000
/** How long a failure to obtain a token is cached, in milliseconds. */
const FAILURE_PAUSE_MS = 2000

/** A login whose token is renewed before it expires, with one request for all waiting calls. */
export class RenewingLogin implements Login {
  readonly #obtain: Obtain
  readonly #lasts: (error: unknown) => boolean
  #token: Token | undefined
  #headers: LoginHeaders | undefined
  #renewAt = 0
  #refused: string | undefined
  #pending: Promise<LoginHeaders> | undefined
  #failure: { readonly error: unknown; readonly until: number } | undefined

  /** `lasts` says whether a failure is the answer for a while, so that the authorization server is not asked with each call. */
  constructor(obtain: Obtain, lasts: (error: unknown) => boolean = () => true) {
    this.#obtain = obtain
    this.#lasts = lasts
  }

  /** Whether there is a token; it may have to be renewed. */
  get isReady(): boolean {
    return this.#headers !== undefined
  }

  /** Whether this is the token that is used, or was refused last. */
  knows({ value }: Token): boolean {
    return value === (this.#token?.value ?? this.#refused)
  }

  headers(target?: RequestTarget): LoginHeaders | Promise<LoginHeaders> {
    const headers = this.#current()
    if (headers instanceof Promise) return headers.then((found) => this.#proved(found, target))
    return this.#proved(headers, target)
  }

  answered(answer: HttpAnswer): void {
    this.#token?.dpop?.learn(answer.header('dpop-nonce'))
  }

  #proved(headers: LoginHeaders, target: RequestTarget | undefined): LoginHeaders | Promise<LoginHeaders> {
    const { dpop, value } = this.#token ?? {}
    if (!dpop || value === undefined || !target) return headers
    return dpop.prove(value, target).then((proof) => ({ authorization: `DPoP ${value}`, dpop: proof }))
  }

  #current(): LoginHeaders | Promise<LoginHeaders> {
    const now = Date.now()
    const { expiresAt = 0 } = this.#token ?? {}
    if (this.#headers && now < this.#renewAt) return this.#headers
    if (!this.#headers || now >= expiresAt) return this.#renew()
    // Still valid: callers need not wait, and a failure surfaces once it has expired.
    this.#renew().catch(() => undefined)
    return this.#headers
  }

  async refused({ status, header }: HttpAnswer, sent: LoginHeaders): Promise<boolean> {
    if (status !== 401) return false
    // RFC 9449 §9: the token is fine, and the nonce is known from the response.
    if (sent.dpop !== undefined && readChallenge(header('www-authenticate')).error === 'use_dpop_nonce')
      return true
    // Another request may have been refused before.
    if (this.#headers === sent || this.#headers?.authorization === sent.authorization) this.drop()
    await this.headers()
    return true
  }

  /** Marks the token as no longer valid. */
  drop(): void {
    this.#refused = this.#token?.value ?? this.#refused
    this.#token = this.#headers = undefined
  }

  /** Continues with a token obtained elsewhere. */
  accept(token: Token): LoginHeaders {
    const now = Date.now()
    this.#failure = this.#refused = undefined
    this.#token = token
    this.#renewAt = token.expiresAt - Math.min(RENEW_AHEAD_MS, (token.expiresAt - now) / 5)
    this.#headers = { authorization: `${token.dpop ? 'DPoP' : 'Bearer'} ${token.value}` }
    return this.#headers
  }

  #renew(): Promise<LoginHeaders> {
    if (this.#pending) return this.#pending
    if (this.#failure && Date.now() < this.#failure.until) return Promise.reject(this.#failure.error)
    const pending = this.#obtain(this.#refused).then(
      (token) => this.accept(token),
      (error: unknown) => {
        if (this.#lasts(error)) this.#failure = { error, until: Date.now() + FAILURE_PAUSE_MS }
        throw error
      },
    )
    this.#pending = pending.finally(() => {
      this.#pending = undefined
    })
    return this.#pending
  }
}

/*
 * How the gateway's client authenticates at a token endpoint (RFC 6749 §2.3, RFC 7523 §2.2). What the metadata lists is
 * tried first, and the other ways to send a secret after `invalid_client`: the metadata may be wrong or silent, and not
 * every server decodes HTTP Basic.
 */

const methods = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const

/** The `token_endpoint_auth_method` of a client. */
export type ClientAuth = (typeof methods)[number]

/** The gateway's client at an authorization server. */
export interface OAuthClient {
  readonly id: string
  readonly secret?: string
  /** The private key of a client that signs assertions, as PEM or JWK. It is never stored. */
  readonly key?: Secret
  readonly auth: ClientAuth
}

/** A way to authenticate, by a name that can be remembered. */
interface Authentication {
  readonly name: string
  readonly apply: oauth.ClientAuth
}

/** The method with this name. */
export function readClientAuth(value: unknown): ClientAuth | undefined {
  return methods.find((method) => method === value)
}

/** The method for a client with this id and secret, among those that the authorization server supports. */
export function clientAuth(
  { token_endpoint_auth_methods_supported: listed }: oauth.AuthorizationServer,
  { id, secret }: { readonly id: string; readonly secret: string },
): ClientAuth {
  // RFC 8414 §2: the default if the metadata lists none.
  const supported = listed ?? ['client_secret_basic']
  const hasPost = supported.includes('client_secret_post')
  if (!supported.includes('client_secret_basic'))
    return hasPost ? 'client_secret_post' : 'client_secret_basic'
  // In a body there is one way to write any secret.
  return hasPost && clientCredentials(id, secret).length > 1 ? 'client_secret_post' : 'client_secret_basic'
}

/** The ways to authenticate a client, the best one first. @throws SERVER_UNAVAILABLE if its key is unusable */
async function authentications(
  server: oauth.AuthorizationServer,
  { id, secret, key, auth }: OAuthClient,
): Promise<readonly Authentication[]> {
  if (auth === 'private_key_jwt' && key) {
    return [{ name: auth, apply: await signing(key, server) }]
  }
  const none = { name: 'none', apply: oauth.None() }
  if (secret === undefined) return [none]
  const post = { name: 'post', apply: oauth.ClientSecretPost(secret) }
  const basic = clientCredentials(id, secret).map((credentials, at) => ({
    name: `basic ${at}`,
    apply: basicAuth(credentials),
  }))
  if (auth === 'client_secret_post') return [post, ...basic]
  return auth === 'none' ? [none, ...basic, post] : [...basic, post]
}

function basicAuth(credentials: string): oauth.ClientAuth {
  return (_server, _client, _body, headers) => headers.set('authorization', `Basic ${credentials}`)
}

/** Signs assertions as the authorization server accepts them (RFC 7523 §2.2). */
async function signing(key: Secret, server: oauth.AuthorizationServer): Promise<oauth.ClientAuth> {
  const { kid, ...jwk } = readPrivateKey(key.reveal()) ?? {}
  const accepted = server.token_endpoint_auth_signing_alg_values_supported
  const possible = algorithmsOf(jwk)
  const algorithm = possible.find((each) => accepted?.includes(each)) ?? possible[0]
  const imported = algorithm === undefined ? undefined : await importJWK(jwk, algorithm)
  if (imported instanceof CryptoKey) {
    const [privateKey, alg] = [{ key: imported, ...(kid !== undefined && { kid }) }, algorithm]
    // The library has one of two names for a curve.
    const modify = (header: Record<string, unknown>): void => void Object.assign(header, { alg })
    return oauth.PrivateKeyJwt(privateKey, { [oauth.modifyAssertion]: modify })
  }
  const message = 'The private key of the gateway for the authorization server is unusable.'
  const fix = 'set oauth.private_key of this server to a private key that signs'
  throw new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/** A private key in PEM or JWK; undefined if it is none that signs. */
function readPrivateKey(text: string): JWK | undefined {
  const given = readJson(text)
  try {
    const key = isObject(given) ? createPrivateKey({ key: given, format: 'jwk' }) : createPrivateKey(text)
    const jwk: JWK = key.export({ format: 'jwk' })
    if (algorithmsOf(jwk).length === 0) return undefined
    return isObject(given) && typeof given.kid === 'string' ? { ...jwk, kid: given.kid } : jwk
  } catch {
    return undefined
  }
}

/** The signature algorithms of a key, the usual one first. */
function algorithmsOf({ kty, crv }: JWK): readonly string[] {
  if (kty === 'RSA') return ['RS256', 'PS256']
  return byCurve[crv ?? ''] ?? []
}

const byCurve: Readonly<Record<string, readonly string[]>> = {
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}
