/** Reads credentials from headers (RFC 6750, RFC 7617). Those in a query are refused. */
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../core/error.ts'
import { unauthorized } from './verified.ts'

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
