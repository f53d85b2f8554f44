/**
 * `gatehouse approvals`: lists pending approvals and decides them. It works on the store; no gateway needs to run.
 */
import { randomInt } from 'node:crypto'
import { rememberText } from '../core/remember.ts'
import { joinCommand } from '../core/text/command-line.ts'
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
  checkDecision,
} from '../records/approvals.ts'
import { readStored } from './config-file.ts'
import { configWords, didYouMean, parseWords, UsageError, userName } from './words.ts'
import { originText } from '../records/plain-name.ts'
import { type Io, print, writeError } from './io.ts'

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
    const prove = settings.mayScriptsApprove ? approvedByScript : askPerson(io)
    const text = await act(new Approvals(store, Date.now), options, { withAudit, prove })
    print(text, io)
  } finally {
    await store.close()
  }
  return 0
}

/** Runs a decision with the audit log it is recorded in. */
type WithAudit = (decide: (audit: Audit | undefined) => Promise<Approval>) => Promise<Approval>

/** Asks for the proof that a person decides, and resolves with the text that was typed, if the call requires one. @throws Error */
type Prove = (approval: Approval, typed: string | undefined) => Promise<string | undefined>

const approvedByScript: Prove = (_approval, typed) => Promise.resolve(typed)

/** No letters or digits that look alike. */
const CODE_CHARACTERS = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'
const CODE_LENGTH = 4

/** Shows the call in the terminal, and asks for a code, or for the text that the call requires. */
function askPerson(io: Io): Prove {
  return async (approval, typed) => {
    if (!io.stdin.isTTY || !io.stderr.isTTY)
      throw new Error(
        'a person approves a call: run the command in a terminal, where it shows the call and asks for a code, or open the approval page. docs/safe-actions.md says what scripts can do',
      )
    const code = Array.from(
      { length: CODE_LENGTH },
      () => CODE_CHARACTERS[randomInt(CODE_CHARACTERS.length)],
    ).join('')
    const text = typed === undefined ? approval.typed : undefined
    writeError(`${approvalText(approval)}\n\n`, io)
    const { createInterface } = await import('node:readline/promises')
    const terminal = createInterface({ input: io.stdin, output: io.stderr })
    try {
      const answer = (await terminal.question(`To approve this call, type ${oneLine(text ?? code)}: `)).trim()
      if (text !== undefined) return answer
      if (answer.toUpperCase() !== code)
        throw new Error(`${approval.id} was not approved: the code was not typed`)
      return typed
    } finally {
      terminal.close()
    }
  }
}

interface Deciding {
  readonly withAudit: WithAudit
  readonly prove: Prove
}

async function act(
  records: Approvals,
  options: ApprovalOptions,
  { withAudit, prove }: Deciding,
): Promise<string> {
  const { action, id, isJson, reason, typed: given, isRemembered } = options
  if (action === 'list') {
    // Pending approvals come first.
    const all = (await records.list()).toSorted((one, other) => listingOrder(one) - listingOrder(other))
    if (isJson) return JSON.stringify({ approvals: all.map(approvalView) }, null, 2)
    if (all.length === 0) return 'No calls wait for approval.'
    const isPending = all.some(({ status }) => status === 'pending')
    return [...all.map(approvalLine), ...(isPending ? ['', decisionHint(options)] : [])].join('\n')
  }
  const approval = await findApproval(records, id)
  if (action === 'show') return isJson ? asJson(approval) : approvalText(approval)
  const verdict = verdicts[action]
  const by = userName()
  // Whoever may not decide is not asked for a code.
  if (verdict === 'approved') checkDecision(approval, { by, via: 'command_line', verdict, at: Date.now() })
  const typed = verdict === 'approved' ? await prove(approval, given) : undefined
  if (isMistyped(approval, { verdict, entered: typed }))
    throw new Error(
      given === undefined && typed !== undefined
        ? `${approval.id} was not approved: the text was not typed exactly`
        : `to approve ${approval.id}, add --typed ${escapeHidden(JSON.stringify(approval.typed))}`,
    )
  const decision = {
    by,
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

/** The commands that decide, with the words that name the configuration or the store. */
function decisionHint({ config, envFile, store }: ApprovalOptions): string {
  const words = store === undefined ? configWords({ config, 'env-file': envFile }) : ['--store', store]
  return `    To decide, in a terminal: ${joinCommand(['gatehouse', 'approvals', 'approve', 'ID', ...words])}, or deny`
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
