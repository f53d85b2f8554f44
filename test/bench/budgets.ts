import type { Spread } from './statistics.ts'
import type { Row } from './summary.ts'

/** What was measured apart from calls; no start times where there is no gateway. */
export interface Footprint {
  readonly readyMs?: Spread
  readonly memory: readonly Memory[]
}

/** The resident megabytes of a target's processes, before its first call and after all load. */
export interface Memory {
  readonly target: string
  readonly idle: number
  readonly afterLoad: number
}

/** One budget and what became of it; `value` is absent if it could not be measured. */
export interface Verdict {
  readonly name: string
  readonly limit: number
  readonly unit: string
  readonly value?: number
  readonly met: boolean
}

const calls: readonly (readonly [target: string, limit: number])[] = [
  ['gateway-legacy', 1.3],
  ['gateway-modern', 1.3],
  ['gateway-modern-modern', 1.3],
  ['gateway-stdio', 1.5],
  ['gateway-guarded', 1.5],
  ['gateway-keyed', 1.8],
]

/** Holds what was measured against every budget; calls count at concurrency 16 with replies of 1 KB. */
export function judge(all: readonly Row[], footprint: Footprint): Verdict[] {
  const rows = all.filter(({ build }) => build === undefined)
  const ratios = calls.map(([target, limit]) => {
    const row = rows.find((each) => each.target === target && each.concurrency === 16 && each.bytes === 1024)
    return verdict(`CPU per call, ${target}`, limit, '× baseline', row?.toBase?.cpu?.median)
  })
  const cpu = (name: string): number | undefined =>
    rows.find((each) => each.target === name && each.concurrency === 16 && each.bytes === 1024)?.cpu?.median
  const compared = (name: string, other: string): number | undefined => {
    const [one, two] = [cpu(name), cpu(other)]
    return one !== undefined && two !== undefined ? one / two : undefined
  }
  const keyed = rows.find((each) => each.target === 'gateway-keyed' && each.concurrency === 8)
  const memory = footprint.memory.find(({ target }) => target === 'gateway-legacy')
  return [
    ...ratios,
    verdict('CPU per call, guarded', 1.2, '× unguarded', compared('gateway-guarded', 'gateway-legacy')),
    verdict(
      'CPU per call, with descriptions',
      1.05,
      '× without',
      compared('gateway-full', 'gateway-undescribed'),
    ),
    verdict(
      'CPU per call that reads, with safe actions',
      1.03,
      '× without',
      compared('gateway-safe', 'gateway-plain'),
    ),
    verdict('p99 of keyed calls at half load', 3, '× p50', keyed && keyed.p99 / keyed.p50),
    verdict('idle memory', 120, 'MB', memory?.idle),
    verdict('start until /health answers', 600, 'ms', footprint.readyMs?.median),
  ]
}

function verdict(name: string, limit: number, unit: string, value: number | undefined): Verdict {
  if (value === undefined) return { name, limit, unit, met: false }
  return { name, limit, unit, value, met: value <= limit }
}
