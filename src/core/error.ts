/**
 * Every failure: one table of codes with category, JSON-RPC code and HTTP status, and the error that carries
 * one. Codes are public.
 */
import type { Payload } from './payload.ts'

const kinds = ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited'] as const

/** What a caller can do about an error: try again, nothing, sign in, change the input, or wait. */
export type Category = (typeof kinds)[number]

/** Every category there is. */
export const categories: readonly string[] = kinds

interface Row {
  readonly category: Category
  /** The JSON-RPC error code. */
  readonly rpc: number
  /** The HTTP status of a refusal before the call was dispatched. */
  readonly http: number
  /** A tool's caller gets it in the result, where a model reads it. */
  readonly isResult?: true
}

/** Every error the gateway makes: what kind it is and how it looks on the wire. */
const table = {
  PARSE_ERROR: { category: 'invalid_input', rpc: -32700, http: 400 },
  INVALID_REQUEST: { category: 'invalid_input', rpc: -32600, http: 400 },
  UNSUPPORTED_OPERATION: { category: 'permanent', rpc: -32601, http: 404 },
  INVALID_INPUT: { category: 'invalid_input', rpc: -32602, http: 400 },
  UNKNOWN_TOOL: { category: 'invalid_input', rpc: -32602, http: 400 },
  RESOURCE_NOT_FOUND: { category: 'permanent', rpc: -32602, http: 404, isResult: true },
  // 2026-07-28 basic/index: the three codes a gateway may emit of the reserved range.
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
  UPSTREAM_ERROR: { category: 'permanent', rpc: -32603, http: 502, isResult: true },
  SERVER_ERROR: { category: 'transient', rpc: -32603, http: 500 },
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof table

/** Every code there is. */
export const errorCodes = Object.keys(table)

/** Whether a word is a code of the table. */
export function isErrorCode(word: unknown): word is ErrorCode {
  return typeof word === 'string' && Object.hasOwn(table, word)
}

/** Whether a word is a category. */
export function isCategory(word: unknown): word is Category {
  return typeof word === 'string' && categories.includes(word)
}

/** What an error says besides its code and message. */
export interface Extra {
  readonly cause?: unknown
  /** What kind of error it is, where it is not the kind its code mostly is. */
  readonly category?: Category | undefined
  /** The argument or parameter it is about, and one word of what is wrong with it. */
  readonly field?: string | undefined
  readonly reason?: string | undefined
  /** What the caller can do about it, one sentence. */
  readonly suggestion?: string | undefined
  /** Fields the protocol wants at the top of `error.data`. */
  readonly data?: Readonly<Record<string, unknown>> | undefined
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterSeconds?: number | undefined
  /** The caller can do something about it, although errors of its kind mostly are for others. */
  readonly isUserActionable?: true
  /** A tool's caller gets it in the result, although this code is usually an error. */
  readonly isResult?: true
  /** The JSON-RPC error object of the server behind, relayed as it came. */
  readonly relayed?: Payload
  /** The caller has the scopes that are missing: only the session it names leaves them out. */
  readonly isOfSession?: true
  /** What the server behind answered, for rules of the configuration to be tried on. Callers are not told. */
  readonly body?: string
  /** The message for the operator of the gateway: with the address, and what to correct. */
  readonly forOperator?: string
  /** The request was not sent to the server, so it cannot have done anything. */
  readonly isUnsent?: true
  /** The HTTP status of a call that was refused before it was dispatched; others are answered with 200. */
  readonly status?: number
}

/** A failure for the caller, with a code of the one table. */
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

  /** Whether a tool's caller gets it in the result: what a model can act on, and no fault of the protocol. */
  get isResult(): boolean {
    if (this.extra.relayed) return false
    return this.extra.isResult ?? 'isResult' in table[this.code]
  }

  /** The JSON-RPC error code; that of the server behind where its error is relayed. */
  get rpc(): number {
    const relayed = this.extra.relayed?.fields.code
    return typeof relayed === 'number' ? relayed : table[this.code].rpc
  }

  get httpStatus(): number {
    return this.extra.status ?? table[this.code].http
  }

  /** The same error with more said of it. */
  with(extra: Extra): GatewayError {
    return new GatewayError(this.code, this.message, { ...this.extra, ...extra })
  }

  /** The structured error object that stands in `error.data`. */
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

/** Whole seconds until another try is worth it; errors that pass by themselves always have some. */
export function waitOf(category: Category, seconds?: number): number | undefined {
  const isKnown = seconds !== undefined && Number.isFinite(seconds)
  if (isKnown) return Math.min(Math.max(Math.ceil(seconds), 0), Number.MAX_SAFE_INTEGER)
  return category === 'transient' || category === 'rate_limited' ? 1 : undefined
}

/** Whether the caller itself can do something about errors of a category. */
export function isUserActionable(category: Category): boolean {
  return category === 'auth_required' || category === 'invalid_input'
}

/** Whether the caller cancelled the request, as opposed to a timeout. */
export function isCancelled(signal: AbortSignal): boolean {
  if (!signal.aborted) return false
  return !(signal.reason instanceof GatewayError) || signal.reason.code === 'CANCELLED'
}

/** Any thrown thing as a `GatewayError`; what was not foreseen becomes `SERVER_ERROR` without its text. */
export function asGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown
  return new GatewayError('SERVER_ERROR', 'The gateway failed to handle this request.', { cause: thrown })
}

// Failures of calls that name something unknown. Hidden things fail with the same words.

/** The failure of a call of an unknown tool; a hidden tool is refused with the same words. */
export function unknownTool(name: string): GatewayError {
  return new GatewayError('UNKNOWN_TOOL', `Unknown tool${displayName(name)}`, {
    field: 'name',
    reason: 'unknown',
    suggestion: 'List the tools to see which there are.',
  })
}

/** The same for a prompt, or for what is completed. */
export function unknownPrompt(name: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Unknown prompt or reference${displayName(name)}`)
}

/** The same for a resource. */
export function unknownResource(uri: string): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', `Resource not found${displayName(uri)}`, { data: { uri } })
}

/** The same for a task (2025-11-25 basic/utilities/tasks). */
export function unknownTask(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'Task not found', {
    field: 'taskId',
    reason: 'unknown',
    suggestion:
      'Only the caller that began a task can use it. Without authentication that is the session that began it.',
  })
}

/** A name as it may stand in a message: only where it is short and harmless. */
function displayName(name: string): string {
  return /^[\w.+:/-]{1,64}$/.test(name) ? `: ${name}` : ''
}
