/** The gate of one entry: the scopes it requires, and the configured rules for it. */
import type { Call, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import type { Services } from '../feature.ts'
import { fullyDecoded, fold, pathVariants, normalisePath, uriReadings } from './path-variants.ts'
import { type Rules, rulesFor } from './rules.ts'

/** The access control of one tool, prompt or resource. */
export interface Gate {
  readonly requirement: Requirement
  readonly rules: Rules | undefined
}

/** The decision about a call. */
export type AccessDecision =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'denied'; readonly isMalformed?: true }
  | { readonly kind: 'missing'; readonly required: readonly string[]; readonly missing: readonly string[] }

type Refusal = Exclude<AccessDecision, { kind: 'allowed' }>
type Scopes = ReadonlySet<string> | undefined

/** The gate of an entry of a server. */
export function gateOf(entry: Entry, settings: UpstreamSettings): Gate {
  return { requirement: requirementOf(entry, settings), rules: rulesFor(settings, entry.name, entry.kind) }
}

/** The gates of listed tools, created once each. */
export function createGates(): (entry: Descriptor, settings: UpstreamSettings) => Gate {
  const gates = new WeakMap<Descriptor, Gate>()
  return (entry, settings) => {
    const known = gates.get(entry)
    if (known) return known
    const gate = gateOf(entry, settings)
    gates.set(entry, gate)
    return gate
  }
}

/** Decides about a call with these arguments; a caller without a scope set is not limited by scopes. */
export function decide({ requirement, rules }: Gate, args: unknown, scopes: Scopes): AccessDecision {
  if (rules && !rules.permits(args)) return rules.isMalformed ? malformed : denied
  const missing = missingScopes(requirement, scopes)
  return missing.length === 0 ? allowed : { kind: 'missing', required: requiredScopes(requirement), missing }
}

/** Whether a caller cannot make any call of an entry, whatever the arguments. */
export function isInaccessible({ requirement, rules }: Gate, scopes: Scopes): boolean {
  return rules?.isClosed === true || missingScopes(requirement, scopes).length > 0
}

/** The error of a refused call. */
export function refusal(decision: Refusal, elevateUrl: string | undefined): GatewayError {
  if (decision.kind === 'denied' && decision.isMalformed) {
    return new GatewayError('PERMISSION_DENIED', 'This URI is not permitted because it is malformed.', {
      suggestion: 'Send the URI as it is listed, with percent-encoded UTF-8 (RFC 3986).',
      details: { reason: 'policy' },
    })
  }
  if (decision.kind === 'denied') {
    return new GatewayError('PERMISSION_DENIED', 'This call is not permitted here.', {
      suggestion: 'Continue without this call: no scope permits it.',
      details: { reason: 'policy' },
    })
  }
  const { required, missing } = decision
  return new GatewayError('SCOPE_INSUFFICIENT', missingScopesMessage(missing), {
    suggestion:
      elevateUrl === undefined
        ? `Ask the operator for ${missing.join(' ')}.`
        : `Ask for ${missing.join(' ')} at ${elevateUrl}`,
    details: {
      required_scopes: required,
      missing_scopes: missing,
      ...(elevateUrl !== undefined && { elevation_url: elevateUrl }),
    },
  })
}

/** The refusal of a caller who has the scopes, but sent a session token without them. */
export function limitedBySession(error: GatewayError): GatewayError {
  const { elevation_url: _url, ...details } = error.extra.details ?? {}
  const suggestion = 'Call without the session token, or negotiate a session with the scope.'
  return error.with({ isOfSession: true, suggestion, details })
}

/** Lists the scopes that a caller lacks. */
export function missingScopesMessage(missing: readonly string[]): string {
  return `Missing ${missing.length === 1 ? 'scope' : 'scopes'}: ${missing.join(' ')}`
}

const allowed: AccessDecision = { kind: 'allowed' }
const denied: AccessDecision = { kind: 'denied' }
const malformed: AccessDecision = { kind: 'denied', isMalformed: true }

/** An entry that may require scopes. */
type Entry = Pick<Descriptor, 'kind' | 'name'> & {
  readonly classification: Pick<Descriptor['classification'], 'op' | 'risk'>
}

/** The required scopes: one of each group. The first of a group is the narrowest. */
export type Requirement = readonly (readonly string[])[]

/** The scopes that a caller needs for an entry of a server. */
export function requirementOf(entry: Entry, settings: UpstreamSettings): Requirement {
  const explicit = entry.kind === 'tool' ? settingOf(settings.tools, entry.name, 'scopes') : undefined
  if (explicit) return explicit.value.map((scope) => [scope])
  const groups = new Map<string, readonly string[]>()
  for (const name of entry.kind === 'resource' ? pathVariants(entry.name) : [entry.name]) {
    const configured = scopesCovering(settings.scopes, name)
    const group = configured.length > 0 ? configured : [derivedScope(entry, settings.name)]
    groups.set(group.join(' '), group)
  }
  if (entry.kind !== 'resource' || Object.keys(settings.scopes).length === 0) return [...groups.values()]
  // The readings of a URI only matter for scopes that name it specifically.
  for (const reading of uriReadings(entry.name)) {
    const group = scopesCoveringFolded(settings.scopes, reading)
    if (group.length > 0) groups.set(group.join(' '), group)
  }
  return [...groups.values()]
}

/** One list of scopes that satisfies a requirement. */
export function requiredScopes(requirement: Requirement): string[] {
  return [...new Set(requirement.flatMap(([least]) => (least === undefined ? [] : [least])))]
}

/** The missing scopes: granting exactly these satisfies the requirement. */
export function missingScopes(
  requirement: Requirement,
  available: ReadonlySet<string> | undefined,
): string[] {
  if (!available) return []
  const unmet = requirement.filter((group) => !group.some((scope) => available.has(scope)))
  return unmet.length === 0 ? [] : requiredScopes(unmet)
}

function derivedScope({ classification: { op, risk } }: Entry, server: string): string {
  if (op === 'admin' || op === 'execute') return `${op}:${server}`
  if (op === 'delete' || risk === 'destructive') return `delete:${server}`
  return op === 'read' ? `read:${server}` : `write:${server}`
}

/** The scopes that cover a name, the one with the most specific glob first. */
function scopesCovering(scopes: UpstreamSettings['scopes'], name: string): string[] {
  const globs = Object.values(scopes).flat()
  const found = fitting(globs, name)
  const encoded = globs.filter((glob) => !found.includes(glob) && fits(fullyDecoded(glob), name))
  const owners = [...found, ...encoded].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.includes(glob)),
  )
  return [...new Set(owners)]
}

/** The same for a reading of a name, case-insensitively; none if only catch-all globs match. */
function scopesCoveringFolded(scopes: UpstreamSettings['scopes'], reading: string): string[] {
  const globs = Object.values(scopes).flat()
  const folded = (glob: string): string => fold(normalisePath(fullyDecoded(glob)))
  const found = new Set(fitting(globs.map(folded), fold(reading)))
  if ([...found].every((glob) => glob.startsWith('*'))) return []
  const owners = [...found].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.some((each) => folded(each) === glob)),
  )
  return [...new Set(owners)]
}

/** What guards need besides their target. */
export interface Context extends Pick<Services, 'servers'> {
  readonly gates: ReturnType<typeof createGates>
  /** Whether permissions are off. */
  readonly isOff: boolean
  /** Where people request more rights. */
  readonly elevateUrl: string | undefined
  /** Whether entries that a caller may not use are hidden from lists. */
  readonly hidesInaccessible: boolean
}

/** The access control for the calls of one target. */
export interface Guard {
  /** Whether callers without a scope set have to be checked too. */
  readonly isForAll: boolean
  /** The call as it may continue. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED, UNKNOWN_TOOL, INVALID_INPUT */
  admit?(call: Call): Call | Promise<Call>
  /** The result as the caller may see it. */
  filterResult?(call: Call, outcome: Outcome): Outcome
}
