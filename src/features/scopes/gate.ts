import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { missingScopes, requiredScopes, type Requirement, requirementOf, type Thing } from './requirement.ts'
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
