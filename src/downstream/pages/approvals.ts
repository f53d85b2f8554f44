/**
 * The approval pages and their JSON equivalents: list, decide, sign in. Forms are protected against cross-site
 * request forgery by tokens; programs decide with a bearer token.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Hono, Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { AuthSettings } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { ApprovalStep } from '../../core/audit-step.ts'
import type { Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Settings } from '../../core/settings.ts'
import { cookieText, isFromHere, htmlPage, pageHeaders } from '../../core/web.ts'
import {
  mayDecide,
  type Approval,
  isMistyped,
  stepOf,
  Approvals,
  type Decision,
  approvalView,
} from '../../records/approvals.ts'
import { editableText, editProblems, type Edits, isEdit, readEdit } from '../../records/edits.ts'
import type { Store } from '../../store/store.ts'
import type { Bodies } from '../http/body.ts'
import {
  ARGUMENT_PREFIX,
  approvalPage,
  approvalsPage,
  codePage,
  EDITED_VERDICT,
  mayEdit,
  refusalPage,
  signInPage,
  MAX_REASON_LENGTH,
} from './approval-page.ts'
import { type Operator, isByCode, type PageUser, pageUserOf } from './page-users.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { duplicateKey, parseJson, setOwn } from '../../core/json/read.ts'

// Style and script of the approval pages, inline, with hashes in the content security policy.

/** The style of the approval pages: light and dark, down to the width of a phone. */
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
textarea { font: .9375rem/1.45 ui-monospace, monospace; width: 100%; padding: .5rem .75rem; border: 1px solid var(--faint); border-radius: .375rem; background: var(--back); color: var(--text); resize: vertical }
details { margin-top: 1.25rem }
summary { cursor: pointer; padding: .5rem 0 }
input[type='checkbox'] { width: 1.25rem; min-height: 1.25rem; margin: 0 .5rem 0 0; vertical-align: text-bottom }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem }
button { flex: 1 1 8rem; font: inherit; font-weight: 600; min-height: 3rem; padding: .5rem 1rem; border-radius: .375rem; border: 2px solid var(--text); background: var(--back); color: var(--text); cursor: pointer }
.approve { background: var(--text); color: var(--button) }
.notice { border: 2px solid var(--destructive); border-radius: .375rem; padding: .5rem .75rem }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
`

/** Shows times in the time zone of the reader. Without script they stay in UTC, and are labelled so. */
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

/** What the approval pages need from the gateway. */
export interface ConfirmOptions {
  store(): Store
  settings(): Pick<Settings, 'auth' | 'listen'>
  readonly operator: Operator
  /** The link at which a person signs in and then returns to `next`; undefined where browser sign-in is not configured. */
  signInLink(next: string): string | undefined
  readonly bodies: Bodies
  /** Called after every decision. */
  onDecided(step: ApprovalStep): void
  /** The input schema of a tool; undefined if it is not known. */
  inputSchema(upstream: string, tool: string): Promise<unknown>
  readonly log: Log
  /** In milliseconds since 1970. */
  now(): number
}

/** Authenticates a request by its credentials. @throws AUTHENTICATION_REQUIRED */
type Authenticate = (context: PageContext) => Promise<Principal>

/** Adds the pages on which people approve calls. */
export function addConfirmPages(
  app: Hono<{ Bindings: HttpBindings }>,
  authenticate: Authenticate,
  options: ConfirmOptions,
): void {
  new ApprovalPages(authenticate, options).addTo(app)
}

class ApprovalPages {
  readonly #authenticate: Authenticate
  readonly #options: ConfirmOptions
  readonly #guard: FormGuard

  constructor(authenticate: Authenticate, options: ConfirmOptions) {
    this.#authenticate = authenticate
    this.#options = options
    this.#guard = createFormGuard(options.store)
  }

  addTo(app: Hono<{ Bindings: HttpBindings }>): void {
    const withErrorPage =
      (serve: (context: PageContext) => Promise<Response>) =>
      (context: PageContext): Promise<Response> =>
        serve(context).catch((error: unknown) => this.#answerError(context, error))

    app.get(
      '/confirm',
      withErrorPage((context) => this.#withPageUser(context, (pageUser) => this.#list(context, pageUser))),
    )
    app.get(
      '/confirm/:id',
      withErrorPage((context) =>
        this.#withPageUser(context, async (pageUser) =>
          this.#answerApproval(context, pageUser, { approval: await this.#find(context, pageUser) }),
        ),
      ),
    )
    app.post(
      '/confirm',
      withErrorPage((context) => this.#post(context)),
    )
    app.post(
      '/confirm/:id',
      withErrorPage((context) => this.#post(context)),
    )
  }

  readonly #auth = (): AuthSettings => this.#options.settings().auth

  readonly #approvals = (): Approvals => new Approvals(this.#options.store(), this.#options.now)

  async #withPageUser(
    context: PageContext,
    serve: (pageUser: PageUser) => Promise<Response>,
  ): Promise<Response> {
    const { operator } = this.#options
    const pageUser = await pageUserOf(context.env.incoming, () => this.#authenticate(context), {
      auth: this.#auth,
      operator,
    })
    if (pageUser) return serve(pageUser)
    context.header('www-authenticate', `Code realm="${this.#auth().realm}"`)
    if (isProgram(context)) throw new GatewayError('AUTHENTICATION_REQUIRED', CODE_REQUIRED)
    return answerPage(context, codePage(), 401)
  }

  async #find(context: PageContext, pageUser: PageUser): Promise<Approval> {
    const id = context.req.param('id') ?? ''
    const approval = await this.#approvals().find(id)
    if (!approval) throw (await this.#approvals().isExpired(id)) ? expired() : unknown()
    if (mayDecide(approval, pageUser)) return approval
    throw new GatewayError('PERMISSION_DENIED', whoMayDecide(approval, pageUser))
  }

  async #decidableBy(pageUser: PageUser): Promise<readonly Approval[]> {
    return (await this.#approvals().pending()).filter((each) => mayDecide(each, pageUser))
  }

  /** The id of the approval that the page offers next: a later one, or else the first of the others. */
  async #nextFor(pageUser: PageUser, { id, createdAt }: Approval): Promise<string | undefined> {
    const others = (await this.#decidableBy(pageUser)).filter((each) => each.id !== id)
    return (others.find((each) => each.createdAt >= createdAt) ?? others[0])?.id
  }

  async #answerApproval(context: PageContext, pageUser: PageUser, result: FormResult): Promise<Response> {
    const { approval, problem, ...typed } = result
    if (isProgram(context)) {
      const [field = 'typed'] = Object.keys(typed.argumentProblems ?? {})
      const why = typed.argumentProblems?.[field] ?? problem
      if (why !== undefined) throw new GatewayError('INVALID_INPUT', why, { field })
      return answerJson(context, approvalView(approval), 200)
    }
    const token = await this.#guard.token(approval.id, pageUser)
    const next = await this.#nextFor(pageUser, approval)
    const now = this.#options.now()
    const page = approvalPage({ ...typed, approval, pageUser, token, problem, next, now })
    return answerPage(context, page, problem === undefined ? 200 : 400)
  }

  async #list(context: PageContext, pageUser: PageUser): Promise<Response> {
    const decidable = await this.#decidableBy(pageUser)
    if (isProgram(context)) return answerJson(context, { approvals: decidable.map(approvalView) }, 200)
    return answerPage(context, approvalsPage(decidable, this.#options.now()), 200)
  }

  async #post(context: PageContext): Promise<Response> {
    const { publicUrl } = this.#options.settings().listen
    if (!isFromHere(context.env.incoming.headers, publicUrl)) throw notFromHere()
    const form = await readForm(context, this.#options.bodies)
    if (form.code !== undefined) return this.#signIn(context, form.code)
    return this.#withPageUser(context, (pageUser) => this.#settle(context, pageUser, form))
  }

  async #settle(context: PageContext, pageUser: PageUser, form: Form): Promise<Response> {
    const approval = await this.#find(context, pageUser)
    // A browser attaches its credentials to cross-site requests too, so a form needs its token. A program set its
    // authorization header itself.
    const isIntended = isProgram(context)
      ? context.req.header('authorization') !== undefined && pageUser.via !== 'code'
      : await this.#guard.matches(form.token ?? '', approval.id, pageUser)
    if (!isIntended) throw notFromHere()
    const { onDecided, inputSchema } = this.#options
    const result = await decide(approval, {
      pageUser,
      form,
      approvals: this.#approvals,
      onDecided,
      inputSchema,
    })
    return this.#answerApproval(context, pageUser, result)
  }

  #signIn(context: PageContext, code: string): Response {
    const { operator, settings, log } = this.#options
    const value = isByCode(this.#auth()) ? operator.createSession(code) : undefined
    if (value === undefined) {
      log.warn('confirm.refused', { reason: 'wrong code' })
      return answerPage(context, codePage('The code is wrong.'), 403)
    }
    context.header('set-cookie', operatorCookie(operator, value, settings().listen.publicUrl))
    // Relative, because a reverse proxy may have added a prefix to the path that the browser uses.
    context.header('location', context.req.path.replace(/^.*\//, ''))
    return context.body(null, 303, { 'cache-control': 'no-store' })
  }

  #answerError(context: PageContext, thrown: unknown): Response {
    const { log, signInLink } = this.#options
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
    if (link !== undefined) {
      const hasPasswords = this.#auth().users.length > 0
      return answerPage(context, signInPage({ link, hasPasswords }), status)
    }
    const { title, lines } = explain(status, message, this.#auth())
    return answerPage(context, refusalPage(title, lines), status)
  }
}

const CODE_REQUIRED =
  'Open this page in a browser and enter the code that the terminal printed, or use gatehouse approvals.'

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
  return new GatewayError('RESOURCE_NOT_FOUND', 'No such approval.')
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'The time to decide this call is over.', {
    reason: 'expired',
    status: 410,
  })
}

interface DecisionContext {
  readonly pageUser: PageUser
  readonly form: Form
  approvals(): Approvals
  onDecided(step: ApprovalStep): void
  readonly inputSchema: ConfirmOptions['inputSchema']
}

/** An approval after a form was submitted. */
interface FormResult {
  readonly approval: Approval
  /** What is wrong with the form, and with single arguments in it, as they were typed. */
  readonly problem?: string
  readonly argumentProblems?: Readonly<Record<string, string>>
  readonly typedArguments?: Form['arguments']
}

/** Carries out a submitted form. @throws INVALID_INPUT without a verdict, and what `Approvals.decide` throws */
async function decide(
  approval: Approval,
  { pageUser, form, approvals, onDecided, inputSchema }: DecisionContext,
): Promise<FormResult> {
  const { verdict, reason, typed, remember, arguments: typedArguments, isEdited } = form
  if (!verdict)
    throw new GatewayError('INVALID_INPUT', 'The verdict must be approved or denied.', { field: 'verdict' })
  if (isMistyped(approval, { verdict, entered: typed }))
    return { approval, problem: 'The typed text does not match. Nothing was decided.' }
  // A person who typed something else does not mean the arguments as they were.
  const isOther = Object.entries(typedArguments ?? {}).some(([name, text]) =>
    isEdit(text, editableOf(approval, name)),
  )
  if (typedArguments && isOther && !isEdited) return { approval, problem: UNCLEAR, typedArguments }
  if (isEdited && !mayEdit(pageUser))
    throw new GatewayError(
      'PERMISSION_DENIED',
      'A program that decides with a token cannot change arguments.',
    )
  const { edited, ...wrong } =
    typedArguments && isEdited ? await readArguments(approval, typedArguments, inputSchema) : {}
  if (Object.keys(wrong).length > 0) return { approval, ...wrong }
  const decision = {
    ...pageUser,
    verdict,
    ...(reason !== undefined && { reason }),
    ...(remember && { remember }),
    ...(edited && { edited }),
  }
  const after = await approvals().decide(approval.id, decision)
  onDecided(stepOf(after, decision))
  return { approval: after }
}

const UNCLEAR =
  'Arguments were changed: choose “Approve with these arguments”, or write what was there before. Nothing was decided.'

/** The value of an argument that may be changed; undefined if it may not. */
function editableOf({ arguments: given, editable = [] }: Approval, name: string): unknown {
  return editable.includes(name) ? given[name] : undefined
}

/** The changed arguments of a form, or what is wrong with them. */
async function readArguments(
  approval: Approval,
  typedArguments: NonNullable<Form['arguments']>,
  inputSchema: ConfirmOptions['inputSchema'],
): Promise<Omit<FormResult, 'approval'> & { readonly edited?: Edits }> {
  const { arguments: given, upstream, tool } = approval
  const edited: Record<string, string> = {}
  const problems: Record<string, string> = {}
  for (const [name, text] of Object.entries(typedArguments)) {
    try {
      const edit = readEdit(text, editableOf(approval, name))
      if (edit !== undefined) setOwn(edited, name, edit)
    } catch (error) {
      setOwn(problems, name, asGatewayError(error).message)
    }
  }
  const schema = await inputSchema(upstream, tool)
  const argumentProblems = { ...editProblems(schema, given, edited), ...problems }
  if (Object.keys(argumentProblems).length > 0)
    return {
      problem: 'The changed arguments are not valid. Nothing was decided.',
      argumentProblems,
      typedArguments,
    }
  if (Object.keys(edited).length === 0)
    return { problem: 'No argument was changed. Nothing was decided.', typedArguments }
  return { edited }
}

const TERMINAL = 'The operator of the gateway can decide with gatehouse approvals.'

/** The page for a request that cannot be served. */
function explain(
  status: number,
  message: string,
  { users }: AuthSettings,
): { readonly title: string; readonly lines: readonly string[] } {
  const title = titles[status] ?? 'Something went wrong'
  if (status === 401 && users.length === 0) {
    return {
      title,
      lines: [
        'Callers of this gateway authenticate with tokens, which a browser does not have.',
        'To decide in a browser, set auth.jwt.client_id in the configuration, or add users to auth.basic.',
        TERMINAL,
      ],
    }
  }
  if (status === 404) return { title, lines: [message, 'Repeat the call to request a new approval.'] }
  return { title, lines: [message] }
}

/** Explains why a person may not decide, and who may. */
function whoMayDecide({ kind, approvers, caller }: Approval, { by, via }: PageUser): string {
  const you = `You are ${by}.`
  if (kind === 'page') {
    const how = via === 'token' ? ', not by a token' : ''
    const named = approvers.length === 0 ? '' : ` or one of ${approvers.join(', ')}`
    return `${you} This call must be decided by the person who made it${named}${how}. ${TERMINAL}`
  }
  if (by === caller) return `${you} A caller cannot approve their own call: another person must decide.`
  return `${you} This call needs the approval of ${approvers.length === 1 ? '' : 'one of '}${approvers.join(', ')}.`
}

const titles: Readonly<Record<number, string>> = {
  400: 'Invalid request',
  401: 'Sign in',
  403: 'You may not decide this call',
  404: 'Approval not found',
  405: 'Method not allowed',
  409: 'Already decided',
  410: 'Approval expired',
  413: 'Request too large',
  415: 'Unsupported content type',
  429: 'Too many attempts',
  503: 'Temporarily unavailable',
}

/** A request for an approval page. */
type PageContext = Context<{ Bindings: HttpBindings }>

/** Whether the request comes from a program that expects JSON. */
function isProgram({ req }: PageContext): boolean {
  if (/^application\/json(?:;|$)/i.test(req.header('content-type') ?? '')) return true
  const accept = req.header('accept') ?? ''
  return accept.includes('application/json') && !accept.includes('text/html')
}

/** Responds with a page. */
function answerPage(
  context: PageContext,
  { title, content }: { readonly title: string; readonly content: string },
  status: number,
): Response {
  return context.html(
    htmlPage({ title: `${title} · Gatehouse`, style, content: `<main>\n${content}\n</main>`, script }),
    statusOf(status),
    headers,
  )
}

/** Responds with JSON. */
function answerJson(context: PageContext, value: object, status: number): Response {
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

/** The fields of a submitted form. */
interface Form {
  readonly verdict?: Decision['verdict']
  readonly reason?: string
  readonly typed?: string
  /** The arguments as they are typed, and whether they are approved. */
  readonly arguments?: Readonly<Record<string, string>>
  readonly isEdited?: true
  /** The approval shall apply to later calls too. */
  readonly remember?: true
  /** The anti-forgery token of the form. */
  readonly token?: string
  /** The code from the terminal. */
  readonly code?: string
}

/** The maximum size of a form, in bytes. */
const MAX_FORM_BYTES = 64 * 1024

/**
 * Reads a form, or its JSON equivalent, with or without a Content-Length.
 * @throws PARSE_ERROR, INVALID_INPUT, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, OVERLOADED
 */
async function readForm(
  { req, env: { incoming } }: Context<{ Bindings: HttpBindings }>,
  bodies: Bodies,
): Promise<Form> {
  const type = (req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (type !== 'application/json' && type !== 'application/x-www-form-urlencoded')
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A decision must be a form or JSON.')
  const text = await bodies.text(incoming, { limit: MAX_FORM_BYTES })
  return formOf(type === 'application/json' ? parse(text) : fieldsIn(text))
}

function formOf(fields: Readonly<Record<string, unknown>>): Form {
  const field = (name: string): string | undefined => {
    const value = fields[name]
    if (value === undefined || typeof value === 'string') return value
    throw new GatewayError('INVALID_INPUT', `${name} must be a string.`, { field: name })
  }
  const isEdited = fields.verdict === EDITED_VERDICT
  const verdict = isEdited
    ? 'approved'
    : (['approved', 'denied'] as const).find((each) => each === fields.verdict)
  const reason = field('reason')?.trim()
  if (reason !== undefined && reason.length > MAX_REASON_LENGTH)
    throw new GatewayError('INVALID_INPUT', `A reason may have at most ${MAX_REASON_LENGTH} characters.`, {
      field: 'reason',
    })
  const isRemembered = verdict === 'approved' && isTrue(fields.remember)
  const [typed, token, code] = [field('typed'), field('token'), field('code')]
  return {
    ...(verdict && { verdict }),
    ...(reason !== undefined && reason !== '' && { reason }),
    ...(typed !== undefined && { typed }),
    ...(verdict === 'approved' && { arguments: typedArgumentsOf(fields) }),
    ...(isEdited && { isEdited }),
    ...(isRemembered && { remember: true }),
    ...(token !== undefined && { token }),
    ...(code !== undefined && { code }),
  }
}

/** The fields of arguments, or the member `arguments` of JSON. */
function typedArgumentsOf(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  const typed = Object.entries(fields).flatMap(([name, value]) =>
    name.startsWith(ARGUMENT_PREFIX) && typeof value === 'string'
      ? [[name.slice(ARGUMENT_PREFIX.length), value] as const]
      : [],
  )
  const values = Object.entries(asObject(fields.arguments)).map(
    ([name, value]) => [name, editableText(value)] as const,
  )
  return Object.fromEntries([...typed, ...values])
}

/** A ticked checkbox, or its JSON equivalent. @throws INVALID_INPUT */
function isTrue(value: unknown): boolean {
  if (value === undefined || value === false) return false
  if (value === true || value === 'on' || value === 'true') return true
  throw new GatewayError('INVALID_INPUT', 'remember must be true or false.', { field: 'remember' })
}

function fieldsIn(text: string): Readonly<Record<string, unknown>> {
  const given = new URLSearchParams(text)
  for (const name of given.keys()) if (given.getAll(name).length > 1) throw givenTwice(name)
  return Object.fromEntries(given)
}

function givenTwice(name: string): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `${JSON.stringify(name.slice(0, MAX_NAME_LENGTH))} is given twice.`,
  )
}

/** How much of a name is in an error, in characters. */
const MAX_NAME_LENGTH = 200

function parse(text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = parseJson(text)
  } catch (cause) {
    throw new GatewayError('PARSE_ERROR', 'The body is not valid JSON.', { cause })
  }
  const key = duplicateKey(text, value)
  if (key !== undefined) throw givenTwice(key)
  if (isObject(value)) return value
  throw new GatewayError('INVALID_INPUT', 'A decision must be an object: {"verdict": "approved"}.')
}

/** The store key of the secret that signs form tokens, and its lifetime in milliseconds. */
const STORE_KEY = 'key:forms'
const KEY_TTL_MS = 365 * 24 * 60 * 60_000

/** Distinguishes forms of this gateway from cross-site requests. */
interface FormGuard {
  /** The token of the form for an approval and a page user. */
  token(id: string, pageUser: PageUser): Promise<string>
  matches(token: string, id: string, pageUser: PageUser): Promise<boolean>
}

/** Creates a guard with a key in the store, because one gateway may receive a form that another one rendered. */
function createFormGuard(store: () => Store): FormGuard {
  const token: FormGuard['token'] = async (id, { by, via }) => {
    const key = Buffer.from(await sharedKey(store()), 'base64')
    return createHmac('sha256', key)
      .update(JSON.stringify([id, by, via]))
      .digest('base64url')
  }
  return {
    token,
    matches: async (actual, id, pageUser) => {
      const expected = Buffer.from(await token(id, pageUser))
      const found = Buffer.from(actual)
      return found.length === expected.length && timingSafeEqual(found, expected)
    },
  }
}

async function sharedKey(store: Store): Promise<string> {
  const known = await store.get(STORE_KEY)
  if (known !== undefined) return known
  const fresh = randomBytes(32).toString('base64')
  return (await store.setIfAbsent(STORE_KEY, fresh, KEY_TTL_MS)) ?? fresh
}

/** The error for a request that may come from another site. */
function notFromHere(): GatewayError {
  return new GatewayError(
    'FORBIDDEN',
    'The request did not come from a page of the gateway. Open the page and decide there.',
    {
      suggestion: 'Programs must send Authorization and Content-Type: application/json.',
    },
  )
}
