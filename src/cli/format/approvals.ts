/** Approvals as text for a terminal. Foreign text is escaped. */
import { escapeHidden, oneLine } from '../../core/text/escape.ts'
import { rememberText } from '../../core/remember.ts'
import { type Approval, type Decision, approvedCount } from '../../records/approvals.ts'

/** One approval in a list. */
export function approvalLine(approval: Approval): string {
  const { id, status, risk, tool, upstream, caller, expiresAt } = approval
  const what = `${oneLine(tool)} on ${oneLine(upstream)}`
  return `${id}  ${status.padEnd(8)}  ${risk.padEnd(11)}  ${what}, by ${oneLine(caller)}, until ${timeText(expiresAt)}`
}

/** Everything about an approval. */
export function approvalText(approval: Approval): string {
  const { id, status, message, tool, upstream, risk, caller, expiresAt, typed, offer, stop, sent } = approval
  const { approvers, needed, decisions } = approval
  const by = approvers.length === 0 ? '' : `, by ${approvers.map(oneLine).join(', ')}`
  return [
    `approval   ${id}`,
    `status     ${status}`,
    `asked      ${indented(escapeHidden(message), '           ')}`,
    `tool       ${oneLine(tool)}`,
    `server     ${oneLine(upstream)}`,
    `risk       ${risk}`,
    `caller     ${oneLine(caller)}`,
    `expires    ${timeText(expiresAt)}`,
    `approvals  ${approvedCount(approval)} of ${needed}${by}`,
    ...(typed === undefined ? [] : [`to type    ${oneLine(typed)}`]),
    ...(stop
      ? [`stop       to be asked no more, write ${oneLine(stop.write)} under ${oneLine(stop.under)}`]
      : []),
    ...(offer ? [`remember   with --remember it holds for ${rememberText(offer)}`] : []),
    'arguments',
    `  ${indented(escapeHidden(JSON.stringify(approval.arguments, null, 2)), '  ')}`,
    ...(sent === undefined ? [] : ['arguments as they were sent, which say more', `  ${oneLine(sent)}`]),
    ...decisions.map(decisionText),
  ].join('\n')
}

/** What became of an approval by a decision. */
export function decidedLine(approval: Approval, verdict: Decision['verdict']): string {
  const { id, status, needed, tool, upstream } = approval
  const what = `${oneLine(tool)} on ${oneLine(upstream)} (${id})`
  if (verdict === 'denied') return `Denied ${what}.`
  if (status === 'pending') return `Approved ${what}: ${approvedCount(approval)} of ${needed}.`
  return `Approved ${what}: it runs when the call is made again, once.`
}

function decisionText({ by, via, verdict, at, reason, remember }: Decision): string {
  const why = reason === undefined ? '' : `: ${oneLine(reason)}`
  return `${verdict.padEnd(9)}  by ${oneLine(by)} (${via.replace('_', ' ')}), ${timeText(at)}${remember ? ', remembered' : ''}${why}`
}

function indented(text: string, margin: string): string {
  return text.replaceAll('\n', `\n${margin}`)
}

function timeText(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
