/**
 * The pages and the JSON of approvals: list, decide, sign in. Forms are protected by tokens; programs decide
 * with a bearer token.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Hono, Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { AuthSettings } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { ApprovalStep } from '../../core/events.ts'
import type { Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Settings } from '../../core/settings.ts'
import { cookieText, isFromHere, htmlPage, pageHeaders } from '../../core/web.ts'
import {
  mayDecide,
  type Approval,
  type Approvals,
  createApprovals,
  approvalView,
  isMistyped,
  stepOf,
} from '../../records/approvals.ts'
import type { Store } from '../../store/store.ts'
import { approvalPage, approvalsPage, codePage, refusalPage, signInPage } from './approval-page.ts'
import { type Form, readForm, createFormGuard, notFromHere } from './form.ts'
import { type Operator, isByCode, type Visitor, visitorOf } from './visitors.ts'

// Style and script of the approval pages, inline, with hashes in the content security policy.

/** How the pages of approvals look: in light and dark, down to the width of a phone. */
const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --box: #f3f4f6; --text: #1a1c20; --faint: #555b66; --line: #c9ced6; --link: #0b57b0;
  --safe: #0b6b34; --reversible: #8a4b00; --destructive: #b3161d; --button: #ffffff; --hidden: #ffe08a; --dark: #1a1c20;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15171b; --box: #22252b; --text: #eceef1; --faint: #b0b6c0; --line: #434954; --link: #8ab8ff;
    --safe: #7fd69c; --reversible: #f3b664; --destructive: #ff9c97; --button: #15171b;
  }
}
* { box-sizing: border-box }
[hidden] { display: none !important }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text); overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem }
h2 { font-size: 1rem; margin: 1.5rem 0 .5rem }
a { color: var(--link) }
.message { font-size: 1.125rem; border-left: .25rem solid var(--line); padding-left: .75rem; white-space: pre-wrap }
.risk { font-weight: 600 }
.safe { color: var(--safe) }
.reversible { color: var(--reversible) }
.destructive { color: var(--destructive) }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1rem; margin: 0 }
dt { color: var(--faint) }
dd { margin: 0 }
code, pre { font: .9375rem/1.45 ui-monospace, monospace }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .375rem; margin: 0; max-height: 26rem; overflow: auto; padding: .75rem; white-space: pre-wrap }
mark { background: var(--hidden); border-radius: .2rem; color: var(--dark); padding: 0 .15rem }
.size { color: var(--faint); font-size: .9375rem; margin: .25rem 0 0 }
ul { padding: 0; list-style: none; margin: 0 }
li { border-top: 1px solid var(--line); padding: .75rem 0 }
li a { font-weight: 600; display: inline-block; padding: .5rem 0 }
label { display: block; margin: 1rem 0 .25rem }
input { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--faint); border-radius: .375rem; background: var(--back); color: var(--text) }
input[type='checkbox'] { width: 1.25rem; min-height: 1.25rem; margin: 0 .5rem 0 0; vertical-align: text-bottom }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem }
button { flex: 1 1 8rem; font: inherit; font-weight: 600; min-height: 3rem; padding: .5rem 1rem; border-radius: .375rem; border: 2px solid var(--text); background: var(--back); color: var(--text); cursor: pointer }
.approve { background: var(--text); color: var(--button) }
.notice { border: 2px solid var(--destructive); border-radius: .375rem; padding: .5rem .75rem }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
`

/**
 * Shows the times on the pages of approvals as the clock of the reader has them. Without it they stay in UTC, which
 * they say.
 */
const script = `
'use strict'
{
  const format = new Intl.DateTimeFormat(undefined, {
    year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
  })
  for (const each of document.querySelectorAll('time[datetime]')) {
    each.title = each.textContent
    each.textContent = format.format(new Date(each.dateTime))
  }
}
`

/** What the pages of approvals need of the gateway. */
export interface ConfirmOptions {
  store(): Store
  settings(): Pick<Settings, 'auth' | 'listen'>
  readonly operator: Operator
  /** Where people begin to sign in, who then come to a page; undefined where they do not. */
  signInLink(next: string): string | undefined
  /** Hears of every decision. */
  onDecided(step: ApprovalStep): void
  readonly log: Log
  /** In milliseconds since 1970. */
  now(): number
}

/** Adds the pages on which people approve calls; `enter` tells who has the credentials of a request. */
export function addConfirmPages(
  app: Hono<{ Bindings: HttpBindings }>,
  enter: (context: Asking) => Promise<Principal>,
  options: ConfirmOptions,
): void {
  const { store, settings, operator, signInLink, onDecided, log, now } = options
  const guard = createFormGuard(store)
  const approvals = (): Approvals => createApprovals(store(), now)
  const auth = (): AuthSettings => settings().auth

  const visited = async (
    context: Asking,
    show: (visitor: Visitor) => Promise<Response>,
  ): Promise<Response> => {
    const visitor = await visitorOf(context.env.incoming, () => enter(context), { auth, operator })
    if (visitor) return show(visitor)
    context.header('www-authenticate', `Code realm="${auth().realm}"`)
    if (isProgram(context)) throw new GatewayError('AUTHENTICATION_REQUIRED', BY_CODE)
    return answerPage(context, codePage(), 401)
  }
  const found = async (context: Asking, visitor: Visitor): Promise<Approval> => {
    const id = context.req.param('id') ?? ''
    const approval = await approvals().find(id)
    if (!approval) throw (await approvals().isExpired(id)) ? expired() : unknown()
    if (mayDecide(approval, visitor)) return approval
    throw new GatewayError('PERMISSION_DENIED', whoMayDecide(approval, visitor))
  }
  const decidableBy = async (visitor: Visitor): Promise<readonly Approval[]> =>
    (await approvals().pending()).filter((each) => mayDecide(each, visitor))
  const nextFor = async (visitor: Visitor, { id, createdAt }: Approval): Promise<string | undefined> => {
    const others = (await decidableBy(visitor)).filter((each) => each.id !== id)
    return (others.find((each) => each.createdAt >= createdAt) ?? others[0])?.id
  }
  const show = async (context: Asking, visitor: Visitor, shown: Shown): Promise<Response> => {
    const { approval, problem } = shown
    if (isProgram(context)) {
      if (problem !== undefined) throw new GatewayError('INVALID_INPUT', problem, { field: 'typed' })
      return answerJson(context, approvalView(approval), 200)
    }
    const token = await guard.token(approval.id, visitor)
    const next = await nextFor(visitor, approval)
    const page = approvalPage({ approval, visitor, token, problem, next, now: now() })
    return answerPage(context, page, problem === undefined ? 200 : 400)
  }
  const list = async (context: Asking, visitor: Visitor): Promise<Response> => {
    const own = await decidableBy(visitor)
    if (isProgram(context)) return answerJson(context, { approvals: own.map(approvalView) }, 200)
    return answerPage(context, approvalsPage(own, now()), 200)
  }
  const settle = async (context: Asking, visitor: Visitor, form: Form): Promise<Response> => {
    const approval = await found(context, visitor)
    // A browser sends the credentials it has from wherever it is told to; a header of a program was set by the program.
    const isMeant = isProgram(context)
      ? context.req.header('authorization') !== undefined && visitor.via !== 'code'
      : await guard.isRight(form.token ?? '', approval.id, visitor)
    if (!isMeant) throw notFromHere()
    return show(context, visitor, await decide(approval, { visitor, form, approvals, onDecided }))
  }
  const signIn = (context: Asking, code: string): Response => {
    const value = isByCode(auth()) ? operator.enter(code) : undefined
    if (value === undefined) {
      log.warn('confirm.refused', { reason: 'wrong code' })
      return answerPage(context, codePage('This is not the code.'), 403)
    }
    context.header('set-cookie', operatorCookie(operator, value, settings().listen.publicUrl))
    // Where the browser is, whatever stands before that path there.
    context.header('location', context.req.path.replace(/^.*\//, ''))
    return context.body(null, 303, { 'cache-control': 'no-store' })
  }
  const post = async (context: Asking): Promise<Response> => {
    if (!isFromHere(context.env.incoming.headers, settings().listen.publicUrl)) throw notFromHere()
    const form = await readForm(context)
    if (form.code !== undefined) return signIn(context, form.code)
    return visited(context, (visitor) => settle(context, visitor, form))
  }

  const refused = (context: Asking, thrown: unknown): Response => {
    const error = asGatewayError(thrown)
    const { code, message } = error
    if (code === 'SERVER_ERROR') log.error('confirm.failed', { cause: String(error.cause) })
    else log.warn('confirm.refused', { code, reason: message })
    const { retry_after_seconds: retry } = error.data
    if (typeof retry === 'number') context.header('retry-after', String(retry))
    const status = error.httpStatus
    if (isProgram(context)) return answerJson(context, { error: error.data }, status)
    const isPassword = context.req.query('sign-in') !== undefined
    const link = status === 401 && !isPassword ? signInLink(context.req.path) : undefined
    if (link !== undefined)
      return answerPage(context, signInPage({ link, hasPasswords: auth().users.length > 0 }), status)
    const { title, lines } = explain(status, message, auth())
    return answerPage(context, refusalPage(title, lines), status)
  }
  const refusing =
    (serve: (context: Asking) => Promise<Response>) =>
    (context: Asking): Promise<Response> =>
      serve(context).catch((error: unknown) => refused(context, error))

  app.get(
    '/confirm',
    refusing((context) => visited(context, (visitor) => list(context, visitor))),
  )
  app.get(
    '/confirm/:id',
    refusing((context) =>
      visited(context, async (visitor) =>
        show(context, visitor, { approval: await found(context, visitor) }),
      ),
    ),
  )
  app.post('/confirm', refusing(post))
  app.post('/confirm/:id', refusing(post))
}

const BY_CODE = 'Open this page in a browser and type the code of the terminal, or use gatehouse approvals.'

function operatorCookie(
  { cookie: name, lifetime }: Operator,
  value: string,
  publicUrl: string | undefined,
): string {
  const { pathname, protocol } = new URL(publicUrl ?? 'http://localhost/')
  const path = `${pathname.replace(/\/$/, '')}/confirm`
  return cookieText({ name, value, path, lifetime, isSecure: protocol === 'https:', sameSite: 'Strict' })
}

function unknown(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such approval.')
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'The time to decide this is over.', {
    reason: 'expired',
    status: 410,
  })
}

interface Deciding {
  readonly visitor: Visitor
  readonly form: Form
  approvals(): Approvals
  onDecided(step: ApprovalStep): void
}

/** An approval as it is after a form was sent. */
interface Shown {
  readonly approval: Approval
  /** What was wrong with the form. */
  readonly problem?: string
}

/** Does what a form says. @throws INVALID_INPUT where that is nothing, and what `Approvals.decide` throws */
async function decide(approval: Approval, { visitor, form, approvals, onDecided }: Deciding): Promise<Shown> {
  const { verdict, reason, typed, remember } = form
  if (!verdict)
    throw new GatewayError('INVALID_INPUT', 'The verdict is approved or denied.', { field: 'verdict' })
  if (isMistyped(approval, { verdict, entered: typed }))
    return { approval, problem: 'What was typed is not what had to be typed. Nothing was decided.' }
  const decision = {
    ...visitor,
    verdict,
    ...(reason !== undefined && { reason }),
    ...(remember && { remember }),
  }
  const after = await approvals().decide(approval.id, decision)
  onDecided(stepOf(after, decision))
  return { approval: after }
}

const TERMINAL = 'Whoever operates the gateway can decide with gatehouse approvals.'

/** The page for a request that cannot be served. */
function explain(
  status: number,
  message: string,
  { users }: AuthSettings,
): { readonly title: string; readonly lines: readonly string[] } {
  const title = titles[status] ?? 'This did not work'
  if (status === 401 && users.length === 0) {
    return {
      title,
      lines: [
        'Callers of this gateway are known by tokens, which browsers do not have.',
        'To decide in a browser, set auth.jwt.client_id in the configuration, or add people to auth.basic.',
        TERMINAL,
      ],
    }
  }
  if (status === 404) return { title, lines: [message, 'Repeat the call to request a new approval.'] }
  return { title, lines: [message] }
}

/** Why a person may not decide, and who may. */
function whoMayDecide({ kind, approvers, caller }: Approval, { by, via }: Visitor): string {
  const you = `You are ${by}.`
  if (kind === 'page') {
    const how = via === 'token' ? ', and no token' : ''
    const named = approvers.length === 0 ? '' : ` or one of ${approvers.join(', ')}`
    return `${you} This call takes the person who makes it${named}${how}. ${TERMINAL}`
  }
  if (by === caller) return `${you} Who makes a call does not approve it: it takes another person.`
  return `${you} This call takes ${approvers.length === 1 ? 'the approval of' : 'an approval of'} ${approvers.join(', ')}.`
}

const titles: Readonly<Record<number, string>> = {
  400: 'This cannot be understood',
  401: 'Who are you?',
  403: 'This is not for you to decide',
  404: 'There is nothing to decide',
  405: 'There is nothing to decide',
  409: 'This is decided already',
  410: 'It is too late',
  413: 'This is too long',
  415: 'This cannot be understood',
  429: 'Too many tries',
  503: 'This does not work just then',
}

/** A request for a page. */
type Asking = Context<{ Bindings: HttpBindings }>

/** Whether a program asks, which wants JSON. */
function isProgram({ req }: Asking): boolean {
  if (/^application\/json(?:;|$)/i.test(req.header('content-type') ?? '')) return true
  const accept = req.header('accept') ?? ''
  return accept.includes('application/json') && !accept.includes('text/html')
}

/** Answers a person. */
function answerPage(
  context: Asking,
  { title, content }: { readonly title: string; readonly content: string },
  status: number,
): Response {
  return context.html(
    htmlPage({ title: `${title} · Gatehouse`, style, content: `<main>\n${content}\n</main>`, script }),
    statusOf(status),
    headers,
  )
}

/** Answers a program. */
function answerJson(context: Asking, value: object, status: number): Response {
  return context.body(JSON.stringify(value), statusOf(status), jsonHeaders)
}

const headers = { ...pageHeaders(style, script), vary: 'Accept, Cookie, Authorization' }
const jsonHeaders = {
  'content-type': 'application/json',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  vary: headers.vary,
}

function statusOf(status: number): ContentfulStatusCode {
  const known = statuses.find((each) => each === status)
  return known ?? 500
}

const statuses = [200, 400, 401, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503] as const
