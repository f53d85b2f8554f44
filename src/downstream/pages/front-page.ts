/** The HTML of the page at `/`. */
import { escapeHtml as escape, htmlPage, pageHeaders } from '../../core/web.ts'
import type { Link } from '../../descriptions/model/description.ts'
import { type ClientSnippet, clientSnippets } from './client-snippets.ts'
import { script, style } from './front-page-assets.ts'
import { searchFor, counted, serverSection, type ServerRow, stateMark } from './servers.ts'
import { type WaitingCall, waitingCalls } from './waiting-calls.ts'

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
