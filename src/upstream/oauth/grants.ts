/** Users' grants in the store, encrypted; cluster members renew a grant one at a time. */
import { LRUCache } from 'lru-cache'
import type { AuthorizationServer } from 'oauth4webapi'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { pause } from '../../core/time/waiting.ts'
import type { HttpAnswer, Login, LoginHeaders, RequestTarget } from '../transport/auth-retry.ts'
import { readChallenge, words, type Issuers } from './discovery.ts'
import {
  type OAuthClient,
  RenewingLogin,
  type Token,
  type Grant,
  oauthError,
  requestToken,
} from './token-endpoint.ts'
import { DpopKey } from './dpop.ts'
import type { OAuthHttp } from './oauth-http.ts'
import { asClient, forgetClient } from './registration.ts'
import type { TokenVault } from './token-vault.ts'

/** A user's grant, and its issuer. */
interface UserGrant extends Grant {
  readonly issuer: string
  readonly client: OAuthClient
  /** The redirect URI the gateway is registered with. */
  readonly redirectUri?: string | undefined
  readonly resource?: string | undefined
  readonly scopes: readonly string[]
}

/** A grant, with its refresh token if it has to be renewed first. */
interface Usable {
  readonly grant: UserGrant
  readonly refresh?: string
}

interface Options {
  /** The name and URL of the server it is for. */
  readonly audience: readonly [name: string, url: string]
  readonly vault: TokenVault
  readonly http: OAuthHttp
  readonly issuers: Issuers
  /** A client of the configuration, by its id. */
  configured(server: AuthorizationServer, id: string): OAuthClient | undefined
}

/** The logins of users who signed in. */
export interface Grants {
  login(principal: Pick<Principal, 'id'>): UserLogin
  /** Stores a user's grant and uses it from now on. */
  keep(principal: string, grant: UserGrant): Promise<void>
}

/** How long an unused grant is stored, in milliseconds. */
const GRANT_TTL_MS = 90 * 24 * 3_600_000
/** A token refused within this time of its sign-in is not renewed by another sign-in, in milliseconds. */
const FRESH_TOKEN_MS = 60_000
/** How long a gateway may take to renew a grant before others try, in milliseconds. */
const RENEWAL_TIMEOUT_MS = 15_000
/** How often the store is read for a user who may sign in at another gateway, while somebody waits for that, in milliseconds. */
const ARRIVAL_POLL_MS = 2000

export function createGrants(options: Options): Grants {
  return new StoredGrants(options)
}

class StoredGrants implements Grants {
  readonly #options: Options
  readonly #logins = new LRUCache<string, UserLogin>({ max: 10_000 })

  constructor(options: Options) {
    this.#options = options
  }

  login({ id }: Pick<Principal, 'id'>): UserLogin {
    const known = this.#logins.get(id)
    if (known) return known
    const login = new UserLogin(
      (refused) => this.#obtain(id, refused),
      () => this.#read(id),
    )
    this.#logins.set(id, login)
    return login
  }

  async keep(principal: string, grant: UserGrant): Promise<void> {
    await this.#write(principal, grant)
    this.login({ id: principal }).signedIn(grant)
  }

  async #obtain(principal: string, refused: string | undefined): Promise<Token> {
    const { audience, issuers, vault } = this.#options
    if (refused !== undefined) issuers.doubt()
    const first = await this.#usable(principal, refused)
    if (first.refresh === undefined) return first.grant
    // OAuth 2.1 §4.3.1: a reused refresh token may revoke the grant, so gateways take turns.
    const lease = await vault.acquire(
      ['turn', ...audience, principal],
      RENEWAL_TIMEOUT_MS,
      RENEWAL_TIMEOUT_MS,
    )
    if (!lease) throw renewedElsewhere()
    try {
      const { grant, refresh } = await this.#usable(principal, refused)
      return refresh === undefined ? grant : await this.#renew(principal, { grant, refresh })
    } finally {
      await lease.release()
    }
  }

  /** @throws AUTHENTICATION_REQUIRED if the user has to sign in first */
  async #usable(principal: string, refused: string | undefined): Promise<Usable> {
    const grant = await this.#read(principal)
    if (!grant) throw signInRequired()
    if (grant.value !== refused && grant.expiresAt > Date.now() + 5000) return { grant }
    const { server } = await this.#options.issuers.current()
    if (server.issuer !== grant.issuer) {
      await this.#options.vault.delete(this.#nameOf(principal))
      throw signInRequired({ moved: true })
    }
    if (grant.refresh === undefined) throw signInRequired()
    return { grant, refresh: grant.refresh }
  }

  async #renew(principal: string, { grant, refresh }: Required<Usable>): Promise<Token> {
    try {
      const renewed = await refreshed(grant, refresh, this.#options)
      await this.#write(principal, renewed)
      return renewed
    } catch (error) {
      if (!isFinal(error)) throw error
      // Another gateway may have used the refresh token first.
      const other = await this.#read(principal)
      if (other && other.value !== grant.value) return other
      const { vault } = this.#options
      const { issuer, redirectUri } = grant
      if (oauthError(error) === 'invalid_client' && redirectUri !== undefined)
        await forgetClient({ issuer }, redirectUri, vault)
      await vault.delete(this.#nameOf(principal))
      throw signInRequired()
    }
  }

  async #read(principal: string): Promise<UserGrant | undefined> {
    return asGrant(await this.#options.vault.read(this.#nameOf(principal)))
  }

  #write(principal: string, { dpop, ...grant }: UserGrant): Promise<void> {
    const ttl =
      grant.refresh === undefined ? Math.min(GRANT_TTL_MS, grant.expiresAt - Date.now()) : GRANT_TTL_MS
    // Its name in the store is a hash: this says whose it is.
    const stored = { ...grant, ...(dpop && { dpop: dpop.jwk }), principal }
    return this.#options.vault.write(this.#nameOf(principal), stored, ttl)
  }

  #nameOf(principal: string): readonly ['grant', ...string[]] {
    return ['grant', ...this.#options.audience, principal]
  }
}

/** One user's login at one server. */
export class UserLogin implements Login {
  readonly #renewing: RenewingLogin
  readonly #stored: () => Promise<UserGrant | undefined>
  /** The scopes to request at the next sign-in, if the granted ones are insufficient. */
  #wanted: readonly string[] | undefined
  #signedInAt = 0
  #arrival = Promise.withResolvers<void>()
  #waiting = 0
  #isPolling = false

  /** `stored` reads the grant of the user, which another gateway may have got. */
  constructor(
    obtain: (refused: string | undefined) => Promise<Token>,
    stored: () => Promise<UserGrant | undefined>,
  ) {
    // That a user has not signed in is known from the store, and changes when the user signs in at another gateway.
    this.#renewing = new RenewingLogin(
      obtain,
      (error) => asGatewayError(error).code !== 'AUTHENTICATION_REQUIRED',
    )
    this.#stored = stored
  }

  get isReady(): boolean {
    return this.#renewing.isReady
  }

  headers(target?: RequestTarget): LoginHeaders | Promise<LoginHeaders> {
    return this.#renewing.headers(target)
  }

  answered(answer: HttpAnswer): void {
    this.#renewing.answered(answer)
  }

  async refused(refusal: HttpAnswer, sent: LoginHeaders): Promise<boolean> {
    if (refusal.status === 401) return this.#renewed(refusal, sent)
    const { error, scopes } = readChallenge(refusal.header('www-authenticate'))
    if (error !== 'insufficient_scope') return false
    const grant = await this.#stored()
    const granted = grant?.scopes ?? []
    // A server that requires scopes it already granted would require them forever.
    const isMore = scopes.some((scope) => !granted.includes(scope))
    this.#wanted = isMore ? [...new Set([...granted, ...scopes])] : undefined
    return !isMore && this.#adopt(grant)
  }

  /** Continues with what the user granted at another gateway. Returns whether it is anything new. */
  #adopt(grant: UserGrant | undefined): boolean {
    if (!grant || this.#renewing.knows(grant) || grant.expiresAt <= Date.now()) return false
    if (this.#wanted?.every((scope) => grant.scopes.includes(scope)) === false) return false
    this.signedIn(grant)
    return true
  }

  async #renewed(refusal: HttpAnswer, sent: LoginHeaders): Promise<boolean> {
    const isFresh = this.#isFresh
    try {
      return await this.#renewing.refused(refusal, sent)
    } catch (error) {
      const { code, extra } = asGatewayError(error)
      if (isFresh && code === 'AUTHENTICATION_REQUIRED' && extra.details?.moved !== true) return false
      throw error
    }
  }

  signedIn(token: Token): void {
    this.#wanted = undefined
    this.#signedInAt = Date.now()
    this.#renewing.accept(token)
    this.#arrived()
  }

  #arrived(): void {
    this.#arrival.resolve()
    this.#arrival = Promise.withResolvers<void>()
  }

  /** Resolves at the user's next sign-in, at this or another gateway. @throws CANCELLED if `signal` is aborted first */
  async arrival(signal: AbortSignal): Promise<void> {
    const cancelled = Promise.withResolvers<never>()
    const stop = (): void => cancelled.reject(new GatewayError('CANCELLED', 'The request was cancelled.'))
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
    this.#waiting++
    if (!this.#isPolling) void this.#poll()
    await Promise.race([this.#arrival.promise, cancelled.promise]).finally(() => {
      this.#waiting--
      signal.removeEventListener('abort', stop)
    })
  }

  /** Finds what the user granted at another gateway, while somebody waits for that. Never rejects. */
  async #poll(): Promise<void> {
    this.#isPolling = true
    while (this.#waiting > 0) {
      await pause(ARRIVAL_POLL_MS)
      const isNew = this.#adopt(await this.#stored().catch(() => undefined))
      // A call may have found it first.
      if (!isNew && this.isReady && this.#wanted === undefined) this.#arrived()
    }
    this.#isPolling = false
  }

  /** The scopes to sign in for if that can resolve a failure: `[]` for those the server declares. */
  wantedAfter(error: unknown): readonly string[] | undefined {
    const { details } = asGatewayError(error).extra
    // Identified by its own detail, not by its code: a server may return the code after the call took effect.
    if (details?.sign_in === true) return this.#wanted ?? []
    const status = details?.http_status
    if (status === 403) return this.#wanted
    if (status !== 401 || this.#isFresh) return undefined
    this.#renewing.drop()
    return []
  }

  get #isFresh(): boolean {
    return Date.now() - this.#signedInAt < FRESH_TOKEN_MS
  }
}

/** The authorization server takes long to renew a token for another call. */
function renewedElsewhere(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The access token for the server is still being renewed.', {
    isUnsent: true,
    retryAfterSeconds: 5,
  })
}

async function refreshed(grant: UserGrant, refresh: string, options: Options): Promise<UserGrant> {
  const { server } = await options.issuers.current()
  if (server.issuer !== grant.issuer) throw signInRequired({ moved: true })
  const { dpop, resource } = grant
  const client = options.configured(server, grant.client.id) ?? grant.client
  const conversation = { server, client, http: options.http, dpop }
  const fresh = await requestToken(conversation, 'refresh_token', { refresh_token: refresh, resource })
  const scopes = fresh.scope === undefined ? grant.scopes : words(fresh.scope)
  return { ...grant, ...fresh, refresh: fresh.refresh ?? refresh, scopes }
}

/** Whether a grant is revoked, and not just temporarily unavailable. */
function isFinal(error: unknown): boolean {
  if (asGatewayError(error).code === 'AUTHENTICATION_REQUIRED') return true
  return ['invalid_grant', 'invalid_client', 'unauthorized_client'].includes(oauthError(error) ?? '')
}

async function asGrant(value: Readonly<Record<string, unknown>> | undefined): Promise<UserGrant | undefined> {
  const client = asClient(readObject(value?.client))
  if (!value || !client || typeof value.value !== 'string' || typeof value.issuer !== 'string')
    return undefined
  const jwk = readObject(value.dpop)
  return {
    value: value.value,
    expiresAt: Number(value.expiresAt),
    issuer: value.issuer,
    client,
    scopes: Array.isArray(value.scopes) ? value.scopes.map(String) : [],
    ...(typeof value.refresh === 'string' && { refresh: value.refresh }),
    ...(typeof value.redirectUri === 'string' && { redirectUri: value.redirectUri }),
    ...(typeof value.resource === 'string' && { resource: value.resource }),
    ...(jwk && { dpop: await DpopKey.of(jwk) }),
  }
}

function readObject(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return typeof value === 'object' && value !== null ? { ...value } : undefined
}

/** `moved`: the server trusts another authorization server than the one that issued the token. */
function signInRequired(why: { readonly moved?: true } = {}): GatewayError {
  return new GatewayError('AUTHENTICATION_REQUIRED', 'The user must sign in to this server first.', {
    details: { sign_in: true, ...why },
  })
}
