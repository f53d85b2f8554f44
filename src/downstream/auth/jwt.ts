/**
 * Verifies JWTs with the keys of their issuer (RFC 7519, RFC 9068). Keys are cached, refreshed before they expire,
 * and fetched for unknown key ids at a bounded rate.
 */
import { delayBefore, type Backoff } from '../../core/time/backoff.ts'
import type {
  errors,
  JWTPayload,
  JWTVerifyOptions,
  CryptoKey,
  FlattenedJWSInput,
  JSONWebKeySet,
  JWSHeaderParameters,
} from 'jose'
import type { JwtSettings } from '../../core/auth-settings.ts'
import type { GatewayError } from '../../core/error.ts'
import { isSubject } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import { fetchJson, StatusError } from '../http/fetch-json.ts'
import { type Reason, unauthorized, CLOCK_SKEW, unavailable } from './verified.ts'

/** The claims of a verified token. */
type ReadJwt = (token: string) => Promise<JWTPayload>

/**
 * Creates a function that verifies signature, issuer and times of JWTs; it throws AUTHENTICATION_REQUIRED, TOKEN_EXPIRED. The
 * keys are those of the issuer, unless tokens are signed with a shared secret.
 */
export function createJwtReader(settings: JwtSettings, keys: FindKey, now: () => number): ReadJwt {
  const { issuer, algorithms, secret, requiredClaims } = settings
  const shared = secret && new TextEncoder().encode(secret.reveal())
  const required = ['iss', 'aud', 'sub', 'exp', 'iat', ...requiredClaims]
  const names = required.filter((claim) => naming.has(claim))
  const options: JWTVerifyOptions = {
    issuer,
    // An explicit list: `none` is never accepted, nor a shared secret together with public keys.
    algorithms: [...algorithms],
    clockTolerance: CLOCK_SKEW,
    requiredClaims: required,
  }
  return async (token) => {
    // Loaded on demand: gateways without JWTs do not need it.
    const jose = await import('jose')
    const { decodeJwt, jwtVerify } = jose
    // Decoders ignore padding, and the signature does not cover it (RFC 7515 section 2).
    if (!COMPACT.test(token)) throw unauthorized('malformed', 'The token is not a signed JWT.')
    try {
      // A cheap check first: tokens of other issuers never trigger a fetch of keys.
      if (decodeJwt(token).iss !== issuer) throw unauthorized('issuer', 'The token is from another issuer.')
      const at = { ...options, currentDate: new Date(now()) }
      const { payload, protectedHeader } = shared
        ? await jwtVerify(token, shared, at)
        : await jwtVerify(token, keys, at)
      if (!isForAccess(protectedHeader.typ))
        throw unauthorized('malformed', 'The token is not an access token.')
      if (!names.every((claim) => isSubject(payload[claim]))) throw unauthorized('claims', LACKING)
      const { iat } = payload
      if (typeof iat !== 'number' || iat > now() / 1000 + CLOCK_SKEW)
        throw unauthorized('not_yet_valid', 'The token was issued in the future.')
      return payload
    } catch (error) {
      throw error instanceof jose.errors.JOSEError ? refusalOf(error, jose.errors) : error
    }
  }
}

/** A JWT: three parts in base64url, without padding. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** The claims that identify the caller. */
const naming: ReadonlySet<string> = new Set(['sub', 'client_id'])

/** Other kinds of tokens have other types (RFC 8725 §3.11); access tokens may have none. */
function isForAccess(type: unknown): boolean {
  return type === undefined || (typeof type === 'string' && /^(?:jwt|.*at\+jwt)$/i.test(type))
}

type Errors = typeof errors

function refusalOf(error: errors.JOSEError, known: Errors): GatewayError {
  const reason = reasonOf(error, known)
  return unauthorized(reason, words[reason] ?? 'The token is not a signed JWT.', error)
}

function reasonOf(error: errors.JOSEError, errors: Errors): Reason {
  if (error instanceof errors.JWTExpired) return 'expired'
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'signature'
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return 'unknown_key'
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported)
    return 'algorithm'
  if (!(error instanceof errors.JWTClaimValidationFailed)) return 'malformed'
  if (error.claim === 'iss') return 'issuer'
  return error.claim === 'nbf' ? 'not_yet_valid' : 'claims'
}

const LACKING = 'The token lacks a required claim.'

const words: Partial<Record<Reason, string>> = {
  expired: 'The token has expired.',
  signature: 'The signature of the token is invalid.',
  unknown_key: 'The token is signed with an unknown key.',
  algorithm: 'The signature algorithm of the token is not accepted.',
  issuer: 'The token is from another issuer.',
  not_yet_valid: 'The token is not valid yet.',
  claims: LACKING,
}

/** Finds the verification key of a token. */
export type FindKey = (header?: JWSHeaderParameters, token?: FlattenedJWSInput) => Promise<CryptoKey>

/** The keys of an issuer. */
export interface Keys extends FindKey {
  /** Whether keys are available; fetches them if necessary. */
  works(): Promise<boolean>
}

/** How long keys are used, and the age at which they are refreshed in the background, in milliseconds. */
const MAX_KEY_AGE_MS = 10 * 60_000
const KEYS_STALE_MS = 5 * 60_000
/** The backoff after an unknown key id or a failure. */
const RETRIES: Backoff = { firstMs: 1000, maxMs: 60_000 }

/**
 * The keys of an issuer, fetched on demand by `load`. The backoff limits how often unknown key ids cause a fetch. The result
 * throws jose's errors, and SERVER_UNAVAILABLE if there are no keys.
 */
export function createKeys(load: () => Promise<unknown>, now: () => number): Keys {
  let keys: FindKey | undefined
  let loadedAt = -Infinity
  let pending: Promise<void> | undefined
  const misses = createWait(now)
  const failures = createWait(now)

  const fetchKeys = async (): Promise<void> => {
    try {
      const [loaded, { createLocalJWKSet }] = await Promise.all([load(), import('jose')])
      // createLocalJWKSet validates the shape of the set.
      keys = createLocalJWKSet(loaded as JSONWebKeySet)
      loadedAt = now()
      failures.reset()
    } catch (error) {
      failures.lengthen()
      throw noKeys(error)
    }
  }
  const refresh = (): Promise<void> => {
    pending ??= fetchKeys().finally(() => (pending = undefined))
    return pending
  }
  const current = async (): Promise<FindKey> => {
    const age = now() - loadedAt
    if (keys && age < MAX_KEY_AGE_MS) {
      if (age >= KEYS_STALE_MS && failures.isOver) refresh().catch(() => undefined)
      return keys
    }
    if (!pending && !failures.isOver) throw noKeys()
    await refresh()
    if (!keys) throw noKeys()
    return keys
  }

  const find: FindKey = async (header, token) => {
    const known = await current()
    try {
      return await known(header, token)
    } catch (error) {
      const { errors } = await import('jose')
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      // Concurrent callers share a fetch in flight.
      if (!pending) {
        if (!failures.isOver) throw noKeys()
        if (!misses.isOver) throw error
        misses.lengthen()
      }
      await refresh()
      const found = await (await current())(header, token)
      misses.reset()
      return found
    }
  }
  const works = (): Promise<boolean> =>
    current().then(
      () => true,
      () => false,
    )
  return Object.assign(find, { works })
}

function noKeys(cause?: unknown): GatewayError {
  return unavailable('The keys for token verification are unavailable.', cause)
}

/** The wait until something may be tried again, which is longer each time. */
function createWait(now: () => number) {
  let count = 0
  let until = -Infinity
  return {
    get isOver() {
      return now() >= until
    },
    lengthen: () => {
      until = now() + delayBefore(count++, RETRIES)
    },
    reset: () => {
      count = 0
      until = -Infinity
    },
  }
}

// Discovers the keys of an issuer by its metadata (RFC 8414, OpenID Connect Discovery).

/** Fetches the keys of an issuer, from the configured URL or the one in its metadata. @throws if they cannot be fetched */
export async function fetchKeys(
  { issuer, jwks }: Pick<JwtSettings, 'issuer' | 'jwks'>,
  proxies: FindProxy,
): Promise<unknown> {
  return fetchJson(jwks ?? (await findKeys(issuer, proxies)), proxies)
}

/** Why the tokens of an issuer cannot be verified; undefined if its keys are available or not needed. */
export async function issuerProblem(
  jwt: JwtSettings | undefined,
  proxies: FindProxy,
): Promise<string | undefined> {
  if (!jwt || jwt.secret) return undefined
  try {
    const { createLocalJWKSet } = await import('jose')
    createLocalJWKSet((await fetchKeys(jwt, proxies)) as JSONWebKeySet)
    return undefined
  } catch (error) {
    const { message, cause } = error instanceof Error ? error : new Error(String(error))
    const why = cause instanceof Error && cause.message !== '' ? `${message}: ${cause.message}` : message
    return `the keys of this issuer cannot be fetched, so no token can be verified: ${why}`
  }
}

/** Finds the URL of an issuer's keys in its metadata (RFC 8414, then OpenID Connect Discovery). */
async function findKeys(issuer: string, proxies: FindProxy): Promise<string> {
  for (const url of metadataUrls(issuer)) {
    const metadata = await fetchJson(url, proxies).catch(absent)
    if (!metadata) continue
    // RFC 8414 §3.3: metadata with another issuer must not be used.
    if (metadata.issuer !== issuer) throw new Error(`${url} is the metadata of another issuer`)
    if (typeof metadata.jwks_uri === 'string') return metadata.jwks_uri
  }
  throw new Error(`${issuer} has no metadata with a jwks_uri`)
}

function metadataUrls(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const inserted = ['oauth-authorization-server', 'openid-configuration'].map(
    (name) => `${origin}/.well-known/${name}${path}`,
  )
  return path === '' ? inserted : [...inserted, `${origin}${path}/.well-known/openid-configuration`]
}

function absent(error: unknown): undefined {
  if (error instanceof StatusError && error.status >= 400 && error.status < 500) return undefined
  throw error
}
