import type { Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { oneLine } from '../../core/one-line.ts'
import { Payload } from '../../core/payload.ts'
import { NO_APPROVER_REASON } from '../../records/approval-refusals.ts'
import type { Approval, Requested } from '../../records/approvals.ts'
import { CONFIRMATION_KEY, ERROR_KEY } from '../../wire/extensions.ts'
import { TOKEN_ARGUMENT } from './reserved.ts'
import type { ConfirmationRequest } from './subject.ts'

interface ConfirmationOptions {
  /** How people reach the approval: a page, a command. */
  readonly decisionChannels: readonly string[]
  readonly url?: string | undefined
  /** Whether only the client's host is to confirm, with the token. */
  readonly isHostAlone: boolean
  /** Whether a token is told, with which the client's host confirms. */
  readonly isTokenGood: boolean
  /** Whether models are told it too. */
  readonly isTokenRead: boolean
  /** Whether a token was sent that is not good. */
  readonly isTokenBad: boolean
  /** Whether the members also stand at the top of the result. */
  readonly compat: boolean
}

/** The answer to a call that did not run, as people have to approve it first. */
export function confirmationRequired(
  subject: ConfirmationRequest,
  requested: Requested,
  told: ConfirmationOptions,
): Outcome {
  const { approval, token } = requested
  const error = errorOf(approval, told)
  const { suggestion = '' } = error.extra
  const object = { ...error.data, requestId: subject.call.requestId }
  // The token is for the host alone, unless models are trusted: what they read does not hold it.
  const byModel = told.isTokenRead
    ? ` If the user agrees, make it with \`${TOKEN_ARGUMENT}\`: "${token}" among its arguments.`
    : ''
  const members = {
    status: 'confirmation_required',
    requires_confirmation: true,
    confirmation_message: subject.message,
    risk_level: subject.risk,
    ...(told.isTokenGood && { confirmation_token: token }),
    tool: subject.entry.name,
    parameters: subject.arguments,
  }
  const result = {
    content: [{ type: 'text', text: `${error.message} ${suggestion}${byModel}` }],
    isError: true,
    ...(told.compat && { ...members, error: object }),
    _meta: {
      [ERROR_KEY]: object,
      [CONFIRMATION_KEY]: {
        ...members,
        approval: approval.id,
        expires_at: new Date(approval.expiresAt).toISOString(),
        ...(told.url !== undefined && { url: told.url }),
      },
    },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function errorOf(
  approval: Approval,
  { decisionChannels: ways, isTokenBad, isHostAlone }: ConfirmationOptions,
): GatewayError {
  const { message, kind, needed, approvers } = approval
  const people = kind === 'page' ? 'The user has to confirm it first' : others(needed, approvers)
  const begin = isTokenBad
    ? 'This call was not run: its confirmation_token is not good for it, or was used before.'
    : 'This call was not run.'
  const where = ways.length === 0 ? '' : ` Approve or deny it ${ways.join(', or ')}.`
  return new GatewayError(
    isTokenBad ? 'CONFIRMATION_TOKEN_INVALID' : 'CONFIRMATION_REQUIRED',
    `${begin} ${people}: “${message}”${where}`,
    {
      isUserActionable: true,
      suggestion:
        ways.length === 0 && !isHostAlone
          ? 'There is no way to approve it here: use a client that supports elicitation.'
          : 'Once it is approved, make exactly the same call again: it then runs, once.',
    },
  )
}

function others(needed: number, approvers: readonly string[]): string {
  const who = approvers.length === 0 ? '' : ` of ${approvers.join(', ')}`
  const people = needed === 1 ? 'one person' : `${needed} people`
  return `It takes the approval of ${people}${who} other than the caller`
}

/** The refusal where nobody can be asked. It does not hold the question: messages of errors are logged, arguments never. */
export function noApprover({ entry }: Pick<ConfirmationRequest, 'entry'>): GatewayError {
  const { name, upstream } = entry
  return new GatewayError(
    'CONFIRMATION_REQUIRED',
    `A person has to confirm this call of ${oneLine(name)} on ${upstream} first, and nobody can be asked.`,
    { reason: NO_APPROVER_REASON, suggestion: 'Use a client that supports elicitation.' },
  )
}
