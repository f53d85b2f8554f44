/** The HTML of approvals. */
import { rememberText } from '../../core/remember.ts'
import { escapeHtml } from '../../core/web.ts'
import {
  type Approval,
  type Decision,
  approvedCount,
  changeWords,
  clientText,
  isToRepeat,
  runText,
  valueText,
  sentText,
  undoNotes,
} from '../../records/approvals.ts'
import { editableText } from '../../records/edits.ts'
import type { PauseState } from '../../records/pause.ts'
import {
  html,
  displayJson,
  displayText,
  displayWord,
  type Html,
  linesHtml,
  spanText,
  timeHtml,
  trusted,
} from './html.ts'
import type { PageUser } from './page-users.ts'
import { originText } from '../../records/plain-name.ts'

/** The maximum length of a reason, in characters. */
export const MAX_REASON_LENGTH = 1000

interface ApprovalPage {
  readonly approval: Approval
  readonly pageUser: Pick<PageUser, 'by' | 'via'>
  /** The anti-forgery token of the form. */
  readonly token: string
  /** What is wrong with the submitted form, and with single arguments in it. */
  readonly problem?: string | undefined
  readonly argumentProblems?: Readonly<Record<string, string>> | undefined
  /** The arguments as they were typed, if they are wrong. */
  readonly typedArguments?: Readonly<Record<string, string>> | undefined
  /** The id of another approval that the page user may decide. */
  readonly next?: string | undefined
  /** In milliseconds since 1970. */
  readonly now: number
  /** The pause of writes that stops calls of the server. */
  readonly pause?: PauseState | undefined
}

/** The page of one approval: the call, and the form to decide it or the decision. */
export function approvalPage(page: ApprovalPage): { readonly title: string; readonly content: Html } {
  const { approval, problem } = page
  const { status, message, risk, upstream, tool, caller } = approval
  const title = titles[status]
  const content = `<h1>${title}</h1>
${problem === undefined ? '' : `<p class="notice" role="alert">${displayText(problem)}</p>`}
<p class="message">${displayText(message)}</p>
<dl>
<dt>Risk</dt><dd class="risk ${risk}">${riskText(approval)}</dd>
<dt>Tool</dt><dd><code>${displayWord(tool)}</code></dd>
<dt>Server</dt><dd>${displayWord(upstream)}</dd>
<dt>Called by</dt><dd>${displayWord(caller)}${clientHtml(approval)}</dd>
<dt>Expires</dt><dd>${timeHtml(approval.expiresAt)}${status === 'pending' ? ` (in ${spanText(approval.expiresAt - page.now)})` : ''}</dd>
<dt>Approvals</dt><dd>${approvedCount(approval)} of ${approval.needed}${approversHtml(approval)}</dd>
</dl>
${changeHtml(approval)}
<h2>Arguments</h2>
${displayJson(valueText(approval.arguments), 'Arguments')}
${dataHtml(approval)}
${sentHtml(approval)}
${decisionsHtml(approval.decisions)}
${runHtml(approval)}
${pauseHtml(approval, page.pause)}
${formHtml(page)}
${stopHtml(approval)}
${navigationHtml(page)}`
  return { title, content: trusted(content) }
}

/** A call that waits for approval as one item of a list, with the form to decide it. */
export function approvalItem({
  approval,
  pageUser,
  now,
  ...item
}: Pick<ApprovalPage, 'approval' | 'pageUser' | 'now' | 'problem' | 'pause'> & {
  /** The fields of the form that say what it is. */
  readonly hidden: Html
  /** The relative URL of the front page. */
  readonly root: string
}): Html {
  const { id, message, risk, upstream, tool, caller, needed, decisions } = approval
  const isDecided = decisions.some((each) => isSamePerson(each, pageUser))
  const form = html`<form method="post" class="decide">
<button hidden disabled></button>
${item.hidden}
${typedHtml(approval, `-${id}`)}
<div class="buttons">
<button name="verdict" value="denied" formnovalidate>Deny</button>
<button class="approve" name="verdict" value="approved">Approve</button>
</div>
<details id="more-${id}"><summary>${approval.offer ? 'Add a reason, or ask no more' : 'Add a reason'}</summary>${reasonHtml(approval, `-${id}`)}</details>
</form>`
  return html`<h3 class="message">${message}</h3>
${item.problem !== undefined && html`<p class="notice" role="alert">${item.problem}</p>`}
<p class="facts"><span class="mark ${risk}">${riskText(approval)}</span> <span><code>${displayWord(tool)}</code> on ${displayWord(upstream)}</span>
<span>Called by ${displayWord(caller)}${clientHtml(approval)}</span>
<span>${waitText(approval, now)}, expires in ${spanText(approval.expiresAt - now)}</span></p>
${runHtml(approval)}
${pauseHtml(approval, item.pause)}
${changeHtml(approval, 'h4')}
<details id="arguments-${id}"><summary>Arguments</summary>
${displayJson(valueText(approval.arguments), 'Arguments')}
${dataHtml(approval, 'h4')}
${sentHtml(approval, 'h4')}
</details>
${isDecided ? html`<p>You have approved this call. It needs the approval of ${needed} people.</p>` : form}
<p class="size"><a href="${item.root}confirm/${id}">Open this call</a>${approval.editable && mayEdit(pageUser) ? ' to read it in full, or to change its arguments' : ' to read it in full'}.</p>`
}

/** The page with the pending approvals. */
export function approvalsPage(
  approvals: readonly Approval[],
  now: number,
): {
  readonly title: string
  readonly content: Html
} {
  const title = 'Calls that wait for approval'
  const rows = approvals.map(
    (approval) =>
      `<li><a href="confirm/${encodeURIComponent(approval.id)}">${displayWord(approval.tool)} on ${displayWord(approval.upstream)}</a>
<p class="message">${displayText(approval.message)}</p>
<p class="size">Called by ${displayWord(approval.caller)}${clientHtml(approval)}. ${waitText(approval, now)}</p>
${runHtml(approval)}
<span class="risk ${approval.risk}">${riskText(approval)}</span> · expires ${timeHtml(approval.expiresAt)}</li>`,
  )
  const list =
    rows.length === 0 ? '<p>There are no calls that you may decide.</p>' : `<ul>${rows.join('\n')}</ul>`
  return { title, content: trusted(`<h1>${title}</h1>\n${list}`) }
}

/** Since when a call waits, or when it was made. */
function waitText(approval: Approval, now: number): string {
  const span = spanText(now - approval.createdAt)
  return isToRepeat(approval) ? `Called ${span} ago` : `Waiting for ${span}`
}

/** When the call runs, where that has to be said. */
function runHtml(approval: Approval): Html {
  const text = runText(approval)
  return html`${text !== undefined && html`<p class="next">${text}</p>`}`
}

/** That an approval does not run the call while writes are paused. */
function pauseHtml({ status, risk }: Approval, pause: PauseState | undefined): Html {
  const isStopped = pause !== undefined && risk !== 'safe' && (status === 'pending' || status === 'approved')
  return html`${isStopped && html`<p class="notice" role="status">Writes are paused since ${timeHtml(pause.since)}${pause.until !== undefined && html`, until ${timeHtml(pause.until)}`}. An approval does not run the call until they are resumed: the client then has to make it again.</p>`}`
}

const titles: Readonly<Record<Approval['status'], string>> = {
  pending: 'Approve this call?',
  approved: 'Approved',
  denied: 'Denied',
  used: 'Approved and used',
  void: 'Void: the data of the call has changed',
}

const risks: Readonly<Record<Approval['risk'], string>> = {
  safe: 'Safe: changes nothing',
  reversible: 'Write: changes something',
  destructive: 'Destructive: data may be lost permanently',
}

/** The text of a risk; an undoable tool is not described as losing data. */
function riskText({ risk, isUndoable, change }: Pick<Approval, 'risk' | 'isUndoable' | 'change'>): string {
  return risk === 'destructive' && isUndoable && change?.notUndone === undefined
    ? 'Destructive: removes or overwrites something, but can be undone as configured'
    : risks[risk]
}

const methods: Readonly<Record<Decision['via'], string>> = {
  sign_in: 'sign-in',
  password: 'password',
  code: 'terminal code',
  token: 'token',
  command_line: 'command line',
  operator_mcp: 'MCP client of an owner',
}

/** The client of the caller, which nobody has verified. */
function clientHtml(approval: Approval): Html {
  const client = clientText(approval)
  return html`${client !== undefined && html` with ${displayWord(client)}, by its own account`}`
}

function approversHtml({ approvers }: Approval): string {
  return approvers.length === 0 ? '' : `, by ${approvers.map(displayWord).join(', ')}`
}

function changeHtml({ change }: Approval, heading: 'h2' | 'h4' = 'h2'): Html {
  if (!change) return trusted('')
  const title = changeWords(change)
  const box = change.lines.length === 0 ? '' : `\n${linesHtml(change.lines.join('\n'), title)}`
  const notes = undoNotes(change).map((note) => `<p><strong>${displayText(note)}</strong></p>\n`)
  return trusted(
    `${notes.join('')}<${heading}>${displayText(title)}, as read at ${timeHtml(change.at)}</${heading}>${box}`,
  )
}

function dataHtml({ data = [] }: Approval, heading: 'h2' | 'h4' = 'h2'): Html {
  if (data.length === 0) return trusted('')
  const rows = data.map((each) => {
    const { path, written, isOutside, name, type, size, sha256 } = each
    const where = path === '' ? 'All arguments' : `<code>${displayWord(path)}</code>`
    const facts = `${displayWord(type)}, ${size} bytes, from ${displayWord(originText(each))}`
    const what = `${isOutside ? 'a file or a URL with ' : ''}${displayWord(name)}`
    return `<li>${where}: ${what} (${facts})<br>SHA-256 <code>${displayWord(sha256)}</code><br>as <code>${displayWord(written)}</code></li>`
  })
  return trusted(`<${heading}>Data that the arguments refer to</${heading}>
<p>The server receives this data, or a file or a URL with it, in place of the references. The approval is for this data alone.</p>
<ul>${rows.join('\n')}</ul>`)
}

function sentHtml(approval: Approval, heading: 'h2' | 'h4' = 'h2'): Html {
  const sent = sentText(approval)
  if (sent === undefined) return trusted('')
  return trusted(`<${heading}>Arguments as sent</${heading}>
<p>The server receives this text. It differs from the values above: numbers with more digits, or duplicate keys.</p>
${displayJson(sent, 'Arguments as sent')}`)
}

function decisionsHtml(decisions: readonly Decision[]): string {
  if (decisions.length === 0) return ''
  const rows = decisions.map(({ by, via, verdict, at, reason, remember, edited = {} }) => {
    const why = reason === undefined ? '' : `<br>${displayWord(reason)}`
    const changes = Object.entries(edited).map(
      ([name, text]) => `<br>changed ${displayWord(name)} to <code>${displayWord(text)}</code>`,
    )
    return `<li><strong>${verdict === 'approved' ? 'Approved' : 'Denied'}</strong> by ${displayWord(by)} (${methods[via]}), ${timeHtml(at)}${remember ? ', also for later calls of this tool' : ''}${why}${changes.join('')}</li>`
  })
  return `<h2>Decisions</h2>\n<ul>${rows.join('\n')}</ul>`
}

function formHtml(page: ApprovalPage): string {
  const { approval, pageUser, token } = page
  const { status, decisions, needed } = approval
  if (status !== 'pending') return ''
  if (decisions.some((each) => isSamePerson(each, pageUser)))
    return `<p>You have approved this call. It needs the approval of ${needed} people.</p>`
  // The Enter key activates the first button, which is therefore disabled: a decision must be deliberate.
  return `<form method="post">
<button hidden disabled></button>
<input type="hidden" name="token" value="${escapeHtml(token)}">
${typedHtml(approval, '')}
${reasonHtml(approval, '')}
<div class="buttons">
<button name="verdict" value="denied" formnovalidate>Deny</button>
<button class="approve" name="verdict" value="approved">Approve</button>
</div>
${editHtml(page)}
</form>
<p class="size">You decide as ${displayWord(pageUser.by)} (${methods[pageUser.via]}).</p>`
}

/** The text to type to approve, where one is required. */
function typedHtml({ typed }: Approval, suffix: string): Html {
  return html`${
    typed !== undefined &&
    html`<label for="typed${suffix}">To approve, type <code>${displayWord(typed)}</code></label>
<input id="typed${suffix}" name="typed" required autocomplete="off" autocapitalize="none" spellcheck="false">`
  }`
}

/** The reason of a decision, and what may be remembered. */
function reasonHtml({ offer }: Approval, suffix: string): Html {
  return html`<label for="reason${suffix}">Reason (optional)</label>
<input id="reason${suffix}" name="reason" maxlength="${MAX_REASON_LENGTH}" autocomplete="off">
${
  offer &&
  html`<p><label><input type="checkbox" name="remember" value="on"> Do not ask again about this tool: the approval then applies for ${rememberText(offer)}, in the session of this caller.</label></p>`
}`
}

/** The fields in which a person changes arguments before approving. */
function editHtml({ approval, pageUser, argumentProblems = {}, typedArguments = {} }: ApprovalPage): string {
  const { editable = [], arguments: given } = approval
  if (editable.length === 0 || !mayEdit(pageUser)) return ''
  const fields = editable.map((name, index) => {
    // Callers choose the names: one may be `constructor`.
    const problem = Object.hasOwn(argumentProblems, name) ? argumentProblems[name] : undefined
    const typed = Object.hasOwn(typedArguments, name) ? typedArguments[name] : undefined
    const text = typed ?? editableText(given[name])
    const about = problem === undefined ? '' : ` aria-invalid="true" aria-describedby="problem-${index}"`
    const rows = Math.min(12, text.split('\n').length + 1)
    // The first line break in a text area is not part of its text.
    return `<label for="argument-${index}">${displayWord(name)}</label>
${problem === undefined ? '' : `<p class="notice" id="problem-${index}">${displayText(problem)}</p>\n`}<textarea id="argument-${index}" name="${escapeHtml(ARGUMENT_PREFIX + name)}" rows="${rows}" spellcheck="false" autocapitalize="none"${about}>
${escapeHtml(text)}</textarea>`
  })
  const isOpen = Object.keys(typedArguments).length > 0
  return `<details${isOpen ? ' open' : ''}>
<summary>Change arguments</summary>
${fields.join('\n')}
<div class="buttons"><button name="verdict" value="${EDITED_VERDICT}">Approve with these arguments</button></div>
</details>`
}

/** Whether a person may change arguments: a program with a token only decides. */
export function mayEdit({ via }: Pick<PageUser, 'via'>): boolean {
  return via !== 'token'
}

/** The names of the fields of arguments begin with this, and the verdict that they belong to. */
export const ARGUMENT_PREFIX = 'argument.'
export const EDITED_VERDICT = 'approved_with_changes'

/** Links to other approvals. */
function navigationHtml({ next }: ApprovalPage): string {
  const other = next === undefined ? '' : `<a href="${encodeURIComponent(next)}">Next pending call</a> · `
  return `<nav aria-label="Pending calls"><p>${other}<a href="../confirm">All pending calls</a></p></nav>`
}

function stopHtml({ stop }: Approval): string {
  if (!stop) return ''
  return `<p class="size">To turn off confirmation for this tool, write <code>${displayWord(stop.write)}</code> under <code>${displayWord(stop.under)}</code> in the configuration.</p>`
}

/** Whether a person made a decision. */
function isSamePerson(decision: Decision, { by, via }: Pick<PageUser, 'by' | 'via'>): boolean {
  return via === 'code' ? isOperator(decision) : decision.by === by
}

function isOperator({ via }: Decision): boolean {
  return via === 'code' || via === 'command_line'
}
