import { cpus, release } from 'node:os'
import type { Footprint, Verdict } from './budgets.ts'
import type { Row } from './summary.ts'

/** What the numbers were taken on. */
export function machine() {
  const processors = cpus()
  const model = processors[0]?.model ?? 'unknown'
  return { cpu: model, cores: processors.length, kernel: release(), node: process.version }
}

/** The measurements as a table for people. */
export function table(rows: readonly Row[]): string {
  const head = [
    'calls',
    'reply',
    'target',
    'calls/s',
    'p50 ms',
    'p99 ms',
    'CPU µs/call',
    'quartiles',
    '× base',
    'quartiles',
  ]
  const ordered = rows.toSorted((a, b) => a.bytes - b.bytes || a.concurrency - b.concurrency)
  return align([head, ...ordered.map(cells)])
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

function cells({ concurrency, bytes, target, rate, p50, p99, cpu, ratio }: Row): string[] {
  return [
    `${concurrency}`,
    `${Math.round(bytes / 1024)} KB`,
    target,
    rate.toFixed(0),
    p50.toFixed(2),
    p99.toFixed(2),
    cpu ? cpu.median.toFixed(1) : '',
    cpu ? `${cpu.low.toFixed(1)}–${cpu.high.toFixed(1)}` : '',
    ratio ? ratio.median.toFixed(2) : '',
    ratio ? `${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)}` : '',
  ]
}

function align(lines: readonly (readonly string[])[]): string {
  const widths = lines[0]?.map((_cell, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0))) ?? []
  const isText = (at: number) => lines.every((line) => !/^\d/.test(line[at] ?? ''))
  const cell = (text: string, at: number) =>
    isText(at) ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)
  return lines.map((line) => line.map(cell).join('  ').trimEnd() + '\n').join('')
}
