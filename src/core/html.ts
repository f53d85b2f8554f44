import { hash } from 'node:crypto'

/** A page for people. */
interface Page {
  readonly title: string
  /** CSS, the same for every page of its kind. */
  readonly style: string
  /** HTML. */
  readonly content: string
  /** JavaScript, the same for every page of its kind; none where a page runs nothing. */
  readonly script?: string
}

/** A gate, the icon of each page. */
const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cpath fill='%237d8490' d='M3 21V8l2-2V3h2v2h3V3h4v2h3V3h2v3l2 2v13h-6v-6a3 3 0 0 0-6 0v6z'/%3E%3C/svg%3E"

/** A whole HTML document. */
export function htmlPage({ title, style, content, script }: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${ICON}">
<style>${style}</style>
</head>
<body>
${content}${script === undefined ? '' : `\n<script>${script}</script>`}
</body>
</html>
`
}

/** The headers of a page with this style: nothing is loaded but the icon, which is part of the page, nothing framed or kept, and nothing run but this script. */
export function pageHeaders(style: string, script?: string): Readonly<Record<string, string>> {
  const run = script === undefined ? '' : ` script-src ${allowed(script)};`
  return {
    'content-security-policy': `default-src 'none'; style-src ${allowed(style)};${run} img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'cache-control': 'no-store',
    // Under no-referrer browsers would not say where a form was sent from (Fetch, "append a request Origin header").
    'referrer-policy': 'same-origin',
  }
}

function allowed(text: string): string {
  return `'sha256-${hash('sha256', text, 'base64')}'`
}

/** A text as HTML that shows just that text. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
