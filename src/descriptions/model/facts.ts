/**
 * Facts derived from a description: latency, outputs, costs, scopes and endpoints; the errors that callers may get; and how
 * clients connect, which documents say in place of how the gateway connects to a server.
 */
import { isConfidentialUrl } from '../../core/address.ts'
import type { Cost, RemainingQuota, ToolFacts } from '../../core/descriptor.ts'
import { type ErrorCode, GatewayError } from '../../core/error.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { declaresPages } from '../../core/judgement/pages.ts'
import { wordsOf } from '../../core/text/words.ts'
import { asksForToken, type Front, type ServerDescription, type ToolDescription } from './description.ts'
import { oneLine } from './text.ts'

const SECOND_MS = 1000
const MINUTE_MS = 60_000

/** The latency of a tool: configured, else measured; undefined if neither is known. */
export function latencyOf({
  words,
  statistics: seen,
}: Pick<ToolDescription, 'words' | 'statistics'>): 'instant' | 'seconds' | 'minutes' | undefined {
  if (words.latency) return words.latency
  if (seen?.p50 === undefined) return undefined
  if (seen.p50 < SECOND_MS) return 'instant'
  return seen.p50 < MINUTE_MS ? 'seconds' : 'minutes'
}

/** The output media types of a tool: configured, else from its schema and results. */
export function outputTypesOf({
  facts,
  words,
  statistics: seen,
  definition,
}: ToolDescription): readonly string[] {
  const structured = isObject(definition.outputSchema) ? ['application/json'] : []
  const observed = new Set([...structured, ...(seen?.types ?? []).toSorted()])
  return words.returns ?? facts.outputTypes ?? [...observed]
}

const paging: ReadonlySet<string> = new Set(
  'cursor page page_number page_token next_token next_cursor starting_after start_cursor offset limit per_page page_size'.split(
    ' ',
  ),
)

/** Whether results are paginated. */
export function paginates(tool: ToolDescription): boolean {
  return tool.statistics?.hasCursor === true || pagingArguments(tool).length > 0
}

/** Whether all pages can be collected with one call. */
export function isCollectable(tool: ToolDescription): boolean {
  const { facts, statistics, definition } = tool
  return facts.isCollectable === true && (statistics?.hasCursor === true || declaresPages(definition))
}

/** The pagination arguments. */
export function pagingArguments({ definition: { inputSchema } }: ToolDescription): string[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  return Object.keys(asObject(properties)).filter((name) => paging.has(wordsOf(name).join('_')))
}

/** The configured cost of a call. */
export function costOf({ facts, words }: ToolDescription): Cost | undefined {
  return facts.cost ?? words.cost
}

/** A cost as JSON. */
export function costData({ category, units, label }: Cost): Readonly<Record<string, unknown>> {
  return {
    category,
    ...(units !== undefined && { estimated_units: units }),
    ...(label !== undefined && { unit_label: label }),
  }
}

/** The remaining quota as JSON: amount, reset time and kind. */
export function quotaData({ remaining, resetsAt, of }: RemainingQuota): Readonly<Record<string, unknown>> {
  return { remaining, ...(resetsAt !== undefined && { resets_at: new Date(resetsAt).toISOString() }), of }
}

/** A scope and its description. */
export interface ScopeDescription {
  readonly name: string
  readonly description: string
  readonly tools: readonly ToolDescription[]
}

/** The required scopes of a tool: the most restricted one of each group. */
export function requiredScopes({ scopes }: ToolFacts): string[] {
  return [...new Set(scopes?.flatMap(([least]) => least ?? []))]
}

/** The scopes required by tools, ordered by name. */
export function scopesOf({ tools }: ServerDescription): ScopeDescription[] {
  const opened = new Map<string, ToolDescription[]>()
  for (const tool of tools) {
    for (const scope of requiredScopes(tool.facts)) opened.set(scope, [...(opened.get(scope) ?? []), tool])
  }
  return [...opened]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, own]) => ({
      name,
      description: described(name, own.length),
      tools: own,
    }))
}

const verbs: readonly (readonly [string, string])[] = [
  ['read:', 'Read from'],
  ['write:', 'Change things in'],
  ['delete:', 'Delete or overwrite in'],
  ['admin:', 'Administer'],
]

/** The description of a scope, derived from its name. */
function described(name: string, tools: number): string {
  const [prefix, verb] = verbs.find(([start]) => name.startsWith(start)) ?? []
  if (prefix !== undefined && verb !== undefined) return `${verb} ${name.slice(prefix.length)}.`
  return `Opens ${tools === 1 ? 'one tool' : `${tools} tools`}.`
}

type Reached = Pick<ServerDescription, 'name' | 'front' | 'parts'>

/**
 * The URLs of the MCP endpoints in a document, by their names in clients: one for all servers together, or one for
 * each. Empty if clients use stdio.
 */
export function endpointsOf({ name, front, parts }: Reached): Readonly<Record<string, string>> {
  if (front.endpoint !== undefined) return { [name]: front.endpoint }
  return Object.fromEntries(parts.flatMap((part) => Object.entries(endpointsOf(part))))
}

/** Whether servers have only separate endpoints. */
export function isApart({ front, parts }: Pick<ServerDescription, 'front' | 'parts'>): boolean {
  return front.endpoint === undefined && parts.some((part) => part.front.endpoint !== undefined)
}

/** The variable in which clients that start `gatehouse stdio` have the token. */
export const TOKEN_VARIABLE = 'GATEHOUSE_TOKEN'

/** The gateway behind a URL. */
interface Gateway {
  /** Its key, if it lasts. */
  readonly key?: string | undefined
  /** Whether callers are authenticated: `gatehouse stdio` needs a token even if there is an issuer. */
  readonly isProtected: boolean
}

/**
 * The words of `gatehouse stdio` for clients without URLs. The gateway that it starts has to know that the other one is a
 * gateway too: otherwise both ask before a call, in turn. A token is not among the words, which other programs can read.
 */
export function stdioWords(url: string, { key, isProtected }: Gateway): readonly string[] {
  const known = key ?? (isConfidentialUrl(url) ? 'auto' : undefined)
  const isGateway = known === undefined ? [] : ['--gateway-key', known]
  return ['stdio', ...isGateway, ...(isProtected ? ['--token-env', TOKEN_VARIABLE] : []), url]
}

/** What clients install: the URL, or the command that connects to it, and what the configuration has besides. */
export function installationOf(server: ServerDescription): Readonly<Record<string, string>> {
  const [url, ...others] = Object.values(endpointsOf(server))
  // Each of several servers has its own.
  if (others.length > 0) return server.install
  if (url === undefined) return { stdio: 'gatehouse stdio', ...server.install }
  const words = stdioWords(url, { isProtected: asksForToken(server.front) })
  return { url, stdio: ['gatehouse', ...words].join(' '), ...server.install }
}

const names = { oauth2_code: ['oauth2'], bearer_token: ['bearer-token'], none: [] } as const

/** How callers authenticate, in the words of dashdash. */
export function authNames({ auth }: Front): readonly string[] {
  return auth.methods.flatMap((method) => names[method])
}

/** An error of a call, and its resolution. */
interface Failure {
  readonly code: string
  readonly description: string
  readonly resolution?: string
}

/** An error as clients receive it. */
interface WireFailure extends Failure {
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
