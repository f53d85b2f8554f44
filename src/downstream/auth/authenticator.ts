/** Authenticates requests by the configured kinds of credentials: listed tokens, JWTs, introspection, passwords. */
import { LRUCache } from 'lru-cache'
import { createHash, timingSafeEqual, hash, scrypt } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { promisify } from 'node:util'
import {
  type AuthSettings,
  isProtected,
  type ListedToken,
  type BasicUser,
  type IntrospectSettings,
} from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { createFailureCounter } from '../../core/failure-counter.ts'
import type { Probes } from '../../core/log.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import { world } from '../../core/world.ts'
import { fetchJson, StatusError } from '../http/fetch-json.ts'
import { fetchKeys, createJwtReader, createKeys, type Keys } from './jwt.ts'
import type { Resources } from './resources.ts'
import {
  unauthorized,
  audiencesIn,
  MAX_CACHE_MS,
  principalOf,
  type Verified,
  unavailable,
  CLOCK_SKEW,
} from './verified.ts'

/** Determines the principal of a request. */
interface Authenticator {
  /**
   * The principal of a request to an endpoint; synchronous if the token is cached.
   * @throws AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE, OVERLOADED
   */
  caller(incoming: IncomingMessage, upstream: string | undefined): Principal | Promise<Principal>
  /** The principal of a request to a service path, which also accepts a name and password. */
  serviceAccount(incoming: IncomingMessage): Principal | Promise<Principal>
  /** The dependencies for readiness checks. */
  readonly probes: Probes
}

interface Options {
  readonly auth: AuthSettings
  readonly resources: Resources
  /** The proxies for requests to issuers. */
  readonly proxies: FindProxy
  now(): number
}

/** The principal without a token, if lists are public; it has no scopes. */
export const anonymousCaller: Principal = { id: 'anonymous', scopes: new Set() }

/** Creates an authenticator for the settings. */
export function createAuthenticator({ auth, resources, proxies, now }: Options): Authenticator {
  if (!isProtected(auth) && auth.users.length === 0)
    return { caller: () => anonymous, serviceAccount: () => anonymous, probes: {} }
  const { jwt } = auth
  const keys = jwt && createKeys(() => fetchKeys(jwt, proxies), now)
  const look = createTokenCache(verifier(auth, keys, proxies, now), now)
  const check = createPasswords(auth.users)
  const isOpen = auth.anonymous.length > 0

  // The header of the last request on each connection: comparing it is cheaper than hashing the token.
  const lasts = new WeakMap<object, { readonly header: string | undefined; readonly verified: Verified }>()

  const find = (incoming: IncomingMessage, token: string): Verified | Promise<Verified> => {
    const header = incoming.headers.authorization
    const last = lasts.get(incoming.socket)
    if (last && last.header === header && last.verified.until > now()) return last.verified
    const found = look(token)
    if (!(found instanceof Promise)) lasts.set(incoming.socket, { header, verified: found })
    return found
  }
  const bearer: Authenticator['caller'] = (incoming, upstream) => {
    const token = bearerToken(incoming)
    if (token === undefined) {
      if (isOpen) return anonymousCaller
      throw unauthorized('missing', 'Authentication is required.')
    }
    const found = find(incoming, token)
    const admit = ({ principal, audiences }: Verified): Principal => {
      if (audiences && !resources.accepts(audiences, upstream))
        throw unauthorized('audience', 'The token is for another audience.')
      return principal
    }
    return found instanceof Promise ? found.then(admit) : admit(found)
  }
  return {
    probes: keys && !jwt?.secret ? { jwks: { isNeeded: true, works: () => keys.works() } } : {},
    caller: isProtected(auth) ? bearer : () => anonymous,
    serviceAccount: (incoming) => {
      const credentials = auth.users.length > 0 ? basicCredentials(incoming) : undefined
      if (credentials) return check(credentials)
      const principal = bearer(incoming, undefined)
      if (principal === anonymousCaller) throw unauthorized('missing', 'Authentication is required.')
      return principal
    },
  }
}

/** How long an introspection result is valid, in milliseconds: the issuer may revoke the token. */
const INTROSPECTION_TTL_MS = 60_000

function verifier(
  auth: AuthSettings,
  keys: Keys | undefined,
  proxies: FindProxy,
  now: () => number,
): (token: string) => Promise<Verified> {
  const { jwt, introspect, scopeMap } = auth
  const listed = createListed(auth.tokens)
  const readJwt = jwt && keys && createJwtReader(jwt, keys, now)
  const introspectToken = introspect && createIntrospection(introspect, proxies, now)

  return async (token) => {
    checkToken(token)
    const found = listed(token)
    if (found) return found
    if (jwt && readJwt && (isJwt(token) || !introspectToken)) {
      const claims = await readJwt(token)
      const until = expiry(claims.exp, now() + MAX_CACHE_MS)
      const principal = principalOf(token, claims, jwt.scopeClaim, scopeMap)
      return { principal, audiences: audiencesIn(claims.aud), until }
    }
    if (!introspect || !introspectToken) throw unauthorized('unknown_token', 'The token is unknown.')
    const claims = await introspectToken(token)
    const isBound = claims.aud !== undefined || introspect.requiresAudience
    return {
      principal: principalOf(token, claims, 'scope', scopeMap),
      ...(isBound && { audiences: audiencesIn(claims.aud) }),
      until: expiry(claims.exp, now() + INTROSPECTION_TTL_MS),
    }
  }
}

function expiry(exp: unknown, latest: number): number {
  return typeof exp === 'number' ? Math.min(exp * 1000, latest) : latest
}

/** Whether a token has the form of a JWT. */
function isJwt(token: string): boolean {
  return token.startsWith('ey') && token.split('.').length === 3
}

/** What the ids of callers with listed tokens, and of users with passwords, begin with. */
const LISTED = 'token:'
const SERVICE = 'service:'

/**
 * A caller that is known by its id alone, because it signed a URL, subscribed or began an operation before: with what is
 * left of its scopes in the present configuration. Listed tokens have theirs there; those that other tokens carry are known
 * from these tokens alone. @throws FORBIDDEN if the configuration knows no such caller
 */
export function presentPrincipal(principal: Principal, auth: AuthSettings): Principal {
  const { id } = principal
  if (id.startsWith(LISTED)) {
    const own = auth.tokens.filter((token) => `${LISTED}${token.id}` === id)
    if (own.length === 0) throw unknownCaller(id)
    return own.some(({ scopes }) => scopes === undefined)
      ? principal
      : within(
          principal,
          own.flatMap(({ scopes = [] }) => scopes),
        )
  }
  if (id === auth.principal.id && !principal.isEverybody && auth.principal.scopes)
    return within(principal, auth.principal.scopes)
  if (!isConfigured(principal, auth)) throw unknownCaller(id)
  return principal
}

/** Whether the kind of credentials of a caller is configured. */
function isConfigured({ id, isEverybody }: Principal, auth: AuthSettings): boolean {
  if (isEverybody) return !isProtected(auth)
  if (id.startsWith(SERVICE)) return auth.users.some(({ name }) => `${SERVICE}${name}` === id)
  if (id === anonymousCaller.id) return auth.anonymous.length > 0
  if (id === auth.principal.id) return true
  return auth.jwt !== undefined || auth.introspect !== undefined
}

function within(principal: Principal, scopes: Iterable<string>): Principal {
  const kept = [...scopes].filter((scope) => principal.scopes?.has(scope) !== false)
  return { ...principal, scopes: new Set(kept) }
}

function unknownCaller(id: string): GatewayError {
  return new GatewayError('FORBIDDEN', `The gateway has no caller ${id} any more.`, {
    reason: 'caller',
    suggestion: 'Authenticate with credentials that are valid now, and make the request again.',
  })
}

/** Verifies tokens against the configured list of hashes. */
function createListed(tokens: readonly ListedToken[]): (token: string) => Verified | undefined {
  const entries = tokens.map(({ hash, id, scopes }) => {
    const [, salt = '', digest = ''] = hash.reveal().split(':')
    const principal = { id: `${LISTED}${id}`, ...(scopes && { scopes: new Set(scopes) }) }
    return { salt, digest: Buffer.from(digest, 'hex'), verified: { principal, until: Infinity } }
  })
  return (token) => {
    const matches = ({ salt, digest }: (typeof entries)[number]): boolean =>
      timingSafeEqual(createHash('sha256').update(salt).update(token).digest(), digest)
    return entries.find(matches)?.verified
  }
}

// Passwords of users: scrypt with limited concurrency, and a limit on wrong passwords.

/** How many passwords are verified concurrently: each takes about 50 ms of a core. */
const MAX_CONCURRENT_CHECKS = 4

/** After this many wrong passwords for one name in a minute, further attempts are rejected. */
const MAX_WRONG_PASSWORDS = 10

const derive = promisify<string, string, number, Buffer>(scrypt)

/** Creates a verifier of names and passwords; it throws AUTHENTICATION_REQUIRED, OVERLOADED, RATE_LIMIT_EXCEEDED. */
export function createPasswords(
  users: readonly Pick<BasicUser, 'name' | 'passwordHash'>[],
): (credentials: { readonly name: string; readonly password: string }) => Promise<Principal> {
  const known = new LRUCache<string, Principal>({ max: 100 })
  const attempts = createFailureCounter(MAX_WRONG_PASSWORDS, world.now)
  const pending = new Map<string, Promise<Principal>>()

  const verify = async (name: string, password: string, key: string): Promise<Principal> => {
    const user = users.find((each) => each.name === name)
    // Unknown names take the same time, so that timing does not reveal which names exist.
    const [, salt = '', digest = ''] = (
      user?.passwordHash.reveal() ?? `scrypt:nobody:${'0'.repeat(64)}`
    ).split(':')
    const derived = await derive(password, salt, 32)
    if (!timingSafeEqual(derived, Buffer.from(digest, 'hex')) || !user) {
      attempts.failed(name)
      throw unauthorized('password', 'The name or password is wrong.')
    }
    const principal = { id: `${SERVICE}${name}` }
    known.set(key, principal)
    return principal
  }

  return async ({ name, password }) => {
    const key = hash('sha256', `${name}:${password}`, 'base64')
    // A page sends several requests at once, of which a gateway that has just started knows none.
    const found = known.get(key) ?? pending.get(key)
    if (found) return found
    attempts.check(name)
    if (pending.size >= MAX_CONCURRENT_CHECKS)
      throw new GatewayError('OVERLOADED', 'Too many passwords are being verified.')
    const verified = verify(name, password, key).finally(() => pending.delete(key))
    pending.set(key, verified)
    return verified
  }
}

// Token introspection (RFC 7662), with a cache of valid and invalid tokens.

type Claims = Readonly<Record<string, unknown>>

/** How many introspection requests may be in flight. */
const MAX_CONCURRENT_REQUESTS = 32
/** The pause after a failed introspection request, in milliseconds. */
const FAILURE_PAUSE_MS = 1000

/**
 * Creates a function that returns the claims of an active token from its issuer (RFC 7662). It throws
 * AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE.
 */
function createIntrospection(
  { url, clientId, clientSecret }: IntrospectSettings,
  proxies: FindProxy,
  now: () => number,
): (token: string) => Promise<Claims> {
  // RFC 6749 §2.3.1: both are form-encoded before they are joined.
  const encoded = [clientId, clientSecret.reveal()].map((part) => formEncoded(part)).join(':')
  const headers = {
    authorization: `Basic ${Buffer.from(encoded).toString('base64')}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  let running = 0
  let until = -Infinity

  return async (token) => {
    if (running >= MAX_CONCURRENT_REQUESTS || now() < until)
      throw unavailable('Tokens cannot be verified at the moment.')
    running++
    const body = new URLSearchParams({ token, token_type_hint: 'access_token' }).toString()
    const request = fetchJson(url, proxies, { method: 'POST', headers, body })
    const claims = await request
      .catch((error: unknown) => {
        // Tokens that the issuer rejects must not block the introspection of others.
        if (!isAboutToken(error)) until = now() + FAILURE_PAUSE_MS
        throw unavailable('Tokens cannot be verified at the moment.', error)
      })
      .finally(() => running--)
    if (claims.active !== true) throw unauthorized('inactive', 'The token is not active.')
    const seconds = now() / 1000
    if (typeof claims.exp === 'number' && claims.exp + CLOCK_SKEW <= seconds)
      throw unauthorized('expired', 'The token has expired.')
    if (typeof claims.nbf === 'number' && claims.nbf - CLOCK_SKEW > seconds)
      throw unauthorized('not_yet_valid', 'The token is not valid yet.')
    return claims
  }
}

/** Whether an error status is about the token, not about the client or its request rate. */
function isAboutToken(error: unknown): boolean {
  if (!(error instanceof StatusError) || error.status === 401 || error.status === 429) return false
  return error.status >= 400 && error.status < 500
}

function formEncoded(text: string): string {
  return new URLSearchParams({ text }).toString().slice('text='.length)
}

/** How many tokens are cached, valid and invalid. */
const MAX_ACCEPTED_TOKENS = 10_000
const MAX_REJECTED_TOKENS = 2000
/** How long an invalid token is rejected without another verification, in milliseconds. */
const REJECTED_TTL_MS = 10_000
/** How many tokens are verified concurrently. */
const INTROSPECTION_MAX_CONCURRENT_CHECKS = 256

/**
 * Caches the results of `verify` by the hashes of tokens: synchronous for a cached token, a promise otherwise. It
 * throws what `verify` throws, and OVERLOADED if too many verifications are in flight.
 */
export function createTokenCache(
  verify: (token: string) => Promise<Verified>,
  now: () => number,
): (token: string) => Verified | Promise<Verified> {
  const good = new LRUCache<string, Verified>({ max: MAX_ACCEPTED_TOKENS })
  const bad = new LRUCache<string, { readonly error: GatewayError; readonly until: number }>({
    max: MAX_REJECTED_TOKENS,
  })
  const pending = new Map<string, Promise<Verified>>()

  const look = async (token: string, key: string): Promise<Verified> => {
    try {
      const verified = await verify(token)
      good.set(key, { ...verified, until: Math.min(verified.until, now() + MAX_CACHE_MS) })
      return verified
    } catch (error) {
      // A token that could not be verified is not invalid.
      const isBad = error instanceof GatewayError && error.category === 'auth_required'
      if (isBad) bad.set(key, { error, until: now() + REJECTED_TTL_MS })
      throw error
    } finally {
      pending.delete(key)
    }
  }

  return (token) => {
    const key = hash('sha256', token, 'base64')
    const known = good.get(key)
    if (known) {
      if (known.until > now()) return known
      good.delete(key)
    }
    const refused = bad.get(key)
    if (refused && refused.until > now()) throw refused.error
    const running = pending.get(key)
    if (running) return running
    if (pending.size >= INTROSPECTION_MAX_CONCURRENT_CHECKS) throw overloaded()
    const looked = look(token, key)
    pending.set(key, looked)
    return looked
  }
}

function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many tokens are being verified.', { reason: 'overloaded' })
}

// Reads credentials from headers (RFC 6750, RFC 7617). Credentials in a query are rejected.

/** The maximum length of a token, in characters. */
const MAX_TOKEN_LENGTH = 16 * 1024

type Headed = Pick<IncomingMessage, 'headers'>

/** The bearer token of a request; undefined without credentials. @throws AUTHENTICATION_REQUIRED */
export function bearerToken({ headers }: Headed): string | undefined {
  const { authorization } = headers
  if (authorization === undefined) return undefined
  if (!/^bearer /i.test(authorization))
    throw unauthorized('scheme', 'Authentication with a bearer token is required.')
  if (authorization.length > MAX_TOKEN_LENGTH) throw unauthorized('too_large', 'The token is too long.')
  return authorization.slice('bearer '.length).trimStart()
}

/** Rejects a malformed token (RFC 6750 §2.1: b64token). @throws AUTHENTICATION_REQUIRED */
export function checkToken(token: string): void {
  if (!/^[A-Za-z0-9._~+/-]+=*$/.test(token)) throw unauthorized('malformed', 'The bearer token is malformed.')
}

/** Rejects several credentials: proxies and servers disagree about which one applies. @throws INVALID_REQUEST */
export function checkHeaders({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): void {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]
    if (name?.length === NAME.length && name.toLowerCase() === NAME) count++
  }
  if (count < 2) return
  throw new GatewayError('INVALID_REQUEST', 'Invalid request: there is more than one Authorization header.', {
    suggestion: 'Send one.',
    reason: 'credentials',
  })
}

const NAME = 'authorization'

const credentialParameter =
  /^(?:access_?token|token|id_?token|refresh_?token|auth_?token|session_?token|bearer|jwt|authorization|api_?key|apikey|client_?secret|secret|password)$/i

/** Rejects credentials in a URL, because URLs appear in logs and histories. @throws INVALID_REQUEST */
export function checkQuery(url = ''): void {
  const start = url.indexOf('?')
  if (start < 0) return
  for (const name of new URLSearchParams(url.slice(start)).keys()) {
    if (!credentialParameter.test(name)) continue
    throw new GatewayError('INVALID_REQUEST', 'Invalid request: a URL must not contain credentials.', {
      suggestion: 'Send the token as Authorization: Bearer <token>.',
      reason: 'query',
    })
  }
}

/** The name and password of a request (RFC 7617); undefined with other or no credentials. */
export function basicCredentials({
  headers,
}: Headed): { readonly name: string; readonly password: string } | undefined {
  const encoded = /^basic +([A-Za-z0-9+/]{1,1024}=*)$/i.exec(headers.authorization ?? '')?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { name: text.slice(0, colon), password: text.slice(colon + 1) }
}
