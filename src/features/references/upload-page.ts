/** The page on which a person chooses a file and sends it. It works without scripts. */
import type { ByteExchange } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import { oneLine } from '../../core/text/escape.ts'
import { escapeHtml, htmlPage, pageHeaders } from '../../core/web.ts'
import type { Reference } from '../../records/references.ts'
import type { UploadRequest } from '../../records/uploads.ts'

/** Light and dark, down to the width of a phone. */
const style = `
:root { color-scheme: light dark; --back: #ffffff; --text: #1a1c20; --line: #6b7280; --link: #0b57b0 }
@media (prefers-color-scheme: dark) { :root { --back: #15171b; --text: #eceef1; --line: #9aa1ad; --link: #8ab8ff } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 34rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text); overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem }
a { color: var(--link) }
.message { border-left: .25rem solid var(--line); padding-left: .75rem }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1rem }
dd { margin: 0 }
label { display: block; margin: 1rem 0 .25rem }
input { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--line); border-radius: .375rem; background: var(--back); color: var(--text) }
button { font: inherit; font-weight: 600; width: 100%; min-height: 3rem; margin-top: 1.25rem; padding: .5rem 1rem; border: 2px solid var(--text); border-radius: .375rem; background: var(--back); color: var(--text); cursor: pointer }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
`

interface Page {
  readonly title: string
  /** HTML. */
  readonly content: string
}

/** Whether a browser shows the response to a person. */
export function isForPerson({ headers }: Pick<ByteExchange, 'headers'>): boolean {
  return /\btext\/html\b/i.test(String(headers['accept'] ?? ''))
}

/** Sends a page. */
export function answerHtml(exchange: ByteExchange, status: number, { title, content }: Page): Promise<void> {
  const body = htmlPage({ title: `${title} · Gatehouse`, style, content: `<main>\n${content}\n</main>` })
  const headers = {
    ...pageHeaders(style),
    'content-type': 'text/html; charset=utf-8',
    vary: 'Accept, Cookie',
  }
  return exchange.send({ status, headers, body })
}

/** The page of an upload that waits for its file. */
export function uploadPage(
  { name, purpose, owner, maxSize, types, expiresAt }: UploadRequest,
  now: number,
): Page {
  const title = 'Send a file'
  const accept = types.length === 0 ? '' : ` accept="${escapeHtml(types.join(','))}"`
  const content = `<h1>${title}</h1>
<p>A program that works for <strong>${word(owner.isEverybody ? 'you' : owner.id)}</strong> requests a file. Its model, and the tools that it calls, can read what you send. Continue only if you expect this.</p>
${purpose === undefined ? '' : `<p class="message">${word(purpose)}</p>`}
<dl>
${name === undefined ? '' : `<dt>Name</dt><dd>${word(name)}</dd>`}
${types.length === 0 ? '' : `<dt>Types</dt><dd>${types.map(word).join(', ')}</dd>`}
<dt>At most</dt><dd>${sizeText(maxSize)}</dd>
<dt>Until</dt><dd>${timeHtml(expiresAt)} (${minutesText(expiresAt - now)})</dd>
</dl>
<form method="post" enctype="multipart/form-data">
<label for="file">File</label>
<input id="file" type="file" name="file" required${accept}>
<button>Send</button>
</form>`
  return { title, content }
}

/** The page after the file was sent. */
export function donePage({ name, type, size }: Reference): Page {
  const title = 'The file was sent'
  const content = `<h1>${title}</h1>
<p>${word(name)}: ${word(type)}, ${sizeText(size)}. You can close this page.</p>`
  return { title, content }
}

/** The page for an error. */
export function refusalPage({ message, extra: { suggestion } }: GatewayError): Page {
  const title = 'The file was not sent'
  const more = suggestion === undefined ? '' : `\n<p>${word(suggestion)}</p>`
  return { title, content: `<h1>${title}</h1>\n<p role="alert">${word(message)}</p>${more}` }
}

/** The page that asks a person to sign in. */
export function signInPage(link: string): Page {
  const title = 'Sign in'
  const content = `<h1>${title}</h1>
<p>Sign in to send a file.</p>
<p><a rel="noreferrer" href="${escapeHtml(link)}">Sign in</a></p>`
  return { title, content }
}

/** A short text in which hidden characters are shown, and whose direction does not affect the text around it. */
function word(text: string): string {
  return `<bdi>${escapeHtml(oneLine(text))}</bdi>`
}

function sizeText(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB']
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  const value = bytes / 1024 ** power
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${units[power] ?? ''}`
}

function timeHtml(at: number): string {
  const text = new Date(at).toISOString()
  return `<time datetime="${text}">${text.slice(0, 16).replace('T', ' ')} UTC</time>`
}

function minutesText(milliseconds: number): string {
  const minutes = Math.ceil(milliseconds / 60_000)
  return `in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}`
}
