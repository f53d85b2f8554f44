/**
 * A call whose approver changed its arguments. In place of the caller's call another one is made: it is judged by its arguments
 * again, from the permissions on, counts by them in place of the caller's, and has its own entry in the log and the audit log. What
 * belongs to the caller's request stays with it: the key, the lost answer, and the step of a transaction get the outcome of the
 * changed call. No one is asked about it again; what would refuse it refuses it.
 */
import { type Call, compose, type Handler, type Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { newRequestId } from '../../core/identity.ts'
import { Payload } from '../../core/payload.ts'
import { reservationSlot } from '../../core/slot.ts'
import { oneLine, shortened } from '../../core/text/escape.ts'
import { EDITED_KEY } from '../../protocol/meta-keys.ts'
import type { ApprovalRequest } from '../../records/approvals.ts'
import { type Edits, editableArguments, valuesOf } from '../../records/edits.ts'
import type { Services } from '../feature.ts'
import type { Grant } from './grant.ts'
import type { ConfirmationRequest } from './request.ts'

type Deps = Pick<Services, 'features' | 'invoker'>

/** How much of a changed value is in the notice, in characters. */
const MAX_VALUE_LENGTH = 200

/**
 * The arguments that the approver may change: none if several people approve, who would approve different calls, if a text has to be
 * typed that names the call, or if the call refers to data.
 */
export function editableOf(
  { needed, typed, arguments: masked }: ApprovalRequest,
  { arguments: given, referenced }: ConfirmationRequest,
): readonly string[] {
  return needed > 1 || typed !== undefined || referenced ? [] : editableArguments(given, masked)
}

/** Makes a call with the changed arguments. `make` makes it once it is judged. */
export async function runEdited(
  call: Call,
  edits: Edits,
  { grant, make, deps }: { readonly grant: Grant; readonly make: Handler; readonly deps: Deps },
): Promise<Outcome> {
  const { target } = call
  const edited = editedCall(call, edits)
  call.logFields.set('approval', grant.approval)
  call.logFields.set('approved_by', grant.by.join(', '))
  call.logFields.set('edited_as', edited.requestId)
  await reservationSlot.of(call)?.()
  const judging = deps.features
    .layers(target.upstream)
    .flatMap(({ judgesArguments, middleware }) => (judgesArguments ? [middleware(target)] : []))
  const made = compose(judging, make)(edited)
  deps.invoker.observeRest(edited, made)
  const facts = { request_id: edited.requestId, by: grant.by, arguments: valuesOf(edits) }
  try {
    const outcome = await made
    if (outcome.kind !== 'result') return outcome
    const result = outcome.result
      .withMeta({ [EDITED_KEY]: facts })
      .withItem('content', { type: 'text', text: noticeOf(edits) })
    return { kind: 'result', result }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    const { meta, suggestion } = error.extra
    const more = suggestion === undefined ? '' : ` ${suggestion}`
    throw error.with({ meta: { ...meta, [EDITED_KEY]: facts }, suggestion: `${noticeOf(edits)}${more}` })
  } finally {
    // What the layers above read of the call, such as what is left of a budget.
    for (const [field, value] of edited.logFields)
      if (!call.logFields.has(field) && field !== 'edited_from') call.logFields.set(field, value)
  }
}

function editedCall(call: Call, edits: Edits): Call {
  const changes = Object.entries(edits).map(([name, text]) => [name, Payload.text(text)] as const)
  const given = call.params.at('arguments') ?? Payload.of({})
  return {
    ...call,
    requestId: newRequestId(),
    params: call.params.with({ arguments: given.with(Object.fromEntries(changes)) }),
    logFields: new Map([...call.logFields, ['edited_from', call.requestId]]),
  }
}

/** What a model has to know of the result. */
function noticeOf(edits: Edits): string {
  const changes = Object.entries(edits).map(
    ([name, text]) => `${oneLine(name)} is ${shortened(oneLine(text), MAX_VALUE_LENGTH)}`,
  )
  return `Gatehouse: the person who approved this call changed its arguments: ${changes.join(', ')}. This is the outcome of the changed call.`
}
