/** The HTML of approvals. Foreign text is escaped and marked. */
import { rememberText } from '../../core/remember.ts'
import { codePointName, escapeHidden, splitHidden } from '../../core/text/escape.ts'
import { escapeHtml } from '../../core/web.ts'
import { type Approval, type Decision, approvedCount } from '../../records/approvals.ts'
import type { Visitor } from './visitors.ts'

/** How long a reason may be, in characters. */
export const MAX_REASON_LENGTH = 1000

interface ApprovalPage {
  readonly approval: Approval
  readonly visitor: Visitor
  /** What a form has to say to be taken. */
  readonly token: string
  /** What was wrong with the form before. */
  readonly problem?: string | undefined
  /** The id of another approval that the visitor may decide. */
  readonly next?: string | undefined
  /** In milliseconds since 1970. */
  readonly now: number
}

/** One approval: what is asked for, and the form to decide it with, or what was decided. */
export function approvalPage(page: ApprovalPage): { readonly title: string; readonly content: string } {
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
<dt>Called by</dt><dd>${displayWord(caller)}</dd>
<dt>Expires</dt><dd>${timeHtml(approval.expiresAt)}${status === 'pending' ? ` (in ${wait(approval.expiresAt - page.now)})` : ''}</dd>
<dt>Approvals</dt><dd>${approvedCount(approval)} of ${approval.needed}${approversHtml(approval)}</dd>
</dl>
<h2>Arguments</h2>
${displayJson(JSON.stringify(approval.arguments, null, 2), 'Arguments')}
${sentHtml(approval)}
${decisionsHtml(approval.decisions)}
${formOf(page)}
${stopHtml(approval)}
${waysOn(page)}`
  return { title, content }
}

/** What is still to be decided by a person. */
export function approvalsPage(
  approvals: readonly Approval[],
  now: number,
): {
  readonly title: string
  readonly content: string
} {
  const title = 'Calls that wait for approval'
  const rows = approvals.map(
    (approval) =>
      `<li><a href="confirm/${encodeURIComponent(approval.id)}">${displayWord(approval.tool)} on ${displayWord(approval.upstream)}</a>
<p class="message">${displayText(approval.message)}</p>
<p class="size">Called by ${displayWord(approval.caller)}, waits for ${wait(now - approval.createdAt)}</p>
<span class="risk ${approval.risk}">${riskText(approval)}</span> · expires ${timeHtml(approval.expiresAt)}</li>`,
  )
  const list = rows.length === 0 ? '<p>There is none that you may decide.</p>' : `<ul>${rows.join('\n')}</ul>`
  return { title, content: `<h1>${title}</h1>\n${list}` }
}

/** Asks for the code the terminal shows. */
export function codePage(problem?: string): { readonly title: string; readonly content: string } {
  const title = 'Who are you?'
  const content = `<h1>${title}</h1>
${problem === undefined ? '' : `<p class="notice" role="alert">${displayText(problem)}</p>`}
<p>Type the code that <code>gatehouse serve</code> printed in its terminal when it started.</p>
<form method="post">
<label for="code">Code (XXXX-XXXX)</label>
<input id="code" name="code" required autofocus autocomplete="off" autocapitalize="characters" spellcheck="false">
<div class="buttons"><button class="approve">Go on</button></div>
</form>`
  return { title, content }
}

/** Asks a person to sign in. */
export function signInPage({
  link,
  hasPasswords,
}: {
  readonly link: string
  readonly hasPasswords: boolean
}): {
  readonly title: string
  readonly content: string
} {
  const title = 'Who are you?'
  const other = hasPasswords ? '\n<p><a href="?sign-in">Use a name and password</a></p>' : ''
  const content = `<h1>${title}</h1>
<p>To see this page, sign in where your tokens are issued.</p>
<p><a rel="noreferrer" href="${escapeHtml(link)}">Sign in</a></p>${other}`
  return { title, content }
}

/** Says why something cannot be shown or done. */
export function refusalPage(
  title: string,
  lines: readonly string[],
): { readonly title: string; readonly content: string } {
  const content = lines.map((line) => `<p>${displayText(line)}</p>`).join('\n')
  return { title, content: `<h1>${escapeHtml(title)}</h1>\n${content}` }
}

const titles: Readonly<Record<Approval['status'], string>> = {
  pending: 'Approve this call?',
  approved: 'Approved',
  denied: 'Denied',
  used: 'The call was made',
}

const risks: Readonly<Record<Approval['risk'], string>> = {
  safe: 'Safe: it changes nothing',
  reversible: 'Write: it changes something',
  destructive: 'Destructive: what it changes may be lost for good',
}

/** What is lost is not said of what the configuration can undo. */
function riskText({ risk, isUndoable }: Pick<Approval, 'risk' | 'isUndoable'>): string {
  return risk === 'destructive' && isUndoable
    ? 'Destructive: it removes or overwrites something; the configuration says how it is undone'
    : risks[risk]
}

const proofs: Readonly<Record<Decision['via'], string>> = {
  sign_in: 'signing in',
  password: 'a password',
  code: 'the code of the terminal',
  token: 'a token',
  command_line: 'the command line',
}

function approversHtml({ approvers }: Approval): string {
  return approvers.length === 0 ? '' : `, by ${approvers.map(displayWord).join(', ')}`
}

function sentHtml({ sent }: Approval): string {
  if (sent === undefined) return ''
  return `<h2>Arguments as they were sent</h2>
<p>The server gets this text, which says more than the values above: digits that get lost, or a name twice.</p>
${displayJson(sent, 'Arguments as they were sent')}`
}

function decisionsHtml(decisions: readonly Decision[]): string {
  if (decisions.length === 0) return ''
  const rows = decisions.map(({ by, via, verdict, at, reason, remember }) => {
    const why = reason === undefined ? '' : `<br>${displayWord(reason)}`
    return `<li><strong>${verdict === 'approved' ? 'Approved' : 'Denied'}</strong> by ${displayWord(by)}, known by ${proofs[via]}, ${timeHtml(at)}${remember ? ', also for calls of this tool that follow' : ''}${why}</li>`
  })
  return `<h2>Decisions</h2>\n<ul>${rows.join('\n')}</ul>`
}

function formOf({ approval, visitor, token }: ApprovalPage): string {
  const { status, typed, offer, decisions, needed } = approval
  const isPerson = visitor.via === 'code' ? isOperator : (each: Decision) => each.by === visitor.by
  if (status === 'approved') return '<p>The call runs when it is made again, once.</p>'
  if (status !== 'pending') return ''
  if (decisions.some(isPerson)) return `<p>You have approved it. It takes ${needed} people in all.</p>`
  const field =
    typed === undefined
      ? ''
      : `<label for="typed">To approve, type <code>${displayWord(typed)}</code></label>
<input id="typed" name="typed" required autocomplete="off" autocapitalize="none" spellcheck="false">`
  const box = offer
    ? `<p><label><input type="checkbox" name="remember" value="on"> Do not ask again about this tool: the answer then holds for ${rememberText(offer)}, in the session of this caller.</label></p>`
    : ''
  // Enter in a field presses the first button, which therefore does nothing: a decision is a choice.
  return `<form method="post">
<button hidden disabled></button>
<input type="hidden" name="token" value="${escapeHtml(token)}">
${field}
<label for="reason">Reason (optional)</label>
<input id="reason" name="reason" maxlength="${MAX_REASON_LENGTH}" autocomplete="off">
${box}
<div class="buttons">
<button name="verdict" value="denied" formnovalidate>Deny</button>
<button class="approve" name="verdict" value="approved">Approve</button>
</div>
</form>
<p class="size">You decide as ${displayWord(visitor.by)}, known by ${proofs[visitor.via]}.</p>`
}

/** Where to go from here. */
function waysOn({ next }: ApprovalPage): string {
  const other = next === undefined ? '' : `<a href="${encodeURIComponent(next)}">Next call that waits</a> · `
  return `<nav aria-label="Calls that wait"><p>${other}<a href="../confirm">All calls that wait</a></p></nav>`
}

function stopHtml({ stop }: Approval): string {
  if (!stop) return ''
  return `<p class="size">To be asked about this tool no more, write <code>${displayWord(stop.write)}</code> under <code>${displayWord(stop.under)}</code> in the configuration.</p>`
}

function isOperator({ via }: Decision): boolean {
  return via === 'code' || via === 'command_line'
}

function timeHtml(at: number): string {
  const text = new Date(at).toISOString()
  return `<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`
}

function wait(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000)
  if (minutes < 1) return 'less than a minute'
  if (minutes < 120) return `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
  return `${Math.floor(minutes / 60)} hours`
}

const string = /"[^"\\]*(?:\\.[^"\\]*)*"/g

/** A text as HTML that hides nothing: characters that cannot be seen are named. */
export function displayText(text: string): string {
  return splitHidden(text)
    .map((part) => (part.isHidden ? `<mark>${codePointName(part.text)}</mark>` : escapeHtml(part.text)))
    .join('')
}

/** A short text as above, which does not move what stands around it, whatever direction it is written in. */
function displayWord(text: string): string {
  return `<bdi>${displayText(text)}</bdi>`
}

/** JSON in HTML, with a word on how much of it there is. */
export function displayJson(text: string, label: string): string {
  const lines = text.split('\n').length
  const isLong = lines > 15 || text.length > 500
  const size = `${lines} ${lines === 1 ? 'line' : 'lines'}, ${text.length} characters${isLong ? ': scroll in the box to see all' : ''}.`
  return `<pre tabindex="0" role="region" aria-label="${escapeHtml(label)}">${isolated(escapeHidden(text))}</pre>
<p class="size">${size}</p>`
}

// Strings written from right to left would otherwise move the signs between them.
function isolated(json: string): string {
  let html = ''
  let at = 0
  for (const { 0: found, index } of json.matchAll(string)) {
    html += `${escapeHtml(json.slice(at, index))}<bdi>${escapeHtml(found)}</bdi>`
    at = index + found.length
  }
  return html + escapeHtml(json.slice(at))
}
