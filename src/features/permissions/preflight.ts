/** Says whether a call would be allowed, without making it; and which scopes and tools a caller has (`permissions/list`). */
import type { Call, Handler } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import { untilAborted, within } from '../../core/time/waiting.ts'
import { IDEMPOTENCY_KEY, SESSION_TOKEN, TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import type { Services } from '../feature.ts'
import { type Context, isInaccessible, decide, missingScopesMessage } from './gate.ts'
import { knownScopes } from '../../core/principal.ts'
import { answered, objectSchema } from '../builtin-tool.ts'

type Deps = Pick<Services, 'servers'>

/** The tool that checks in advance whether a call would be permitted. */
export const checkTool = {
  name: 'check_permissions',
  title: 'Check permissions',
  description: 'Checks whether a tool may be called, and which scopes are missing, without calling it.',
  inputSchema: {
    type: 'object',
    properties: {
      tool: { type: 'string', description: 'The name of the tool.' },
      scopes_held: {
        type: 'array',
        items: { type: 'string' },
        description: 'The scopes to check with; the scopes of an access token take precedence.',
      },
      parameters: { type: 'object', description: 'The arguments the tool would be called with.' },
      arguments: { type: 'object', description: 'Alias of `parameters`.' },
    },
    required: ['tool'],
    additionalProperties: false,
  },
  outputSchema: objectSchema(['allowed'], {
    allowed: { type: 'boolean' },
    missing_scopes: { type: 'array', items: { type: 'string' } },
    missing: { type: 'array', items: { type: 'string' }, description: 'Alias of `missing_scopes`.' },
    elevation_url: { type: 'string' },
    reason: { type: 'string' },
  }),
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

/** Answers `permissions/check`: the decision about a hypothetical call. */
export function answerCheck(contextOf: (upstream: string) => Context, deps: Deps): Handler {
  return async (call) => {
    const { tool } = call.params.fields
    if (typeof tool !== 'string') throw invalid('tool', 'must be a string')
    refuseUnknown(call.params)
    const parameters = argumentsIn(call.params)
    const caller = { scopes: scopesToCheck(call), outside: call.principal.outside }
    const entry = await find(tool, call, deps)
    return { kind: 'result', result: Payload.of(answer(tool, entry, parameters, caller)) }
  }

  function answer(
    tool: string,
    entry: Descriptor | undefined,
    parameters: unknown,
    {
      scopes,
      outside,
    }: { readonly scopes: Scopes; readonly outside: Call['principal']['outside'] | undefined },
  ): Record<string, unknown> {
    if (entry?.isBuiltin) return { allowed: true }
    const settings = entry && deps.servers.settings(entry.upstream)
    if (!settings) return { allowed: false, reason: `Unknown tool: ${tool}` }
    const { gates, hidesInaccessible, elevateUrl, isOff } = contextOf(entry.upstream)
    if (isOff) return { allowed: true }
    const gate = gates(entry, settings)
    if (hidesInaccessible && isInaccessible(gate, scopes))
      return { allowed: false, reason: `Unknown tool: ${tool}` }
    const decision = decide(gate, parameters, scopes)
    if (decision.kind === 'allowed') return { allowed: true }
    if (decision.kind === 'denied') return { allowed: false, reason: 'This call is not permitted here.' }
    // Another token would not help if only the session lacks the scope.
    const isLimitedBySession = outside && decide(gate, parameters, outside.scopes).kind === 'allowed'
    const reason = missingScopesMessage(decision.missing)
    return {
      allowed: false,
      missing_scopes: decision.missing,
      missing: decision.missing,
      ...(!isLimitedBySession && elevateUrl !== undefined && { elevation_url: elevateUrl }),
      reason: isLimitedBySession ? `${reason} (excluded by the session only)` : reason,
    }
  }
}

type Scopes = ReadonlySet<string> | undefined

/**
 * The scopes to check with: those of the caller, else those that it says it holds; undefined if none limit it.
 * @throws INVALID_INPUT
 */
function scopesToCheck({ principal, params }: Call): Scopes {
  const claimed = readStrings(params.fields.scopes_held, 'scopes_held')
  return principal.scopes ?? (claimed && new Set(claimed))
}

/** The tool that a caller knows by this name. */
async function find(
  tool: string,
  call: Call,
  { servers: { tool: entry } }: Deps,
): Promise<Descriptor | undefined> {
  const { upstream } = call.target
  const target = { method: 'tools/call', name: tool, ...(upstream !== undefined && { upstream }) }
  try {
    const found = entry({ ...call, method: 'tools/call', params: Payload.of({ name: tool }), target })
    return found instanceof Promise ? await untilAborted(found, call.signal) : found
  } catch (error) {
    if (asGatewayError(error).code === 'UNKNOWN_TOOL') return undefined
    throw error
  }
}

/** The arguments to check, under either name. @throws INVALID_INPUT */
function argumentsIn({ fields }: Payload): unknown {
  const { parameters, arguments: alias } = fields
  for (const name of ['parameters', 'arguments'])
    if (fields[name] !== undefined && !isObject(fields[name])) throw invalid(name, 'must be an object')
  if (parameters === undefined || alias === undefined) return parameters ?? alias
  if (isSame(parameters, alias)) return parameters
  throw invalid('arguments', 'is an alias of parameters, and differs from it')
}

const knownMembers: ReadonlySet<string> = new Set(Object.keys(checkTool.inputSchema.properties))

/** Members that any request may have in its params. */
const commonMembers: ReadonlySet<string> = new Set([
  '_meta',
  'intent',
  SESSION_TOKEN,
  IDEMPOTENCY_KEY,
  TRANSACTION_ID,
])

/** Unknown members cannot have been checked. @throws INVALID_INPUT */
function refuseUnknown({ fields }: Payload): void {
  const unknown = Object.keys(fields).find((key) => !knownMembers.has(key) && !commonMembers.has(key))
  if (unknown === undefined) return
  const names = [...knownMembers].join(', ')
  throw invalid(escapeHidden(unknown).slice(0, 100), `is unknown; known are ${names}`)
}

function invalid(field: string, problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${problem}.`, { field })
}

/** The maximum number and length of scopes in one request. */
const MAX_ITEMS = 200
const MAX_LENGTH = 256

/** A list of scopes from a request, or undefined if absent. @throws INVALID_INPUT */
export function readStrings(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined
  const isList = Array.isArray(value) && value.length <= MAX_ITEMS
  if (isList && value.every((each) => typeof each === 'string' && each.length <= MAX_LENGTH)) return value
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${name} must be a list of scopes.`, {
    field: name,
    reason: 'type',
  })
}

/** How long servers may take to list their tools, in milliseconds. */
const LISTING_TIMEOUT_MS = 10_000

/** The handler: of the server at the address of a call, or of all. */
export function answerHeld(contextOf: (upstream: string) => Context, { servers }: Deps): Handler {
  return async (call) => {
    const { upstream } = call.target
    const names = upstream === undefined ? servers.names() : [upstream]
    const scopes = scopesToCheck(call)
    const lists = await Promise.all(names.map(async (name) => permittedTools(name, scopes)))
    const tools = lists.flatMap((list, index) => {
      return (list ?? []).map((tool) => servers.exposedName(names[index] ?? '', tool, upstream === undefined))
    })
    const unavailable = names.filter((_name, index) => !lists[index])
    return answered({
      scopes_held: [...(scopes ?? allScopes(names))].toSorted(),
      is_limited: scopes !== undefined,
      tools,
      ...(unavailable.length > 0 && { unavailable_servers: unavailable }),
      ...(!scopes && {
        reason: 'Scopes do not limit this caller. Only what the configuration denies is not permitted.',
      }),
    })
  }

  /** The tools of a server for which some arguments are permitted; undefined if the server does not list them in time. */
  async function permittedTools(
    name: string,
    scopes: ReadonlySet<string> | undefined,
  ): Promise<readonly string[] | undefined> {
    const settings = servers.settings(name)
    const listing = servers.tools(name).catch(() => undefined)
    const listed = await within(listing, LISTING_TIMEOUT_MS, undefined)
    const { gates, isOff } = contextOf(name)
    return listed
      ?.filter((tool) => isOff || (settings && !isInaccessible(gates(tool, settings), scopes)))
      .map((tool) => tool.name)
  }

  function allScopes(names: readonly string[]): ReadonlySet<string> {
    return new Set(
      names.flatMap((name) => {
        const settings = servers.settings(name)
        return settings ? [...knownScopes(settings)] : []
      }),
    )
  }
}
