/**
 * The sign-in of a user to a server: authorization code with PKCE (RFC 7636), a state, and its
 * completion on the callback page. Also serves the client metadata document.
 */
import { LRUCache } from 'lru-cache'
import { randomUUID, timingSafeEqual } from 'node:crypto'
import {
  type AuthorizationServer,
  generateRandomCodeVerifier,
  generateRandomState,
  calculatePKCECodeChallenge,
} from 'oauth4webapi'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import type { OAuthSettings, ListenSettings } from '../../core/settings.ts'
import type { LeaseMembers, LeaseStore } from '../../durable/lease.ts'
import { words, type Issuer, type Issuers } from './discovery.ts'
import { type OAuthClient, oauthError, redeemCode } from './token-endpoint.ts'
import { dpopKeyFor } from './dpop.ts'
import type { Grants } from './grants.ts'
import { type OAuthHttp, checkUrl, permanent } from './oauth-http.ts'
import { asClient, forgetClient, type Site, clientMetadata } from './registration.ts'
import { type TokenVault, createTokenVault } from './token-vault.ts'
import { isLoopbackHost } from '../../core/address.ts'
import type { SignInStep } from '../../core/audit-step.ts'

/** A user's sign-in in progress. */
export interface SigningIn {
  readonly id: string
  /** The URL where it begins. */
  readonly url: string
  readonly scopes: readonly string[]
}

/** The stored state of a sign-in until the user returns; its key is usable once. */
export type SignInRecord = Readonly<Record<string, unknown>> & { readonly upstream: string }

/** The sign-ins of one server's users. */
interface SignIns {
  /** Begins a sign-in, or returns the one in progress. @throws SERVER_UNAVAILABLE */
  begin(principal: string, wanted: readonly string[]): Promise<SigningIn>
  /** Whether a sign-in can still be completed: its user has not come back, to any gateway. @throws SERVER_UNAVAILABLE */
  isOpen(id: string): Promise<boolean>
  /** Completes the sign-in of a returning user. @throws SERVER_UNAVAILABLE */
  finish(record: SignInRecord, params: URLSearchParams): Promise<void>
}

interface SignInServer {
  readonly upstream: string
  readonly vault: TokenVault
  readonly http: OAuthHttp
  readonly grants: Grants
  readonly mayBePrivate: boolean
  readonly oauth: OAuthSettings
  readonly issuers: Issuers
  /** A client of the configuration, by its id. */
  configured(server: AuthorizationServer, id: string): OAuthClient | undefined
  client(server: AuthorizationServer, site: Site): Promise<OAuthClient>
  /** @throws SERVER_UNAVAILABLE if no browser can reach the gateway */
  site(): Site
  /** Called when a user is sent to sign in. */
  onBegun(principal: string): void
}

/** How long a sign-in may take, in milliseconds. */
const SIGN_IN_TIMEOUT_MS = 600_000

export function createSignIns(options: SignInServer): SignIns {
  const { upstream, vault, http, grants, site } = options
  const inProgress = new LRUCache<string, PendingSignIn>({ max: 10_000, ttl: SIGN_IN_TIMEOUT_MS - 60_000 })

  const start = async (
    principal: string,
    wanted: readonly string[],
    issuer: Issuer,
  ): Promise<PendingSignIn> => {
    const gatewaySite = site()
    const { server, resource } = issuer
    checkPkce(server)
    const client = await options.client(server, gatewaySite)
    const state = generateRandomState()
    const verifier = generateRandomCodeVerifier()
    const scopes = scopesOf(options, issuer, wanted)
    // A secret of the browser that begins, so that no other browser can complete the sign-in.
    const [id, browser] = [randomUUID(), generateRandomState()]
    const known = { upstream, principal, id, browser }
    const record = { ...known, verifier, issuer: server.issuer, client, scopes, resource }
    await vault.write(
      ['state', state],
      { ...record, redirectUri: gatewaySite.redirectUri },
      SIGN_IN_TIMEOUT_MS,
    )
    const request = {
      client: client.id,
      redirectUri: gatewaySite.redirectUri,
      state,
      verifier,
      scopes,
      resource,
    }
    const { href } = await authorizationUrl(server, request, options.mayBePrivate)
    await vault.write(['start', id], { ...known, url: href }, SIGN_IN_TIMEOUT_MS)
    return { id, url: `${gatewaySite.startUri}/${id}`, scopes: wanted, issuer: server.issuer }
  }

  const isOpen = async (id: string): Promise<boolean> => (await vault.read(['start', id])) !== undefined

  const beginOrJoin: SignIns['begin'] = async (principal, wanted) => {
    const issuer = await options.issuers.current()
    const known = inProgress.get(principal)
    const isEnough = wanted.every((scope) => known?.scopes.includes(scope))
    const isThere = known?.issuer === issuer.server.issuer
    if (known && isEnough && isThere && (await isOpen(known.id))) return known
    const pending = await start(principal, wanted, issuer)
    inProgress.set(principal, pending)
    options.onBegun(principal)
    return pending
  }

  /** The last beginning of each user: concurrent calls, such as those for all lists, get one sign-in. */
  const beginnings = new Map<string, Promise<SigningIn>>()

  return {
    begin: (principal, wanted) => {
      const earlier = beginnings.get(principal)?.catch(() => undefined)
      const beginning = Promise.resolve(earlier).then(() => beginOrJoin(principal, wanted))
      beginnings.set(principal, beginning)
      return beginning.finally(() => {
        if (beginnings.get(principal) === beginning) beginnings.delete(principal)
      })
    },
    isOpen,
    finish: async (record, params) => {
      const { principal, verifier, redirectUri, resource } = record
      const stored = asClient(isRecord(record.client) ? record.client : undefined)
      const issuer = await options.issuers.current()
      const { server } = issuer
      const client = stored && (options.configured(server, stored.id) ?? stored)
      if (typeof principal !== 'string' || typeof verifier !== 'string' || !client) throw unknownState()
      if (typeof redirectUri !== 'string' || record.issuer !== server.issuer) throw unknownState()
      inProgress.delete(principal)
      const named = typeof resource === 'string' ? resource : undefined
      const answer = { params, state: params.get('state') ?? '' }
      const dpop = await dpopKeyFor(options.oauth, issuer)
      const granted = await redeemCode({ server, client, http, dpop }, answer, {
        redirectUri,
        verifier,
        resource: named,
      }).catch(async (error: unknown) => {
        if (oauthError(error) === 'invalid_client') await forgetClient(server, redirectUri, vault)
        throw error
      })
      const requestedScopes = Array.isArray(record.scopes) ? record.scopes.map(String) : []
      // RFC 6749 §5.1: omitted scopes are equal to the requested ones.
      const scopes = granted.scope === undefined ? requestedScopes : words(granted.scope)
      const from = { issuer: server.issuer, client, redirectUri, resource: named }
      await grants.keep(principal, { ...granted, ...from, scopes })
    },
  }
}

interface PendingSignIn extends SigningIn {
  /** The authorization server that it is at. */
  readonly issuer: string
}

/** 2025-11-25 basic/authorization: a client must not proceed without PKCE. @throws SERVER_UNAVAILABLE */
function checkPkce(server: AuthorizationServer): void {
  if (server.code_challenge_methods_supported?.includes('S256')) return
  const message = 'The authorization server does not offer PKCE with S256.'
  const fix = 'have its metadata list S256 in code_challenge_methods_supported'
  throw new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

function scopesOf(
  { oauth: { scopes } }: SignInServer,
  issuer: Issuer,
  wanted: readonly string[],
): readonly string[] {
  const requested = new Set([...(scopes.length > 0 ? scopes : issuer.scopes), ...wanted])
  if (issuer.server.scopes_supported?.includes('offline_access')) requested.add('offline_access')
  return [...requested]
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function unknownState(): GatewayError {
  return new GatewayError('STATE_INVALID', 'This sign-in is unknown or already complete.')
}

// The first half of the authorization code flow: the URL of the authorization request (RFC 6749 §4.1.1), always with
// PKCE (RFC 7636) and a state. The second half is in token-endpoint.ts. It is used for sign-in of users to servers
// (sign-in.ts) and of people to the gateway's own pages (page-sign-in.ts).

interface AuthorizationRequest {
  readonly client: string
  readonly redirectUri: string
  readonly state: string
  /** The PKCE verifier, which is sent to the token endpoint only. */
  readonly verifier: string
  readonly scopes: readonly string[]
  readonly resource?: string | undefined
  /** The nonce that the ID token must repeat (OpenID Connect Core §3.1.2.1). */
  readonly nonce?: string
}

/**
 * The URL where a person signs in; `mayBePrivate` as for `createOAuthHttp`. @throws SERVER_UNAVAILABLE if that would
 * not be safe
 */
export async function authorizationUrl(
  server: AuthorizationServer,
  { client, redirectUri, state, verifier, scopes, resource, nonce }: AuthorizationRequest,
  mayBePrivate: boolean,
): Promise<URL> {
  if (server.authorization_endpoint === undefined) {
    const message = 'The authorization server has no authorization endpoint.'
    throw new GatewayError(
      'SERVER_UNAVAILABLE',
      message,
      permanent(message, 'correct oauth.issuer of this server'),
    )
  }
  const url = checkUrl(server.authorization_endpoint, mayBePrivate)
  const request = {
    response_type: 'code',
    client_id: client,
    redirect_uri: redirectUri,
    state,
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    ...(resource !== undefined && { resource }),
    ...(nonce !== undefined && { nonce }),
    // OpenID Connect Core §11: offline access is granted only with the user's consent.
    ...(scopes.includes('offline_access') && { prompt: 'consent' }),
  }
  for (const [name, value] of Object.entries(request)) url.searchParams.set(name, value)
  return url
}

interface CallbackGateway {
  store(): LeaseStore
  /** The encryption key of stored grants; by default a key of this process. */
  key?(): Promise<Buffer>
  listen(): ListenSettings
  /** The function that completes a sign-in to a server; undefined if the server has no sign-in. */
  finisher(upstream: string): ((record: SignInRecord, params: URLSearchParams) => Promise<void>) | undefined
  /** Called at each step of a sign-in. */
  onStep?(step: SignInStep): void
  /** Gets the tokens and client secrets that are obtained or used. */
  learn?(secret: string): void
  /** The gateways that share the store. */
  members?(): LeaseMembers
}

/** Completes sign-ins for all servers. */
export interface OAuthCallbackHandler {
  readonly vault: TokenVault
  /** The URL by which browsers reach the gateway; undefined if they cannot. */
  base(): string | undefined
  /** The OAuth URLs at that base. */
  site(): Site | undefined
  /** Called when a user is sent to sign in. */
  begun(upstream: string, principal: string): void
  /** Called with the URL the gateway listens at. */
  opened(url: string): void
  /** The page of a sign-in that begins. @throws STATE_INVALID */
  start(id: string): Promise<SignInStart>
  /**
   * Completes the sign-in of a user with the cookie set at its beginning. Resolves with the server's name.
   * @throws STATE_INVALID, SERVER_UNAVAILABLE
   */
  finish(params: URLSearchParams, cookieOf: (name: string) => string | undefined): Promise<string>
  /** The gateway's client metadata; undefined if authorization servers cannot read it. */
  document(): Readonly<Record<string, unknown>> | undefined
}

/** The beginning of a sign-in. */
interface SignInStart {
  readonly upstream: string
  /** The principal who signs in. */
  readonly principal: string
  /** The URL at the authorization server. */
  readonly url: string
  /** A cookie that binds the sign-in to this browser. */
  readonly cookie: { readonly name: string; readonly value: string }
}

const START = '/oauth/start'
const CALLBACK = '/oauth/callback'
/** The path of the client metadata. */
const DOCUMENT = '/oauth/client.json'

export function createOAuthCallbackHandler({
  store,
  key,
  listen,
  finisher,
  onStep,
  learn,
  members,
}: CallbackGateway): OAuthCallbackHandler {
  let own: string | undefined
  const vault = vaultIn(store, key, learn, members)

  const base = (): string | undefined => {
    const isReachable = own !== undefined && isLoopbackHost(new URL(own).hostname)
    return (listen().publicUrl ?? (isReachable ? own : undefined))?.replace(/\/$/, '')
  }
  const site = (): Site | undefined => {
    const baseUrl = base()
    return baseUrl === undefined ? undefined : siteAt(baseUrl, listen())
  }

  return {
    vault,
    base,
    site,
    begun: (upstream, principal) => onStep?.({ step: 'begun', upstream, principal }),
    opened: (url) => {
      own = url
    },
    start: async (id) => {
      const record = id.length <= MAX_STATE ? await vault.read(['start', id]) : undefined
      const { upstream, principal, url, browser } = record ?? {}
      if (typeof upstream !== 'string' || typeof principal !== 'string') throw unknownSignIn()
      if (typeof url !== 'string' || typeof browser !== 'string') throw unknownSignIn()
      return { upstream, principal, url, cookie: { name: cookieName(id), value: browser } }
    },
    finish: async (params, cookieOf) => {
      const state = params.get('state') ?? ''
      const record = state.length <= MAX_STATE ? await vault.take(['state', state]) : undefined
      const { upstream, id, browser } = record ?? {}
      const finish = typeof upstream === 'string' ? finisher(upstream) : undefined
      if (!record || typeof upstream !== 'string' || typeof id !== 'string' || !finish) throw unknownSignIn()
      const who = { upstream, principal: String(record.principal) }
      try {
        if (typeof browser !== 'string' || !isSameText(cookieOf(cookieName(id)), browser)) {
          throw new GatewayError('STATE_INVALID', 'This sign-in was started in another browser.')
        }
        await finish({ ...record, upstream }, params)
      } catch (error) {
        onStep?.({ step: 'failed', ...who, code: asGatewayError(error).code, reason: oauthError(error) })
        throw error
      } finally {
        // Calls wait for it, here and at other gateways.
        await vault.delete(['start', id])
      }
      onStep?.({ step: 'finished', ...who })
      return upstream
    },
    document: () => {
      const gatewaySite = site()
      return gatewaySite?.document === undefined
        ? undefined
        : { client_id: gatewaySite.document, ...clientMetadata(gatewaySite, 'none') }
    },
  }
}

const MAX_STATE = 128

/** The vault in the store that is configured at the time of each access. */
function vaultIn(
  store: () => LeaseStore,
  key: CallbackGateway['key'],
  learn: CallbackGateway['learn'],
  members: CallbackGateway['members'],
): TokenVault {
  return createTokenVault(
    {
      get: (name) => store().get(name),
      put: (name, value, ttl) => store().put(name, value, ttl),
      setIfAbsent: (name, value, ttl) => store().setIfAbsent(name, value, ttl),
      compareAndSwap: (name, before, value, ttl) => store().compareAndSwap(name, before, value, ttl),
      delete: (name) => store().delete(name),
      compareAndDelete: (name, before) => store().compareAndDelete(name, before),
    },
    key,
    learn,
    members,
  )
}

/** Authorization servers read the client metadata only from an HTTPS URL. */
function siteAt(base: string, { publicUrl }: ListenSettings): Site {
  const hasDocument = publicUrl?.startsWith('https://') === true
  return {
    startUri: `${base}${START}`,
    redirectUri: `${base}${CALLBACK}`,
    ...(hasDocument && { document: `${base}${DOCUMENT}` }),
  }
}

function cookieName(id: string): string {
  return `gatehouse-${id}`
}

function isSameText(given: string | undefined, expected: string): boolean {
  const [one, other] = [Buffer.from(given ?? ''), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}

function unknownSignIn(): GatewayError {
  return new GatewayError('STATE_INVALID', 'This sign-in is unknown or already complete.')
}
