/**
 * The pages that take calls back: a point in time is chosen, the plan says what can be undone, in which order, what cannot and
 * why, and what somebody else changed since; then exactly that plan is carried out, and its progress shown.
 */
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { displayCall } from '../../core/masked-arguments.ts'
import { countText } from '../../core/text/words.ts'
import type { ActionFilter } from '../../records/actions.ts'
import {
  type Chosen,
  chosenView,
  isToBeUndone,
  type PlanChange,
  rewindFilter,
} from '../../records/rewind-plan.ts'
import type { RewindOrder, RewindProgress, UndoneAction } from '../../records/rewinds.ts'
import type { ConsoleAnswer, ConsolePage, ConsoleRequest } from './console.ts'
import { displayWord, html, type Html, linesHtml, timeHtml } from './html.ts'
import { type FormFields, textField } from './page-entry.ts'

/** A plan, in the order in which actions are undone, newest first. */
interface RewindPlan {
  readonly id: string
  readonly actions: readonly Chosen[]
}

/** What plans and carries out; undefined members where transactions or the undo are off. */
interface Rewinding {
  plan(filter: ActionFilter): Promise<RewindPlan>
  carryOut(
    id: string,
    order: RewindOrder,
  ): Promise<{ readonly id: string } | { readonly plan: RewindPlan; readonly changes: readonly PlanChange[] }>
  progress(id: string): Promise<RewindProgress | undefined>
}

export interface RewindOptions {
  /** Undefined where undoing is off. */
  rewinding(): Rewinding | undefined
  /** The names of the servers. */
  servers(): readonly string[]
}

/** `/console/rewind` and `/console/rewind/:id`. */
export function rewindPages(options: RewindOptions): readonly ConsolePage[] {
  return [
    {
      path: '/console/rewind',
      title: 'Rewind',
      place: 'Rewind',
      roles: ['operator'],
      width: 'wide',
      answer: async (request) => formAnswer(request, options),
      actions: {
        plan: {
          role: 'operator',
          run: (request, fields) => planned(request, fields, options),
        },
        carry_out: {
          role: 'operator',
          // Audited as an order for each caller, with what is left.
          run: (request, fields) => carriedOut(request, fields, options),
        },
      },
    },
    {
      path: '/console/rewind/:id',
      title: 'Rewind',
      roles: ['operator'],
      topics: ['rewinds'],
      width: 'wide',
      answer: (request) => progressAnswer(request, options),
    },
  ]
}

function required({ rewinding }: RewindOptions): Rewinding {
  const found = rewinding()
  if (found) return found
  throw new GatewayError(
    'UNSUPPORTED_OPERATION',
    'Undoing is off: see `transactions` and `undo` in the configuration.',
  )
}

// A point in time.

function formAnswer(request: ConsoleRequest, options: RewindOptions): ConsoleAnswer {
  required(options)
  return { content: () => formHtml(request, options), json: () => ({ actions: ['plan', 'carry_out'] }) }
}

function formHtml(request: ConsoleRequest, { servers }: RewindOptions, problem?: string): Html {
  const { root, tokenField, query } = request
  const from = query.get('from') ?? ''
  return html`<h1>Rewind</h1>
    <p>Choose a point in time. You then see what can be undone since, and nothing is undone before you say so.</p>
    ${problem !== undefined && html`<p class="notice" role="alert">${problem}</p>`}
    <form class="search" method="post" action="${root}console/rewind">
      ${tokenField}<input type="hidden" name="action" value="plan" />
      <input type="hidden" name="from" value="${from}" />
      ${
        from === ''
          ? html`<div><label for="since">Since</label><input id="since" name="since" required autocomplete="off" spellcheck="false" value="${query.get('since') ?? '1h'}" aria-describedby="since-help" /></div>`
          : html`<p>To right before the chosen call. <a href="${root}console/rewind">Choose a time instead</a></p>`
      }
      <div><label for="server">Server</label><select id="server" name="server"><option value="">all</option>${servers().map((name) => html`<option>${name}</option>`)}</select></div>
      <button class="main">Show the plan</button>
    </form>
    <p id="since-help" class="size">A duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z.</p>`
}

// The plan.

async function planned(
  request: ConsoleRequest,
  fields: FormFields,
  options: RewindOptions,
): Promise<ConsoleAnswer> {
  const [since, from, upstream] = ['since', 'from', 'server'].map((name) => textField(fields, name))
  const filter = rewindFilter({ since, from, upstream }, request.now)
  try {
    if (!filter) throw new GatewayError('INVALID_INPUT', UNREADABLE_TIME, { field: 'since' })
    return planAnswer(await required(options).plan(filter), request)
  } catch (error) {
    const problem = asGatewayError(error)
    if (problem.code !== 'INVALID_INPUT') throw error
    return {
      content: () => formHtml(request, options, problem.message),
      json: () => {
        throw problem
      },
      status: 400,
    }
  }
}

const UNREADABLE_TIME = 'Give a duration such as 10m or 2h, or a time such as 2026-11-21T10:00Z.'

function planAnswer(
  plan: RewindPlan,
  request: ConsoleRequest,
  changes: readonly PlanChange[] = [],
): ConsoleAnswer {
  return {
    title: 'Plan of the rewind',
    content: () => planHtml(plan, request, changes),
    json: () => ({
      id: plan.id,
      actions: plan.actions.map(chosenView),
      changes: changes.map(({ text }) => text),
    }),
    ...(changes.length > 0 && { status: 409 }),
  }
}

function planHtml(
  { id, actions }: RewindPlan,
  { root, tokenField }: ConsoleRequest,
  changes: readonly PlanChange[],
): Html {
  const undone = actions.filter((each) => isToBeUndone(each))
  const changed = actions.filter(({ present }) => present?.kind === 'changed')
  const cannot = actions.filter(({ how }) => how === 'not at all')
  const button = (label: string, more: Html | false, kind: string): Html =>
    html`<form method="post" action="${root}console/rewind">${tokenField}<input type="hidden" name="action" value="carry_out" /><input type="hidden" name="plan" value="${id}" />${more}<button class="${kind}">${label}</button></form>`
  return html`<h1>Plan of the rewind</h1>
    ${changes.length > 0 && html`<div class="notice" role="alert"><p>The plan has changed since it was shown, so nothing was done. This is the plan now.</p><ul>${changes.map(({ text }) => html`<li>${text}</li>`)}</ul></div>`}
    <p><strong>${undone.length}</strong> of ${countText(actions.length, 'action')} will be undone, in this order.
    ${cannot.length > 0 && html`${countText(cannot.length, 'action')} cannot be undone. `}${changed.length > 0 && html`${countText(changed.length, 'action')} would overwrite what somebody else changed since, and stay as they are.`}</p>
    <div class="buttons">
      ${undone.length > 0 && button(`Undo ${undone.length === 1 ? 'this action' : `these ${undone.length} actions`}`, false, 'main')}
      ${changed.length > 0 && button('Undo also what others changed since', html`<input type="hidden" name="force" value="on" />`, 'stop')}
      <a class="button" href="${root}console/rewind">Choose another time</a>
    </div>
    ${actions.length === 0 ? html`<p>Nothing was changed since.</p>` : html`<ol class="plan">${actions.map(actionHtml)}</ol>`}`
}

const presents: Readonly<Record<NonNullable<Chosen['present']>['kind'], string>> = {
  as_left: 'as it was left',
  changed: 'changed by somebody else since',
  unknown: 'cannot tell whether somebody else changed it since',
}

function actionHtml(chosen: Chosen): Html {
  const { action, how, why, present } = chosen
  const { tool, upstream, startedAt, principal } = action
  const kind = how === 'not at all' ? 'cannot' : present?.kind === 'changed' ? 'changed' : 'undone'
  return html`<li class="${kind}"><code class="name">${displayCall(tool, action.arguments, action)}</code> <span class="about">on ${displayWord(upstream)}, by ${displayWord(principal.id)}, ${timeHtml(startedAt)}</span>
    <span class="marks"><span class="mark ${kind}">${how === 'not at all' ? 'cannot be undone' : `can be undone ${how}`}</span>${present && html`<span class="mark ${kind}">${presents[present.kind]}</span>`}</span>
    ${why !== undefined && html`<span class="reason">${why}</span>`}
    ${present?.kind === 'unknown' && html`<span class="reason">${present.why}</span>`}
    ${present?.kind === 'changed' && linesHtml(present.difference.join('\n'), 'What somebody else changed')}</li>`
}

// What becomes of it.

async function carriedOut(
  request: ConsoleRequest,
  fields: FormFields,
  options: RewindOptions,
): Promise<ConsoleAnswer> {
  const { user } = request
  const force = textField(fields, 'force') === 'on'
  const order = { by: user.by, via: user.via, ...(force && { force }) }
  const begun = await required(options).carryOut(textField(fields, 'plan') ?? '', order)
  if ('plan' in begun) return planAnswer(begun.plan, request, begun.changes)
  return { json: () => begun, content: () => html``, redirect: `rewind/${begun.id}` }
}

async function progressAnswer(
  { params, root }: ConsoleRequest,
  options: RewindOptions,
): Promise<ConsoleAnswer> {
  const progress = await required(options).progress(params['id'] ?? '')
  if (!progress) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such rewind any more.')
  return {
    content: () => progressHtml(progress, root),
    json: () => ({ id: progress.rewind.id, status: progress.rewind.status, actions: progress.actions }),
  }
}

const outcomes: Readonly<Record<UndoneAction['outcome'], string>> = {
  undone: 'undone',
  not_undone: 'not undone',
  left: 'left as it is',
  cannot: 'cannot be undone',
  waiting: 'waits',
}

function progressHtml({ rewind, actions }: RewindProgress, root: string): Html {
  const isOver = rewind.status === 'ended'
  const undone = actions.filter(({ outcome }) => outcome === 'undone').length
  const rows = actions.map(
    ({
      action,
      outcome,
      error,
      difference,
      state,
    }) => html`<li class="${outcome}"><code class="name">${displayWord(action.tool)}</code> <span class="about">on ${displayWord(action.upstream)}, ${timeHtml(action.startedAt)}</span>
      <span class="marks"><span class="mark ${outcome}">${outcomes[outcome]}</span>${state !== undefined && html`<span class="mark">${state === 'old' ? 'the state is the old one' : state === 'other' ? 'the state is another one' : 'cannot tell what the state is'}</span>`}</span>
      ${error !== undefined && html`<span class="reason">${error}</span>`}
      ${difference && linesHtml(difference.join('\n'), 'What somebody else changed')}</li>`,
  )
  return html`<h1>Rewind</h1>
    <div id="progress"${!isOver && html` data-live="rewinds"`}>
      <p role="status">${undone} of ${countText(actions.length, 'action')} undone. ${isOver ? 'The rewind has ended.' : 'The rewind is going on: load this page again to see more.'}</p>
      <ol class="plan">${rows}</ol>
    </div>
    <p><a href="${root}console">Timeline</a></p>`
}
