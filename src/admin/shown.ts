import { codePointName, escapeHidden, splitHidden } from '../core/hidden.ts'
import { escapeHtml } from '../core/html.ts'

const string = /"[^"\\]*(?:\\.[^"\\]*)*"/g

/** A text as HTML that hides nothing: characters that can not be seen are named. */
export function displayText(text: string): string {
  return splitHidden(text)
    .map((part) => (part.isHidden ? `<mark>${codePointName(part.text)}</mark>` : escapeHtml(part.text)))
    .join('')
}

/** A short text as above, which does not move what stands around it, whatever direction it is written in. */
export function displayWord(text: string): string {
  return `<bdi>${displayText(text)}</bdi>`
}

/** JSON in HTML, with a word on how much of it there is. */
export function displayJson(text: string, label: string): string {
  const lines = text.split('\n').length
  const isLong = lines > 15 || text.length > 500
  const size = `${lines} ${lines === 1 ? 'line' : 'lines'}, ${text.length} characters${isLong ? ': scroll in the box to see all' : ''}.`
  return `<pre tabindex="0" role="region" aria-label="${escapeHtml(label)}">${isolated(escapeHidden(text))}</pre>
<p class="size">${size}</p>`
}

// Strings written from right to left would otherwise move the signs between them.
function isolated(json: string): string {
  let html = ''
  let at = 0
  for (const { 0: found, index } of json.matchAll(string)) {
    html += `${escapeHtml(json.slice(at, index))}<bdi>${escapeHtml(found)}</bdi>`
    at = index + found.length
  }
  return html + escapeHtml(json.slice(at))
}
