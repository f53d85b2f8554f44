/** The guide for agents, in Markdown or JSON, shortened to its limit by sections. */
import { nearest } from '../../core/text/words.ts'
import { GatewayError } from '../../core/error.ts'
import { serverObject } from './dashdash.ts'
import { frontMatter } from './skill.ts'
import type { ServerDescription, ToolDescription, Section } from '../model/description.ts'
import { toolData, toolReference } from '../sections/reference.ts'
import { type Detail, sectionsOf } from '../sections/sections.ts'
import { clippedBytes, inlineText, listed } from '../model/text.ts'

/** The maximum size of a result, in bytes. */
const MAX_RESPONSE_BYTES = 200 * 1024

/** The arguments of `ai_help`. */
export interface HelpRequest {
  readonly format?: unknown
  readonly section?: unknown
}

/** The result of `ai_help`: the whole guide, one section, or one tool. @throws INVALID_INPUT */
export function helpOf(
  description: ServerDescription,
  { format, section }: HelpRequest = {},
): Record<string, unknown> {
  if (format !== undefined && format !== null && format !== 'markdown' && format !== 'json') {
    throw new GatewayError('INVALID_INPUT', 'Invalid params: format must be markdown or json.', {
      field: 'format',
    })
  }
  const isJson = format === 'json'
  if (section === undefined || section === null)
    return isJson ? whole(description) : markdown(helpText(description))
  const found = sectionNamed(description, section)
  return isJson ? json(description, found.data) : markdown(`${titled(found)}\n`)
}

/** The cache key of a result, normalized: callers can write a section in different ways. */
export function helpKey({ tools }: ServerDescription, { format, section }: HelpRequest): string {
  const isTool = tools.some(({ name, alias }) => section === name || section === alias)
  return `help ${JSON.stringify([format, isTool, isTool || typeof section !== 'string' ? section : fold(section)])}`
}

/** The whole guide in Markdown, with front matter. */
export function helpText(description: ServerDescription): string {
  const text = guide(description, 'full')
  return fits(text) ? text : cut(guide(description, 'signatures'))
}

/** A guide with some sections, the title and the purpose. */
export function guideOf(description: ServerDescription, sections: readonly Section[]): string {
  const { emoji = '', title, purpose } = description
  const heading = `# ${inlineText(`${emoji} ${title}`)}\n\n> ${inlineText(purpose)}`
  return `${frontMatter(description)}\n${[heading, ...sections.map(titled)].join('\n\n')}\n`
}

/** The keys of sections. */
export function sectionKeys(description: ServerDescription): string[] {
  return sectionsOf(description, 'signatures').flatMap(({ data }) => Object.keys(data))
}

function guide(description: ServerDescription, detail: Detail): string {
  return guideOf(description, sectionsOf(description, detail))
}

function titled({ heading, markdown: text }: Section): string {
  return `## ${heading}\n\n${text}`
}

function whole(description: ServerDescription): Record<string, unknown> {
  const full = json(description, merged(sectionsOf(description)))
  if (fits(JSON.stringify(full))) return full
  const { tools } = description
  // The number of tools is reduced until the guide fits the limit.
  for (let count = tools.length; count > 0; count = Math.floor(count / 2)) {
    const some = { ...description, tools: tools.slice(0, count) }
    const short = json(some, { ...merged(sectionsOf(some, 'signatures')), ...left(tools.length - count) })
    if (fits(JSON.stringify(short))) return short
  }
  return json(description, left(tools.length))
}

function left(count: number): Record<string, unknown> {
  return count > 0 ? { toolsLeftOut: count } : {}
}

function merged(sections: readonly Section[]): Record<string, unknown> {
  return Object.fromEntries(sections.flatMap(({ data }) => Object.entries(data)))
}

function markdown(content: string): Record<string, unknown> {
  return { content, contentType: 'text/markdown' }
}

function json(
  description: ServerDescription,
  sections: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const { identity, ...rest } = serverObject(description)
  return { metadata: { ...Object(identity), ...rest }, sections, contentType: 'application/json' }
}

/** A section by its key or heading, or the reference of one tool by its name. */
function sectionNamed(description: ServerDescription, requested: unknown): Section {
  const key = fold(requested)
  const all = sectionsOf(description, 'signatures')
  const section = all.find(({ heading, data }) =>
    [heading, ...Object.keys(data)].some((name) => fold(name) === key),
  )
  if (section) {
    const full =
      section.key === 'toolReference'
        ? sectionsOf(description).find(({ key }) => key === section.key)
        : section
    return full && fits(full.markdown) ? full : section
  }
  const found = toolsNamed(description, requested)
  if (found.length > 0) return ofTools(found)
  const keys = all.flatMap(({ data }) => Object.keys(data))
  const close =
    typeof requested === 'string'
      ? nearest(requested, [...keys, ...description.tools.map(({ name }) => name)])
      : undefined
  const hint = close === undefined ? '' : ` Did you mean ${close}?`
  throw new GatewayError(
    'INVALID_INPUT',
    `Invalid params: section must be one of ${listed(keys, 'or')}, or the name of a tool.${hint}`,
    { field: 'section', details: { sections: keys } },
  )
}

/** The tools with a name: several servers that are not aggregated may have one each. */
function toolsNamed({ tools }: ServerDescription, requested: unknown): readonly ToolDescription[] {
  const named = tools.filter(({ name }) => name === requested)
  return named.length > 0 ? named : tools.filter(({ alias }) => alias === requested)
}

function ofTools(tools: readonly ToolDescription[]): Section {
  const name = tools[0]?.name ?? ''
  const texts = tools.map(toolReference)
  // The heading of the tool is that of the section.
  const markdown = tools.length > 1 ? texts : texts.map((text) => text.slice(text.indexOf('\n\n') + 2))
  return {
    key: name,
    heading: inlineText(name),
    markdown: markdown.join('\n\n'),
    data: { toolReference: tools.map(toolData) },
  }
}

function fold(name: unknown): string {
  return typeof name === 'string' ? name.toLowerCase().replaceAll(/[\s_-]+/g, '') : ''
}

function fits(text: string): boolean {
  return Buffer.byteLength(text) <= MAX_RESPONSE_BYTES
}

/** The lines that fit, if even one line for each tool is too long. */
function cut(text: string): string {
  if (fits(text)) return text
  const notice = '\n\nThis guide is too long for one result: request one section, or one tool.\n'
  const short = clippedBytes(text, MAX_RESPONSE_BYTES - notice.length)
  const end = short.lastIndexOf('\n')
  return short.slice(0, end) + notice
}
