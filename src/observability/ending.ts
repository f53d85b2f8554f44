/** How a call ended, as reported in logs, metrics, traces and the audit log. */
import type { Call, Outcome } from '../core/call.ts'
import type { ErrorCode, GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { excerpt } from '../core/text/redact.ts'
import { DRY_RUN, DRY_RUN_KEY, ERROR_KEY } from '../protocol/meta-keys.ts'

/** How a call ended, in the terms shared by logs, metrics, spans and the audit log. */
export interface Ending {
  /** `ok`, `tool_error`, `ask`, `task`, `dry_run`, or the code of the error. */
  readonly outcome: string
  /** The code of the error, or of the refusal in the result of a tool. */
  readonly code?: string
  /** The JSON-RPC error code. */
  readonly rpc?: number
  readonly reason?: string
  readonly ms: number
}

const ok = 'ok'
const TOOL_ERROR = 'tool_error'

/** The outcome of a dry run that nothing refused. */
const DRY_RUN_OUTCOME = 'dry_run'

/** The ending of a call that may be a dry run: its report is not what the tool returned. */
export function endingOfCall({ logFields }: Call, outcome: Outcome, ms: number): Ending {
  if (logFields.get(DRY_RUN) === undefined) return endingOf(outcome, ms)
  const isReport = outcome.kind === 'result' && outcome.result.meta(DRY_RUN_KEY) !== undefined
  return isReport ? { outcome: DRY_RUN_OUTCOME, ms } : endingOf(outcome, ms)
}

/** The ending for an outcome. */
export function endingOf(outcome: Outcome, ms: number): Ending {
  if (outcome.kind === 'input_required') return { outcome: 'ask', ms }
  if (outcome.kind === 'task') return { outcome: 'task', ms }
  const { result } = outcome
  if (result.member('isError') !== true) return { outcome: ok, ms }
  const error = result.meta(ERROR_KEY)
  const code = isObject(error) ? error.code : undefined
  return { outcome: TOOL_ERROR, ms, ...(typeof code === 'string' && { code }) }
}

/** A server's message may be longer, in characters. */
const MAX_REASON_LENGTH = 2000

/** The ending for an error. What looks like a secret of a server stays out of logs and spans, whatever callers get. */
export function failureOf(error: GatewayError, ms: number): Ending {
  return {
    outcome: error.code,
    code: error.code,
    rpc: error.rpc,
    reason: excerpt(error.extra.forOperator ?? error.message, MAX_REASON_LENGTH),
    ms,
  }
}

const refusals = new Set<string>([
  'AUTHENTICATION_REQUIRED',
  'TOKEN_EXPIRED',
  'FORBIDDEN',
  'SCOPE_INSUFFICIENT',
  'PERMISSION_DENIED',
  'RATE_LIMIT_EXCEEDED',
  'QUOTA_EXHAUSTED',
  'CONFIRMATION_REQUIRED',
  'CONFIRMATION_DECLINED',
  'CONFIRMATION_TOKEN_INVALID',
  'WRITES_PAUSED',
] satisfies ErrorCode[])

/** Whether a code means that a rule denied the call. */
export function isRefusal(code: string | undefined): boolean {
  return code !== undefined && refusals.has(code)
}

/** Whether a code means that the caller is not authenticated or not permitted. */
export function isAuthFailure(code: string | undefined): boolean {
  return code === 'AUTHENTICATION_REQUIRED' || code === 'TOKEN_EXPIRED' || code === 'SCOPE_INSUFFICIENT'
}

/** Whether a code means that a rate or quota was exceeded. */
export function isRateLimit(code: string | undefined): boolean {
  return code === 'RATE_LIMIT_EXCEEDED' || code === 'QUOTA_EXHAUSTED'
}

/** A URI for logs: without user info, query and fragment, which may contain secrets. */
export function displayUri(uri: string): string {
  return uri.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@?#]*@/i, '$1').replace(/([?#]).*$/s, '$1…')
}

/** The target name of a call for logs. */
export function displayName(method: string, name: string | undefined): string | undefined {
  // The id of a task is all it takes to read it where callers are not authenticated.
  if (method.startsWith('tasks/')) return undefined
  return name !== undefined && method.startsWith('resources/') ? displayUri(name) : name
}
