import { summed } from '../../src/observability/worker-metrics.ts'

/** Gauges that say the same of all gateways that share a store, or of each of them. */
const LARGEST =
  /^gatehouse_(?:upstream_up|build_info|writes_paused|pending_approvals|event_dead_letters|references|reference_bytes)[{ ]/

/** The metrics of several gateways as a collector combines them: sums, and the largest value where a sum means nothing. */
export function combinedMetrics(texts: readonly string[]): string {
  const split = (line: string) =>
    [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))] as const
  const largest = new Map<string, number>()
  for (const line of texts.flatMap((text) => text.split('\n')))
    if (LARGEST.test(line)) {
      const [series, value] = split(line)
      largest.set(series, Math.max(largest.get(series) ?? value, value))
    }
  // A sum of it and of nothing.
  const once = (line: string): string => {
    if (!LARGEST.test(line)) return line
    const [series] = split(line)
    const value = largest.get(series) ?? 0
    largest.set(series, 0)
    return `${series} ${value}`
  }
  return summed(texts.map((text) => text.split('\n').map(once).join('\n')))
}
