/** Reports the tools and prompts that are not listed as the configuration says, because others have their names. */
import type { Log } from '../core/log.ts'
import type { NameConflict } from '../catalog/names.ts'

/** How many reported conflicts are remembered. */
const MAX_REPORTED_CONFLICTS = 1000

/** Logs each conflict once. */
export function reportOnce(log: Log): (conflict: NameConflict) => void {
  const reported = new Set<string>()
  return ({ message }) => {
    if (reported.has(message) || reported.size >= MAX_REPORTED_CONFLICTS) return
    reported.add(message)
    log.warn('config.problem', { message })
  }
}
