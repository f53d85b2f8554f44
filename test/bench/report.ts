// The results for people.
import type { Verdict } from './budgets.ts'
import type { Ceiling } from './ceiling.ts'
import type { Results } from './results.ts'
import type { Spread } from './statistics.ts'
import type { Row } from './summary.ts'

/** Everything that people need of the results. */
export function reportText({ machine, builds, notes, rows, ceilings, startMs, verdicts }: Results): string {
  const { cpu, cores, kernel, node, isPinned } = machine
  const pinned = isPinned ? ', each measured process on a core of its own' : ''
  return [
    `${cpu}, ${cores} cores, Linux ${kernel}, Node ${node}${pinned}`,
    ...builds.map(({ name, commit }) => `${name ?? 'working copy'}: ${commit}`),
    ...notes.map((note) => `note: ${note}`),
    '',
    table(rows),
    ...ceilings.map(ceilingLine),
    ...(startMs
      ? [`start until /health answers: ${spreadCells(startMs, 0).join(' ms, quartiles ')}`, '']
      : []),
    verdictLines(verdicts),
  ].join('\n')
}

function table(rows: readonly Row[]): string {
  const isCompared = rows.some(({ toBuild }) => toBuild)
  const head = [
    ...['calls', 'reply', 'target', 'build', 'calls/s', 'p50 ms', 'p99 ms', 'idle MB', 'peak MB'],
    ...['CPU µs/call', 'quartiles', '× base', '95 %', 'p99 × base', '95 %'],
    ...(isCompared ? ['now: × this', '95 %', 'p99 × this', '95 %'] : []),
  ]
  const places = [...new Set(rows.map(({ target }) => target))]
  const ordered = rows.toSorted(
    (a, b) =>
      a.bytes - b.bytes ||
      a.concurrency - b.concurrency ||
      places.indexOf(a.target) - places.indexOf(b.target),
  )
  return align([head, ...ordered.map((row) => cells(row).slice(0, head.length))])
}

function ceilingLine({ store, concurrency, rate, cpu, share }: Ceiling): string {
  const reached = share === undefined ? '' : `; keyed calls reach ${(share * 100).toFixed(0)} % of it`
  const ceiling = `${rate.toFixed(0)} calls/s of two writes each, ${cpu.toFixed(1)} µs of CPU per call`
  return `ceiling of ${store}, ${concurrency} at once: ${ceiling}${reached}`
}

/** The verdicts, a line each. */
function verdictLines(verdicts: readonly Verdict[]): string {
  return align(
    verdicts.map(({ name, target = '', limit, stretch, unit, value, met, stretchMet }) => {
      const aim = stretch === undefined ? '' : `, aim ${stretch}`
      const budget = `budget ${limit}${aim} ${unit}`
      const about = name.includes(target) ? name : `${name}, ${target}`
      if (value === undefined) return ['----', about, 'not measured', budget]
      const mark = met ? (stretchMet && stretch !== undefined ? 'aim ' : 'good') : 'MISS'
      return [mark, about, `${value.toFixed(limit < 10 ? 2 : 0)} ${unit}`, budget]
    }),
  )
}

function cells({ toBase, toBuild, ...row }: Row): string[] {
  return [
    `${row.concurrency}`,
    row.bytes < 1_000_000 ? `${Math.round(row.bytes / 1024)} KB` : `${row.bytes / 1e6} MB`,
    row.target,
    row.build ?? '',
    row.rate.toFixed(0),
    row.p50.toFixed(2),
    row.p99.toFixed(2),
    row.idle?.toFixed(0) ?? '',
    row.peak?.toFixed(0) ?? '',
    ...spreadCells(row.cpu, 1),
    ...[toBase?.cpu, toBase?.p99, toBuild?.cpu, toBuild?.p99].flatMap((each) => spreadCells(each, 2)),
  ]
}

function spreadCells(spread: Spread | undefined, digits: number): string[] {
  if (!spread) return ['', '']
  const { median, low, high } = spread
  return [median.toFixed(digits), `${low.toFixed(digits)}–${high.toFixed(digits)}`]
}

function align(lines: readonly (readonly string[])[]): string {
  const widths = lines[0]?.map((_cell, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0))) ?? []
  const isText = (at: number) => lines.every((line) => !/^\d/.test(line[at] ?? ''))
  const cell = (text: string, at: number) =>
    isText(at) ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)
  return lines.map((line) => line.map(cell).join('  ').trimEnd() + '\n').join('')
}
