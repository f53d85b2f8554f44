/** Text from servers in documents: cleaned, shortened, and escaped for Markdown. */
import { escapeHidden, splitHidden } from '../../core/text/escape.ts'

/** The maximum length of a paragraph or description from a server, in characters. */
const MAX_TEXT_LENGTH = 4000

/** Text from a server without invisible characters, such as control characters and direction marks, and active links. */
export function clean(text: unknown): string {
  return typeof text === 'string' ? withoutActiveLinks(visibleText(text)) : ''
}

/** What follows the text of a Markdown link, or begins an autolink. */
const destination =
  /(\]\(\s*<?|<)([^\s)>]{0,2000}(?:\([^\s()]{0,200}\)[^\s)>]{0,200})?)(\s*>?[^)\n]{0,200}\))?/g
/** A destination in the definition of a reference, which may be in a list or a quotation. */
const definition = /(\]:\s*<?)([^\s>]{1,2000})/g
/** Schemes of links that run or hold something themselves, before their colon. */
const active = /^(?:javascript|vbscript|livescript|data|file|blob)$/

/** Whether the destination of a link is active, however it is written: with entities, escapes, or in any case. */
function isActive(link: string): boolean {
  const text = link
    .replaceAll(/&#x0*([\da-f]{1,6});?/gi, (_found, digits: string) => character(Number.parseInt(digits, 16)))
    .replaceAll(/&#0*(\d{1,7});?/g, (_found, digits: string) => character(Number(digits)))
    .replaceAll(/&(?:colon|tab|newline);/gi, (found) => (/colon/i.test(found) ? ':' : ''))
    .replaceAll(/%([\da-f]{2})/gi, (_found, digits: string) => character(Number.parseInt(digits, 16)))
    .replaceAll(/[\\\s\p{C}]/gu, '')
  const [scheme = '', rest] = text.split(':', 2)
  return rest !== undefined && rest !== '' && active.test(scheme.toLowerCase())
}

function character(code: number): string {
  return code <= 0x10_ff_ff ? String.fromCodePoint(code) : ''
}

/** Markdown in which links that run something lead nowhere. */
function withoutActiveLinks(text: string): string {
  if (!/[\](<]/.test(text)) return text
  return text
    .replaceAll(destination, (found, before: string, link: string, after: string = '') =>
      isActive(link + after) ? `${before}#${before.includes('(') ? ')' : ''}` : found,
    )
    .replaceAll(definition, (found, before: string, link: string) => (isActive(link) ? `${before}#` : found))
}

function visibleText(text: string): string {
  if (visible.test(text)) return text
  const spaced = text
    .slice(0, 100_000)
    .replaceAll(/\r\n?|[\u2028\u2029]/g, '\n')
    .replaceAll(/[\t\p{Zs}]/gu, ' ')
  return splitHidden(spaced)
    .map((part) => (part.isHidden ? '' : part.text))
    .join('')
}

/** A fast path for most texts: examining each character is slow. */
const visible = /^[\n -~]{0,100000}$/

/** Text from a server on one line. */
export function oneLine(text: unknown): string {
  return clean(text).replaceAll(/\s+/g, ' ').trim()
}

/** The beginning of a text, truncated between words. */
export function clipped(text: string, most: number): string {
  if (text.length <= most) return text
  const cut = text.slice(0, most - 1)
  const space = cut.lastIndexOf(' ')
  return `${(space > most / 2 ? cut.slice(0, space) : cut).replace(/[\uD800-\uDBFF]$|[\s,;:.]+$/, '')}…`
}

/** The first sentence of prose in a text; headings, lists, tables and code are skipped. */
export function firstSentence(text: unknown, most = 160): string {
  const paragraphs = clean(text).split(boundary)
  const prose = paragraphs.find((each) => /^\s*[^\s#|>*+`~=_-]/.test(each) && !/^\s*\d+[.)]\s/.test(each))
  const line = oneLine(prose)
  const end = /[.!?](?=\s+(?!\p{Ll})|$)/u.exec(line.replaceAll(/\b(?:e\.g|i\.e|etc|vs)\./g, 'x x '))
  return clipped(end ? line.slice(0, end.index + 1) : line, most)
}

/** The end of prose: an empty line, a heading, a list, or a line such as `Args:`. */
const boundary = /\n\s*\n|\n(?=\s*(?:[#|>*+-]|\d+[.)])\s)|\n(?=[ \t]*[A-Z][\w ]{0,30}:[ \t]*(?:\n|$))/

/** A sentence with its full stop. */
export function sentence(text: string): string {
  return text === '' || /[.!?…:]$/.test(text) ? text : `${text}.`
}

/** Text from a server as inline Markdown: one line, with markup escaped. */
export function inlineText(text: unknown): string {
  return escapeStart(escapeInline(oneLine(text)))
}

/**
 * A multi-line text from a server as a quotation: each line begins with `>`, unlike any line of the document, so that
 * it cannot be mistaken for the document. Paragraphs and lists are kept; headings and fences are escaped.
 */
export function quotation(text: unknown): string {
  const lines = clipped(clean(text).trim(), MAX_TEXT_LENGTH).split('\n')
  const escaped = lines.map((line) => {
    const kept = line.trimEnd().replace(/^ {4,}/, '  ')
    return kept.replace(/\S.*$/, (rest) => escapeHeading(escapeInline(rest)).replace(/^>/, String.raw`\>`))
  })
  const kept = escaped.join('\n').replaceAll(/\n{3,}/g, '\n\n')
  return kept === '' ? '' : kept.replaceAll(/^/gm, '> ').replaceAll(/^> $/gm, '>')
}

/** A name from a server as inline code, in which nothing is a link. */
export function code(name: unknown): string {
  const text = typeof name === 'string' ? visibleText(name).replaceAll(/\s+/g, ' ').trim() : ''
  return `\`${text.replaceAll('`', "'").replaceAll('](', '] (') || ' '}\``
}

/** A tool as inline code, with its server if another one may have a tool with that name. */
export function toolCode({ name, of }: { readonly name: string; readonly of?: string }): string {
  return of === undefined ? code(name) : `${code(name)} of ${code(of)}`
}

/** A value as JSON in inline code; empty if it is too long. */
export function jsonCode(value: unknown, most = 200): string {
  const text = JSON.stringify(value) ?? ''
  if (text === '' || text.length > most) return ''
  return code(escapeHidden(text).replaceAll('](', String.raw`]\u0028`))
}

/** A value as a block of JSON. */
export function jsonBlock(value: unknown): string {
  const text = escapeHidden(JSON.stringify(value, undefined, 2))
  return `\`\`\`json\n${text.replaceAll('](', String.raw`]\u0028`)}\n\`\`\``
}

/** Words as an enumeration: `a, b and c`. */
export function listed(words: readonly string[], joint = 'and'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${joint} ${words.at(-1) ?? ''}`
}

/** The first of many words as an enumeration, with the number of others: `a, b and 7 more`. */
export function firstListed(words: readonly string[], most: number): string {
  const more = words.length > most ? [`${words.length - most} more`] : []
  return listed([...words.slice(0, most), ...more])
}

/** The beginning of a text, truncated to a number of bytes. */
export function clippedBytes(text: string, most: number): string {
  let short = clipped(text, most)
  while (Buffer.byteLength(short) > most) short = clipped(short, Math.floor(short.length * 0.9))
  return short
}

/** A text with a capital first letter. */
export function upper(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Lines of a list. */
export function bullets(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join('\n')
}

function escapeInline(text: string): string {
  if (!/[`<\]!]/.test(text)) return text
  const even = (text.match(/`/g) ?? []).length % 2 === 0 && !text.includes('```')
  return (
    (even ? text : text.replaceAll('`', "'"))
      .replaceAll(/<(?=[a-z/!?])/gi, String.raw`\<`)
      .replaceAll('](', String.raw`]\(`)
      .replaceAll('![', String.raw`!\[`)
      // A reference definition, which other brackets could turn into a link.
      .replace(/^(\s*\[[^\]]*\]):/, String.raw`$1\:`)
  )
}

function escapeStart(text: string): string {
  return escapeHeading(text).replace(/^(?:[>|]|[*+-](?=\s)|\d+(?=[.)]\s))/, (mark) =>
    /\d/.test(mark) ? `${mark}\\` : `\\${mark}`,
  )
}

/** Headings, rules, and lines that make the previous line a heading. */
function escapeHeading(text: string): string {
  return text.replace(/^(?=#|~~~|=+\s*$|(?:[-*_]\s*){2,}$|-\s*$)/, '\\')
}
