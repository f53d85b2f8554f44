/**
 * Badges as SVG: one for the test of servers themselves, and one for the gateway's extensions in front of them. What one
 * says nothing about the other.
 */
import { escapeHtml } from '../../core/web.ts'
import { answeredText } from '../../records/test-reports.ts'
import { type Grade, gradeOf, isUnavailable, scoreText, type ShownServer } from './shown-server.ts'

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
