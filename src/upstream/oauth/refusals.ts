/**
 * Failures of authorization servers. Most are mistakes in a configuration, here or there, that no retry mends: they are
 * permanent, and name the setting. Nothing that the authorization server wrote is repeated but the code of its error.
 */
import { GatewayError } from '../../core/error.ts'

/** What a response says of a failure: its HTTP status, and the error code of RFC 6749 §5.2 if it has one. */
export interface Failure {
  readonly status: number
  readonly code?: string
}

/** Codes that a later attempt may not meet. */
const passing: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down'])

/** The setting of a server that a code is about. */
const settingOf = new Map<string, string>(
  Object.entries({
    invalid_client: 'correct oauth.client_id, and its secret or key, of this server',
    unauthorized_client:
      'permit this grant for the client at the authorization server, or set oauth.grant of this server',
    unsupported_grant_type: 'set an oauth.grant of this server that the authorization server supports',
    invalid_scope: 'set oauth.scopes of this server to scopes that the client may have',
    invalid_target: 'correct oauth.resource of this server, or set it to off',
    invalid_dpop_proof: 'check the clocks, and oauth.dpop of this server',
  }),
)

/** The failure of a request that an authorization server refused: `what` it did not do, and what mends it. */
export function refused(what: string, { status, code }: Failure, fix?: string): GatewayError {
  const isPassing = code === undefined ? status === 429 || status >= 500 : passing.has(code)
  const why = code ?? (status < 300 ? 'its response is not as it should be' : `HTTP ${status}`)
  const message = `The authorization server ${what} (${why}).`
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    ...(!isPassing &&
      permanent(
        message,
        fix ?? settingOf.get(code ?? '') ?? 'check oauth.issuer and the other oauth settings of this server',
      )),
    // A refusal, which is no evidence for other callers.
    ...(code !== undefined && { details: { http_status: 401, oauth_error: code } }),
  })
}

/** The failure of a response that cannot be used. */
export function unusableAnswer(why: string, cause?: unknown): GatewayError {
  const message = `The authorization server issued no token (${why}).`
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    cause,
    ...permanent(message, 'check oauth.issuer and the other oauth settings of this server'),
  })
}

/** A failure that lasts until the operator of the gateway does what `fix` says. */
export function permanent(message: string, fix: string) {
  return {
    category: 'permanent',
    suggestion: `Ask the operator of the gateway to ${fix}.`,
    forOperator: `${message} To mend it, ${fix}.`,
  } as const
}
