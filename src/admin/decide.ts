import type { ApprovalStep } from '../core/approval-step.ts'
import { GatewayError } from '../core/error.ts'
import { isMistyped, stepOf } from '../records/approval-decision.ts'
import type { Approval, Approvals } from '../records/approvals.ts'
import type { Form } from './form.ts'
import type { Visitor } from './visitors.ts'

interface Deciding {
  readonly visitor: Visitor
  readonly form: Form
  approvals(): Approvals
  onDecided(step: ApprovalStep): void
}

/** An approval as it is after a form was sent. */
export interface Shown {
  readonly approval: Approval
  /** What was wrong with the form. */
  readonly problem?: string
}

/** Does what a form says. @throws INVALID_INPUT where that is nothing, and what `Approvals.decide` throws */
export async function decide(
  approval: Approval,
  { visitor, form, approvals, onDecided }: Deciding,
): Promise<Shown> {
  const { verdict, reason, typed, remember } = form
  if (!verdict)
    throw new GatewayError('INVALID_INPUT', 'The verdict is approved or denied.', { field: 'verdict' })
  if (isMistyped(approval, { verdict, said: typed }))
    return { approval, problem: 'What was typed is not what had to be typed. Nothing was decided.' }
  const decision = {
    ...visitor,
    verdict,
    ...(reason !== undefined && { reason }),
    ...(remember && { remember }),
  }
  const after = await approvals().decide(approval.id, decision)
  onDecided(stepOf(after, decision))
  return { approval: after }
}
