import { randomUUID } from 'node:crypto'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Approval } from '../../records/approvals.ts'
import { NS } from '../../wire/extensions.ts'
import type { Deps } from '../feature.ts'
import { type Grant, STATE_KEY } from './slot.ts'
import type { ConfirmationRequest } from './subject.ts'

/** Why a call may not run. */
export type Refusal = 'decline' | 'cancel' | 'timeout' | 'mismatch' | 'error' | 'denied'

/** Where the signed decision stands in the `_meta` of a result. */
const META_KEY = `${NS}/approval`

/** What the people who approved a call granted. */
export function grantOf({ id, decisions, createdAt }: Approval): Grant {
  return {
    approval: id,
    by: decisions.map(({ by }) => by),
    via: decisions.map(({ via }) => via),
    at: decisions.at(-1)?.at ?? createdAt,
  }
}

/** Runs a call that was confirmed. The result says who did so, signed. */
export async function run(
  { call, digest, argumentsDigest, entry }: ConfirmationRequest,
  grant: Grant,
  { next, deps }: { readonly next: Handler; readonly deps: Deps },
): Promise<Outcome> {
  call.logFields.set('approval', grant.approval)
  call.logFields.set('approved_by', grant.by.join(', '))
  const outcome = await next(call)
  // The server may ask too; then nobody is asked again when the answers come.
  if (outcome.kind === 'input_required') {
    const slot = { kind: 'granted', nonce: randomUUID(), digest, grant }
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: slot } }
  }
  const { approval, by, via, at } = grant
  const claims = {
    jti: randomUUID(),
    sub: call.principal.id,
    approval,
    verdict: 'approved',
    by,
    via,
    at: new Date(at).toISOString(),
    tool: entry.name,
    upstream: entry.upstream,
    arguments_sha256: argumentsDigest,
  }
  // What was done was done: it is told even where it can not be signed.
  const signed = await deps.sign(claims).catch((error: unknown) => {
    deps.log.error('confirm.unsigned', { approval, reason: String(error) })
  })
  if (signed === undefined) return outcome
  return { kind: 'result', result: outcome.result.withMeta({ [META_KEY]: signed }) }
}

/** The refusal of a call that a person did not want, or did not answer for. */
export function declined(call: Call, approval: string, said: Said): GatewayError {
  const { reason, by, words } = said
  call.logFields.set('approval', approval)
  call.logFields.set('declined', reason)
  if (by !== undefined) call.logFields.set('declined_by', by)
  const why = words === undefined ? '' : ` ${words}`
  return new GatewayError('CONFIRMATION_DECLINED', `${sentences[reason]}${why}`, {
    reason,
    suggestion: 'It was not run. Do not make it again unless the person asks for it.',
  })
}

interface Said {
  readonly reason: Refusal
  readonly by?: string
  /** What the person said of it. */
  readonly words?: string
}

const sentences: Readonly<Record<Refusal, string>> = {
  decline: 'The person who was asked declined this call.',
  cancel: 'The person who was asked to confirm this call did not answer.',
  timeout: 'Nobody confirmed this call in time.',
  mismatch: 'What was typed to confirm this call is not what had to be typed.',
  error: 'The client could not ask anybody to confirm this call.',
  denied: 'This call was denied.',
}
