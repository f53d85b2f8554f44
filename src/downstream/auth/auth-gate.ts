/**
 * Authenticates requests, and writes the challenges of those that fail (RFC 6750, RFC 9728). Anonymous callers
 * are admitted only where the settings allow it.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthSettings } from '../../core/auth-settings.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import type { PageSignIn } from '../../core/audit-step.ts'
import type { Log, Probes } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { ListenSettings } from '../../core/settings.ts'
import { cookieOf } from '../../core/web.ts'
import { world } from '../../core/world.ts'
import { createAuthenticator, anonymousCaller, checkHeaders, checkQuery } from './authenticator.ts'
import { createResources } from './resources.ts'
import { unauthorized, principalOf, scopesIn, scopesToAskFor } from './verified.ts'

/** A request before authentication. */
export interface RequestContext {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly upstream: string | undefined
  readonly requestId: string
}

/** An HTTP request to authenticate. */
type Requester = RequestContext & { readonly principal: Principal }

/** Authenticates requests, or rejects them with a challenge. */
export interface AuthGate {
  /** Authenticates a request; adds a challenge to the response if it is rejected. @throws the reason of the rejection */
  authenticate(request: RequestContext): Principal | Promise<Principal>
  /** The same for documents, which also accept the session of a signed-in person. */
  authenticateDocument(request: RequestContext): Promise<Principal>
  /** The same for service paths, which also accept names and passwords. */
  authenticateService(request: RequestContext): Promise<Principal>
  /** The signed-in person of a request without other credentials. */
  signedIn(incoming: IncomingMessage): Promise<Principal | undefined>
  /** Checks that an anonymous caller uses only public methods. @throws AUTHENTICATION_REQUIRED */
  requireAuth(requester: Requester, method: string | undefined): void
  /** The challenge for a token without a required scope; undefined if the caller cannot get another token. */
  stepUp(requester: Requester, error: GatewayError): string | undefined
  /** The protected resource metadata of an endpoint (RFC 9728). */
  metadata(incoming: IncomingMessage, upstream: string | undefined): Record<string, unknown> | undefined
  /** The readiness checks of the dependencies of authentication. */
  readonly probes: Probes
}

interface Options {
  readonly auth: AuthSettings
  readonly listen: ListenSettings
  /** The port of the listener. */
  readonly port: number
  readonly pageSignIn: Pick<PageSignIn, 'identity'>
  /** The proxies for requests to issuers. */
  readonly proxies: FindProxy
  readonly log: Log
}

/** Methods that a client needs before it can list anything. */
const opening: readonly (string | undefined)[] = [
  'initialize',
  'notifications/initialized',
  'ping',
  'server/discover',
]

/** Creates the gate for the configured kinds of authentication. */
export function createAuthGate({ auth, listen, port, pageSignIn, proxies, log }: Options): AuthGate {
  const resources = createResources(auth, listen, port)
  const { caller, serviceAccount, probes } = createAuthenticator({ auth, resources, proxies, now: world.now })
  const open = new Set([...opening, ...auth.anonymous])
  const { realm } = auth
  const scopeClaim = auth.jwt?.scopeClaim ?? 'scope'

  /** A browser would ask for a password before it shows a page, which may offer another kind of sign-in. */
  const showsSignInPage = ({ url = '', headers: { accept = '' } }: IncomingMessage): boolean =>
    auth.jwt?.client !== undefined && /\btext\/html\b/i.test(accept) && !/[?&]sign-in(?:[=&]|$)/.test(url)

  const refuse = (request: RequestContext, thrown: unknown, isService = false): never => {
    const { incoming, outgoing, upstream, requestId } = request
    const error = asGatewayError(thrown)
    logFailure(error, requestId, log)
    // Credentials are also checked again while their response is being sent.
    if (error.httpStatus === 401 && !outgoing.headersSent) {
      const metadata = resources.metadataUrl(incoming, upstream)
      const bearer = challengeOf({ realm, metadata, error, scopes: resources.scopes(upstream) })
      const offersBasic = isService && auth.users.length > 0 && !showsSignInPage(incoming)
      const basic = offersBasic ? [`Basic realm="${realm}", charset="UTF-8"`] : []
      outgoing.setHeader('www-authenticate', [bearer, ...basic])
    }
    throw error
  }
  const authenticate = (request: RequestContext, isService: boolean): Principal | Promise<Principal> => {
    const { incoming, upstream } = request
    try {
      checkQuery(incoming.url)
      checkHeaders(incoming)
      const found = isService ? serviceAccount(incoming) : caller(incoming, upstream)
      return found instanceof Promise
        ? found.catch((error: unknown) => refuse(request, error, isService))
        : found
    } catch (error) {
      return refuse(request, error, isService)
    }
  }

  const signedIn: AuthGate['signedIn'] = async ({ headers: { authorization, cookie } }) => {
    // Explicit credentials take precedence over the session cookie.
    if (authorization !== undefined || cookie === undefined) return undefined
    const claims = await pageSignIn.identity((name) => cookieOf(cookie, name))
    return claims && { ...principalOf(undefined, claims, scopeClaim, auth.scopeMap), isSignedIn: true }
  }

  return {
    authenticate: (request) => authenticate(request, false),
    authenticateDocument: async (request) =>
      (await signedIn(request.incoming)) ?? authenticate(request, false),
    authenticateService: async (request) => (await signedIn(request.incoming)) ?? authenticate(request, true),
    signedIn,
    requireAuth: (requester, method) => {
      if (requester.principal !== anonymousCaller || open.has(method)) return
      refuse(requester, unauthorized('missing', 'Authentication is required.'))
    },
    stepUp: ({ incoming, upstream, principal }, error) => {
      // A missing scope of the server is not a scope of the gateway.
      if (error.code !== 'SCOPE_INSUFFICIENT' || error.extra.relayed) return undefined
      // Another token would be restricted in the same way.
      if (error.extra.isOfSession) return undefined
      // Only tokens with claims come from an issuer that could issue others.
      if (!principal.claims) return undefined
      const required = error.extra.details?.required_scopes
      const needed = scopesToAskFor(Array.isArray(required) ? required.map(String) : [], auth.scopeMap)
      // 2025-11-25 basic/authorization: include the granted scopes, because some clients request exactly the listed ones.
      const scopes = [...new Set([...scopesIn(principal.claims[scopeClaim]), ...needed])]
      return challengeOf({ realm, metadata: resources.metadataUrl(incoming, upstream), error, scopes })
    },
    metadata: (incoming, upstream) => resources.metadata(incoming, upstream),
    probes,
  }
}

function logFailure({ code, extra, httpStatus, cause }: GatewayError, requestId: string, log: Log): void {
  if (httpStatus === 401) log.warn('auth.refused', { request_id: requestId, code, reason: extra.reason })
  // A bad token is the caller's problem; an unavailable issuer is the operator's.
  if (code === 'SERVER_UNAVAILABLE' && cause instanceof Error)
    log.warn('auth.unavailable', { request_id: requestId, cause: cause.message })
}

interface Challenge {
  readonly realm: string
  /** The URL of the metadata of the endpoint. */
  readonly metadata: string | undefined
  /** The error of the rejected request. */
  readonly error: GatewayError
  /** The required scopes. */
  readonly scopes: readonly string[]
}

/** The `WWW-Authenticate` header of a rejected request (RFC 6750 §3, RFC 9728 §5.1). */
function challengeOf({ realm, metadata, error, scopes }: Challenge): string {
  const code = errorCode(error)
  const parameters = [
    ['realm', realm],
    ['error', code],
    ['error_description', code === undefined ? undefined : error.message],
    ['scope', scopes.length > 0 ? scopes.join(' ') : undefined],
    ['resource_metadata', metadata],
  ]
  const given = parameters.filter((each): each is [string, string] => each[1] !== undefined)
  return `Bearer ${given.map(([name, value]) => `${name}="${quoted(value)}"`).join(', ')}`
}

// RFC 6750 §3.1: a request without credentials receives no error code.
function errorCode({ code, extra: { reason } }: GatewayError): string | undefined {
  if (code === 'SCOPE_INSUFFICIENT') return 'insufficient_scope'
  return reason === 'missing' || reason === 'scheme' ? undefined : 'invalid_token'
}

function quoted(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?').replaceAll(/["\\]/g, '\\$&')
}
