/**
 * `gatehouse approvals`: lists pending approvals and decides them. It works on the store; no gateway needs to run.
 */
import { rememberText } from '../core/remember.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { openLog } from '../observability/log.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { approvalView } from '../records/approval-view.ts'
import {
  isMistyped,
  stepOf,
  type Approval,
  type Decision,
  approvedCount,
  Approvals,
} from '../records/approvals.ts'
import { readStored } from './config-file.ts'
import { didYouMean, parseWords, UsageError, userName } from './words.ts'
import { originText } from '../records/plain-name.ts'
import { type Io, print } from './io.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  store: { type: 'string' },
  json: { type: 'boolean' },
  reason: { type: 'string' },
  typed: { type: 'string' },
  remember: { type: 'boolean' },
} as const

/** The shortest accepted prefix of an id. */
const MIN_ID_LENGTH = 6

const verdicts = { approve: 'approved', deny: 'denied' } as const

/** `gatehouse approvals list | show | approve | deny`: lists the calls that wait for approval, and decides them. */
export async function approvals(args: readonly string[], io: Io): Promise<number> {
  const options = parse(args)
  const settings = readStored(options, io)
  const log = openLog('warn', io)
  const store = await openSharedStore(settings, log)
  try {
    const withAudit: WithAudit = (decide) => audited(settings, log, decide)
    const text = await act(new Approvals(store, Date.now), options, withAudit)
    print(text, io)
  } finally {
    await store.close()
  }
  return 0
}

/** Runs a decision with the audit log it is recorded in. */
type WithAudit = (decide: (audit: Audit | undefined) => Promise<Approval>) => Promise<Approval>

async function act(
  records: Approvals,
  { action, id, isJson, reason, typed, isRemembered }: ApprovalOptions,
  withAudit: WithAudit,
): Promise<string> {
  if (action === 'list') {
    // Pending approvals come first.
    const all = (await records.list()).toSorted((one, other) => listingOrder(one) - listingOrder(other))
    if (isJson) return JSON.stringify({ approvals: all.map(approvalView) }, null, 2)
    return all.length === 0 ? 'No calls wait for approval.' : all.map(approvalLine).join('\n')
  }
  const approval = await findApproval(records, id)
  if (action === 'show') return isJson ? asJson(approval) : approvalText(approval)
  const verdict = verdicts[action]
  if (isMistyped(approval, { verdict, entered: typed }))
    throw new Error(`to approve ${approval.id}, add --typed ${escapeHidden(JSON.stringify(approval.typed))}`)
  const decision = {
    by: userName(),
    via: 'command_line',
    verdict,
    ...(reason !== undefined && { reason }),
    ...(isRemembered && { remember: true as const }),
  } as const
  const after = await withAudit(async (audit) => {
    const decided = await records.decide(approval.id, decision)
    audit?.decided(stepOf(decided, decision))
    return decided
  })
  return isJson ? asJson(after) : decidedLine(after, verdict)
}

function asJson(approval: Approval): string {
  return JSON.stringify(approvalView(approval), null, 2)
}

/** Finds an approval by its id or a prefix of it. @throws Error */
async function findApproval(records: Approvals, id: string): Promise<Approval> {
  const whole = await records.find(id)
  if (whole) return whole
  if (await records.isExpired(id)) throw new Error(`the time to decide ${id} is over`)
  const found =
    id.length < MIN_ID_LENGTH ? [] : (await records.list()).filter((each) => each.id.startsWith(id))
  const [first] = found
  if (first && found.length === 1) return first
  if (first) throw new Error(`${found.length} approvals begin with ${id}: give more characters`)
  throw new Error(`no such approval: ${JSON.stringify(id)}. See gatehouse approvals list`)
}

interface ApprovalOptions {
  readonly action: 'list' | 'show' | 'approve' | 'deny'
  readonly id: string
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly store: string | undefined
  readonly isJson: boolean
  readonly reason?: string
  readonly typed?: string
  readonly isRemembered: boolean
}

function parse(args: readonly string[]): ApprovalOptions {
  const { values, positionals } = parseWords(args, optionTypes)
  const [word, id, ...more] = positionals
  const actions = ['list', 'show', 'approve', 'deny'] as const
  const action = actions.find((each) => each === word)
  if (!action)
    throw new UsageError(
      `use gatehouse approvals list, show, approve or deny${didYouMean(word ?? '', actions)}`,
    )
  if (action !== 'list' && id === undefined) throw new UsageError(`${action} needs the id of an approval`)
  if (more.length > 0 || (action === 'list' && id !== undefined))
    throw new UsageError('give one approval at a time')
  const { config, 'env-file': envFile, store, json = false, ...decision } = values
  const { reason, typed, remember: isRemembered = false } = decision
  if (store !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  if (reason !== undefined && action !== 'approve' && action !== 'deny')
    throw new UsageError('--reason is not an option of this command')
  if (typed !== undefined && action !== 'approve')
    throw new UsageError('--typed is not an option of this command')
  if (isRemembered && action !== 'approve')
    throw new UsageError('--remember is not an option of this command')
  return {
    action,
    id: id ?? '',
    config,
    envFile,
    store,
    isJson: json,
    isRemembered,
    ...(reason !== undefined && { reason }),
    ...(typed !== undefined && { typed }),
  }
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
    `${id}  ${status.padEnd(8)}  ${risk.padEnd(11)}  ${what}, by ${oneLine(caller)}, until ${timeText(expiresAt)}`,
    `    ${oneLine(message)}`,
  ].join('\n')
}

/** The details of an approval. */
export function approvalText(approval: Approval): string {
  const { id, status, message, tool, upstream, risk, caller, expiresAt, typed, offer, stop, sent } = approval
  const { approvers, needed, decisions } = approval
  const by = approvers.length === 0 ? '' : `, by ${approvers.map(oneLine).join(', ')}`
  return [
    `approval   ${id}`,
    `status     ${status}`,
    `message    ${indented(escapeHidden(message), '           ')}`,
    `tool       ${oneLine(tool)}`,
    `server     ${oneLine(upstream)}`,
    `risk       ${risk}`,
    `caller     ${oneLine(caller)}`,
    `expires    ${timeText(expiresAt)}`,
    `approvals  ${approvedCount(approval)} of ${needed}${by}`,
    ...(typed === undefined ? [] : [`to type    ${oneLine(typed)}`]),
    ...(stop
      ? [`stop       to stop being asked, write ${oneLine(stop.write)} under ${oneLine(stop.under)}`]
      : []),
    ...(offer ? [`remember   with --remember it applies for ${rememberText(offer)}`] : []),
    'arguments',
    `  ${indented(escapeHidden(JSON.stringify(approval.arguments, null, 2)), '  ')}`,
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
  return `Approved ${what}: it runs once, when the call is repeated.`
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
