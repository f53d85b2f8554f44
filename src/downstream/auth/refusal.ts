import { GatewayError } from '../../core/error.ts'

/** Why a caller was not let in, in one word for logs and metrics. */
export type Reason =
  | 'missing'
  | 'scheme'
  | 'malformed'
  | 'too_large'
  | 'query'
  | 'algorithm'
  | 'issuer'
  | 'unknown_key'
  | 'signature'
  | 'expired'
  | 'not_yet_valid'
  | 'claims'
  | 'audience'
  | 'inactive'
  | 'unknown_token'
  | 'password'
  | 'unavailable'
  | 'overloaded'

/** The refusal of a caller without good credentials. */
export function unauthorized(reason: Reason, message: string, cause?: unknown): GatewayError {
  const code = reason === 'expired' ? 'TOKEN_EXPIRED' : 'AUTHENTICATION_REQUIRED'
  return new GatewayError(code, message, {
    suggestion: 'Get a token for this server and send it as Authorization: Bearer <token>.',
    reason,
    cause,
  })
}

/** The refusal of a caller whose credentials can not be checked for a while. */
export function unavailable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    reason: 'unavailable',
    retryAfterSeconds: 5,
    cause,
  })
}
