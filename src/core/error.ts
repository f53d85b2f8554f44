/**
 * All failures: the table of codes with category, JSON-RPC code and HTTP status, and the error class that carries a
 * code. Codes are public API.
 */
import type { Payload } from './payload.ts'

const kinds = ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited'] as const

/** What a caller can do about an error: retry, nothing, sign in, change the input, or wait. */
export type Category = (typeof kinds)[number]

/** All categories. */
export const categories: readonly string[] = kinds

interface Row {
  readonly category: Category
  /** The JSON-RPC error code. */
  readonly rpc: number
  /** The HTTP status if the request is refused before the call is dispatched. */
  readonly http: number
  /** The caller of a tool gets it as a tool result, where a model can read it. */
  readonly isResult?: true
}

/** All error codes of the gateway, with their category and representation on the wire. */
const table = {
  PARSE_ERROR: { category: 'invalid_input', rpc: -32700, http: 400 },
  INVALID_REQUEST: { category: 'invalid_input', rpc: -32600, http: 400 },
  UNSUPPORTED_OPERATION: { category: 'permanent', rpc: -32601, http: 404 },
  INVALID_INPUT: { category: 'invalid_input', rpc: -32602, http: 400 },
  UNKNOWN_TOOL: { category: 'invalid_input', rpc: -32602, http: 400 },
  RESOURCE_NOT_FOUND: { category: 'permanent', rpc: -32602, http: 404, isResult: true },
  // 2026-07-28 basic/index: the three codes of the reserved range that a gateway may emit.
  HEADER_MISMATCH: { category: 'invalid_input', rpc: -32020, http: 400 },
  CAPABILITY_REQUIRED: { category: 'permanent', rpc: -32021, http: 400 },
  UNSUPPORTED_VERSION: { category: 'permanent', rpc: -32022, http: 400 },
  FORBIDDEN: { category: 'permanent', rpc: -32600, http: 403 },
  SESSION_NOT_FOUND: { category: 'permanent', rpc: -32600, http: 404 },
  SESSION_REQUIRED: { category: 'invalid_input', rpc: -32600, http: 400 },
  METHOD_NOT_ALLOWED: { category: 'permanent', rpc: -32600, http: 405 },
  NOT_ACCEPTABLE: { category: 'invalid_input', rpc: -32600, http: 406 },
  UNSUPPORTED_MEDIA_TYPE: { category: 'invalid_input', rpc: -32600, http: 415 },
  STATE_INVALID: { category: 'invalid_input', rpc: -32602, http: 400 },
  STATE_EXPIRED: { category: 'permanent', rpc: -32602, http: 400 },
  TOO_MANY_ROUNDS: { category: 'permanent', rpc: -32603, http: 500 },
  CANCELLED: { category: 'transient', rpc: -32603, http: 499 },
  SLOW_CLIENT: { category: 'transient', rpc: -32603, http: 503 },
  OVERLOADED: { category: 'transient', rpc: -32006, http: 503 },
  OPERATION_TIMEOUT: { category: 'transient', rpc: -32004, http: 504 },
  PAYLOAD_TOO_LARGE: { category: 'invalid_input', rpc: -32005, http: 413 },
  SERVER_UNAVAILABLE: { category: 'transient', rpc: -32006, http: 503 },
  OUTCOME_UNKNOWN: { category: 'permanent', rpc: -32603, http: 502, isResult: true },
  AUTHENTICATION_REQUIRED: { category: 'auth_required', rpc: -32600, http: 401 },
  TOKEN_EXPIRED: { category: 'auth_required', rpc: -32600, http: 401 },
  SCOPE_INSUFFICIENT: { category: 'auth_required', rpc: -32600, http: 403, isResult: true },
  PERMISSION_DENIED: { category: 'permanent', rpc: -32600, http: 403, isResult: true },
  RATE_LIMIT_EXCEEDED: { category: 'rate_limited', rpc: -32003, http: 429 },
  QUOTA_EXHAUSTED: { category: 'rate_limited', rpc: -32003, http: 429 },
  CONFLICT: { category: 'permanent', rpc: -32007, http: 409, isResult: true },
  TRANSACTION_CONFLICT: { category: 'permanent', rpc: -32007, http: 409, isResult: true },
  IDEMPOTENCY_CONFLICT: { category: 'permanent', rpc: -32007, http: 409, isResult: true },
  IDEMPOTENCY_IN_PROGRESS: { category: 'transient', rpc: -32007, http: 409, isResult: true },
  COMPENSATION_UNAVAILABLE: { category: 'permanent', rpc: -32603, http: 409, isResult: true },
  CONFIRMATION_REQUIRED: { category: 'permanent', rpc: -32603, http: 409, isResult: true },
  CONFIRMATION_DECLINED: { category: 'permanent', rpc: -32603, http: 409, isResult: true },
  CONFIRMATION_TOKEN_INVALID: {
    category: 'invalid_input',
    rpc: -32602,
    http: 400,
    isResult: true,
  },
  WRITES_PAUSED: { category: 'permanent', rpc: -32007, http: 409, isResult: true },
  UPSTREAM_ERROR: { category: 'permanent', rpc: -32603, http: 502, isResult: true },
  SERVER_ERROR: { category: 'transient', rpc: -32603, http: 500 },
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof table

/** All error codes. */
export const errorCodes = Object.keys(table).filter(isErrorCode)

/** Whether a value is an error code. */
export function isErrorCode(word: unknown): word is ErrorCode {
  return typeof word === 'string' && Object.hasOwn(table, word)
}

/** Whether a value is a category. */
export function isCategory(word: unknown): word is Category {
  return typeof word === 'string' && categories.includes(word)
}

/** Properties of an error besides its code and message. */
export interface Extra {
  readonly cause?: unknown
  /** The category, if it differs from the one of the code. */
  readonly category?: Category | undefined
  /** The affected argument or parameter, and a one-word reason. */
  readonly field?: string | undefined
  readonly reason?: string | undefined
  /** What the caller can do about it, in one sentence. */
  readonly suggestion?: string | undefined
  /** Fields that the protocol requires at the top level of `error.data`. */
  readonly data?: Readonly<Record<string, unknown>> | undefined
  readonly details?: Readonly<Record<string, unknown>> | undefined
  /** Members of `_meta` of the tool result that reports it. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterSeconds?: number | undefined
  /** Overrides the category's default: the caller can act on this error. */
  readonly isUserActionable?: true
  /** The caller of a tool gets it as a tool result, although this code is usually a protocol error. */
  readonly isResult?: true
  /** The JSON-RPC error code that a protocol extension defines for it, in place of the one of its code. */
  readonly rpc?: number
  /** The JSON-RPC error object of the upstream server, unmodified. */
  readonly relayed?: Payload
  /** The era of the server whose error is relayed. */
  readonly relayedFrom?: 'legacy' | 'modern' | undefined
  /** The caller has the missing scopes; only the current session excludes them. */
  readonly isOfSession?: true
  /** The response body of the upstream server, for configured error rules. It is not sent to callers. */
  readonly body?: string
  /** The message for the operator of the gateway, with the address and the fix. */
  readonly forOperator?: string
  /** The request was not sent to the server, so it cannot have had an effect. */
  readonly isUnsent?: true
  /** The HTTP status of a call refused before it was dispatched; others are answered with 200. */
  readonly status?: number
}

/** A failure of a call, with a code of the table. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: ErrorCode
  readonly extra: Extra

  constructor(code: ErrorCode, message: string, extra: Extra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause })
    this.code = code
    this.extra = extra
  }

  get category(): Category {
    return this.extra.category ?? table[this.code].category
  }

  /**
   * Whether a tool's caller gets it as a tool result: failures that a model can act on and that are no protocol errors.
   */
  get isResult(): boolean {
    if (this.extra.relayed) return false
    return this.extra.isResult ?? 'isResult' in table[this.code]
  }

  /** The JSON-RPC error code; the upstream server's code if its error is relayed. */
  get rpc(): number {
    const relayed = this.extra.relayed?.fields.code
    return typeof relayed === 'number' ? relayed : (this.extra.rpc ?? table[this.code].rpc)
  }

  get httpStatus(): number {
    return this.extra.status ?? table[this.code].http
  }

  /** A copy with additional properties. */
  with(extra: Extra): GatewayError {
    return new GatewayError(this.code, this.message, { ...this.extra, ...extra })
  }

  /** The structured error object for `error.data`. */
  get data(): Record<string, unknown> {
    const { suggestion, data, details, field, reason } = this.extra
    const wait = waitOf(this.category, this.extra.retryAfterSeconds)
    return {
      ...data,
      code: this.code,
      message: this.message,
      category: this.category,
      user_actionable: this.extra.isUserActionable ?? isUserActionable(this.category),
      ...(suggestion !== undefined && { suggestion }),
      ...(field !== undefined && { field }),
      ...(reason !== undefined && { reason }),
      ...(wait !== undefined && { retry_after_seconds: wait, retryAfter: wait }),
      ...(details !== undefined && { details }),
    }
  }
}

/** Whole seconds until a retry is worthwhile; always set for transient and rate limit errors. */
export function waitOf(category: Category, seconds?: number): number | undefined {
  const isKnown = seconds !== undefined && Number.isFinite(seconds)
  if (isKnown) return Math.min(Math.max(Math.ceil(seconds), 0), Number.MAX_SAFE_INTEGER)
  return category === 'transient' || category === 'rate_limited' ? 1 : undefined
}

/** Whether the caller can act on errors of a category. */
export function isUserActionable(category: Category): boolean {
  return category === 'auth_required' || category === 'invalid_input'
}

/** Whether the caller cancelled the request, as opposed to a timeout. */
export function isCancelled(signal: AbortSignal): boolean {
  if (!signal.aborted) return false
  return !(signal.reason instanceof GatewayError) || signal.reason.code === 'CANCELLED'
}

/** Any thrown value as a `GatewayError`; an unexpected one becomes `SERVER_ERROR` without its text. */
export function asGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown
  return new GatewayError('SERVER_ERROR', 'The gateway failed to handle this request.', { cause: thrown })
}

/** Whether a failure says that a server is away: it did not answer. One that refuses, also credentials, has answered. */
export function isUnanswered(thrown: unknown): boolean {
  const { code, extra } = asGatewayError(thrown)
  const isSilent = code === 'SERVER_UNAVAILABLE' || code === 'OPERATION_TIMEOUT' || code === 'OUTCOME_UNKNOWN'
  const status = extra.details?.http_status
  return isSilent && !extra.relayed && status !== 401 && status !== 403
}

/** The code of an error of the operating system, such as `ENOENT`; undefined if it has none. */
export function systemCodeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** The message of what was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

// Errors for unknown names. Hidden items fail with the same messages.

/** The error for an unknown tool; a hidden tool fails with the same message. */
export function unknownTool(name: string): GatewayError {
  return new GatewayError('UNKNOWN_TOOL', `Unknown tool${displayName(name)}`, {
    field: 'name',
    reason: 'unknown',
    suggestion: 'List the tools to see the available ones.',
  })
}

/** The same for a prompt, or for the reference of a completion. */
export function unknownPrompt(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Unknown prompt or reference${displayName(name)}`)
}

/** The same for a resource. */
export function unknownResource(uri: string): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found${displayName(uri)}`, { data: { uri } })
}

/** The error for a name or URI that several servers have, with the names that tell them apart. */
export function ambiguous(unknown: GatewayError, names: readonly string[]): GatewayError {
  const shown = names.filter((name) => /^[\w.+:/?#=&%~@-]{1,200}$/.test(name)).join(' or ')
  const message = `${unknown.message}: more than one server has it`
  return new GatewayError(unknown.code, message, {
    ...unknown.extra,
    reason: 'ambiguous',
    suggestion: shown === '' ? 'Use a name of the list.' : `Use ${shown}.`,
  })
}

/** The same for a task (2025-11-25 basic/utilities/tasks). */
export function unknownTask(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'Task not found', {
    field: 'taskId',
    reason: 'unknown',
    suggestion:
      'Only the caller that created a task can use it. Without authentication this is the session that created it.',
  })
}

/** A parameter that is not what it has to be; `problem` begins with a verb. */
export function invalidParam(field: string, problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${problem}.`, { field, reason: 'type' })
}

/** The advice for a call whose outcome is unknown. */
export const VERIFY_EFFECT = 'Check with a tool that reads whether it took effect before making it again.'

/** A name for use in a message; empty if it is long or contains unusual characters. */
function displayName(name: string): string {
  return /^[\w.+:/-]{1,64}$/.test(name) ? `: ${name}` : ''
}
