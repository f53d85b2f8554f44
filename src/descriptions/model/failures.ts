/** The errors that callers of a server may get. */
import { type ErrorCode, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asksForToken, type ServerDescription, type ToolDescription } from './description.ts'
import { oneLine } from './text.ts'

/** An error of a call, and its resolution. */
export interface Failure {
  readonly code: string
  readonly description: string
  readonly resolution?: string
}

/** An error as clients receive it. */
export interface WireFailure extends Failure {
  /** The JSON-RPC error code; absent if the error is a tool result. */
  readonly rpc?: number
  readonly category: string
}

/** The configured errors of a tool. */
export function ownErrors({ words }: Pick<ToolDescription, 'words'>): Failure[] {
  return (words.errors ?? []).map(({ code, description, resolution }) => ({
    code: oneLine(code),
    description: oneLine(description),
    ...(resolution !== undefined && { resolution: oneLine(resolution) }),
  }))
}

/** The errors of a tool: the configured ones, and those of the gateway. */
export function possibleErrors({
  facts,
  words,
  definition,
  classification,
  scopes,
}: ToolDescription): Failure[] {
  const own = ownErrors({ words })
  const ownCodes = new Set(own.map(({ code }) => code))
  const codes: ErrorCode[] = []
  if (hasArguments(definition.inputSchema)) codes.push('INVALID_INPUT')
  if (scopes.length > 0) codes.push('SCOPE_INSUFFICIENT')
  if (facts.confirmation) codes.push('CONFIRMATION_REQUIRED', 'CONFIRMATION_DECLINED')
  if (facts.isIdempotentWithKey === true) codes.push('IDEMPOTENCY_CONFLICT')
  if (facts.rates !== undefined && facts.rates.length > 0) codes.push('RATE_LIMIT_EXCEEDED')
  if (facts.timeout !== undefined) codes.push('OPERATION_TIMEOUT')
  const others = codes
    .filter((code) => !ownCodes.has(code))
    .map((code) => failure(code, classification.idempotent))
  return [...own, ...others]
}

/** All errors of calls, with the codes in use. */
export function wireFailures({ tools, front }: ServerDescription): WireFailure[] {
  const has = (found: (tool: ToolDescription) => boolean): boolean => tools.some(found)
  const isSigned = asksForToken(front)
  const isRated = front.rates.length > 0 || has(({ facts }) => (facts.rates?.length ?? 0) > 0)
  const used: readonly (readonly [ErrorCode, boolean])[] = [
    ['INVALID_INPUT', true],
    ['UNKNOWN_TOOL', tools.length > 0],
    ['AUTHENTICATION_REQUIRED', isSigned],
    ['SCOPE_INSUFFICIENT', has(({ scopes }) => scopes.length > 0)],
    ['PERMISSION_DENIED', isSigned],
    ['CONFIRMATION_REQUIRED', has(({ facts }) => facts.confirmation !== undefined)],
    ['CONFIRMATION_DECLINED', has(({ facts }) => facts.confirmation !== undefined)],
    ['RATE_LIMIT_EXCEEDED', isRated],
    ['OPERATION_TIMEOUT', true],
    ['OUTCOME_UNKNOWN', has(({ facts }) => facts.isIdempotentWithKey === true)],
    ['IDEMPOTENCY_CONFLICT', has(({ facts }) => facts.isIdempotentWithKey === true)],
    ['COMPENSATION_UNAVAILABLE', front.extensions.includes('transactions')],
    ['PAYLOAD_TOO_LARGE', true],
    ['SERVER_UNAVAILABLE', true],
    ['UPSTREAM_ERROR', true],
    ['SERVER_ERROR', true],
  ]
  return used.filter(([, isUsed]) => isUsed).map(([code]) => onWire(code))
}

function onWire(code: ErrorCode): WireFailure {
  const { category, rpc, isResult } = new GatewayError(code, '')
  return { ...failure(code), category, ...(!isResult && { rpc }) }
}

function failure(code: ErrorCode, isHarmless = false): Failure {
  const [description, resolution] =
    isHarmless && code === 'OPERATION_TIMEOUT' ? harmlessTimeout : (texts[code] ?? [code])
  return { code, description, ...(resolution !== undefined && { resolution }) }
}

const harmlessTimeout = ['The call took too long.', 'Call again, or ask for less.'] as const

const texts: Partial<Record<ErrorCode, readonly [description: string, resolution?: string]>> = {
  INVALID_INPUT: ['The arguments do not match the schema.', 'Correct the reported arguments and call again.'],
  UNKNOWN_TOOL: ['There is no tool with that name.', 'Use a name from tools/list.'],
  AUTHENTICATION_REQUIRED: ['The request has no valid token.', 'Sign in again.'],
  SCOPE_INSUFFICIENT: ['The caller lacks a scope.', 'Request the reported scopes.'],
  PERMISSION_DENIED: ['A rule denies this call.', 'Do not retry.'],
  CONFIRMATION_REQUIRED: [
    'Confirmation is required.',
    'Follow the instructions in the response; do not work around it.',
  ],
  CONFIRMATION_DECLINED: [
    'The call was denied, or there was no decision in time.',
    'Do not retry unless asked to.',
  ],
  RATE_LIMIT_EXCEEDED: ['Too many calls.', 'Wait for retry_after_seconds.'],
  OPERATION_TIMEOUT: [
    'The call took too long; it may still take effect.',
    'Check whether it did before calling again, or repeat it with the same idempotency key.',
  ],
  OUTCOME_UNKNOWN: [
    'An earlier call with this key may have taken effect.',
    'Check with a read-only tool, then use another key.',
  ],
  IDEMPOTENCY_CONFLICT: ['The key was used for another call.', 'Use another key.'],
  COMPENSATION_UNAVAILABLE: [
    'This step of a transaction could not be undone.',
    'Make the call outside of the transaction.',
  ],
  PAYLOAD_TOO_LARGE: ['The request is too large.', 'Send less, or in parts.'],
  SERVER_UNAVAILABLE: ['The server is unavailable.', 'Retry after retry_after_seconds.'],
  UPSTREAM_ERROR: ['The server returned an error of its own, described in its text.'],
  SERVER_ERROR: ['The gateway failed.', 'Retry later.'],
}

function hasArguments(schema: unknown): boolean {
  return isObject(schema) && isObject(schema.properties) && Object.keys(schema.properties).length > 0
}
