import { type Category, type ErrorCode, isCategory } from './error.ts'
import { isObject } from './json.ts'
import { compilePattern, type Pattern } from './pattern.ts'
import type { Payload } from './payload.ts'
import type { ErrorRule } from './settings.ts'

/** What a server's failure is known by. */
interface Symptoms {
  readonly text: string
  /** What else the server said, for rules alone. */
  readonly body?: string | undefined
  /** The HTTP status the server answered with. */
  readonly status?: number | undefined
  /** The code of its JSON-RPC error. */
  readonly rpc?: number | undefined
}

/** What a failure means. */
export interface Diagnosis {
  readonly code: ErrorCode
  readonly category?: Category | undefined
  readonly retryAfterSeconds?: number | undefined
  readonly suggestion?: string | undefined
  /** By what it was found out. */
  readonly by: 'rule' | 'http_status' | 'json_rpc' | 'text' | 'default'
}

/** A rule of the configuration, ready to be tried. */
export interface Rule {
  readonly pattern: Pattern
  readonly rule: ErrorRule
}

/** Makes the rules of a server ready; those that can not be used are handed to `onUnusable`. */
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

/** What a caller can do about failures of servers that say no more of it. */
export const suggestions: Partial<Readonly<Record<ErrorCode, string>>> = {
  UNKNOWN_TOOL: 'List the tools to see which there are.',
  INVALID_INPUT: 'Correct the arguments and call again.',
  RATE_LIMIT_EXCEEDED: 'Wait before calling again.',
  OPERATION_TIMEOUT: 'Check whether the call took effect before making it again.',
  AUTHENTICATION_REQUIRED: 'The server behind needs other credentials.',
  TOKEN_EXPIRED: 'The server behind needs new credentials.',
}

/** What a failure of a server means: the first way of finding out that leads anywhere decides. */
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
    ? content.find((each: unknown) => isObject(each) && typeof each.text === 'string' && each.text !== '')
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
  // The gateway's own credentials: nothing the caller could sign in for.
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
  return code && { code, by: 'http_status' }
}

const rpcs: Readonly<Record<number, ErrorCode>> = {
  [-32601]: 'UNSUPPORTED_OPERATION',
  [-32602]: 'INVALID_INPUT',
  [-32002]: 'RESOURCE_NOT_FOUND',
  [-32020]: 'HEADER_MISMATCH',
  [-32021]: 'CAPABILITY_REQUIRED',
  [-32022]: 'UNSUPPORTED_VERSION',
}

function byRpc({ rpc, text }: Symptoms): Diagnosis | undefined {
  if (rpc === undefined) return undefined
  if (rpc === -32602 && noTool.test(text)) return { code: 'UNKNOWN_TOOL', by: 'json_rpc' }
  return { code: rpcs[rpc] ?? 'UPSTREAM_ERROR', by: 'json_rpc' }
}

/** What servers say of a tool they do not have. */
const noTool = /\btool .{1,200} not found|\bunknown tool\b/i

const words: readonly (readonly [RegExp, ErrorCode])[] = [
  [/MCP error -32602: Tool .{1,200} not found/i, 'UNKNOWN_TOOL'],
  [/rate.?limit|too many requests/i, 'RATE_LIMIT_EXCEEDED'],
  [/timed? ?out|ETIMEDOUT/i, 'OPERATION_TIMEOUT'],
  [/ENOENT|not found|does not exist/i, 'RESOURCE_NOT_FOUND'],
  [/EACCES|permission|forbidden/i, 'PERMISSION_DENIED'],
  [/token (?:has |is )?expired|expired token/i, 'TOKEN_EXPIRED'],
  [/unauthori[sz]ed|invalid token|expired/i, 'AUTHENTICATION_REQUIRED'],
  [/invalid|required|must be|expected/i, 'INVALID_INPUT'],
]

/** How much of a text is looked at, in characters. */
const MAX_TEXT = 8192

function byText(text: string): Diagnosis | undefined {
  const start = text.slice(0, MAX_TEXT)
  const code = words.find(([pattern]) => pattern.test(start))?.[1]
  if (!code) return undefined
  return { code, by: 'text', ...(code === 'RATE_LIMIT_EXCEEDED' && { retryAfterSeconds: secondsIn(start) }) }
}

/** The number of seconds a text names: `retry in 30 seconds`, `Retry-After: 30`. */
function secondsIn(text: string): number | undefined {
  const named = /(\d{1,6}(?:\.\d{1,3})?) ?(?:seconds?\b|secs?\b|s\b)/i.exec(text)
  const header = /retry.?after[":= ]{1,4}(\d{1,6})/i.exec(text)
  const found = named?.[1] ?? header?.[1]
  return found === undefined ? undefined : Number(found)
}
