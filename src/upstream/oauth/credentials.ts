/** The credentials of requests to a server: none, a token, a grant of the gateway, or a grant of each user. */
import { setTimeout as wait } from 'node:timers/promises'
import type { AuthorizationServer } from 'oauth4webapi'
import { isNearHost } from '../../core/address.ts'
import type { Middleware, Call, Handler, Notification, Outcome, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { OAuthSettings, UpstreamSettings, UrlReach } from '../../core/settings.ts'
import { revealed } from '../../core/text/secret.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import { method } from '../../protocol/methods.ts'
import { ACKNOWLEDGED, readFilter, reportedChanges } from '../../protocol/subscription-filter.ts'
import type { Login } from '../transport/auth-retry.ts'
import type { OAuthClient } from './client-authentication.ts'
import { findIssuer } from './discovery.ts'
import { createGrants, type UserLogin } from './grants.ts'
import { createIssuers, type Issuers } from './issuer-cache.ts'
import { createOAuthHttp, type OAuthHttp } from './oauth-http.ts'
import { clientFor, configured, type Site } from './registration.ts'
import { createSignIns, type SignInRecord, type SigningIn } from './sign-in.ts'
import { createTokenLogins } from './token-logins.ts'
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
      current: (principal) => signIns.current(principal),
    }),
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
