/** The sections of the front page about servers and their tools, with search. */
import { escapeHtml as escape } from '../../core/web.ts'
import type { ParameterPanel, ServerPanel, ToolPanel } from '../../descriptions/formats/front-page.ts'
import type { DocumentLink } from '../../descriptions/model/description.ts'

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
export function serverSection(row: ServerRow, { search, isSearching, isOpen }: RenderOptions): Found {
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
<summary><h3>${panel?.emoji === undefined ? '' : `<span aria-hidden="true">${escape(panel.emoji)}</span> `}${escape(name)}</h3>${stateMark(row)}${panel ? `<span class="about">${counted(own.length, 'tool')}</span>` : ''}${purposeOf(row)}</summary>
<div class="inside">${serverFacts(row)}${tools.length > 0 ? `<ul class="tools">${tools.join('')}</ul>` : ''}</div>
</details>`
  return { html, isVisible, tools: own.length, found }
}

/** A count with its noun, such as `1 tool` or `2 tools`. */
export function counted(number: number, thing: string): string {
  return `${number} ${thing}${number === 1 ? '' : 's'}`
}

/** The state of a server as one word. */
export function stateMark({ state }: Pick<ServerRow, 'state'>): string {
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

/** The searchable text of a tool: what the collapsed entry shows. */
function textOf({ name, title = '', summary, marks }: ToolPanel): string {
  return [name, title, summary, ...marks.map(({ text }) => text)].join(' ')
}
