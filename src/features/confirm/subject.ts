import { hash } from 'node:crypto'
import type { Call } from '../../core/call.ts'
import type { Descriptor, Risk } from '../../core/entry.ts'
import { canonical, isObject } from '../../core/json.ts'
import type { Remember } from '../../core/remember.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { StopAsking } from '../../core/stop-asking.ts'
import { settingOf } from '../../core/tool-settings.ts'
import type { ApprovalRequest } from '../../records/approvals.ts'
import { messageOf, stated, typedText } from './message.ts'
import { offerOf, riskOf, type Rule } from './rules.ts'
import { withoutConfirmState } from './slot.ts'

type Arguments = Readonly<Record<string, unknown>>

/** A call that people are asked about. */
export interface ConfirmationRequest {
  /** As the layers below get it. */
  readonly call: Call
  readonly entry: Descriptor
  readonly arguments: Arguments
  /** What the call and what its arguments are known by. */
  readonly digest: string
  readonly argumentsDigest: string
  readonly risk: Risk
  /** The configuration says how the tool is undone. */
  readonly isUndoable?: true
  readonly message: string
  /** What the person has to type. */
  readonly typed?: string
  /** What the person may choose: that the answer holds for more calls of the tool. */
  readonly offer?: Remember
  /** What to write to be asked about the tool no more. */
  readonly stop?: StopAsking
  /** The text of the arguments, where it says more than their values. */
  readonly sent?: string
}

/** What people are to be asked about a call. */
export function confirmationRequestOf(
  given: Call,
  entry: Descriptor,
  rule: Rule,
  server: UpstreamSettings,
): ConfirmationRequest {
  const call = withoutConfirmState(given)
  const { arguments: written } = call.params.fields
  const values = isObject(written) ? written : {}
  const sent = writtenText(call, values)
  // Equal values in another order are the same call, and so are equal digits in other spaces.
  const told = sent === undefined ? values : [canonical(values), withoutSpace(sent)]
  const typed = typedText(rule, entry, values)
  const offer = offerOf(rule, entry, call)
  return {
    call,
    entry,
    arguments: values,
    digest: hash('sha256', canonical([call.principal.id, entry.upstream, entry.name, told])),
    argumentsDigest: hash('sha256', canonical(values)),
    risk: riskOf(rule, entry),
    ...(isUndoable(entry, server) && { isUndoable: true }),
    message: `${messageOf(rule, entry, values, server)}${stated(call)}`,
    ...(typed !== undefined && { typed }),
    ...(offer && { offer }),
    ...(rule.stop && { stop: rule.stop }),
    ...(sent !== undefined && { sent }),
  }
}

function isUndoable({ name }: Descriptor, { tools }: UpstreamSettings): boolean {
  const undo = settingOf(tools, name, 'undo')
  return undo !== undefined && undo.value !== 'none'
}

/** The text of arguments where it says more than their values, such as digits that get lost: the server gets it. */
function writtenText({ params }: Call, values: Arguments): string | undefined {
  const text = params.at('arguments')?.text
  if (text === undefined) return undefined
  const shown = JSON.stringify(values)
  return text === shown || withoutSpace(text) === shown ? undefined : text
}

/** The same JSON without spaces between its signs. */
function withoutSpace(json: string): string {
  return json.replaceAll(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_all, string: string = '') => string)
}

/** The approval of a call that is asked for. */
export function approvalRequestOf(
  {
    call,
    entry,
    digest,
    risk,
    isUndoable: canUndo,
    message,
    typed,
    offer,
    stop,
    sent,
    arguments: given,
  }: ConfirmationRequest,
  { needed, approvers }: Pick<Rule, 'needed' | 'approvers'>,
  { kind, ttl }: Pick<ApprovalRequest, 'kind' | 'ttl'>,
): ApprovalRequest {
  const { id, isEverybody } = call.principal
  return {
    kind,
    caller: id,
    ...(isEverybody && { isEverybody }),
    upstream: entry.upstream,
    tool: entry.name,
    arguments: given,
    digest,
    risk,
    ...(canUndo && { isUndoable: canUndo }),
    message,
    ...(typed !== undefined && { typed }),
    ...(stop && kind === 'page' && { stop }),
    ...(offer && kind === 'page' && { offer: { for: offer.for, max: offer.max } }),
    ...(sent !== undefined && { sent }),
    needed,
    approvers,
    ttl,
  }
}
