/** HTML pages with a content security policy, cookies, and checks of same-site requests. */
import { hash } from 'node:crypto'

/** A page for people. */
interface Page {
  readonly title: string
  /** CSS, the same for every page of its kind. */
  readonly style: string
  /** HTML. */
  readonly content: string
  /** JavaScript, the same for every page of its kind; none where a page runs nothing. */
  readonly script?: string
}

/** A gate, the icon of each page. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%237d8490' d='M3 21V8l2-2V3h2v2h3V3h4v2h3V3h2v3l2 2v13h-6v-6a3 3 0 0 0-6 0v6z'/%3E%3C/svg%3E"

/** A whole HTML document. */
export function htmlPage({ title, style, content, script }: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${ICON}">
<style>${style}</style>
</head>
<body>
${content}${script === undefined ? '' : `\n<script>${script}</script>`}
</body>
</html>
`
}

/** The headers of a page with this style: nothing is loaded but the icon, which is part of the page, nothing framed or kept, and nothing run but this script. */
export function pageHeaders(style: string, script?: string): Readonly<Record<string, string>> {
  const run = script === undefined ? '' : ` script-src ${allowed(script)};`
  return {
    'content-security-policy': `default-src 'none'; style-src ${allowed(style)};${run} img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'cache-control': 'no-store',
    // Under no-referrer browsers would not say where a form was sent from (Fetch, "append a request Origin header").
    'referrer-policy': 'same-origin',
  }
}

function allowed(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`
}

/** A text as HTML that shows just that text. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}

// Cookies of the gateway's pages (RFC 6265): how one is written, and how one is found among those a browser sends.
// No script reads one, and over https none travels in clear. Values are of the gateway's own making, of letters,
// digits and signs that need no quotes.

/** A cookie as a browser is to keep it. */
export interface Cookie {
  readonly name: string
  readonly value: string
  /** The pages it is sent to: those whose path begins with this one. */
  readonly path: string
  /** In seconds; 0 takes the cookie back. */
  readonly lifetime: number
  readonly isSecure: boolean
  /** Whether the browser also sends it when it comes by a link of another site; Lax unless given. */
  readonly sameSite?: 'Lax' | 'Strict'
}

/** The value of `Set-Cookie`. */
export function cookieText({ name, value, path, lifetime, isSecure, sameSite = 'Lax' }: Cookie): string {
  const secure = isSecure ? '; Secure' : ''
  return `${name}=${value}; Path=${path}; Max-Age=${lifetime}; HttpOnly; SameSite=${sameSite}${secure}`
}

/** The value of a cookie in a `Cookie` header. */
export function cookieOf(cookies: string | undefined, name: string): string | undefined {
  const found = cookies?.split(';').find((each) => each.trim().startsWith(`${name}=`))
  return found?.trim().slice(name.length + 1)
}

/**
 * Tells a form that was sent from a page of the gateway from one that a page of another origin made a browser send.
 *
 * It goes by the headers that browsers set themselves (Fetch: `Origin`; Fetch Metadata: `Sec-Fetch-Site`), so it is
 * one of two guards: a form that decides something also holds a token of its own, or its cookie is `SameSite`.
 */
interface Headers {
  readonly origin?: string | undefined
  readonly host?: string | undefined
  readonly 'sec-fetch-site'?: string | readonly string[] | undefined
}

/** Whether a request cannot come from a page of another origin, as far as its headers say. */
export function isFromHere(headers: Headers, publicUrl: string | undefined): boolean {
  const { origin, host, 'sec-fetch-site': site } = headers
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false
  if (origin === undefined) return true
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true
  return URL.canParse(origin) && new URL(origin).host === host
}

/** The URL of what listens on an address, as it is opened on the same machine: one that stands for all is no place to go to. */
export function ownUrl(host: string, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}
