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

/** A whole HTML document. */
export function htmlPage({ title, style, content, script }: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
${content}${script === undefined ? '' : `\n<script>${script}</script>`}
</body>
</html>
`
}

/** The headers of a page with this style: nothing is loaded, framed or kept, and nothing run but this script. */
export function pageHeaders(style: string, script?: string): Readonly<Record<string, string>> {
  const run = script === undefined ? '' : ` script-src ${allowed(script)};`
  return {
    'content-security-policy': `default-src 'none'; style-src ${allowed(style)};${run} form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
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
