import type { Payload } from './payload.ts'

type Category = 'transient' | 'permanent' | 'auth_required' | 'invalid_input' | 'rate_limited'

interface Row {
  readonly category: Category
  /** The JSON-RPC error code. */
  readonly rpc: number
  /** The HTTP status of a refusal before the call was dispatched. */
  readonly http: number
}

/** Every error the gateway makes: what kind it is and how it looks on the wire. */
const table = {
  PARSE_ERROR: { category: 'invalid_input', rpc: -32700, http: 400 },
  INVALID_REQUEST: { category: 'invalid_input', rpc: -32600, http: 400 },
  UNSUPPORTED_OPERATION: { category: 'permanent', rpc: -32601, http: 404 },
  INVALID_INPUT: { category: 'invalid_input', rpc: -32602, http: 400 },
  UNKNOWN_TOOL: { category: 'invalid_input', rpc: -32602, http: 400 },
  RESOURCE_NOT_FOUND: { category: 'permanent', rpc: -32602, http: 404 },
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
  OUTCOME_UNKNOWN: { category: 'permanent', rpc: -32603, http: 502 },
  UPSTREAM_ERROR: { category: 'permanent', rpc: -32603, http: 502 },
  SERVER_ERROR: { category: 'transient', rpc: -32603, http: 500 },
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof table

/** Every code there is. */
export const errorCodes = Object.keys(table)

interface Extra {
  readonly cause?: unknown
  /** What the caller can do about it, one sentence. */
  readonly suggestion?: string
  /** Fields the protocol wants at the top of `error.data`. */
  readonly data?: Readonly<Record<string, unknown>>
  readonly details?: Readonly<Record<string, unknown>>
  readonly retryAfterSeconds?: number
  /** The JSON-RPC error object of the server behind, relayed as it came. */
  readonly relayed?: Payload
}

/** A failure the caller is told about, by a code of the one table. */
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
    return table[this.code].category
  }

  /** The JSON-RPC error code; that of the server behind where its error is relayed. */
  get rpc(): number {
    const relayed = this.extra.relayed?.fields.code
    return typeof relayed === 'number' ? relayed : table[this.code].rpc
  }

  get httpStatus(): number {
    return table[this.code].http
  }

  /** The structured error object that stands in `error.data`. */
  get data(): Record<string, unknown> {
    const { suggestion, data, details, retryAfterSeconds } = this.extra
    const mustWait = this.category === 'transient' || this.category === 'rate_limited'
    const wait = retryAfterSeconds ?? (mustWait ? 1 : undefined)
    return {
      ...data,
      code: this.code,
      message: this.message,
      category: this.category,
      user_actionable: this.category === 'auth_required' || this.category === 'invalid_input',
      ...(suggestion !== undefined && { suggestion }),
      ...(wait !== undefined && { retry_after_seconds: wait, retryAfter: wait }),
      ...(details !== undefined && { details }),
    }
  }
}

/** Whether nobody waits for an answer: the caller took the request back, not just its time ran out. */
export function isCancelled(signal: AbortSignal): boolean {
  if (!signal.aborted) return false
  return !(signal.reason instanceof GatewayError) || signal.reason.code === 'CANCELLED'
}

/** Any thrown thing as a `GatewayError`; what was not foreseen becomes `SERVER_ERROR` without its text. */
export function asGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown
  return new GatewayError('SERVER_ERROR', 'The gateway failed to handle this request.', { cause: thrown })
}
