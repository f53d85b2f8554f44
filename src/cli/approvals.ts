/**
 * `gatehouse approvals`: lists pending approvals and decides them. It works on the store; no gateway needs to run.
 */
import { rememberText } from '../core/remember.ts'
import { joinCommand } from '../core/text/command-line.ts'
import { escapeHidden, oneLine, visibleLine, visibleText } from '../core/text/escape.ts'
import {
  changeTitle,
  sentText,
  undoNotes,
  isMistyped,
  stepOf,
  type Approval,
  type Decision,
  approvedCount,
  Approvals,
  checkDecision,
  approvalView,
  valueText,
  clientText,
  isToRepeat,
  runText,
} from '../records/approvals.ts'
import { originText } from '../records/plain-name.ts'
import type { Store } from '../store/store.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, userName, withAudit, withStore } from './config-file.ts'
import { type Io, writeError } from './io.ts'
import { type Output, quoted, timeText } from './output.ts'
import { idBeginning } from './short-ids.ts'

type Commands = typeof commands

/** `gatehouse approvals list`. */
export function list(given: Given<Commands['approvals list']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    // Pending approvals come first.
    const all = (await new Approvals(store, Date.now).list()).toSorted(
      (one, other) => listingOrder(one) - listingOrder(other),
    )
    const isPending = all.some(({ status }) => status === 'pending')
    const lines = [...all.map(approvalLine), ...(isPending ? ['', decisionHint(given)] : [])]
    const text = all.length === 0 ? 'No calls wait for approval.' : lines.join('\n')
    return { json: { approvals: all.map(approvalView) }, text }
  })
}

/** `gatehouse approvals show ID`. */
export function show(given: Given<Commands['approvals show']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const approval = await findApproval(new Approvals(store, Date.now), given.id)
    return { json: approvalView(approval), text: approvalText(approval) }
  })
}

/** `gatehouse approvals approve ID`. */
export function approve(given: Given<Commands['approvals approve']>, io: Io): Promise<Output> {
  return decide(given, 'approved', io)
}

/** `gatehouse approvals deny ID`. */
export function deny(given: Given<Commands['approvals deny']>, io: Io): Promise<Output> {
  return decide(given, 'denied', io)
}

type Deciding = Given<Commands['approvals deny']> & Partial<Given<Commands['approvals approve']>>

function decide(given: Deciding, verdict: Decision['verdict'], io: Io): Promise<Output> {
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const records = new Approvals(store, Date.now)
    const approval = await findApproval(records, given.id)
    const by = userName()
    const isApproved = verdict === 'approved'
    // Whoever may not decide is not asked for a code.
    if (isApproved) checkDecision(approval, { by, via: 'command_line', verdict, at: Date.now() })
    const isAsked = isApproved && !settings.mayScriptsApprove
    const typed = isAsked ? await askPerson(approval, { typed: given.typed, store }, io) : given.typed
    if (isMistyped(approval, { verdict, entered: typed }))
      throw new Error(
        given.typed === undefined && typed !== undefined
          ? `${approval.id} was not approved: the text was not typed exactly`
          : `to approve ${approval.id}, add --typed ${quoted(approval.typed ?? '')}`,
      )
    const decision = {
      by,
      via: 'command_line',
      verdict,
      ...(given.reason !== undefined && { reason: given.reason }),
      ...(given.remember && { remember: true as const }),
    } as const
    const after = await withAudit(settings, io, async (audit) => {
      const decided = await records.decide(approval.id, decision)
      audit?.decided(stepOf(decided, decision))
      return decided
    })
    return { json: approvalView(after), text: decidedLine(after, verdict) }
  })
}

/**
 * Asks for the proof that a person decides: shows the call, and asks for the code that a gateway of the store printed, after the
 * text that the call requires. Resolves with that text. @throws Error
 */
async function askPerson(
  approval: Approval,
  { typed, store }: { readonly typed: string | undefined; readonly store: Store },
  io: Io,
): Promise<string | undefined> {
  if (!io.stdin.isTTY || !io.stderr.isTTY)
    throw new Error(
      'a person approves a call: run the command in a terminal, where it shows the call and asks for the code of the gateway, or open the approval page. docs/safe-actions.md says what scripts can do',
    )
  writeError(`${approvalText(approval)}\n\n`, io)
  const { typedAnswer } = await import('./ask.ts')
  const isTextMissing = typed === undefined && approval.typed !== undefined
  const text = isTextMissing
    ? await typedAnswer(`To approve this call, type ${oneLine(approval.typed)}: `, io)
    : typed
  if (isMistyped(approval, { verdict: 'approved', entered: text })) return text
  const code = await typedAnswer('The code that the gateway printed when it started: ', io)
  const { isApprovalCode } = await import('../records/approval-codes.ts')
  if (!(await isApprovalCode(store, code)))
    throw new Error(`${approval.id} was not approved: this is not the code that the gateway printed`)
  return text
}

/** The commands that decide, with the words that name the configuration or the store. */
function decisionHint({ config, envFile, store }: Given<Commands['approvals list']>): string {
  const options = Object.entries({ store, config, 'env-file': store === undefined ? envFile : undefined })
  const words = options.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]))
  return `    To decide, in a terminal: ${joinCommand(['gatehouse', 'approvals', 'approve', 'ID', ...words])}, or deny`
}

/** Finds an approval by its id or a prefix of it. @throws Error */
async function findApproval(records: Approvals, id: string): Promise<Approval> {
  const whole = await records.find(id)
  if (whole) return whole
  if (await records.isExpired(id)) throw new Error(`the time to decide ${id} is over`)
  const all = await records.list()
  const ids = all.map((each) => each.id)
  const found = idBeginning(ids, id, 'approvals')
  const named = all.find((each) => each.id === found)
  if (named) return named
  throw new Error(`no such approval: ${JSON.stringify(id)}. See gatehouse approvals list`)
}

function listingOrder({ status }: Approval): number {
  return status === 'pending' ? 0 : 1
}

// Approvals as text for a terminal. Text from servers and callers is escaped.

/** One approval in a list, and the question below. */
export function approvalLine(approval: Approval): string {
  const { id, status, risk, tool, upstream, caller, expiresAt, message } = approval
  const what = `${oneLine(tool)} on ${oneLine(upstream)}`
  return [
    `${id}  ${status.padEnd(8)}  ${risk.padEnd(11)}  ${what}, by ${oneLine(caller)}, until ${utcText(expiresAt)}`,
    `    ${oneLine(message)}`,
    ...(isToRepeat(approval) ? [`    ${runText(approval)}`] : []),
  ].join('\n')
}

/** The details of an approval. */
export function approvalText(approval: Approval): string {
  const { id, status, message, tool, upstream, risk, caller, expiresAt, typed, offer, stop } = approval
  const client = clientText(approval)
  const { approvers, needed, decisions, change } = approval
  const sent = sentText(approval)
  const by = approvers.length === 0 ? '' : `, by ${approvers.map(oneLine).join(', ')}`
  return [
    `approval   ${id}`,
    `status     ${status}`,
    `message    ${indented(escapeHidden(message), '           ')}`,
    `tool       ${oneLine(tool)}`,
    `server     ${oneLine(upstream)}`,
    `risk       ${risk}`,
    `caller     ${oneLine(caller)}`,
    ...(client === undefined ? [] : [`client     ${oneLine(client)}, by its own account`]),
    `expires    ${utcText(expiresAt)}`,
    `approvals  ${approvedCount(approval)} of ${needed}${by}`,
    ...(isToRepeat(approval) ? [`runs       ${runText(approval)}`] : []),
    ...(typed === undefined ? [] : [`to type    ${oneLine(typed)}`]),
    ...(stop
      ? [`stop       to stop being asked, write ${oneLine(stop.write)} under ${oneLine(stop.under)}`]
      : []),
    ...(offer ? [`remember   with --remember it applies for ${rememberText(offer)}`] : []),
    ...(change
      ? [
          ...[...undoNotes(change), changeTitle(change)].map(oneLine),
          ...change.lines.map((line) => `  ${visibleLine(line)}`),
        ]
      : []),
    'arguments',
    `  ${indented(visibleText(valueText(approval.arguments)), '  ')}`,
    ...(sent === undefined
      ? []
      : ['arguments as sent (differ from the parsed values)', `  ${oneLine(sent)}`]),
    ...dataLines(approval),
    ...decisions.map(decisionText),
  ].join('\n')
}

function dataLines({ data = [] }: Approval): readonly string[] {
  if (data.length === 0) return []
  const lines = data.flatMap((each) => {
    const { path, isOutside, name, type, size, sha256, written } = each
    const where = path === '' ? 'all arguments' : path
    const what = `${isOutside ? 'a file or a URL with ' : ''}${name}`
    return [
      oneLine(`  ${where}: ${what}, ${type}, ${size} bytes, from ${originText(each)}`),
      oneLine(`    sha256 ${sha256}, as ${written}`),
    ]
  })
  return ['data that the arguments refer to', ...lines]
}

/** The outcome of a decision. */
export function decidedLine(approval: Approval, verdict: Decision['verdict']): string {
  const { id, status, needed, tool, upstream } = approval
  const what = `${oneLine(tool)} on ${oneLine(upstream)} (${id})`
  if (verdict === 'denied') return `Denied ${what}.`
  if (status === 'pending') return `Approved ${what}: ${approvedCount(approval)} of ${needed}.`
  return `Approved ${what}. ${runText(approval)}`
}

function decisionText({ by, via, verdict, at, reason, remember }: Decision): string {
  const why = reason === undefined ? '' : `: ${oneLine(reason)}`
  return `${verdict.padEnd(9)}  by ${oneLine(by)} (${via.replace('_', ' ')}), ${utcText(at)}${remember ? ', remembered' : ''}${why}`
}

function indented(text: string, margin: string): string {
  return text.replaceAll('\n', `\n${margin}`)
}

function utcText(at: number): string {
  return timeText(at).replace('T', ' ').replace('Z', ' UTC')
}
