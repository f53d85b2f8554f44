/**
 * Grants sessions with fewer scopes: immediately, after an approval, or not at all. Their tokens are stored
 * as hashes, and refreshed.
 */
import { isoTime } from '../../core/time/waiting.ts'
import { objectSchema } from '../builtin-tool.ts'
import { hash, createHash, timingSafeEqual } from 'node:crypto'
import { world } from '../../core/world.ts'
import type { Call, Handler } from '../../core/call.ts'
import { clientName } from '../../core/text/words.ts'
import { type Extra, GatewayError } from '../../core/error.ts'
import { canonical, isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { knownScopes, type Principal } from '../../core/principal.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import { fitting } from '../../core/text/pattern.ts'
import { AT_TERMINAL } from '../../records/approval-codes.ts'
import { type Approval, type ApprovalRequest, Approvals } from '../../records/approvals.ts'
import type { SettingsOf, Services } from '../feature.ts'
import { readStrings } from './preflight.ts'
import type { PermissionSettings } from '../settings/authorize.ts'
import { background, type Log } from '../../core/log.ts'
import type { Store } from '../../store/store.ts'
import { parseJson } from '../../core/json/read.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'pages' | 'gateway'>

/** The tool that opens a session with fewer scopes. */
export const negotiateTool = {
  name: 'negotiate_scopes',
  title: 'Negotiate scopes',
  description:
    'Opens a session with only some of the scopes of the caller. Its token restricts later requests to them.',
  inputSchema: objectSchema([], {
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
  }),
  outputSchema: objectSchema(['granted_scopes', 'session'], {
    granted_scopes: { type: 'array', items: { type: 'string' } },
    denied_scopes: {
      type: 'array',
      items: objectSchema([], { scope: { type: 'string' }, reason: { type: 'string' } }),
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
    session: objectSchema(['token', 'scopes', 'expires_at'], {
      token: { type: 'string' },
      scopes: { type: 'array', items: { type: 'string' } },
      expires_at: { type: 'string' },
      refresh_token: { type: 'string' },
      inactivity_timeout_seconds: { type: 'integer' },
    }),
  }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
} as const

/** Answers `permissions/negotiate`: opens a session with those of the requested scopes that its caller may have. */
export function answerNegotiate(
  settings: SettingsOf<PermissionSettings | false>,
  sessions: Sessions,
  deps: Deps,
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
    const maxDuration = Math.min(...limits.map(parseTemporary), deps.gateway.settings.auth.session.maxTtl)
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
    const opened = await sessions.open(call.principal, sessionScopes, ttl, maxDuration)
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
    expires_at: isoTime(expiresAt),
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

function draftOf(scopes: readonly string[], { principal, params, client: caller }: Call): ApprovalRequest {
  const client = clientName(caller)
  const { id, isEverybody } = principal
  const { justification } = params.fields
  const stated = typeof justification === 'string' ? { justification: justification.slice(0, 500) } : {}
  const names = escapeHidden(scopes.join(', '))
    .replaceAll('\n', String.raw`\n`)
    .slice(0, 500)
  return {
    kind: 'page',
    caller: id,
    ...(client !== undefined && { client }),
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
  const { url, isForPeople, isAtTerminal } = deps.pages.decisionChannels(approval)
  if (url !== undefined && isForPeople) return [`at ${url}`]
  return isAtTerminal ? [AT_TERMINAL] : []
}

/** The scopes and lifetime of a session token. */
interface Session {
  readonly scopes: readonly string[]
  /** In milliseconds since 1970. */
  readonly expiresAt: number
}

/** A session and its tokens. */
interface Granted extends Session {
  readonly token: string
  readonly refreshToken: string
}

interface Options {
  readonly store: Store
  readonly log: Log
  /** How long an unused session is kept, in milliseconds. */
  readonly idle: number
  /** The longest duration of a session, including refreshes, in milliseconds. */
  readonly maxTtl: number
}

/** A session as it is stored: its principal, and the hashes of its tokens. */
interface StoredSession extends Session {
  readonly principal: string
  readonly token: string
  readonly refresh: string
  readonly ttl: number
  /** When it ends for good, in milliseconds since 1970. */
  readonly endsAt: number
}

/** Sessions that restrict what a caller may do. Tokens are stored as hashes only. */
export class Sessions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  get idle(): number {
    return this.#options.idle
  }

  /** Opens a session. Its lifetime is `ttl` without a refresh, and `maxDuration` with refreshes, in milliseconds. */
  open(principal: Principal, scopes: readonly string[], ttl: number, maxDuration: number): Promise<Granted> {
    const id = world.randomBytes(16).toString('base64url')
    const duration = Math.min(maxDuration, this.#options.maxTtl)
    const lifetime = { ttl: Math.min(ttl, duration), endsAt: world.now() + duration }
    return this.#grant(id, { principal: principal.id, scopes, ...lifetime })
  }

  /** The session of a token. @throws TOKEN_EXPIRED if it has expired, was idle too long, is unknown, or belongs to another caller */
  async find(token: string, principal: Principal): Promise<Session> {
    const { store, log, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [stored, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    const now = world.now()
    const isValid = stored !== undefined && isSame(stored.token, secret) && stored.principal === principal.id
    if (!isValid || hasExpired(stored, usedAt, idle)) {
      throw new GatewayError('TOKEN_EXPIRED', 'The session token is no longer valid.', {
        suggestion: 'Negotiate scopes again, or continue without a session token.',
      })
    }
    // Recording each use would be one write for each call.
    if (now - Number(usedAt) > idle / MAX_RECORDED_USES)
      background(store.put(usedKey(id), String(now), idle), log)
    return stored
  }

  /**
   * Continues a session with new tokens, up to its original end. A refresh token is valid once: if it is used a second
   * time, it may have been stolen, and the session ends. @throws TOKEN_EXPIRED also if the session has expired or was idle
   * too long
   */
  async refresh(token: string, principal: Principal): Promise<Granted> {
    const { store, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [stored, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    if (stored?.principal === principal.id) {
      const isValid = isSame(stored.refresh, secret) && !hasExpired(stored, usedAt, idle)
      if (isValid && (await store.delete(refreshKey(id, stored.refresh)))) return this.#grant(id, stored)
      await store.delete(sessionKey(id))
    }
    throw new GatewayError('TOKEN_EXPIRED', 'The refresh token is no longer valid.', {
      suggestion: 'Negotiate scopes again.',
    })
  }

  async #grant(
    id: string,
    { principal, scopes, ttl, endsAt }: Pick<StoredSession, 'principal' | 'scopes' | 'ttl' | 'endsAt'>,
  ): Promise<Granted> {
    const { store, idle } = this.#options
    const [secret, refresh] = [
      world.randomBytes(32).toString('base64url'),
      world.randomBytes(32).toString('base64url'),
    ]
    const now = world.now()
    const expiresAt = Math.min(now + ttl, endsAt)
    const token = hashOf(secret)
    const stored: StoredSession = {
      principal,
      scopes,
      ttl,
      endsAt,
      expiresAt,
      token,
      refresh: hashOf(refresh),
    }
    await Promise.all([
      store.put(sessionKey(id), JSON.stringify(stored), endsAt - now),
      store.put(usedKey(id), String(now), idle),
      store.put(refreshKey(id, stored.refresh), '', endsAt - now),
    ])
    return { scopes, expiresAt, token: `${id}.${secret}`, refreshToken: `${id}.${refresh}` }
  }

  async #read(id: string): Promise<StoredSession | undefined> {
    const text = await this.#options.store.get(sessionKey(id))
    if (text === undefined) return undefined
    const value: unknown = parseJson(text)
    // Written above. Sessions of earlier versions have no separate end.
    return isObject(value) ? ({ endsAt: value.expiresAt, ...value } as unknown as StoredSession) : undefined
  }
}

/** How many uses are recorded at most within one idle timeout. */
const MAX_RECORDED_USES = 20

/** Whether a session has expired or was idle too long. */
function hasExpired({ expiresAt }: StoredSession, usedAt: string | undefined, idle: number): boolean {
  const now = world.now()
  return expiresAt <= now || usedAt === undefined || Number(usedAt) + idle <= now
}

function sessionKey(id: string): string {
  return `session:${id}`
}

function usedKey(id: string): string {
  return `session:${id}:used`
}

function refreshKey(id: string, hashed: string): string {
  return `session:${id}:refresh:${hashed}`
}

function partsOf(token: string): [id: string, secret: string] {
  const [, id = '', secret = ''] = /^([\w-]{1,64})\.([\w-]{1,64})$/.exec(token) ?? []
  return [id, secret]
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function isSame(hashed: string, secret: string): boolean {
  return timingSafeEqual(Buffer.from(hashed), Buffer.from(hashOf(secret)))
}
