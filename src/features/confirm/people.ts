import type { Call, Outcome } from '../../core/call.ts'
import { namesArgument } from '../../core/tool-arguments.ts'
import type { Approval, ApprovalRequest, Requested } from '../../records/approvals.ts'
import { confirmationRequired, noApprover } from './answer.ts'
import type { ConfirmContext, Confirmed, HostWord } from './around.ts'
import { declined, grantOf } from './grant.ts'
import { requestUrl, canAsk, readUrl } from './inline.ts'
import { TOKEN_ARGUMENT } from './reserved.ts'
import { confirmStateOf } from './slot.ts'
import { approvalRequestOf, type ConfirmationRequest } from './subject.ts'

/** Where an approval is decided. */
interface Place {
  readonly ways: readonly string[]
  readonly url: string | undefined
  /** Whether a person can decide there in a browser. */
  readonly isForPeople: boolean
}

/** What became of the person who makes the call being asked on a page of the gateway, or by the client's host. */
export async function approvedOnPage(
  subject: ConfirmationRequest,
  word: HostWord,
  around: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { settings, approvals } = around
  const { call } = subject
  if (settings.accept_bare_flag && word.isConfirmed && word.token === undefined) {
    const grant = {
      approval: call.requestId,
      by: [call.principal.id],
      via: ['user_confirmed'],
      at: Date.now(),
    }
    return { grant, isFresh: true }
  }
  if (settings.fallback === 'deny') throw noApprover(subject)
  const draft = approvalRequestOf(subject, alone, { kind: 'page', ttl: settings.ttl })
  const redeemed = word.token === undefined ? undefined : await approvals.consume(draft, word.token)
  if (redeemed) return confirmedByHost(redeemed, subject, word)
  const found = settled(await approvals.use(draft), call)
  if (found) return found
  return answer(draft, { subject, around, isTokenBad: word.token !== undefined })
}

/** The caller itself approves, whoever else may. */
const alone = { needed: 1, approvers: [] }

function confirmedByHost(
  { id }: Approval,
  { call }: ConfirmationRequest,
  { isConfirmed }: HostWord,
): Confirmed {
  const { id: by } = call.principal
  if (isConfirmed === false) throw declined(call, id, { reason: 'decline', by })
  return { grant: { approval: id, by: [by], via: ['confirmation_token'], at: Date.now() }, isFresh: true }
}

/** What became of others being asked: the call waits for them for a while. */
export async function approvedByOthers(
  given: Call,
  subject: ConfirmationRequest,
  around: ConfirmContext,
): Promise<Confirmed | Outcome> {
  const { rule, settings, approvals, waiting } = around
  const { call } = subject
  const draft = approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
  const slot = confirmStateOf(given)
  const said = slot?.kind === 'opened' ? readUrl(given) : 'accept'
  if (slot?.kind === 'opened' && said !== 'accept')
    throw declined(call, slot.approval, { reason: said, by: call.principal.id })
  const found = settled(await approvals.use(draft), call)
  if (found) return found
  const { approval } = await requested(draft, subject, around)
  const { url, isForPeople } = placeOf(approval, around)
  if (slot === undefined && url !== undefined && isForPeople && canAsk(call, 'url'))
    return requestUrl(subject, approval.id, url)
  const later = await waiting.wait(call, approval.id, settings.wait)
  const decided = settled(await approvals.use(draft), later)
  return decided ? { ...decided, call: later } : answer(draft, { subject, around, isTokenBad: false })
}

/** What people decided, if they did. @throws CONFIRMATION_DECLINED where they denied it */
function settled(approval: Approval | undefined, call: Call): Confirmed | undefined {
  if (approval?.status === 'approved') {
    const isChosen = approval.decisions.some(({ remember }) => remember)
    return { grant: grantOf(approval), isFresh: true, isChosen }
  }
  if (approval?.status !== 'denied') return undefined
  const denial = approval.decisions.find(({ verdict }) => verdict === 'denied')
  throw declined(call, approval.id, {
    reason: 'denied',
    ...(denial && { by: denial.by }),
    ...(denial?.reason !== undefined && { words: `“${denial.reason}”` }),
  })
}

async function requested(
  draft: ApprovalRequest,
  subject: ConfirmationRequest,
  around: ConfirmContext,
): Promise<Requested> {
  const { deps, approvals } = around
  // Nobody could decide: neither on a page nor at the command line.
  if (!deps.isStoreShared && deps.page('/confirm') === undefined) throw noApprover(subject)
  const found = await approvals.request(draft)
  const { id, upstream, tool, caller, kind } = found.approval
  // A call that waits comes again and again; it is worth one line.
  if (found.isNew)
    deps.log.info('confirm.requested', { approval: id, upstream, tool, principal: caller, kind })
  return found
}

async function answer(
  draft: ApprovalRequest,
  told: {
    readonly subject: ConfirmationRequest
    readonly around: ConfirmContext
    readonly isTokenBad: boolean
  },
): Promise<Outcome> {
  const { subject, around, isTokenBad } = told
  const { fallback, compat, model_may_confirm: isModelTrusted } = around.settings
  const found = await requested(draft, subject, around)
  const isTokenGood = draft.kind === 'page'
  const isHostAlone = isTokenGood && fallback === 'two_step'
  const { ways, url } = isHostAlone ? { ways: [], url: undefined } : placeOf(found.approval, around)
  subject.call.logFields.set('approval', found.approval.id)
  const { upstream, definition } = subject.entry
  const isTokenRead =
    isTokenGood &&
    isModelTrusted &&
    around.deps.isOn('inject_arguments', upstream) &&
    !namesArgument(definition, TOKEN_ARGUMENT)
  return confirmationRequired(subject, found, {
    decisionChannels: ways,
    url,
    isHostAlone,
    isTokenGood,
    isTokenBad,
    isTokenRead,
    compat,
  })
}

function placeOf(approval: Approval, { deps }: ConfirmContext): Place {
  const { id, approvers } = approval
  const who = deps.decidesOnPage(approval)
  const url = who === undefined ? undefined : deps.page(`/confirm/${id}`)
  const isForPeople = who === 'person'
  const page =
    url === undefined ? [] : [`at ${url}${isForPeople ? '' : ', by a program with its bearer token'}`]
  // Whoever is at the command line is seldom one of those who are named.
  const isNamed = url !== undefined && approvers.length > 0
  const command = deps.isStoreShared && !isNamed ? [`with \`${deps.approvalCommand(id)}\``] : []
  return { url, isForPeople, ways: [...page, ...command] }
}
