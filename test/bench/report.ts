import { cpus, release } from 'node:os'
import type { Footprint, Verdict } from './budgets.ts'
import type { Spread } from './statistics.ts'
import type { Row } from './summary.ts'

/** What the numbers were taken on. */
export function machine() {
  const processors = cpus()
  const model = processors[0]?.model ?? 'unknown'
  return { cpu: model, cores: processors.length, kernel: release(), node: process.version }
}

/** The measurements as a table for people. */
export function table(rows: readonly Row[]): string {
  const isCompared = rows.some(({ toBuild }) => toBuild)
  const head = [
    ...['calls', 'reply', 'target', 'build', 'calls/s', 'p50 ms', 'p99 ms', 'peak MB'],
    ...['CPU µs/call', 'quartiles', '× base', '95 %', 'p99 × base', '95 %'],
    ...(isCompared ? ['now: × this', '95 %', 'p99 × this', '95 %'] : []),
  ]
  const ordered = rows.toSorted(
    (a, b) => a.bytes - b.bytes || a.concurrency - b.concurrency || compare(a.target, b.target),
  )
  return align([head, ...ordered.map((row) => cells(row).slice(0, head.length))])
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other)
}

/** What was measured apart from calls, a line each. */
export function footprintLines({ readyMs, memory }: Footprint): string {
  const lines = memory.map(({ target, idle, afterLoad }) => {
    const after = `${afterLoad.toFixed(0)} MB after all rounds`
    return `memory of ${target}: ${idle.toFixed(0)} MB before the first call, ${after}\n`
  })
  if (!readyMs) return lines.join('')
  const { median, low, high } = readyMs
  const quartiles = `${low.toFixed(0)}–${high.toFixed(0)}`
  return lines.join('') + `start until /health answers: ${median.toFixed(0)} ms (${quartiles})\n`
}

/** The verdicts, a line each. */
export function verdictLines(verdicts: readonly Verdict[]): string {
  return align(
    verdicts.map(({ name, limit, unit, value, met }) => {
      if (value === undefined) return ['----', name, 'not measured', `budget ${limit} ${unit}`]
      const digits = limit < 10 ? 2 : 0
      return [met ? 'good' : 'MISS', name, `${value.toFixed(digits)} ${unit}`, `budget ${limit} ${unit}`]
    }),
  )
}

function cells({ toBase, toBuild, ...row }: Row): string[] {
  return [
    `${row.concurrency}`,
    `${Math.round(row.bytes / 1024)} KB`,
    row.target,
    row.build ?? '',
    row.rate.toFixed(0),
    row.p50.toFixed(2),
    row.p99.toFixed(2),
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
