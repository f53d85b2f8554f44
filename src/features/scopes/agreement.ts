import { hash } from 'node:crypto'
import type { Call } from '../../core/call.ts'
import { escapeHidden } from '../../core/hidden.ts'
import { canonical } from '../../core/json.ts'
import { type Approval, createApprovals, type ApprovalRequest } from '../../records/approvals.ts'
import type { Deps } from '../feature.ts'

/** How long a person has to agree, in milliseconds. */
const APPROVAL_TTL_MS = 3_600_000

/** Finds out whether a person agreed that a session gets scopes: nothing where one did, or why it does not yet. */
export function createAgreement(
  deps: Deps,
): (scopes: readonly string[], call: Call) => Promise<string | undefined> {
  const approvals = createApprovals(deps.store, Date.now)
  return async (scopes, call) => {
    const draft = draftOf(scopes.toSorted(), call)
    const found = await approvals.use(draft)
    if (found?.status === 'approved') return undefined
    if (found?.status === 'denied') return 'declined'
    const ways = waysTo(found ?? (await approvals.request(draft)).approval, deps)
    if (ways.length === 0) return 'needs approval'
    return `needs approval: ask again once it is approved ${ways.join(', or ')}`
  }
}

function draftOf(scopes: readonly string[], { principal, params }: Call): ApprovalRequest {
  const { id, isEverybody } = principal
  const { justification } = params.fields
  const why = typeof justification === 'string' ? { justification: justification.slice(0, 500) } : {}
  const names = escapeHidden(scopes.join(', '))
    .replaceAll('\n', String.raw`\n`)
    .slice(0, 500)
  return {
    kind: 'page',
    caller: id,
    ...(isEverybody && { isEverybody }),
    upstream: 'gatehouse',
    tool: 'negotiate_scopes',
    arguments: { requested_scopes: scopes, ...why },
    // Why somebody wants it is not what was agreed to.
    digest: hash('sha256', canonical([id, 'permissions/negotiate', scopes])),
    risk: 'destructive',
    message: `Open a session with ${names}?`,
    needed: 1,
    approvers: [],
    ttl: APPROVAL_TTL_MS,
  }
}

function waysTo(approval: Approval, deps: Deps): string[] {
  const { id } = approval
  const url = deps.decidesOnPage(approval) === 'person' ? deps.page(`/confirm/${id}`) : undefined
  const command = deps.isStoreShared ? [`with \`${deps.approvalCommand(id)}\``] : []
  return url === undefined ? command : [`at ${url}`, ...command]
}
