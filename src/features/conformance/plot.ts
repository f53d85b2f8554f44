/** The history of runs as a small plot, as inline SVG. */
import { escapeHtml } from '../../core/web.ts'
import type { RunNumbers } from '../../records/test-reports.ts'

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
export function plot(history: readonly RunNumbers[], what: string): string {
  const values = history.flatMap((run) => valueOf(run) ?? [])
  if (values.length < 2) return ''
  const step = (WIDTH - 2 * MARGIN) / (values.length - 1)
  const points = values.map((value, at) => {
    const y = MARGIN + ((100 - value) / 100) * (HEIGHT - 2 * MARGIN)
    return [(MARGIN + at * step).toFixed(1), y.toFixed(1)] as const
  })
  const label = `${what} of the last ${values.length} runs: ${values.map((value) => Math.floor(value)).join(', ')}`
  const dots = points.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2"/>`).join('')
  const line = (y: number): string => `<line x1="0" x2="${WIDTH}" y1="${y}" y2="${y}"/>`
  return `<figure><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${escapeHtml(label)}">
${line(MARGIN)}${line(HEIGHT - MARGIN)}
<polyline points="${points.map((point) => point.join(',')).join(' ')}"/>${dots}
</svg><figcaption>${escapeHtml(`${what} of the last ${values.length} runs, from 0 to 100`)}</figcaption></figure>`
}
