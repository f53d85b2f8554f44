/** The credentials of requests to a server: none, a token, a grant of the gateway, or a grant of each user. */
import type { AuthorizationServer } from 'oauth4webapi'
import { LRUCache } from 'lru-cache'
import { readFile, stat } from 'node:fs/promises'
import { isNearHost } from '../../core/address.ts'
import type { Middleware, Call, Handler, Notification, Outcome, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import {
  type OAuthSettings,
  type UpstreamSettings,
  type UrlReach,
  exchangesTokens,
  type IdentityProvider,
} from '../../core/settings.ts'
import { revealed, type Secret } from '../../core/text/secret.ts'
import { pause } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import { method } from '../../protocol/methods.ts'
import { ACKNOWLEDGED, readFilter, reportedChanges } from '../../protocol/subscription-filter.ts'
import type { Login } from '../transport/auth-retry.ts'
import {
  type OAuthClient,
  type Grant,
  requestToken,
  TOKEN_EXCHANGE,
  type TokenParameters,
  requestAssertion,
  RenewingLogin,
} from './token-endpoint.ts'
import { findIssuer, type Issuer, readServer, createIssuers, type Issuers } from './discovery.ts'
import { createGrants, type UserLogin } from './grants.ts'
import { createOAuthHttp, type OAuthHttp, permanent } from './oauth-http.ts'
import { clientFor, configured, type Site } from './registration.ts'
import { createSignIns, type SignInRecord, type SigningIn } from './sign-in.ts'
import type { TokenVault } from './token-vault.ts'
import { type DpopKey, dpopKeyFor } from './dpop.ts'

/** How the gateway authenticates to one server. The caller's own token is never sent. */
export interface Credentials {
  /** Whether each caller has its own credentials, so that connections are never shared. */
  readonly isPersonal: boolean
  login(principal: Principal): Login
  /** Requests sign-in from callers if necessary. */
  readonly guard?: Middleware
  /** The sign-in of users, where each has an own one. */
  readonly signIns?: UserSignIns
  /** Completes the sign-in of a returning user. @throws SERVER_UNAVAILABLE */
  finish?(record: SignInRecord, params: URLSearchParams): Promise<void>
  close(): Promise<void>
}

/** The sign-in of users to one server, as a page of the gateway offers it. */
export interface UserSignIns {
  /** Whether a user has to sign in before the server can be used. @throws what obtaining a token throws */
  isNeeded(principal: Principal): Promise<boolean>
  /** The page where the sign-in of a user begins. @throws SERVER_UNAVAILABLE */
  begin(principal: Principal): Promise<string>
}

/** What the credentials of all servers share. */
export interface OAuthSite {
  readonly vault: TokenVault
  /** The gateway's OAuth URLs; undefined if browsers cannot reach it. */
  site(): Site | undefined
  /** Called when a user is sent to sign in. */
  begun(upstream: string, principal: string): void
}

/** The credentials of a server, if fixed headers are not enough. */
export function createCredentials(
  { name, reach }: UpstreamSettings,
  shared: OAuthSite,
  proxies: FindProxy,
): Credentials | undefined {
  if (reach.kind !== 'url' || !reach.oauth) return undefined
  const { oauth, url } = reach
  // Configured addresses may be private; those named by an internet server may not.
  const isGiven = oauth.issuer !== undefined || oauth.tokenEndpoint !== undefined
  const mayBePrivate = isGiven || isNearHost(new URL(url).hostname)
  const http = createOAuthHttp(mayBePrivate, proxies)
  const issuers = createIssuers(oauth, () =>
    findIssuer({ url, headers: revealed(reach.headers), oauth, http }),
  )
  if (oauth.grant === 'authorization_code')
    return byUser(name, reach, oauth, { ...shared, http, issuers, mayBePrivate })
  const { login, isPersonal, close } = createTokenLogins({ oauth, issuers, http, proxies })
  return {
    isPersonal,
    login,
    close: async () => {
      await Promise.all([http.close(), close()])
    },
  }
}

interface Shared extends OAuthSite {
  readonly http: OAuthHttp
  readonly issuers: Issuers
  readonly mayBePrivate: boolean
}

function byUser(name: string, { url }: UrlReach, oauth: OAuthSettings, shared: Shared): Credentials {
  const { http, vault, issuers, mayBePrivate } = shared
  const configuredClient = (server: AuthorizationServer, id: string): OAuthClient | undefined =>
    id === oauth.clientId ? configured(oauth, id, server) : undefined
  const common = { vault, http, issuers, configured: configuredClient }
  const grants = createGrants({ ...common, audience: [name, url] })
  const signIns = createSignIns({
    ...common,
    upstream: name,
    grants,
    mayBePrivate,
    oauth,
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
      isOpen: (id) => signIns.isOpen(id),
    }),
    signIns: {
      isNeeded: async (principal) => {
        const login = grants.login(principal)
        if (login.isReady) return false
        try {
          await login.headers()
          return false
        } catch (error) {
          if (login.wantedAfter(error)) return true
          throw error
        }
      },
      begin: async ({ id }) => (await signIns.begin(id, [])).url,
    },
    finish: (record, params) => signIns.finish(record, params),
    close: () => http.close(),
  }
}

function unreachable(): never {
  throw new GatewayError('SERVER_UNAVAILABLE', 'Users cannot sign in: no browser can reach the gateway.', {
    suggestion: 'Serve over HTTP, and set listen.public_url if the address is not a loopback address.',
  })
}

// Requests sign-in from the user if a call needs it, and repeats the call afterwards.

interface SignInGuardOptions {
  readonly upstream: string
  login(call: Call): UserLogin
  begin(principal: string, wanted: readonly string[]): Promise<SigningIn>
  /** Whether a sign-in can still be completed. @throws SERVER_UNAVAILABLE */
  isOpen(id: string): Promise<boolean>
}

/** The key in a call's state for the id of the pending sign-in. */
const STATE_KEY = 'signIn'
/** The key of the input request. */
const INPUT_REQUEST_KEY = 'sign_in'
/** How long to wait for a caller who opened the page before asking again, in milliseconds. */
const SIGN_IN_WAIT_MS = 20_000
const POLL_INTERVAL_MS = 200

/**
 * Requires the caller to be signed in: sends an input request with a link if possible, otherwise an error with the URL.
 */
function signInGuard(options: SignInGuardOptions): Middleware {
  let known: Payload | undefined

  return (next) => {
    const handle: Handler = async (call) => {
      const login = options.login(call)
      const own = call.requestState[STATE_KEY] === undefined ? call : await answered(call, options)
      try {
        if (!login.isReady) await login.headers()
        const outcome = await next(own)
        if (own.method === 'server/discover' && outcome.kind === 'result')
          known = capabilitiesOf(outcome.result)
        return outcome
      } catch (error) {
        const wanted = login.wantedAfter(error)
        if (!wanted) throw error
        // A caller who is not signed in can still open a session, and receives change notifications afterwards.
        if (own.method === 'server/discover') return { kind: 'result', result: known ?? unknownServer }
        if (own.method === 'subscriptions/listen') return listenLater(own, login, next)
        return ask(own, await options.begin(own.principal.id, wanted), options)
      }
    }
    return handle
  }
}

/** The capabilities of a server, without what it tells this user. */
function capabilitiesOf({ fields }: Payload): Payload {
  return Payload.of({ capabilities: fields.capabilities ?? {} })
}

/** The capabilities assumed of a server before the first sign-in. */
const unknownServer = Payload.of({
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true },
  },
})

/** Subscribes once the user has signed in; then reports that everything may have changed. */
async function listenLater(call: Call, login: UserLogin, next: Handler): Promise<Outcome> {
  const filter = readFilter(call.params)
  const { resourceSubscriptions: _unknown, ...lists } = filter
  call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: lists }) })
  await login.arrival(call.signal)
  const emit = (note: Notification): void => {
    if (note.method !== ACKNOWLEDGED) return call.emit(note)
    for (const name of reportedChanges(filter)) call.emit({ method: name })
  }
  return next({ ...call, emit })
}

function ask(call: Call, { id, url }: SigningIn, { upstream }: SignInGuardOptions): Outcome {
  const message = `Sign in to ${upstream} to continue.`
  const question: InputRequest = {
    method: 'elicitation/create',
    params: Payload.of({ mode: 'url', message, url }),
  }
  const { client } = call
  // One input request is enough: older clients request all their lists at once.
  const isFirst = client.era === 'legacy' && call.method === 'tools/list'
  const isOpen = !client.nonInteractive && (method(call.method).asks === true || isFirst)
  const isAble = canAnswer(client, question)
  if (isOpen && isAble) {
    return {
      kind: 'input_required',
      inputRequests: { [INPUT_REQUEST_KEY]: question },
      requestState: { [STATE_KEY]: id },
    }
  }
  // 2025-11-25 client/elicitation: the error that makes a client open a page first.
  const elicitations = [{ mode: 'url', elicitationId: id, url, message }]
  const relayed = Payload.of({ code: -32042, message, data: { elicitations } })
  throw new GatewayError('AUTHENTICATION_REQUIRED', `Sign in to ${upstream} first: ${url}`, {
    suggestion: 'Open the link in a browser, sign in, and make the call again.',
    details: { upstream, url },
    ...(isAble && client.era === 'legacy' && { relayed }),
  })
}

/** Handles the input response of a caller; the call without it. @throws AUTHENTICATION_REQUIRED */
async function answered(call: Call, options: SignInGuardOptions): Promise<Call> {
  const { [STATE_KEY]: id, ...state } = call.requestState
  const { inputResponses: _answers, ...rest } = call
  const own: Call = { ...rest, requestState: state }
  const answer = call.inputResponses?.[INPUT_REQUEST_KEY]
  const action = answer && 'result' in answer ? answer.result.fields.action : 'cancel'
  if (action !== 'accept') {
    throw new GatewayError('AUTHENTICATION_REQUIRED', `The user did not sign in to ${options.upstream}.`, {
      suggestion: 'Make the call again to get another sign-in link.',
    })
  }
  await untilSignedIn(String(id), call, options)
  return own
}

/** Waits for the end of a sign-in, or another one of the user, which come back to any gateway. Not for long. */
async function untilSignedIn(id: string, call: Call, options: SignInGuardOptions): Promise<void> {
  const login = options.login(call)
  const isUnknown = !login.isReady
  const isSignedIn = async (): Promise<boolean> => {
    if (!(await options.isOpen(id).catch(() => false))) return true
    return (
      isUnknown &&
      Promise.resolve(login.headers()).then(
        () => true,
        () => false,
      )
    )
  }
  const until = world.monotonic() + SIGN_IN_WAIT_MS
  while (world.monotonic() < until && !call.signal.aborted && !(await isSignedIn()))
    await pause(POLL_INTERVAL_MS, call.signal).catch(() => undefined)
}

/*
 * Logins without a sign-in: with the gateway's own credentials (RFC 6749 §4.4), for an assertion (RFC 7523), or with tokens
 * exchanged for those of callers (RFC 8693).
 */

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
function createTokenLogins(options: Options): TokenLogins {
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

/*
 * Tokens for an assertion (RFC 7523 §2.1): a token that a platform issued to the gateway's own workload, or the identity of a
 * person, which an identity provider asserts for the authorization server of one MCP server (ID-JAG, draft-ietf-oauth-
 * identity-assertion-authz-grant; the MCP extension for enterprise-managed authorization).
 */

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:'
/** The maximum size of a token in a file, in bytes. */
const MAX_TOKEN_BYTES = 65_536

/** What a token is requested for. */
interface Purpose {
  /** The authorization server that gets the assertion. */
  readonly audience: string
  readonly resource: string | undefined
  readonly scope: string | undefined
}

/** The identity assertion of an identity provider for one authorization server, for a token of the person. */
async function identityAssertion(
  provider: IdentityProvider,
  subjectToken: string,
  { audience, resource, scope }: Purpose,
  { server, http }: { readonly server: AuthorizationServer; readonly http: OAuthHttp },
): Promise<string> {
  const client = configured(provider, provider.clientId, server)
  return requestAssertion(
    { server, client, http },
    {
      requested_token_type: `${TOKEN_TYPE}id-jag`,
      audience,
      resource,
      scope,
      subject_token: subjectToken,
      subject_token_type: TOKEN_TYPE + provider.subjectTokenType,
    },
  )
}

/** The authorization server of an identity provider. @throws SERVER_UNAVAILABLE */
async function findProvider({ issuer, tokenEndpoint }: IdentityProvider, http: OAuthHttp): Promise<Issuer> {
  const server =
    tokenEndpoint === undefined
      ? await readServer(issuer ?? '', http, unusableProvider)
      : { issuer: issuer ?? new URL(tokenEndpoint).origin, token_endpoint: tokenEndpoint }
  return { server, resource: undefined, scopes: [], needsDpop: false }
}

function unusableProvider(what: string): GatewayError {
  const message = `The identity provider is unusable: the configuration ${what}.`
  const fix = 'correct oauth.identity_provider of this server'
  return new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/** The token in a file, which whoever issues it replaces before it expires. @throws SERVER_UNAVAILABLE */
async function tokenInFile(path: string): Promise<string> {
  try {
    const found = await stat(path)
    if (!found.isFile()) throw new Error('it is no regular file')
    if (found.size > MAX_TOKEN_BYTES) throw new Error(`it has more than ${MAX_TOKEN_BYTES} bytes`)
    const text = (await readFile(path, 'utf8')).trim()
    if (text === '') throw new Error('it is empty')
    return text
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'it cannot be read'
    const message = 'The token that the gateway presents cannot be read.'
    const lasting = permanent(message, 'correct the file of the token that oauth of this server names')
    throw new GatewayError('SERVER_UNAVAILABLE', message, {
      cause,
      ...lasting,
      forOperator: `The file ${path} with the token for the authorization server cannot be read: ${why}. To mend it, correct the path, or the file.`,
    })
  }
}
