/** The page about servers: the test of each, and the gateway's extensions in front of it. Texts of servers are escaped. */
import { oneLine } from '../../core/text/escape.ts'
import { escapeHtml, htmlPage, pageHeaders } from '../../core/web.ts'
import {
  answeredIn,
  failuresIn,
  type KeptReport,
  shortFailure,
  type TestReport,
} from '../../records/test-reports.ts'
import { plot } from './plot.ts'
import { gradeOf, isUnavailable, passedText, scoreText, type ShownServer } from './shown-server.ts'

const style = `
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif;--line:#8884;--soft:#5c6066;--good:#256b33;--fair:#7a4f00;--poor:#a8201a;--card:#f4f4f6}
@media (prefers-color-scheme:dark){:root{--soft:#a9aeb6;--good:#7bd88f;--fair:#f0b95b;--poor:#ff8a80;--card:#1f2023}}
*{box-sizing:border-box}
html{background:Canvas;color:CanvasText}
body{max-width:64rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.25rem;margin:0}h3{font-size:1rem;margin:0 0 .5rem}h4{font-size:1rem;margin:1rem 0 .25rem}
p{margin:.25rem 0}small,.soft,figcaption,time{color:var(--soft);font-size:.875rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}
th,td{text-align:left;padding:.4rem 1rem .4rem 0;border-bottom:1px solid var(--line);vertical-align:top}
section{border-top:1px solid var(--line);padding:1.5rem 0}
.parts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1rem;margin-top:.75rem;align-items:start}
.part{background:var(--card);border-radius:.5rem;padding:1rem;min-width:0}
.score{font-size:1.5rem;font-weight:600}
.good{color:var(--good)}.fair{color:var(--fair)}.poor{color:var(--poor)}
ul{padding-left:1.1rem;margin:.25rem 0}li{margin:.35rem 0}
code{font-size:.875rem}.id{color:var(--soft);font-size:.8rem}
pre{border:1px solid var(--line);padding:.5rem .75rem;border-radius:.25rem;white-space:pre-wrap;margin:.5rem 0}
summary{cursor:pointer;padding:.25rem 0}
figure{margin:.75rem 0}figcaption{margin-top:.25rem}svg{max-width:100%;height:auto;display:block}
polyline{fill:none;stroke:currentColor;stroke-width:1.5}circle{fill:currentColor}svg line{stroke:var(--soft);stroke-dasharray:1 3}
@media (max-width:40rem){
table,tbody,tr,td{display:block}
thead{position:absolute;left:-100rem}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td{border:0;padding:0}
td[data-of]::before{content:attr(data-of) ": ";color:var(--soft)}
}
`

/** The headers of the page. */
export const reportsHeaders = pageHeaders(style)

/** The page of these servers. */
export function reportsPage(servers: readonly ShownServer[], isStoreShared: boolean): string {
  const content = [
    '<h1>Servers and conformance</h1>',
    '<p>A server test is about the server itself: it is called, and each answer is judged. The score is from 0 to 100, and says little about tools of which no valid call succeeded. Gateway extensions are what the gateway adds in front of the server: they say nothing about its quality.</p>',
    ...(servers.length > 1 ? [overview(servers)] : []),
    ...servers.map((each) => section(each, isStoreShared)),
  ].join('\n')
  return htmlPage({ title: 'Servers and conformance', style, content })
}

function overview(servers: readonly ShownServer[]): string {
  const rows = servers.map(({ name, quality, conformance }) => {
    const failures = quality && quality.report.summary.failed + quality.report.summary.errors
    const failed = failures === undefined ? '' : failures === 0 ? 'none' : String(failures)
    const extensions = conformance ? passedText(conformance.report) : 'not run'
    return `<tr><td><a href="#${anchor(name)}">${shown(name)}</a></td><td data-of="Server test" class="${gradeOf(quality?.report)}">${shown(scoreText(quality?.report))}</td><td data-of="Failed checks">${failed}</td><td data-of="Gateway extensions">${shown(extensions)}</td></tr>`
  })
  return `<table>
<thead><tr><th>Server</th><th>Server test</th><th>Failed checks</th><th>Gateway extensions</th></tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>`
}

function section({ name, quality, conformance }: ShownServer, isStoreShared: boolean): string {
  const version = (quality ?? conformance)?.report.server_version
  const more = version === undefined ? '' : ` <small>${shown(version)}</small>`
  return `<section id="${anchor(name)}">
<h2>${shown(name)}${more}</h2>
<div class="parts">
<div class="part">
<h3>Server test</h3>
${quality ? qualityPart(name, quality) : notRun(`gatehouse test ${quoted(name)}`, isStoreShared)}
</div>
<div class="part">
<h3>Gateway extensions</h3>
${conformance ? extensionsPart(name, conformance) : notRun(`gatehouse conformance ${quoted(name)}`, isStoreShared)}
</div>
</div>
</section>`
}

function notRun(command: string, isStoreShared: boolean): string {
  const where = isStoreShared ? '.' : ', with a store that is not in memory.'
  return `<p class="score">not run</p>\n<p>Run <code>${shown(command)}</code>${where}</p>`
}

function qualityPart(name: string, { report, history }: KeptReport): string {
  const command = ['gatehouse test', quoted(name), ...(report.arguments ?? []).map(quoted)].join(' ')
  return `<p class="score ${gradeOf(report)}">${shown(scoreText(report))}</p>
${facts(report)}
${plot(history, 'Score')}
${isUnavailable(report) ? '' : coverageNote(report)}
${failures(report, command)}
${details(report)}`
}

/** Says what a score is not about. */
function coverageNote(report: TestReport): string {
  const left = (report.coverage?.listed ?? 0) - answeredIn(report)
  if (left <= 0) return ''
  const [which, them] = left === 1 ? ['tool was', 'it'] : ['tools were', 'them']
  return `<p>${left} ${which} not called, or failed all valid calls: the score says little about ${them}.</p>`
}

function extensionsPart(name: string, { report, history }: KeptReport): string {
  const { failed, errors } = report.summary
  return `<p class="score ${failed + errors === 0 ? 'good' : 'poor'}">${shown(passedText(report))}</p>
${facts(report)}
${plot(history, 'Passed checks in percent')}
${failures(report, `gatehouse conformance ${quoted(name)}`)}
${details(report)}`
}

function facts({ summary, suite_version: suite, tested_at: at }: TestReport): string {
  const { passed, failed, skipped, errors } = summary
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped, ${errors} not carried out`
  const day = at.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*Z$/, '$1 $2 UTC')
  return `<p>${counts}</p>\n<p class="soft">Suite ${shown(suite)}, <time datetime="${shown(at)}">${shown(day)}</time></p>`
}

type Result = TestReport['results'][number]

/** How many failures are on the page, and how many of them are not folded; the command prints all. */
const MAX_FAILURES = 30
const MAX_OPEN = 5
/** The longest sentence about a failure, in characters. */
const MAX_SENTENCE = 300

function failures(report: TestReport, command: string): string {
  const failed = failuresIn(report.results)
  if (failed.length === 0) return '<p>Nothing failed.</p>'
  const items = failed.slice(0, MAX_FAILURES).map(failure)
  const others = items.slice(MAX_OPEN)
  const count = report.summary.failed + report.summary.errors - items.length + others.length
  const rest = count > others.length ? `<p>The command prints all of them.</p>` : ''
  const [, tool] = failed.flatMap(({ test_id }) => /^tool\/([^/]+)\//.exec(test_id) ?? [])
  const one = tool === undefined ? '' : `\n${shown(`${command} --tool ${quoted(tool)}`)}`
  return `<h4>What failed</h4>
<ul>
${items.slice(0, MAX_OPEN).join('\n')}
</ul>
${count > 0 ? `<details><summary>And ${count} more</summary>\n<ul>\n${others.join('\n')}\n</ul>\n${rest}</details>` : ''}
<p>To see it again${one === '' ? '' : ', of all tools or of one'}:</p>
<pre><code>${shown(command)}${one}</code></pre>`
}

function failure(result: Result): string {
  return `<li>${shown(shortFailure(result, MAX_SENTENCE))} <code class="id">${shown(result.test_id)}</code></li>`
}

/** The checks that did not fail, folded. */
function details({ results }: TestReport): string {
  const of = (status: Result['status']): readonly Result[] => results.filter((each) => each.status === status)
  return [
    folded('Not checked', of('skipped'), ({ message = 'it does not apply' }) => message),
    folded('Passed', of('passed'), ({ description = '' }) => description),
  ].join('\n')
}

function folded(title: string, results: readonly Result[], textOf: (result: Result) => string): string {
  if (results.length === 0) return ''
  const items = results.map(
    (each) => `<li>${shown(textOf(each))} <code class="id">${shown(each.test_id)}</code></li>`,
  )
  return `<details><summary>${title} (${results.length})</summary>
<ul>
${items.join('\n')}
</ul>
</details>`
}

/** The id of the section of a server. */
function anchor(name: string): string {
  return `server-${encodeURIComponent(name)}`
}

/** A word as a shell reads it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}

function shown(text: string): string {
  return escapeHtml(oneLine(text))
}
