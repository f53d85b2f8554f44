import type { Context, Hono } from 'hono'
import type { HttpBindings } from '@hono/node-server'
import { cookieOf, cookieText } from '../core/cookie.ts'
import { asGatewayError } from '../core/error.ts'
import { escapeHtml as escape, htmlPage, pageHeaders } from '../core/html.ts'
import type { Log } from '../core/log.ts'

/** What users of servers that want them to sign in are shown, and what takes them in. */
export interface SignIns {
  /** @throws STATE_INVALID */
  start(id: string): Promise<Start>
  /** Resolves with the server's name. @throws STATE_INVALID, SERVER_UNAVAILABLE */
  finish(params: URLSearchParams, cookieOf: (name: string) => string | undefined): Promise<string>
  /** The gateway as a client of authorization servers. */
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

/** Adds the pages of signing in to servers: no caller's token reaches them, what they are told is good once. */
export function addSignInPages(app: Hono<SignInEnv>, { signIns, log }: SignInOptions): void {
  const guarded = async (context: Context<SignInEnv>, show: () => Promise<Response>): Promise<Response> => {
    try {
      return await show()
    } catch (error) {
      const { code, message } = asGatewayError(error)
      log.warn('sign_in.failed', { code, reason: message })
      const text = `<p>${escape(message)} Go back and try again.</p>`
      return context.html(signInPage('Not signed in', text), 400, signInHeaders)
    }
  }

  // Whoever was sent a link by someone else sees for whom it is (2025-11-25 client/elicitation, phishing).
  app.get('/oauth/start/:id', (context) =>
    guarded(context, async () => {
      const { upstream, principal, url, cookie } = await signIns.start(context.req.param('id'))
      context.header('set-cookie', wayCookie(cookie, signIns.site()?.redirectUri))
      const text = `<p>What you sign in to will be used by <strong>${escape(principal)}</strong>. Go on only if that is you, and you asked for it just now.</p>
<p><a rel="noreferrer" href="${escape(url)}">Sign in at ${escape(new URL(url).host)}</a></p>`
      return context.html(signInPage(`Sign in to ${upstream}`, text), 200, signInHeaders)
    }),
  )
  app.get('/oauth/callback', (context) =>
    guarded(context, async () => {
      const { searchParams } = new URL(context.req.url)
      const cookies = context.req.header('cookie')
      const upstream = await signIns.finish(searchParams, (name) => cookieOf(cookies, name))
      log.info('sign_in.done', { upstream })
      const text = `<p>You are signed in to ${escape(upstream)}. You can close this page.</p>`
      return context.html(signInPage('Signed in', text), 200, signInHeaders)
    }),
  )
  app.get('/oauth/client.json', (context) => {
    const document = signIns.document()
    return document ? context.json(document, 200, { 'cache-control': 'max-age=300' }) : context.notFound()
  })
}

/** A cookie that comes back from the authorization server's pages, and goes nowhere but to the last of these. */
function wayCookie(cookie: Start['cookie'], redirectUri: string | undefined): string {
  const { pathname, protocol } = new URL(redirectUri ?? 'http://localhost/oauth/callback')
  return cookieText({ ...cookie, path: pathname, lifetime: 600, isSecure: protocol === 'https:' })
}

const style = `
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 30rem; margin: 4rem auto; padding: 0 1rem }
`
/** What such a page is sent with. */
export const signInHeaders = { ...pageHeaders(style), 'referrer-policy': 'no-referrer' }

/** A small page of one heading; `text` is HTML already. */
export function signInPage(title: string, text: string): string {
  const content = `<h1>${escape(title)}</h1>\n${text}`
  return htmlPage({ title: `${title} · Gatehouse`, style, content: `<main>\n${content}\n</main>` })
}
