/** Bar charts as SVG files that are readable on light and dark pages. */

/** One bar: what it is of, and its value. */
interface Bar {
  readonly label: string
  readonly value: number
  /** The value as it is written beside the bar. */
  readonly text: string
  /** The bars that the page is about. */
  readonly isOwn?: boolean
}

/** A chart: its title and its description are for those who do not see it too. */
export interface Chart {
  readonly title: string
  readonly description: string
  readonly bars: readonly Bar[]
}

const WIDTH = 800
const ROW = 26
const TOP = 44
const LABEL_WIDTH = 310
const TEXT_WIDTH = 150
/** A bar this many times as long as the next one would leave nothing of the others: it is cut. */
const MAX_TIMES_NEXT = 4
const MAX_LABEL_CHARACTERS = 46

/** The chart as an SVG document, with horizontal bars from 0. One that is much longer than all others is cut, and says so. */
export function svgOf({ title, description, bars }: Chart): string {
  const height = TOP + bars.length * ROW + 12
  const most = scaleOf(bars.map(({ value }) => value))
  const room = WIDTH - LABEL_WIDTH - TEXT_WIDTH
  const rows = bars.flatMap(({ label, value, text, isOwn }, index) => {
    const y = TOP + index * ROW
    const width = Math.min(room, Math.max(1, (Math.max(0, value) / most) * room)).toFixed(1)
    const beside = value > most ? `${text} (bar cut)` : text
    return [
      `<text x="${LABEL_WIDTH - 10}" y="${y + 16}" text-anchor="end">${escaped(shortened(label))}</text>`,
      `<rect class="${isOwn === true ? 'own' : 'other'}" x="${LABEL_WIDTH}" y="${y + 3}" width="${width}" height="18" rx="2"/>`,
      `<text x="${(LABEL_WIDTH + Number(width) + 6).toFixed(1)}" y="${y + 16}">${escaped(beside)}</text>`,
    ]
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-labelledby="title description">`,
    `<title id="title">${escaped(title)}</title>`,
    `<desc id="description">${escaped(description)}</desc>`,
    '<style>',
    'rect.page { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif } text.title { font-weight: 600; font-size: 15px }',
    'rect.own { fill: #0969da } rect.other { fill: #8c959f }',
    '@media (prefers-color-scheme: dark) {',
    '  rect.page { fill: #0d1117 } text { fill: #e6edf3 } rect.own { fill: #4493f8 } rect.other { fill: #7d8590 }',
    '}',
    '</style>',
    `<rect class="page" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="12" y="26">${escaped(title)}</text>`,
    ...rows,
    '</svg>',
    '',
  ].join('\n')
}

/** The value of a bar of the whole width. */
function scaleOf(values: readonly number[]): number {
  const [most = 0, next = 0] = values.toSorted((one, other) => other - one)
  const scale = next > 0 && most > MAX_TIMES_NEXT * next ? 1.5 * next : most
  return Math.max(scale, Number.MIN_VALUE)
}

/** A text between tags or in an attribute. What XML has no character for is left out. */
function escaped(text: string): string {
  const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  return text
    .toWellFormed()
    .replaceAll(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '')
    .replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '')
    .replaceAll(/[&<>"]/g, (character) => entities[character] ?? '')
}

function shortened(label: string): string {
  return label.length <= MAX_LABEL_CHARACTERS ? label : `${label.slice(0, MAX_LABEL_CHARACTERS - 1)}…`
}
