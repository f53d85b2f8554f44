/** The HTML of the page at `/`: about the gateway, and its servers and their tools, with search. */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import { isProtected } from '../../core/auth-settings.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Refusal } from '../../core/audit-step.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { countText } from '../../core/text/words.ts'
import { escapeHtml as escape } from '../../core/web.ts'
import type { DocumentLink } from '../../descriptions/model/description.ts'
import type { Edge } from '../http/edge.ts'
import { documentAt } from '../http/routes.ts'
import { type ClientSnippet, clientSnippets } from './client-snippets.ts'
import type { ParameterPanel, ServerPanel, ToolPanel } from '../../descriptions/formats/front-page.ts'
import { timeHtml, trusted } from './html.ts'
import { framedPage, frameHeaders, type Reader as FrameReader } from './shell.ts'

/** Filters the page while the user types, and adds copy buttons. Without script, the form reloads the page. */
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
    let matching = 0
    let total = 0
    for (const { box, name, tools, isOpen } of servers) {
      let own = 0
      for (const { tool, text } of tools) {
        const isFound = words.every((word) => text.includes(word))
        tool.hidden = !isFound
        if (isFound) own++
      }
      matching += own
      total += tools.length
      box.hidden = own === 0 && !words.every((word) => name.includes(word))
      box.open = words.length > 0 ? own > 0 : isOpen
    }
    document.querySelector('#count').textContent =
      words.length > 0 ? matching + ' of ' + total + ' tools match' : total + (total === 1 ? ' tool' : ' tools')
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

/** The content of the page at `/`. */
export interface FrontPage {
  readonly version: string
  /** The URL of each endpoint by its name in a client. */
  readonly endpoints: Readonly<Record<string, string>>
  /** The key of the gateway, if it lasts. */
  readonly key?: string | undefined
  /** How callers authenticate. */
  readonly access: PageAccess
  readonly servers: readonly ServerRow[]
  /** The calls that wait for approval and that the reader may see; undefined if they cannot be read. */
  readonly waiting?: readonly WaitingCall[] | undefined
  /** The pause of writes, while there is one. */
  readonly paused?: PauseNotice
  /** Links to other documents. */
  readonly links: readonly PageLink[]
  /** The search query. */
  readonly query: string
  /** What the frame says of the reader. */
  readonly reader: FrameReader
}

/** What the reader may know of the pause of writes; times are in milliseconds since 1970. */
export interface PauseNotice {
  readonly since: number
  readonly until?: number
  readonly by?: string
  readonly reason?: string
}

/** How readers sign in. */
interface PageAccess {
  readonly isProtected: boolean
  /** Whether this reader is authenticated. */
  readonly isAuthenticated: boolean
  /** Whether users with passwords are configured. */
  readonly hasPasswords: boolean
  /** The issuers of tokens. */
  readonly issuers: readonly string[]
  /** The link for sign-in at the issuer; absent if that is not configured. */
  readonly signInUrl?: string
  /** Why authentication failed. */
  readonly problem?: string
}

/** A link with a description. */
export interface PageLink extends DocumentLink {
  readonly description: string
}

/** Up to this number of tools, servers are shown expanded. */
const MAX_OPEN_TOOLS = 30

/** Renders the front page: servers, their state, and how to connect clients. */
export function renderPage(page: FrontPage): string {
  const { servers, access, version, links } = page
  const isOpen = access.isAuthenticated
  const content = `<h1>${countText(servers.length, 'server')}, ${readyText(servers)}</h1>
<p class="lead">${leadOf(servers, version)}</p>
${pauseNotice(page.paused)}
${isOpen ? '' : signIn(access)}
${'waiting' in page ? waitingCalls(page.waiting) : ''}
${connect(page)}
${isOpen ? catalogue(page) : states(servers)}
${documents(links)}`
  return framedPage({
    title: 'Gatehouse',
    content: trusted(content),
    path: '/',
    reader: page.reader,
    width: 'normal',
    kind: 'front',
    skipTo: 'servers',
    script,
  })
}

/** The response headers of the page. */
export const frontPageHeaders = frameHeaders({ content: trusted(''), script })

function readyText(servers: readonly ServerRow[]): string {
  const ready = servers.filter(({ state }) => state === 'ready').length
  if (ready < servers.length) return `${ready} ready`
  return ready === 1 ? 'ready' : 'all ready'
}

function leadOf(servers: readonly ServerRow[], version: string): string {
  const known = servers.filter(({ panel }) => panel !== undefined)
  const tools = known.reduce((sum, { panel }) => sum + (panel?.tools.length ?? 0), 0)
  return [...(known.length > 0 ? [countText(tools, 'tool')] : []), `version ${escape(version)}`].join(' · ')
}

function pauseNotice(paused: PauseNotice | undefined): string {
  if (!paused) return ''
  const { since, until, by, reason } = paused
  const end = until === undefined ? '' : `, until ${timeHtml(until)}`
  const why = reason === undefined ? '.' : `: <bdi>${escape(reason)}</bdi>`
  const person = by === undefined ? '' : ` Paused by <bdi>${escape(by)}</bdi>${why}`
  return `<p class="notice" role="status">Writes are paused since ${timeHtml(since)}${end}. Calls that only read still work.${person}</p>`
}

function signIn({ problem, hasPasswords, issuers, signInUrl }: PageAccess): string {
  const ways = [
    signInUrl === undefined ? '' : `<p><a class="button" href="${escape(signInUrl)}">Sign in</a></p>`,
    hasPasswords ? '<p><a class="button" href="?sign-in">Sign in with a name and password</a></p>' : '',
    `<p>Programs send their token with each request: <code>Authorization: Bearer …</code></p>`,
    issuers.length > 0
      ? `<p>Tokens are issued by ${issuers.map(issuer).join(', ')}; <a href=".well-known/oauth-protected-resource/mcp">metadata for clients</a>.</p>`
      : '',
  ]
  return `<section aria-labelledby="sign-in"><h2 id="sign-in">Sign in</h2>
${problem === undefined ? '' : `<p class="notice" role="alert">${escape(problem)}</p>`}
<p>Sign in to see the tools that you may call.</p>
${ways.join('\n')}</section>`
}

function issuer(url: string): string {
  if (!/^https?:\/\//.test(url)) return escape(url)
  return `<a rel="noopener noreferrer" href="${escape(url)}">${escape(url)}</a>`
}

function connect({ endpoints, access, key }: FrontPage): string {
  const own = Object.entries(endpoints)
  const addresses = own.map(
    ([name, url]) =>
      `${own.length > 1 ? `<h3>${escape(name)}</h3>` : ''}${copied(`the address of ${name}`, url)}`,
  )
  const needsToken = access.isProtected && access.issuers.length === 0
  const snippets = clientSnippets({ endpoints, needsToken, isProtected: access.isProtected, key }).map(
    snippet,
  )
  return `<section aria-labelledby="connect"><h2 id="connect">Connect a client</h2>
<p>${own.length > 1 ? 'Endpoint URLs for MCP clients:' : 'Endpoint URL for MCP clients:'}</p>
${addresses.join('\n')}
<div class="clients">${snippets.join('\n')}</div></section>`
}

function snippet({ client, file, place, text, command, note }: ClientSnippet): string {
  return `<details><summary>${escape(client)}</summary><div class="inside">
${command === undefined ? '' : `<p>On the command line:</p>${copied(`the command for ${client}`, command)}`}
<p>In <code>${escape(file)}</code> ${escape(place)}:</p>
${copied(`the settings for ${client}`, text)}
${note === undefined ? '' : `<p>${escape(note)}</p>`}
</div></details>`
}

/** A text with a copy button. */
function copied(what: string, text: string): string {
  return `<div class="copied" data-what="${escape(what)}"><pre>${escape(text)}</pre></div>`
}

function catalogue({ servers, query }: FrontPage): string {
  const search = searchFor(query)
  const isSearching = query.trim() !== ''
  const total = servers.reduce((sum, { panel }) => sum + (panel?.tools.length ?? 0), 0)
  const isOpen = total <= MAX_OPEN_TOOLS
  const found = servers.map((row) => serverSection(row, { search, isSearching, isOpen }))
  const matching = found.reduce((sum, each) => sum + each.found, 0)
  const count = isSearching ? `${matching} of ${countText(total, 'tool')} match` : countText(total, 'tool')
  return `<section aria-labelledby="servers"><h2 id="servers" tabindex="-1">Servers and their tools</h2>
<form role="search" method="get"><div><label for="q">Find tools</label>
<input id="q" name="q" type="search" maxlength="200" autocomplete="off" spellcheck="false" value="${escape(query)}"></div>
<button>Find</button></form>
<div class="found"><p id="count" role="status">${count}</p><a id="all" href="./"${isSearching ? '' : ' hidden'}>Show all</a></div>
${found.map(({ html }) => html).join('\n')}
<p id="nothing"${found.some(({ isVisible }) => isVisible) ? ' hidden' : ''}>No server or tool matches.</p>
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
    ({ label, url, description }) =>
      `<dt><a href="${escape(url)}">${escape(label)}</a></dt><dd>${escape(description)}</dd>`,
  )
  return `<nav aria-labelledby="documents"><h2 id="documents">Documents</h2>
<dl>${rows.join('')}</dl></nav>`
}

// The route of the front page: authentication and visibility.

/** The reader of the page, and the search query. */
export interface Reader {
  /** Absent for an anonymous reader if callers are authenticated. */
  readonly principal?: Principal
  /** Why authentication failed. */
  readonly problem?: string
  readonly query: string
  /** The cookies of the request. */
  readonly cookies?: string | undefined
}

type Env = { Bindings: HttpBindings }

interface Options {
  edge(): Edge
  /** Authenticates a request; adds a challenge to the response if it is rejected. @throws the reason of the rejection */
  authenticate(context: Context<Env>): Promise<Principal>
  /** The person of the browser session of a request. */
  signedIn(context: Context<Env>): Promise<Principal | undefined>
  page(reader: Reader): Promise<string>
  onRefused?: ((refusal: Refusal) => void) | undefined
}

/** Adds the front page. It is public; anonymous readers see less. */
export function addFrontPage(app: Hono<Env>, options: Options): void {
  const { edge, authenticate, signedIn, page, onRefused } = options
  app.get('/', async (context) => {
    const { req, env } = context
    const { auth, documents } = edge().runtime
    const query = req.query('q') ?? ''
    const link = documentAt('/llms.txt', documents) && { link: '</llms.txt>; rel="llms-help"' }
    const sent = { ...frontPageHeaders, ...link }
    if (!isProtected(auth))
      return context.html(
        await page({ principal: anonymous, query, cookies: req.header('cookie') }),
        200,
        sent,
      )
    const isEntering = req.query('sign-in') !== undefined || req.header('authorization') !== undefined
    if (!isEntering) {
      // The page shows the state of the gateway, so it is served even if the store is unavailable.
      const person = await signedIn(context).catch(() => undefined)
      return context.html(await page({ query, ...(person && { principal: person }) }), 200, sent)
    }
    const found = await authenticate(context).catch(asGatewayError)
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

// The section of the front page with the calls that wait for approval. It shows the caller, the tool and the waiting
// time, and links to the page where the call is decided. Arguments are never shown here, only on that page, to those
// who may decide.

/** A call that waits for approval. */
export interface WaitingCall {
  /** The id of its approval. */
  readonly id: string
  readonly tool: string
  readonly upstream: string
  /** The id of the caller. */
  readonly caller: string
  /** How long it has been waiting, in milliseconds. */
  readonly age: number
  /** The time left to decide, in milliseconds. */
  readonly left: number
  /** No client waits for it any more. */
  readonly mustRepeat: boolean
}

/** The maximum number of listed calls; the others are on the approvals page. */
const MAX_LISTED_CALLS = 10

/** The section as HTML, empty if no call waits; `calls` is undefined if the store cannot be read. */
function waitingCalls(calls: readonly WaitingCall[] | undefined): string {
  if (calls === undefined) return section('<p>They cannot be shown: the store does not respond.</p>', '')
  if (calls.length === 0) return ''
  const rows = calls.slice(0, MAX_LISTED_CALLS).map(
    ({ id, tool, upstream, caller, age, left, mustRepeat }) =>
      `<li><a href="confirm/${encodeURIComponent(id)}"><bdi>${escape(tool)}</bdi> on <bdi>${escape(upstream)}</bdi></a>
<p>Called by <bdi>${escape(caller)}</bdi> ${duration(age)} ago; expires in ${duration(left)}.${mustRepeat ? ' No client waits for it any more.' : ''}</p></li>`,
  )
  const others = calls.length - rows.length
  const more = others > 0 ? `<p><a href="confirm">${countText(others, 'call')} more</a></p>` : ''
  return section(`<ul>${rows.join('')}</ul>${more}`, ` (${calls.length})`)
}

function section(html: string, count: string): string {
  return `<section class="waiting" aria-labelledby="waiting"><h2 id="waiting">Calls that wait for approval${count}</h2>
${html}</section>`
}

function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  if (seconds < 120) return countText(seconds, 'second')
  const minutes = Math.floor(seconds / 60)
  return minutes < 120 ? countText(minutes, 'minute') : countText(Math.floor(minutes / 60), 'hour')
}

/** One server on the page. */
export interface ServerRow {
  readonly name: string
  readonly state: 'ready' | 'starting' | 'unavailable'
  /** Why it is unavailable, if the reader may know. */
  readonly problem?: string
  /** The URL of its own endpoint. */
  readonly address: string
  /** The prefix of its tool names at the endpoint of all servers. */
  readonly prefix?: string
  readonly transport?: string
  readonly revision?: string
  /** The revision for older clients, if it differs. */
  readonly olderRevision?: string
  /** Its details; absent if it never responded, or the reader may not see them. */
  readonly panel?: ServerPanel
  /** What is wrong with its lists, in sentences. */
  readonly findings: readonly string[]
  /** Links to its documents. */
  readonly documents: readonly DocumentLink[]
}

/** How a section is rendered. */
interface RenderOptions {
  readonly search: Search
  readonly isSearching: boolean
  /** Whether servers are expanded. */
  readonly isOpen: boolean
}

/** A rendered server, with the number of matching tools. */
interface Found {
  readonly html: string
  readonly isVisible: boolean
  readonly tools: number
  readonly found: number
}

/** Renders a server and its tools; tools that do not match the search are hidden. */
function serverSection(row: ServerRow, { search, isSearching, isOpen }: RenderOptions): Found {
  const { name, panel, prefix } = row
  const own = panel ? piecesOf(panel, prefix) : []
  const also = alsoFound(row)
  const isFound = own.map(({ text }) => search(`${also} ${text}`))
  const found = isFound.filter(Boolean).length
  const isVisible = found > 0 || search(also)
  const tools = own.map(({ start, end }, index) => start + (isFound[index] ? '' : ' hidden') + end)
  const open = isSearching ? found > 0 : isOpen
  const attributes = `${isOpen ? ' data-open' : ''}${open ? ' open' : ''}${isVisible ? '' : ' hidden'}`
  const html = `<details class="server" data-find="${escape(also)}"${attributes}>
<summary><h3>${panel?.emoji === undefined ? '' : `<span aria-hidden="true">${escape(panel.emoji)}</span> `}${escape(name)}</h3>${stateMark(row)}${panel ? `<span class="about">${countText(own.length, 'tool')}</span>` : ''}${purposeOf(row)}</summary>
<div class="inside">${serverFacts(row)}${tools.length > 0 ? `<ul class="tools">${tools.join('')}</ul>` : ''}</div>
</details>`
  return { html, isVisible, tools: own.length, found }
}

/** The state of a server as one word. */
function stateMark({ state }: Pick<ServerRow, 'state'>): string {
  return ` <span class="state ${state}">${state}</span> `
}

/** The text by which a server, with all of its tools, is found. */
function alsoFound({ name, panel, state }: ServerRow): string {
  return [name, panel?.title ?? '', state].join(' ').trim()
}

/** A tool as HTML, split where the `hidden` attribute goes. */
interface Piece {
  readonly start: string
  readonly end: string
  readonly text: string
}

/** Tools look the same for each reader, so they are rendered once. */
const renderedTools = new WeakMap<ServerPanel, readonly Piece[]>()

function piecesOf(panel: ServerPanel, prefix: string | undefined): readonly Piece[] {
  const known = renderedTools.get(panel)
  if (known) return known
  const pieces = panel.tools.map((tool): Piece => {
    const together = prefix === undefined ? '' : `${prefix}${tool.name}`
    return {
      start: `<li class="tool" data-find="${escape(together)}"`,
      end: `>${toolDetails(tool, together)}</li>`,
      text: `${together} ${textOf(tool)}`,
    }
  })
  renderedTools.set(panel, pieces)
  return pieces
}

function purposeOf({ panel, problem }: ServerRow): string {
  const { title = '', purpose = '' } = panel ?? {}
  // The purpose may begin with the title.
  const parts = problem === undefined ? [purpose.startsWith(title) ? '' : title, purpose] : [problem]
  const text = parts.filter((each) => each !== '').join(': ')
  return text === '' ? '' : `<span class="purpose">${escape(text)}</span>`
}

function serverFacts(row: ServerRow): string {
  const { panel, state, address, prefix, transport, revision, olderRevision, documents, findings } = row
  const connection = [
    transport,
    revision && `MCP ${revision}`,
    olderRevision && `${olderRevision} for older clients`,
  ]
  const isLast = state === 'unavailable' && panel !== undefined && panel.tools.length > 0
  const rows = [
    ['Address', `<code>${escape(address)}</code>`],
    ['At /mcp', prefix === undefined ? '' : `Tool names begin with <code>${escape(prefix)}</code>`],
    ['Transport', escape(connection.filter(Boolean).join(', '))],
    ['Version', panel ? escape(panel.version) : ''],
    ['Prompts', names(panel?.prompts ?? [])],
    ['Resources', names(panel?.resources ?? [])],
    ['Findings', findings.map(escape).join('<br>')],
  ].filter(([, html]) => html !== '')
  return `<dl>${rows.map(([name, html]) => `<dt>${name}</dt><dd>${html}</dd>`).join('')}</dl>
${linkList(documents, panel?.links ?? [])}${isLast ? '<p class="about">These tools are from the last successful connection.</p>' : ''}`
}

function names(all: readonly string[]): string {
  return all.map((name) => `<code>${escape(name)}</code>`).join(', ')
}

function linkList(documents: readonly DocumentLink[], elsewhere: readonly DocumentLink[]): string {
  const items = [
    ...documents.map(({ label, url }) => `<li><a href="${escape(url)}">${escape(label)}</a></li>`),
    ...elsewhere.map(
      ({ label, url }) =>
        `<li><a rel="noopener noreferrer" href="${escape(url)}">${escape(label)} ↗</a></li>`,
    ),
  ]
  return items.length > 0 ? `<ul class="links">${items.join('')}</ul>` : ''
}

function toolDetails(tool: ToolPanel, together: string): string {
  const { name, title, summary, description, marks, parameters, facts } = tool
  const markHtml = marks.map(({ kind, text }) => `<span class="mark ${kind}">${escape(text)}</span>`)
  const rows = [...(together === '' ? [] : [['At /mcp', together] as const]), ...facts]
  return `<details><summary><code class="name">${escape(name)}</code>${title === undefined ? '' : ` <span class="also">${escape(title)}</span>`}
<span class="summary">${escape(summary)}</span>
<span class="marks">${markHtml.join(' ')}</span></summary>
<div class="inside">${description === undefined ? '' : `<p class="description">${escape(description)}</p>`}
<h4>Arguments</h4>${parameters.length > 0 ? `<dl>${parameters.map(parameterRow).join('')}</dl>` : '<p>None.</p>'}
${rows.length > 0 ? `<h4>Details</h4><dl>${rows.map(([key, text]) => `<dt>${escape(key)}</dt><dd>${escape(text)}</dd>`).join('')}</dl>` : ''}</div></details>`
}

function parameterRow({ name, type, isRequired, description }: ParameterPanel): string {
  const more = description === undefined ? '' : `: ${escape(description)}`
  return `<dt><code>${escape(name)}</code></dt><dd>${escape(type)}${isRequired ? ', required' : ''}${more}</dd>`
}

/** Whether a text contains all words of a search. */
type Search = (text: string) => boolean

/** The maximum length of a search, in characters. */
const MAX_SEARCH_LENGTH = 200

/** Creates a search for the words of a query; an empty query matches everything. */
function searchFor(query: string): Search {
  const words = query
    .slice(0, MAX_SEARCH_LENGTH)
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  return (text) => {
    if (words.length === 0) return true
    const lower = text.toLowerCase()
    return words.every((word) => lower.includes(word))
  }
}

/** The searchable text of a tool: what the collapsed entry shows. */
function textOf({ name, title = '', summary, marks }: ToolPanel): string {
  return [name, title, summary, ...marks.map(({ text }) => text)].join(' ')
}
