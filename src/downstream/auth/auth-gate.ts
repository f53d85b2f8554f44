/**
 * Authenticates requests, and words the challenges of those that fail (RFC 6750, RFC 9728). Anonymous callers
 * pass only where the settings say so.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthSettings } from '../../core/auth-settings.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import type { PageSignIn } from '../../core/events.ts'
import type { Log, Probes } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { ListenSettings } from '../../core/settings.ts'
import { cookieOf } from '../../core/web.ts'
import { createAuthenticator, anonymousCaller } from './authenticator.ts'
import { checkHeaders, checkQuery } from './authenticator.ts'
import { createResources } from './resources.ts'
import { unauthorized, principalOf, scopesIn, scopesToAskFor } from './verified.ts'

/** A request before it is known who makes it. */
export interface RequestContext {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly upstream: string | undefined
  readonly requestId: string
}

/** An HTTP request to authenticate. */
type Visitor = RequestContext & { readonly principal: Principal }

/** Lets requests in, or tells them what they need. */
export interface AuthGate {
  /** Who makes a request; the answer to one that is refused gets its challenge. @throws what it is refused with */
  authenticate(visit: RequestContext): Principal | Promise<Principal>
  /** As above for documents, where the session of a person who signed in counts too. */
  authenticateDocument(visit: RequestContext): Promise<Principal>
  /** As above for service paths, where names and passwords count besides. */
  authenticateService(visit: RequestContext): Promise<Principal>
  /** The person whose session a request without other credentials belongs to. */
  signedIn(incoming: IncomingMessage): Promise<Principal | undefined>
  /** Lets those without a token use what is open to all. @throws AUTHENTICATION_REQUIRED */
  requireAuth(visitor: Visitor, method: string | undefined): void
  /** The challenge to a caller whose token lacks a scope; nothing where it could not get another token. */
  stepUp(visitor: Visitor, error: GatewayError): string | undefined
  /** The metadata of an endpoint for clients without a token (RFC 9728). */
  metadata(incoming: IncomingMessage, upstream: string | undefined): Record<string, unknown> | undefined
  /** The checks of readiness that authentication depends on. */
  readonly probes: Probes
}

interface Options {
  readonly auth: AuthSettings
  readonly listen: ListenSettings
  /** The port that is listened on. */
  readonly port: number
  readonly pageSignIn: Pick<PageSignIn, 'identity'>
  readonly log: Log
}

/** Methods a client needs before it can ask for a list. */
const opening: readonly (string | undefined)[] = [
  'initialize',
  'notifications/initialized',
  'ping',
  'server/discover',
]

/** Guards the endpoints by the settings. */
export function createAuthGate({ auth, listen, port, pageSignIn, log }: Options): AuthGate {
  const resources = createResources(auth, listen, port)
  const { caller, serviceAccount: servant, probes } = createAuthenticator({ auth, resources, now: Date.now })
  const open = new Set([...opening, ...auth.anonymous])
  const { realm } = auth
  const scopeClaim = auth.jwt?.scopeClaim ?? 'scope'

  /** Browsers ask for a password before they show a page, which may have another way to offer. */
  const choosesWay = ({ url = '', headers: { accept = '' } }: IncomingMessage): boolean =>
    auth.jwt?.client !== undefined && /\btext\/html\b/i.test(accept) && !/[?&]sign-in(?:[=&]|$)/.test(url)

  const refuse = (visit: RequestContext, thrown: unknown, isService = false): never => {
    const { incoming, outgoing, upstream, requestId } = visit
    const error = asGatewayError(thrown)
    tell(error, requestId, log)
    if (error.httpStatus === 401) {
      const metadata = resources.metadataUrl(incoming, upstream)
      const bearer = challengeOf({ realm, metadata, error, scopes: auth.scopesSupported })
      const asksForPassword = isService && auth.users.length > 0 && !choosesWay(incoming)
      const basic = asksForPassword ? [`Basic realm="${realm}", charset="UTF-8"`] : []
      outgoing.setHeader('www-authenticate', [bearer, ...basic])
    }
    throw error
  }
  const enter = (visit: RequestContext, isService: boolean): Principal | Promise<Principal> => {
    const { incoming, upstream } = visit
    try {
      checkQuery(incoming.url)
      checkHeaders(incoming)
      const found = isService ? servant(incoming) : caller(incoming, upstream)
      return found instanceof Promise
        ? found.catch((error: unknown) => refuse(visit, error, isService))
        : found
    } catch (error) {
      return refuse(visit, error, isService)
    }
  }

  const signedIn: AuthGate['signedIn'] = async ({ headers: { authorization, cookie } }) => {
    // What a program says of itself counts alone.
    if (authorization !== undefined || cookie === undefined) return undefined
    const claims = await pageSignIn.identity((name) => cookieOf(cookie, name))
    return claims && { ...principalOf(undefined, claims, scopeClaim, auth.scopeMap), isSignedIn: true }
  }

  return {
    authenticate: (visit) => enter(visit, false),
    authenticateDocument: async (visit) => (await signedIn(visit.incoming)) ?? enter(visit, false),
    authenticateService: async (visit) => (await signedIn(visit.incoming)) ?? enter(visit, true),
    signedIn,
    requireAuth: (visitor, method) => {
      if (visitor.principal !== anonymousCaller || open.has(method)) return
      refuse(visitor, unauthorized('missing', 'Authentication is required.'))
    },
    stepUp: ({ incoming, upstream, principal }, error) => {
      // What a server says of its own scopes is no demand of this one.
      if (error.code !== 'SCOPE_INSUFFICIENT' || error.extra.relayed) return undefined
      // Another token would be narrowed just the same.
      if (error.extra.isOfSession) return undefined
      // Only tokens with claims come from somewhere that could give out others.
      if (!principal.claims) return undefined
      const required = error.extra.details?.required_scopes
      const needed = scopesToAskFor(Array.isArray(required) ? required.map(String) : [], auth.scopeMap)
      // 2025-11-25 basic/authorization: with those it has, as some clients ask for exactly these next.
      const scopes = [...new Set([...scopesIn(principal.claims[scopeClaim]), ...needed])]
      return challengeOf({ realm, metadata: resources.metadataUrl(incoming, upstream), error, scopes })
    },
    metadata: (incoming, upstream) => resources.metadata(incoming, upstream),
    probes,
  }
}

function tell({ code, extra, httpStatus, cause }: GatewayError, requestId: string, log: Log): void {
  if (httpStatus === 401) log.warn('auth.refused', { request_id: requestId, code, reason: extra.reason })
  // What is wrong with a token is its holder's business; what is wrong here is not.
  if (code === 'SERVER_UNAVAILABLE' && cause instanceof Error)
    log.warn('auth.unavailable', { request_id: requestId, cause: cause.message })
}

interface Challenge {
  readonly realm: string
  /** Where the metadata of the endpoint is. */
  readonly metadata: string | undefined
  /** What the request is refused with. */
  readonly error: GatewayError
  /** The scopes a token needs. */
  readonly scopes: readonly string[]
}

/** The `WWW-Authenticate` of a refused request (RFC 6750 §3, RFC 9728 §5.1). */
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

// A request without credentials learns how to get them, and no more.
function errorCode({ code, extra: { reason } }: GatewayError): string | undefined {
  if (code === 'SCOPE_INSUFFICIENT') return 'insufficient_scope'
  return reason === 'missing' || reason === 'scheme' ? undefined : 'invalid_token'
}

function quoted(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?').replaceAll(/["\\]/g, '\\$&')
}
