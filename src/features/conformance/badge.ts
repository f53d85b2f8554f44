/** The badge of a conformance report, as SVG. */
import { escapeHtml } from '../../core/web.ts'
import type { ConformanceReport } from '../../records/conformance-reports.ts'

const LABEL = 'conformance'

/** The width of a character, and of the space beside a text, in pixels. */
const CHARACTER_WIDTH = 6.6
const PADDING = 6

/** A badge with what these reports found together. Skipped checks are not counted. */
export function badge(reports: readonly ConformanceReport[]): string {
  const { text, color } = valueOf(reports)
  const [left, right] = [widthOf(LABEL), widthOf(text)]
  const title = escapeHtml(`${LABEL}: ${text}`)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" role="img" aria-label="${title}">
<title>${title}</title>
<rect width="${left}" height="20" fill="#444"/>
<rect x="${left}" width="${right}" height="20" fill="${color}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="${PADDING}" y="14">${LABEL}</text>
<text x="${left + PADDING}" y="14">${escapeHtml(text)}</text>
</g>
</svg>
`
}

function valueOf(reports: readonly ConformanceReport[]): { readonly text: string; readonly color: string } {
  const sum = (count: keyof ConformanceReport['summary']): number =>
    reports.reduce((total, { summary }) => total + summary[count], 0)
  const [passed, broken] = [sum('passed'), sum('failed') + sum('errors')]
  if (passed + broken === 0) return { text: 'not run', color: '#777' }
  return { text: `${passed} of ${passed + broken} passed`, color: broken === 0 ? '#2b7d3b' : '#b3261e' }
}

function widthOf(text: string): number {
  return Math.ceil(text.length * CHARACTER_WIDTH) + 2 * PADDING
}
