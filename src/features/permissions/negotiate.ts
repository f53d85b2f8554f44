/** Grants sessions with fewer scopes: immediately, after an approval, or not at all. */
import { hash } from 'node:crypto'
import { world } from '../../core/world.ts'
import type { Call, Handler } from '../../core/call.ts'
import { type Extra, GatewayError } from '../../core/error.ts'
import { canonical } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { knownScopes } from '../../core/principal.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import { fitting } from '../../core/text/pattern.ts'
import { type Approval, type ApprovalRequest, Approvals } from '../../records/approvals.ts'
import type { SettingsOf, Services } from '../feature.ts'
import { readStrings } from './preflight.ts'
import type { Granted, Sessions } from './sessions.ts'
import type { PermissionSettings } from './settings.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'pages' | 'gateway'>

/** The tool that opens a session with fewer scopes. */
export const negotiateTool = {
  name: 'negotiate_scopes',
  title: 'Negotiate scopes',
  description:
    'Opens a session with only some of the scopes of the caller. Its token restricts later requests to them.',
  inputSchema: {
    type: 'object',
    properties: {
      requested_scopes: {
        type: 'array',
        items: { type: 'string' },
        description: 'The requested scopes; `temp:30min` among them limits the duration.',
      },
      justification: { type: 'string', description: 'Why they are needed; shown to people.' },
      ttl_seconds: {
        type: 'integer',
        minimum: 1,
        description: 'The lifetime of the session unless it is refreshed.',
      },
      refresh_token: { type: 'string', description: 'Continues the session for which it was issued.' },
    },
  },
  outputSchema: {
    type: 'object',
    properties: {
      granted_scopes: { type: 'array', items: { type: 'string' } },
      denied_scopes: {
        type: 'array',
        items: {
          type: 'object',
          properties: { scope: { type: 'string' }, reason: { type: 'string' } },
        },
      },
      granted: {
        type: 'array',
        items: { type: 'string' },
        description: 'Alias of `granted_scopes`.',
      },
      denied: {
        type: 'array',
        items: { type: 'string' },
        description: 'Only the names of `denied_scopes`.',
      },
      session: {
        type: 'object',
        properties: {
          token: { type: 'string' },
          scopes: { type: 'array', items: { type: 'string' } },
          expires_at: { type: 'string' },
          refresh_token: { type: 'string' },
          inactivity_timeout_seconds: { type: 'integer' },
        },
        required: ['token', 'scopes', 'expires_at'],
      },
    },
    required: ['granted_scopes', 'session'],
  },
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
} as const

interface NegotiateContext {
  readonly deps: Deps
  readonly sessions: Sessions
}

/** Answers `permissions/negotiate`: opens a session with those of the requested scopes that its caller may have. */
export function answerNegotiate(
  settings: SettingsOf<PermissionSettings | false>,
  { deps, sessions }: NegotiateContext,
): Handler {
  const servers = deps.servers.names().map((name) => {
    const server = deps.servers.settings(name)
    return { name, scopes: new Set(server ? knownScopes(server) : []) }
  })
  const known = new Set(servers.flatMap(({ scopes }) => [...scopes]))
  const checkApproval = createApprovalCheck(deps)

  return async (call) => {
    const { requested_scopes: requestedScopes, refresh_token: refresh } = call.params.fields
    if (refresh !== undefined) {
      if (typeof refresh !== 'string')
        throw invalid('refresh_token must be a string', { field: 'refresh_token', reason: 'type' })
      const renewed = await sessions.refresh(refresh, call.principal)
      return negotiationResult(renewed.scopes, [], sessionView(renewed, sessions.idle))
    }
    const requested = readStrings(requestedScopes, 'requested_scopes')
    if (!requested)
      throw invalid('requested_scopes is missing', { field: 'requested_scopes', reason: 'required' })
    const isScope = (name: string): boolean =>
      !name.startsWith('temp:') || (!TEMPORARY_PATTERN.test(name) && isKnown(name, call))
    const [scopeNames, limits] = [requested.filter(isScope), requested.filter((name) => !isScope(name))]
    const maxDuration = Math.min(...limits.map(parseTemporary), deps.gateway.auth.session.maxTtl)
    const ttl = ttlOf(call)
    const evaluated = [...new Set(scopeNames)].map((scope) => ({ scope, reason: denialOf(scope, call) }))
    const needsApproval = evaluated.filter(({ reason }) => reason === ASK).map(({ scope }) => scope)
    const approvalResult = needsApproval.length > 0 ? await checkApproval(needsApproval, call) : undefined
    const decided = evaluated.map((each) =>
      each.reason === ASK ? { ...each, reason: approvalResult } : each,
    )
    const granted = decided.filter(({ reason }) => reason === undefined).map(({ scope }) => scope)
    const denied = decided.filter(({ reason }) => reason !== undefined)
    // If nothing is granted, the session has the caller's scopes that need no approval.
    const immediate = [...(call.principal.scopes ?? known)].filter(
      (scope) => denialOf(scope, call) === undefined,
    )
    const sessionScopes = granted.length > 0 ? granted : immediate
    const opened = await sessions.open(call.principal, sessionScopes, { ttl, maxDuration })
    logNegotiation(call, granted, denied)
    return negotiationResult(granted, denied, sessionView(opened, sessions.idle))
  }

  function isKnown(scope: string, { principal }: Call): boolean {
    return known.has(scope) || principal.scopes?.has(scope) === true
  }

  function denialOf(scope: string, call: Call): string | undefined {
    if (!isKnown(scope, call)) return 'unknown scope'
    const rules = rulesOf(scope, call)
    if (rules.includes('never')) return 'not granted by policy'
    if (call.principal.scopes?.has(scope) === false) return 'not held by the caller'
    return rules.includes('ask') ? ASK : undefined
  }

  /** The approval settings of a scope, at this endpoint and at the servers that use the scope. */
  function rulesOf(scope: string, { target }: Call): readonly unknown[] {
    const owners = servers.filter(({ scopes }) => scopes.has(scope)).map(({ name }) => name)
    return [target.upstream, ...owners].map((name) => {
      const { approval = {} } = settings(name) || {}
      const [rule] = fitting(Object.keys(approval), scope)
      return rule === undefined ? 'auto' : approval[rule]
    })
  }

  function logNegotiation(
    { principal, params }: Call,
    granted: readonly string[],
    denied: readonly object[],
  ): void {
    const { justification } = params.fields
    deps.log.info('permissions.negotiated', {
      principal: principal.id,
      granted,
      denied: denied.length,
      ...(typeof justification === 'string' && { justification: justification.slice(0, 500) }),
    })
  }
}

/** The reason of a scope that needs an approval first. */
const ASK = 'ask'

/** The requested lifetime of a session, in milliseconds. @throws INVALID_INPUT */
function ttlOf({ params }: Call): number {
  const { ttl_seconds: seconds } = params.fields
  if (seconds === undefined) return Number.POSITIVE_INFINITY
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds > 0) return seconds * 1000
  throw invalid('ttl_seconds must be a whole number above 0', { field: 'ttl_seconds', reason: 'type' })
}

const units: Readonly<Record<string, number>> = { s: 1000, min: 60_000, h: 3_600_000, d: 86_400_000 }

/** A pseudo-scope that limits the duration of the session. */
const TEMPORARY_PATTERN = /^temp:([1-9]\d{0,8})(s|min|h|d)$/

/** The milliseconds of a pseudo-scope such as `temp:30min`. @throws INVALID_INPUT */
function parseTemporary(name: string): number {
  const [, count = '', unit = ''] = TEMPORARY_PATTERN.exec(name) ?? []
  const factor = units[unit]
  if (factor !== undefined) return Number(count) * factor
  throw invalid('temp in requested_scopes must be a time above 0 in s, min, h or d, such as temp:30min', {
    field: 'requested_scopes',
    reason: 'format',
  })
}

function sessionView(
  { token, scopes, expiresAt, refreshToken }: Granted,
  idle: number,
): Record<string, unknown> {
  return {
    token,
    scopes,
    expires_at: new Date(expiresAt).toISOString(),
    refresh_token: refreshToken,
    inactivity_timeout_seconds: Math.floor(idle / 1000),
  }
}

function negotiationResult(
  granted: readonly string[],
  refused: readonly { readonly scope: string }[],
  session: Record<string, unknown>,
): { readonly kind: 'result'; readonly result: Payload } {
  return {
    kind: 'result',
    result: Payload.of({
      granted_scopes: granted,
      denied_scopes: refused,
      granted,
      denied: refused.map(({ scope }) => scope),
      session,
    }),
  }
}

function invalid(problem: string, extra?: Pick<Extra, 'field' | 'reason'>): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${problem}.`, extra)
}

/** How long a person has to approve, in milliseconds. */
const APPROVAL_TTL_MS = 3_600_000

/** Checks the approval of scopes for a session: undefined if approved, otherwise why they are not granted yet. */
function createApprovalCheck(
  deps: Deps,
): (scopes: readonly string[], call: Call) => Promise<string | undefined> {
  const approvals = new Approvals(deps.store, world.now)
  return async (scopes, call) => {
    const draft = draftOf(scopes.toSorted(), call)
    const found = await approvals.use(draft)
    if (found?.status === 'approved') return undefined
    if (found?.status === 'denied') return 'declined'
    const channels = channelsFor(found ?? (await approvals.request(draft)).approval, deps)
    if (channels.length === 0) return 'needs approval'
    return `needs approval: repeat the request once it is approved ${channels.join(', or ')}`
  }
}

function draftOf(scopes: readonly string[], { principal, params }: Call): ApprovalRequest {
  const { id, isEverybody } = principal
  const { justification } = params.fields
  const stated = typeof justification === 'string' ? { justification: justification.slice(0, 500) } : {}
  const names = escapeHidden(scopes.join(', '))
    .replaceAll('\n', String.raw`\n`)
    .slice(0, 500)
  return {
    kind: 'page',
    caller: id,
    ...(isEverybody && { isEverybody }),
    upstream: 'gatehouse',
    tool: 'negotiate_scopes',
    arguments: { requested_scopes: scopes, ...stated },
    // The stated reason is not part of the approval.
    digest: hash('sha256', canonical([id, 'permissions/negotiate', scopes])),
    risk: 'destructive',
    message: `Open a session with ${names}?`,
    needed: 1,
    approvers: [],
    ttl: APPROVAL_TTL_MS,
  }
}

function channelsFor(approval: Approval, deps: Deps): string[] {
  const { id } = approval
  const url = deps.pages.decidesOnPage(approval) === 'person' ? deps.pages.url(`/confirm/${id}`) : undefined
  const command = deps.gateway.isStoreShared ? [`in a terminal with \`${deps.pages.approvalsCommand}\``] : []
  return url === undefined ? command : [`at ${url}`, ...command]
}
