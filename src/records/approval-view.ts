import type { Approval } from './approvals.ts'

/** An approval as programs are told of it. */
export function approvalView(approval: Approval): Readonly<Record<string, unknown>> {
  const { id, status, kind, message, upstream, tool, risk, caller, digest } = approval
  const { sent, typed, offer, stop, needed, approvers, createdAt, expiresAt, decisions } = approval
  return {
    id,
    status,
    kind,
    message,
    server: upstream,
    tool,
    arguments: approval.arguments,
    ...(sent !== undefined && { arguments_text: sent }),
    digest,
    risk,
    caller,
    created_at: timeText(createdAt),
    expires_at: timeText(expiresAt),
    needed,
    ...(approvers.length > 0 && { approvers }),
    ...(typed !== undefined && { typed }),
    ...(offer && { may_remember: { calls: offer.max, seconds: offer.for / 1000 } }),
    ...(stop && { to_be_asked_no_more: stop }),
    decisions: decisions.map(({ at, ...decision }) => ({ ...decision, at: timeText(at) })),
  }
}

/** How many people have approved. */
export function approvedCount({ decisions }: Pick<Approval, 'decisions'>): number {
  return decisions.filter(({ verdict }) => verdict === 'approved').length
}

function timeText(at: number): string {
  return new Date(at).toISOString()
}
