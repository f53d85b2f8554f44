/** Plots of calls as inline SVG: no script, no external file, and a text for those who do not see them. */
import { type CallSums, quantile, sumOf } from '../../records/call-rates.ts'
import { html, type Html, trusted } from './html.ts'

const WIDTH = 720
const HEIGHT = 120
/** The space between bars, in units of the plot. */
const GAP = 1

/** The shares of calls whose longest durations are shown. */
const MEDIAN = 0.5
const TAIL = 0.95

/** Bars of calls in equal parts of a time, oldest first: those that succeeded, were denied and failed above each other. */
export function ratePlot(series: readonly CallSums[], label: string): Html {
  const highest = Math.max(1, ...series.map(({ calls }) => calls))
  const width = WIDTH / series.length
  const bars = series.map(({ calls, denied, failed }, index) => {
    const parts = [
      ['good', calls - denied - failed],
      ['held', denied],
      ['bad', failed],
    ] as const
    let y = HEIGHT
    return parts.map(([kind, count]) => {
      const height = (count / highest) * HEIGHT
      y -= height
      return count > 0 ? rect(kind, { x: index * width, y, width: width - GAP, height }) : ''
    })
  })
  return svg(label, bars.flat(2).join(''))
}

/** Lines of the median and of the tail of durations in equal parts of a time, on a logarithmic scale. */
export function latencyPlot(series: readonly CallSums[], label: string): Html {
  const most = longest(series)
  const width = WIDTH / series.length
  const yOf = (ms: number): number =>
    HEIGHT - (Math.log10(Math.max(1, ms)) / Math.log10(most)) * (HEIGHT - 4) - 2
  const lines = (
    [
      ['tail', TAIL],
      ['median', MEDIAN],
    ] as const
  ).map(([kind, share]) => {
    // Without calls there is no duration, and the line has a gap.
    const runs: string[][] = [[]]
    for (const [index, sums] of series.entries()) {
      const ms = quantile(sums, share)
      if (ms === undefined) runs.push([])
      else runs.at(-1)?.push(`${round((index + 0.5) * width)},${round(yOf(ms))}`)
    }
    return runs.map((points) => lineOf(kind, points)).join('')
  })
  return svg(label, lines.join(''))
}

/** What the top of the plot of durations stands for, in milliseconds. */
export function longest(series: readonly CallSums[]): number {
  return Math.max(10, ...series.map((sums) => quantile(sums, TAIL) ?? 0))
}

/** Calls, failures, refusals and durations of a time in words. */
export function summaryOf(series: readonly CallSums[]): string {
  const total = sumOf(series)
  const { calls, failed, denied } = total
  if (calls === 0) return 'No calls.'
  const took = [quantile(total, MEDIAN), quantile(total, TAIL)].map((ms) => durationText(ms ?? 0))
  return `${calls} ${calls === 1 ? 'call' : 'calls'}, ${failed} failed, ${denied} denied. Half took at most ${took[0]}, 95 % at most ${took[1]}.`
}

/** A duration in milliseconds, in the unit that is read best. */
export function durationText(ms: number): string {
  if (ms < 1) return `${Math.round(ms * 100) / 100} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${Math.round(ms / 100) / 10} s`
  return `${Math.round(ms / 6000) / 10} min`
}

/** A part of the time of a call, for `waterfall`; times are in milliseconds after its beginning. */
export interface Bar {
  readonly kind: 'gateway' | 'server' | 'people'
  readonly start: number
  readonly ms: number
}

/** The time of a call as bars, one below the other. */
export function waterfall(bars: readonly Bar[], total: number, label: string): Html {
  const scale = WIDTH / Math.max(total, 0.01)
  const height = 22
  const rows = bars.map(({ kind, start, ms }, index) =>
    rect(kind, {
      x: start * scale,
      y: index * height + 3,
      width: Math.max(2, ms * scale),
      height: height - 6,
    }),
  )
  return svg(label, rows.join(''), bars.length * height)
}

function rect(
  kind: string,
  at: { readonly x: number; readonly y: number; readonly width: number; readonly height: number },
): string {
  const places = Object.entries(at).map(([name, value]) => `${name}="${round(value)}"`)
  return `<rect class="${kind}" ${places.join(' ')}/>`
}

function lineOf(kind: string, points: readonly string[]): string {
  const [only] = points
  if (only === undefined) return ''
  const [x, y] = only.split(',')
  return points.length === 1
    ? `<circle class="${kind}" cx="${x}" cy="${y}" r="2"/>`
    : `<polyline class="${kind}" points="${points.join(' ')}"/>`
}

/** The content is made of numbers and constants. */
function svg(label: string, content: string, height = HEIGHT): Html {
  return html`<svg class="plot" role="img" aria-label="${label}" viewBox="0 0 ${WIDTH} ${height}" preserveAspectRatio="none">${trusted(content)}</svg>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
