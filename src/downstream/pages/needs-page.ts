/**
 * `/console/needs`: what needs a person, each with what to do next. Calls that wait for approval are decided here; people who
 * only decide see nothing else.
 */
import { GatewayError } from '../../core/error.ts'
import { asObject } from '../../core/json/json.ts'
import { displayCall } from '../../core/masked-arguments.ts'
import { countText } from '../../core/text/words.ts'
import { isoTime } from '../../core/time/waiting.ts'
import type { Action } from '../../records/actions.ts'
import { type Approval, approvalView, mayDecide } from '../../records/approvals.ts'
import type { PauseState } from '../../records/pause.ts'
import { stepsInDoubt, type StoredTransaction, type Transaction } from '../../records/transactions.ts'
import { acknowledged, rollingBackAgain, rollingBackByForce } from '../../records/transitions.ts'
import { approvalItem } from './approval-page.ts'
import { carryOut, type Deciding, formOf } from './approvals.ts'
import type { ConsoleAction, ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import {
  agoHtml,
  displayText,
  displayWord,
  html,
  type Html,
  type HtmlPart,
  linesHtml,
  spanText,
} from './html.ts'
import { type FormFields, textField } from './page-entry.ts'
import { hasRole, type PageUser } from './page-users.ts'

/** What needs a person, and what is done about it. What cannot be read in time is undefined. */
export interface NeedsSource extends Deciding {
  /** `isFresh` reads all of it now: something was done, maybe at another gateway. */
  needs(user: PageUser, isFresh?: boolean): Promise<Needs>
  /** The input schema of a tool; undefined if it is not known. */
  inputSchema(upstream: string, tool: string): Promise<unknown>
  /** @throws RESOURCE_NOT_FOUND, TRANSACTION_CONFLICT */
  changeTransaction(key: string, transition: (before: Transaction) => Transaction): Promise<Transaction>
  /** Records that a person found out what became of an action. */
  acknowledge(key: string, by: string): Promise<void>
  /** The URL where the page user signs in to a server. @throws SERVER_UNAVAILABLE, RESOURCE_NOT_FOUND */
  beginSignIn(server: string, user: PageUser): Promise<string>
}

/** What needs a page user. */
export interface Needs {
  /** The calls that the page user may decide, the oldest first. */
  readonly approvals: readonly Approval[] | undefined
  /** Those that need attention. */
  readonly transactions: readonly StoredTransaction[] | undefined
  readonly doubts: readonly Doubt[] | undefined
  readonly servers: readonly ServerNeeds[]
}

/** A call of which nobody knows whether it took effect. Times are milliseconds since 1970. */
export interface Doubt {
  readonly caller: string
  readonly upstream: string
  readonly tool: string
  readonly at: number
  /** The record of what it did, which a person can settle; without one, the gateway forgets it by itself. */
  readonly action?: Action
  /** Its idempotency key is known, so that an equal call finds it. */
  readonly isKeyed?: true
}

/** What one server needs, and what is worth knowing of it. */
export interface ServerNeeds {
  readonly name: string
  /** Why it cannot be reached, and since when, in milliseconds since 1970. */
  readonly problem?: string | undefined
  readonly since?: number | undefined
  /** Whether the page user has to sign in. */
  readonly needsSignIn: boolean
  readonly isDrained: boolean
  /** The tools that are not as they were accepted. */
  readonly unaccepted: readonly (readonly [tool: string, change: 'new' | 'changed'])[]
  /** Whether those are held: neither listed nor called. */
  readonly isHolding: boolean
  /** Its last change that may break clients, if that is recent. */
  readonly broken?:
    | { readonly version: string; readonly at: number; readonly changes: readonly string[] }
    | undefined
  readonly findings: readonly string[]
}

/** How many things of each kind need the page user; undefined if none is known of, and not everything could be read. */
export function needsKinds(needs: Needs): NeedsKinds | undefined {
  const { approvals = [], transactions = [], doubts = [], servers } = needs
  const kinds = {
    approval: approvals,
    'unavailable server': servers.filter(({ problem }) => problem !== undefined),
    'sign-in': servers.filter(({ needsSignIn }) => needsSignIn),
    'changed server': servers.filter(({ unaccepted }) => unaccepted.length > 0),
    transaction: transactions,
    'doubtful outcome': doubts.filter(({ action }) => action !== undefined),
  }
  const found = Object.entries(kinds).flatMap(([kind, { length }]) =>
    length > 0 ? [[kind, length] as const] : [],
  )
  const isComplete = needs.approvals && needs.transactions && needs.doubts
  return found.length > 0 || isComplete ? found : undefined
}

/** The kinds of things that need somebody, and how many there are of each. */
export type NeedsKinds = readonly (readonly [kind: string, count: number])[]

/** How many things that is; undefined if that is not known. */
export function needsCount(kinds: NeedsKinds | undefined): number | undefined {
  return kinds?.reduce((sum, [, count]) => sum + count, 0)
}

/** A text that differs once something else needs somebody. */
export function needsVersion({ approvals, transactions, doubts, servers }: Needs): string {
  return JSON.stringify([
    approvals?.map(({ id, decisions, mustRepeat }) => [id, decisions.length, mustRepeat]),
    transactions?.map(({ key, transaction }) => [key, transaction.status, transaction.compensations.length]),
    doubts?.map(({ at, tool }) => [at, tool]),
    servers,
  ])
}

/** The page. */
export function needsPage(source: NeedsSource): ConsolePage {
  return {
    path: '/console/needs',
    title: 'Needs you',
    place: 'Needs you',
    hasCount: true,
    roles: ['viewer', 'approver'],
    topics: ['needs'],
    answer: (request) => answered(source, request),
    actions: {
      decide: decideAction(source),
      sign_in: {
        role: 'viewer',
        run: async ({ user }, fields) => ({
          location: await source.beginSignIn(required(fields, 'server'), user),
        }),
      },
      roll_back: transactionAction(source, 'rollback', () => rollingBackAgain()),
      overwrite: transactionAction(source, 'rollback', ({ by }) => rollingBackByForce(`operator ${by}`)),
      acknowledge: transactionAction(source, 'ack', ({ by }, now) => acknowledged(by, now)),
      settle: {
        role: 'operator',
        done: 'It is marked as checked.',
        order: (_, fields) => ({ order: 'ack', action: textField(fields, 'key') ?? '' }),
        run: async ({ user }, fields) => {
          await source.acknowledge(required(fields, 'key'), user.by)
          return undefined
        },
      },
    },
  }
}

function required(fields: FormFields, name: string): string {
  const value = textField(fields, name)
  if (value !== undefined && value !== '') return value
  throw new GatewayError('INVALID_INPUT', `${name} is required.`, { field: name })
}

/** What is wrong with a decision that was submitted. */
interface Problem {
  readonly approval: string
  readonly text: string
}

function decideAction(source: NeedsSource): ConsoleAction {
  return {
    role: 'approver',
    done: 'Your decision is recorded.',
    run: async (request, fields) => {
      const { user } = request
      const approval = await source.approvals().find(required(fields, 'id'))
      if (!approval) throw new GatewayError('RESOURCE_NOT_FOUND', 'The time to decide this call is over.')
      if (!mayDecide(approval, user))
        throw new GatewayError('PERMISSION_DENIED', 'You may not decide this call.')
      const { decide, inputSchema } = source
      const form = formOf(fields)
      const { problem } = await carryOut(approval, { pageUser: user, form, decide, inputSchema })
      if (problem === undefined) return undefined
      return { ...(await answered(source, request, { approval: approval.id, text: problem })), status: 400 }
    },
  }
}

function transactionAction(
  source: NeedsSource,
  order: 'rollback' | 'ack',
  transition: (user: PageUser, now: number) => (before: Transaction) => Transaction,
): ConsoleAction {
  return {
    role: 'operator',
    done:
      order === 'ack'
        ? 'It is marked as handled.'
        : 'The gateway undoes the steps now. It stays here if that fails.',
    order: (_, fields) => ({ order, transaction: textField(fields, 'transaction') ?? '' }),
    run: async ({ user, now }, fields) => {
      await source.changeTransaction(required(fields, 'key'), transition(user, now))
      return undefined
    },
  }
}

async function answered(
  source: NeedsSource,
  request: ConsoleRequest,
  problem?: Problem,
): Promise<ConsoleAnswer> {
  const needs = await source.needs(request.user, request.query.has('done'))
  return {
    content: () => content(needs, request, { problem, pauseFor: source.pauseFor }),
    json: () => needsView(needs),
  }
}

interface Around {
  readonly problem: Problem | undefined
  readonly pauseFor: NeedsSource['pauseFor']
}

function content(needs: Needs, request: ConsoleRequest, { problem, pauseFor }: Around): Html {
  const isViewer = hasRole(request.user, 'viewer')
  const { approvals, transactions, doubts, servers } = needs
  const sections = [
    section(
      'Calls that wait for approval',
      approvals?.map((approval) =>
        approvalOf(approval, request, { problem, pause: pauseFor(approval.upstream) }),
      ),
    ),
    ...(isViewer
      ? [
          section(
            'Servers',
            servers.flatMap((server) => serverItems(server, request)),
          ),
          section(
            'Transactions that need attention',
            transactions?.map((each) => transactionItem(each, request)),
          ),
          section(
            'Outcomes in doubt',
            doubts?.map((each) => doubtItem(each, request)),
          ),
        ]
      : []),
  ]
  const count = needsCount(needsKinds(needs))
  const isEmpty = sections.every((each) => each === undefined)
  return html`<h1>Needs you</h1>
<div id="needs" data-live="needs">
<p class="lead">${leadText(count)}</p>
${isEmpty && html`<div class="calm"><p>${checkMark} All is well.</p><p class="about">Calls that wait for approval, transactions that could not be undone, outcomes in doubt, sign-ins, and servers that are away appear here.</p></div>`}
${sections}
${isViewer && knowledge(servers, request)}
</div>`
}

function leadText(count: number | undefined): string {
  if (count === undefined) return 'It is not known what needs you.'
  if (count === 0) return 'Nothing needs you now.'
  return `${countText(count, 'thing')} ${count === 1 ? 'waits' : 'wait'} for you.`
}

const checkMark = html`<svg aria-hidden="true" viewBox="0 0 24 24"><path d="M20 6 9 17l-5-5"/></svg>`

/** A section with items; undefined if there are none. Items that cannot be read in time are undefined. */
function section(title: string, items: readonly Html[] | undefined): Html | undefined {
  const id = title.toLowerCase().replaceAll(' ', '-')
  if (items?.length === 0) return undefined
  const list = items
    ? html`<ul class="items">${items.map((item) => html`<li class="item">${item}</li>`)}</ul>`
    : html`<p class="notice">They cannot be shown now: the store does not respond.</p>`
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${title}${items && html` <span class="count">${items.length}</span>`}</h2>
${list}</section>`
}

function approvalOf(
  approval: Approval,
  { user, tokenField, root, now }: ConsoleRequest,
  { problem, pause }: { readonly problem: Problem | undefined; readonly pause: PauseState | undefined },
): Html {
  return approvalItem({
    approval,
    pause,
    pageUser: user,
    now,
    root,
    ...(problem?.approval === approval.id && { problem: problem.text }),
    hidden: html`${tokenField}<input type="hidden" name="action" value="decide"><input type="hidden" name="id" value="${approval.id}">`,
  })
}

/** A form with one button. */
function buttonForm(
  { tokenField }: ConsoleRequest,
  label: string,
  fields: Readonly<Record<string, string>>,
  kind = '',
): Html {
  const hidden = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  return html`<form method="post">${tokenField}${hidden}<button class="${kind}">${label}</button></form>`
}

function serverItems(server: ServerNeeds, request: ConsoleRequest): readonly Html[] {
  const { name, problem, since, needsSignIn, unaccepted, isHolding } = server
  const link = html`<a href="${request.root}console/servers/${encodeURIComponent(name)}">${displayWord(name)}</a>`
  const items: (Html | false)[] = [
    problem !== undefined &&
      html`<h3>${link} <span class="state unavailable">unavailable</span></h3>
<p>${problem}</p>
${since !== undefined && html`<p class="facts"><span>For ${spanText(request.now - since)}</span></p>`}
<p class="next">The gateway keeps trying. Its page shows what it wrote last, and finds out which step fails.</p>`,
    needsSignIn &&
      html`<h3>${link} <span class="mark asked">needs your sign-in</span></h3>
<p class="next">Your calls of this server use an account of yours. Sign in, and they go on.</p>
<div class="acts">${buttonForm(request, `Sign in to ${name}`, { action: 'sign_in', server: name }, 'main')}</div>`,
    unaccepted.length > 0 &&
      html`<h3>${link} <span class="mark ${isHolding ? 'destructive' : 'reversible'}">${countText(unaccepted.length, 'tool')} ${isHolding ? 'held' : 'not as accepted'}</span></h3>
<p>${listed(unaccepted.map(([tool, change]) => html`<code>${displayWord(tool)}</code> is ${change === 'new' ? 'new' : 'another one than was accepted'}`))}</p>
<p class="next"><code>gatehouse accept ${name}</code> shows how they differ, and asks whether to accept them.</p>`,
  ]
  return items.filter((item) => item !== false)
}

/** How many names are listed at once. */
const MAX_LISTED = 20

function listed(items: readonly HtmlPart[]): Html {
  const shown = items.slice(0, MAX_LISTED).map((item, index) => html`${index > 0 && ', '}${item}`)
  return html`${shown}${items.length > MAX_LISTED && ` and ${items.length - MAX_LISTED} more`}`
}

function transactionItem({ key, transaction }: StoredTransaction, request: ConsoleRequest): Html {
  const { id, principal, status, description, endedAt, startedAt, compensations, retry } = transaction
  const isOperator = hasRole(request.user, 'operator')
  const notUndone = compensations.filter((each) => each.status === 'compensation_failed')
  const lines = notUndone.flatMap(({ step, error }) => {
    const { difference } = asObject(error?.details)
    const changed = Array.isArray(difference) ? difference.map(String) : []
    return [
      `${step}: ${typeof error?.message === 'string' ? error.message : 'not undone'}`,
      ...changed.map((line) => `  ${line}`),
    ]
  })
  const doubtful = stepsInDoubt(transaction).map(
    ({ id: step, tool }) => `${step}: unknown whether ${tool} took effect`,
  )
  const fields = { key, transaction: id }
  const isChangedByOthers = notUndone.some(({ error }) => Array.isArray(asObject(error?.details).difference))
  return html`<h3><code>${displayWord(id)}</code> <span class="mark destructive">${status === 'committed' ? 'outcome unknown' : 'not all undone'}</span></h3>
${description !== undefined && html`<p>${displayWord(description)}</p>`}
<p class="facts"><span>Of ${displayWord(principal.id)}</span> <span>${agoHtml(endedAt ?? startedAt, request.now)}</span>
${retry && html`<span>The gateway tries again in ${spanText(retry.at - request.now)}</span>`}</p>
${lines.length + doubtful.length > 0 && linesHtml([...lines, ...doubtful].join('\n'), 'What was not undone')}
<p class="next">${status === 'committed' ? 'Find out on the server whether the step took effect.' : 'Try again, or undo by hand what is listed.'} Then mark it as handled.</p>
${
  isOperator &&
  html`<div class="acts">
${status === 'partially_rolled_back' && buttonForm(request, 'Try again', { action: 'roll_back', ...fields }, 'main')}
${isChangedByOthers && buttonForm(request, 'Undo anyway, over the changes of others', { action: 'overwrite', ...fields })}
${buttonForm(request, 'Mark as handled', { action: 'acknowledge', ...fields })}
</div>`
}`
}

function doubtItem({ caller, upstream, tool, at, action, isKeyed }: Doubt, request: ConsoleRequest): Html {
  const call = action ? displayCall(action.tool, action.arguments, action) : tool
  const canUndo = action?.way.kind === 'exact' || action?.way.kind === 'approximate'
  return html`<h3><code>${displayWord(call)}</code></h3>
<p class="facts"><span>On ${displayWord(upstream)}</span> <span>Called by ${displayWord(caller)}</span> <span>${agoHtml(at, request.now)}</span></p>
<p class="next">The answer was lost, so the call may have taken effect or not: find out on the server.
${isKeyed && ' An equal call with its idempotency key gets the outcome once it is known.'}
${canUndo && html` If it did, <code>gatehouse undo</code> can take it back.`}</p>
${
  action &&
  hasRole(request.user, 'operator') &&
  html`<div class="acts">${buttonForm(request, 'I have checked it', { action: 'settle', key: action.key })}</div>`
}`
}

/** What needs nobody, but is worth knowing. */
function knowledge(servers: readonly ServerNeeds[], { root, now }: ConsoleRequest): Html | false {
  const rows = servers.flatMap(({ name, problem, isDrained, broken, findings }) => {
    const link = html`<a href="${root}console/servers/${encodeURIComponent(name)}">${displayWord(name)}</a>`
    return [
      isDrained && html`<li>${link} is drained: it takes no calls.</li>`,
      broken &&
        html`<li>${link} changed in a way that may break clients, ${agoHtml(broken.at, now)} (version ${broken.version}): ${listed(broken.changes.map((change) => displayText(change)))}</li>`,
      problem === undefined &&
        findings.length > 0 &&
        html`<li>${link}: ${countText(findings.length, 'finding')} in what it lists, such as “${displayWord(findings[0] ?? '')}”</li>`,
    ].filter((each) => each !== false && each !== undefined)
  })
  return (
    rows.length > 0 &&
    html`<section aria-labelledby="worth-knowing"><h2 id="worth-knowing">Worth knowing</h2><ul class="notes">${rows}</ul></section>`
  )
}

/** The same for programs. */
function needsView({ approvals, transactions, doubts, servers }: Needs): object {
  return {
    approvals: approvals?.map(approvalView) ?? null,
    transactions:
      transactions?.map(({ key, transaction: { id, status, principal } }) => {
        return { key, id, status, caller: principal.id }
      }) ?? null,
    doubts:
      doubts?.map(({ caller, upstream, tool, at, action }) => {
        return { caller, server: upstream, tool, at: isoTime(at), ...(action && { key: action.key }) }
      }) ?? null,
    servers: servers.map(({ name, problem, needsSignIn, isDrained, unaccepted, isHolding, findings }) => ({
      name,
      problem,
      needs_sign_in: needsSignIn,
      drained: isDrained,
      unaccepted: Object.fromEntries(unaccepted),
      held: isHolding,
      findings,
    })),
  }
}
