/**
 * Sign-in of people to the gateway's own pages, at the issuer of `auth.jwt`: the authorization code flow of OpenID
 * Connect with PKCE, a state and a nonce.
 *
 *   begin: state, nonce, verifier and next page go into an encrypted cookie of the browser; nothing is stored
 *   finish: cookie and state match → code → ID token, its signature, nonce and claims validated → session
 *   session: a random name in a cookie; its content is in the vault, so signing out ends it everywhere
 *
 * A session is valid for its issuer and client only, for an hour, and on pages only: it never makes calls.
 */
import { createHash } from 'node:crypto'
import {
  type AuthorizationServer,
  generateRandomCodeVerifier,
  generateRandomNonce,
  generateRandomState,
} from 'oauth4webapi'
import type { AuthSettings, JwtSettings, PageClient } from '../../core/auth-settings.ts'
import type { Cookie } from '../../core/web.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { isSubject } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { FindCookie, IdentityClaims, PageSignIn } from '../../core/audit-step.ts'
import { authorizationUrl } from './sign-in.ts'
import { readServer } from './discovery.ts'
import { createOAuthHttp, type OAuthHttp } from './oauth-http.ts'
import { type OAuthClient, redeemIdentity } from './token-endpoint.ts'
import { configured } from './registration.ts'
import type { TokenVault } from './token-vault.ts'

interface Options {
  auth(): Pick<AuthSettings, 'jwt'>
  /** The URL by which browsers reach the gateway; undefined if they cannot. */
  base(): string | undefined
  readonly vault: TokenVault
  /** The proxies for requests to the issuer. */
  readonly proxies: FindProxy
  /** In milliseconds since 1970. */
  now(): number
}

/** How long a sign-in may take, and how long a session lasts, in seconds. */
const SIGN_IN_SECONDS = 600
const SESSION_SECONDS = 3600
/**
 * How long the issuer's metadata is cached, and how long it is not requested again after a failure, in milliseconds.
 */
const METADATA_TTL_MS = 3_600_000
const FAILURE_WAIT_MS = 5000
/** The maximum number of concurrent exchanges with the issuer: anyone who can open the page can start one. */
const MAX_CONVERSATIONS = 32
const MAX_NEXT_LENGTH = 2048

const BEGIN = '/sign-in'
const CALLBACK = '/sign-in/callback'

/** Lets people sign in; `close` closes its connections to the issuer. */
export function createPageSignIn(options: Options): PageSignIn & { close(): Promise<void> } {
  return new IssuerSignIn(options)
}

class IssuerSignIn implements PageSignIn {
  readonly #options: Options
  // The configuration names the issuer, which may have a private address.
  readonly #http: OAuthHttp
  readonly #metadata: (jwt: JwtSettings) => Promise<AuthorizationServer>
  #conversations = 0

  constructor(options: Options) {
    this.#options = options
    this.#http = createOAuthHttp(true, options.proxies)
    this.#metadata = createMetadata((issuer) => readServer(issuer, this.#http, unusable), options.now)
  }

  readonly link = (next: string): string | undefined => {
    const offered = this.#offered()
    return offered && `${offered.base}${BEGIN}?${new URLSearchParams({ next }).toString()}`
  }

  readonly begin: PageSignIn['begin'] = (next) => this.#limited(() => this.#begin(next))

  readonly finish: PageSignIn['finish'] = (params, cookieOf) =>
    this.#limited(() => this.#finish(params, cookieOf))

  readonly identity: PageSignIn['identity'] = async (cookieOf) => (await this.#session(cookieOf))?.claims

  readonly end: PageSignIn['end'] = async (cookieOf) => {
    const offered = this.#offered()
    if (!offered) return undefined
    const open = await this.#session(cookieOf)
    if (open) await this.#options.vault.delete(['session', open.id])
    return { next: `${offered.base}/`, cookie: sessionCookie(offered, undefined) }
  }

  close(): Promise<void> {
    return this.#http.close()
  }

  async #begin(next: string | undefined): ReturnType<PageSignIn['begin']> {
    const { vault, now } = this.#options
    const offered = this.#required()
    const server = await this.#metadata(offered.jwt)
    const [state, nonce, verifier] = [
      generateRandomState(),
      generateRandomNonce(),
      generateRandomCodeVerifier(),
    ]
    const redirectUri = `${offered.base}${CALLBACK}`
    const request = { client: offered.client.id, redirectUri, state, verifier, nonce, scopes: ['openid'] }
    const { href } = await authorizationUrl(server, request, true)
    const until = now() + SIGN_IN_SECONDS * 1000
    const pending = { nonce, verifier, next: ownPath(next), until, issuer: offered.jwt.issuer }
    const value = await vault.seal(['way', state], pending)
    return { url: href, cookie: pendingCookie(offered, state, value) }
  }

  async #finish(params: URLSearchParams, cookieOf: FindCookie): ReturnType<PageSignIn['finish']> {
    const offered = this.#required()
    const state = params.get('state') ?? ''
    const { next, verifier, nonce } = await this.#pending(offered, state, cookieOf)
    const server = await this.#metadata(offered.jwt)
    const redirectUri = `${offered.base}${CALLBACK}`
    const conversation = { server, client: clientOf(offered.client, server), http: this.#http }
    const claims = await redeemIdentity(conversation, { params, state }, { redirectUri, verifier, nonce })
    checkClaims(claims, offered.jwt)
    const id = await this.#openSession(offered, claims, cookieOf)
    return {
      next: `${offered.base}${ownPath(next)}`,
      subject: claims.sub,
      cookies: [sessionCookie(offered, id), pendingCookie(offered, state, undefined)],
    }
  }

  /** The sign-in that this browser began with this state. @throws STATE_INVALID */
  async #pending(offered: Offered, state: string, cookieOf: FindCookie): Promise<Pending> {
    const { vault, now } = this.#options
    const sealed = RANDOM.test(state) ? cookieOf(cookieName(offered, 'way', state)) : undefined
    // It is encrypted under the name of its state, so it cannot be read with another one.
    const pending = sealed === undefined ? undefined : await vault.unseal(['way', state], sealed)
    const { nonce, verifier, next, until, issuer } = pending ?? {}
    if (typeof nonce !== 'string' || typeof verifier !== 'string' || typeof next !== 'string')
      throw unknownSignIn()
    if (typeof until !== 'number' || until <= now() || issuer !== offered.jwt.issuer) throw unknownSignIn()
    return { nonce, verifier, next }
  }

  /** Replaces the session of this browser by a new one. Resolves with its id. */
  async #openSession(offered: Offered, claims: IdentityClaims, cookieOf: FindCookie): Promise<string> {
    const { vault, now } = this.#options
    const previous = await this.#session(cookieOf)
    if (previous) await vault.delete(['session', previous.id])
    const id = generateRandomState()
    const kept = { claims: keptClaims(claims, offered.jwt), client: offered.client.id }
    const until = now() + SESSION_SECONDS * 1000
    await vault.write(['session', id], { ...kept, until }, SESSION_SECONDS * 1000)
    return id
  }

  async #session(cookieOf: FindCookie): Promise<Session | undefined> {
    const { vault, now } = this.#options
    const offered = this.#offered()
    const id = offered && cookieOf(cookieName(offered, 'session'))
    if (offered === undefined || id === undefined || !RANDOM.test(id)) return undefined
    const { claims, client, until } = (await vault.read(['session', id])) ?? {}
    if (!isObject(claims) || claims.iss !== offered.jwt.issuer || client !== offered.client.id)
      return undefined
    return typeof until === 'number' && until > now() ? { offered, id, claims } : undefined
  }

  #offered(): Offered | undefined {
    const { jwt } = this.#options.auth()
    const base = this.#options.base()
    return jwt?.client && base !== undefined ? { jwt, client: jwt.client, base } : undefined
  }

  #required(): Offered {
    const offered = this.#offered()
    if (offered) return offered
    throw new GatewayError('UNSUPPORTED_OPERATION', 'Sign-in to the pages of this gateway is not configured.')
  }

  async #limited<Result>(converse: () => Promise<Result>): Promise<Result> {
    if (this.#conversations >= MAX_CONVERSATIONS)
      throw new GatewayError('OVERLOADED', 'Too many people are signing in right now.')
    this.#conversations++
    return converse().finally(() => this.#conversations--)
  }
}

/** What the cookie of a sign-in in progress contains. */
interface Pending {
  readonly nonce: string
  readonly verifier: string
  readonly next: string
}

/** The current sign-in configuration. */
interface Offered {
  readonly jwt: JwtSettings
  readonly client: PageClient
  readonly base: string
}

interface Session {
  readonly offered: Offered
  readonly id: string
  readonly claims: IdentityClaims
}

/** The format of the library's states and verifiers: 32 random bytes. */
const RANDOM = /^[\w-]{43}$/

/** A path on the gateway to continue at after sign-in; the front page for any other text. */
function ownPath(next: string | undefined): string {
  if (next === undefined || next.length > MAX_NEXT_LENGTH) return '/'
  // Browsers treat a backslash as a slash, and remove tabs and line ends (WHATWG URL).
  if (!/^\/(?!\/)[\x21-\x5b\x5d-\x7e]*$/.test(next)) return '/'
  const origin = 'http://gatehouse.invalid'
  const url = URL.canParse(next, origin) ? new URL(next, origin) : undefined
  if (url?.origin !== origin || url.pathname.startsWith('//')) return '/'
  return /^\/sign-(?:in|out)(?:\/|$)/.test(url.pathname) ? '/' : `${url.pathname}${url.search}`
}

/** Caches the metadata of the issuer; failures are cached briefly too. */
function createMetadata(
  read: (issuer: string) => Promise<AuthorizationServer>,
  now: () => number,
): (jwt: JwtSettings) => Promise<AuthorizationServer> {
  let known:
    | { readonly key: string; readonly server: Promise<AuthorizationServer>; until: number }
    | undefined
  return ({ issuer, jwks, secret, algorithms }) => {
    // A shared key is for bearer tokens only.
    const signatures = secret ? ['RS256', 'ES256'] : [...algorithms]
    const key = JSON.stringify([issuer, jwks, signatures])
    if (known?.key === key && now() < known.until) return known.server
    const server = read(issuer).then((found) => ({
      ...found,
      ...(jwks !== undefined && { jwks_uri: jwks }),
      // ID tokens must use the same algorithms as bearer tokens.
      id_token_signing_alg_values_supported: signatures,
    }))
    const entry = { key, server, until: now() + METADATA_TTL_MS }
    known = entry
    server.catch(() => {
      entry.until = now() + FAILURE_WAIT_MS
    })
    return server
  }
}

function clientOf({ id, secret }: PageClient, server: AuthorizationServer): OAuthClient {
  return configured(secret ? { clientSecret: secret } : {}, id, server)
}

/** ID tokens must have the same claims as bearer tokens. @throws AUTHENTICATION_REQUIRED */
function checkClaims(claims: IdentityClaims, jwt: JwtSettings): void {
  const problem = claimProblem(claims, jwt)
  if (problem !== undefined) throw new GatewayError('AUTHENTICATION_REQUIRED', problem, { reason: 'claims' })
}

function claimProblem(claims: IdentityClaims, { issuer, requiredClaims }: JwtSettings): string | undefined {
  if (claims.iss !== issuer) return 'The issuer of the ID token differs from the configured issuer.'
  if (!isSubject(claims.sub)) return 'The ID token has no subject that can name a person.'
  // The client of an ID token is its audience, which was validated.
  const isMissing = requiredClaims.some((name) => name !== 'client_id' && claims[name] === undefined)
  return isMissing ? 'The ID token lacks a claim that the configuration requires.' : undefined
}

/** The claims that identify a person and grant permissions. */
function keptClaims(claims: IdentityClaims, { scopeClaim }: JwtSettings): IdentityClaims {
  const { iss, sub, [scopeClaim]: scopes } = claims
  return { iss, sub, ...(scopes !== undefined && { [scopeClaim]: scopes }) }
}

/** Browsers share cookies between gateways on different ports of a machine, so each gateway has its own names. */
function cookieName({ base, client }: Offered, kind: 'session' | 'way', state = ''): string {
  const { protocol, pathname } = new URL(base)
  // RFC 6265bis §4.1.3: no other host or page can set cookies with these names.
  const isHost = kind === 'session' && pathname === '/'
  const prefix = protocol === 'https:' ? (isHost ? '__Host-' : '__Secure-') : ''
  const own = createHash('sha256').update(`${base} ${client.id}`).digest('hex').slice(0, 8)
  const name = kind === 'session' ? `session-${own}` : `sign-in-${own}-${state.slice(0, 12)}`
  return `${prefix}gatehouse-${name}`
}

function sessionCookie(offered: Offered, id: string | undefined): Cookie {
  const { pathname, protocol } = new URL(offered.base)
  return {
    name: cookieName(offered, 'session'),
    value: id ?? '',
    path: pathname,
    lifetime: id === undefined ? 0 : SESSION_SECONDS,
    isSecure: protocol === 'https:',
  }
}

/** The cookie is only sent to the callback page. */
function pendingCookie(offered: Offered, state: string, value: string | undefined): Cookie {
  const { pathname, protocol } = new URL(`${offered.base}${CALLBACK}`)
  return {
    name: cookieName(offered, 'way', state),
    value: value ?? '',
    path: pathname,
    lifetime: value === undefined ? 0 : SIGN_IN_SECONDS,
    isSecure: protocol === 'https:',
  }
}

function unusable(what: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', `Sign-in is not available: the configuration ${what}.`, {
    suggestion: 'Check auth.jwt.issuer in the configuration.',
  })
}

function unknownSignIn(): GatewayError {
  return new GatewayError(
    'STATE_INVALID',
    'This sign-in was started in another browser, has expired, or is already complete.',
  )
}
