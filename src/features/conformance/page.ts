/**
 * The reports of tests for people: the page, with the history of runs as a plot, and badges as SVG: one for the test of
 * servers themselves, and one for the gateway's extensions in front of them. What one says nothing about the other.
 */
import { oneLine } from '../../core/text/escape.ts'
import { escapeHtml } from '../../core/web.ts'
import {
  answeredIn,
  answeredText,
  coverageText,
  failuresIn,
  hasUnreadTools,
  type KeptReport,
  type RunNumbers,
  shortFailure,
  type TestReport,
} from '../../records/test-reports.ts'

/** A server, the last test of itself, and the last run of the conformance suite in front of it. */
export interface ShownServer {
  readonly name: string
  readonly quality: KeptReport | undefined
  readonly conformance: KeptReport | undefined
}

/** How good a result is; `none` if nothing ran. */
export type Grade = 'good' | 'fair' | 'poor' | 'none'

/** From these scores on, a result is good, or fair. */
const GOOD = 90
const FAIR = 70

/**
 * The grade of a score; never good if fewer than half of the tools answered, or a check could not be carried out, and poor
 * if its tools are not known.
 */
export function gradeOf(report: TestReport | undefined): Grade {
  const total = report?.score?.total
  if (!report || total === undefined || total === null) return 'none'
  if (total < FAIR || hasUnreadTools(report)) return 'poor'
  const isCovered = answeredIn(report) * 2 >= (report.coverage?.listed ?? 0)
  return total >= GOOD && isCovered && report.summary.errors === 0 ? 'good' : 'fair'
}

/** The score, and how many tools it is about. */
export function scoreText(report: TestReport | undefined): string {
  if (!report) return 'not run'
  if (isUnavailable(report)) return 'unavailable'
  const total = report.score?.total ?? undefined
  return `${total === undefined ? 'nothing checked' : `${total}/100`} · ${coverageText(report)}`
}

/** Whether the server could not be tested at all. */
function isUnavailable({ results, coverage }: TestReport): boolean {
  const isLost = results.some(({ test_id, status }) => test_id === 'server/available' && status === 'error')
  return isLost && coverage?.listed === 0
}

/** The checks of the gateway's extensions that passed, among those that apply. */
function passedText({ summary: { passed, failed, errors } }: TestReport): string {
  const all = passed + failed + errors
  return all === 0 ? 'nothing checked' : `${passed} of ${all} passed`
}

/** The classes of grades in the style sheet of the pages. */
const kinds: Readonly<Record<Grade, string>> = {
  good: 'safe',
  fair: 'reversible',
  poor: 'destructive',
  none: '',
}

/** How the page is framed. */
export const reportsFrame = { title: 'Servers and conformance', kind: 'report', width: 'wide' } as const

/** The content of the page of these servers. */
export function reportsPage(servers: readonly ShownServer[], isStoreShared: boolean): string {
  return [
    '<h1>Servers and conformance</h1>',
    '<p>A server test is about the server itself: it is called, and each answer is judged. The score is from 0 to 100, and says little about tools of which no valid call succeeded. Gateway extensions are what the gateway adds in front of the server: they say nothing about its quality.</p>',
    ...(servers.length > 1 ? [overview(servers)] : []),
    ...servers.map((each) => section(each, isStoreShared)),
  ].join('\n')
}

function overview(servers: readonly ShownServer[]): string {
  const rows = servers.map(({ name, quality, conformance }) => {
    const failures = quality && quality.report.summary.failed + quality.report.summary.errors
    const failed = failures === undefined ? '' : failures === 0 ? 'none' : String(failures)
    const extensions = conformance ? passedText(conformance.report) : 'not run'
    return `<tr><td><a href="#${anchor(name)}">${shown(name)}</a></td><td data-of="Server test" class="${kinds[gradeOf(quality?.report)]}">${shown(scoreText(quality?.report))}</td><td data-of="Failed checks">${failed}</td><td data-of="Gateway extensions">${shown(extensions)}</td></tr>`
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
<div class="cards">
<div class="card">
<h3>Server test</h3>
${quality ? qualityPart(name, quality) : notRun(`gatehouse test ${quoted(name)}`, isStoreShared)}
</div>
<div class="card">
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
  return `<p class="score ${kinds[gradeOf(report)]}">${shown(scoreText(report))}</p>
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
  return `<p class="score ${failed + errors === 0 ? 'safe' : 'destructive'}">${shown(passedText(report))}</p>
${facts(report)}
${plot(history, 'Passed checks in percent')}
${failures(report, `gatehouse conformance ${quoted(name)}`)}
${details(report)}`
}

function facts({ summary, suite_version: suite, tested_at: at }: TestReport): string {
  const { passed, failed, skipped, errors } = summary
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped, ${errors} not carried out`
  const day = at.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*Z$/, '$1 $2 UTC')
  return `<p>${counts}</p>\n<p class="about">Suite ${shown(suite)}, <time datetime="${shown(at)}">${shown(day)}</time></p>`
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
  return `<li>${shown(shortFailure(result, MAX_SENTENCE))} <code class="about">${shown(result.test_id)}</code></li>`
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
    (each) => `<li>${shown(textOf(each))} <code class="about">${shown(each.test_id)}</code></li>`,
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

/** The size of the plot, and the space around its line, in pixels. */
const WIDTH = 240
const HEIGHT = 56
const MARGIN = 6

/** How far a run is from nothing (0) to everything (100); undefined if nothing was checked. */
function valueOf({ score, passed, failed }: RunNumbers): number | undefined {
  if (score === null) return undefined
  if (score !== undefined) return Math.min(100, Math.max(0, score))
  return passed + failed === 0 ? undefined : (100 * passed) / (passed + failed)
}

/** A plot of the runs, the oldest first; empty for fewer than two, which are no history. */
function plot(history: readonly RunNumbers[], what: string): string {
  const values = history.flatMap((run) => valueOf(run) ?? [])
  if (values.length < 2) return ''
  const step = (WIDTH - 2 * MARGIN) / (values.length - 1)
  const points = values.map((value, at) => {
    const y = MARGIN + ((100 - value) / 100) * (HEIGHT - 2 * MARGIN)
    return [(MARGIN + at * step).toFixed(1), y.toFixed(1)] as const
  })
  const label = `${what} of the last ${values.length} runs: ${values.map((value) => Math.floor(value)).join(', ')}`
  const dots = points.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2" class="median"/>`).join('')
  return `<figure><svg class="plot" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(label)}">
<polyline class="median" points="${points.map((point) => point.join(',')).join(' ')}"/>${dots}
</svg><figcaption>${escapeHtml(`${what} of the last ${values.length} runs, from 0 to 100`)}</figcaption></figure>`
}

/** The width of a character, and of the space beside a text, in pixels. */
const CHARACTER_WIDTH = 6.6
const PADDING = 6

const colors: Readonly<Record<Grade, string>> = {
  good: '#2b7d3b',
  fair: '#8a5a00',
  poor: '#b3261e',
  none: '#666',
}
const grades: readonly Grade[] = ['poor', 'fair', 'good']

/** A badge with the score of the tests of these servers, and how many tools answered; of several, the lowest score. */
export function qualityBadge(servers: readonly ShownServer[]): string {
  const reports = servers.flatMap(({ quality }) => quality?.report ?? [])
  const [first] = reports
  if (!first) return badge('server test', 'not run', 'none')
  if (servers.length === 1) return badge('server test', scoreText(first), gradeOf(first))
  const scores = reports.flatMap(({ score }) => score?.total ?? [])
  const lowest = scores.length === 0 ? 'nothing checked' : `lowest ${Math.min(...scores)}/100`
  const lost = reports.filter(isUnavailable).length
  const text = [
    lowest,
    answeredText(reports),
    `${reports.length} of ${servers.length} servers`,
    ...(lost > 0 ? [`${lost} unavailable`] : []),
  ].join(' · ')
  const worst = grades.find((grade) => reports.some((report) => gradeOf(report) === grade)) ?? 'none'
  const isWhole = reports.length === servers.length
  return badge('server test', text, worst === 'good' && !isWhole ? 'fair' : worst)
}

/** A badge with what the conformance suite found of the gateway's extensions. Skipped checks are not counted. */
export function extensionsBadge(servers: readonly ShownServer[]): string {
  const reports = servers.flatMap(({ conformance }) => conformance?.report ?? [])
  const sum = (count: 'passed' | 'failed' | 'errors'): number =>
    reports.reduce((total, { summary }) => total + summary[count], 0)
  const [passed, broken] = [sum('passed'), sum('failed') + sum('errors')]
  const label = 'gateway extensions'
  if (passed + broken === 0) return badge(label, 'not run', 'none')
  return badge(label, `${passed} of ${passed + broken} checks passed`, broken === 0 ? 'good' : 'poor')
}

function badge(label: string, text: string, grade: Grade): string {
  const [left, right] = [widthOf(label), widthOf(text)]
  const title = escapeHtml(`${label}: ${text}`)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" role="img" aria-label="${title}">
<title>${title}</title>
<rect width="${left}" height="20" fill="#444"/>
<rect x="${left}" width="${right}" height="20" fill="${colors[grade]}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="${PADDING}" y="14">${label}</text>
<text x="${left + PADDING}" y="14">${escapeHtml(text)}</text>
</g>
</svg>
`
}

function widthOf(text: string): number {
  return Math.ceil(text.length * CHARACTER_WIDTH) + 2 * PADDING
}
