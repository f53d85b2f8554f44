/**
 * The frame of all pages of the gateway: the name of the product and a way home, the places of the console that its reader
 * may see, who the reader is, and the script that shows times in the reader's time zone. Links are relative, because a
 * reverse proxy may have added a prefix to the path that the browser uses.
 */
import type { PageFrame } from '../../core/http-paths.ts'
import { self } from '../../core/identity.ts'
import { htmlPage, pageHeaders } from '../../core/web.ts'
import { displayWord, html, type Html, trusted } from './html.ts'
import type { PageRole } from '../../core/auth-settings.ts'
import { hasRole, type PageUser } from './page-users.ts'
import { style } from './style.ts'

/** A place in the navigation. */
export interface Place {
  /** Its path, such as `/console/needs`. */
  readonly path: string
  readonly label: string
  /** Who sees it: page users with one of these roles. */
  readonly roles: readonly PageRole[]
  /** Whether the number of things that need the reader is beside it. */
  readonly hasCount?: true
}

/** What the frame says of its reader. */
export interface Reader {
  /** Undefined for a reader who is not signed in, or may not use the console. */
  readonly user?: PageUser | undefined
  /** The places of the console, also those that the reader may not see. */
  readonly places: readonly Place[]
  /** How many things need the reader; undefined if that is not known. */
  readonly needs?: number | undefined
  /** Whether the session of a signed-in person can be ended. */
  readonly canSignOut?: boolean
}

/** A page in the frame. */
export interface FramedPage {
  readonly title: string
  readonly content: Html
  /** The path of the request. */
  readonly path: string
  readonly reader: Reader
  /** How wide it is: a text to read, the front page, or lists. Default: narrow. */
  readonly width?: 'narrow' | 'normal' | 'wide'
  /** The class of its content, which the style sheet knows. */
  readonly kind?: string
  /** The id of the element that its keyboard users can skip to, which is also what it is called. Default: content. */
  readonly skipTo?: string
  /** What it runs besides the script of the frame. */
  readonly script?: string
  /** Whether its script reads other pages of the gateway. */
  readonly isLive?: boolean
}

/** The headers of a page in the frame. */
export function frameHeaders(
  page: Pick<FramedPage, 'content' | 'script' | 'isLive'>,
): Readonly<Record<string, string>> {
  return { ...pageHeaders(style, scriptOf(page), page.isLive), vary: 'Accept, Cookie, Authorization' }
}

/** A page that everybody may see, and its headers: nothing of the console is in its frame. The content is HTML. */
export function openPage(
  content: string,
  frame: PageFrame,
  path: string,
): { readonly text: string; readonly headers: Readonly<Record<string, string>> } {
  const page = { ...frame, content: trusted(content), path, reader: { places: [] } }
  return { text: framedPage(page), headers: frameHeaders(page) }
}

/** A complete document. */
export function framedPage(page: FramedPage): string {
  const { title, content, path, reader, width = 'narrow', kind, skipTo = 'content' } = page
  const root = rootOf(path)
  const body = html`<a class="skip" href="#${skipTo}">Skip to the ${skipTo}</a>
    <div class="${width}">
      <header class="top">
        <div class="bar">
          <a class="brand" href="${root}">${mark}Gatehouse</a>
          ${navigation(reader, path, root)}
          ${whoHtml(reader, root)}
        </div>
      </header>
      <main id="content" class="${kind ?? ''}" tabindex="-1">${content}</main>
      <footer><div class="foot">Gatehouse ${self.version}, a gateway for MCP servers.</div></footer>
    </div>`
  const name = title === 'Gatehouse' ? title : `${title} · Gatehouse`
  return htmlPage({ title: name, style, content: body, script: scriptOf(page) })
}

/** The relative URL of the front page from the page at a path: `./`, `../` … */
export function rootOf(path: string): string {
  const depth = path.split('/').length - 2
  return depth <= 0 ? './' : '../'.repeat(depth)
}

/** The logo: decorative, hidden from screen readers. */
const mark = trusted(
  '<svg aria-hidden="true" viewBox="0 0 24 24"><path d="M3 21V8l2-2V3h2v2h3V3h4v2h3V3h2v3l2 2v13h-6v-6a3 3 0 0 0-6 0v6z"/></svg>',
)

function navigation({ user, places, needs }: Reader, path: string, root: string): Html | false {
  if (places.length === 0) return false
  if (!user)
    return html`<nav aria-label="Console"><ul class="places"><li><a href="${root}console">Console</a></li></ul></nav>`
  const seen = places.filter(({ roles }) => hasRole(user, ...roles))
  const items = seen.map((place) => {
    const current = place.path === path || (path.startsWith(`${place.path}/`) && place.path !== '/console')
    return html`<li><a href="${root}${place.path.slice(1)}"${current && html` aria-current="page"`}>${place.label}${place.hasCount && countHtml(needs)}</a></li>`
  })
  return html`<nav aria-label="Console"><ul class="places">${items}</ul></nav>`
}

function countHtml(needs = 0): Html {
  return html`<span id="needs-count" data-live="needs">${needs > 0 && html` <span class="count">${needs}</span>`}</span>`
}

function whoHtml({ user, canSignOut }: Reader, root: string): Html | false {
  if (!user) return false
  const signOut = html`<form method="post" action="${root}sign-out"><button class="plain">Sign out</button></form>`
  return html`<div class="who"><span>Signed in as ${displayWord(user.by)}</span>${canSignOut && signOut}</div>`
}

/** Shows times in the time zone of the reader. Without script they stay in UTC, and are labelled so. */
const times = `
'use strict'
{
  const format = new Intl.DateTimeFormat(undefined, {
    year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
  })
  const show = () => {
    for (const each of document.querySelectorAll('time[datetime]:not([data-shown])')) {
      each.dataset.shown = ''
      const text = format.format(new Date(each.dateTime))
      if (each.dataset.age !== undefined) each.title = text
      else {
        each.title = each.textContent
        each.textContent = text
      }
    }
  }
  show()
  document.addEventListener('gatehouse:shown', show)
}
`

/** The script of a page; undefined for one that needs none. */
function scriptOf({ content, script }: Pick<FramedPage, 'content' | 'script'>): string | undefined {
  if (script === undefined && !content.includes('<time')) return undefined
  // First, as it remembers how the page came.
  return (script ?? '') + times
}
