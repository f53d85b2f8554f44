/** Reports the tools and prompts that are left out of the shared lists because another one has their name. */
import { type HiddenName, hiddenText } from '../catalog/aggregate.ts'
import type { Log } from '../core/log.ts'

/** How many reported hidden names are remembered. */
const MAX_REPORTED_NAMES = 1000

/** Logs each hidden name once. */
export function reportOnce(log: Log): (hidden: HiddenName) => void {
  const reported = new Set<string>()
  return (hidden) => {
    if (reported.has(hidden.exposed) || reported.size >= MAX_REPORTED_NAMES) return
    reported.add(hidden.exposed)
    log.warn('config.problem', { message: hiddenText(hidden) })
  }
}
