import type { GatewayError } from '../../core/error.ts'

interface Challenge {
  readonly realm: string
  /** Where the metadata of the endpoint is. */
  readonly metadata: string | undefined
  /** What the request is refused with. */
  readonly error: GatewayError
  /** The scopes a token needs. */
  readonly scopes: readonly string[]
}

/** The `WWW-Authenticate` of a refused request (RFC 6750 §3, RFC 9728 §5.1). */
export function challengeOf({ realm, metadata, error, scopes }: Challenge): string {
  const code = errorCode(error)
  const parameters = [
    ['realm', realm],
    ['error', code],
    ['error_description', code === undefined ? undefined : error.message],
    ['scope', scopes.length > 0 ? scopes.join(' ') : undefined],
    ['resource_metadata', metadata],
  ]
  const given = parameters.filter((each): each is [string, string] => each[1] !== undefined)
  return `Bearer ${given.map(([name, value]) => `${name}="${quoted(value)}"`).join(', ')}`
}

// A request without credentials learns how to get them, and no more.
function errorCode({ code, extra: { reason } }: GatewayError): string | undefined {
  if (code === 'SCOPE_INSUFFICIENT') return 'insufficient_scope'
  return reason === 'missing' || reason === 'scheme' ? undefined : 'invalid_token'
}

function quoted(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?').replaceAll(/["\\]/g, '\\$&')
}
