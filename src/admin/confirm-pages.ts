import type { HttpBindings } from '@hono/node-server'
import type { Hono } from 'hono'
import type { ApprovalStep } from '../core/approval-step.ts'
import type { AuthSettings } from '../core/auth-settings.ts'
import { cookieText } from '../core/cookie.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { isFromHere } from '../core/from-here.ts'
import type { Log } from '../core/log.ts'
import type { Principal } from '../core/principal.ts'
import type { Settings } from '../core/settings.ts'
import { mayDecide } from '../records/approval-decision.ts'
import { type Approval, type Approvals, createApprovals } from '../records/approvals.ts'
import { approvalView } from '../records/approval-view.ts'
import type { Store } from '../store/store.ts'
import { answerJson, answerPage, type Asking, isProgram } from './answers.ts'
import { approvalPage, approvalsPage, codePage, refusalPage, signInPage } from './approval-page.ts'
import { decide, type Shown } from './decide.ts'
import { type Form, readForm } from './form.ts'
import { createFormGuard, notFromHere } from './form-guard.ts'
import type { Operator } from './operator.ts'
import { explain, whoMayDecide } from './refusals.ts'
import { isByCode, type Visitor, visitorOf } from './visitors.ts'

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
