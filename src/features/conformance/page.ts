/** The page of conformance reports. Texts are escaped: messages can contain texts of servers. */
import { oneLine } from '../../core/text/escape.ts'
import { escapeHtml, htmlPage, pageHeaders } from '../../core/web.ts'
import type { ConformanceReport } from '../../records/conformance-reports.ts'

/** A server, and its latest report if there is one. */
export interface ShownServer {
  readonly name: string
  readonly report: ConformanceReport | undefined
}

const style = `
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;vertical-align:top}
.passed{color:#2b7d3b}.failed,.error{color:#b3261e;font-weight:600}.skipped{color:#777}
td{overflow-wrap:anywhere}
@media (max-width:40rem){
table,tbody,tr,td{display:block}
thead{position:absolute;left:-100rem}
tr{padding:.5rem 0;border-bottom:1px solid #8884}
td{border:0;padding:0}
}
@media (prefers-color-scheme:dark){.passed{color:#7bd88f}.failed,.error{color:#ff8a80}.skipped{color:#aaa}}
`

/** The headers of the page. */
export const reportsHeaders = pageHeaders(style)

/** The page of these servers. */
export function reportsPage(servers: readonly ShownServer[], isStoreShared: boolean): string {
  const content = ['<h1>Conformance</h1>', ...servers.map((each) => section(each, isStoreShared))].join('\n')
  return htmlPage({ title: 'Conformance', style, content })
}

function section({ name, report }: ShownServer, isStoreShared: boolean): string {
  if (!report) {
    const how = `The suite has not run for this server. Run <code>gatehouse conformance ${shown(name)}</code>`
    const where = isStoreShared ? '.' : ', with a store that is not in memory.'
    return `<h2>${shown(name)}</h2>\n<p>${how}${where}</p>`
  }
  const { summary, server_version: version, suite_version: suite, tested_at: at, results } = report
  const { passed, failed, skipped, errors } = summary
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped, ${errors} not carried out`
  return `<h2>${shown(name)} ${shown(version)}</h2>
<p>${counts}. Suite ${shown(suite)}, <time>${shown(at)}</time>.</p>
<table>
<thead><tr><th>Check</th><th>About</th><th>Category</th><th>Status</th><th>Message</th></tr></thead>
<tbody>
${results.map(row).join('\n')}
</tbody>
</table>`
}

type Result = ConformanceReport['results'][number]

function row({
  test_id: id,
  description = '',
  proposal_ref: about = '',
  category,
  status,
  message = '',
}: Result): string {
  const sentence = description === '' ? '' : `<br>${shown(description)}`
  const cells = [about, category].map((text) => `<td>${shown(text)}</td>`).join('')
  return `<tr><td><code>${shown(id)}</code>${sentence}</td>${cells}<td class="${shown(status)}">${shown(status)}</td><td>${shown(message)}</td></tr>`
}

function shown(text: string): string {
  return escapeHtml(oneLine(text))
}
