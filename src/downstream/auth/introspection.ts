/** Asks the issuer about opaque tokens (RFC 7662), with a cache of good and bad ones. */
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { IntrospectSettings } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { fetchJson, StatusError } from '../http/fetch-json.ts'
import { unauthorized, unavailable, CLOCK_SKEW, MAX_CACHE_MS, type Verified } from './verified.ts'

type Claims = Readonly<Record<string, unknown>>

/** How many tokens are asked about at once. */
const MAX_CONCURRENT_REQUESTS = 32
/** How long nothing is asked after a failure, in milliseconds. */
const FAILURE_PAUSE_MS = 1000

/**
 * Asks the issuer about a token (RFC 7662): what it says of one that is in force. The result throws
 * AUTHENTICATION_REQUIRED, TOKEN_EXPIRED, SERVER_UNAVAILABLE.
 */
export function createIntrospection(
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
