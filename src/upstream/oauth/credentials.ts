/** The credentials of requests to a server: none, a token, a grant of the gateway, or a grant of each user. */
import { LRUCache } from 'lru-cache'
import { setTimeout as wait } from 'node:timers/promises'
import { isNearHost } from '../../core/address.ts'
import type { Middleware, Call, Handler, Notification, Outcome, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { OAuthSettings, UpstreamSettings, UrlReach } from '../../core/settings.ts'
import type { Secret } from '../../core/text/secret.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import { method } from '../../protocol/methods.ts'
import { ACKNOWLEDGED, readFilter, reportedChanges } from '../../protocol/subscription-filter.ts'
import type { Login } from '../transport/auth-retry.ts'
import { findIssuer, type Issuer } from './discovery.ts'
import { createGrants, type UserLogin } from './grants.ts'
import { createOAuthHttp, type OAuthHttp } from './oauth-http.ts'
import { clientFor, configured, type Site } from './registration.ts'
import { createSignIns, type SignInRecord, type SigningIn } from './sign-in.ts'
import { type TokenConversation, requestToken } from './token-endpoint.ts'
import { RenewingLogin } from './token-renewal.ts'
import type { TokenVault } from './token-vault.ts'

/** How the gateway authenticates to one server. The caller's own token is never sent. */
export interface Credentials {
  /** Whether each caller has its own credentials, so that connections are never shared. */
  readonly isPersonal: boolean
  login(principal: Principal): Login
  /** Requests sign-in from callers if necessary. */
  readonly guard?: Middleware
  /** Completes the sign-in of a returning user. @throws SERVER_UNAVAILABLE */
  finish?(record: SignInRecord, params: URLSearchParams): Promise<void>
  close(): Promise<void>
}

/** What the credentials of all servers share. */
export interface OAuthSite {
  readonly vault: TokenVault
  /** The gateway's OAuth URLs; undefined if browsers cannot reach it. */
  site(): Site | undefined
  /** Called when a user is sent to sign in. */
  begun(upstream: string, principal: string): void
}

/** How long the metadata of an authorization server is cached, in milliseconds. */
const ISSUER_TTL_MS = 3_600_000

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
    const requested = oauth.scopes.length > 0 ? oauth.scopes : scopes
    return {
      scope: requested.length > 0 ? requested.join(' ') : undefined,
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

/** The token issuer, discovered again after some time. */
function issuerOf({ url, headers }: UrlReach, oauth: OAuthSettings, http: OAuthHttp): () => Promise<Issuer> {
  let known: { readonly issuer: Promise<Issuer>; readonly until: number } | undefined
  return () => {
    if (known && Date.now() < known.until) return known.issuer
    const revealed = Object.entries(headers).map(([key, value]) => [key, value.reveal()] as const)
    const issuer = findIssuer({ url, headers: Object.fromEntries(revealed), oauth, http })
    const found = { issuer, until: Date.now() + ISSUER_TTL_MS }
    known = found
    issuer.catch(() => {
      if (known === found) known = undefined
    })
    return issuer
  }
}

function unreachable(): never {
  throw new GatewayError('SERVER_UNAVAILABLE', 'Users cannot sign in: no browser can reach the gateway.', {
    suggestion: 'Serve over HTTP, and set listen.public_url if the address is not a loopback address.',
  })
}

// Tokens for the gateway itself (RFC 6749, 4.4), and tokens exchanged for those of callers (RFC 8693).

interface Options {
  /** The token issuer, and the gateway's client there. */
  conversation(): Promise<TokenConversation>
  /** The parameters of every token request. */
  parameters(): Promise<Readonly<Record<string, string | undefined>>>
}

/** One login for all callers: the gateway's own (RFC 6749 §4.4). */
function clientCredentials({ conversation, parameters }: Options): () => Login {
  const login = new RenewingLogin(async () =>
    requestToken(await conversation(), 'client_credentials', await parameters()),
  )
  return () => login
}

/** A login for each token of a caller, exchanged at the issuer (RFC 8693). */
function tokenExchange(options: Options): (principal: Principal) => Login {
  // Tokens of the same caller may have different permissions, so they are not interchangeable.
  const logins = new LRUCache<string, RenewingLogin>({ max: 10_000 })

  return ({ token, claims }) => {
    if (!token) return tokenless
    const known = logins.get(token.digest)
    if (known) return known
    const login = exchanged(token, claims, options)
    logins.set(token.digest, login)
    return login
  }
}

function exchanged(
  token: Secret,
  claims: Principal['claims'],
  { conversation, parameters }: Options,
): RenewingLogin {
  const until = typeof claims?.exp === 'number' ? claims.exp * 1000 : Number.MAX_SAFE_INTEGER
  return new RenewingLogin(async () => {
    const granted = await requestToken(
      await conversation(),
      'urn:ietf:params:oauth:grant-type:token-exchange',
      {
        ...(await parameters()),
        subject_token: token.reveal(),
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      },
    )
    // An exchanged token must not outlive the original token.
    return { ...granted, expiresAt: Math.min(granted.expiresAt, until) }
  })
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
    { suggestion: 'Call the gateway with a bearer token.', details: { http_status: 401 } },
  )
}

// Requests sign-in from the user if a call needs it, and repeats the call afterwards.

interface SignInGuardOptions {
  readonly upstream: string
  login(call: Call): UserLogin
  begin(principal: string, wanted: readonly string[]): Promise<SigningIn>
  /** The sign-in of a user in progress. */
  current(principal: string): SigningIn | undefined
}

/** The key in a call's state for the id of the pending sign-in. */
const STATE_KEY = 'signIn'
/** The key of the input request. */
const INPUT_REQUEST_KEY = 'sign_in'
/** How long to wait for a caller who opened the page before asking again, in milliseconds. */
const SIGN_IN_WAIT_MS = 20_000

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
  const signIn = options.current(call.principal.id)
  if (!signIn || signIn.id !== id) return own
  const waiting = new AbortController()
  const stop = (): void => waiting.abort()
  call.signal.addEventListener('abort', stop)
  const late = wait(SIGN_IN_WAIT_MS, undefined, { signal: waiting.signal, ref: false }).catch(() => undefined)
  await Promise.race([signIn.done, late]).finally(() => {
    call.signal.removeEventListener('abort', stop)
    stop()
  })
  return own
}
