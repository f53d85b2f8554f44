/** The sections of the front page about servers and their tools, with search. */
import { escapeHtml as escape } from '../../core/web.ts'
import type { ParameterPanel, ServerPanel, ToolPanel } from '../../descriptions/formats/front-page.ts'
import type { Link } from '../../descriptions/model/description.ts'

/** One server as the page shows it. */
export interface ServerRow {
  readonly name: string
  readonly state: 'ready' | 'starting' | 'unavailable'
  /** Why it is not available, where the reader may know. */
  readonly problem?: string
  /** Where clients reach it alone. */
  readonly address: string
  /** What stands before the names of its tools where all servers are together. */
  readonly prefix?: string
  readonly transport?: string
  readonly revision?: string
  /** What it is spoken to in for clients of older revisions, where that is another one. */
  readonly olderRevision?: string
  /** What is known of it; absent where it never answered, or the reader may not know. */
  readonly panel?: ServerPanel
  /** Its documents here. */
  readonly documents: readonly Link[]
}

/** What a section of a page is made with. */
interface Showing {
  readonly search: Search
  readonly isSearching: boolean
  /** Whether tools are shown at once. */
  readonly isOpen: boolean
}

/** A server with what was found of its tools. */
interface Found {
  readonly html: string
  readonly isShown: boolean
  readonly tools: number
  readonly found: number
}

/** A server and its tools, of which those that are not looked for are hidden. */
export function serverSection(row: ServerRow, { search, isSearching, isOpen }: Showing): Found {
  const { name, panel, prefix } = row
  const own = panel ? piecesOf(panel, prefix) : []
  const also = alsoFound(row)
  const isFound = own.map(({ text }) => search(`${also} ${text}`))
  const found = isFound.filter(Boolean).length
  const isShown = found > 0 || search(also)
  const tools = own.map(({ start, end }, index) => start + (isFound[index] ? '' : ' hidden') + end)
  const open = isSearching ? found > 0 : isOpen
  const attributes = `${isOpen ? ' data-open' : ''}${open ? ' open' : ''}${isShown ? '' : ' hidden'}`
  const html = `<details class="server" data-find="${escape(also)}"${attributes}>
<summary><h3>${panel?.emoji === undefined ? '' : `<span aria-hidden="true">${escape(panel.emoji)}</span> `}${escape(name)}</h3>${stateMark(row)}${panel ? `<span class="about">${counted(own.length, 'tool')}</span>` : ''}${purposeOf(row)}</summary>
<div class="inside">${serverFacts(row)}${tools.length > 0 ? `<ul class="tools">${tools.join('')}</ul>` : ''}</div>
</details>`
  return { html, isShown, tools: own.length, found }
}

/** A number of things, such as `1 tool` or `2 tools`. */
export function counted(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`
}

/** The state of a server, in a word. */
export function stateMark({ state }: Pick<ServerRow, 'state'>): string {
  return ` <span class="state ${state}">${state}</span> `
}

/** Whoever looks for a server sees all of its tools. */
function alsoFound({ name, panel, state }: ServerRow): string {
  return [name, panel?.title ?? '', state].join(' ').trim()
}

/** A tool in HTML, cut where it says whether it is hidden. */
interface Piece {
  readonly start: string
  readonly end: string
  readonly text: string
}

/** What is the same for each reader is made once. */
const made = new WeakMap<ServerPanel, readonly Piece[]>()

function piecesOf(panel: ServerPanel, prefix: string | undefined): readonly Piece[] {
  const known = made.get(panel)
  if (known) return known
  const pieces = panel.tools.map((tool): Piece => {
    const together = prefix === undefined ? '' : `${prefix}${tool.name}`
    return {
      start: `<li class="tool" data-find="${escape(together)}"`,
      end: `>${toolDetails(tool, together)}</li>`,
      text: `${together} ${textOf(tool)}`,
    }
  })
  made.set(panel, pieces)
  return pieces
}

function purposeOf({ panel, problem }: ServerRow): string {
  const { title = '', purpose = '' } = panel ?? {}
  // What a server is for may be all its title says.
  const told = problem === undefined ? [purpose.startsWith(title) ? '' : title, purpose] : [problem]
  const text = told.filter((each) => each !== '').join(': ')
  return text === '' ? '' : `<span class="purpose">${escape(text)}</span>`
}

function serverFacts(row: ServerRow): string {
  const { panel, state, address, prefix, transport, revision, olderRevision, documents } = row
  const spoken = [
    transport,
    revision && `MCP ${revision}`,
    olderRevision && `${olderRevision} for older clients`,
  ]
  const isLast = state === 'unavailable' && panel !== undefined && panel.tools.length > 0
  const rows = [
    ['Address', `<code>${escape(address)}</code>`],
    ['At /mcp', prefix === undefined ? '' : `Names begin with <code>${escape(prefix)}</code>`],
    ['Reached by', escape(spoken.filter(Boolean).join(', '))],
    ['Version', panel ? escape(panel.version) : ''],
    ['Prompts', names(panel?.prompts ?? [])],
    ['Resources', names(panel?.resources ?? [])],
  ].filter(([, html]) => html !== '')
  return `<dl>${rows.map(([name, html]) => `<dt>${name}</dt><dd>${html}</dd>`).join('')}</dl>
${linkList(documents, panel?.links ?? [])}${isLast ? '<p class="about">These are the tools it had when it could last be reached.</p>' : ''}`
}

function names(all: readonly string[]): string {
  return all.map((name) => `<code>${escape(name)}</code>`).join(', ')
}

function linkList(documents: readonly Link[], elsewhere: readonly Link[]): string {
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
  const shown = marks.map(({ kind, text }) => `<span class="mark ${kind}">${escape(text)}</span>`)
  const rows = [...(together === '' ? [] : [['At /mcp', together] as const]), ...facts]
  return `<details><summary><code class="name">${escape(name)}</code>${title === undefined ? '' : ` <span class="also">${escape(title)}</span>`}
<span class="summary">${escape(summary)}</span>
<span class="marks">${shown.join(' ')}</span></summary>
<div class="inside">${description === undefined ? '' : `<p class="description">${escape(description)}</p>`}
<h4>Arguments</h4>${parameters.length > 0 ? `<dl>${parameters.map(parameterRow).join('')}</dl>` : '<p>None.</p>'}
${rows.length > 0 ? `<h4>What is known</h4><dl>${rows.map(([key, text]) => `<dt>${escape(key)}</dt><dd>${escape(text)}</dd>`).join('')}</dl>` : ''}</div></details>`
}

function parameterRow({ name, type, isRequired, description }: ParameterPanel): string {
  const more = description === undefined ? '' : `: ${escape(description)}`
  return `<dt><code>${escape(name)}</code></dt><dd>${escape(type)}${isRequired ? ', required' : ''}${more}</dd>`
}

/** Whether a text matches a search: it contains all words. */
type Search = (text: string) => boolean

/** How long a search may be, in characters. */
const MAX_SEARCH_LENGTH = 200

/** Looks for the words of a query; finds everything where there are none. */
export function searchFor(query: string): Search {
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

/** What the page says of a tool at first sight: what people see is what they can look for. */
function textOf({ name, title = '', summary, marks }: ToolPanel): string {
  return [name, title, summary, ...marks.map(({ text }) => text)].join(' ')
}
