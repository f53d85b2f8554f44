/** Tells whether a call would be allowed, without making it. */
import type { Call, Handler } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import { IDEMPOTENCY_KEY, SESSION_TOKEN, TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import type { Services } from '../feature.ts'
import { type Context, isShut, judge, missingWords } from './gate.ts'

type Deps = Pick<Services, 'servers'>

/** The tool that tells beforehand whether a call would be permitted. */
export const checkTool = {
  name: 'check_permissions',
  title: 'Check permissions',
  description: 'Tells whether a tool may be called, and which scopes are missing, without calling it.',
  inputSchema: {
    type: 'object',
    properties: {
      tool: { type: 'string', description: 'The name of the tool.' },
      scopes_held: {
        type: 'array',
        items: { type: 'string' },
        description: 'The scopes to check with; those of the access token count where there is one.',
      },
      parameters: { type: 'object', description: 'The arguments the tool would be called with.' },
      arguments: { type: 'object', description: 'Another name of `parameters`.' },
    },
    required: ['tool'],
    additionalProperties: false,
  },
  outputSchema: {
    type: 'object',
    properties: {
      allowed: { type: 'boolean' },
      missing_scopes: { type: 'array', items: { type: 'string' } },
      missing: { type: 'array', items: { type: 'string' }, description: 'Another name of `missing_scopes`.' },
      elevation_url: { type: 'string' },
      reason: { type: 'string' },
    },
    required: ['allowed'],
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

/** Answers `permissions/check`: what would become of a call of a tool. */
export function answerCheck(contextOf: (upstream: string) => Context, deps: Deps): Handler {
  return async (call) => {
    const { tool } = call.params.fields
    if (typeof tool !== 'string') throw invalid('tool', 'must be a string')
    refuseUnknown(call.params)
    const parameters = argumentsIn(call.params)
    const claimed = readStrings(call.params.fields.scopes_held, 'scopes_held')
    const { principal } = call
    const caller = principal.scopes || !claimed ? principal : { scopes: new Set(claimed) }
    const entry = await find(tool, call, deps)
    return { kind: 'result', result: Payload.of(answer(tool, entry, parameters, caller)) }
  }

  function answer(
    tool: string,
    entry: Descriptor | undefined,
    parameters: unknown,
    { scopes, outside }: Pick<Principal, 'scopes' | 'outside'>,
  ): Record<string, unknown> {
    if (entry?.isBuiltin) return { allowed: true }
    const settings = entry && deps.servers.settings(entry.upstream)
    if (!settings) return { allowed: false, reason: `Unknown tool: ${tool}` }
    const { gates, isHiding, elevateUrl, isOff } = contextOf(entry.upstream)
    if (isOff) return { allowed: true }
    const gate = gates(entry, settings)
    if (isHiding && isShut(gate, scopes)) return { allowed: false, reason: `Unknown tool: ${tool}` }
    const verdict = judge(gate, parameters, scopes)
    if (verdict.kind === 'allowed') return { allowed: true }
    if (verdict.kind === 'denied') return { allowed: false, reason: 'This call is not permitted here.' }
    // No other token would help where only the session leaves the scope out.
    const isOfSession = outside && judge(gate, parameters, outside.scopes).kind === 'allowed'
    const reason = missingWords(verdict.missing)
    return {
      allowed: false,
      missing_scopes: verdict.missing,
      missing: verdict.missing,
      ...(!isOfSession && elevateUrl !== undefined && { elevation_url: elevateUrl }),
      reason: isOfSession ? `${reason} (left out by the session alone)` : reason,
    }
  }
}

/** The tool a caller knows by this name. */
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

/** The arguments to check with, by either of their names. @throws INVALID_INPUT */
function argumentsIn({ fields }: Payload): unknown {
  const { parameters, arguments: same } = fields
  for (const name of ['parameters', 'arguments'])
    if (fields[name] !== undefined && !isObject(fields[name])) throw invalid(name, 'must be an object')
  if (parameters === undefined || same === undefined) return parameters ?? same
  if (isSame(parameters, same)) return parameters
  throw invalid('arguments', 'is another name of parameters, and differs from it')
}

const understood: ReadonlySet<string> = new Set(Object.keys(checkTool.inputSchema.properties))

/** What any request may have beside its params. */
const beside: ReadonlySet<string> = new Set([
  '_meta',
  'intent',
  SESSION_TOKEN,
  IDEMPOTENCY_KEY,
  TRANSACTION_ID,
])

/** What is not understood cannot have been checked. @throws INVALID_INPUT */
function refuseUnknown({ fields }: Payload): void {
  const unknown = Object.keys(fields).find((key) => !understood.has(key) && !beside.has(key))
  if (unknown === undefined) return
  const names = [...understood].join(', ')
  throw invalid(escapeHidden(unknown).slice(0, 100), `is not known; there are ${names}`)
}

function invalid(field: string, why: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${why}.`, { field })
}

/** How many scopes one request may name, and how long each may be. */
const MAX_ITEMS = 200
const MAX_LENGTH = 256

/** A list of scopes from a request, or undefined where it is absent. @throws INVALID_INPUT */
export function readStrings(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined
  const isList = Array.isArray(value) && value.length <= MAX_ITEMS
  if (isList && value.every((each) => typeof each === 'string' && each.length <= MAX_LENGTH)) return value
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${name} must be a list of scopes.`, {
    field: name,
    reason: 'type',
  })
}
