/** A configuration problem that was found by querying servers. */
import type { Log } from './log.ts'

/** A problem at a key of the configuration. */
export interface Finding {
  readonly path: readonly string[]
  readonly message: string
  /** Whether to point at the key instead of the value. */
  readonly at?: 'key'
  /** Worth a warning, but it does not prevent the gateway from serving. */
  readonly isMinor?: boolean
}

/** Logs problems of settings that are already in use. */
export function logProblems(found: readonly Finding[], log: Log): void {
  for (const { path, message, isMinor = false } of found)
    log[isMinor ? 'warn' : 'error']('config.problem', { key: path.join('.'), problem: message })
}
