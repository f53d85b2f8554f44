/**
 * HTML of the gateway's pages. Texts of servers, callers and people are inert in it: markup is escaped, and hidden
 * characters (bidirectional controls, terminal escapes, lone surrogates) are shown by name.
 */
import { html as template, raw } from 'hono/html'
import { isoTime } from '../../core/time/waiting.ts'
import { codePointName, splitHidden, visibleText } from '../../core/text/escape.ts'
import { countText } from '../../core/text/words.ts'
import { escapeHtml } from '../../core/web.ts'

/** A piece of HTML. */
export type Html = ReturnType<typeof raw>

/** What a template may contain: text, which is escaped, HTML, lists of both; `false` and `undefined` are nothing. */
export type HtmlPart = string | number | false | undefined | Html | readonly HtmlPart[]

/**
 * A template of HTML: `` html`<p>${text}</p>` ``. In an attribute, which has to be quoted, hidden characters of a text are
 * escaped as in JSON; anywhere else they are shown by name.
 */
export function html(literals: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  let isInTag = false
  const values = parts.map((part, index) => {
    const literal = literals[index] ?? ''
    const [opened, closed] = [literal.lastIndexOf('<'), literal.lastIndexOf('>')]
    if (opened !== closed) isInTag = opened > closed
    return inertPart(part, isInTag)
  })
  const made = template(literals, ...values)
  if (made instanceof Promise) throw new TypeError('A page is made of values, not of promises.')
  return raw(made)
}

function inertPart(part: HtmlPart, isInTag: boolean): unknown {
  if (typeof part === 'string') return raw(isInTag ? escapeHtml(part) : displayText(part))
  if (Array.isArray(part)) return part.map((each: HtmlPart) => inertPart(each, isInTag))
  return part
}

/** HTML that is written as a constant, or that was made by other functions of the pages. */
export { raw as trusted } from 'hono/html'

/** Text of an element that may contain no others: of `textarea`, `option` and `title`. */
export function plainText(text: string): Html {
  return raw(escapeHtml(text))
}

/** What is isolated: strings, and lines of text and of a change. */
const isolatedText = /(?<=^(?: *\| |[-+] )).+$|"[^"\\]*(?:\\.[^"\\]*)*"/gm

/** A text as HTML in which invisible characters are shown by name. */
export function displayText(text: string): Html {
  const parts = splitHidden(text).map((part) =>
    part.isHidden ? `<mark>${codePointName(part.text)}</mark>` : escapeHtml(part.text),
  )
  return raw(parts.join(''))
}

/** A short text as above, isolated so that its direction does not affect the surrounding text. */
export function displayWord(text: string): Html {
  return raw(`<bdi>${displayText(text)}</bdi>`)
}

/** JSON as HTML, with its size. */
export function displayJson(text: string, label: string): Html {
  const lines = text.split('\n').length
  const isLong = lines > 15 || text.length > 500
  const size = `${countText(lines, 'line')}, ${text.length} characters${isLong ? ': scroll in the box to see all' : ''}.`
  return html`${linesHtml(text, label)}
<p class="size">${size}</p>`
}

/** Lines of text in a box that scrolls and can be reached with the keyboard. */
export function linesHtml(text: string, label: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${isolated(visibleText(text))}</pre>`
}

// Right-to-left strings would otherwise reorder the punctuation between them.
function isolated(json: string): Html {
  let text = ''
  let at = 0
  for (const { 0: found, index } of json.matchAll(isolatedText)) {
    text += `${escapeHtml(json.slice(at, index))}<bdi>${escapeHtml(found)}</bdi>`
    at = index + found.length
  }
  return raw(text + escapeHtml(json.slice(at)))
}

/** A time in milliseconds since 1970; scripts show it in the time zone of the reader. */
export function timeHtml(at: number): Html {
  const text = isoTime(at)
  return html`<time datetime="${text}">${text.slice(0, 19).replace('T', ' ')} UTC</time>`
}

/** How long ago a time was; the time itself is its title. */
export function agoHtml(at: number, now: number): Html {
  const text = isoTime(at)
  const title = `${text.slice(0, 19).replace('T', ' ')} UTC`
  return html`<time data-age datetime="${text}" title="${title}">${spanText(now - at)} ago</time>`
}

/** A duration in milliseconds, in the largest unit that says enough. */
export function spanText(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000)
  if (minutes < 1) return 'less than a minute'
  if (minutes < 120) return countText(minutes, 'minute')
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? countText(hours, 'hour') : countText(Math.floor(hours / 24), 'day')
}
