/** The gate of one thing: the scopes it requires and the owner's rules for it. */
import type { Call, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import type { Services } from '../feature.ts'
import { decoded, fold, pathVariants, tidy, uriReadings } from './path-variants.ts'
import { type Rules, rulesFor } from './rules.ts'

/** What stands between callers and one tool, prompt or resource. */
export interface Gate {
  readonly requirement: Requirement
  readonly rules: Rules | undefined
}

/** What becomes of a call, and why. */
export type Verdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'denied'; readonly isUnreadable?: true }
  | { readonly kind: 'missing'; readonly required: readonly string[]; readonly missing: readonly string[] }

type Refused = Exclude<Verdict, { kind: 'allowed' }>
type Scopes = ReadonlySet<string> | undefined

/** The gate of something of a server. */
export function gateOf(thing: Thing, settings: UpstreamSettings): Gate {
  return { requirement: requirementOf(thing, settings), rules: rulesFor(settings, thing.name, thing.kind) }
}

/** The gates of listed tools, each made once. */
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

/** Decides about a call with these arguments; without scopes nothing limits the caller. */
export function judge({ requirement, rules }: Gate, args: unknown, scopes: Scopes): Verdict {
  if (rules && !rules.permits(args)) return rules.isUnreadable ? unreadable : denied
  const missing = missingScopes(requirement, scopes)
  return missing.length === 0 ? allowed : { kind: 'missing', required: requiredScopes(requirement), missing }
}

/** Whether a caller can make no call of something, whatever the arguments. */
export function isShut({ requirement, rules }: Gate, scopes: Scopes): boolean {
  return rules?.isClosed === true || missingScopes(requirement, scopes).length > 0
}

/** Why a call is refused. */
export function refusal(verdict: Refused, elevateUrl: string | undefined): GatewayError {
  if (verdict.kind === 'denied' && verdict.isUnreadable) {
    return new GatewayError('PERMISSION_DENIED', 'This URI is not permitted here: it is not well formed.', {
      suggestion: 'Send the URI as lists have it, with percent signs that encode UTF-8 (RFC 3986).',
      details: { reason: 'policy' },
    })
  }
  if (verdict.kind === 'denied') {
    return new GatewayError('PERMISSION_DENIED', 'This call is not permitted here.', {
      suggestion: 'Do without it: no scope would permit it.',
      details: { reason: 'policy' },
    })
  }
  const { required, missing } = verdict
  return new GatewayError('SCOPE_INSUFFICIENT', missingWords(missing), {
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

/** The refusal of a caller who has the scopes, and named a session that leaves them out. */
export function ofSession(error: GatewayError): GatewayError {
  const { elevation_url: _url, ...details } = error.extra.details ?? {}
  const suggestion = 'Call without the session token, or negotiate a session that holds the scope.'
  return error.with({ isOfSession: true, suggestion, details })
}

/** Names the scopes a caller lacks. */
export function missingWords(missing: readonly string[]): string {
  return `Missing ${missing.length === 1 ? 'scope' : 'scopes'}: ${missing.join(' ')}`
}

const allowed: Verdict = { kind: 'allowed' }
const denied: Verdict = { kind: 'denied' }
const unreadable: Verdict = { kind: 'denied', isUnreadable: true }

/** Something a caller may need scopes for. */
type Thing = Pick<Descriptor, 'kind' | 'name'> & {
  readonly classification: Pick<Descriptor['classification'], 'op' | 'risk'>
}

/** The scopes something needs: of each group one. The first of a group is the one that opens least. */
export type Requirement = readonly (readonly string[])[]

/** The scopes a caller needs for something of a server. */
export function requirementOf(thing: Thing, settings: UpstreamSettings): Requirement {
  const explicit = thing.kind === 'tool' ? settingOf(settings.tools, thing.name, 'scopes') : undefined
  if (explicit) return explicit.value.map((scope) => [scope])
  const groups = new Map<string, readonly string[]>()
  for (const name of thing.kind === 'resource' ? pathVariants(thing.name) : [thing.name]) {
    const named = opening(settings.scopes, name)
    const group = named.length > 0 ? named : [derivedScope(thing, settings.name)]
    groups.set(group.join(' '), group)
  }
  if (thing.kind !== 'resource' || Object.keys(settings.scopes).length === 0) return [...groups.values()]
  // What it may be read as matters where scopes are about just that.
  for (const reading of uriReadings(thing.name)) {
    const group = openingFolded(settings.scopes, reading)
    if (group.length > 0) groups.set(group.join(' '), group)
  }
  return [...groups.values()]
}

/** The scopes that stand for a requirement where one list of them is wanted. */
export function requiredScopes(requirement: Requirement): string[] {
  return [...new Set(requirement.flatMap(([least]) => (least === undefined ? [] : [least])))]
}

/** What a caller lacks: granting exactly these meets the requirement. */
export function missingScopes(requirement: Requirement, held: ReadonlySet<string> | undefined): string[] {
  if (!held) return []
  const unmet = requirement.filter((group) => !group.some((scope) => held.has(scope)))
  return unmet.length === 0 ? [] : requiredScopes(unmet)
}

function derivedScope({ classification: { op, risk } }: Thing, server: string): string {
  if (op === 'admin' || op === 'execute') return `${op}:${server}`
  if (op === 'delete' || risk === 'destructive') return `delete:${server}`
  return op === 'read' ? `read:${server}` : `write:${server}`
}

/** The named scopes that open a name, that with the most specific glob first. */
function opening(scopes: UpstreamSettings['scopes'], name: string): string[] {
  const globs = Object.values(scopes).flat()
  const found = fitting(globs, name)
  const encoded = globs.filter((glob) => !found.includes(glob) && fits(decoded(glob), name))
  const owners = [...found, ...encoded].flatMap((glob) =>
    Object.keys(scopes).filter((scope) => scopes[scope]?.includes(glob)),
  )
  return [...new Set(owners)]
}

/** The same for a reading of a name, in whatever case; none where only globs for everything fit it. */
function openingFolded(scopes: UpstreamSettings['scopes'], reading: string): string[] {
  const globs = Object.values(scopes).flat()
  const folded = (glob: string): string => fold(tidy(decoded(glob)))
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
  /** Whether nothing is guarded here. */
  readonly isOff: boolean
  /** Where people ask for more rights. */
  readonly elevateUrl: string | undefined
  /** Whether what a caller may not use is left out of lists. */
  readonly isHiding: boolean
}

/** What is done about the calls of one target. */
export interface Guard {
  /** Whether also callers whom no scopes limit must be looked at. */
  readonly isForAll: boolean
  /** The call as it may go on. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED, UNKNOWN_TOOL, INVALID_INPUT */
  admit?(call: Call): Call | Promise<Call>
  /** What the caller gets to see of the result. */
  show?(call: Call, outcome: Outcome): Outcome
}
