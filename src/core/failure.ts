/** Classifies failures of servers by configured rules, HTTP statuses, error codes and message texts. */
import { type Category, type ErrorCode, isCategory, GatewayError } from './error.ts'
import { isObject } from './json/json.ts'
import type { Payload } from './payload.ts'
import type { ErrorRule } from './settings.ts'
import { compilePattern, type Pattern } from './text/pattern.ts'

/** The observable properties of a server's failure. */
interface Symptoms {
  readonly text: string
  /** Further response text of the server, for rules only. */
  readonly body?: string | undefined
  /** The HTTP status of the server's response. */
  readonly status?: number | undefined
  /** The code of its JSON-RPC error. */
  readonly rpc?: number | undefined
  /** Whether reading a resource failed. */
  readonly isRead?: boolean
}

/** What a failure means. */
export interface Diagnosis {
  readonly code: ErrorCode
  readonly category?: Category | undefined
  readonly retryAfterSeconds?: number | undefined
  readonly suggestion?: string | undefined
  /** The evidence it is based on. */
  readonly by: 'rule' | 'http_status' | 'json_rpc' | 'text' | 'default'
}

/** A compiled rule of the configuration. */
export interface Rule {
  readonly pattern: Pattern
  readonly rule: ErrorRule
}

/** Compiles the rules of a server; unusable rules are passed to `onUnusable`. */
export function compileRules(
  rules: readonly ErrorRule[],
  onUnusable: (rule: ErrorRule) => void,
): readonly Rule[] {
  return rules.flatMap((rule) => {
    const pattern = usable(rule.match)
    if (!pattern) onUnusable(rule)
    return pattern ? [{ pattern, rule }] : []
  })
}

function usable(match: string): Pattern | undefined {
  try {
    return compilePattern(match, { ignoreCase: true })
  } catch {
    return undefined
  }
}

/** Suggestions for callers, where the server's failure contains none. */
export const suggestions: Partial<Readonly<Record<ErrorCode, string>>> = {
  UNKNOWN_TOOL: 'List the tools to see the available ones.',
  INVALID_INPUT: 'Correct the arguments and call again.',
  RATE_LIMIT_EXCEEDED: 'Wait before calling again.',
  RESOURCE_NOT_FOUND: 'Check the identifier, or list what there is.',
  SERVER_UNAVAILABLE: 'Wait, and check whether the call took effect before making it again.',
  OPERATION_TIMEOUT: 'Check whether the call took effect before making it again.',
  AUTHENTICATION_REQUIRED: 'The upstream server requires different credentials.',
  TOKEN_EXPIRED: 'The upstream server requires new credentials.',
}

/** Classifies a failure of a server: the first kind of evidence that matches decides. */
export function classify(symptoms: Symptoms, rules: readonly Rule[]): Diagnosis {
  return (
    byRule(symptoms, rules) ??
    byStatus(symptoms) ??
    byRpc(symptoms) ??
    byText(symptoms.text) ?? { code: 'UPSTREAM_ERROR', by: 'default' }
  )
}

/** The first words of a result, for a message. */
export function firstWords(result: Payload): string {
  const { content } = result.fields
  const block: unknown = Array.isArray(content)
    ? content.find((item: unknown) => isObject(item) && typeof item.text === 'string' && item.text !== '')
    : undefined
  return isObject(block) && typeof block.text === 'string' ? block.text : 'The tool failed.'
}

function byRule({ text, body = '' }: Symptoms, rules: readonly Rule[]): Diagnosis | undefined {
  const found = rules.find(({ pattern }) => pattern.test(text, false) || pattern.test(body, false))?.rule
  if (!found) return undefined
  const { code, category, retryAfter, suggestion } = found
  return {
    code,
    category: isCategory(category) ? category : undefined,
    suggestion,
    ...(retryAfter !== undefined && { retryAfterSeconds: retryAfter / 1000 }),
    by: 'rule',
  }
}

const statuses: Readonly<Record<number, ErrorCode>> = {
  // The gateway's own credentials were refused; the caller cannot fix that by signing in.
  401: 'SERVER_UNAVAILABLE',
  403: 'PERMISSION_DENIED',
  404: 'RESOURCE_NOT_FOUND',
  409: 'CONFLICT',
  413: 'PAYLOAD_TOO_LARGE',
  422: 'INVALID_INPUT',
  429: 'RATE_LIMIT_EXCEEDED',
}

function byStatus({ status }: Symptoms): Diagnosis | undefined {
  if (status === undefined) return undefined
  const code = status >= 500 ? 'SERVER_UNAVAILABLE' : statuses[status]
  // Refused credentials would be refused again.
  return code && { code, ...(status === 401 && { category: 'permanent' }), by: 'http_status' }
}

const rpcs: Readonly<Record<number, ErrorCode>> = {
  [-32601]: 'UNSUPPORTED_OPERATION',
  [-32602]: 'INVALID_INPUT',
  [-32002]: 'RESOURCE_NOT_FOUND',
  [-32020]: 'HEADER_MISMATCH',
  [-32021]: 'CAPABILITY_REQUIRED',
  [-32022]: 'UNSUPPORTED_VERSION',
}

function byRpc({ rpc, text, isRead }: Symptoms): Diagnosis | undefined {
  if (rpc === undefined) return undefined
  if (rpc === -32602 && noTool.test(text)) return { code: 'UNKNOWN_TOOL', by: 'json_rpc' }
  if (rpc === -32602 && isRead === true && noResource.test(text))
    return { code: 'RESOURCE_NOT_FOUND', by: 'json_rpc' }
  // What the SDKs return for any exception in a handler: 0 in Python, -32603 for reading a resource.
  if (rpc === 0 || (rpc === -32603 && isRead === true)) return byText(text)
  return { code: rpcs[rpc] ?? 'UPSTREAM_ERROR', by: 'json_rpc' }
}

/** How the SDKs report an unknown tool, and an unknown resource. */
const noTool = /\btool .{1,200} not found|\bunknown tool\b|^tool not found/i
const noResource = /not[ _]found|unknown resource|no such (?:resource|file)|does not exist/i

/** The prefix the SDKs add to the message of an error they send or rethrow: `MCP error -32602: `. */
const SDK_PREFIX = /^(?:MCP error -?\d{1,6}: ){1,5}/

/** The message of a server without the prefix of its SDK. */
export function withoutSdkPrefix(text: string): string {
  return text.replace(SDK_PREFIX, '')
}

/**
 * Classification of tool texts by the first matching pattern: first patterns that only programs produce, since human
 * texts and paths can follow them, then free text.
 */
const words: readonly (readonly [RegExp, ErrorCode])[] = [
  [
    /^(?:Error executing tool .{1,200}: )?(?:\d{1,6} validation errors? for |Input validation error)/,
    'INVALID_INPUT',
  ],
  [/^failed to deserialize parameters|^validating "/i, 'INVALID_INPUT'],
  [/\bENOENT\b|\[Errno 2\]/, 'RESOURCE_NOT_FOUND'],
  [/\b(?:EACCES|EPERM|EROFS)\b|\[Errno (?:1|13|30)\]/, 'PERMISSION_DENIED'],
  [/\b(?:EEXIST|ENOTEMPTY)\b|\[Errno (?:17|39)\]/, 'CONFLICT'],
  [/\b(?:EISDIR|ENOTDIR|EINVAL|ENAMETOOLONG)\b|\[Errno (?:20|21|22|36)\]/, 'INVALID_INPUT'],
  [/\baccess denied\b|outside (?:of )?(?:the )?allowed/i, 'PERMISSION_DENIED'],
  [/^(?:tool \S{1,200} not found$|unknown tool\b)/i, 'UNKNOWN_TOOL'],
  [/rate.?limit|too many requests/i, 'RATE_LIMIT_EXCEEDED'],
  [/timed? ?out|ETIMEDOUT/i, 'OPERATION_TIMEOUT'],
  [
    /\b(?:temporarily|currently) unavailable\b|\bservice unavailable\b|\bECONNREFUSED\b|\btry again later\b/i,
    'SERVER_UNAVAILABLE',
  ],
  [
    /\b(?:status(?: code)?[ :=]{1,3}|HTTP(?: error)?[ :]{1,2})50[0-4]\b|\berror:? 50[0-4](?=\s*(?:$|[-:(.,]))|\b(?:internal server error|bad gateway)\b/i,
    'SERVER_UNAVAILABLE',
  ],
  [/\bbad credentials\b|\bstatus(?: code)?[ :=]{1,3}401\b/i, 'AUTHENTICATION_REQUIRED'],
  [/\bstatus(?: code)?[ :=]{1,3}403\b/i, 'PERMISSION_DENIED'],
  [/already exists/i, 'CONFLICT'],
  [/could not find exact match|cannot specify|validation failed/i, 'INVALID_INPUT'],
  [
    /not[ _]found|does not exist|no such|unknown resource|\bstatus(?: code)?[ :=]{1,3}404\b/i,
    'RESOURCE_NOT_FOUND',
  ],
  [/permission|forbidden/i, 'PERMISSION_DENIED'],
  [/token (?:has |is )?expired|expired token/i, 'TOKEN_EXPIRED'],
  [/unauthori[sz]ed|invalid token|expired/i, 'AUTHENTICATION_REQUIRED'],
  [/invalid|required|must be|expected|unknown prompt/i, 'INVALID_INPUT'],
]

/** The maximum number of characters of a text that are examined. */
const MAX_TEXT = 8192

function byText(text: string): Diagnosis | undefined {
  const start = withoutSdkPrefix(text.slice(0, MAX_TEXT))
  const code = words.find(([pattern]) => pattern.test(start))?.[1]
  if (!code) return undefined
  return { code, by: 'text', ...(code === 'RATE_LIMIT_EXCEEDED' && { retryAfterSeconds: secondsIn(start) }) }
}

/** The number of seconds a text contains: `retry in 30 seconds`, `Retry-After: 30`. */
function secondsIn(text: string): number | undefined {
  const named = /(\d{1,6}(?:\.\d{1,3})?) ?(?:seconds?\b|secs?\b|s\b)/i.exec(text)
  const header = /retry.?after[":= ]{1,4}(\d{1,6})/i.exec(text)
  const found = named?.[1] ?? header?.[1]
  return found === undefined ? undefined : Number(found)
}

// The meaning of results and failures: answers, and refusals of the gateway.

/** Whether a result is the output of a tool or resource, and no failure. */
export function isAnswer(result: Payload): boolean {
  if (result.member('isError') === true) return false
  const type = result.member('resultType')
  return type === undefined || type === 'complete'
}

// Distinguishes failures of the gateway itself, before anything was sent to a server, from all others. A code that is
// neither an answer of a server nor a possibly lost request is a refusal; new codes count as refusals until they are
// listed here.

/** Codes of errors a server returned, or that occurred while its response was handled. */
const answered: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'PAYLOAD_TOO_LARGE'])

/** Codes of calls that may have reached their server. */
const uncertainCodes: ReadonlySet<string> = new Set([
  'OUTCOME_UNKNOWN',
  'OPERATION_TIMEOUT',
  'CANCELLED',
  'SLOW_CLIENT',
  'SERVER_UNAVAILABLE',
  'SERVER_ERROR',
  'OVERLOADED',
  'TOO_MANY_ROUNDS',
  'SESSION_NOT_FOUND',
])

/** Codes whose message may contain text of a server or of the system. */
const foreignCodes: ReadonlySet<string> = new Set(['UPSTREAM_ERROR', 'SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN'])

/** Whether the message of an error with this code may contain text of a server or of the system. */
export function hasForeignMessage(code: string): boolean {
  return foreignCodes.has(code)
}

/** Whether a code belongs to a call that its server answered. */
export function isAnsweredCode(code: string): boolean {
  return answered.has(code)
}

/** Whether the gateway itself refused a call, so that its server never received it. */
export function isGatewayRefusal(thrown: unknown): thrown is GatewayError {
  if (!(thrown instanceof GatewayError)) return false
  const { code, extra } = thrown
  if (extra.relayed || extra.details?.http_status !== undefined) return false
  return !answered.has(code) && !uncertainCodes.has(code)
}
