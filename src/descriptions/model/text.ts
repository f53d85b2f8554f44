/** Foreign text in documents: cleaned, shortened, and escaped for markdown. */
import { escapeHidden, splitHidden } from '../../core/text/escape.ts'

/** How long one paragraph or description of a server may be in a document, in characters. */
const MAX_TEXT_LENGTH = 4000

/** Foreign text without invisible characters: control characters, marks of direction. */
export function clean(text: unknown): string {
  if (typeof text !== 'string') return ''
  if (visible.test(text)) return text
  const spaced = text
    .slice(0, 100_000)
    .replaceAll(/\r\n?|[\u2028\u2029]/g, '\n')
    .replaceAll(/[\t\p{Zs}]/gu, ' ')
  return splitHidden(spaced)
    .map((part) => (part.isHidden ? '' : part.text))
    .join('')
}

/** Most texts are of these alone, and it takes long to look at each character of the others. */
const visible = /^[\n -~]{0,100000}$/

/** Foreign text on one line. */
export function oneLine(text: unknown): string {
  return clean(text).replaceAll(/\s+/g, ' ').trim()
}

/** The beginning of a text, cut between words. */
export function clipped(text: string, most: number): string {
  if (text.length <= most) return text
  const cut = text.slice(0, most - 1)
  const space = cut.lastIndexOf(' ')
  return `${(space > most / 2 ? cut.slice(0, space) : cut).replace(/[\uD800-\uDBFF]$|[\s,;:.]+$/, '')}…`
}

/** The first sentence of prose in a text: headings, lists, tables and code are passed over. */
export function firstSentence(text: unknown, most = 160): string {
  const paragraphs = clean(text).split(boundary)
  const prose = paragraphs.find((each) => /^\s*[^\s#|>*+`~=_-]/.test(each) && !/^\s*\d+[.)]\s/.test(each))
  const line = oneLine(prose)
  const end = /[.!?](?=\s+(?!\p{Ll})|$)/u.exec(line.replaceAll(/\b(?:e\.g|i\.e|etc|vs)\./g, 'x x '))
  return clipped(end ? line.slice(0, end.index + 1) : line, most)
}

/** Where prose ends: at an empty line, and before a heading, a list, or a line such as `Args:`. */
const boundary = /\n\s*\n|\n(?=\s*(?:[#|>*+-]|\d+[.)])\s)|\n(?=[ \t]*[A-Z][\w ]{0,30}:[ \t]*(?:\n|$))/

/** A sentence with its full stop. */
export function sentence(text: string): string {
  return text === '' || /[.!?…:]$/.test(text) ? text : `${text}.`
}

/** Foreign text as inline markdown: it stays one line and opens no markup. */
export function inlineText(text: unknown): string {
  return escapeStart(escapeInline(oneLine(text)))
}

/**
 * A foreign text of several lines as a quotation: each line begins with `>`, as no line of a document does, so
 * that none looks like the document's own. Paragraphs and lists stay, headings and fences open nothing.
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

/** A foreign name as inline code. */
export function code(name: unknown): string {
  return `\`${oneLine(name).replaceAll('`', "'") || ' '}\``
}

/** A tool as code in a line, with its server where another one may have a tool of that name. */
export function toolCode({ name, of }: { readonly name: string; readonly of?: string }): string {
  return of === undefined ? code(name) : `${code(name)} of ${code(of)}`
}

/** A value as JSON on one line, as code; nothing where it is long. */
export function jsonCode(value: unknown, most = 200): string {
  const text = JSON.stringify(value) ?? ''
  if (text === '' || text.length > most) return ''
  return code(escapeHidden(text))
}

/** A value as a block of JSON. */
export function jsonBlock(value: unknown): string {
  return `\`\`\`json\n${escapeHidden(JSON.stringify(value, undefined, 2))}\n\`\`\``
}

/** Words as a list in a sentence: `a, b and c`. */
export function listed(words: readonly string[], joint = 'and'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${joint} ${words.at(-1) ?? ''}`
}

/** The first of many words as a list in a sentence, and how many more there are: `a, b and 7 more`. */
export function firstListed(words: readonly string[], most: number): string {
  const more = words.length > most ? [`${words.length - most} more`] : []
  return listed([...words.slice(0, most), ...more])
}

/** The beginning of a text of which no more than so many bytes are left. */
export function clippedBytes(text: string, most: number): string {
  let short = clipped(text, most)
  while (Buffer.byteLength(short) > most) short = clipped(short, Math.floor(short.length * 0.9))
  return short
}

/** A text that begins with a capital. */
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
      // A definition of a reference, which another pair of brackets would make a link.
      .replace(/^(\s*\[[^\]]*\]):/, String.raw`$1\:`)
  )
}

function escapeStart(text: string): string {
  return escapeHeading(text).replace(/^(?:[>|]|[*+-](?=\s)|\d+(?=[.)]\s))/, (mark) =>
    /\d/.test(mark) ? `${mark}\\` : `\\${mark}`,
  )
}

/** Headings, rules and the lines that make one of the line above. */
function escapeHeading(text: string): string {
  return text.replace(/^(?=#|~~~|=+\s*$|(?:[-*_]\s*){2,}$|-\s*$)/, '\\')
}
