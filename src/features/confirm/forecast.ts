/** Dry runs: whether a call would have to be confirmed, by whom, and how. No person is asked, and no approval is used. */
import type { Call, Middleware } from '../../core/call.ts'
import { type ConfirmationForecast, withFinding } from '../../core/dry-run.ts'
import { isSameToken } from '../../records/approvals.ts'
import type { ConfirmContext, HostConfirmation } from './context.ts'
import { canAsk } from './elicitation.ts'
import { callerOnly, canDecide, noApprover, resolveApproval } from './policy.ts'
import { approvalRequestOf, type ConfirmationRequest } from './request.ts'
import { isBareConfirmation, isRecalled, subjectOf } from './subject.ts'

/** Adds to dry runs whether they would have to be confirmed. */
export function forecastConfirmation(context: ConfirmContext): Middleware {
  return (next) => async (given) => {
    const { call, subject, host } = subjectOf(given, context)
    const confirmation = subject ? await forecast(subject, host, context) : { isRequired: false }
    return next(withFinding(call, { confirmation }))
  }
}

/** @throws CONFIRMATION_DECLINED if it was denied, CONFIRMATION_REQUIRED if no one can be asked */
async function forecast(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<ConfirmationForecast> {
  const { rule } = context
  const about = { isRequired: true, message: subject.message, risk: subject.risk }
  const isGranted = await isAllowed(subject, host, context)
  const granted = isGranted ? ({ isGranted: true } as const) : {}
  if (rule.isOutOfBand) {
    if (!isGranted && !canDecide(context)) throw noApprover(subject)
    return { ...about, ...granted, by: 'others', via: 'page', needed: rule.needed, approvers: rule.approvers }
  }
  return {
    ...about,
    ...granted,
    by: 'user',
    via: isGranted ? wayOf(subject.call, context) : mustAsk(subject, context),
  }
}

/** How the user would be asked. @throws CONFIRMATION_REQUIRED */
function mustAsk(subject: ConfirmationRequest, context: ConfirmContext): 'form' | 'page' | 'token' {
  const way = wayOf(subject.call, context)
  if (way === 'form') return way
  if (context.settings.fallback === 'deny' || !canDecide(context)) throw noApprover(subject)
  return way
}

function wayOf(call: Call, { settings }: ConfirmContext): 'form' | 'page' | 'token' {
  if (canAsk(call, 'form')) return 'form'
  return settings.fallback === 'two_step' ? 'token' : 'page'
}

/** Whether the call has a permission already. @throws CONFIRMATION_DECLINED */
async function isAllowed(
  subject: ConfirmationRequest,
  host: HostConfirmation,
  context: ConfirmContext,
): Promise<boolean> {
  const { rule, settings, approvals, memory } = context
  const { call } = subject
  if (isRecalled(subject, rule) && (await memory.has(subject, rule))) return true
  if (!rule.isOutOfBand && canAsk(call, 'form')) return false
  if (!rule.isOutOfBand && isBareConfirmation(host, settings)) return true
  const draft = rule.isOutOfBand
    ? approvalRequestOf(subject, rule, { kind: 'out_of_band', ttl: settings.approval_ttl })
    : approvalRequestOf(subject, callerOnly, { kind: 'page', ttl: settings.ttl })
  const open = await approvals.peek(draft)
  if (open && host.token !== undefined && isSameToken(open.token, host.token)) return true
  return resolveApproval(open?.approval, call) !== undefined
}
