/** Chooses among the configured kinds of credentials: listed tokens, JWTs, introspection, passwords. */
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

/** Tells who makes a request. */
interface Authenticator {
  /**
   * Who calls an endpoint: at once where the token is known already.
   * @throws AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE, OVERLOADED
   */
  caller(incoming: IncomingMessage, upstream: string | undefined): Principal | Promise<Principal>
  /** Who uses a service path: as above, or with a name and password. */
  serviceAccount(incoming: IncomingMessage): Principal | Promise<Principal>
  /** What it needs. */
  readonly probes: Probes
}

interface Options {
  readonly auth: AuthSettings
  readonly resources: Resources
  now(): number
}

/** Who calls without a token where lists are open to all; may do nothing that needs a scope. */
export const anonymousCaller: Principal = { id: 'anonymous', scopes: new Set() }

/** Checks credentials by the settings. */
export function createAuthenticator({ auth, resources, now }: Options): Authenticator {
  if (!isProtected(auth) && auth.users.length === 0)
    return { caller: () => anonymous, serviceAccount: () => anonymous, probes: {} }
  const keys = auth.jwt && keysOf(auth.jwt, now)
  const look = createTokenCache({ verify: verifier(auth, keys, now), now })
  const check = createPasswords(auth.users)
  const isOpen = auth.anonymous.length > 0

  // The header of the last request on each connection: to tell that it is the same costs less than its hash.
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
        throw unauthorized('audience', 'The token is meant for another server.')
      return principal
    }
    return found instanceof Promise ? found.then(admit) : admit(found)
  }
  return {
    probes: keys && !auth.jwt?.secret ? { jwks: { isNeeded: true, works: () => keys.works() } } : {},
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

/** How long an answer about a token counts, in milliseconds: its issuer may take it back. */
const INTROSPECTION_TTL_MS = 60_000

function verifier(
  auth: AuthSettings,
  keys: Keys | undefined,
  now: () => number,
): (token: string) => Promise<Verified> {
  const { jwt, introspect, scopeMap } = auth
  const listed = createListed(auth.tokens)
  const readJwt = jwt && keys && createJwtReader({ settings: jwt, keys, now })
  const ask = introspect && createIntrospection(introspect, now)

  return async (token) => {
    checkToken(token)
    const found = listed(token)
    if (found) return found
    if (jwt && readJwt && (isJwt(token) || !ask)) {
      const claims = await readJwt(token)
      const until = expiry(claims.exp, now() + MAX_CACHE_MS)
      const principal = principalOf(token, claims, jwt.scopeClaim, scopeMap)
      return { principal, audiences: audiencesIn(claims.aud), until }
    }
    if (!introspect || !ask) throw unauthorized('unknown_token', 'The token is not known here.')
    const claims = await ask(token)
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

function keysOf(jwt: NonNullable<AuthSettings['jwt']>, now: () => number): Keys {
  return createKeys({ load: () => fetchKeys(jwt), now })
}

/** Whether a token has the form of a signed one. */
function isJwt(token: string): boolean {
  return token.startsWith('ey') && token.split('.').length === 3
}

/** Finds tokens in the configured list of hashes. */
function createListed(tokens: readonly ListedToken[]): (token: string) => Verified | undefined {
  const entries = tokens.map(({ hash, id, scopes }) => {
    const [, salt = '', digest = ''] = hash.reveal().split(':')
    const principal = { id: `token:${id}`, ...(scopes && { scopes: new Set(scopes) }) }
    return { salt, digest: Buffer.from(digest, 'hex'), verified: { principal, until: Infinity } }
  })
  return (token) => {
    const matches = ({ salt, digest }: (typeof entries)[number]): boolean =>
      timingSafeEqual(createHash('sha256').update(salt).update(token).digest(), digest)
    return entries.find(matches)?.verified
  }
}

// Passwords of users: scrypt, a few at a time, and a pause after wrong ones.

/** How many passwords are tried side by side: each one costs some 50 ms of a core. */
const MAX_CONCURRENT_CHECKS = 4

/** How many wrong passwords of one name are looked at in a minute. */
const WRONG_PASSWORDS = 10

const derive = promisify<string, string, number, Buffer>(scrypt)

/** Checks names and passwords. The result throws AUTHENTICATION_REQUIRED, OVERLOADED, RATE_LIMIT_EXCEEDED. */
export function createPasswords(
  users: readonly BasicUser[],
): (credentials: { readonly name: string; readonly password: string }) => Promise<Principal> {
  const known = new LRUCache<string, Principal>({ max: 100 })
  const tries = createFailureCounter(WRONG_PASSWORDS, Date.now)
  let running = 0

  return async ({ name, password }) => {
    const key = hash('sha256', `${name}:${password}`, 'base64')
    const found = known.get(key)
    if (found) return found
    tries.check(name)
    if (running >= MAX_CONCURRENT_CHECKS)
      throw new GatewayError('OVERLOADED', 'Too many passwords are checked right now.')
    running++
    try {
      const user = users.find((each) => each.name === name)
      // Work is done for unknown names too, so that they cannot be told by the time it takes.
      const [, salt = '', digest = ''] = (
        user?.passwordHash.reveal() ?? `scrypt:nobody:${'0'.repeat(64)}`
      ).split(':')
      const derived = await derive(password, salt, 32)
      if (!timingSafeEqual(derived, Buffer.from(digest, 'hex')) || !user) {
        tries.failed(name)
        throw unauthorized('password', 'The name or password is wrong.')
      }
      const principal = { id: `service:${name}` }
      known.set(key, principal)
      return principal
    } finally {
      running--
    }
  }
}

// Asks the issuer about opaque tokens (RFC 7662), with a cache of good and bad ones.

type Claims = Readonly<Record<string, unknown>>

/** How many tokens are asked about at once. */
const MAX_CONCURRENT_REQUESTS = 32
/** How long nothing is asked after a failure, in milliseconds. */
const FAILURE_PAUSE_MS = 1000

/**
 * Asks the issuer about a token (RFC 7662): what it says of one that is in force. The result throws
 * AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE.
 */
function createIntrospection(
  { url, clientId, clientSecret }: IntrospectSettings,
  now: () => number,
): (token: string) => Promise<Claims> {
  // RFC 6749 §2.3.1: both are encoded as in a form before they are joined.
  const encoded = [clientId, clientSecret.reveal()].map((part) => formEncoded(part)).join(':')
  const headers = {
    authorization: `Basic ${Buffer.from(encoded).toString('base64')}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  let running = 0
  let until = -Infinity

  return async (token) => {
    if (running >= MAX_CONCURRENT_REQUESTS || now() < until)
      throw unavailable('Tokens cannot be checked right now.')
    running++
    const body = new URLSearchParams({ token, token_type_hint: 'access_token' }).toString()
    const request = fetchJson(url, { method: 'POST', headers, body })
    const claims = await request
      .catch((error: unknown) => {
        // Whoever sends tokens that are not taken must not keep others from being asked about.
        if (!isAboutToken(error)) until = now() + FAILURE_PAUSE_MS
        throw unavailable('Tokens cannot be checked right now.', error)
      })
      .finally(() => running--)
    if (claims.active !== true) throw unauthorized('inactive', 'The token is not in force.')
    const seconds = now() / 1000
    if (typeof claims.exp === 'number' && claims.exp + CLOCK_SKEW <= seconds)
      throw unauthorized('expired', 'The token has expired.')
    if (typeof claims.nbf === 'number' && claims.nbf - CLOCK_SKEW > seconds)
      throw unauthorized('not_yet_valid', 'The token is not valid yet.')
    return claims
  }
}

/** Whether an answer is about what was asked, not about who asks or how often. */
function isAboutToken(error: unknown): boolean {
  if (!(error instanceof StatusError) || error.status === 401 || error.status === 429) return false
  return error.status >= 400 && error.status < 500
}

function formEncoded(text: string): string {
  return new URLSearchParams({ text }).toString().slice('text='.length)
}

/** How many tokens are remembered, good and bad. */
const MAX_ACCEPTED_TOKENS = 10_000
const MAX_REJECTED_TOKENS = 2000
/** How long a bad token stays refused without another look, in milliseconds. */
const REJECTED_TTL_MS = 10_000
/** How many tokens are looked at side by side. */
const INTROSPECTION_MAX_CONCURRENT_CHECKS = 256

interface IntrospectionOptions {
  verify(token: string): Promise<Verified>
  now(): number
}

/**
 * Remembers which tokens are good, by their hashes: at once for a token that is known, else when it was looked at.
 * The result throws what `verify` throws, and OVERLOADED when too many are under way.
 */
export function createTokenCache({
  verify,
  now,
}: IntrospectionOptions): (token: string) => Verified | Promise<Verified> {
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
      // What could not be checked is not bad.
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
  return new GatewayError('OVERLOADED', 'Too many tokens are checked right now.', { reason: 'overloaded' })
}

// Reads credentials from headers (RFC 6750, RFC 7617). Those in a query are refused.

/** The longest token that is looked at, in characters. */
const MAX_TOKEN_LENGTH = 16 * 1024

type Headed = Pick<IncomingMessage, 'headers'>

/** The bearer token of a request; nothing where it has no credentials. @throws AUTHENTICATION_REQUIRED */
export function bearerToken({ headers }: Headed): string | undefined {
  const { authorization } = headers
  if (authorization === undefined) return undefined
  if (!/^bearer /i.test(authorization))
    throw unauthorized('scheme', 'Authentication is required with a bearer token.')
  if (authorization.length > MAX_TOKEN_LENGTH) throw unauthorized('too_large', 'The token is too long.')
  return authorization.slice('bearer '.length).trimStart()
}

/** Refuses what can be no token (RFC 6750 §2.1: b64token). @throws AUTHENTICATION_REQUIRED */
export function checkToken(token: string): void {
  if (!/^[A-Za-z0-9._~+/-]+=*$/.test(token)) throw unauthorized('malformed', 'This is not a bearer token.')
}

/** Refuses several credentials: proxies and servers do not agree on which of them counts. @throws INVALID_REQUEST */
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

const telling =
  /^(?:access_?token|token|id_?token|refresh_?token|auth_?token|session_?token|bearer|jwt|authorization|api_?key|apikey|client_?secret|secret|password)$/i

/** Refuses credentials in a URL, which ends up in logs and histories. @throws INVALID_REQUEST */
export function checkQuery(url = ''): void {
  const start = url.indexOf('?')
  if (start < 0) return
  for (const name of new URLSearchParams(url.slice(start)).keys()) {
    if (!telling.test(name)) continue
    throw new GatewayError('INVALID_REQUEST', 'Invalid request: a URL must not hold credentials.', {
      suggestion: 'Send the token as Authorization: Bearer <token>.',
      reason: 'query',
    })
  }
}

/** A name and password (RFC 7617); nothing where the request has others or no credentials. */
export function basicCredentials({
  headers,
}: Headed): { readonly name: string; readonly password: string } | undefined {
  const encoded = /^basic +([A-Za-z0-9+/]{1,1024}=*)$/i.exec(headers.authorization ?? '')?.[1]
  if (encoded === undefined) return undefined
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { name: text.slice(0, colon), password: text.slice(colon + 1) }
}
