import { GatewayError } from '../core/error.ts'
import type { Approval, Decision } from './approvals.ts'

/** The reason of a refusal that no waiting changes: there is nobody who could be asked. */
export const NO_APPROVER_REASON = 'nobody_to_ask'

/** There is none to decide on. */
export function unknownApproval(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such approval, or its time is over.', {
    suggestion: 'Let the call be made again: it then asks for another one.',
  })
}

/** Somebody else has to decide. */
export function notYours({ kind }: Approval, { via }: Omit<Decision, 'at'>): GatewayError {
  const message =
    kind === 'out_of_band'
      ? 'You may not decide on this call: it takes somebody else.'
      : `You may not decide on this call${via === 'token' ? ' with a token' : ''}: it takes the person who makes it.`
  return new GatewayError('PERMISSION_DENIED', message)
}

/** It is decided already. */
export function conflict(message: string): GatewayError {
  return new GatewayError('CONFLICT', message)
}

/** The approval holds for one call. */
export function notOffered(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'This approval holds for one call: it cannot be remembered.', {
    field: 'remember',
  })
}

/** A caller has as many open as it may. */
export function tooMany(): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'Too many calls of this caller wait for approval.', {
    suggestion: 'Have those approved or denied that wait, or let their time end.',
    retryAfterSeconds: 60,
    isResult: true,
  })
}

/** Nobody could read what is to be approved. */
export function tooLarge(): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', 'The arguments are too large for a person to approve.', {
    isResult: true,
  })
}
