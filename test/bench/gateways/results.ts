import { cpus, release } from 'node:os'
import type { DangerousRow } from './dangerous.ts'
import type { Gateway, Part } from './gateway.ts'
import type { KillRow } from './kills.ts'
import type { FootprintRow, SpeedPlan, SpeedRow } from './speed.ts'

/** All that the comparison found: the file of which docs/performance.md is made. */
export interface Comparison {
  /** When each part was measured, in ISO 8601. */
  readonly taken: Readonly<Partial<Record<Part, string>>>
  readonly machine: Machine
  readonly plan: Plan
  readonly gateways: readonly Described[]
  readonly calls: readonly SpeedRow[]
  readonly footprint: readonly FootprintRow[]
  readonly kills: readonly KillRow[]
  readonly dangerous: readonly DangerousRow[]
  readonly notMeasured: readonly NotMeasured[]
}

/** What the figures were taken on. */
export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly kernel: string
  readonly node: string
}

/** This machine. */
export function machine(): Machine {
  const processors = cpus()
  const cpu = processors[0]?.model ?? 'unknown'
  return { cpu, cores: processors.length, kernel: release(), node: process.version }
}

/** How much is measured. */
export interface Plan extends SpeedPlan {
  /** How often each gateway is killed. */
  readonly kills: number
}

/** What readers need to know of a gateway. */
export type Described = Pick<Gateway, 'name' | 'title' | 'source' | 'transport' | 'configuration'>

/** What is missing of a gateway, and why. */
interface NotMeasured {
  readonly gateway: string
  readonly part: Part
  readonly reason: string
}

/** Results with those parts of earlier ones that were not measured again. */
export function withEarlier(results: Comparison, earlier: Comparison): Comparison {
  const isAgain = (part: Part): boolean => results.taken[part] !== undefined
  const speed = isAgain('speed') ? results : earlier
  const known = new Set(results.gateways.map(({ name }) => name))
  return {
    ...results,
    taken: { ...earlier.taken, ...results.taken },
    gateways: [...results.gateways, ...earlier.gateways.filter(({ name }) => !known.has(name))],
    calls: speed.calls,
    footprint: speed.footprint,
    kills: (isAgain('kills') ? results : earlier).kills,
    dangerous: (isAgain('dangerous') ? results : earlier).dangerous,
    notMeasured: [...results.notMeasured, ...earlier.notMeasured.filter(({ part }) => !isAgain(part))],
  }
}

/** The results as tables for a terminal. */
export function tables({ calls, footprint, kills, dangerous, notMeasured }: Comparison): string {
  return [
    table(
      ['gateway', 'calls at once', 'CPU µs/call', '× relay', 'calls/s', 'p50 ms', 'p99 ms'],
      calls.map(({ gateway, concurrency, cpu, ratio, rate, p50, p99 }) => [
        ...[gateway, `${concurrency}`, cpu.median.toFixed(0), ratio?.toFixed(2) ?? '', rate.toFixed(0)],
        ...[p50.toFixed(1), p99.toFixed(1)],
      ]),
    ),
    table(
      ['gateway', 'first answer ms', 'idle MB', 'peak MB'],
      footprint.map(({ gateway, startMs, idle, peak }) => [
        ...[gateway, startMs.median.toFixed(0), idle.toFixed(0), peak.toFixed(0)],
      ]),
    ),
    table(
      ['gateway', 'kills', 'calls', 'repeated', 'lost', 'failed', 'failed but done', 'first error'],
      kills.map((row) => [
        ...[row.gateway, row.kills, row.calls, row.repeated, row.lost, row.failed, row.failedButDone].map(
          String,
        ),
        row.error?.slice(0, 80) ?? '',
      ]),
    ),
    table(
      ['gateway', 'annotated', 'dangerous', 'reached', 'asked', 'harmless', 'reached'],
      dangerous.map((row) => [
        ...[row.gateway, row.annotated ? 'yes' : 'no'],
        ...[row.dangerous, row.reached, row.asked, row.harmless, row.harmlessReached].map(String),
      ]),
    ),
    table(
      ['not measured', 'part', 'reason'],
      notMeasured.map(({ gateway, part, reason }) => [gateway, part, reason]),
    ),
  ].join('\n')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ''
  const all = [head, ...rows]
  const widths = head.map((_cell, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)))
  return all
    .map(
      (row) =>
        row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd() + '\n',
    )
    .join('')
}
