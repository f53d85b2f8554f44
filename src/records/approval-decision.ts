import type { ApprovalStep } from '../core/approval-step.ts'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import { conflict, notOffered } from './approval-refusals.ts'
import type { Approval, Decision } from './approvals.ts'

/** Whether a person may decide. A token that calls never approves itself. */
export function mayDecide(
  { kind, caller, isEverybody, approvers }: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  { by, via }: Pick<Decision, 'by' | 'via'>,
): boolean {
  const isOperator = via === 'code' || via === 'command_line'
  if (kind === 'out_of_band') {
    return by !== caller && (approvers.length === 0 || approvers.includes(by))
  }
  if (via === 'token') return false
  return isOperator || isEverybody === true || by === caller || approvers.includes(by)
}

/** How callers are named who are people of the issuer. */
const PERSON_PREFIX = 'user:'

/**
 * Who can decide on an approval's page: a person in a browser, else a program that sends a bearer token; undefined where neither can.
 * A link is for the first alone.
 */
export function whoDecidesOnPage(
  approval: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  auth: Pick<AuthSettings, 'jwt' | 'introspect' | 'tokens' | 'users'>,
): 'person' | 'program' | undefined {
  const { kind, caller, approvers } = approval
  const { users, jwt } = auth
  // The code of the terminal is asked for.
  if (!isProtected(auth) && users.length === 0) return 'person'
  const isUser = ({ approvesAs }: AuthSettings['users'][number]): boolean =>
    approvesAs !== undefined && mayDecide(approval, { by: approvesAs, via: 'password' })
  if (users.some(isUser)) return 'person'
  const names = kind === 'page' ? [caller] : approvers
  const isAnybody = kind === 'out_of_band' && approvers.length === 0
  if (jwt?.client && (isAnybody || names.some((name) => name.startsWith(PERSON_PREFIX)))) return 'person'
  return kind === 'out_of_band' && isProtected(auth) ? 'program' : undefined
}

/** Whether a person would approve without having typed what has to be typed for it. */
export function isMistyped(
  { typed }: Pick<Approval, 'typed'>,
  { verdict, said }: { readonly verdict: Decision['verdict']; readonly said: string | undefined },
): boolean {
  return verdict === 'approved' && typed !== undefined && said !== typed
}

/** What is recorded of a decision. */
export function stepOf(
  { id, caller, upstream, tool, arguments: given }: Approval,
  { by, via, verdict }: Pick<Decision, 'by' | 'via' | 'verdict'>,
): ApprovalStep {
  return { approval: id, by, via, verdict, caller, upstream, tool, given }
}

/** How long an approved call can be made after the last person approved, at least, in milliseconds. */
const TIME_TO_REPEAT = 300_000

/** What one decision more makes of an approval: one person who denies it is enough, though it approved before. */
export function decided(approval: Approval, decision: Decision): Partial<Approval> {
  const { status, decisions, needed, offer } = approval
  if (status !== 'pending') throw conflict(`It is ${status} already.`)
  if (decision.remember && !offer) throw notOffered()
  const all = [...decisions, decision]
  if (decision.verdict === 'denied') return { decisions: all, status: 'denied' }
  const people = new Set(decisions.map(personOf))
  if (people.has(personOf(decision))) throw conflict('You have approved it already; it takes another person.')
  if (all.length < needed) return { decisions: all }
  const expiresAt = Math.max(approval.expiresAt, decision.at + TIME_TO_REPEAT)
  return { decisions: all, status: 'approved', expiresAt }
}

/** Whoever is at the machine is one person, however that was shown. */
function personOf({ by, via }: Decision): string {
  return via === 'code' || via === 'command_line' ? 'the operator' : `id ${by}`
}
