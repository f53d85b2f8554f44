/**
 * How people and programs enter the pages of the gateway: who they are, sign-in, the forms they submit, and what they get
 * when a request cannot be served. Forms are protected against cross-site request forgery by tokens; programs send a bearer
 * token, and get JSON.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import type { RouterRoute } from 'hono/types'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { AuthSettings } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { duplicateKey, parseJson } from '../../core/json/read.ts'
import type { Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Settings } from '../../core/settings.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import { cookieText, isFromHere } from '../../core/web.ts'
import type { Store } from '../../store/store.ts'
import type { Bodies } from '../http/body.ts'
import { html, type Html } from './html.ts'
import { isByCode, type Operator, operatorOf, type PageUser, pageUserOf } from './page-users.ts'
import { type FramedPage, framedPage, frameHeaders, type Place, type Reader, rootOf } from './shell.ts'

/** A request for a page. */
export type PageContext = Context<{ Bindings: HttpBindings }>

/** Authenticates a request by its credentials. @throws AUTHENTICATION_REQUIRED */
export type Authenticate = (context: PageContext) => Promise<Principal>

/** What the pages need of the gateway. */
export interface EntryOptions {
  store(): Store
  settings(): Pick<Settings, 'auth' | 'listen'>
  readonly operator: Operator
  /** The link at which a person signs in and then returns to `next`; undefined where browser sign-in is not configured. */
  signInLink(next: string): string | undefined
  readonly bodies: Bodies
  /** The places of the console, for the navigation. */
  readonly places: readonly Place[]
  /** How many things need a page user; undefined if that is not known in time. */
  needs(user: PageUser): Promise<number | undefined>
  readonly log: Log
  /** In milliseconds since 1970. */
  now(): number
}

/** A kind of pages: the first word of their log events, and the titles of their refusals by status. */
interface Area {
  readonly name: string
  readonly titles: Readonly<Record<number, string>>
  /** Added to the page of a request that names nothing. */
  readonly notFound?: string
}

/** What a page shows, in its frame. */
export type PageContent = Pick<FramedPage, 'title' | 'content'> & Partial<FramedPage>

/** The entry of pages: one for all of them. */
export class PageEntry {
  readonly #authenticate: Authenticate
  readonly #options: EntryOptions
  /** The page users of requests that are being served. */
  readonly #users = new WeakMap<PageContext, PageUser>()
  readonly guard: FormGuard

  constructor(authenticate: Authenticate, options: EntryOptions) {
    this.#authenticate = authenticate
    this.#options = options
    this.guard = createFormGuard(options.store)
  }

  /** Serves requests of an area: what is thrown becomes a page, or JSON for a program. */
  guarded(
    area: Area,
    serve: (context: PageContext) => Promise<Response>,
  ): (context: PageContext) => Promise<Response> {
    return (context) => serve(context).catch((error: unknown) => this.#answerError(context, area, error))
  }

  /** Serves a page user; asks for the code from the terminal where that identifies people. @throws AUTHENTICATION_REQUIRED */
  async withUser(context: PageContext, serve: (user: PageUser) => Promise<Response>): Promise<Response> {
    const { operator } = this.#options
    const { incoming } = context.env
    const user = await pageUserOf(incoming, () => this.#authenticate(context), { auth: this.#auth, operator })
    if (user) {
      this.#users.set(context, user)
      return serve(user)
    }
    context.header('www-authenticate', `Code realm="${this.#auth().realm}"`)
    if (isProgram(context)) throw new GatewayError('AUTHENTICATION_REQUIRED', CODE_REQUIRED)
    return this.answer(context, codePage(), 401)
  }

  /** Reads a form after the check that no other site made the browser submit it; signs in if it has the code. */
  async withForm(
    context: PageContext,
    serve: (user: PageUser, fields: FormFields) => Promise<Response>,
  ): Promise<Response> {
    const { publicUrl } = this.#options.settings().listen
    if (!isFromHere(context.env.incoming.headers, publicUrl)) throw notFromHere()
    const fields = await readFields(context, this.#options.bodies)
    const code = textField(fields, 'code')
    if (code !== undefined) return this.#signIn(context, code)
    return this.withUser(context, (user) => serve(user, fields))
  }

  /**
   * Checks that a page user means a form: it has the token that the page has for this purpose. A browser attaches its
   * credentials to cross-site requests too; a program set its authorization header itself. @throws FORBIDDEN
   */
  async mustBeIntended(
    context: PageContext,
    purpose: string,
    { user, fields }: { readonly user: PageUser; readonly fields: FormFields },
  ): Promise<void> {
    const isIntended = isProgram(context)
      ? context.req.header('authorization') !== undefined && user.via !== 'code'
      : await this.guard.matches(textField(fields, 'token') ?? '', purpose, user)
    if (!isIntended) throw notFromHere()
  }

  /** What the frame of a page says of its reader. */
  async readerOf(user: PageUser | undefined): Promise<Reader> {
    const { signInLink, places, needs } = this.#options
    const auth = this.#auth()
    if (user) return { user, places, needs: await needs(user), canSignOut: user.via === 'sign_in' }
    const canSignIn = isByCode(auth) || auth.users.length > 0 || signInLink('/') !== undefined
    return { places: canSignIn ? places : [] }
  }

  /** Responds with a page. */
  async answer(context: PageContext, page: PageContent, status: number): Promise<Response> {
    const reader = await this.readerOf(this.#users.get(context) ?? this.#operatorOf(context))
    const framed = { path: context.req.path, reader, ...page }
    return context.html(framedPage(framed), statusOf(status), frameHeaders(framed))
  }

  /**
   * Responds to a request that no route of an app serves, with a page to a browser and with JSON to a program: 405 if the path has
   * other methods.
   */
  async notFound(
    context: PageContext,
    { routes }: Pick<Hono<{ Bindings: HttpBindings }>, 'routes'>,
  ): Promise<Response> {
    const allowed = methodsOf(context.req.path, routes)
    if (allowed.length > 0 && !allowed.includes(context.req.method)) {
      context.header('allow', allowed.join(', '))
      const error = new GatewayError('METHOD_NOT_ALLOWED', `This address takes ${allowed.join(', ')}.`)
      if (!isHtmlWanted(context)) return answerJson(context, { error: error.data }, error.httpStatus)
      return this.answer(context, refusalPage('Method not allowed', [error.message]), error.httpStatus)
    }
    if (!isHtmlWanted(context)) return context.json(NOT_FOUND, 404)
    const title = 'Page not found'
    const content = html`<h1>${title}</h1>
<p>There is no page at this address. Clients of MCP connect to <code>/mcp</code>.</p>
<p><a href="${rootOf(context.req.path)}">All pages begin here</a></p>`
    return this.answer(context, { title, content }, 404)
  }

  #operatorOf(context: PageContext): PageUser | undefined {
    return isByCode(this.#auth())
      ? operatorOf(context.req.header('cookie'), this.#options.operator)
      : undefined
  }

  readonly #auth = (): AuthSettings => this.#options.settings().auth

  async #signIn(context: PageContext, code: string): Promise<Response> {
    const { operator, settings, log } = this.#options
    const cookie = isByCode(this.#auth()) ? await operator.createSession(code) : undefined
    if (!cookie) {
      log.warn('confirm.refused', { reason: 'wrong code' })
      return this.answer(context, codePage('The code is wrong.'), 403)
    }
    context.header(
      'set-cookie',
      operatorCookie({ ...cookie, lifetime: operator.lifetime }, settings().listen.publicUrl),
    )
    const { search } = new URL(context.req.url)
    context.header('location', `${context.req.path.replace(/^.*\//, '')}${search}`)
    return context.body(null, 303, { 'cache-control': 'no-store' })
  }

  #answerError(context: PageContext, area: Area, thrown: unknown): Response | Promise<Response> {
    const { log, signInLink } = this.#options
    const error = asGatewayError(thrown)
    const { code, message } = error
    if (code === 'SERVER_ERROR') log.error(`${area.name}.failed`, { cause: String(error.cause) })
    else log.warn(`${area.name}.refused`, { code, reason: message })
    const { retry_after_seconds: retry } = error.data
    if (typeof retry === 'number') context.header('retry-after', String(retry))
    const status = error.httpStatus
    if (isProgram(context)) return answerJson(context, { error: error.data }, status)
    const isPassword = context.req.query('sign-in') !== undefined
    const { pathname, search } = new URL(context.req.url)
    const link = status === 401 && !isPassword ? signInLink(`${pathname}${search}`) : undefined
    if (link !== undefined) {
      const hasPasswords = this.#auth().users.length > 0
      return this.answer(context, signInPage({ link, hasPasswords }), status)
    }
    return this.answer(context, explain(area, { status, message }, this.#auth()), status)
  }
}

/** The methods of the routes of a path; those that serve whatever no other one does have none. */
function methodsOf(path: string, routes: readonly Pick<RouterRoute, 'path' | 'method'>[]): readonly string[] {
  const words = path.split('/')
  const isFor = (route: string): boolean => {
    const parts = route.split('/')
    const isSame = (part: string, index: number): boolean =>
      part.startsWith(':') ? words[index] !== '' : part === words[index]
    return parts.length === words.length && parts.every(isSame)
  }
  const methods = routes.filter((route) => isFor(route.path)).map(({ method }) => method)
  return [...new Set(methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])))]
}

function isHtmlWanted({ req }: PageContext): boolean {
  return /\btext\/html\b/i.test(req.header('accept') ?? '')
}

const NOT_FOUND = { error: 'Not found. The MCP endpoint is /mcp.' }

const CODE_REQUIRED =
  'Open this page in a browser and enter the code that the terminal printed, or use gatehouse approvals.'

/** The cookie of the person at the terminal, for all pages below the path of the gateway. */
function operatorCookie(
  cookie: { readonly name: string; readonly value: string; readonly lifetime: number },
  publicUrl: string | undefined,
): string {
  const { pathname, protocol } = new URL(publicUrl ?? 'http://localhost/')
  const path = `${pathname.replace(/\/$/, '')}/`
  return cookieText({ ...cookie, path, isSecure: protocol === 'https:', sameSite: 'Strict' })
}

/** How the operator of the gateway decides without a browser. */
export const TERMINAL = 'The operator of the gateway can decide with gatehouse approvals.'

/** The page for a request that cannot be served. */
function explain(
  { titles, notFound }: Area,
  { status, message }: { readonly status: number; readonly message: string },
  { users }: AuthSettings,
): PageContent {
  const title = titles[status] ?? commonTitles[status] ?? 'Something went wrong'
  if (status === 401 && users.length === 0) {
    return refusalPage(title, [
      'Callers of this gateway authenticate with tokens, which a browser does not have.',
      'To use this page in a browser, set auth.jwt.client_id in the configuration, or add users to auth.basic.',
      TERMINAL,
    ])
  }
  if (status === 404 && notFound !== undefined) return refusalPage(title, [message, notFound])
  return refusalPage(title, [message])
}

const commonTitles: Readonly<Record<number, string>> = {
  400: 'Invalid request',
  401: 'Sign in',
  403: 'Not allowed',
  404: 'Not found',
  405: 'Method not allowed',
  409: 'Conflict',
  413: 'Request too large',
  415: 'Unsupported content type',
  429: 'Too many attempts',
  503: 'Temporarily unavailable',
}

/** The page that asks for the code from the terminal. */
function codePage(problem?: string): PageContent {
  const title = 'Sign in'
  const content = html`<h1>${title}</h1>
    ${problem !== undefined && html`<p class="notice" role="alert">${problem}</p>`}
    <p>Enter the code that <code>gatehouse serve</code> printed in its terminal when it started.</p>
    <form method="post">
      <label for="code">Code (XXXX-XXXX)</label>
      <input
        id="code"
        name="code"
        required
        autofocus
        autocomplete="off"
        autocapitalize="characters"
        spellcheck="false"
      />
      <div class="buttons"><button class="approve">Continue</button></div>
    </form>`
  return { title, content }
}

/** The page that asks a person to sign in. */
function signInPage({
  link,
  hasPasswords,
}: {
  readonly link: string
  readonly hasPasswords: boolean
}): PageContent {
  const title = 'Sign in'
  const content = html`<h1>${title}</h1>
    <p>Sign in to see this page.</p>
    <p><a rel="noreferrer" href="${link}">Sign in</a></p>
    ${hasPasswords && html`<p><a href="?sign-in">Use a name and password</a></p>`}`
  return { title, content }
}

/** The page for an error. */
function refusalPage(title: string, lines: readonly string[]): PageContent {
  const content: Html = html`<h1>${title}</h1>
    ${lines.map((line) => html`<p>${line}</p>`)}`
  return { title, content }
}

/** Whether the request comes from a program that expects JSON. */
export function isProgram({ req }: PageContext): boolean {
  if (/^application\/json(?:;|$)/i.test(req.header('content-type') ?? '')) return true
  const accept = req.header('accept') ?? ''
  return accept.includes('application/json') && !accept.includes('text/html')
}

/** Responds with JSON. */
export function answerJson(context: PageContext, value: object, status: number): Response {
  return context.body(JSON.stringify(value), statusOf(status), jsonHeaders)
}

const jsonHeaders = {
  'content-type': 'application/json',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  vary: 'Accept, Cookie, Authorization',
}

function statusOf(status: number): ContentfulStatusCode {
  const known = statuses.find((each) => each === status)
  return known ?? 500
}

const statuses = [200, 400, 401, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503] as const

/** The fields of a submitted form, or the members of its JSON equivalent. */
export type FormFields = Readonly<Record<string, unknown>>

/** A field that is text; undefined if it is absent. @throws INVALID_INPUT */
export function textField(fields: FormFields, name: string): string | undefined {
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined
  if (value === undefined || typeof value === 'string') return value
  throw new GatewayError('INVALID_INPUT', `${name} must be a string.`, { field: name })
}

/** The maximum size of a form, in bytes. */
const MAX_FORM_BYTES = 64 * 1024

/**
 * Reads a form, or its JSON equivalent, with or without a Content-Length.
 * @throws PARSE_ERROR, INVALID_INPUT, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, OVERLOADED
 */
async function readFields({ req, env: { incoming } }: PageContext, bodies: Bodies): Promise<FormFields> {
  const type = (req.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase()
  if (type !== 'application/json' && type !== 'application/x-www-form-urlencoded')
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A decision must be a form or JSON.')
  const text = await bodies.text(incoming, { limit: MAX_FORM_BYTES })
  return type === 'application/json' ? parse(text) : fieldsIn(text)
}

function fieldsIn(text: string): FormFields {
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

function parse(text: string): FormFields {
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

/** How long a page that is only read waits for the key, in milliseconds. */
const KEY_TIMEOUT_MS = 1500

/** Distinguishes forms of this gateway from cross-site requests. */
interface FormGuard {
  /**
   * The token of a form for a purpose, such as the id of an approval, and a page user. While the store does not respond it is made
   * with the key that was read last; it is empty if none was, and then the form is refused.
   */
  token(purpose: string, user: PageUser): Promise<string>
  /** @throws SERVER_UNAVAILABLE while the store does not respond */
  matches(token: string, purpose: string, user: PageUser): Promise<boolean>
}

/** Creates a guard with a key in the store, because one gateway may receive a form that another one rendered. */
function createFormGuard(store: () => Store): FormGuard {
  let known: string | undefined
  const key = async (): Promise<string> => {
    known = await sharedKey(store())
    return known
  }
  return {
    token: async (purpose, user) => {
      const found = (await ifAnswered(key(), KEY_TIMEOUT_MS)) ?? known
      return found === undefined ? '' : tokenOf(found, purpose, user)
    },
    matches: async (actual, purpose, user) => {
      const secret = await key().catch((cause: unknown) => {
        throw new GatewayError('SERVER_UNAVAILABLE', UNCHECKED, { cause })
      })
      const expected = Buffer.from(tokenOf(secret, purpose, user))
      const found = Buffer.from(actual)
      return found.length === expected.length && timingSafeEqual(found, expected)
    },
  }
}

const UNCHECKED = 'Nothing was done: the store of the gateway does not respond. Try again once it does.'

function tokenOf(key: string, purpose: string, { by, via }: PageUser): string {
  return createHmac('sha256', Buffer.from(key, 'base64'))
    .update(JSON.stringify([purpose, by, via]))
    .digest('base64url')
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
