import type { IntrospectSettings } from '../../core/auth-settings.ts'
import { fetchJson, StatusError } from '../fetch-json.ts'
import { unauthorized, unavailable } from './refusal.ts'
import { CLOCK_SKEW } from './verified.ts'

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
      throw unavailable('Tokens can not be checked right now.')
    running++
    const body = new URLSearchParams({ token, token_type_hint: 'access_token' }).toString()
    const request = fetchJson(url, { method: 'POST', headers, body })
    const claims = await request
      .catch((error: unknown) => {
        // Whoever sends tokens that are not taken must not keep others from being asked about.
        if (!isAboutToken(error)) until = now() + FAILURE_PAUSE_MS
        throw unavailable('Tokens can not be checked right now.', error)
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
