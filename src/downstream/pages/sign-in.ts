/** The routes for sign-in of users to servers, and of people to the pages. */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { FindCookie, PageSignIn, SignInStep } from '../../core/audit-step.ts'
import type { Log } from '../../core/log.ts'
import { cookieOf, cookieText, isFromHere } from '../../core/web.ts'
import type { Edge } from '../http/edge.ts'
import { html, type Html } from './html.ts'
import { framedPage, frameHeaders } from './shell.ts'

// Sign-in to the gateway's own pages, and sign-out: `/sign-in`, `/sign-in/callback`, `/sign-out`. A person follows a
// link, returns from the issuer with a code, and is redirected to the page where the sign-in started. Sign-out is a
// form of a page of the gateway, so that no other page can end a session.

type Env = { Bindings: HttpBindings }

interface Options {
  readonly pageSignIn: PageSignIn
  edge(): Edge
  /** Called for each person who signed in. */
  onSignedIn?: ((step: SignInStep) => void) | undefined
  readonly log: Log
}

/** Adds the routes; they return 404 if sign-in is not configured. */
export function addPageSignIn(app: Hono<Env>, { pageSignIn, edge, onSignedIn, log }: Options): void {
  const guarded = async (context: Context<Env>, serve: () => Promise<Response>): Promise<Response> => {
    try {
      return await serve()
    } catch (error) {
      const { code, message, httpStatus } = asGatewayError(error)
      log.warn('page_sign_in.failed', { code, reason: message })
      const again = pageSignIn.link('/')
      const way = again !== undefined && html` <p><a href="${again}">Sign in again</a></p>`
      const status = statuses.find((each) => each === httpStatus) ?? 500
      return signInPage(context, 'Not signed in', html`<p>${message}</p>${way}`, status)
    }
  }
  const sendTo = (context: Context<Env>, location: string): Response => {
    context.header('location', location)
    return context.body(null, 303, { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
  }

  app.get('/sign-in', (context) =>
    guarded(context, async () => {
      const { url, cookie } = await pageSignIn.begin(context.req.query('next'))
      context.header('set-cookie', cookieText(cookie))
      return sendTo(context, url)
    }),
  )
  app.get('/sign-in/callback', (context) =>
    guarded(context, async () => {
      const { searchParams } = new URL(context.req.url)
      const { next, cookies, subject } = await pageSignIn.finish(searchParams, cookiesOf(context))
      for (const cookie of cookies) context.header('set-cookie', cookieText(cookie), { append: true })
      const principal = `user:${subject}`
      log.info('page_sign_in.done', { principal })
      onSignedIn?.({ step: 'finished', principal })
      return sendTo(context, next)
    }),
  )
  app.post('/sign-out', (context) =>
    guarded(context, async () => {
      if (!isFromHere(context.env.incoming.headers, edge().runtime.listen.publicUrl))
        throw new GatewayError('FORBIDDEN', 'The request did not come from a page of the gateway.')
      const ended = await pageSignIn.end(cookiesOf(context))
      if (!ended) throw new GatewayError('UNSUPPORTED_OPERATION', 'Sign-in is not configured.')
      context.header('set-cookie', cookieText(ended.cookie))
      return sendTo(context, ended.next)
    }),
  )
}

const statuses = [400, 401, 403, 404, 429, 503] as const

function cookiesOf(context: Context<Env>): FindCookie {
  const cookies = context.req.header('cookie')
  return (name) => cookieOf(cookies, name)
}

/** The sign-in of users to servers that require it. */
export interface SignIns {
  /** @throws STATE_INVALID */
  start(id: string): Promise<Start>
  /** Resolves with the server's name. @throws STATE_INVALID, SERVER_UNAVAILABLE */
  finish(params: URLSearchParams, cookieOf: (name: string) => string | undefined): Promise<string>
  /** The client metadata document of the gateway for authorization servers. */
  document(): Readonly<Record<string, unknown>> | undefined
  site(): { readonly redirectUri: string } | undefined
}

interface Start {
  readonly upstream: string
  readonly principal: string
  readonly url: string
  readonly cookie: { readonly name: string; readonly value: string }
}

type SignInEnv = { Bindings: HttpBindings }

interface SignInOptions {
  readonly signIns: SignIns
  readonly log: Log
}

/** Adds the pages for sign-in to servers. They need no token of a caller; their parameters are valid once. */
export function addSignInPages(app: Hono<SignInEnv>, { signIns, log }: SignInOptions): void {
  const guarded = async (context: Context<SignInEnv>, show: () => Promise<Response>): Promise<Response> => {
    try {
      return await show()
    } catch (error) {
      const { code, message } = asGatewayError(error)
      log.warn('sign_in.failed', { code, reason: message })
      return signInPage(context, 'Not signed in', html`<p>${message} Go back and try again.</p>`, 400)
    }
  }

  // Shows for whom the sign-in is, in case the link came from someone else (2025-11-25 client/elicitation, phishing).
  app.get('/oauth/start/:id', (context) =>
    guarded(context, async () => {
      const { upstream, principal, url, cookie } = await signIns.start(context.req.param('id'))
      context.header('set-cookie', wayCookie(cookie, signIns.site()?.redirectUri))
      const text = html`<p>
          The account you sign in to will be used by <strong>${principal}</strong>. Continue only if that is
          you and you have just requested it.
        </p>
        <p><a rel="noreferrer" href="${url}">Sign in at ${new URL(url).host}</a></p>`
      return signInPage(context, `Sign in to ${upstream}`, text, 200)
    }),
  )
  app.get('/oauth/callback', (context) =>
    guarded(context, async () => {
      const { searchParams } = new URL(context.req.url)
      const cookies = context.req.header('cookie')
      const upstream = await signIns.finish(searchParams, (name) => cookieOf(cookies, name))
      log.info('sign_in.done', { upstream })
      const text = html`<p>You are signed in to ${upstream}. You can close this page.</p>`
      return signInPage(context, 'Signed in', text, 200)
    }),
  )
  app.get('/oauth/client.json', (context) => {
    const document = signIns.document()
    return document ? context.json(document, 200, { 'cache-control': 'max-age=300' }) : context.notFound()
  })
}

/** A cookie that survives the redirect from the authorization server, and is sent only to the redirect URI. */
function wayCookie(cookie: Start['cookie'], redirectUri: string | undefined): string {
  const { pathname, protocol } = new URL(redirectUri ?? 'http://localhost/oauth/callback')
  return cookieText({ ...cookie, path: pathname, lifetime: 600, isSecure: protocol === 'https:' })
}

/** Such pages are open for everybody: nothing of the console is in their frame. */
const nobody = { places: [] }

/** Responds with a page that has one heading. */
function signInPage(
  context: Context<Env>,
  title: string,
  text: Html,
  status: 200 | (typeof statuses)[number] | 500,
): Response | Promise<Response> {
  const page = { title, content: html`<h1>${title}</h1>\n${text}`, path: context.req.path, reader: nobody }
  return context.html(framedPage(page), status, { ...frameHeaders(page), 'referrer-policy': 'no-referrer' })
}
