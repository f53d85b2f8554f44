/** Approvals as JSON for programs. */
import type { Approval, ReferencedData } from './approvals.ts'

/** An approval as JSON for programs. */
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
    ...(approval.data && { references: approval.data.map(dataView) }),
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

function dataView({ isOutside, ...facts }: ReferencedData): Readonly<Record<string, unknown>> {
  return { ...facts, ...(isOutside && { is_outside: true }) }
}

function timeText(at: number): string {
  return new Date(at).toISOString()
}
