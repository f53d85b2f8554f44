/**
 * The paths of signing in to the gateway's own pages and of signing out: `/sign-in`, `/sign-in/callback`, `/sign-out`.
 *
 * A person begins by a link, comes back from the issuer with a code, and goes on to the page the sign-in began at. Signing
 * out is a form of a page of the gateway, so that no other page ends a session.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { cookieOf, cookieText } from '../core/cookie.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { isFromHere } from '../core/from-here.ts'
import { escapeHtml as escape } from '../core/html.ts'
import type { Log } from '../core/log.ts'
import type { ListenSettings } from '../core/settings.ts'
import type { FindCookie, PageSignIn, SignInStep } from '../core/sign-in.ts'
import { signInHeaders, signInPage } from './sign-in-pages.ts'

type Env = { Bindings: HttpBindings }

interface Options {
  readonly pageSignIn: PageSignIn
  listen(): Pick<ListenSettings, 'publicUrl'>
  /** Hears of each person who signed in. */
  onSignedIn?: ((step: SignInStep) => void) | undefined
  readonly log: Log
}

/** Adds the paths; nothing of them is there where people cannot sign in. */
export function addPageSignIn(app: Hono<Env>, { pageSignIn, listen, onSignedIn, log }: Options): void {
  const guarded = async (context: Context<Env>, serve: () => Promise<Response>): Promise<Response> => {
    try {
      return await serve()
    } catch (error) {
      const { code, message, httpStatus } = asGatewayError(error)
      log.warn('page_sign_in.failed', { code, reason: message })
      const again = pageSignIn.link('/')
      const way = again === undefined ? '' : `\n<p><a href="${escape(again)}">Sign in again</a></p>`
      const status = statuses.find((each) => each === httpStatus) ?? 500
      return context.html(
        signInPage('Not signed in', `<p>${escape(message)}</p>${way}`),
        status,
        signInHeaders,
      )
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
      if (!isFromHere(context.env.incoming.headers, listen().publicUrl))
        throw new GatewayError('FORBIDDEN', 'This was not sent from a page of the gateway.')
      const ended = await pageSignIn.end(cookiesOf(context))
      if (!ended) throw new GatewayError('UNSUPPORTED_OPERATION', 'People do not sign in here.')
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
