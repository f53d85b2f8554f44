/** The HTML of the page at `/`. */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { isProtected } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Refusal } from '../../core/events.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { escapeHtml as escape, htmlPage, pageHeaders } from '../../core/web.ts'
import type { Link } from '../../descriptions/model/description.ts'
import type { Edge } from '../http/edge.ts'
import { documentAt } from '../http/routes.ts'
import { type ClientSnippet, clientSnippets } from './client-snippets.ts'
import { searchFor, counted, serverSection, type ServerRow, stateMark } from './servers.ts'

// Style and script of the front page, inline, with hashes in the content security policy.

/** How the page looks: in light and dark, down to the width of a phone. */
const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --box: #f5f6f8; --text: #1a1c20; --faint: #555b66; --line: #d5d9e0; --edge: #7d8490; --link: #0b57b0;
  --safe: #0b6b34; --safe-back: #e6f4ea; --reversible: #7d4400; --reversible-back: #fdf0dc; --destructive: #a8141b;
  --destructive-back: #fdeaea; --asked: #5b2a9d; --asked-back: #f1eafb; --plain-back: #eceef2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15171b; --box: #1e2126; --text: #eceef1; --faint: #b0b6c0; --line: #363b45; --edge: #7d8490; --link: #8ab8ff;
    --safe: #8be0a8; --safe-back: #14301f; --reversible: #f5c076; --reversible-back: #38280f; --destructive: #ffa8a3;
    --destructive-back: #40191a; --asked: #cdb2ff; --asked-back: #2b2140; --plain-back: #2a2e36;
  }
}
* { box-sizing: border-box }
[hidden] { display: none !important }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; background: var(--back); color: var(--text); overflow-wrap: anywhere }
header, main, footer { max-width: 58rem; margin: 0 auto; padding: 0 1rem }
header { padding-top: 1.75rem }
main { padding-bottom: 1rem }
footer { border-top: 1px solid var(--line); color: var(--faint); margin-top: 2rem; padding-top: 1rem; padding-bottom: 2.5rem }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; letter-spacing: -.01em }
h1 svg { width: 1.75rem; height: 1.75rem; fill: currentColor; vertical-align: -.2em; margin-right: .5rem }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.25rem 0 .75rem }
h3 { display: inline; font-size: 1.0625rem; margin: 0 }
h4 { font-size: .875rem; color: var(--faint); font-weight: 600; margin: 1rem 0 .25rem }
p { margin: .5rem 0 }
a { color: var(--link); text-underline-offset: .15em }
code, pre { font: .9375rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.lead { color: var(--faint); margin: .375rem 0 0 }
.skip { position: absolute; left: -100rem }
.skip:focus { left: 1rem; top: .5rem; background: var(--back); padding: .5rem .75rem }
.copied { display: flex; align-items: flex-start; gap: .5rem; margin: .5rem 0 }
.copied > :first-child { flex: 1; min-width: 0; background: var(--box); border: 1px solid var(--line); border-radius: .5rem; margin: 0; padding: .625rem .75rem; white-space: pre-wrap }
button, .button { font: inherit; font-weight: 600; min-height: 2.75rem; padding: .5rem 1rem; border-radius: .5rem; border: 1px solid var(--edge); background: var(--back); color: var(--text); cursor: pointer }
.button { display: inline-block; text-decoration: none }
button:hover, .button:hover { background: var(--box) }
.copied button { min-width: 6.5rem }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0 }
summary { cursor: pointer; list-style: none; padding: .625rem .75rem; border-radius: .5rem; position: relative; padding-left: 2rem }
summary::-webkit-details-marker { display: none }
summary::before { content: ''; position: absolute; left: .875rem; top: 1.125rem; width: .4rem; height: .4rem; border: solid var(--faint); border-width: 0 2px 2px 0; transform: rotate(-45deg) }
details[open] > summary::before { transform: rotate(45deg) }
summary:hover { background: var(--box) }
.inside { padding: 0 .75rem .75rem 2rem }
form { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem; margin: 0 }
form div { flex: 1 1 14rem }
label { display: block; font-weight: 600; margin-bottom: .25rem }
input { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: .5rem; background: var(--back); color: var(--text) }
.waiting { border: 2px solid var(--asked); border-radius: .75rem; margin-top: 1.5rem; padding: 0 1rem 1rem }
.waiting h2 { margin: .75rem 0 .5rem }
.waiting ul { list-style: none; margin: 0; padding: 0 }
.waiting li { border-top: 1px solid var(--line); padding: .5rem 0 }
.waiting li a { display: inline-block; font-weight: 600; padding: .25rem 0 }
.waiting p { margin: .125rem 0 }
.found { display: flex; flex-wrap: wrap; gap: 0 1rem; color: var(--faint); margin: .5rem 0 .75rem; min-height: 1.5rem }
.found p { margin: 0 }
.server { border-radius: .75rem; margin: .75rem 0 }
.server > summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: .125rem .75rem; padding-top: .875rem; padding-bottom: .875rem; border-radius: .75rem }
.server > summary::before { top: 1.375rem }
.server > .inside { padding-left: .75rem }
.about { color: var(--faint) }
.state { font-weight: 600; white-space: nowrap }
.state::before { content: ''; display: inline-block; width: .625rem; height: .625rem; border-radius: 50%; margin-right: .375rem; background: currentColor }
.ready { color: var(--safe) }
.starting { color: var(--reversible) }
.unavailable { color: var(--destructive) }
.unavailable::before { border-radius: 1px }
.purpose { flex-basis: 100%; color: var(--faint) }
.clients { border: 1px solid var(--line); border-radius: .5rem; margin: .75rem 0 }
.clients details { border: 0; margin: 0 }
.clients details + details { border-top: 1px solid var(--line); border-radius: 0 }
dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr); gap: .25rem 1rem; margin: .75rem 0 }
dt { color: var(--faint) }
dd { margin: 0 }
.links { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .75rem 0; padding: 0 }
.links a { display: inline-block; padding: .25rem 0 }
.tools { list-style: none; margin: .75rem 0 0; padding: 0 }
.tool { border-top: 1px solid var(--line) }
.tool > details { border: 0; margin: 0 }
.tool > details > .inside { padding-bottom: 1rem }
.name { font-weight: 600 }
.also { color: var(--faint) }
.summary { display: block }
.marks { display: flex; flex-wrap: wrap; gap: .25rem .375rem; margin-top: .375rem }
.mark { background: var(--plain-back); border-radius: .375rem; font-size: .875rem; line-height: 1.3; padding: .125rem .5rem }
.mark.safe { color: var(--safe); background: var(--safe-back) }
.mark.reversible { color: var(--reversible); background: var(--reversible-back) }
.mark.destructive { color: var(--destructive); background: var(--destructive-back); font-weight: 600 }
.mark.asked { color: var(--asked); background: var(--asked-back) }
.description { white-space: pre-wrap }
.notice { border: 2px solid var(--destructive); border-radius: .5rem; padding: .625rem .75rem; margin: 1rem 0 }
.states { list-style: none; margin: 0; padding: 0 }
.states li { display: flex; flex-wrap: wrap; gap: 0 .75rem; border-top: 1px solid var(--line); padding: .5rem 0 }
.states code { flex-basis: 100%; color: var(--faint) }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
@media (max-width: 30rem) {
  .inside, .server > .inside { padding-left: .75rem }
  .copied { flex-direction: column; align-items: stretch }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 }
  dd { margin-bottom: .5rem }
}
@media (prefers-reduced-motion: no-preference) { summary::before { transition: transform .15s } }
`

/** Filters the page as people type, and copies what is there to be copied. Without it the form asks for the page anew. */
const script = `
'use strict'
{
  const form = document.querySelector('form[role=search]')
  const servers = [...document.querySelectorAll('.server')].map((box) => {
    const name = box.dataset.find.toLowerCase()
    const tools = [...box.querySelectorAll('.tool')].map((tool) => ({
      tool,
      text: name + ' ' + (tool.dataset.find + ' ' + tool.querySelector('summary').textContent).toLowerCase(),
    }))
    return { box, name, tools, isOpen: box.dataset.open !== undefined }
  })
  const wordsOf = (text) => text.toLowerCase().split(/\\s+/).filter((word) => word !== '')
  const filter = (query) => {
    const words = wordsOf(query)
    let shown = 0
    let total = 0
    for (const { box, name, tools, isOpen } of servers) {
      let own = 0
      for (const { tool, text } of tools) {
        const isFound = words.every((word) => text.includes(word))
        tool.hidden = !isFound
        if (isFound) own++
      }
      shown += own
      total += tools.length
      box.hidden = own === 0 && !words.every((word) => name.includes(word))
      box.open = words.length > 0 ? own > 0 : isOpen
    }
    document.querySelector('#count').textContent =
      words.length > 0 ? shown + ' of ' + total + ' tools match' : total + (total === 1 ? ' tool' : ' tools')
    document.querySelector('#nothing').hidden = servers.some(({ box }) => !box.hidden)
    document.querySelector('#all').hidden = words.length === 0
    const search = query.trim() === '' ? location.pathname : '?q=' + encodeURIComponent(query.trim())
    history.replaceState(null, '', search)
  }
  if (form) {
    const field = form.elements.q
    field.addEventListener('input', () => filter(field.value))
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return
      field.value = ''
      filter('')
    })
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      filter(field.value)
    })
    document.querySelector('#all').addEventListener('click', (event) => {
      event.preventDefault()
      field.value = ''
      filter('')
      field.focus()
    })
    form.querySelector('button').hidden = true
  }
  if (navigator.clipboard) {
    for (const box of document.querySelectorAll('.copied')) {
      const button = document.createElement('button')
      button.type = 'button'
      button.textContent = 'Copy'
      button.setAttribute('aria-label', 'Copy ' + box.dataset.what)
      button.addEventListener('click', () => {
        navigator.clipboard.writeText(box.firstElementChild.textContent).then(
          () => (button.textContent = 'Copied'),
          () => (button.textContent = 'Not copied'),
        )
      })
      box.append(button)
    }
  }
}
`

/** What the page for people at `/` is made of. */
export interface FrontPage {
  readonly version: string
  /** Where clients reach it, by the name they are to know it by. */
  readonly endpoints: Readonly<Record<string, string>>
  /** Whether callers show who they are, and how. */
  readonly access: PageAccess
  readonly servers: readonly ServerRow[]
  /** The calls that wait for a person, as far as the reader may know; undefined where they cannot be read. */
  readonly waiting?: readonly WaitingCall[] | undefined
  /** What else there is to read here. */
  readonly links: readonly PageLink[]
  /** What the reader looks for. */
  readonly query: string
}

/** How readers are let in. */
interface PageAccess {
  readonly isProtected: boolean
  /** Whether this reader was let in. */
  readonly isIn: boolean
  /** Whether people have names and passwords. */
  readonly hasPasswords: boolean
  /** Who issues tokens. */
  readonly issuers: readonly string[]
  /** Where people sign in at the issuer; absent where they do not. */
  readonly signInUrl?: string
  /** The person who signed in there, as callers are named. */
  readonly person?: string
  /** Why the reader was not let in. */
  readonly problem?: string
}

/** A link with what is there. */
export interface PageLink extends Link {
  readonly meaning: string
}

/** With so many tools or fewer all of them are shown at once. */
const MAX_OPEN_TOOLS = 30

/** The page for people: what is behind the gateway, how it does, and how clients come to it. */
export function renderPage(page: FrontPage): string {
  const { servers, access, version, links } = page
  const isOpen = access.isIn
  const content = `<a class="skip" href="#servers">Skip to the servers</a>
<header>
<h1>${mark}Gatehouse</h1>
<p class="lead">${leadOf(servers, version)}</p>
</header>
<main>
${isOpen ? signedIn(access) : signIn(access)}
${'waiting' in page ? waitingCalls(page.waiting) : ''}
${connect(page)}
${isOpen ? catalogue(page) : states(servers)}
${documents(links)}
</main>
<footer>Gatehouse ${escape(version)}, a gateway for MCP servers. This page shows how things were when it was loaded.</footer>`
  return htmlPage({ title: 'Gatehouse', style, content, script })
}

/** A gate, for those who see. */
const mark =
  '<svg aria-hidden="true" viewBox="0 0 24 24"><path d="M3 21V8l2-2V3h2v2h3V3h4v2h3V3h2v3l2 2v13h-6v-6a3 3 0 0 0-6 0v6z"/></svg>'

/** What the page is sent with. */
export const frontPageHeaders = {
  ...pageHeaders(style, script),
  vary: 'Authorization, Cookie',
}

function leadOf(servers: readonly ServerRow[], version: string): string {
  const ready = servers.filter(({ state }) => state === 'ready').length
  const known = servers.filter(({ panel }) => panel !== undefined)
  const tools = known.reduce((sum, { panel }) => sum + (panel?.tools.length ?? 0), 0)
  return [
    `${counted(servers.length, 'server')}, ${ready === servers.length ? (ready === 1 ? 'ready' : 'all ready') : `${ready} ready`}`,
    ...(known.length > 0 ? [counted(tools, 'tool')] : []),
    `version ${escape(version)}`,
  ].join(' · ')
}

function signedIn({ person }: PageAccess): string {
  if (person === undefined) return ''
  return `<form method="post" action="sign-out"><p>Signed in as <bdi>${escape(person)}</bdi>.</p><button>Sign out</button></form>`
}

function signIn({ problem, hasPasswords, issuers, signInUrl }: PageAccess): string {
  const ways = [
    signInUrl === undefined
      ? ''
      : `<p><a class="button" href="${escape(signInUrl)}">Sign in at the issuer of your tokens</a></p>`,
    hasPasswords ? '<p><a class="button" href="?sign-in">Sign in with a name and password</a></p>' : '',
    `<p>Programs send their token with each request: <code>Authorization: Bearer …</code></p>`,
    issuers.length > 0
      ? `<p>Tokens are issued by ${issuers.map(issuer).join(', ')}; <a href=".well-known/oauth-protected-resource/mcp">what clients are told about that</a>.</p>`
      : '',
  ]
  return `<section aria-labelledby="sign-in"><h2 id="sign-in">Sign in</h2>
${problem === undefined ? '' : `<p class="notice" role="alert">${escape(problem)}</p>`}
<p>The tools behind this gateway are shown to those who may call them.</p>
${ways.join('\n')}</section>`
}

function issuer(url: string): string {
  if (!/^https?:\/\//.test(url)) return escape(url)
  return `<a rel="noopener noreferrer" href="${escape(url)}">${escape(url)}</a>`
}

function connect({ endpoints, access }: FrontPage): string {
  const own = Object.entries(endpoints)
  const addresses = own.map(
    ([name, url]) =>
      `${own.length > 1 ? `<h3>${escape(name)}</h3>` : ''}${copied(`the address of ${name}`, url)}`,
  )
  const needsToken = access.isProtected && access.issuers.length === 0
  const snippets = clientSnippets({ endpoints, needsToken }).map(snippet)
  return `<section aria-labelledby="connect"><h2 id="connect">Connect a client</h2>
<p>${own.length > 1 ? 'The addresses for MCP clients:' : 'The address for MCP clients:'}</p>
${addresses.join('\n')}
<div class="clients">${snippets.join('\n')}</div></section>`
}

function snippet({ client, file, place, text, command, note, own }: ClientSnippet): string {
  return `<details><summary>${escape(client)}</summary><div class="inside">
${command === undefined ? '' : `<p>On the command line:</p>${copied(`the command for ${client}`, command)}`}
<p>In <code>${escape(file)}</code> ${escape(place)}:</p>
${copied(`the settings for ${client}`, text)}
${note === undefined ? '' : `<p>${escape(note)}</p>${copied('the file of that gateway', own ?? '')}`}
</div></details>`
}

/** A text people can copy. */
function copied(what: string, text: string): string {
  return `<div class="copied" data-what="${escape(what)}"><pre>${escape(text)}</pre></div>`
}

function catalogue({ servers, query }: FrontPage): string {
  const search = searchFor(query)
  const isSearching = query.trim() !== ''
  const total = servers.reduce((sum, { panel }) => sum + (panel?.tools.length ?? 0), 0)
  const isOpen = total <= MAX_OPEN_TOOLS
  const found = servers.map((row) => serverSection(row, { search, isSearching, isOpen }))
  const shown = found.reduce((sum, each) => sum + each.found, 0)
  const count = isSearching ? `${shown} of ${counted(total, 'tool')} match` : counted(total, 'tool')
  return `<section aria-labelledby="servers"><h2 id="servers" tabindex="-1">Servers and their tools</h2>
<form role="search" method="get"><div><label for="q">Find tools</label>
<input id="q" name="q" type="search" maxlength="200" autocomplete="off" spellcheck="false" value="${escape(query)}"></div>
<button>Find</button></form>
<div class="found"><p id="count" role="status">${count}</p><a id="all" href="./"${isSearching ? '' : ' hidden'}>Show all</a></div>
${found.map(({ html }) => html).join('\n')}
<p id="nothing"${found.some(({ isShown }) => isShown) ? ' hidden' : ''}>Nothing here is called or described like that.</p>
</section>`
}

function states(servers: readonly ServerRow[]): string {
  const rows = servers.map(
    (row) =>
      `<li><strong>${escape(row.name)}</strong>${stateMark(row)}<code>${escape(row.address)}</code></li>`,
  )
  return `<section aria-labelledby="servers"><h2 id="servers" tabindex="-1">Servers</h2>
<ul class="states">${rows.join('')}</ul></section>`
}

function documents(links: readonly PageLink[]): string {
  const rows = links.map(
    ({ label, url, meaning }) =>
      `<dt><a href="${escape(url)}">${escape(label)}</a></dt><dd>${escape(meaning)}</dd>`,
  )
  return `<nav aria-labelledby="documents"><h2 id="documents">More to read here</h2>
<dl>${rows.join('')}</dl></nav>`
}

// The route of the front page: who reads it, and what they may see.

/** Who looks at the page, and what for. */
export interface Reader {
  /** Absent for a stranger where callers are told apart. */
  readonly principal?: Principal
  /** Why the reader was not let in. */
  readonly problem?: string
  readonly query: string
}

type Env = { Bindings: HttpBindings }

interface Options {
  edge(): Edge
  /** Who has the credentials of a request; the answer to one that is refused gets its challenge. @throws what it is refused with */
  enter(context: Context<Env>): Promise<Principal>
  /** The person whose session in the browser a request belongs to. */
  signedIn(context: Context<Env>): Promise<Principal | undefined>
  page(reader: Reader): Promise<string>
  onRefused?: ((refusal: Refusal) => void) | undefined
}

/** Adds the page for people. It is open to all; anonymous readers see less. */
export function addFrontPage(app: Hono<Env>, options: Options): void {
  const { edge, enter, signedIn, page, onRefused } = options
  app.get('/', async (context) => {
    const { req, env } = context
    const { auth, documents } = edge().runtime
    const query = req.query('q') ?? ''
    const link = documentAt('/llms.txt', documents) && { link: '</llms.txt>; rel="llms-help"' }
    const sent = { ...frontPageHeaders, ...link }
    if (!isProtected(auth)) return context.html(await page({ principal: anonymous, query }), 200, sent)
    const isEntering = req.query('sign-in') !== undefined || req.header('authorization') !== undefined
    if (!isEntering) {
      // The page shows the state of the gateway: it is there even where the store is not.
      const person = await signedIn(context).catch(() => undefined)
      return context.html(await page({ query, ...(person && { principal: person }) }), 200, sent)
    }
    const found = await enter(context).catch(asGatewayError)
    if (!(found instanceof GatewayError))
      return context.html(await page({ principal: found, query }), 200, sent)
    const requestId = String(env.incoming.headers['x-request-id'])
    const address = env.incoming.socket.remoteAddress
    onRefused?.({ requestId, error: found, request: 'GET /', address })
    return context.html(await page({ problem: found.message, query }), statusOf(found.httpStatus), sent)
  })
}

const statuses = [400, 401, 403, 429, 503] as const

function statusOf(status: number): (typeof statuses)[number] | 500 {
  return statuses.find((each) => each === status) ?? 500
}

// The section of the page for people that names the calls which wait for a person. It says who calls, which tool and
// for how long, and links to the page where the call is decided. Arguments never stand here: that page shows them, to
// those who may decide.

/** A call that waits for the approval of a person. */
export interface WaitingCall {
  /** The id of its approval. */
  readonly id: string
  readonly tool: string
  readonly upstream: string
  /** Who made the call. */
  readonly caller: string
  /** For how long it waits, in milliseconds. */
  readonly age: number
  /** How long people have still to decide, in milliseconds. */
  readonly left: number
}

/** How many calls are listed; the others are on the page of approvals. */
const MAX_LISTED_CALLS = 10

/** The section as HTML, nothing where no call waits; `calls` is undefined where the store cannot be read. */
function waitingCalls(calls: readonly WaitingCall[] | undefined): string {
  if (calls === undefined) return section('<p>They cannot be read now: the store does not answer.</p>', '')
  if (calls.length === 0) return ''
  const rows = calls.slice(0, MAX_LISTED_CALLS).map(
    ({ id, tool, upstream, caller, age, left }) =>
      `<li><a href="confirm/${encodeURIComponent(id)}"><bdi>${escape(tool)}</bdi> on <bdi>${escape(upstream)}</bdi></a>
<p>Called by <bdi>${escape(caller)}</bdi> ${duration(age)} ago; expires in ${duration(left)}.</p></li>`,
  )
  const others = calls.length - rows.length
  const more = others > 0 ? `<p><a href="confirm">${counted(others, 'call')} more</a></p>` : ''
  return section(`<ul>${rows.join('')}</ul>${more}`, ` (${calls.length})`)
}

function section(html: string, count: string): string {
  return `<section class="waiting" aria-labelledby="waiting"><h2 id="waiting">Calls that wait for approval${count}</h2>
${html}</section>`
}

function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  if (seconds < 120) return counted(seconds, 'second')
  const minutes = Math.floor(seconds / 60)
  return minutes < 120 ? counted(minutes, 'minute') : counted(Math.floor(minutes / 60), 'hour')
}
