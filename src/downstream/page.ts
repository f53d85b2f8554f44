import { escapeHtml as escape, htmlPage, pageHeaders } from '../core/html.ts'

/** One server as the page shows it. */
interface Row {
  readonly name: string
  readonly state: string
}

interface Page {
  readonly url: string
  readonly version: string
  readonly isAggregate: boolean
  readonly rows: readonly Row[]
}

/** The page for people at `/`. */
export function renderPage({ url, version, isAggregate, rows }: Page): string {
  const endpoint = `${url}/mcp`
  const servers = rows.map(({ name, state }) => {
    const address = `${endpoint}/${encodeURIComponent(name)}`
    return `<tr><th scope="row">${escape(name)}</th><td>${escape(state)}</td><td><code>${escape(address)}</code></td></tr>`
  })
  const all = isAggregate ? `<p>All servers together: <code>${escape(endpoint)}</code></p>` : ''
  const content = `<h1>Gatehouse</h1>
${all}
<table>
<thead><tr><th scope="col">Server</th><th scope="col">State</th><th scope="col">Address for MCP clients</th></tr></thead>
<tbody>${servers.join('')}</tbody>
</table>
<p><a href="/ready">/ready</a> · <a href="/health">/health</a> · version ${escape(version)}</p>`
  return htmlPage({ title: 'Gatehouse', style, content })
}

const style = `
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #8884; overflow-wrap: anywhere }
`

/** What the page is sent with. */
export const frontPageHeaders = { ...pageHeaders(style), 'referrer-policy': 'no-referrer' }
