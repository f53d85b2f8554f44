/** A problem found in a configuration by asking servers. */
import type { Log } from './log.ts'

/** What is wrong with the configuration, at a key of it. */
export interface Finding {
  readonly path: readonly string[]
  readonly message: string
  /** Whether to point at the key rather than the value. */
  readonly at?: 'key'
  /** Deserves a word, and does not keep the gateway from serving. */
  readonly isMinor?: boolean
}

/** Writes to the log what is wrong with settings that hold already. */
export function logProblems(found: readonly Finding[], log: Log): void {
  for (const { path, message, isMinor = false } of found)
    log[isMinor ? 'warn' : 'error']('config.problem', { key: path.join('.'), problem: message })
}
