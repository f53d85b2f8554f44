/** The tools of the owner's client about approvals. Whoever made a call does not decide on it here. */
import { GatewayError } from '../core/error.ts'
import { isoTime } from '../core/time/waiting.ts'
import { visibleText } from '../core/text/escape.ts'
import type { PageUser } from '../downstream/pages/page-users.ts'
import {
  type Approval,
  approvalView,
  approvedCount,
  changeTitle,
  isMistyped,
  isToRepeat,
  mayDecide,
  runText,
  sentText,
  undoNotes,
  valueText,
} from '../records/approvals.ts'
import { APPROVAL_APP_URI } from './approval-app.ts'
import {
  about,
  type Arguments,
  flag,
  isCaller,
  listOf,
  objectOf,
  type OperatorTool,
  reads,
  resultOf,
  settles,
  text,
  textIn,
} from './operator-tool.ts'
import type { Owner } from './owner.ts'

/** How much text of a call is shown, in characters. A longer one cannot be approved here, since it is not shown whole. */
const MAX_SHOWN_LENGTH = 100_000
/** How many approvals are listed. */
const MAX_LISTED = 200
const MAX_REASON_LENGTH = 1000

const count = { type: 'integer' }
const idOfApproval = about(text, 'The id of the approval.')

const factsOfApproval = {
  id: text,
  status: { enum: ['pending', 'approved', 'denied', 'used', 'void'] },
  message: about(text, 'The question to the person.'),
  server: text,
  tool: text,
  caller: about(text, 'Who made the call.'),
  risk: text,
  expires_at: text,
  may_decide: about(flag, 'Whether you may decide on it.'),
}
const approvalSchema = resultOf(factsOfApproval)

/** List, show, and decide. */
export function approvalTools(owner: Owner): readonly OperatorTool[] {
  return [
    {
      definition: {
        name: 'list_approvals',
        title: 'Calls that wait for approval',
        description:
          'Lists the calls that wait for the decision of a person, the oldest first. get_approval shows one with what it would change.',
        inputSchema: objectOf({ all: about(flag, 'Also those that are decided.') }),
        outputSchema: resultOf({ approvals: listOf(approvalSchema), left_out: count }, ['approvals']),
        annotations: reads,
      },
      roles: ['viewer', 'approver'],
      run: async ({ all }, user) => {
        const found = await (all === true ? owner.approvals().list() : owner.approvals().pending())
        const more = found.length - MAX_LISTED
        return {
          approvals: found.slice(0, MAX_LISTED).map((approval) => briefView(approval, user)),
          ...(more > 0 && { left_out: more }),
        }
      },
    },
    {
      definition: {
        name: 'get_approval',
        title: 'A call that waits for approval',
        description:
          'Shows a call that waits for approval: who makes it, its arguments, what it would change, and whether it could be undone.',
        inputSchema: objectOf({ id: idOfApproval }, ['id']),
        outputSchema: resultOf(
          {
            ...factsOfApproval,
            arguments_text: about(text, 'The arguments as people read them.'),
            sent_text: about(text, 'The text that the server receives, where it differs from them.'),
          },
          [...Object.keys(factsOfApproval), 'arguments_text'],
        ),
        annotations: reads,
        _meta: { ui: { resourceUri: APPROVAL_APP_URI }, 'ui/resourceUri': APPROVAL_APP_URI },
      },
      roles: ['viewer', 'approver'],
      run: async ({ id }, user) => wholeView(await findApproval(owner, String(id)), user),
    },
    {
      definition: {
        name: 'decide_approval',
        title: 'Approve or deny a call',
        description:
          'Approves or denies a call that waits for approval. Decide only as the person says. Nobody decides here on calls of the same principal.',
        inputSchema: objectOf(
          {
            id: idOfApproval,
            verdict: { enum: ['approved', 'denied'] },
            reason: about({ ...text, maxLength: MAX_REASON_LENGTH }, 'Why, for the caller if it is denied.'),
            typed: about(
              text,
              'The text that the person has to type to approve the call, where the approval has one.',
            ),
            remember: about(flag, 'Whether it also applies to later calls, where the approval offers that.'),
          },
          ['id', 'verdict'],
        ),
        outputSchema: approvalSchema,
        annotations: settles,
      },
      roles: ['approver'],
      run: async (given, user) => briefView(await decide(owner, given, user), user),
    },
  ]
}

/** @throws RESOURCE_NOT_FOUND */
async function findApproval(owner: Owner, id: string): Promise<Approval> {
  const approvals = owner.approvals()
  const found = await approvals.find(id)
  if (found) return found
  if (await approvals.isExpired(id))
    throw new GatewayError('RESOURCE_NOT_FOUND', 'The time to decide this call is over.', {
      reason: 'expired',
    })
  throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such approval.', {
    suggestion: 'List the approvals to see those that wait.',
  })
}

/** @throws PERMISSION_DENIED for calls of the same principal, INVALID_INPUT, and what `Approvals.decide` throws */
async function decide(owner: Owner, given: Arguments, user: PageUser): Promise<Approval> {
  const { verdict: stated, reason, typed, remember } = given
  const approval = await findApproval(owner, String(given['id']))
  const obstacle = whyNotDecidedBy(approval, user)
  if (obstacle !== undefined) throw new GatewayError('PERMISSION_DENIED', obstacle)
  const verdict = stated === 'approved' ? 'approved' : 'denied'
  if (verdict === 'approved' && isCut(approval))
    throw new GatewayError(
      'PERMISSION_DENIED',
      'The call is too long to be shown here, so it cannot be approved here.',
      {
        suggestion: 'Have a person approve it on its page, or deny it.',
      },
    )
  if (isMistyped(approval, { verdict, entered: textIn(typed) }))
    throw new GatewayError(
      'INVALID_INPUT',
      `To approve this call, the person has to type exactly: ${approval.typed}`,
      {
        field: 'typed',
      },
    )
  const why = textIn(reason)?.trim() ?? ''
  return owner.decide(approval.id, {
    by: user.by,
    via: user.via,
    verdict,
    ...(why !== '' && { reason: why }),
    ...(remember === true && verdict === 'approved' && { remember }),
  })
}

/** Why somebody may not decide on a call; undefined if that is possible. */
function whyNotDecidedBy(approval: Approval, user: PageUser): string | undefined {
  const { caller, status, approvers } = approval
  const { by, via, roles } = user
  if (isCaller(user, caller)) return 'You made this call yourself: somebody else has to decide on it.'
  if (!roles.includes('approver')) return 'You may not decide on calls.'
  if (status !== 'pending') return undefined
  if (mayDecide(approval, { by, via })) return undefined
  return `You may not decide on this call: ${approvers.length === 0 ? 'another person has to' : `only ${approvers.join(', ')} may`}.`
}

/** An approval without the content of its call. */
function briefView(approval: Approval, user: PageUser): object {
  const { id, status, message, upstream, tool, risk, caller, createdAt, expiresAt, needed, typed } = approval
  const why = whyNotDecidedBy(approval, user)
  return {
    id,
    status,
    message,
    server: upstream,
    tool,
    caller,
    risk,
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    needed,
    approved: approvedCount(approval),
    ...(typed !== undefined && { typed }),
    ...(isToRepeat(approval) && { must_repeat: true, runs: runText(approval) }),
    may_decide: status === 'pending' && why === undefined,
    ...(why !== undefined && { why_not: why }),
  }
}

function wholeView(approval: Approval, user: PageUser): object {
  const { arguments: given, change, ...rest } = approvalView(approval)
  const [shown, sent] = shownTexts(approval)
  const isLong = isCut(approval)
  return {
    ...rest,
    ...briefView(approval, user),
    ...(isLong ? { is_cut: true } : { arguments: given }),
    arguments_text: isLong ? shown.slice(0, MAX_SHOWN_LENGTH) : shown,
    ...(sent !== undefined && !isLong && { sent_text: sent }),
    ...(change !== undefined && { change }),
    ...(approval.change && {
      change_title: changeTitle(approval.change),
      change_notes: undoNotes(approval.change),
    }),
  }
}

/** The arguments, and the text that the server receives where that differs. */
function shownTexts(approval: Approval): readonly [string, ...string[]] {
  const sent = sentText(approval)
  return [visibleText(valueText(approval.arguments)), ...(sent === undefined ? [] : [visibleText(sent)])]
}

function isCut(approval: Approval): boolean {
  return shownTexts(approval).some(({ length }) => length > MAX_SHOWN_LENGTH)
}
