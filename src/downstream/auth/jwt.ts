import type { errors, JWTPayload, JWTVerifyOptions } from 'jose'
import type { JwtSettings } from '../../core/auth-settings.ts'
import type { GatewayError } from '../../core/error.ts'
import type { FindKey } from './keys.ts'
import { type Reason, unauthorized } from './refusal.ts'
import { CLOCK_SKEW, isName } from './verified.ts'

interface Options {
  readonly settings: JwtSettings
  /** The issuer's keys, where the tokens are not signed with a shared one. */
  readonly keys: FindKey
  now(): number
}

/** The claims of a token, once it is known to be the issuer's and in force. */
export type ReadJwt = (token: string) => Promise<JWTPayload>

/** Checks signature, issuer and times of signed tokens. The result throws AUTHENTICATION_REQUIRED, TOKEN_EXPIRED. */
export function createJwtReader({ settings, keys, now }: Options): ReadJwt {
  const { issuer, algorithms, secret, requiredClaims } = settings
  const shared = secret && new TextEncoder().encode(secret.reveal())
  const required = ['iss', 'aud', 'sub', 'exp', 'iat', ...requiredClaims]
  const names = required.filter((claim) => naming.has(claim))
  const options: JWTVerifyOptions = {
    issuer,
    // An explicit list: neither `none` nor, beside public keys, a shared key is ever taken.
    algorithms: [...algorithms],
    clockTolerance: CLOCK_SKEW,
    requiredClaims: required,
  }
  return async (token) => {
    // Loaded for the first token: who takes none need not have it.
    const jose = await import('jose')
    const { decodeJwt, jwtVerify } = jose
    // Decoders leave padding out of account, and the signature does not cover it (RFC 7515 section 2).
    if (!COMPACT.test(token)) throw unauthorized('malformed', 'The token is not a signed token.')
    try {
      // Costs little, and spares the keys: tokens of others never ask for any.
      if (decodeJwt(token).iss !== issuer) throw unauthorized('issuer', 'The token is of another issuer.')
      const at = { ...options, currentDate: new Date(now()) }
      const { payload, protectedHeader } = shared
        ? await jwtVerify(token, shared, at)
        : await jwtVerify(token, keys, at)
      if (!isForAccess(protectedHeader.typ)) throw unauthorized('malformed', 'This is no access token.')
      if (!names.every((claim) => isName(payload[claim]))) throw unauthorized('claims', LACKING)
      const { iat } = payload
      if (typeof iat !== 'number' || iat > now() / 1000 + CLOCK_SKEW)
        throw unauthorized('not_yet_valid', 'The token is of the future.')
      return payload
    } catch (error) {
      throw error instanceof jose.errors.JOSEError ? refusalOf(error, jose.errors) : error
    }
  }
}

/** A signed token: three parts in base64url, without padding. */
const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/

/** The claims that say who calls. */
const naming: ReadonlySet<string> = new Set(['sub', 'client_id'])

/** Tokens of other kinds have types of their own (RFC 8725 §3.11); access tokens may have none. */
function isForAccess(type: unknown): boolean {
  return type === undefined || (typeof type === 'string' && /^(?:jwt|.*at\+jwt)$/i.test(type))
}

type Errors = typeof errors

function refusalOf(error: errors.JOSEError, known: Errors): GatewayError {
  const reason = reasonOf(error, known)
  return unauthorized(reason, words[reason] ?? 'The token is not a signed token.', error)
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

const LACKING = 'The token lacks a claim.'

const words: Partial<Record<Reason, string>> = {
  expired: 'The token has expired.',
  signature: 'The signature of the token is wrong.',
  unknown_key: 'The token is signed with an unknown key.',
  algorithm: 'The token is signed in a way that is not taken.',
  issuer: 'The token is of another issuer.',
  not_yet_valid: 'The token is not valid yet.',
  claims: LACKING,
}
